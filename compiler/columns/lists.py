"""Lists as a column: each is a range of a heap of items, so that some can be replaced without moving the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, final

import numpy as np

__all__ = ["Heap", "Lists", "ranges"]


class Heap(Protocol):
    """Items as columns (:class:`.growing.GrowingColumns`)."""

    count: int

    @property
    def whole(self) -> Any:
        """All of them as columns."""

    def some(self, rows: Any, /) -> Any:
        """A heap of some rows (int64)."""

    def add_all(self, others: Sequence[Any], /) -> Any:
        """A heap of these items and those of other heaps."""


@final
class Lists:
    """``starts`` and ``lengths``: int64, where each list lies in the ``heap``. Items that are in no list any more are removed
    when they are more than the others."""

    __slots__ = ("heap", "lengths", "starts")

    def __init__(self, starts: Any, lengths: Any, heap: Heap) -> None:
        self.starts, self.lengths, self.heap = starts, lengths, heap

    def __reduce__(self) -> Any:
        whole = self.take(np.arange(len(self)))
        return Lists, (whole.starts, whole.lengths, whole.heap)

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def of(cls, lengths: Any, heap: Heap) -> Lists:
        """Lists of these lengths, one after the other."""
        lengths = np.asarray(lengths, np.int64)
        return cls(np.cumsum(lengths) - lengths, lengths, heap)

    @property
    def count(self) -> int:
        """How many items the lists have."""
        return int(self.lengths.sum())

    @property
    def items(self) -> Any:
        """The items of all lists, one list after the other, as columns."""
        count = self.count
        whole = count == self.heap.count and (self.starts == np.cumsum(self.lengths) - self.lengths).all()
        return self.heap.whole if whole else self.heap.some(ranges(self.starts, self.lengths)).whole

    def take(self, rows: Any) -> Lists:
        """Some of the lists (int64); an empty one for -1."""
        there = rows >= 0
        lengths, starts = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        lengths[there], starts[there] = self.lengths[rows[there]], self.starts[rows[there]]
        return Lists.of(lengths, self.heap.some(ranges(starts, lengths)))

    def followed_by(self, others: Sequence[Lists]) -> Lists:
        """These and others, one after the other."""
        some = (self, *others)
        firsts = np.cumsum([0, *(one.heap.count for one in some)])
        starts = np.concatenate([one.starts + first for one, first in zip(some, firsts, strict=False)])
        heap = self.heap.add_all([one.heap for one in others])
        return Lists(starts, np.concatenate([one.lengths for one in some]), heap)

    def put(self, rows: Any, fresh: Lists) -> None:
        """Replace some of the lists (int64, each once)."""
        if not self.starts.flags.writeable or not self.lengths.flags.writeable:  # they lie in the memory of a pickle
            self.starts, self.lengths = self.starts.copy(), self.lengths.copy()
        self.starts[rows], self.lengths[rows] = fresh.starts + self.heap.count, fresh.lengths
        self.heap = self.heap.add_all([fresh.heap])
        if self.heap.count > 2 * self.count + len(self):
            whole = self.take(np.arange(len(self)))
            self.starts, self.heap = whole.starts, whole.heap


def ranges(starts: Any, lengths: Any) -> Any:
    """The numbers (int64) of ranges, one range after the other. ``starts`` and ``lengths``: int64."""
    behind = np.cumsum(lengths)
    return np.arange(behind[-1] if len(behind) else 0) + np.repeat(starts - behind + lengths, lengths)
