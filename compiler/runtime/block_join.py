"""The join by key and block over columns: partners are found by positions, for all keys and blocks at once.

Blocks have numbers in the order of their markers. The items of a side lie sorted by key and block, so those of a key in
neighbouring blocks are a range. In a window these are the blocks of the window, of ``equi_join`` those that are near enough; a
tumbling window is one block. The ranges of all items become pairs at once, and the rows of both sides are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.analysis.block_joins import TracedBlockJoin
from tracetypes.compiler.columns.column import Columns, Struct, take, taken_later
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.columns.lists import ranges
from tracetypes.compiler.columns.sorting import SortKey, sorted_rows
from tracetypes.compiler.runtime.join_sides import none_of
from tracetypes.compiler.tracing.expr import Undefined

__all__ = ["JoinItems", "Joined", "SideItems", "joined"]

MANY: Final = 2
"""So many times as many rows as there are items are many."""

TOGETHER: Final = 1 << 23
"""Items of windows, each once for each of its windows, that are joined at a time."""

LARGEST: Final = 1 << 62
"""The largest number of a key and block."""


@final
@attrs.frozen(eq=False)
class SideItems:
    """Items of a side as they came. Of each: ``codes``, the number of its key; ``blocks``, that of its block (both int64);
    ``paired``, whether it has had a partner (bool). ``values``: as an Arrow array."""

    codes: Any
    blocks: Any
    paired: Any
    values: Any

    def __len__(self) -> int:
        return len(self.codes)

    def some(self, rows: Any) -> SideItems:
        """Some of the items (int64)."""
        return SideItems(self.codes[rows], self.blocks[rows], self.paired[rows], self.values.take(pa.array(rows)))


@final
@attrs.frozen(eq=False)
class JoinItems:
    """Items of ``number`` keys. Blocks that close now are 1 to ``last``, those before are 0, -1 and so on. ``ends``: the blocks
    at whose ends windows end (int64)."""

    left: SideItems
    right: SideItems
    number: int
    last: int
    ends: Any

    @property
    def sides(self) -> tuple[SideItems, SideItems]:
        """Both sides."""
        return self.left, self.right


@final
@attrs.frozen(eq=False)
class Joined:
    """What is emitted: the number of the key (ascending) and of the block (int64), and the value of each."""

    codes: Any
    blocks: Any
    values: Columns

    def __len__(self) -> int:
        return len(self.codes)


@final
class Side:
    """The items of a side by key and block. ``order``: where each lies as they came; ``codes`` and ``blocks`` of each (all
    int64)."""

    def __init__(self, items: SideItems, value: Columns, low: int, width: int) -> None:
        self.value, self.low, self.width = value, low, width
        numbers = items.codes * width + (items.blocks - low)
        self.order = sorted_rows([SortKey.column(numbers)], len(numbers))
        self.numbers = numbers[self.order]
        self.codes, self.blocks = items.codes[self.order], items.blocks[self.order]
        self.paired = items.paired[self.order]
        self.sorted: Columns | None = None

    def __len__(self) -> int:
        return len(self.order)

    def between(self, codes: Any, first: Any, last: Any) -> tuple[Any, Any]:
        """Where the items of some keys from one block to another start, and how many there are (int64)."""
        origins = codes * self.width - self.low
        starts = np.searchsorted(self.numbers, origins + np.maximum(first, self.low))
        ends = np.searchsorted(self.numbers, origins + (np.minimum(last, self.low + self.width - 2) + 1))
        return starts, ends - starts

    def values(self, rows: Any) -> Columns:
        """The values of some items. Many of few are taken from values that lie by key and block: then neighbours are near."""
        if len(rows) <= MANY * len(self):
            return taken_later(self.value, self.order[rows])
        if self.sorted is None:
            self.sorted = take(self.value, self.order)
        return taken_later(self.sorted, rows)


def joined(join: TracedBlockJoin, items: JoinItems) -> tuple[list[Joined], tuple[Any, Any]]:
    """What a join emits at the ends of the blocks that close, and where items wait for partners, which of each side have had one
    (bool). Raises :class:`Undefined`."""
    low = min([1, *(int(side.blocks.min()) for side in items.sides if len(side))])
    width = items.last - low + 2
    if width > LARGEST // (items.number + 1):
        raise Undefined(0)
    values = (from_arrow(schema, side.values) for schema, side in zip(join.values, items.sides, strict=True))
    left, right = (Side(side, value, low, width) for side, value in zip(items.sides, values, strict=True))
    emitted = _of_windows(join, items, left, right) if join.windows else _of_waiting(join, items, left, right)
    some = [one for one in emitted if len(one)]
    return some, (items.left.paired, items.right.paired) if join.windows else (_as_they_came(left), _as_they_came(right))


def _as_they_came(side: Side) -> Any:
    paired = np.empty_like(side.paired)
    paired[side.order] = side.paired
    return paired


# --------------------------------------------------------------------------------------------------- windows


def _of_windows(join: TracedBlockJoin, items: JoinItems, left: Side, right: Side) -> Iterator[Joined]:
    """Of some windows at a time: each has a row for each of its items."""
    rows = sum(int(_counts(join, items, side)[1].sum()) for side in (left, right)) if join.reach else 0
    for ends in np.array_split(items.ends, 1 + rows // TOGETHER):
        if len(ends):
            yield from _of_some_windows(join, attrs.evolve(items, ends=ends), left, right)


def _of_some_windows(join: TracedBlockJoin, items: JoinItems, left: Side, right: Side) -> Iterator[Joined]:
    rows, at = _in_windows(join, items, left)
    starts, counts = right.between(left.codes[rows], at - join.reach, at)
    if join.alone:
        some = np.flatnonzero(counts > 0 if join.how == "semi" else counts == 0)
        yield Joined(left.codes[rows[some]], at[some], left.values(rows[some]))
        return
    lefts = np.repeat(rows, counts)
    yield _pairs(join, left, right, lefts, ranges(starts, counts), np.repeat(at, counts))
    if join.outer[0]:
        alone = np.flatnonzero(counts == 0)
        yield _lone_left(join, left, rows[alone], at[alone])
    if join.outer[1]:
        rows, at = _in_windows(join, items, right)
        _, counts = left.between(right.codes[rows], at - join.reach, at)
        alone = np.flatnonzero(counts == 0)
        yield _lone_right(join, right, rows[alone], at[alone])


def _in_windows(join: TracedBlockJoin, items: JoinItems, side: Side) -> tuple[Any, Any]:
    """The items of a side, once for each window that they are in, and the last block of that (both int64)."""
    if not join.reach and len(items.ends) == items.last:
        return np.arange(len(side)), side.blocks
    first, counts = _counts(join, items, side)
    if (counts == 1).all():
        return np.arange(len(side)), items.ends[first]
    return np.repeat(np.arange(len(side)), counts), items.ends[ranges(first, counts)]


def _counts(join: TracedBlockJoin, items: JoinItems, side: Side) -> tuple[Any, Any]:
    """The first window that each item of a side is in, and in how many it is (int64)."""
    first = np.searchsorted(items.ends, np.maximum(side.blocks, 1))
    return first, np.searchsorted(items.ends, side.blocks + join.reach, "right") - first


# ---------------------------------------------------------------------------------------------- items that wait


def _of_waiting(join: TracedBlockJoin, items: JoinItems, left: Side, right: Side) -> Iterator[Joined]:
    """The partners of an item that waits are items of blocks that close now."""
    starts, counts = _partners(join, left, right)
    if join.how == "semi":
        some = np.flatnonzero((counts > 0) & ~left.paired)
        left.paired[some] = True
        yield Joined(left.codes[some], np.maximum(left.blocks[some], right.blocks[starts[some]]), left.values(some))
        return
    if not join.alone:
        lefts, rights = np.repeat(np.arange(len(left)), counts), ranges(starts, counts)
        at = np.maximum(left.blocks[lefts], right.blocks[rights])
        yield _pairs(join, left, right, lefts, rights, at)
    if join.outer[0]:
        rows = _given_up(join, items, left, counts)
        at = left.blocks[rows] + join.reach
        yield Joined(left.codes[rows], at, left.values(rows)) if join.alone else _lone_left(join, left, rows, at)
    if join.outer[1]:
        rows = _given_up(join, items, right, _partners(join, right, left)[1])
        yield _lone_right(join, right, rows, right.blocks[rows] + join.reach)


def _partners(join: TracedBlockJoin, own: Side, other: Side) -> tuple[Any, Any]:
    """Where the partners of items start that they find now, and how many there are (int64)."""
    first = own.blocks - join.reach
    return other.between(own.codes, np.where(own.blocks > 0, first, np.maximum(first, 1)), own.blocks + join.reach)


def _given_up(join: TracedBlockJoin, items: JoinItems, side: Side, counts: Any) -> Any:
    """The items (int64) that are dropped now and had no partner. ``counts``: of the partners that they find now."""
    side.paired |= counts > 0
    return np.flatnonzero(~side.paired & (side.blocks + join.reach <= items.last))


# ------------------------------------------------------------------------------------------------------ values


def _pairs(join: TracedBlockJoin, left: Side, right: Side, lefts: Any, rights: Any, at: Any) -> Joined:
    gives: Any = join.gives
    return Joined(left.codes[lefts], at, Struct(gives.cls, gives.names, (left.values(lefts), right.values(rights))))


def _lone_left(join: TracedBlockJoin, left: Side, rows: Any, at: Any) -> Joined:
    gives: Any = join.gives
    parts = left.values(rows), none_of(join.values[1], len(rows))
    return Joined(left.codes[rows], at, Struct(gives.cls, gives.names, parts))


def _lone_right(join: TracedBlockJoin, right: Side, rows: Any, at: Any) -> Joined:
    gives: Any = join.gives
    parts = none_of(join.values[0], len(rows)), right.values(rows)
    return Joined(right.codes[rows], at, Struct(gives.cls, gives.names, parts))
