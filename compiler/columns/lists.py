"""A column of lists whose items are columns: take and concatenate them without objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import attrs
import numpy as np

__all__ = ["Lists"]


@final
@attrs.frozen(eq=False)
class Lists:
    """``offsets``: int64, where each list begins in ``items``, and where the last one ends. ``items``: columns."""

    offsets: Any
    items: Any

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def of(cls, lengths: Any, items: Any) -> Lists:
        """Lists of these lengths (int64), one after the other."""
        return cls(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), items)

    @property
    def lengths(self) -> Any:
        """How many items each has (int64)."""
        return np.diff(self.offsets)

    def take(self, rows: Any, take: Callable[[Any, Any], Any]) -> Lists:
        """Some of the lists (int64). ``take``: of columns."""
        lengths, starts = self.lengths[rows], self.offsets[rows]
        behind = np.cumsum(lengths)
        total = int(behind[-1]) if len(rows) else 0
        return Lists.of(lengths, take(self.items, np.repeat(starts - (behind - lengths), lengths) + np.arange(total)))

    @staticmethod
    def concat(parts: Sequence[Lists], concat: Callable[[Sequence[tuple[Any, int]]], Any]) -> Lists:
        """Lists one after the other. ``concat``: of columns."""
        counts = [int(one.offsets[-1]) for one in parts]
        items = [(one.items, count) for one, count in zip(parts, counts, strict=True) if count]
        lengths = np.concatenate([one.lengths for one in parts])
        return Lists.of(lengths, concat(items) if items else parts[0].items)
