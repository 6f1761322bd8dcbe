"""Queries I to VI of the Yahoo benchmark as an expert would write them in PySpark Structured Streaming.

Native expressions, windows and aggregations wherever they can say it; no Python but in I (one of two ways) and VI. Each
function takes the frame of events and the reference data; ``QUERIES`` says which ways there are and in which output mode.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState

from examples.yahoo import cluster
from examples.yahoo_data import Tables

COLUMNS = ["user_id", "page_id", "ad_id", "ad_type", "event_type", "event_time", "ip_address"]


@attrs.frozen
class Reference:
    """``dimensions``: the tables of users and ads; ``database``: the SQLite file that holds them; ``k`` and ``period`` (s): of
    query VI; ``wait``: seconds that an event may come late."""

    dimensions: Tables
    database: str
    k: int = 4
    period: int = 10
    wait: float = 0

    @property
    def watermark(self) -> str:
        """The delay as Spark wants it."""
        return f"{round(self.wait * 1_000)} milliseconds"


def _table(events: DataFrame, columns: str, rows: Mapping[str, str | int]) -> DataFrame:
    return F.broadcast(events.sparkSession.createDataFrame(list(rows.items()), columns))


def _campaigns(events: DataFrame, reference: Reference) -> DataFrame:
    return _table(events, "ad_id string, campaign_id string", reference.dimensions.campaign_of)


def _locations(events: DataFrame, reference: Reference) -> DataFrame:
    return _table(events, "user_id string, location long", reference.dimensions.location_of)


# ---------------------------------------------------------------------------------------------------- query I


def enrich_by_broadcast_join(events: DataFrame, reference: Reference) -> DataFrame:
    """The database is read once, on the driver."""
    return events.join(_campaigns(events, reference), "ad_id").select("campaign_id", *COLUMNS)


class _Enrich:
    """A worker asks the database once for each advertisement."""

    def __init__(self, database: str) -> None:
        self.database = database

    def __call__(self, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        connection = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)
        campaigns: dict[str, str] = {}
        for frame in frames:
            for ad in frame["ad_id"].unique():
                if ad not in campaigns:
                    found = connection.execute("SELECT campaign_id FROM ads WHERE ad_id = ?", (ad,)).fetchone()
                    if found is not None:
                        campaigns[ad] = found[0]
            frame.insert(0, "campaign_id", frame["ad_id"].map(campaigns))
            yield frame[frame["campaign_id"].notna()]


def enrich_in_pandas(events: DataFrame, reference: Reference) -> DataFrame:
    """The database is asked by the workers, as in the paper; ``mapInPandas``, a vectorised look-up in what is known."""
    columns = ", ".join(f"{name} {'long' if name == 'event_time' else 'string'}" for name in ["campaign_id", *COLUMNS])
    return events.select(*COLUMNS).mapInPandas(_Enrich(reference.database), columns)


# ------------------------------------------------------------------------------------------- queries II and III


def _counts() -> list[Any]:
    return [
        F.count_if(F.col("event_type") == name).alias(column)
        for name, column in (("view", "views"), ("click", "clicks"), ("purchase", "purchases"))
    ]


def everything(events: DataFrame, reference: Reference) -> DataFrame:
    """The floor of I: its columns."""
    return events.select(*COLUMNS)


def users(events: DataFrame, reference: Reference) -> DataFrame:
    """The floor of II: its columns."""
    return events.select("user_id", "event_type")


def located(events: DataFrame, reference: Reference) -> DataFrame:
    """The floor of III: its columns, and the look-up."""
    found = events.join(_locations(events, reference), "user_id")
    return found.select("location", "event_type", "event_time")


def visits(events: DataFrame, reference: Reference) -> DataFrame:
    """The floor of VI: its columns, and the look-up."""
    found = events.join(_locations(events, reference), "user_id")
    return found.select("location", "user_id", "event_type", "event_time")


def count_by_user(events: DataFrame, reference: Reference) -> DataFrame:
    """Native aggregation; update mode sends the users that a micro-batch touched."""
    first, *others = _counts()
    return events.groupBy("user_id").agg(first, *others)


def summarise_by_location(events: DataFrame, reference: Reference) -> DataFrame:
    """Broadcast join and native aggregation."""
    first, *others = _counts()
    times = [F.min("event_time").alias("first"), F.max("event_time").alias("last")]
    return events.join(_locations(events, reference), "user_id").groupBy("location").agg(first, *others, *times)


# ------------------------------------------------------------------------------------------- queries IV and V


def views(events: DataFrame, reference: Reference) -> DataFrame:
    """Scan, filter and look-up: what IV and V begin with, and the floor of both."""
    chosen = events.where("event_type = 'view'").join(_campaigns(events, reference), "ad_id")
    return chosen.select("campaign_id", F.timestamp_millis("event_time").alias("ts"))


def _windows(counted: DataFrame) -> DataFrame:
    return counted.select("campaign_id", F.unix_seconds("window.end").alias("end"), "views")


def sliding(events: DataFrame, reference: Reference) -> DataFrame:
    """Spark's own sliding window: each view goes into ten windows."""
    window = F.window("ts", "10 seconds", "1 second")
    timed = views(events, reference).withWatermark("ts", reference.watermark)
    return _windows(timed.groupBy(window, "campaign_id").agg(F.count("*").alias("views")))


