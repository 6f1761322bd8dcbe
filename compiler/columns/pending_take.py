"""Rows of an array that are copied when somebody reads them. Much of what an operator emits is never read: a count reads nothing
of the values that it counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

__all__ = ["PendingTake", "array_of", "pending", "rows_of_one", "taken"]

PART: Final = 4
"""Less than one row of so many are a few rows."""


@final
class PendingTake:
    """Some rows of an array of numpy or Arrow, copied once, when they are read. Until then it keeps the whole array. A
    pickle has the copy."""

    __slots__ = ("_content",)

    def __init__(self, whole: Any, rows: Any) -> None:
        self._content = whole, rows
        """The array and the rows of it that are meant; once they are copied, the copy and None. Threads may copy twice."""

    def __len__(self) -> int:
        array, rows = self._content
        return len(array if rows is None else rows)

    def __reduce__(self) -> Any:
        return _itself, (self.array(),)

    def array(self) -> Any:
        """The rows, as an array."""
        array, rows = self._content
        if rows is not None:
            array = taken(array, rows)
            self._content = array, None
        return array

    @property
    def parts(self) -> tuple[Any, Any]:
        """An array, and the rows of it that are meant; None for all."""
        return self._content

    @property
    def rows(self) -> tuple[Any, Any]:
        """The same with an array that is no pending take itself."""
        array, rows = self._content
        if type(array) is PendingTake:
            array, within = array.rows
            rows = within if rows is None else rows if within is None else within.take(rows)
        return array, rows

    def take(self, rows: Any) -> Any:
        """Some of the rows, as an array."""
        array, within = self._content
        return taken(array, rows if within is None else within.take(rows))


def _itself(array: Any) -> Any:
    return array


def taken(whole: Any, rows: Any) -> Any:
    """Rows of an array of numpy or Arrow, or of a pending take (``rows``: int64, their numbers)."""
    return whole.take(pa.array(rows)) if isinstance(whole, pa.Array) else whole.take(rows)


def array_of(storage: Any) -> Any:
    """The storage of a column, with the rows copied if they were not."""
    return storage.array() if type(storage) is PendingTake else storage


def pending(whole: Any, rows: Any) -> Any:
    """The storage of a column for some rows of an array, or of a pending take. A few rows are copied at once: they would keep a
    large array, and what an operator emits at a marker waits for all markers that have come."""
    return PendingTake(whole, rows) if PART * len(rows) >= len(whole) else taken(whole, rows)


def rows_of_one(storages: Sequence[Any]) -> PendingTake | None:
    """Storages of text one after the other, if all are pending takes of one array."""
    if not all(type(storage) is PendingTake for storage in storages):
        return None
    parts = [storage.rows for storage in storages]
    array = parts[0][0]
    if not isinstance(array, pa.Array) or any(one is not array or rows is None for one, rows in parts):
        return None
    return PendingTake(array, np.concatenate([rows for _, rows in parts]))
