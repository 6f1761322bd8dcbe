"""Operators written as ordinary user code: subclasses of the templates come to stand here."""
