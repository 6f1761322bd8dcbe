"""Windows, sessions, joins and clusters on Spark: their results are generic records, their states tuples and stacks."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from pyspark.sql import SparkSession

from tests.spark.support import row
from tests.spark.test_agreement import agree
from tracetypes import Dataflow, Item, U, every, sort
from tracetypes.stdlib import (
    asof_join,
    count,
    deduplicate,
    interval_join,
    kmeans,
    mean,
    session,
    sliding,
    sum,
    tumbling,
)


@attrs.frozen
class Tick:
    """A row: who, when (s), how much."""

    id: str
    ts: int
    watts: float


def ts_of(tick: Tick) -> int:
    return tick.ts


def watts_of(tick: Tick) -> float:
    return tick.watts


def place_of(tick: Tick) -> tuple[float]:
    return (tick.watts,)


def windows(a: Any, b: Any) -> Any:
    filtered = a.through(sort(by=ts_of)).through(deduplicate(watts_of, seconds=7, time=ts_of))
    return filtered.through(sliding(mean(of=watts_of), panes=3, ends=True))


def long_windows(a: Any, b: Any) -> Any:
    return a.through(sliding(sum(of=watts_of), panes=100, slide=2))


def sessions(a: Any, b: Any) -> Any:
    return a.through(sort(by=ts_of)).through(session(count(), gap=3, time=ts_of))


def clusters(a: Any, b: Any) -> Any:
    return a.through(kmeans(place_of, k=2, panes=2))


def intervals(a: Any, b: Any) -> Any:
    return interval_join(a, b, before=4, after=2, left_time=ts_of, right_time=ts_of)


def known(a: Any, b: Any) -> Any:
    joined = asof_join(a, b, left_time=ts_of, right_time=ts_of, tolerance=9)
    return joined.through(tumbling(count(), panes=2))


@pytest.mark.parametrize(
    "build",
    [
        windows,
        long_windows,
        intervals,
        *[pytest.param(build, marks=pytest.mark.nightly) for build in (sessions, clusters, known)],
    ],
    ids=lambda f: f.__name__,
)
def test_spark_tells_what_is_defined(spark: SparkSession, build: Callable[[Any, Any], Any]) -> None:
    flow, chance = Dataflow(build.__name__), random.Random(build.__name__)
    markers = every(seconds=5, time=ts_of, delay=5)
    two = build in (intervals, known)
    sources = [flow.source(n, U[str, Tick], markers=markers, key=lambda t: t.id) for n in ("a", "b")[: 1 + two]]
    flow.sink("out", build(sources[0], sources[-1]))
    lines = {
        name: [
            row(
                id=chance.choice("xyz"),
                ts=at // 2 + chance.randint(-4, 4),
                watts=chance.choice([0.1, 0.5, 1 / 3, 7.0]),
            )
            for at in range(100)
        ]
        for name in ("a", "b")[: 1 + two]
    }
    expected = agree(spark, flow, lines, seed=1)
    assert items_in(expected.items) > 5


def items_in(elements: Any) -> int:
    return len([one for one in elements if isinstance(one, Item)])
