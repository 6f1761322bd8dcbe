"""Markers: where the blocks of a source end (data-trace-types, section 4; design, corners 5, 9 and 10).

Event time is kept as whole microseconds since the epoch. A source gets its markers either from the times of its items
(:func:`every`) or from records in the stream itself (:func:`in_band`).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, overload

import attrs

from tracetypes.calls import need_function
from tracetypes.conformance import datetime_of, micros_of
from tracetypes.errors import UsageError
from tracetypes.records import show

__all__ = [
    "MANY",
    "EventTime",
    "Every",
    "InBand",
    "Marker",
    "Markers",
    "Span",
    "TimeUnit",
    "every",
    "in_band",
    "show_markers",
    "show_span",
    "span_as_micros",
]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    V_contra = TypeVar("V_contra", contravariant=True, default=Any)
else:
    from typing import TypeVar

    V_contra = TypeVar("V_contra", contravariant=True)

TimeUnit: TypeAlias = Literal["s", "ms", "us"]
Time: TypeAlias = int | float | dt.datetime
MICROS: Final[dict[str, int]] = {"s": 1_000_000, "ms": 1_000, "us": 1}

Span: TypeAlias = float | dt.timedelta
"""A length of time: seconds, or a timedelta."""
_MICROSECOND: Final = dt.timedelta(microseconds=1)

MANY: Final = 1_000_000
"""Markers. A row that is further ahead of the newest one is more often wrong than right."""

FIRST: Final = micros_of(dt.datetime.min.replace(tzinfo=dt.UTC))
LAST: Final = micros_of(dt.datetime.max.replace(tzinfo=dt.UTC))
"""The first and the last microsecond that a datetime has."""

_OLDEST: Final = micros_of(dt.datetime(1970, 1, 2, tzinfo=dt.UTC))
_NEWEST: Final = micros_of(dt.datetime(2200, 1, 1, tzinfo=dt.UTC))
_NAMES: Final = {"ms": "milliseconds", "us": "microseconds"}


@attrs.frozen(order=True)
class Marker:
    """``#t``: every item from before event time ``t`` has been seen. ``micros``: microseconds since the epoch."""

    micros: int

    @property
    def timestamp(self) -> int:
        """Whole seconds since the epoch, rounded down (the paper's ``m.timestamp``)."""
        return self.micros // 1_000_000

    @property
    def datetime(self) -> dt.datetime:
        """The marker's time in UTC."""
        return datetime_of(self.micros)

    def __repr__(self) -> str:
        return f"#{self.micros / 1_000_000:.6f}".rstrip("0").rstrip(".")


def micros_from(time: object, unit: TimeUnit) -> int:
    """Microseconds since the epoch. Raises ValueError for a value that is not a time (None, NaN, text, naive
    datetimes)."""
    if isinstance(time, dt.datetime):
        if time.tzinfo is None:
            raise ValueError(f"the time {time!r} has no time zone")
        return micros_of(time)
    if isinstance(time, bool) or not isinstance(time, int | float):
        raise ValueError(f"the time is {show(time)}, expected a number or a datetime")
    if isinstance(time, float):
        if not math.isfinite(time):
            raise ValueError(f"the time is {time}")
        # Beyond the largest float there is no number to round; the bound below refuses it.
        micros = round(min(max(time * MICROS[unit], -1e300), 1e300))
    else:
        micros = time * MICROS[unit]
    if abs(micros) > 2**62:
        raise ValueError(f"the time {time} {unit} is beyond the year 148,000: is the unit right?")
    return micros


BEYOND: Final = "is beyond the years 1 to 9999"
"""What is said of a time that no datetime has."""


def marker_time(time: Time, unit: TimeUnit) -> int:
    """The time of a marker or a heartbeat in microseconds. Raises ValueError for one that is no time, or beyond the years 1 to
    9999."""
    micros = micros_from(time, unit)
    if not FIRST <= micros <= LAST:
        raise ValueError(f"the time {time} {BEYOND}{_advice(time, micros, unit)}")
    return micros


def _advice(time: Time, micros: int, unit: TimeUnit) -> str:
    """Numbers of a finer unit are often taken for seconds."""
    for finer in () if isinstance(time, dt.datetime) else ("ms", "us"):
        if MICROS[finer] < MICROS[unit] and _OLDEST <= micros // (MICROS[unit] // MICROS[finer]) <= _NEWEST:
            return f'; declare unit="{finer}" if these are {_NAMES[finer]}'
    return ""


