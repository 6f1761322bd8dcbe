"""Queries IV and V of the Yahoo benchmark in other engines. Each module runs by the interpreter that has the engine.

They import nothing of this repository but each other, take their orders as a JSON argument and print a JSON line.
"""
