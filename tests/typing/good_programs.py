"""Programs that mypy --strict accepts, with the types that it finds."""

from collections.abc import Callable
from typing import TypeVar, assert_type

import attrs

from tracetypes import (
    ROW_POSITION,
    Dataflow,
    Emit,
    EmitValue,
    Marker,
    O,
    OpKeyedOrdered,
    OpKeyedUnordered,
    OpStateless,
    Rejected,
    SourceStream,
    Stream,
    U,
    Unit,
    every,
    in_band,
    merge,
    sort,
)
from tracetypes.gates import majority, sequence, time, value

K = TypeVar("K")
V = TypeVar("V")


@attrs.frozen
class Measurement:
    id: str
    scalar: float
    ts: int


@attrs.frozen
class Reading:
    scalar: float
    ts: int


@attrs.frozen
class Parse(OpStateless[Unit, Measurement, str, Reading]):
    def on_item(self, key: Unit, value: Measurement, emit: Emit[str, Reading]) -> None:
        emit(value.id, Reading(value.scalar, value.ts))


@attrs.frozen
class Interpolate(OpKeyedOrdered[str, Reading, Reading, Reading | None]):
    def initial_state(self) -> Reading | None:
        return None

    def on_item(
        self, state: Reading | None, key: str, value: Reading, emit: EmitValue[Reading]
    ) -> Reading | None:
        emit(value)
        return value


@attrs.frozen
class Count(OpKeyedUnordered[K, V, K, int, int, int]):
    def lift(self, key: K, value: V) -> int:
        return 1

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: int) -> int:
        return state + agg

    def on_marker(self, new_state: int, key: K, marker: Marker, emit: Callable[[K, int], None]) -> None:
        emit(key, new_state)


# Lambdas get their types from the stream: r is a Reading, and so r.ts an int.
flow = Dataflow("good")
hub = flow.source("hub", U[Unit, Measurement], markers=every(seconds=10, time=lambda m: m.ts))
assert_type(hub, SourceStream[U[Unit, Measurement]])
readings = hub.through(Parse())
assert_type(readings, Stream[U[str, Reading]])
ordered = readings.through(sort(by=lambda r: (r.ts, -r.scalar)))
assert_type(ordered, Stream[O[str, Reading]])
filled = ordered.through(Interpolate())
assert_type(filled, Stream[O[str, Reading]])

# An order may be forgotten: an O passes where a U is expected.
counts = filled.through(Count[str, Reading]())
assert_type(counts, Stream[U[str, int]])
forgotten: Stream[U[str, Reading]] = filled
flow.sink("filled", filled, position="at")
flow.sink("counts", counts, marker="until")


# Composite operators are functions of streams.
def prepared(stream: Stream[U[Unit, Measurement]]) -> Stream[O[str, Reading]]:
    return stream.through(Parse()).through(sort(by=lambda r: r.ts)).through(Interpolate())


assert_type(hub.through(prepared), Stream[O[str, Reading]])

# Merges of all kinds.
more = flow.source("more", U[str, Reading], markers=in_band(is_marker=lambda r: r.scalar < 0, time=lambda r: r.ts))
assert_type(merge(readings, more), Stream[U[str, Reading]])
assert_type(merge(readings, more, readings), Stream[U[str, Reading]])
assert_type(merge(filled, filled), Stream[O[str, Reading]])


@attrs.frozen
class Left:
    id: int


@attrs.frozen
class Right:
    id: int


left = flow.source("left", O[Left, Reading], markers=every(seconds=1, time=lambda r: r.ts), ordered_by=lambda r: r.ts)
right = flow.source("right", O[Right, Reading], markers=every(seconds=1, time=lambda r: r.ts), ordered_by=ROW_POSITION)
either = merge(left, right)
assert_type(either, Stream[O[Left | Right, Reading]])

# A mixed merge forgets the order.
assert_type(merge(more, filled), Stream[U[str, Reading]])

# What is late has the source's keys and values, in no order; what is rejected is text.
assert_type(more.late(), Stream[U[str, Reading]])
assert_type(left.late(), Stream[U[Left, Reading]])
assert_type(merge(readings, more.late()), Stream[U[str, Reading]])
assert_type(hub.rejects(), Stream[U[Unit, Rejected]])
assert_type(merge(hub.rejects(), left.rejects()), Stream[U[Unit, Rejected]])

# Gates keep the type of a stream that they hold; what a container gate hands on is ordered.
assert_type(readings.gate(time(60) | sequence(100)), Stream[U[str, Reading]])
assert_type(readings.gate(value(units=1, columns="scalar"), latest_by=lambda r: r.ts), Stream[U[str, Reading]])
assert_type(ordered.gate(time(60)), Stream[O[str, Reading]])
assert_type(ordered.latest(time(60) & sequence(percent=20)), Stream[O[str, Reading]])
assert_type(readings.latest(majority(time(60), sequence(100)), latest_by=lambda r: (r.ts, r.scalar)), Stream[O[str, Reading]])
