"""Readings for the gaps between the items of a key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar, get_args, overload
from zoneinfo import ZoneInfo

import attrs

from tracetypes.errors import UsageError
from tracetypes.markers import MICROS, TimeUnit, micros_from
from tracetypes.records import show
from tracetypes.stdlib.annotations import function_or_none
from tracetypes.stdlib.calendar_windows import CalendarUnit, number_of_span, start_of_span, zone_of
from tracetypes.stdlib.ordered import Interpolate
from tracetypes.stdlib.signatures import OrderedOperator, on_ordered
from tracetypes.stdlib.windows import whole
from tracetypes.templates import EmitValue, OpKeyedOrdered

__all__ = ["CalendarFill", "Fill", "interpolate"]

K = TypeVar("K")
V = TypeVar("V")
N = TypeVar("N")

Method: TypeAlias = Literal["linear", "last", "null", "next"]


@attrs.frozen
class Fill(OpKeyedOrdered[K, V, V, V | None]):
    """See :func:`interpolate`, by any method but ``"linear"``. The state is the last reading."""

    _word = "interpolate"

    time: Callable[[V], int]
    number: Any
    make: Callable[[V, int, Any], V]
    method: Method
    step: int = 1
    max_gap: int | None = None

    def initial_state(self) -> V | None:
        return None

    def on_item(self, state: V | None, key: K, value: V, emit: EmitValue[V]) -> V:
        if state is None:
            emit(value)
            return value
        start, make = self.time(state), self.make
        gap = self.time(value) - start
        number = None if self.method == "null" else self.number(state if self.method == "last" else value)
        if self.max_gap is None or gap <= self.max_gap:
            for passed in range(self.step, gap, self.step):
                emit(make(state, start + passed, number))
        if gap > 0:
            emit(value)
        return value


@attrs.frozen
class CalendarFill(OpKeyedOrdered[K, V, V, V | None]):
    """See :func:`interpolate`: where spans of the calendar begin. The state is the last reading."""

    _word = "interpolate"
    _in_python = "goes by a calendar"

    time: Callable[[V], int]
    number: Any
    make: Callable[[V, int, Any], V]
    method: Method
    span: CalendarUnit
    zone: str
    unit: TimeUnit
    max_gap: int | None = None

    def initial_state(self) -> V | None:
        return None

    def on_item(self, state: V | None, key: K, value: V, emit: EmitValue[V]) -> V:
        if state is None:
            emit(value)
            return value
        start, end = self.time(state), self.time(value)
        if self.max_gap is None or end - start <= self.max_gap:
            first, last = (number_of_span(self.span, self.zone, micros_from(time, self.unit)) for time in (start, end))
            for number in range(first + 1, last + 1):
                at = start_of_span(self.span, self.zone, number) // MICROS[self.unit]
                if start < at < end:
                    emit(self.make(state, at, self.filled(state, value, at)))
        if end > start:
            emit(value)
        return value

    def filled(self, before: V, after: V, at: int) -> Any:
        """What ``make`` gets for a time between two readings."""
        match self.method:
            case "last":
                return self.number(before)
            case "next":
                return self.number(after)
            case "null":
                return None
            case "linear":
                start, number = self.time(before), self.number(before)
                return number + (at - start) * (self.number(after) - number) / (self.time(after) - start)


@overload
def interpolate(
    *,
    time: Callable[[V], int],
    number: Callable[[V], float],
    make: Callable[[V, int, float], V],
    step: int | None = None,
    max_gap: int | None = None,
    method: Literal["linear"] = "linear",
    every: CalendarUnit | None = None,
    zone: str | ZoneInfo = "UTC",
    unit: TimeUnit = "s",
) -> OrderedOperator[V, V]: ...


@overload
def interpolate(
    *,
    time: Callable[[V], int],
    number: Callable[[V], N],
    make: Callable[[V, int, N], V],
    step: int | None = None,
    max_gap: int | None = None,
    method: Literal["last", "next"],
    every: CalendarUnit | None = None,
    zone: str | ZoneInfo = "UTC",
    unit: TimeUnit = "s",
) -> OrderedOperator[V, V]: ...


@overload
def interpolate(
    *,
    time: Callable[[V], int],
    make: Callable[[V, int, None], V],
    step: int | None = None,
    max_gap: int | None = None,
    method: Literal["null"],
    every: CalendarUnit | None = None,
    zone: str | ZoneInfo = "UTC",
    unit: TimeUnit = "s",
) -> OrderedOperator[V, V]: ...


def interpolate(
    *,
    time: Callable[[V], int],
    number: Any = None,
    make: Callable[[V, int, Any], V],
    step: int | None = None,
    max_gap: int | None = None,
    method: Method = "linear",
    every: CalendarUnit | None = None,
    zone: str | ZoneInfo = "UTC",
    unit: TimeUnit = "s",
) -> OrderedOperator[V, V]:
    """A reading at every ``step`` between two readings of a key, by linear interpolation (data-trace types, Example 4.1), or as
    ``method`` says.

    ``time`` returns the time of a reading and ``number`` the interpolated number. ``make(reading, time, number)`` makes
    a reading from the one before the gap. ``step`` (1 if it is left out) and ``max_gap`` are in the unit of ``time``. The first
    reading is emitted unchanged. For each later reading, ``gap`` after the one before, it emits readings at ``step, 2 * step,
    ...`` up to ``gap``, with ``before + passed * (after - before) / gap``. If the last of them falls on the reading, it
    replaces the reading; otherwise the reading is emitted too. A gap over ``max_gap`` is not filled in: only the
    reading after it is emitted, unchanged. A second reading of one time is not emitted, but the next gap begins with
    it.

    ``method``: ``"last"`` gives ``make`` the number of the reading before the gap, ``"next"`` that of the reading behind it, and
    ``"null"`` gives None and needs no ``number``. Numbers may then be of any type, and readings themselves are always emitted
    unchanged. A gap is filled when the reading behind it comes, by each method.

    ``every``: instead of steps, readings where a ``"day"``, ``"week"``, ``"month"``, ``"quarter"`` or ``"year"`` of a ``zone``
    begins, as in :func:`~tracetypes.stdlib.calendar_window`. ``unit``: that of ``time``, which counts since 1970. Readings
    themselves are emitted unchanged.

    Raises :class:`UsageError` ``TT121`` for a step below 1, for another ``method``, ``every`` or ``zone``, and for both ``step``
    and ``every``.

    >>> @attrs.frozen
    ... class Load:
    ...     ts: int
    ...     watts: float
    >>> filled = interpolate(time=lambda r: r.ts, number=lambda r: r.watts, make=lambda r, ts, x: Load(ts, x))
    >>> preview(filled, O[str, Load], [("a", Load(0, 10.0)), ("a", Load(2, 20.0))])
    [[('a', Load(ts=0, watts=10.0)), ('a', Load(ts=1, watts=15.0)), ('a', Load(ts=2, watts=20.0))]]
    """
    if method not in get_args(Method):
        known = ", ".join(map(repr, get_args(Method)))
        raise UsageError("TT121", f"interpolate was given method={show(method)}", fix=f"use one of {known}")
    if function_or_none("interpolate", number) is None and method != "null":
        raise UsageError(
            "TT121", f"interpolate was given no number, which {method!r} needs", fix="pass number=lambda reading: ..."
        )
    op: Any
    if every is not None:
        if step is not None:
            raise UsageError("TT121", "interpolate was given both step and every", fix="give one of them")
        if every not in get_args(CalendarUnit):
            known = ", ".join(map(repr, get_args(CalendarUnit)))
            raise UsageError("TT121", f"interpolate was given every={show(every)}", fix=f"use one of {known}")
        op = CalendarFill(time, number, make, method, every, zone_of("interpolate", zone), unit, max_gap)
        return on_ordered(op)
    size = 1 if step is None else step
    whole("step", size)
    op = Interpolate(time, number, make, size, max_gap)
    return on_ordered(op if method == "linear" else Fill(time, number, make, method, size, max_gap))
