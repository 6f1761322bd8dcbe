"""Windows by the calendar of a zone: hours, days of 23 to 25 hours, weeks, months, quarters and years."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args, overload
from zoneinfo import ZoneInfo

import attrs

from tracetypes.conformance import micros_of
from tracetypes.errors import UsageError
from tracetypes.markers import FIRST, LAST, Marker, Span, Time, TimeUnit, micros_from
from tracetypes.own_windows import OwnWindows
from tracetypes.records import show
from tracetypes.stdlib.aggregates import Aggregate
from tracetypes.stdlib.item_windows import OpenWindows, TimeWindow
from tracetypes.stdlib.open_aggregates import over_aggregates
from tracetypes.stdlib.signatures import OrderedOperator, on_ordered
from tracetypes.stdlib.windows import Windowed, instant, seconds_as_micros, windowed
from tracetypes.templates import EmitValue

__all__ = ["CalendarUnit", "CalendarWindow", "calendar_window", "number_of_span", "start_of_span", "zone_of"]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
W = TypeVar("W")
R = TypeVar("R")

CalendarUnit: TypeAlias = Literal["day", "week", "month", "quarter", "year"]

_LONGEST: Final = {"day": 2, "week": 8, "month": 32, "quarter": 93, "year": 367}
"""No span has so many days; clocks are turned back by less than one."""

_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}


def zone_of(caller: str, zone: object) -> str:
    """The name of a zone. Raises :class:`UsageError` ``TT121``."""
    try:
        return ZoneInfo(zone).key if isinstance(zone, str) else ZoneInfo(getattr(zone, "key", "")).key
    except (ValueError, OSError, LookupError):
        raise UsageError(
            "TT121", f"{caller} was given zone={show(zone)}, which is no zone", fix='pass a name such as "Europe/Berlin" or "UTC"'
        ) from None


@lru_cache(1 << 16)
def start_of_span(unit: CalendarUnit, zone: str, number: int) -> int:
    """When a span of the calendar begins, in microseconds since the epoch: at midnight of the zone, the first time that it is;
    where the clocks are turned over midnight, when they are. Spans before the year 1 begin with it, those behind 9999 with its
    end."""
    try:
        if unit in _MONTHS:
            year, month = divmod(number * _MONTHS[unit], 12)
            day = dt.date(year, month + 1, 1)
        else:
            day = dt.date.fromordinal(number * (7 if unit == "week" else 1) + 1)
        return micros_of(dt.datetime.combine(day, dt.time(), ZoneInfo(zone)))
    except (ValueError, OverflowError):
        return FIRST if number <= 0 or (unit in _MONTHS and number * _MONTHS[unit] < 24) else LAST


def number_of_span(unit: CalendarUnit, zone: str, micros: int) -> int:
    """The number of the span of the calendar in which a time lies."""
    time = instant(micros).astimezone(ZoneInfo(zone))
    if unit in _MONTHS:
        number = (time.year * 12 + time.month - 1) // _MONTHS[unit]
    else:
        number = (time.toordinal() - 1) // (7 if unit == "week" else 1)
    # Clocks that are turned back over midnight bring a day back that is over.
    return number + 1 if start_of_span(unit, zone, number + 1) <= micros < LAST else number


@attrs.frozen
class CalendarWindow(TimeWindow[K, V, R, A]):
    """See :func:`calendar_window`. ``size`` and ``offset`` say nothing here."""

    _word = "calendar_window"

    span: CalendarUnit = "day"
    zone: str = "UTC"

    def on_marker(self, state: OpenWindows[V, A], key: K, marker: Marker, emit: EmitValue[R]) -> OpenWindows[V, A]:
        return self.answered(state, number_of_span(self.span, self.zone, marker.micros - self.grace), emit)

    def number_at(self, time: Time) -> int:
        return number_of_span(self.span, self.zone, micros_from(time, self.unit))

    def answer_result(self, number: int, result: Any, emit: EmitValue[R]) -> None:
        if self.ends:
            result = windowed(self._start(number), self._start(number + 1), result)
        emit(result)

    def _start(self, number: int) -> int:
        return start_of_span(self.span, self.zone, number)

    def linger(self) -> dt.timedelta:
        return dt.timedelta(days=_LONGEST[self.span], microseconds=self.grace)

    def next_due(self, state: OpenWindows[V, A], key: K) -> int:
        if state.values or state.over == -math.inf:
            return -(2**62)  # at any marker
        return self._start(int(state.over) + 1) + self.grace

    def next_emission(self, state: OpenWindows[V, A], key: K) -> int | None:
        if state.values:
            return -(2**62)
        return self._start(min(state.aggregates) + 1) + self.grace if state.aggregates else None

    def _says(self) -> OwnWindows[V] | None:
        return None


@overload
def calendar_window(
    aggregate: Aggregate[V, A, W],
    *,
    every: CalendarUnit,
    zone: str | ZoneInfo,
    time: Callable[[V], Time],
    unit: TimeUnit = "s",
    grace: Span = 0,
    ends: Literal[False] = False,
) -> OrderedOperator[V, W]: ...


@overload
def calendar_window(
    aggregate: Aggregate[V, A, W],
    *,
    every: CalendarUnit,
    zone: str | ZoneInfo,
    time: Callable[[V], Time],
    unit: TimeUnit = "s",
    grace: Span = 0,
    ends: Literal[True],
) -> OrderedOperator[V, Windowed[W]]: ...


@over_aggregates
def calendar_window(
    aggregate: Aggregate[V, A, Any],
    *,
    every: CalendarUnit,
    zone: str | ZoneInfo,
    time: Callable[[V], Time],
    unit: TimeUnit = "s",
    grace: Span = 0,
    ends: bool = False,
) -> OrderedOperator[V, Any]:
    """Windows by the calendar of a zone, by the time of the values: a window for each ``"day"``, ``"week"`` (from Monday),
    ``"month"``, ``"quarter"`` or ``"year"``.

    ``zone``: its name, such as ``"Europe/Berlin"``. A day has 23 or 25 hours where clocks are turned. It begins at midnight, or
    where clocks are turned over midnight, when they are. ``time``, ``unit``, ``grace`` and ``ends``: as in
    :func:`~tracetypes.stdlib.time_window`, which also says when a window is emitted. The times of windows are in UTC.

    Raises :class:`UsageError` ``TT121`` for another ``every``, a zone that there is not and a negative grace.

    Clocks in Berlin are turned on 29 March 2026:

    >>> import datetime as dt
    >>> hour = lambda text: dt.datetime.fromisoformat(text + "Z")
    >>> days = calendar_window(count(), every="day", zone="Europe/Berlin", time=hour, ends=True)
    >>> texts = [("a", "2026-03-28T22:59"), ("a", "2026-03-28T23:00"), ("a", "2026-03-29T21:59")]
    >>> flow = Dataflow("days")
    >>> hours = flow.source("hours", U[str, str], markers=every(seconds=3600, time=hour))
    >>> flow.sink("days", hours.through(sort(by=hour)).through(days))
    >>> found = interpret_rows(check(flow), {"hours": texts})[0]["days"].items
    >>> [(str(one.value.end - one.value.start), one.value.value) for one in found if isinstance(one, Item)]
    [('1 day, 0:00:00', 1), ('23:00:00', 2)]
    """
    if every not in get_args(CalendarUnit):
        known = ", ".join(map(repr, get_args(CalendarUnit)))
        raise UsageError("TT121", f"calendar_window was given every={show(every)}", fix=f"use one of {known}")
    late, name = seconds_as_micros("grace", grace, 0), zone_of("calendar_window", zone)
    op: CalendarWindow[Any, V, Any, A] = CalendarWindow(aggregate, 1, late, time, unit, ends, span=every, zone=name)
    return on_ordered(op)
