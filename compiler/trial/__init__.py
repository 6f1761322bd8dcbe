"""Scripted sources, the adversary and rehearsals: for `tracetypes.testing` and `tracetypes.recovery` only."""
