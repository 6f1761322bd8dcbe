"""Connectors to the outside of a dataflow: files, topics, tables."""
