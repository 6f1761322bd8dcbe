"""Many dataflows as the fewest running operators: what a submitted flow starts and reuses, what a removed flow stops."""
