"""How a checked dataflow runs: passes, plan, and the backends. Imported as ``tracetypes.compiler``."""
