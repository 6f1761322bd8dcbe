"""Building, checking and planning a graph of 1,000 operators.

    python -m benchmarks.checker [--operators N] [--runs N]

There is no other side: nobody else checks such a graph. Prints a JSON line with the seconds of each part (median).
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable

import attrs

from tracetypes import (
    Dataflow,
    Marker,
    OpKeyedOrdered,
    OpKeyedUnordered,
    OpStateless,
    Stream,
    U,
    check,
    every,
    merge,
    sort,
)
from tracetypes import __version__ as version
from tracetypes.compiler.plan.planner import plan


@attrs.frozen
class Reading:
    """A value at a second."""

    value: int
    ts: int


@attrs.frozen
class Scale(OpStateless[str, Reading, str, Reading]):
    """Multiply."""

    factor: int

    def on_item(self, key: str, value: Reading, emit: Callable[[str, Reading], None]) -> None:
        emit(key, Reading(value.value * self.factor, value.ts))


@attrs.frozen
class Change(OpKeyedOrdered[str, Reading, Reading, int]):
    """Differences."""

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: str, value: Reading, emit: Callable[[Reading], None]) -> int:
        emit(Reading(value.value - state, value.ts))
        return value.value


@attrs.frozen
class Total(OpKeyedUnordered[str, Reading, str, Reading, int, int]):
    """Sums."""

    def lift(self, key: str, value: Reading) -> int:
        return value.value

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: int) -> int:
        return state + agg

    def on_marker(self, new_state: int, key: str, marker: Marker, emit: Callable[[str, Reading], None]) -> None:
        emit(key, Reading(new_state, marker.timestamp))


def build(operators: int) -> Dataflow:
    """An in-tree: chains of ten operators of all kinds, merged two by two."""
    flow = Dataflow("large")
    chains: list[Stream[U[str, Reading]]] = []
    count = 0
    while count < operators:
        name, markers = f"source-{len(chains)}", every(seconds=1, time=lambda r: r.ts)
        stream: Stream[U[str, Reading]] = flow.source(name, U[str, Reading], markers=markers)
        for n in range(2):
            ordered = stream.through(Scale(n)).through(Scale(n + 1)).through(sort(by=lambda r: r.ts))
            stream = ordered.through(Change()).through(Total())
            count += 5
        chains.append(stream)
    while len(chains) > 1:
        chains = [*chains[2:], merge(chains[0], chains[1])]
        count += 1
    flow.sink("out", chains[0])
    return flow


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    times: dict[str, list[float]] = {"build": [], "check": [], "plan": [], "all": []}
    nodes = 0
    for _ in range(given.runs + 1):
        at = [time.perf_counter()]
        flow = build(given.operators)
        at.append(time.perf_counter())
        checked = check(flow)
        at.append(time.perf_counter())
        planned = plan(checked, parallelism=4)
        at.append(time.perf_counter())
        nodes = len(checked.graph.nodes)
        for name, a, b in zip(times, (0, 1, 2, 0), (1, 2, 3, 3), strict=True):
            times[name].append(at[b] - at[a])
        assert planned.stages
    line = {
        "benchmark": "checker",
        "operators": given.operators,
        "nodes": nodes,
        **{f"{name}_seconds": round(statistics.median(taken[1:]), 3) for name, taken in times.items()},
        "versions": {"tracetypes": version, "python": platform.python_version()},
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
