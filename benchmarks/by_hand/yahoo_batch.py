"""Queries II to V of the Yahoo benchmark over files that do not grow, as an expert would write them in PySpark: native
expressions, windows and aggregations. Their rows are those of our flows over the same files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from benchmarks.by_hand.yahoo import Reference, located, sliding, sliding_over_panes, tumbling

ACTIONS = ("view", "views"), ("click", "clicks"), ("purchase", "purchases")


def _counted(events: DataFrame, key: str, span: float, *more: Column) -> DataFrame:
    """The actions of each key in spans of event time."""
    counts = [F.count_if(F.col("event_type") == name).alias(column) for name, column in ACTIONS]
    place = F.floor(F.col("event_time") / (span * 1_000)).alias("span")
    return events.groupBy(key, place).agg(*[*counts, *more])


def _so_far(counted: DataFrame, key: str, *more: Column) -> DataFrame:
    """The totals at the end of each span."""
    past = Window.partitionBy(key).orderBy("span")
    return counted.select(key, *(F.sum(column).over(past).alias(column) for _, column in ACTIONS), *more)


def count_by_user(events: DataFrame, reference: Reference, span: float) -> DataFrame:
    """II: aggregated by user and span, then summed along the spans."""
    return _so_far(_counted(events, "user_id", span), "user_id")


def summarise_by_location(events: DataFrame, reference: Reference, span: float) -> DataFrame:
    """III: the same behind a broadcast join."""
    past = Window.partitionBy("location").orderBy("span")
    times = F.min("event_time").alias("f"), F.max("event_time").alias("l")
    ends = F.min("f").over(past).alias("first"), F.max("l").over(past).alias("last")
    return _so_far(_counted(located(events, reference), "location", span, *times), "location", *ends)


BatchQuery: TypeAlias = Callable[[DataFrame, Reference, float], DataFrame]
"""``query(events, reference, seconds of a span)``."""

BATCH: dict[str, dict[str, BatchQuery]] = {
    "II": {"groupBy.agg, sum over past": count_by_user},
    "III": {"broadcast join, groupBy.agg, sum over past": summarise_by_location},
    "IV": {
        "window(10 s, 1 s)": lambda events, reference, span: sliding(events, reference),
        "window(1 s), then window(10 s, 1 s)": lambda events, reference, span: sliding_over_panes(events, reference),
    },
    "V": {"window(10 s)": lambda events, reference, span: tumbling(events, reference)},
}
"""For each query the ways to write it, by name."""
