"""Operators that are one thing in the driver, where they are traced, and another in the workers, once a test has changed
``RATE`` in the driver: what a tracer that was fooled would make of them."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from tracetypes import Dataflow, Marker, OpKeyedUnordered, OpStateless, U, every

RATE = 50


@attrs.frozen
class Event:
    user: int
    cents: int
    ts: int


@attrs.frozen
class Price(OpStateless[int, Event, int, int]):
    def on_item(self, key: int, value: Event, emit: Callable[[int, int], None]) -> None:
        emit(key, value.cents * RATE)


@attrs.frozen
class Cents(OpStateless[int, Event, int, int]):
    def on_item(self, key: int, value: Event, emit: Callable[[int, int], None]) -> None:
        emit(key, value.cents)


@attrs.frozen
class Total(OpKeyedUnordered[int, int, int, int, int, int]):
    def lift(self, key: int, value: int) -> int:
        return value

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: int) -> int:
        return state + agg

    def on_marker(self, new_state: int, key: int, marker: Marker, emit: Callable[[int, int], None]) -> None:
        emit(key, new_state)


@attrs.frozen
class Growth(Total):
    def update_state(self, state: int, agg: int) -> int:
        return state + agg * RATE


@attrs.frozen
class Inflation(Total):
    """Differs from the marker of two minutes on."""

    def on_marker(self, new_state: int, key: int, marker: Marker, emit: Callable[[int, int], None]) -> None:
        emit(key, new_state * RATE if marker.micros >= 120_000_000 else new_state)


def _flow(name: str, *ops: OpStateless[int, Event, int, int] | Total) -> Dataflow:
    flow = Dataflow(name)
    stream = flow.source("events", U[int, Event], key=lambda e: e.user, markers=every(seconds=10, time=lambda e: e.ts))
    for op in ops:
        stream = stream.through(op)  # type: ignore[assignment, arg-type]
    flow.sink("totals", stream)
    return flow


prices = _flow("prices", Price())
totals = _flow("totals", Price(), Total())
growth = _flow("growth", Price(), Growth())
inflation = _flow("inflation", Cents(), Inflation())

forked = Dataflow("forked")
_events = forked.source("events", U[int, Event], key=lambda e: e.user, markers=every(seconds=10, time=lambda e: e.ts))
_sums = _events.through(Price()).through(Total())
forked.sink("totals", _sums)
forked.sink("again", _sums.through(Total()))
