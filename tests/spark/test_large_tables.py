"""Plans with tables so large that they travel as broadcasts, through several stages."""

from __future__ import annotations

import random

import attrs
from pyspark.sql import SparkSession

from tests.spark.support import row
from tests.spark.test_agreement import agree
from tracetypes import Dataflow, Item, U, check, every
from tracetypes.compiler.planner import plan
from tracetypes.stdlib import count, enrich, rekey, tumbling

NAMES = {f"k{n}": n for n in range(60_000)}


@attrs.frozen
class Tick:
    """A row: who, when (s), how much."""

    id: str
    ts: int
    watts: int


def ts_of(tick: Tick) -> int:
    return tick.ts


def known(tick: Tick, number: int) -> Tick:
    return attrs.evolve(tick, watts=number % 7)


def test_two_stages_that_look_up_in_a_large_table(spark: SparkSession) -> None:
    flow, chance = Dataflow("large"), random.Random(3)
    ticks = flow.source("a", U[str, Tick], markers=every(seconds=5, time=ts_of, delay=5), key=lambda t: t.id)
    found = ticks.through(enrich(NAMES, by=lambda key, _: key, combine=known)).through(tumbling(count(), panes=1))
    again = found.through(enrich(NAMES, by=lambda key, _: key, combine=lambda counted, number: number % 3, to=int))
    flow.sink("out", again.through(rekey(lambda key, number: number, to=int)).through(tumbling(count(), panes=2)))
    assert len(plan(check(flow), parallelism=2).stages) == 2
    lines = [row(id=f"k{chance.randrange(40)}", ts=at // 4, watts=1) for at in range(200)]
    expected = agree(spark, flow, {"a": lines}, seed=1)
    assert len([one for one in expected.items if isinstance(one, Item)]) > 5
