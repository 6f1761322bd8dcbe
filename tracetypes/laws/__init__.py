"""Laws of operators as equations, and the search for a counter-example. ``tracetypes.testing`` is what users import."""
