"""Data-trace types, Example 4.1 and Table 2: temperature sensors near windows, gaps filled in; the largest average.

tracetypes run examples/sensors.py:filled --input hub=FILE.jsonl --output filled=DIR
tracetypes run examples/sensors.py:largest --input hub=FILE.jsonl --output largest=DIR
"""

from __future__ import annotations

import math

import attrs

from tracetypes import (
    Dataflow,
    Emit,
    EmitValue,
    ExactSum,
    Marker,
    OpKeyedOrdered,
    OpKeyedUnordered,
    OpStateless,
    U,
    Unit,
    every,
    sort,
)


@attrs.frozen
class Measurement:
    """What the hub sends: sensor, degrees, seconds since the epoch."""

    id: str
    scalar: float
    ts: int


@attrs.frozen
class Reading:
    """Degrees at a second."""

    scalar: float
    ts: int


@attrs.frozen
class JoinFilterMap(OpStateless[Unit, Measurement, str, Reading]):
    """Keep the sensors near windows, keyed by sensor. ``locations``: where each sensor is."""

    locations: dict[str, str]

    def on_item(self, key: Unit, value: Measurement, emit: Emit[str, Reading]) -> None:
        if self.locations.get(value.id) == "window":
            emit(value.id, Reading(value.scalar, value.ts))


@attrs.frozen
class LinearInterpolation(OpKeyedOrdered[str, Reading, Reading, Reading | None]):
    """Fill in a reading for every second between two readings."""

    def initial_state(self) -> Reading | None:
        return None

    def on_item(self, state: Reading | None, key: str, value: Reading, emit: EmitValue[Reading]) -> Reading | None:
        if state is None:
            emit(value)
            return value
        gap = value.ts - state.ts
        for i in range(1, gap + 1):
            emit(Reading(state.scalar + i * (value.scalar - state.scalar) / gap, state.ts + i))
        return value


@attrs.frozen
class MaxOfAverages(OpKeyedUnordered[str, Reading, str, Reading, float, tuple[ExactSum, int]]):
    """The largest of the averages between markers, so far. The sum is exact: a float sum depends on who adds first."""

    def lift(self, key: str, value: Reading) -> tuple[ExactSum, int]:
        return ExactSum.of(value.scalar), 1

    def identity(self) -> tuple[ExactSum, int]:
        return ExactSum(), 0

    def combine(self, a: tuple[ExactSum, int], b: tuple[ExactSum, int]) -> tuple[ExactSum, int]:
        return a[0] + b[0], a[1] + b[1]

    def initial_state(self) -> float:
        return -math.inf

    def update_state(self, state: float, agg: tuple[ExactSum, int]) -> float:
        total, count = agg
        return max(state, total.value() / count) if count else state

    def on_marker(self, new_state: float, key: str, marker: Marker, emit: Emit[str, Reading]) -> None:
        emit(key, Reading(new_state, marker.timestamp - 1))


def ts(measurement: Measurement) -> int:
    """When it was measured."""
    return measurement.ts


LOCATIONS = {f"sensor-{n}": "window" if n % 3 else "door" for n in range(100)}
TEN_SECONDS = every(seconds=10, time=ts, delay=10)

filled = Dataflow("filled")
hub = filled.source("hub", U[Unit, Measurement], markers=TEN_SECONDS)
near_windows = hub.through(JoinFilterMap(LOCATIONS))
ordered = near_windows.through(sort(by=lambda r: r.ts))
filled.sink("filled", ordered.through(LinearInterpolation()))

largest = Dataflow("largest")
hub = largest.source("hub", U[Unit, Measurement], markers=TEN_SECONDS)
largest.sink("largest", hub.through(JoinFilterMap(LOCATIONS)).through(MaxOfAverages()))
