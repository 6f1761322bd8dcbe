"""Dataflows of many operators, by shape: for :mod:`benchmarks.checker` and for tests."""

from __future__ import annotations

import random
from collections.abc import Callable

import attrs

from tracetypes import (
    Dataflow,
    Emit,
    EmitValue,
    Marker,
    OpKeyedOrdered,
    OpKeyedUnordered,
    OpStateless,
    Stream,
    U,
    every,
    merge,
    sort,
)

__all__ = ["SHAPES", "Reading"]


@attrs.frozen
class Reading:
    """A value at a second."""

    value: int
    ts: int


@attrs.frozen
class Scale(OpStateless[str, Reading, str, Reading]):
    """Multiply."""

    factor: int

    def on_item(self, key: str, value: Reading, emit: Emit[str, Reading]) -> None:
        emit(key, Reading(value.value * self.factor, value.ts))


@attrs.frozen
class Half(OpStateless[str, Reading, str, Reading]):
    """Those of even or of odd seconds: diamonds of two halves do not double the items."""

    odd: int

    def on_item(self, key: str, value: Reading, emit: Emit[str, Reading]) -> None:
        if value.ts % 2 == self.odd:
            emit(key, value)


@attrs.frozen
class Change(OpKeyedOrdered[str, Reading, Reading, int]):
    """Differences."""

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: str, value: Reading, emit: EmitValue[Reading]) -> int:
        emit(Reading((value.value - state) % 1_000, value.ts))
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

    def on_marker(self, new_state: int, key: str, marker: Marker, emit: Emit[str, Reading]) -> None:
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
