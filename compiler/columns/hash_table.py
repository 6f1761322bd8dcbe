"""Rows by a hash of what they hold: an open hash table that grows with the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

import numpy as np

__all__ = ["HashTable"]

LEAST: Final = 1 << 10
"""Places of a table."""

LOAD: Final = 2
"""Places for each row, at least."""

NOBODY: Final = -1


@final
class HashTable:
    """Rows, each at one of the places behind the one that its hash says; none of these is free. All rows that are looked up or
    added look at a place at the same time, then the rest at the next one. So a row costs a few steps of numpy, however
    many the table has."""

    def __init__(self, hashes: Any) -> None:
        """``hashes``: of the rows (uint64), all of which are different."""
        self.count = 0
        self._make(LEAST)
        self.add(hashes)

    def find(self, hashes: Any, is_row: Callable[[Any, Any], Any]) -> Any:
        """The row (int64) of each hash, -1 where there is none. ``is_row``: whether (bool) some of what is looked up, by number,
        is in some rows, which have the same hash."""
        answers = np.full(len(hashes), NOBODY)
        rest, at = np.arange(len(hashes)), self._first(hashes)
        while len(rest):
            rows = self._rows.take(at)
            there = rows >= 0
            if not there.all():
                rest, at, rows = rest[there], at[there], rows[there]
            same = np.flatnonzero(self._hashes.take(at) == hashes.take(rest))
            if len(same):
                same = same[is_row(rest[same], rows[same])]
                answers[rest[same]] = rows[same]
                others = np.ones(len(rest), np.bool_)
                others[same] = False
                rest, at = rest[others], at[others]
            at = (at + 1) & self._mask
        return answers

    def add(self, hashes: Any) -> None:
        """Add rows, which follow those that are there and differ from all others."""
        first, self.count = self.count, self.count + len(hashes)
        if LOAD * self.count > self._mask + 1:
            old = np.flatnonzero(self._rows >= 0)
            rows, of_rows = self._rows[old], self._hashes[old]
            self._make(max(LEAST, 1 << (2 * LOAD * self.count - 1).bit_length()))
            self._place(of_rows, rows)
        self._place(hashes, np.arange(first, self.count))

    def _make(self, places: int) -> None:
        self._rows, self._hashes = np.full(places, NOBODY), np.zeros(places, np.uint64)
        self._mask, self._shift = places - 1, np.uint64(65 - places.bit_length())

    def _first(self, hashes: Any) -> Any:
        """The place (int64) that each hash says: its first bits."""
        return (hashes >> self._shift).view(np.int64)

    def _place(self, hashes: Any, rows: Any) -> None:
        at = self._first(hashes)
        while len(rows):
            free = self._rows.take(at) < 0
            self._rows[at[free]] = rows[free]  # of several, one stays
            won = self._rows.take(at) == rows
            self._hashes[at[won]] = hashes[won]
            lost = ~won
            hashes, rows, at = hashes[lost], rows[lost], (at[lost] + 1) & self._mask
