"""Symbolic values: how Python code is run without values, for :mod:`tracetypes.compiler.tracing.tracer`."""
