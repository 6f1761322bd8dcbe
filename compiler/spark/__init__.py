"""The Spark backend: a plan as one PySpark Structured Streaming query with markers in band."""
