"""From a checked graph to segments: rewriting, passes, and the cuts between segments."""
