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
from tracetypes.stdlib.joins import AsOf, Joined, asof_join, interval_join
from tracetypes.stdlib.learned import (
    Cluster,
    Lagged,
    Predicted,
    RegressionTree,
    cluster,
    kmeans,
    lagged,
    predict,
    train_regression_tree,
    tree_of,
)
from tracetypes.stdlib.lookups import Postgres, Sqlite, look_up
from tracetypes.stdlib.ordered import accumulate, deduplicate, differences, exponential_mean, interpolate, pairwise
from tracetypes.stdlib.preview import preview
from tracetypes.stdlib.sketches import approximate_distinct, distinct, quantile, quantiles
from tracetypes.stdlib.stateless import enrich, filter, flat_map, map, map_values, rekey
from tracetypes.stdlib.windows import Invertible, Session, Windowed, count_window, session, sliding, tumbling

__all__ = [
    "Aggregate",
    "AsOf",
    "Cluster",
    "Invertible",
    "Joined",
    "Lagged",
    "Postgres",
    "Predicted",
    "RegressionTree",
    "Session",
    "Sqlite",
    "Windowed",
    "accumulate",
    "all_of",
    "approximate_distinct",
    "asof_join",
    "both",
    "cluster",
    "count",
    "count_window",
    "deduplicate",
    "differences",
    "distinct",
    "enrich",
    "evaluate",
    "exponential_mean",
    "fast_sum",
    "filter",
    "flat_map",
    "interpolate",
    "interval_join",
    "kmeans",
    "lagged",
    "last",
    "look_up",
    "map",
    "map_values",
    "max",
    "mean",
    "min",
    "pairwise",
    "predict",
    "preview",
    "quantile",
    "quantiles",
    "rekey",
    "running",
    "session",
    "sliding",
    "sum",
    "summarise",
    "top",
    "train_regression_tree",
    "tree_of",
    "tumbling",
    "types_of",
    "variance",
]
