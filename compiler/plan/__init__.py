"""From segments to plans: the planner, the plan itself, fingerprints, `explain` and pictures."""
