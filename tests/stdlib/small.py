"""Small aggregates and flows that the tests of windows, ordered operators and joins share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs
from hypothesis import strategies as st

from tracetypes import Dataflow, ExactSum, Marker, Stream, U, check, every, interpret_rows
from tracetypes.algebra import larger
from tracetypes.stdlib.aggregates import Aggregate
from tracetypes.stdlib.panes import Invertible

V = TypeVar("V")


@attrs.frozen
class Event:
    """A value of a key at a time in seconds."""

    key: str
    ts: int
    x: int


@attrs.frozen
class Number(Aggregate[Any, int, int]):
    """How many, of anything."""

    def lift(self, value: Any) -> int:
        return 1

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def result(self, agg: int) -> int:
        return agg


@attrs.frozen
class Integers(Invertible[V, int, int]):
    """A sum of integers."""

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def subtract(self, total: int, part: int) -> int:
        return total - part

    def result(self, agg: int) -> int:
        return agg


@attrs.frozen
class Total(Integers[Event]):
    """The sum of ``x``."""

    def lift(self, value: Event) -> int:
        return value.x


@attrs.frozen
class Added(Integers[int]):
    """The sum of the values."""

    def lift(self, value: int) -> int:
        return value


@attrs.frozen
class Mean(Aggregate[Event, tuple[int, ExactSum], float]):
    """The exact mean of ``x``."""

    def lift(self, value: Event) -> tuple[int, ExactSum]:
        return 1, ExactSum.of(float(value.x))

    def identity(self) -> tuple[int, ExactSum]:
        return 0, ExactSum()

    def combine(self, a: tuple[int, ExactSum], b: tuple[int, ExactSum]) -> tuple[int, ExactSum]:
        return a[0] + b[0], a[1] + b[1]

    def result(self, agg: tuple[int, ExactSum]) -> float:
        return agg[1].value() / agg[0]


@attrs.frozen
class Largest(Aggregate[V, "V | None", V]):
    """The largest value, of a type that only the stream knows."""

    def lift(self, value: V) -> V | None:
        return value

    def identity(self) -> V | None:
        return None

    def combine(self, a: V | None, b: V | None) -> V | None:
        if a is None or b is None:
            return b if a is None else a
        return larger(a, b)  # type: ignore[type-var]

    def result(self, agg: V | None) -> V:
        assert agg is not None
        return agg


EVENTS = st.builds(Event, st.sampled_from("ab"), st.integers(-30, 90), st.integers(-9, 9))
ROWS = st.lists(EVENTS, max_size=12)
"""Rows in any order: with the delay of :func:`told` none is late."""


def source(flow: Dataflow, name: str = "events", seconds: float = 5) -> Stream[U[str, Event]]:
    """Events by key, a marker every so many seconds; nothing within 1,000 s is late."""
    return flow.source(
        name, U[str, Event], markers=every(seconds=seconds, time=lambda e: e.ts, delay=1000), key=lambda e: e.key
    )


def told(
    build: Callable[[Stream[U[str, Event]]], Stream[Any]], rows: Sequence[Event], seconds: float = 5
) -> dict[tuple[int, str], list[Any]]:
    """What the definition tells for events, by the second of the marker and the key, in order; only what is not empty."""
    flow = Dataflow("told")
    flow.sink("out", build(source(flow, seconds=seconds)))
    trace = interpret_rows(check(flow), {"events": list(rows)})[0]["out"]
    return by_marker(trace.items)


def by_marker(elements: Sequence[Any]) -> dict[tuple[int, str], list[Any]]:
    """The items of a closed stream by the second of the marker that ends their block, and key."""
    found: dict[tuple[int, str], list[Any]] = {}
    block: list[Any] = []
    for one in elements:
        if isinstance(one, Marker):
            for item in block:
                found.setdefault((one.timestamp, item.key), []).append(item.value)
            block = []
        else:
            block.append(one)
    assert not block, "the stream is closed"
    return found


def markers(rows: Sequence[Event], seconds: int = 5, silent: int = 0) -> range:
    """The times of the markers that end blocks of these rows, and of so many silent ones."""
    if not rows:
        return range(0)
    first, last = (least(r.ts for r in rows) // seconds for least in (min, max))
    return range((first + 1) * seconds, (last + 1 + silent) * seconds + 1, seconds)
