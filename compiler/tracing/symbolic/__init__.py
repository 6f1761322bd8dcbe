"""Symbolic values, with which :mod:`tracetypes.compiler.tracing.tracer` runs Python code without values."""
