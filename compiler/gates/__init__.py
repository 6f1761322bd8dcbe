"""Gates in a run: what they know, which markers they let through, and what becomes of the rows between."""
