"""What all windows have in common: results with their ends, and arguments that are sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import attrs

from tracetypes.errors import UsageError
from tracetypes.stdlib.aggregates import Aggregate, types_of

__all__ = ["Windowed", "seconds_as_micros", "typed", "whole"]

W = TypeVar("W")


@attrs.frozen
class Windowed(Generic[W]):
    """The result of a window. ``end``: the time that the window lies before, in microseconds since the epoch."""

    end: int
    value: W


def typed(aggregate: Aggregate[Any, Any, Any], told_as: Any = None) -> Mapping[str, Any]:
    """What an operator over an aggregate knows of its types: ``V``, unless the aggregate takes anything, and ``R``, its
    results, in the generic record ``told_as`` if there is one."""
    taken, told = types_of(aggregate)
    result = {"R": told if told_as is None else told_as[told]}
    return result if taken in (Any, object) else {"V": taken, **result}


def whole(name: str, number: object, least: int = 1) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise UsageError("TT121", f"{name} is {number!r}", fix=f"give {name} as a whole number from {least}")


def seconds_as_micros(name: str, seconds: object, least: int = 1) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise UsageError("TT121", f"{name} is {seconds!r}", fix=f"give {name} as a number of seconds")
    micros = round(seconds * 1_000_000)
    if micros < least:
        bound = "at least a microsecond" if least else "not negative"
        raise UsageError("TT121", f"{name} is {seconds!r}", fix=f"give {name} as a number of seconds, {bound}")
    return micros
