"""Operators written as ordinary user code: subclasses of the templates.

``map``, ``filter``, ``sum``, ``min`` and ``max`` are named like builtins: import the module (``from tracetypes import
stdlib as ts``), or the names that you need.
"""

from tracetypes.stdlib.aggregates import (
    Aggregate,
    all_of,
    both,
    count,
    evaluate,
    fast_sum,
    last,
    max,
    mean,
    min,
    running,
    sum,
    summarise,
    top,
    types_of,
    variance,
)
from tracetypes.stdlib.lookups import Postgres, Sqlite, look_up
from tracetypes.stdlib.preview import preview
from tracetypes.stdlib.sketches import approximate_distinct, distinct, quantile, quantiles
from tracetypes.stdlib.stateless import enrich, filter, flat_map, map, map_values, rekey

__all__ = [
    "Aggregate",
    "Postgres",
    "Sqlite",
    "all_of",
    "approximate_distinct",
    "both",
    "count",
    "distinct",
    "enrich",
    "evaluate",
    "fast_sum",
    "filter",
    "flat_map",
    "last",
    "look_up",
    "map",
    "map_values",
    "max",
    "mean",
    "min",
    "preview",
    "quantile",
    "quantiles",
    "rekey",
    "running",
    "sum",
    "summarise",
    "top",
    "types_of",
    "variance",
]
