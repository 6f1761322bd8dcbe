"""Sessions: items of a key that follow each other closely."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

from tracetypes.consecutive_windows import ConsecutiveWindows, Gap, HeldSession
from tracetypes.errors import UsageError
from tracetypes.markers import Marker, Span, Time, TimeUnit, micros_from
from tracetypes.stdlib.aggregates import Aggregate
from tracetypes.stdlib.open_aggregates import over_aggregates
from tracetypes.stdlib.products import summary_of
from tracetypes.stdlib.signatures import OrderedOperator, on_ordered
from tracetypes.stdlib.windows import instant, seconds_as_micros, typed
from tracetypes.templates import EmitValue, OpKeyedOrdered

__all__ = ["Open", "Session", "SessionWindow", "VaryingSessionWindow", "held_windows", "session"]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
W = TypeVar("W")
R = TypeVar("R")


@attrs.frozen
class Session(Generic[W]):
    """The result of a session. ``start`` and ``end``: times of its first and last item."""

    start: dt.datetime
    end: dt.datetime
    value: W


Open: TypeAlias = tuple[int, int, A]
"""First and last time in microseconds, and the aggregate."""


@attrs.frozen
class SessionWindow(OpKeyedOrdered[K, V, R, tuple[int, int, A] | None]):
    """Items of a key that follow each other within ``gap`` microseconds are one session; see :func:`session`."""

    _word = "session"

    forgets_idle = True

    aggregate: Aggregate[V, A, Any]
    gap: int
    time: Callable[[V], Time]
    unit: TimeUnit

    def type_arguments(self) -> Mapping[str, Any]:
        return typed(self.aggregate, Session)

    def initial_state(self) -> tuple[int, int, A] | None:
        return None

    def on_item(
        self, state: tuple[int, int, A] | HeldSession[V] | None, key: K, value: V, emit: EmitValue[R]
    ) -> tuple[int, int, A]:
        if isinstance(state, HeldSession):
            state = self.folded(state)
        time, lifted = self.time_of(value), self.aggregate.lift(value)
        if state is not None and time - state[1] <= self.gap:
            first, last, agg = state
            return min(first, time), max(last, time), self.aggregate.combine(agg, lifted)
        if state is not None:
            self.end(state, emit)
        return time, time, self.aggregate.combine(self.aggregate.identity(), lifted)

    def on_marker(
        self, state: tuple[int, int, A] | HeldSession[V] | None, key: K, marker: Marker, emit: EmitValue[R]
    ) -> tuple[int, int, A] | None:
        if isinstance(state, HeldSession):
            state = self.folded(state)
        if state is None or marker.micros - state[1] <= self.gap:
            return state
        self.end(state, emit)
        return None

    def linger(self) -> dt.timedelta:
        # A session is over when a marker lies more than the gap behind it. One whose time is that of its marker waits longest.
        return dt.timedelta(microseconds=self.gap + 1)

    def next_due(self, state: tuple[int, int, A] | HeldSession[V] | None, key: K) -> int | None:
        if isinstance(state, HeldSession):
            return state.last + self.gap + 1
        return None if state is None else state[1] + self.gap + 1

    def time_of(self, value: V) -> int:
        """The time of a value."""
        return micros_from(self.time(value), self.unit)

    def folded(self, state: HeldSession[V]) -> tuple[int, int, A]:
        """A state with the aggregate of the values that it holds."""
        return state.first, state.last, self.aggregate.fold(self.aggregate.identity(), state.values)

    def end(self, state: tuple[int, int, A], emit: EmitValue[R]) -> None:
        """Emit a session."""
        first, last, agg = state
        self.answer(first, last, self.aggregate.result(agg), emit)

    def answer(self, first: int, last: int, result: Any, emit: EmitValue[R]) -> None:
        """Emit a session by its times and the result of its aggregate."""
        session: Any = Session(instant(first), instant(last), result)
        emit(session)

    def _says(self) -> ConsecutiveWindows[V] | None:
        if type(self) is not SessionWindow:  # a subclass may do something else
            return None
        return held_windows(self, Gap(micros=self.gap, time=self.time_of))


def held_windows(op: Any, length: Gap[V] | int) -> ConsecutiveWindows[V] | None:
    """What an operator says of itself whose aggregate follows from the values of a window; None for another one."""
    summary = summary_of(op.aggregate)
    if summary is None:
        return None
    return ConsecutiveWindows(aggregate=op.aggregate, summary=summary, length=length, answer=op.answer)


Until: TypeAlias = tuple[int, int, int, A]
"""First and last time, and until when the session goes on, in microseconds; and the aggregate."""


@attrs.frozen
class VaryingSessionWindow(OpKeyedOrdered[K, V, R, "Until[A] | None"], Generic[K, V, R, A]):
    """Sessions whose gap each item says; see :func:`session`. ``max_gap``: microseconds."""

    _word = "session"

    forgets_idle = True

    aggregate: Aggregate[V, A, Any]
    gap: Callable[[V], float]
    max_gap: int
    time: Callable[[V], Time]
    unit: TimeUnit

    def type_arguments(self) -> Mapping[str, Any]:
        return typed(self.aggregate, Session)

    def initial_state(self) -> Until[A] | None:
        return None

    def on_item(self, state: Until[A] | None, key: K, value: V, emit: EmitValue[R]) -> Until[A]:
        time, gap = micros_from(self.time(value), self.unit), micros_from(self.gap(value), "s")
        if gap < 0 or gap > self.max_gap:
            raise ValueError(f"gap gave {gap / 1_000_000:g} s, which is not from 0 to max_gap, {self.max_gap / 1_000_000:g} s")
        lifted = self.aggregate.lift(value)
        if state is not None and time <= state[2]:
            first, last, until, agg = state
            return min(first, time), max(last, time), max(until, time + gap), self.aggregate.combine(agg, lifted)
        if state is not None:
            self.end(state, emit)
        return time, time, time + gap, self.aggregate.combine(self.aggregate.identity(), lifted)

    def on_marker(self, state: Until[A] | None, key: K, marker: Marker, emit: EmitValue[R]) -> Until[A] | None:
        if state is None or marker.micros <= state[2]:
            return state
        self.end(state, emit)
        return None

    def linger(self) -> dt.timedelta:
        return dt.timedelta(microseconds=self.max_gap + 1)

    def next_due(self, state: Until[A] | None, key: K) -> int | None:
        return None if state is None else state[2] + 1

    def end(self, state: Until[A], emit: EmitValue[R]) -> None:
        """Emit a session."""
        first, last, _, agg = state
        session: Any = Session(instant(first), instant(last), self.aggregate.result(agg))
        emit(session)


@over_aggregates
def session(
    aggregate: Aggregate[V, A, W],
    *,
    gap: Span | Callable[[V], float],
    time: Callable[[V], Time],
    unit: TimeUnit = "s",
    max_gap: Span | None = None,
) -> OrderedOperator[V, Session[W]]:
    """Sessions of each key: a session is a row of items of which each follows within ``gap`` of the one before.

    ``gap``: seconds or a timedelta. ``time`` and ``unit``: as in :func:`tracetypes.every`; the stream must be sorted by the same
    time. A session is emitted when it is over: at the item that comes too late for it, or at the first marker that lies more than
    ``gap`` behind its last item. When the input ends, the sessions that are still open are emitted, too.

    ``gap`` may be a function of an item, which returns seconds. A session then goes on until the latest of ``time + gap`` of its
    items. ``max_gap``: no gap is longer; a function that returns more, or less than 0, stops the run. Raises
    :class:`UsageError` ``TT121`` for a negative gap, and for a function without ``max_gap``.

    Here the value is the time. The session of 0 and 1 is over at marker 4, that of 4 at marker 7:

    >>> sessions = session(count(), gap=2, time=lambda time: time)
    >>> visits = preview(sessions, O[str, int], [("a", 0), ("a", 1)], [], [], [], [("a", 4)])
    >>> [(at, visit.end.second, visit.value) for at, block in enumerate(visits, 1) for key, visit in block]
    [(4, 1, 2), (7, 4, 1)]
    """
    if callable(gap):
        if max_gap is None:
            raise UsageError(
                "TT121", "session was given a function as gap without max_gap", fix="pass max_gap=, in seconds: no gap is longer"
            )
        longest = seconds_as_micros("max_gap", max_gap, 0)
        varying: VaryingSessionWindow[Any, V, Any, A] = VaryingSessionWindow(aggregate, gap, longest, time, unit)
        return on_ordered(varying)
    if max_gap is not None:
        raise UsageError("TT121", "session was given max_gap with a gap of one length", fix="leave max_gap out")
    return on_ordered(SessionWindow(aggregate, seconds_as_micros("gap", gap, 0), time, unit))
