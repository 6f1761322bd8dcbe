"""Plans in one process: threads, no JVM."""
