"""Operators of the standard library on Spark: the same answer at each parallelism, the definition's."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import attrs
import pytest
from pyspark.sql import SparkSession

from tests.spark.support import defined, differences, row, write_lines
from tracetypes import Dataflow, U, Unit, check, every
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.run import collect
from tracetypes.stdlib import (
    Sqlite,
    aggregate,
    approx_count_distinct,
    count,
    count_distinct,
    enrich,
    filter,
    key_by,
    last,
    lookup_join,
    map_values,
    max,
    mean,
    min,
    quantiles,
    running,
    struct,
    sum,
    top,
    variance,
)


@attrs.frozen
class Reading:
    meter: str
    watts: float
    ts: int


@attrs.frozen
class Meter:
    room: str
    factor: float


@attrs.frozen
class Summary:
    n: int
    total: float
    mean: float
    variance: float
    low: float
    high: float
    last: Reading
    top: list[Reading]
    different: int
    about: int
    quantiles: list[float]


CHANCE = random.Random(5)
LINES = [
    row(meter=f"m{CHANCE.randint(0, 7)}", watts=CHANCE.choice([0.1, 0.2, 1e16, -1e16, 0.7, -0.0]), ts=n // 4)
    for n in range(300)
]
FACTORS = {f"m{n}": 1.0 + n for n in range(0, 8, 2)}


def scaled(reading: Reading, factor: float | None) -> Reading:
    return Reading(reading.meter, reading.watts * (factor or 1.0), reading.ts)


def flow_over(path: Path, *, totals: bool) -> Dataflow:
    """Look-up joins, a new key and a running product of everything; and with ``totals`` a second stage behind it."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE meters (id TEXT PRIMARY KEY, room TEXT, factor REAL)")
        connection.executemany(
            "INSERT INTO meters VALUES (?, ?, ?)", [(f"m{n}", f"room {n % 3}", 1.5) for n in range(7)]
        )
    connection.close()
    meters = Sqlite(path=str(path), table="meters", key="id", row=Meter)
    flow = Dataflow("library")
    readings = flow.source("readings", U[Unit, Reading], markers=every(seconds=10, time=lambda r: r.ts))
    summary = struct(
        Summary,
        n=count(),
        total=sum(lambda r: r.watts, to=float),
        mean=mean(lambda r: r.watts),
        variance=variance(lambda r: r.watts, population=True),
        low=min(lambda r: r.watts, to=float),
        high=max(lambda r: r.watts, to=float),
        last=last(by=lambda r: r.ts),
        top=top(3, by=lambda r: r.watts),
        different=count_distinct(lambda r: r.meter),
        about=approx_count_distinct(),
        quantiles=quantiles([0.0, 0.5, 1.0], lambda r: r.watts),
    )
    rooms = readings.through(key_by(lambda _, r: r.meter, to=str)).through(
        enrich(FACTORS, by=lambda meter, r: meter, combine=scaled, how="left")
    )
    named = rooms.through(
        lookup_join(
            meters,
            by=lambda meter, r: meter,
            combine=lambda r, meter: Reading(meter.room, r.watts * meter.factor, r.ts),
            to=Reading,
        )
    ).through(key_by(lambda _, r: r.meter, to=str))
    summaries = named.through(running(summary))
    if not totals:
        flow.sink("summaries", summaries)
        return flow
    sums = summaries.through(filter(lambda room, s: s.n > 1)).through(map_values(lambda s: s.total, to=float))
    flow.sink("totals", sums.through(key_by(lambda room, total: "all", to=str)).through(aggregate(sum(to=float))))
    return flow


@pytest.mark.parametrize("totals", [pytest.param(False, marks=pytest.mark.repeated), True])
def test_it_answers_as_it_is_defined(spark: SparkSession, tmp_path: Path, totals: bool) -> None:
    flow = flow_over(tmp_path / "meters.db", totals=totals)
    expected = defined(flow, {"readings": LINES})
    assert len(expected[0].items) > 10
    for parallelism in (1, 3):
        directory = tmp_path / f"{parallelism}"
        for at in range(parallelism):
            part = LINES[at * 300 // parallelism : (at + 1) * 300 // parallelism]
            write_lines(directory / f"{at}.jsonl", part, at=at + 1)
        planned = plan(check(flow), parallelism=parallelism, key_groups=4)
        assert differences(flow, collect(spark, planned, {"readings": str(directory)}).answer, expected) == []
