"""Laws of operators as equations. Each takes an operator and some items, and returns the counter-example, if they are one.
:mod:`tracetypes.laws` draws items; a run takes some of its own rows."""
