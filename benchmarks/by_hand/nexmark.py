"""Queries 1, 2, 5 and 7 of Nexmark as an expert would write them in PySpark Structured Streaming: native expressions, windows and
aggregations, no Python. Each function takes the frame of bids; times may not come late."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

BID = ("auction", "bidder", "price", "date_time")


def _timed(bids: DataFrame) -> DataFrame:
    return bids.select(*BID, F.timestamp_millis("date_time").alias("ts")).withWatermark("ts", "0 seconds")


def floor(bids: DataFrame) -> DataFrame:
    """All columns, and nothing after the scan."""
    return bids.select(*BID)


def in_euros(bids: DataFrame) -> DataFrame:
    """Query 1."""
    return bids.select("auction", "bidder", (F.lit(0.908) * F.col("price")).alias("price"), "date_time")


def of_some_auctions(bids: DataFrame) -> DataFrame:
    """Query 2."""
    return bids.where("auction % 123 = 0").select(*BID)


def hot_items(bids: DataFrame) -> DataFrame:
    """Query 5: counts of an auction and window, then those of a window together, of which the largest stay."""
    counts = _timed(bids).groupBy(F.window("ts", "10 seconds", "5 seconds"), "auction").agg(F.count("*").alias("bids"))
    windows = counts.groupBy("window").agg(
        F.collect_list(F.struct("auction", "bids")).alias("counts"), F.max("bids").alias("most")
    )
    hot = windows.select("window", F.explode(F.expr("filter(counts, one -> one.bids = most)")).alias("one"))
    return hot.select("one.auction", "one.bids", F.unix_seconds("window.end").alias("end"))


def highest_bids(bids: DataFrame) -> DataFrame:
    """Query 7: the bids of each price and window, and of these the highest."""
    prices = _timed(bids).groupBy(F.window("ts", "10 seconds"), "price")
    ties = prices.agg(F.collect_list(F.struct(*BID)).alias("bids"))
    best = ties.groupBy("window").agg(F.max_by("bids", "price").alias("bids"))
    return best.select(F.explode("bids").alias("bid")).select("bid.*")


def highest_bids_in_one_aggregation(bids: DataFrame) -> DataFrame:
    """Query 7: all bids of a window in one list."""
    windows = _timed(bids).groupBy(F.window("ts", "10 seconds"))
    all_bids = windows.agg(F.collect_list(F.struct(*BID)).alias("bids"), F.max("price").alias("most"))
    best = all_bids.select(F.explode(F.expr("filter(bids, bid -> bid.price = most)")).alias("bid"))
    return best.select("bid.*")


Query = Callable[[DataFrame], DataFrame]

QUERIES: Mapping[int, Mapping[str, Query]] = {
    1: {"projection": in_euros},
    2: {"filter": of_some_auctions},
    5: {"two aggregations": hot_items},
    7: {"by price first": highest_bids, "one list": highest_bids_in_one_aggregation},
}
"""The ways of each query, by number."""
