"""Programs that mypy --strict refuses, without any plugin. A comment marks each line, with the code and what to say."""

from collections.abc import Callable
from typing import TypeVar

import attrs

from tracetypes import (
    Dataflow,
    Emit,
    EmitValue,
    Marker,
    O,
    OpKeyedOrdered,
    OpKeyedUnordered,
    OpStateless,
    Stream,
    U,
    Unit,
    every,
    merge,
    sort,
)
from tracetypes.gates import time

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
    def on_item(self, key: Unit, value: Measurement, emit: Callable[[str, Reading], None]) -> None:
        emit(value.id, Reading(value.scalar, value.ts))


@attrs.frozen
class Interpolate(OpKeyedOrdered[str, Reading, Reading, None]):
    def initial_state(self) -> None:
        return None

    def on_item(self, state: None, key: str, value: Reading, emit: Callable[[Reading], None]) -> None:
        emit(value)


@attrs.frozen
class Scale(OpStateless[str, float, str, float]):
    def on_item(self, key: str, value: float, emit: Callable[[str, float], None]) -> None:
        emit(key, value * 2)


@attrs.frozen
class Unchanged(OpStateless[K, V, K, V]):
    def on_item(self, key: K, value: V, emit: Callable[[K, V], None]) -> None:
        emit(key, value)


flow = Dataflow("bad")
ticks = every(seconds=10, time=lambda value: 0)
hub = flow.source("hub", U[Unit, Measurement], markers=ticks)

# The paper's motivating mistake (section 1): linear interpolation depends on an order that the parallel map destroyed.
hub.through(Parse()).through(Interpolate(), parallelism=2)  # E: arg-type "Interpolate"

# An order is never invented.
readings = hub.through(Parse())
invented: Stream[O[str, Reading]] = readings  # E: assignment "Stream[U[str, Reading]]" "Stream[O[str, Reading]]"

# An ordered stream through a stateless operator is unordered.
ordered = readings.through(sort(by=lambda r: r.ts))
ordered.through(Parse())  # E: arg-type "Parse"
mapped = flow.source("mapped", O[Unit, Measurement], markers=ticks, ordered_by=lambda m: m.ts).through(Parse())
mapped.through(Interpolate())  # E: arg-type "Interpolate" "Callable[[Stream[U[str, Reading]]]"

# Wrong values, and wrong keys.
hub.through(Scale())  # E: arg-type "Scale"
readings.through(Scale())  # E: arg-type "Scale" "Callable[[Stream[U[str, Reading]]], Stream[U[str, float]]]"
counts = flow.source("counts", U[str, int], markers=ticks)
counts.through(Scale())  # E: arg-type "Scale" "Callable[[Stream[U[str, int]]], Stream[U[str, float]]]"
flow.source("numbers", U[int, float], markers=ticks).through(Scale())  # E: arg-type "Scale" "Stream[U[int, float]]"

# The lambda knows what it is given.
readings.through(sort(by=lambda r: r.time))  # E: attr-defined "Reading" "time"
readings.through(sort(by=lambda r: complex(r.scalar)))  # E: arg-type # E: return-value "complex" "Sequence"
readings.through(sort(by=lambda r: frozenset([r.scalar])))  # E: arg-type # E: return-value "frozenset[float]" "Sequence"
readings.through(sort(by=lambda r: (r.scalar, {r.scalar})))  # E: arg-type # E: return-value "tuple[float, set[float]]" "Sequence"
readings.through(sort(by=lambda r: None))  # E: arg-type # E: return-value "None" "Sequence"
readings.through(sort(by=lambda r: r))  # E: arg-type # E: return-value "Reading" "Sequence"

# Merges need one type of values, and an order of all.
merge(readings, counts)  # E: arg-type "Stream[U[str, Reading]]" "Stream[U[str, int]]" "MapAllToOneTypeFirst"
merge(ordered, ordered.through(Interpolate()), counts)  # E: arg-type "Stream[O[str, Reading]]" "Stream[U[str, int]]"
merge(counts, flow.source("by number", U[int, int], markers=ticks))  # E: arg-type "U[str, int]" "U[int, int]"
also_invented: Stream[O[str, Reading]] = merge(ordered, readings)  # E: assignment "Stream[U[str, Reading]]"

