"""What lies outside of a dataflow: files, topics, tables."""
