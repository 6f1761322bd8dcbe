"""What workers are sent: a plan once, and tasks without it."""

from __future__ import annotations

import gc
import pickle
from typing import Any

import attrs
import pytest
from pyspark import SparkContext, TaskContext

from tracetypes import Dataflow, U, check, every
from tracetypes.compiler.plan.plan import Plan, SourceLink, links
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark import wire
from tracetypes.compiler.spark.scan import End, ParquetScan
from tracetypes.compiler.spark.tasks import KeyedTask
from tracetypes.compiler.spark.wire import ShippedPlan
from tracetypes.compiler.store.staging import SEND
from tracetypes.stdlib import count, enrich, tumbling

NAMES = {f"k{n}": f"name {n}" for n in range(20_000)}


@pytest.fixture(autouse=True)
def no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody could read broadcasts here."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)


@attrs.frozen
class Tick:
    """A row."""

    id: str
    ts: int


def planned(names: dict[str, str]) -> Plan:
    """Names by a table of some hundred kilobytes, and a count of each."""
    flow = Dataflow("large")
    ticks = flow.source("a", U[str, Tick], markers=every(seconds=5, time=lambda t: t.ts, delay=5), key=lambda t: t.id)
    named = ticks.through(enrich(names, by=lambda key, _: key, combine=lambda tick, name: name, to=str))
    flow.sink("out", named.through(tumbling(count(), panes=2)))
    return plan(check(flow), parallelism=2)


def tasks(made: Plan, parcel: ShippedPlan) -> list[Any]:
    """Those of the first stage."""
    stage = made.stages[0]
    link = links(stage.region)[0]
    assert isinstance(link, SourceLink)
    scan = ParquetScan(End(made, stage, link, [0, 1], SEND))
    return [scan.packed(parcel), KeyedTask(made, stage, [0, 1], SEND).packed(parcel)]


def test_a_plan_is_pickled_once_for_all_tasks() -> None:
    made = planned(NAMES)
    parcel = ShippedPlan(made)
    alone = len(pickle.dumps(parcel))
    together = len(pickle.dumps([parcel, *tasks(made, parcel)]))
    assert alone > 300_000
    assert together < alone + 5_000


def test_what_a_worker_makes_of_them_holds_one_plan() -> None:
    made = planned(NAMES)
    scan, keyed = pickle.loads(pickle.dumps(tasks(made, ShippedPlan(made))))
    assert keyed.plan is not made
    assert scan.stage is keyed.plan.stages[0]
    assert scan.link.leaf is links(scan.stage.region)[0].leaf
    again = pickle.loads(pickle.dumps(tasks(made, ShippedPlan(made))))
    assert again[0] is scan
    assert again[1] is keyed


def test_equal_tasks_of_different_plans_are_different() -> None:
    first, second = planned(NAMES), planned({**NAMES, "k7": "other"})
    one, other = [pickle.loads(pickle.dumps(tasks(made, ShippedPlan(made))))[1] for made in (first, second)]
    assert one is not other
    assert one.plan is not other.plan


def test_a_worker_hides_what_it_keeps_from_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.unfreeze()
    wire._settled.clear()
    assert list(wire.iterator_of(lambda: iter([1]))) == [1]
    assert gc.get_freeze_count() == 0  # this process is no worker
    monkeypatch.setattr(TaskContext, "get", lambda: object())
    try:
        assert list(wire.iterator_of(lambda: iter([1]))) == [1]
        known = gc.get_freeze_count()
        assert known > 10_000
        pickle.loads(pickle.dumps(tasks(planned({**NAMES, "k8": "new"}), ShippedPlan(planned(NAMES)))))
        list(wire.iterator_of(lambda: iter([1])))
        assert gc.get_freeze_count() > known
    finally:
        gc.unfreeze()
