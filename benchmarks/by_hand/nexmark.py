"""Queries 0 to 3, 5, 7 and 8 of Nexmark as an expert would write them in PySpark Structured Streaming: native expressions, joins,
windows and aggregations; in one way of query 7 a function over Arrow batches. Each function takes a frame for each of
:data:`INPUTS`; times may not come late. What Spark cannot say is in :data:`CANNOT`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

BID = ("auction", "bidder", "price", "date_time")
PERSON = ("id", "name", "email_address", "credit_card", "city", "state", "date_time")


def _timed(frame: DataFrame, name: str = "ts") -> DataFrame:
    return frame.select("*", F.timestamp_millis("date_time").alias(name)).withWatermark(name, "0 seconds")


def floor(*frames: DataFrame) -> DataFrame:
    """All columns of the first input, and nothing after the scan."""
    return frames[0].select("*")


def pass_through(bids: DataFrame) -> DataFrame:
    """Query 0."""
    return bids.select(*BID)


def in_euros(bids: DataFrame) -> DataFrame:
    """Query 1."""
    return bids.select("auction", "bidder", (F.lit(0.908) * F.col("price")).alias("price"), "date_time")


def of_some_auctions(bids: DataFrame) -> DataFrame:
    """Query 2."""
    return bids.where("auction % 123 = 0").select(*BID)


def suggestions(persons: DataFrame, auctions: DataFrame) -> DataFrame:
    """Query 3: as a join of two streams, whose times lie at most 20 seconds apart, counted in whole seconds."""
    local = _whole_seconds(persons.where("state IN ('OR', 'ID', 'CA')"), "person_at")
    offers = _whole_seconds(auctions.where("category = 10"), "auction_at").select(
        F.col("id").alias("auction"), "seller", "auction_at"
    )
    near = "auction_at >= person_at - INTERVAL 20 SECONDS AND auction_at <= person_at + INTERVAL 20 SECONDS"
    return local.join(offers, F.expr(f"seller = id AND {near}")).select("id", "name", "city", "state", "auction")


def _whole_seconds(frame: DataFrame, name: str) -> DataFrame:
    return frame.select("*", F.timestamp_seconds(F.expr("date_time div 1000")).alias(name)).withWatermark(name, "0 seconds")


def hot_items(bids: DataFrame) -> DataFrame:
    """Query 5: counts of an auction and window, then those of a window together, of which the largest stay."""
    timed = _timed(bids)
    counts = timed.groupBy(F.window("ts", "10 seconds", "5 seconds"), "auction").agg(F.count("*").alias("bids"))
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


def highest_bids_of_batches_first(bids: DataFrame) -> DataFrame:
    """Query 7: in each Arrow batch the highest bids of each window, then those of a window in one list."""

    def highest(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            table = table.append_column("window", pc.floor(pc.divide(table["date_time"].cast(pa.float64()), 10_000)))
            most = table.group_by("window").aggregate([("price", "max")])
            joined = table.join(most, "window")
            yield from joined.filter(pc.equal(joined["price"], joined["price_max"])).select(BID).to_batches()

    few = bids.select(*BID).mapInArrow(highest, "auction long, bidder long, price long, date_time long")
    return highest_bids_in_one_aggregation(few)


def new_users(persons: DataFrame, auctions: DataFrame) -> DataFrame:
    """Query 8: persons for whom an auction begins in their window, as a semi join of two streams by window."""
    came = _windowed(persons, "came")
    offered = _windowed(auctions, "offered").select("seller", "offered")
    return came.join(offered, F.expr("id = seller AND came = offered"), "leftSemi").select(*PERSON)


def _windowed(frame: DataFrame, name: str) -> DataFrame:
    timed = _timed(frame)
    return timed.select("*", F.window("ts", "10 seconds").alias(name))


Query = Callable[..., DataFrame]

QUERIES: Mapping[int, Mapping[str, Query]] = {
    0: {"projection": pass_through},
    1: {"projection": in_euros},
    2: {"filter": of_some_auctions},
    3: {"join of two streams": suggestions},
    5: {"two aggregations": hot_items},
    7: {"one list": highest_bids_in_one_aggregation, "batches in Arrow, one list": highest_bids_of_batches_first},
    8: {"semi join of two streams": new_users},
}
"""The ways of each query, by number. Left out: :func:`highest_bids`, 107 s of processor time where one list took 13."""

INPUTS: Mapping[int, tuple[str, ...]] = {3: ("persons", "auctions"), 8: ("persons", "auctions")}
"""What a query reads, where it is not bids."""

CANNOT: Mapping[int, str] = {
    4: "the average of a category goes over all of its sales so far: an aggregation without a window behind the one that finds "
    "an auction's highest bid; Spark chains aggregations in append mode alone, and there refuses those without a window",
    6: "the last ten sales of a seller are the last by an order, and no aggregation of Spark's keeps these across micro-batches",
}
"""What native expressions of Spark cannot say. (``transformWithState`` can: a program in Python for each row of each key.)"""
