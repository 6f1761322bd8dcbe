"""Columns that grow at their end, again and again: what is there is moved a few times at most, not each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np

from tracetypes.compiler.columns.column import Columns, take
from tracetypes.compiler.columns.concatenation import concat, merged_columns

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

    __slots__ = ("_parts", "count")

    def __init__(self, parts: list[tuple[Columns, int]]) -> None:
        self._parts, self.count = parts, sum(count for _, count in parts)

    def __reduce__(self) -> Any:
        return GrowingColumns, (self._parts,)

    @classmethod
    def of(cls, columns: Columns, count: int) -> GrowingColumns:
        """These rows."""
        return cls([(columns, count)])

    def add(self, columns: Columns, count: int) -> None:
        """Add rows at the end."""
        self._parts, self.count = _with_part(self._parts, columns, count), self.count + count

    def add_all(self, others: Sequence[GrowingColumns]) -> GrowingColumns:
        """These rows and those of others, one after the other."""
        parts = self._parts
        for columns, count in (part for one in others for part in one._parts):
            parts = _with_part(parts, columns, count)
        return GrowingColumns(parts)

    def some(self, rows: Any) -> GrowingColumns:
        """Some rows (int64)."""
        parts = self.of_rows(rows)
        if len(parts) > 1:
            return GrowingColumns.of(merged_columns([(columns, places) for places, columns in parts], len(rows)), len(rows))
        return GrowingColumns.of(parts[0][1] if parts else take(self._parts[0][0], rows), len(rows))

    def of_rows(self, rows: Any) -> list[tuple[Any, Columns]]:
        """Some rows (int64), part by part: which of them (int64, their numbers among ``rows``) with their columns."""
        parts, start = [], 0
        for columns, count in self._parts:
            some = np.flatnonzero((rows >= start) & (rows < start + count)) if len(self._parts) > 1 else np.arange(len(rows))
            if len(some):
                parts.append((some, take(columns, rows[some] - start)))
            start += count
        return parts

    @property
    def whole(self) -> Columns:
        """All rows."""
        return concat(self._parts) if len(self._parts) != 1 else self._parts[0][0]


def _with_part(parts: list[tuple[Columns, int]], columns: Columns, count: int) -> list[tuple[Columns, int]]:
    if not count:
        return parts
    if not parts[0][1]:
        return [(columns, count)]
    parts = [*parts, (columns, count)]
    while len(parts) > 1 and parts[-2][1] <= 2 * parts[-1][1]:
        last = parts[-2:]
        parts[-2:] = [(concat(last), sum(size for _, size in last))]
    return parts
