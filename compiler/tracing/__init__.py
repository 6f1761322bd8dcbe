"""Python to expressions: the tracer, syntax, symbolic values, and what expressions mean."""
