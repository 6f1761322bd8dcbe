"""Counts by key, with a state of any size: the dataflows of several benchmarks. Imports only what a user's program would."""

from __future__ import annotations

import hashlib
import os

import attrs

from tracetypes import Dataflow, Emit, Marker, OpKeyedUnordered, U, every

FILES, FILES_PER_STEP, SECONDS = 8, 2, 200


@attrs.frozen
class Event:
    """A value at a time (seconds)."""

    value: int
    ts: int


@attrs.frozen
class Running:
    """Count and mean of all values of a key so far."""

    count: int
    mean: float


@attrs.frozen
class CountAndMean(OpKeyedUnordered[int, Event, int, Running, tuple[int, int, bool], tuple[int, int]]):
    """Running count and mean, emitted at each marker for the keys that its block touched."""

    skips_untouched = True

    def lift(self, key: int, value: Event) -> tuple[int, int]:
        return 1, value.value

    def identity(self) -> tuple[int, int]:
        return 0, 0

    def combine(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]

    def initial_state(self) -> tuple[int, int, bool]:
        return 0, 0, False

    def update_state(self, state: tuple[int, int, bool], agg: tuple[int, int]) -> tuple[int, int, bool]:
        return state[0] + agg[0], state[1] + agg[1], agg[0] > 0

    def on_marker(self, new_state: tuple[int, int, bool], key: int, marker: Marker, emit: Emit[int, Running]) -> None:
        count, total, touched = new_state
        if touched:
            emit(key, Running(count, total / count))


small = Dataflow("keyed-state")
events = small.source(
    "events", U[int, Event], markers=every(seconds=SECONDS * FILES_PER_STEP // FILES, time=lambda e: e.ts)
)
small.sink("running", events.through(CountAndMean()))


Counted = tuple[int, int, bool, bytes]


@attrs.frozen
class CountWithLuggage(OpKeyedUnordered[int, Event, int, Running, Counted, tuple[int, int, int]]):
    """Count and mean, with a state of ``size`` bytes more; they do not compress. The last part of the aggregate: the key."""

    size: int
    skips_untouched = True

    def lift(self, key: int, value: Event) -> tuple[int, int, int]:
        return 1, value.value, key

    def identity(self) -> tuple[int, int, int]:
        return 0, 0, -1

    def combine(self, a: tuple[int, int, int], b: tuple[int, int, int]) -> tuple[int, int, int]:
        return a[0] + b[0], a[1] + b[1], a[2] if a[2] > b[2] else b[2]

    def initial_state(self) -> Counted:
        return 0, 0, False, b""

    def update_state(self, state: Counted, agg: tuple[int, int, int]) -> Counted:
        luggage = state[3] or (hashlib.shake_128(str(agg[2]).encode()).digest(self.size) if agg[0] else b"")
        return state[0] + agg[0], state[1] + agg[1], agg[0] > 0, luggage

    def on_marker(self, new_state: Counted, key: int, marker: Marker, emit: Emit[int, Running]) -> None:
        if new_state[2]:
            emit(key, Running(new_state[0], new_state[1] / new_state[0]))


def flow_of(size: int) -> Dataflow:
    """The flow with so many bytes of state more a key."""
    if not size:
        return small
    graph = Dataflow("growth")
    events = graph.source("events", U[int, Event], markers=every(seconds=50, time=lambda e: e.ts))
    graph.sink("running", events.through(CountWithLuggage(size)))
    return graph


flow = flow_of(int(os.environ.get("COUNT_BYTES", "0")))
"""For the command line, with so many bytes more a key."""
