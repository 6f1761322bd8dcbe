"""Columns of times without a zone as instants, by the rules that times in text follow.

Arrow's own conversion knows no rule behind the last entry of a zone's table (mostly 2037), and in short tables none behind 2007.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import Any, Final

import numpy as np

from tracetypes.conformance import instant_in

__all__ = ["instants_of"]

_DAY: Final = 86_400_000_000
_QUARTER: Final = 900_000_000
_EPOCH: Final = dt.datetime(1970, 1, 1)
_MICROSECOND: Final = dt.timedelta(microseconds=1)


def instants_of(zone: str, local: Any) -> tuple[Any, Any]:
    """Microseconds of local times (int64) as microseconds in UTC, and which of them name none or two instants in the zone, or lie
    beyond the years 1 to 9999.

    A span whose two ends have one offset has it throughout: no zone changes its clocks twice within a day. The times of other
    days, and of other quarters of an hour, are looked at by themselves.
    """
    instants, doubtful = np.zeros_like(local), np.zeros(len(local), bool)
    rest = np.arange(len(local))
    for span in (_DAY, _QUARTER, 1):
        starts, places = _distinct(local[rest] // span)
        offsets = [_offset(zone, start * span, span) for start in starts.tolist()]
        known = np.array([offset is not None for offset in offsets], bool)[places]
        shifts = np.array([offset or 0 for offset in offsets], np.int64)[places]
        instants[rest[known]] = local[rest[known]] - shifts[known]
        rest = rest[~known]
        if not len(rest):
            return instants, doubtful
    doubtful[rest] = True
    return instants, doubtful


def _distinct(values: Any) -> tuple[Any, Any]:
    """The distinct values, and the place of each value among them. Values that follow each other are mostly equal."""
    starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    distinct, places = np.unique(values[starts], return_inverse=True)
    return distinct, np.repeat(places, np.diff(np.append(starts, len(values))))


@lru_cache(maxsize=100_000)
def _offset(zone: str, start: int, span: int) -> int | None:
    """By how much local times of a span are ahead of UTC, in microseconds; None if that changes, or is not known."""
    try:
        ends = [_EPOCH + dt.timedelta(microseconds=at) for at in (start, start + span if span > 1 else start)]
        instants = [instant_in(zone, end) for end in ends]
    except OverflowError:
        return None
    first, last = (
        None if instant is None else (end - instant.replace(tzinfo=None)) // _MICROSECOND
        for end, instant in zip(ends, instants, strict=True)
    )
    return first if first == last else None