def sliding_over_panes(events: DataFrame, reference: Reference) -> DataFrame:
    """Counts of each second first, and sliding windows over these: two aggregations, fewer rows in the second."""
    timed = views(events, reference).withWatermark("ts", reference.watermark)
    panes = timed.groupBy(F.window("ts", "1 second"), "campaign_id").agg(F.count("*").alias("views"))
    window = F.window(F.window_time("window"), "10 seconds", "1 second")
    again = panes.groupBy(window, "campaign_id").agg(F.sum("views").alias("views"))
    return _windows(again)


def tumbling(events: DataFrame, reference: Reference) -> DataFrame:
    """Spark's own tumbling window."""
    timed = views(events, reference).withWatermark("ts", reference.watermark)
    return _windows(timed.groupBy(F.window("ts", "10 seconds"), "campaign_id").agg(F.count("*").alias("views")))


# --------------------------------------------------------------------------------------------------- query VI


class _Clusters:
    """For ``applyInPandasWithState`` by location: a call for each location and micro-batch.

    By location and not by user: two stateful operators would be needed otherwise, and a call for each user and micro-batch.
    Counts wait until the watermark has passed the end of their period.
    """

    def __init__(self, k: int, period: int) -> None:
        self.k, self.period = k, period

    def __call__(
        self, key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        waiting, users, due = pickle.loads(state.get[0]) if state.exists else ({}, {}, None)
        for frame in frames:
            counts = frame.groupby(["end", "user_id"], sort=False)[["views", "clicks", "purchases"]].sum()
            for (end, user), *actions in counts.itertuples(name=None):
                waiting.setdefault(end, []).append((user, *actions))
        if due is None and waiting:
            due = min(waiting)
        watermark = state.getCurrentWatermarkMs() // 1_000
        out: list[tuple[Any, ...]] = []
        while due is not None and due <= watermark:
            for user, *actions in waiting.pop(due, ()):
                before = users.get(user, (0, 0, 0))
                users[user] = (before[0] + actions[0], before[1] + actions[1], before[2] + actions[2])
            if users:
                out += [(key[0], due, number, *one) for number, one in enumerate(cluster(users, self.k))]
            due += self.period
        state.update((pickle.dumps((waiting, users, due), protocol=5),))
        if due is not None:
            state.setTimeoutTimestamp(due * 1_000 - 1 if due * 1_000 - 1 > watermark * 1_000 else due * 1_000)
        yield pd.DataFrame(out, columns=CLUSTER_COLUMNS)


CLUSTER_COLUMNS = ["location", "end", "number", "users", "views", "clicks", "purchases"]
CLUSTERS = "location long, end long, number int, users long, views double, clicks double, purchases double"


def clusters(events: DataFrame, reference: Reference) -> DataFrame:
    """Broadcast join, then one stateful operator by location that holds the features of its users.

    Counting by user and period with Spark's own windows first is not to be had: Spark 4.3 refuses ``applyInPandasWithState``
    behind an aggregation.
    """
    end = (F.floor(F.col("event_time") / (reference.period * 1_000)) + 1) * reference.period
    flags = [
        (F.col("event_type") == name).cast("long").alias(column)
        for name, column in (("view", "views"), ("click", "clicks"), ("purchase", "purchases"))
    ]
    located = events.join(_locations(events, reference), "user_id").select(
        "location", "user_id", end.alias("end"), *flags, F.timestamp_millis("event_time").alias("ts")
    )
    grouped = located.withWatermark("ts", reference.watermark).groupBy("location")
    task = _Clusters(reference.k, reference.period)
    return grouped.applyInPandasWithState(task, CLUSTERS, "held binary", "append", "EventTimeTimeout")


@attrs.frozen
class Way:
    """A way to write a query. ``mode``: of output."""

    name: str
    query: Callable[[DataFrame, Reference], DataFrame]
    mode: str

    def bound(self, reference: Reference) -> Callable[[DataFrame], DataFrame]:
        """The query as a function of the events alone."""
        return lambda events: self.query(events, reference)


QUERIES: dict[str, tuple[Way, ...]] = {
    "I": (
        Way("broadcast join", enrich_by_broadcast_join, "append"),
        Way("mapInPandas", enrich_in_pandas, "append"),
    ),
    "II": (Way("groupBy.agg", count_by_user, "update"),),
    "III": (Way("broadcast join, groupBy.agg", summarise_by_location, "update"),),
    "IV": (
        Way("window(10 s, 1 s)", sliding, "append"),
        Way("window(1 s), then window(10 s, 1 s)", sliding_over_panes, "append"),
    ),
    "V": (Way("window(10 s)", tumbling, "append"),),
    "VI": (Way("broadcast join, applyInPandasWithState", clusters, "append"),),
}

FLOORS = {
    "I": Way("scan", everything, "append"),
    "II": Way("scan", users, "append"),
    "III": Way("scan, look-up", located, "append"),
    **{name: Way("scan, filter, look-up", views, "append") for name in ("IV", "V")},
    "VI": Way("scan, look-up", visits, "append"),
}
