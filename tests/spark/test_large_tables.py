"""Plans with tables so large that they travel as broadcasts, through several stages."""

from __future__ import annotations

import pickle
import random
from typing import Any

import attrs
import pytest
from pyspark import Broadcast
from pyspark.sql import SparkSession

from tests.spark.support import row
from tests.spark.test_agreement import agree
from tests.spark.test_windows import Tick, ts_of
from tracetypes import Dataflow, Item, U, check, every
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.wire import ShippedPlan
from tracetypes.stdlib import count, enrich, key_by, tumbling

NAMES = {f"k{n}": n for n in range(60_000)}


def known(tick: Tick, number: int) -> Tick:
    return attrs.evolve(tick, watts=number % 7)


def twice() -> Dataflow:
    """Look-ups in two stages."""
    flow = Dataflow("large")
    ticks = flow.source("a", U[str, Tick], markers=every(seconds=5, time=ts_of, delay=5), key=lambda t: t.id)
    found = ticks.through(enrich(NAMES, by=lambda key, _: key, combine=known)).through(tumbling(count(), panes=1))
    again = found.through(enrich(NAMES, by=lambda key, _: key, combine=lambda counted, number: number % 3, to=int))
    flow.sink("out", again.through(key_by(lambda key, number: number, to=int)).through(tumbling(count(), panes=2)))
    return flow


def test_two_stages_that_look_up_in_a_large_table(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    def close(parcel: ShippedPlan) -> None:
        sent.append(parcel.data)
        closed(parcel)

    closed = ShippedPlan.close
    monkeypatch.setattr(ShippedPlan, "close", close)
    flow, chance = twice(), random.Random(3)
    assert len(plan(check(flow), parallelism=2).stages) == 2
    lines = [row(id=f"k{chance.randrange(40)}", ts=at // 4, watts=1) for at in range(200)]
    expected = agree(spark, flow, {"a": lines}, seed=1)
    assert len([one for one in expected.items if isinstance(one, Item)]) > 5
    assert sent
    assert all(isinstance(data, Broadcast) for data in sent)
    assert not any(data._jbroadcast.isValid() for data in sent)


def test_an_embedded_plan_is_no_broadcast(spark: SparkSession) -> None:
    parcel = ShippedPlan(plan(check(twice()), parallelism=2), embedded=True)
    assert len(pickle.dumps(parcel)) > 500_000
    assert isinstance(parcel.data, bytes)
