"""What all windows have in common: results with their times, and parameters that are sizes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import attrs

from tracetypes.conformance import datetime_of
from tracetypes.errors import UsageError
from tracetypes.markers import FIRST, LAST, span_as_micros
from tracetypes.stdlib.aggregates import Aggregate, types_of

__all__ = ["Windowed", "instant", "seconds_as_micros", "typed", "whole", "windowed"]

W = TypeVar("W")


@attrs.frozen
class Windowed(Generic[W]):
    """The result of a window. ``start`` and ``end``: the window holds the items from ``start`` on that lie before ``end``.
    Beyond the years 1 to 9999 they are the first and the last time that a datetime has."""

    start: dt.datetime
    end: dt.datetime
    value: W


def windowed(start: int, end: int, value: Any) -> Any:
    """A :class:`Windowed` of times in microseconds since the epoch."""
    return Windowed(instant(start), instant(end), value)


def instant(micros: int) -> dt.datetime:
    """The datetime of microseconds since the epoch, or the nearest that there is: windows may end beyond the year 9999."""
    return datetime_of(min(max(micros, FIRST), LAST))


def typed(aggregate: Aggregate[Any, Any, Any], emitted_as: Any = None) -> Mapping[str, Any]:
    """What an operator over an aggregate knows of its types: ``V``, unless the aggregate takes anything, and ``R``, its
    results, in the generic record ``emitted_as`` if there is one."""
    value, result = types_of(aggregate)
    named = {"R": result if emitted_as is None else emitted_as[result]}
    return named if value in (Any, object) else {"V": value, **named}


def whole(name: str, number: object, least: int = 1) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise UsageError("TT121", f"{name} is {number!r}", fix=f"give {name} as a whole number from {least}")


def seconds_as_micros(name: str, span: object, least: int = 1) -> int:
    """A number of seconds, or a timedelta, in microseconds."""
    return span_as_micros(name, span, least=least, code="TT121")
