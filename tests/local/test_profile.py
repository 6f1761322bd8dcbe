"""Costs and selectivities that heuristics see: what a unit costs times how many there are is the time of an operator."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.local.ordered.flow import Flow, Scheme, Settings
from tracetypes.compiler.local.ordered.heuristics import LastInPipeline
from tracetypes.compiler.local.ordered.marks import ALL, Mark
from tracetypes.compiler.local.ordered.operators import Edge, Kind, Operator
from tracetypes.compiler.local.ordered.scheduler import Scheduler
from tracetypes.compiler.local.ordered.workers import work


class _Clock:
    """Each operator moves it by what it costs."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def chain(clock: _Clock, scheme: Scheme, costs: Sequence[float], partitions: Sequence[int]) -> Flow:
    """Pairs of an operator that makes a batch for all partitions, and of the partitions, as :mod:`..driver` builds them.
    ``partitions``: of each pair. ``costs``: seconds of each operator for a batch, and for a part of one."""
    operators: list[Operator] = []
    edges: list[Edge] = []
    for place, (count, joins, steps) in enumerate(zip(partitions, costs[::2], costs[1::2], strict=True)):

        def join(unit: Any, cost: float = joins) -> Sequence[Any]:
            clock.now += cost
            return (unit,)

        def step(partition: int, unit: Any, cost: float = steps) -> Sequence[Any]:
            clock.now += cost
            return ()

        first = Operator(name=f"join {place}", kind=Kind.STATEFUL, process=join, budget=10)
        second = Operator(name=f"stage {place}", kind=Kind.PARTITIONED, process=step, partitions=count)
        edges += [Edge(operators[-1], first)] if operators else []
        edges.append(Edge(first, second, prepare=lambda batch: ((ALL, batch),)))
        operators += [first, second]
    return Flow(operators, edges, settings=Settings(scheme=scheme))


@pytest.mark.parametrize("scheme", [Scheme.HYBRID, Scheme.PARTITIONED, Scheme.SHARED])
@given(st.data())
def test_a_unit_that_enters_costs_each_operator_what_it_takes(scheme: Scheme, data: st.DataObject) -> None:
    partitions = data.draw(st.lists(st.integers(1, 8), min_size=1, max_size=3))
    some = st.sampled_from([0.001, 0.01, 0.1])
    costs = data.draw(st.lists(some, min_size=2 * len(partitions), max_size=2 * len(partitions)))
    clock = _Clock()
    flow = chain(clock, scheme, costs, partitions)
    first, *_ = flow.operators
    scheduler = Scheduler(flow, LastInPipeline(), window=1e9, condition=threading.Condition, clock=clock)
    batches = 5
    for _ in range(batches):
        scheduler.offer(first, Mark())
    scheduler.close()
    work(scheduler, clock)
    spent = [one.time + one.total_time for one in flow.operators]  # the first turn closes a window
    for one in flow.operators:
        one.time, one.done = one.time + one.total_time, one.done + one.total_done
    scheduler.tails = [0] * len(flow.operators)
    scheduler._profile(clock.now)
    for one, seconds in zip(flow.operators, spent, strict=True):
        assert one.cost * one.inflow == pytest.approx(seconds / batches), one.name
        parts = one.partitions if one.kind is Kind.PARTITIONED and scheme is not Scheme.SHARED else 1
        assert one.inflow == parts, one.name
