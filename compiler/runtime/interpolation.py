"""What :class:`tracetypes.stdlib.ordered.Interpolate` emits for many readings at once, as columns of numbers."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from tracetypes.compiler.tracing.expr import Undefined

__all__ = ["Emissions", "emissions_of"]

EXACT = 1 << 53
"""Integers below it are floats too, and their differences are 64-bit integers."""

MOST = 50_000_000
"""Rows that may be made at once."""


@attrs.frozen(eq=False)
class Emissions:
    """Readings to emit, in the order of the readings that cause them. ``cause``: the row of that reading (int64).
    ``between``: whether ``make`` makes it from the reading before (bool); if not, it is the reading itself. ``time`` (int64) and
    ``number`` (float64): what ``make`` is called with, for those in between."""

    cause: Any
    between: Any
    time: Any
    number: Any


def emissions_of(before: Any, time: Any, number: Any, fresh: Any, step: int, max_gap: int | None) -> Emissions:
    """The readings that ``on_item`` emits. ``before``: the row of the reading before, of the same key, -1 for none
    (int64). ``fresh``: whether a row is a reading that has come (bool); the others are states, which emit nothing.

    Raises :class:`Undefined` for times, steps or gaps of 2**53 and more, and for too many rows.
    """
    if any(abs(number) >= EXACT for number in (step, max_gap or 0, int(time.max(initial=0)), int(time.min(initial=0)))):
        raise Undefined(0)
    first = before < 0
    gap = np.where(first, 0, time - time[before])
    far = np.zeros(len(gap), np.bool_) if max_gap is None else ~first & (gap > max_gap)
    steps = np.where(fresh & ~first & ~far, np.maximum(gap, 0) // step, 0)
    itself = fresh & (first | far | ((gap % step != 0) & (gap > 0)))
    counts = steps + itself
    if len(counts) and float(counts.astype(np.float64).sum()) > MOST:
        raise Undefined(0)
    cause = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(cause)) - np.repeat(np.cumsum(counts) - counts, counts)
    between = place < steps[cause]
    rows, passed = cause[between], (place[between] + 1) * step
    last = before[rows]
    with np.errstate(all="ignore"):
        rise = number[rows] - number[last]
        between_numbers = number[last] + passed * rise / gap[rows]
    return Emissions(cause, between, time[last] + passed, between_numbers)
