"""Rows of an array that are copied when somebody reads them. Much of what an operator emits is never read: a count reads nothing
of the values that it counts."""

from __future__ import annotations

from typing import Any, final

import pyarrow as pa

__all__ = ["PendingTake", "array_of", "taken"]


@final
class PendingTake:
    """Some rows of an array of numpy or Arrow, copied once, when they are read. A pickle has the copy."""

    __slots__ = ("_copy", "_rows", "_whole")

    def __init__(self, whole: Any, rows: Any) -> None:
        self._whole, self._rows = whole, rows
        self._copy: Any = None

    def __len__(self) -> int:
        return len(self._rows)

    def __reduce__(self) -> Any:
        return _itself, (self.array(),)

    def array(self) -> Any:
        """The rows, as an array."""
        if self._copy is None:
            self._copy = taken(self._whole, self._rows)
        return self._copy

    def take(self, rows: Any) -> Any:
        """Some of the rows, as an array."""
        return taken(self._whole, self._rows.take(rows)) if self._copy is None else taken(self._copy, rows)


def _itself(array: Any) -> Any:
    return array


def taken(whole: Any, rows: Any) -> Any:
    """Rows of an array of numpy or Arrow (``rows``: int64, their numbers)."""
    return whole.take(pa.array(rows)) if isinstance(whole, pa.Array) else whole.take(rows)


def array_of(storage: Any) -> Any:
    """The storage of a column, with the rows copied if they were not."""
    return storage.array() if type(storage) is PendingTake else storage