@attrs.frozen
class EventTime(Generic[V_contra]):
    """Markers at the whole multiples of ``period``, each as soon as the newest item is ``delay`` past it. All in
    microseconds.

    An item of time ``t`` belongs to the block that ends at the first multiple after ``t``. It is late if an earlier
    item of the source was so new that this block was closed already. Blocks depend on the times alone.

    ``ahead``: how far a row may be ahead of the newest one; ``per``: the sender of a row, each of which has a time of its own;
    ``idle``: how far a sender may be behind the newest row before the others no longer wait for it (:mod:`tracetypes.clocks`).
    ``closes_after``: after how long without a row event time goes on with the clock, in a run that follows.
    """

    period: int
    delay: int
    time: Callable[[V_contra], Time]
    unit: TimeUnit
    ahead: int | None = None
    per: Callable[[V_contra], Hashable] | None = None
    idle: int | None = None
    closes_after: int | None = None

    @property
    def reach(self) -> int:
        """How far a row may be ahead of the newest one before it waits for others that confirm it."""
        return MANY * self.period if self.ahead is None else self.ahead

    def time_of(self, value: Any) -> int:
        """Event time of a source value in microseconds. Raises ValueError for one that is no time, or whose block does not lie in
        the years 1 to 9999, or what the author's function raises."""
        time = self.time(value)
        micros = micros_from(time, self.unit)
        if not self.has_block(micros, micros):
            raise ValueError(f"the time {time} {BEYOND}, or its block ends there{_advice(time, micros, self.unit)}")
        return micros

    def has_block(self, least: int, most: int) -> bool:
        """Whether the blocks of items of times between these lie in the years 1 to 9999, which markers have."""
        return least >= FIRST and self.block(most) <= LAST

    def block(self, time: int) -> int:
        """The marker that ends the block of an item of this time."""
        return (time // self.period + 1) * self.period

    def heartbeat(self, time: int) -> int:
        """The last marker that follows from a heartbeat of this time, which says that everything before the time has
        been sent."""
        return time // self.period * self.period

    def frontier(self, newest: int) -> int:
        """The last marker that may be sent after an item of time ``newest``."""
        return (newest - self.delay) // self.period * self.period


@attrs.frozen
class InBand(Generic[V_contra]):
    """Markers are the records of the stream for which ``is_marker`` is true. Their ``time`` must increase strictly."""

    is_marker: Callable[[V_contra], bool]
    time: Callable[[V_contra], Time]
    unit: TimeUnit

    def time_of(self, value: Any) -> int:
        """Event time of a marker record in microseconds. Raises ValueError as :func:`marker_time`."""
        return marker_time(self.time(value), self.unit)


Every: TypeAlias = EventTime[V_contra]
"""What :func:`every` returns, for markers that several sources share: ``TEN: Every[Measurement] = every(...)``."""

Markers: TypeAlias = EventTime[V_contra] | InBand[V_contra]


def show_markers(markers: Markers) -> str:
    """A description of a source's markers."""
    match markers:
        case EventTime(period=period, delay=delay):
            more = "" if markers.ahead is None else f", at most {markers.ahead / 1e6:g} s ahead"
            more += "" if markers.per is None else ", by sender"
            more += "" if markers.idle is None else f", idle after {markers.idle / 1e6:g} s"
            more += "" if markers.closes_after is None else f", by the clock after {markers.closes_after / 1e6:g} s without a row"
            return f"every {period / 1e6:g} s of event time, delay {delay / 1e6:g} s{more}"
        case InBand():
            return "records in band"


def show_span(micros: int) -> str:
    """A length of time in microseconds, in seconds."""
    return f"{micros / 1_000_000:.6f}".rstrip("0").rstrip(".") + " s"


def span_as_micros(name: str, span: object, *, least: int = 1, code: str = "TT115") -> int:
    """A number of seconds, or a timedelta, in microseconds. ``name``: the parameter that has this value."""
    seconds = span.total_seconds() if isinstance(span, dt.timedelta) else span
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise UsageError(code, f"{name} is {show(span)}", fix=f"give {name} as a number of seconds or a timedelta")
    if abs(seconds) > 10**12:
        raise UsageError(code, f"{name} is {show(span)}", fix=f"give {name} in seconds: this is 30,000 years")
    micros = span // _MICROSECOND if isinstance(span, dt.timedelta) else round(seconds * 1_000_000)
    if micros < least:
        bound = "at least a microsecond" if least else "not negative"
        fix = f"give {name} as a number of seconds or a timedelta, {bound}"
        raise UsageError(code, f"{name} is {show(span)}", fix=fix)
    return micros


def every(
    *,
    seconds: Span,
    time: Callable[[V_contra], Time],
    delay: Span = 0,
    unit: TimeUnit = "s",
    ahead: Span | None = None,
    per: Callable[[V_contra], Hashable] | None = None,
    idle: Span | None = None,
    closes_after: Span | None = None,
) -> EventTime[V_contra]:
    """A marker at every whole multiple of ``seconds`` of event time. ``seconds``, ``delay``, ``ahead``, ``idle`` and
    ``closes_after`` are numbers of seconds or timedeltas.

    ``time`` takes a source value and returns its event time: a number since the epoch in ``unit`` (``"s"``, ``"ms"`` or
    ``"us"``), or an aware datetime. ``delay`` is how far an item may lag behind the newest one and still be in time. An
    item that lags further, and whose block is closed, goes to the source's late output.

    ``ahead`` protects from rows with a wild time. A row that is further ahead of the newest one is held. Three such rows are
    accepted: event time has jumped. A row near the newest one makes rejects of those that are held before it. At the end of the
    input those that are held are accepted.

    ``per`` takes a source value and returns its sender, such as a device. Each sender has a time of its own: a row is late if its
    own sender was newer, and a block closes when every sender has passed its end. ``idle``: a sender that is further behind the
    newest row of all is not waited for, and forgotten. Without ``idle`` every sender is waited for.

    ``closes_after``: when a run that follows its inputs has been without a row for so long, event time goes on with the clock.
    So the last window closes. Rows that come too late for it are late.
    """
    if unit not in MICROS:
        raise UsageError("TT115", f"unit is {show(unit)}", fix='use "s", "ms" or "us"')
    need_function("time=", time, "time=lambda row: row.ts")
    if per is not None:
        need_function("per=", per, "per=lambda row: row.device")
    elif idle is not None:
        raise UsageError("TT115", "idle= is given without per=", fix="give per=lambda row: row.device, or no idle=")
    return EventTime(
        span_as_micros("seconds", seconds),
        span_as_micros("delay", delay, least=0),
        time,
        unit,
        None if ahead is None else span_as_micros("ahead", ahead),
        per,
        None if idle is None else span_as_micros("idle", idle),
        None if closes_after is None else span_as_micros("closes_after", closes_after),
    )


@overload
def in_band(
    *, is_marker: Callable[[V_contra], bool], time: Callable[[V_contra], Time], unit: TimeUnit = "s"
) -> InBand[V_contra]: ...
@overload
def in_band(*, unit: TimeUnit = "s") -> InBand[Any]: ...
def in_band(
    *,
    is_marker: Callable[[V_contra], bool] | None = None,
    time: Callable[[V_contra], Time] | None = None,
    unit: TimeUnit = "s",
    closes_after: object = None,
) -> InBand[V_contra]:
    """Markers that the source itself sends, as records among the others.

    A record for which ``is_marker`` is true is not an item: it closes the block of everything before it. A marker whose
    time is not later than the previous one's is rejected, and counted. Without ``is_marker`` no value is a marker: then
    the markers are records of Kafka with a marker header (:func:`tracetypes.kafka`).
    """
    if closes_after is not None:
        fix = "leave it out, or take markers from the times of rows: every(...)"
        raise UsageError("TT115", "closes_after= is given for markers in band, which no clock can stand for", fix=fix)
    if (is_marker is None) != (time is None):
        raise UsageError("TT115", "is_marker and time go together", fix="give both, or neither for markers in headers")
    if unit not in MICROS:
        raise UsageError("TT115", f"unit is {show(unit)}", fix='use "s", "ms" or "us"')
    if is_marker is not None:
        need_function("is_marker=", is_marker, "is_marker=lambda row: row.ends")
        need_function("time=", time, "time=lambda row: row.ts")
    return InBand(is_marker or _never, time or _no_time, unit)


def _never(value: Any) -> bool:
    return False


def _no_time(value: Any) -> Time:
    raise ValueError("no value is a marker")
