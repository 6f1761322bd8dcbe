"""Operators written as ordinary user code: subclasses of the templates.

``map``, ``filter``, ``sum``, ``min`` and ``max`` have the names of builtins: import the module (``from tracetypes
import stdlib as ts``), or the names that you need.
"""

from tracetypes.stdlib.aggregates import Aggregate, evaluate, types_of
from tracetypes.stdlib.asof_joins import AsOf, asof_join
from tracetypes.stdlib.bits import bit_and, bit_or, bit_xor
from tracetypes.stdlib.calendar_windows import calendar_window
from tracetypes.stdlib.clusters import Cluster, cluster, kmeans, lloyd
from tracetypes.stdlib.distinct_values import Counted, collect_set, histogram, mode, top_distinct
from tracetypes.stdlib.duplicates import deduplicate
from tracetypes.stdlib.equi_joins import equi_join
from tracetypes.stdlib.exact_quantiles import exact_quantile, exact_quantiles, median
from tracetypes.stdlib.extremes import max, min
from tracetypes.stdlib.frame_columns import current, first_value, frame, lag, lead
from tracetypes.stdlib.frames import over
from tracetypes.stdlib.gap_filling import interpolate
from tracetypes.stdlib.interval_joins import interval_join
from tracetypes.stdlib.item_windows import count_window, time_window
from tracetypes.stdlib.joins import Joined
from tracetypes.stdlib.lists import collect
from tracetypes.stdlib.lookups import Postgres, Sqlite, lookup_join
from tracetypes.stdlib.moments import Line, correlation, covariance, regression, stddev
from tracetypes.stdlib.ordered import diff, ewm_mean, pairwise, scan
from tracetypes.stdlib.panes import Invertible
from tracetypes.stdlib.per_block import aggregate, running
from tracetypes.stdlib.preview import preview
from tracetypes.stdlib.products import both, struct
from tracetypes.stdlib.rankings import Ranked, first, last, top
from tracetypes.stdlib.session_joins import session_join
from tracetypes.stdlib.sessions import Session, session
from tracetypes.stdlib.sketches import approx_count_distinct, count_distinct, quantile, quantiles
from tracetypes.stdlib.stateless import enrich, explode, filter, flat_map, key_by, map, map_values
from tracetypes.stdlib.sums import count, fast_sum, mean, sum, variance
from tracetypes.stdlib.table_joins import table_join
from tracetypes.stdlib.time_windows import sliding, tumbling
from tracetypes.stdlib.trees import Lagged, Predicted, RegressionTree, lagged, predict, train_regression_tree, tree_of
from tracetypes.stdlib.window_joins import window_join
from tracetypes.stdlib.window_ranks import RankedIn, window_ranks
from tracetypes.stdlib.windows import Windowed

__all__ = [
    "Aggregate",
    "AsOf",
    "Cluster",
    "Counted",
    "Invertible",
    "Joined",
    "Lagged",
    "Line",
    "Postgres",
    "Predicted",
    "Ranked",
    "RankedIn",
    "RegressionTree",
    "Session",
    "Sqlite",
    "Windowed",
    "aggregate",
    "approx_count_distinct",
    "asof_join",
    "bit_and",
    "bit_or",
    "bit_xor",
    "both",
    "calendar_window",
    "cluster",
    "collect",
    "collect_set",
    "correlation",
    "count",
    "count_distinct",
    "count_window",
    "covariance",
    "current",
    "deduplicate",
    "diff",
    "enrich",
    "equi_join",
    "evaluate",
    "ewm_mean",
    "exact_quantile",
    "exact_quantiles",
    "explode",
    "fast_sum",
    "filter",
    "first",
    "first_value",
    "flat_map",
    "frame",
    "histogram",
    "interpolate",
    "interval_join",
    "key_by",
    "kmeans",
    "lag",
    "lagged",
    "last",
    "lead",
    "lloyd",
    "lookup_join",
    "map",
    "map_values",
    "max",
    "mean",
    "median",
    "min",
    "mode",
    "over",
    "pairwise",
    "predict",
    "preview",
    "quantile",
    "quantiles",
    "regression",
    "running",
    "scan",
    "session",
    "session_join",
    "sliding",
    "stddev",
    "struct",
    "sum",
    "table_join",
    "time_window",
    "top",
    "top_distinct",
    "train_regression_tree",
    "tree_of",
    "tumbling",
    "types_of",
    "variance",
    "window_join",
    "window_ranks",
]
