"""Which operator a worker works on next: the heuristics of section 6, with their formulas as published.

A unit is a batch, so sizes count batches, and costs are seconds a batch: a batch of 1,000 rows costs about 1,000 times a
row, and a time slice is 1,000 times fewer units. The formulas need only that the units of one worklist cost about the same.
A batch that costs more than the time slice is a slice by itself; so the size of a batch bounds how soon a worker can react,
as the time slice does otherwise. Where an edge splits a batch by partition, or a mark goes to every partition, the parts are
the units: of sizes, costs, and the selectivity of the operator before. (A shared queue keeps a mark in one piece.)

In a graph without cycles (the paper has chains) the cumulative selectivity of an operator is its own selectivity times
the sum of those before it; what is before the sources counts as 1. "Earliest" and "latest": see ``flow.Flow``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from tracetypes.compiler.local.ordered.flow import Flow
from tracetypes.compiler.local.ordered.operators import Operator

__all__ = [
    "HEURISTICS",
    "CurrentThroughput",
    "EstimatedTime",
    "Heuristic",
    "LastInPipeline",
    "QueueSizeThrottling",
]

SMALL = 1e-9


class Heuristic(Protocol):
    def choose(self, operators: Sequence[Operator], flow: Flow) -> Operator:
        """One of the operators that can be scheduled, which are given from the earliest to the latest."""
        ...

    def profiled(self, flow: Flow, time_slice: float) -> None:
        """Costs and selectivities have changed."""
        ...


class QueueSizeThrottling:
    """QST (6.1): the earliest operator whose output queue is smaller than its threshold
    ``T_i = C * cs_i / sum(cs)``, where ``cs`` is the cumulative selectivity and ``C`` the capacity of the system.

    A threshold is at least 1, or an operator could never run. An operator with several edges is below its threshold
    when each of its output queues is; what others put into a queue counts too. If none is below, the latest runs.
    """

    def __init__(self, capacity: float = 1024) -> None:
        self.capacity = capacity
        self.thresholds: dict[Operator, float] = {}

    def choose(self, operators: Sequence[Operator], flow: Flow) -> Operator:
        thresholds = self.thresholds
        for one in operators:
            limit = thresholds.get(one, self.capacity)
            if all(edge.target.worklist.size() < limit for edge in flow.outgoing[one]):
                return one
        return operators[-1]

    def profiled(self, flow: Flow, time_slice: float) -> None:
        total = sum(one.cumulative for one in flow.operators) or SMALL
        self.thresholds = {one: max(1.0, self.capacity * one.cumulative / total) for one in flow.operators}


class LastInPipeline:
    """LP (6.2): the latest operator with at least ``least`` inputs; if none has so many, the latest with any."""

    def __init__(self, least: int = 1) -> None:
        self.least = least

    def choose(self, operators: Sequence[Operator], flow: Flow) -> Operator:
        if self.least > 1:
            for one in reversed(operators):
                if one.worklist.size() >= self.least:
                    return one
        return operators[-1]

    def profiled(self, flow: Flow, time_slice: float) -> None:
        pass


class EstimatedTime:
    """ET (6.3): the operator that needs the most time for its worklist if one more worker joins:
    ``p_i = I_i * c_i / (w_i + 1)``."""

    def choose(self, operators: Sequence[Operator], flow: Flow) -> Operator:
        best, highest = operators[0], -1.0
        for one in operators:
            priority = one.worklist.size() * (one.cost or SMALL) / (one.workers + 1)
            if priority >= highest:
                best, highest = one, priority
        return best

    def profiled(self, flow: Flow, time_slice: float) -> None:
        pass


class CurrentThroughput:
    """CT (6.4): the operator with the lowest throughput in this window, ``n_i = (T_i + w_i * s) / (c_i * cs_i)``: ``T_i``
    the time spent on it, ``w_i`` its workers, ``s`` the time slice. Among equals, the latest.

    ``by_inflow``: divides by the inputs of the operator for each unit of the flow instead of its outputs ``cs_i``. Both
    are the same but for the operator's own selectivity. With the published formula an operator that rarely emits (a
    window's aggregate) seems to have done a lot and is scheduled last.
    """

    def __init__(self, *, by_inflow: bool = False) -> None:
        self.by_inflow = by_inflow
        self.time_slice = 0.001

    def choose(self, operators: Sequence[Operator], flow: Flow) -> Operator:
        best, lowest = operators[0], float("inf")
        time_slice, by_inflow = self.time_slice, self.by_inflow
        for one in operators:
            units = one.inflow if by_inflow else one.cumulative
            throughput = (one.time + one.workers * time_slice) / ((one.cost or SMALL) * units or SMALL)
            if throughput <= lowest:
                best, lowest = one, throughput
        return best

    def profiled(self, flow: Flow, time_slice: float) -> None:
        self.time_slice = time_slice


HEURISTICS: Final[Mapping[str, Callable[..., Heuristic]]] = {
    "CT": CurrentThroughput,
    "CT by inflow": partial(CurrentThroughput, by_inflow=True),
    "LP": LastInPipeline,
    "ET": EstimatedTime,
    "QST": QueueSizeThrottling,
}
