"""Graphs of many operators: checked, interpreted, planned, shipped to workers and explained.

    python -m benchmarks.checker [--operators N] [--runs N] [--shape SHAPE ...]

The shapes: a tree of all kinds of operators; a chain; diamonds, one behind the other; a fan; a comb of many sources; random
graphs. There is no other side: nobody else checks such a graph. Prints a JSON line for each shape with the seconds of each part
(median).
"""

from __future__ import annotations

import argparse
import json
import pickle
import platform
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import attrs
import cloudpickle

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
    interpret_rows,
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
class Half(OpStateless[str, Reading, str, Reading]):
    """Those of even or of odd seconds: diamonds of two halves do not double the items."""

    odd: int

    def on_item(self, key: str, value: Reading, emit: Callable[[str, Reading], None]) -> None:
        if value.ts % 2 == self.odd:
            emit(key, value)


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


Readings = Stream[U[str, Reading]]


def source_of(flow: Dataflow, number: int) -> Readings:
    """A source."""
    return flow.source(f"source-{number}", U[str, Reading], markers=every(seconds=1, time=lambda r: r.ts))


def joined(streams: list[Readings]) -> Readings:
    """One stream of many, two by two."""
    while len(streams) > 1:
        streams = [*streams[2:], merge(streams[0], streams[1])]
    return streams[0]


def tree(flow: Dataflow, operators: int) -> None:
    """An in-tree: chains of ten operators of all kinds, merged two by two."""
    chains: list[Readings] = []
    for number in range(operators // 11 + 1):
        stream = source_of(flow, number)
        for n in range(2):
            ordered = stream.through(Scale(n)).through(Scale(n + 1)).through(sort(by=lambda r: r.ts))
            stream = ordered.through(Change()).through(Total())
        chains.append(stream)
    flow.sink("out", joined(chains))


def chain(flow: Dataflow, operators: int) -> None:
    """Stateless operators, one behind the other."""
    stream = source_of(flow, 0)
    for n in range(operators):
        stream = stream.through(Scale(n % 7))
    flow.sink("out", stream.through(Total()))


def changes(flow: Dataflow, operators: int) -> None:
    """Ordered operators, one behind the other: all of them are one stage."""
    stream = source_of(flow, 0).through(sort(by=lambda r: r.ts))
    for _ in range(operators):
        stream = stream.through(Change())
    flow.sink("out", stream)


def stages(flow: Dataflow, operators: int) -> None:
    """Keyed and stateless operators by turns: as many stages as keyed operators."""
    stream = source_of(flow, 0)
    for n in range(operators // 2):
        stream = stream.through(Total()).through(Scale(n % 7))
    flow.sink("out", stream)


def diamonds(flow: Dataflow, operators: int) -> None:
    """Two operators that read one stream and are merged, one pair behind the other."""
    stream = source_of(flow, 0)
    for _ in range(operators // 3):
        stream = merge(stream.through(Half(0)), stream.through(Half(1)))
    flow.sink("out", stream.through(Total()))


def fan(flow: Dataflow, operators: int) -> None:
    """Many readers of one stream, merged at once."""
    stream = source_of(flow, 0)
    first, *others = (stream.through(Scale(n % 7)) for n in range(operators))
    flow.sink("out", merge(first, *others))


def sinks(flow: Dataflow, operators: int) -> None:
    """Many readers of one stream, each with a sink."""
    stream = source_of(flow, 0)
    for n in range(operators):
        flow.sink(f"out-{n}", stream.through(Scale(n % 7)))


def comb(flow: Dataflow, operators: int) -> None:
    """A chain into which another source is merged behind each operator."""
    stream = source_of(flow, 0)
    for n in range(operators // 2):
        stream = merge(stream.through(Scale(n % 7)), source_of(flow, n + 1))
    flow.sink("out", stream)


def chaos(flow: Dataflow, operators: int) -> None:
    """A random graph: each operator reads one of the last fifty streams, or merges two of them."""
    chance = random.Random(operators)
    streams = [source_of(flow, n) for n in range(5)]
    read: set[int] = set()
    for n in range(operators):
        one, other = (chance.choice(streams[-50:]) for _ in range(2))
        kind = chance.random()
        read.add(one.id)
        if kind < 0.2 and one is not other:
            read.add(other.id)
            streams.append(merge(one, other))
        else:
            streams.append(one.through(Total()) if kind < 0.4 else one.through(Scale(n % 3 - 1)))
    flow.sink("out", joined([stream for stream in streams if stream.id not in read]))


SHAPES: dict[str, Callable[[Dataflow, int], None]] = {
    "tree": tree,
    "chain": chain,
    "changes": changes,
    "stages": stages,
    "diamonds": diamonds,
    "fan": fan,
    "sinks": sinks,
    "comb": comb,
    "random": chaos,
}


def measured(shape: str, operators: int) -> tuple[int, dict[str, float]]:
    """The nodes of a graph, and the seconds of each part."""
    seconds: dict[str, float] = {}

    def timed(name: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        made = call()
        seconds[f"{name}_seconds"] = time.perf_counter() - start
        return made

    flow = Dataflow("large")
    timed("build", lambda: SHAPES[shape](flow, operators))
    checked = timed("check", lambda: check(flow))
    rows = {source.name: [("a", Reading(1, 1)), ("b", Reading(0, 2))] for source in checked.graph.sources[:1]}
    timed("interpret", lambda: interpret_rows(checked, rows))
    made = timed("plan", lambda: program(checked, parallelism=4))
    timed("ship", lambda: [pickle.loads(cloudpickle.dumps(plan)) for plan in made.plans])
    text = timed("explain", lambda: explain(checked, parallelism=4, key_groups=16))
    assert "plan:" in text
    return len(checked.graph.nodes), seconds


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--shape", choices=SHAPES, action="append")
    given = parser.parse_args()
    for shape in given.shape or SHAPES:
        runs = [measured(shape, given.operators) for _ in range(given.runs + 1)]
        line = {
            "benchmark": "checker",
            "shape": shape,
            "operators": given.operators,
            "nodes": runs[0][0],
            **{name: round(statistics.median(run[name] for _, run in runs[1:] or runs), 3) for name in runs[0][1]},
            "versions": {"tracetypes": version, "python": platform.python_version()},
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
