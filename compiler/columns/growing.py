"""Columns that grow at their end, again and again: what is there is moved a few times at most, not each time."""

from __future__ import annotations

from typing import Any, Final, final

import numpy as np

from tracetypes.compiler.columns.column import Columns, take
from tracetypes.compiler.columns.concatenation import concat

__all__ = ["GrowingArray", "GrowingColumns"]

LEAST: Final = 64
"""Numbers for which there is room."""


@final
class GrowingArray:
    """Numbers (int64)."""

    __slots__ = ("_room", "count")

    def __init__(self, values: Any) -> None:
        self._room, self.count = values if values.flags.writeable else values.copy(), len(values)

    def __reduce__(self) -> Any:
        return GrowingArray, (self.values,)

    @property
    def values(self) -> Any:
        """All of them, a view that may be changed."""
        return self._room[: self.count]

    def add(self, values: Any) -> None:
        """Add some at the end."""
        before, self.count = self.count, self.count + len(values)
        if self.count > len(self._room):
            room = np.empty(max(LEAST, 2 * self.count), np.int64)
            room[:before] = self._room[:before]
            self._room = room
        self._room[before : self.count] = values


@final
class GrowingColumns:
    """Columns of arrays, in parts. A part is smaller than half of the one before."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[tuple[Columns, int]]) -> None:
        self._parts = parts

    def __reduce__(self) -> Any:
        return GrowingColumns, (self._parts,)

    def add(self, columns: Columns, count: int) -> None:
        """Add rows at the end."""
        if not count:
            return
        parts = [*self._parts, (columns, count)]
        while len(parts) > 1 and parts[-2][1] <= 2 * parts[-1][1]:
            last = parts[-2:]
            parts[-2:] = [(concat(last), sum(size for _, size in last))]
        self._parts = parts

    def of_rows(self, rows: Any) -> list[tuple[Any, Columns]]:
        """Some rows (int64), part by part: which of them (int64, their numbers among ``rows``) with their columns."""
        found, start = [], 0
        for columns, count in self._parts:
            some = np.flatnonzero((rows >= start) & (rows < start + count)) if len(self._parts) > 1 else np.arange(len(rows))
            if len(some):
                found.append((some, take(columns, rows[some] - start)))
            start += count
        return found

    @property
    def whole(self) -> Columns:
        """All rows."""
        return concat(self._parts) if len(self._parts) != 1 else self._parts[0][0]
