"""Workflow templates as dataflows whose tasks compute pi: the stand-in of the paper on reuse for OPMW's templates.

    from examples.opmw import flow
    flow("similar-words", {1: "TEXT", 2: "STEM", 3: "COUNT"}, [(1, 2), (2, 3)])

*Collaborative Reuse of Streaming Dataflows in IoT Applications* (section 5.1) uses the graphs of these templates, and "an
iterative computation of pi that outputs a floating point number" as the logic of each task.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from graphlib import TopologicalSorter
from typing import Any

import attrs

from tracetypes import UNIT, Dataflow, Emit, OpStateless, U, Unit, every, json_lines, merge

__all__ = ["ITERATIONS", "Event", "PiTask", "flow", "pi"]

ITERATIONS = 24
"""Of Viete's formula. RIoTBench, from which the computation is, has 1,600 (``MATH.PI_VIETE.ITERS``): 1.3 million square roots, so
that a core executes a few tasks a second. At ten events a second for each source the 22 templates ask for 7,410. These 24 take
some 20 microseconds."""


@attrs.frozen
class Event:
    """What flows between tasks. ``at``: its second; ``value``: the last result."""

    id: int
    at: int
    value: float


def _time(event: Event) -> int:
    return event.at


def pi(iterations: int, start: float) -> float:
    """Pi by Viete's formula, as ``PiByViete`` of RIoTBench computes it. ``start``: 2."""
    product = 1.0
    for number in range(iterations, 1, -1):
        factor = start
        for _ in range(1, number):
            factor = 2 + math.sqrt(factor)
        product *= math.sqrt(factor) / 2
    return 2 / (product * math.sqrt(2) / 2)


@attrs.frozen
class PiTask(OpStateless[Unit, Event, Unit, Event]):
    """A task of some type. It reads a number as text, which is not traced: so pi is computed again for each event."""

    type: str
    iterations: int

    def on_item(self, key: Unit, value: Event, emit: Emit[Unit, Event]) -> None:
        start = 2.0 if value.value.hex() else 0.0
        emit(UNIT, Event(value.id, value.at, pi(self.iterations, start)))


def flow(
    name: str, types: Mapping[int, str], streams: Collection[tuple[int, int]], iterations: int = ITERATIONS
) -> Dataflow:
    """A template as a dataflow. ``types``: of the tasks, by their numbers; ``streams``: pairs of a task and one that reads it,
    each as often as it does. A task that reads nobody is a source ``sourceN``. Behind a task N that nobody reads there is a sink
    ``sinkN``, which is no task."""
    graph = Dataflow(name)
    markers = every(seconds=1, time=_time)
    above = {id: [up for up, down in streams if down == id] for id in types}
    read = {up for up, _ in streams}
    made: dict[int, Any] = {}
    for id in TopologicalSorter(above).static_order():
        if not above[id]:
            made[id] = graph.source(f"source{id}", U[Unit, Event], key=lambda _: UNIT, markers=markers, format=json_lines())
        else:
            inputs = [made[one] for one in above[id]]
            made[id] = (inputs[0] if len(inputs) == 1 else merge(*inputs)).through(PiTask(types[id], iterations))
        if id not in read:
            graph.sink(f"sink{id}", made[id])
    return graph