# Only a source has late items and rejects, and they have types too.
readings.late()  # E: attr-defined "late"
readings.rejects()  # E: attr-defined "rejects"
late_in_order: Stream[O[str, int]] = counts.late()  # E: assignment "Stream[U[str, int]]" "Stream[O[str, int]]"
counts.late().through(Scale())  # E: arg-type "Scale"
counts.rejects().through(Scale())  # E: arg-type "Scale" "Rejected"
merge(counts, counts.rejects())  # E: arg-type "Stream[U[str, int]]" "Stream[U[Unit, Rejected]]"

# A source is a U or an O.
flow.source("list", list[int], markers=ticks)  # E: arg-type "list[int]"
flow.source("instance", U[str, int]())  # E: call-overload "U[str, int]"


@attrs.frozen
class Rekeys(OpKeyedOrdered[str, Reading, Reading, None]):
    def initial_state(self) -> None:
        return None

    def on_item(self, state: None, key: str, value: Reading, emit: EmitValue[Reading]) -> None:
        emit("another key", value)  # E: call-arg "Too many arguments" # E: arg-type "str"


@attrs.frozen
class Emits(OpStateless[str, Reading, str, float]):
    def on_item(self, key: str, value: Reading, emit: Emit[str, float]) -> None:
        emit(key, value)  # E: arg-type "Reading" "float"


@attrs.frozen
class WrongSignature(OpStateless[str, Reading, str, float]):
    def on_item(self, key: str, value: float, emit: Callable[[str, float], None]) -> None:  # E: override "Reading"
        emit(key, value)


@attrs.frozen
class EmitsWhileCombining(OpKeyedUnordered[str, Reading, str, float, float, float]):
    def lift(self, key: str, value: Reading) -> float:
        return value.scalar

    def identity(self) -> float:
        return 0.0

    def combine(self, a: float, b: float, emit: Callable[[str, float], None]) -> float:  # E: override "combine"
        return a + b

    def initial_state(self) -> float:
        return 0.0

    def update_state(self, state: float, agg: float) -> float:
        return agg

    def on_marker(self, new_state: float, key: str, marker: Marker, emit: Callable[[str, float], None]) -> None:
        emit(key, new_state)


@attrs.frozen
class Unfinished(OpKeyedUnordered[str, Reading, str, float, float, float]):  # P: also
    def lift(self, key: str, value: Reading) -> float:
        return value.scalar


readings.through(Unfinished())  # E: abstract "combine", "identity", "initial_state", "on_marker" and "update_state"


@attrs.frozen
class ForgetsItsState(OpKeyedOrdered[str, Reading, Reading, int]):
    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: str, value: Reading, emit: Callable[[Reading], None]) -> int:  # E: return
        state += 1


# Operators are frozen.
@attrs.frozen
class Gain(Scale):
    factor: float


Gain(2.0).factor = 3  # E: misc "factor" "read-only"

# A generic operator needs its types: mypy does not find them by itself.
readings.through(Unchanged())  # E: arg-type "Unchanged[Never, Never]"  # P: accepts
readings.through(Unchanged[str, float]())  # E: arg-type "Unchanged[str, float]" "Stream[U[str, Reading]]"

# The functions of a source see the type of its values.
flow.source("a", U[str, Measurement], markers=every(seconds=1, time=lambda m: m.tt))  # E: attr-defined "tt"
flow.source("b", U[str, Measurement], markers=ticks, key=lambda m: m.idd)  # E: attr-defined "idd"
flow.source("c", U[int, Measurement], markers=ticks, key=lambda m: m.id)  # E: arg-type "key" # E: return-value "str"

# Which item of a U is the latest, its author says. Bounds are no numbers.
readings.latest(time(60))  # E: call-arg "latest_by"
readings.latest(time(60), latest_by=lambda r: r.tts)  # E: attr-defined "tts"
readings.gate(60)  # E: arg-type "Bound"
ordered.gate(time(60) & 3)  # E: operator

# Operators are no methods of a stream.
readings.filter(lambda key, reading: True)  # E: attr-defined "filter"
