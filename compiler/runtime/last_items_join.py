"""The join of the last items over columns: the partners of an item are a range of the other side's items.

The items of a side, those that were held and those that come, lie by key, in their order. What comes finds as many of the other
side as the join says, before its own place. The ranges of all items of all keys become pairs at once.
"""

from __future__ import annotations

from typing import Any, Final, final

import attrs
import numpy as np

from tracetypes.compiler.analysis.joins import value_in
from tracetypes.compiler.analysis.last_items import TracedLastItems
from tracetypes.compiler.columns.column import Column, Columns, Struct, take, taken_later
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.lists import ranges
from tracetypes.compiler.columns.members import Member
from tracetypes.compiler.columns.sorting import stable_order
from tracetypes.compiler.runtime.closed_blocks import OrderedItems
from tracetypes.compiler.runtime.join_sides import mask_of, sides_of, value_of
from tracetypes.compiler.runtime.ordered_base import Emitted, KernelOfKeys, SeenKeys
from tracetypes.compiler.runtime.ordered_states import OrderedState, list_column, list_parts
from tracetypes.marker_runs import MarkerRuns
from tracetypes.records import ListOf
from tracetypes.templates import OpKeyedOrdered

__all__ = ["LastItemsKernel"]

LEFT: Final = 0
RIGHT: Final = 1


@final
@attrs.frozen(eq=False)
class Side:
    """The items of a side by key, then in their order. Of each key: ``starts``, where its items start; ``held``, how many were
    held; ``counts``, how many there are (all int64). ``rows``: where each lies in ``values``."""

    starts: Any
    held: Any
    counts: Any
    rows: Any
    values: Columns

    def some(self, numbers: Any) -> Columns:
        """The values of some items (int64)."""
        return taken_later(self.values, self.rows[numbers])


@final
class LastItemsKernel(KernelOfKeys):
    """Runs a join of the last items over columns."""

    def __init__(
        self, op: OpKeyedOrdered[Any, Any, Any, Any], form: TracedLastItems, seen: SeenKeys | None = None
    ) -> None:
        super().__init__(op, form, seen)
        self.join = form
        self.lists = ListOf(value_in(form.left), False), ListOf(value_in(form.right), False)

    def at_markers(self, state: OrderedState, rows: Any, markers: MarkerRuns) -> Any:
        """In which of some slots (int64) a marker may matter (bool)."""
        return np.zeros(len(rows), np.bool_)

    def after(
        self, items: OrderedItems, markers: MarkerRuns, keys: Columns, first: Any, states: Columns
    ) -> tuple[Columns, Emitted]:
        """What some keys have as states when they have taken items, and what they have emitted."""
        members = sides_of(self.join, items)
        left, right = (self._side(at, members[at], items, states, len(first)) for at in (LEFT, RIGHT))
        emitted = self._emitted(items, mask_of(members[LEFT].rows, items.count), left, right)
        lists = [_last(self.join.items, kind, side) for kind, side in zip(self.lists, (left, right), strict=True)]
        return Struct(tuple, (), tuple(lists)), emitted

    def _side(self, at: int, member: Member, items: OrderedItems, states: Columns, number: int) -> Side:
        assert isinstance(states, Struct)
        lists = states.parts[at]
        assert isinstance(lists, Column)
        lengths, held = list_parts(self.lists[at], lists)
        parts = [(held, int(lengths.sum())), (value_of(member), len(member.rows))]
        codes = np.concatenate([np.repeat(np.arange(number), lengths), items.codes[member.rows]])
        counts = np.bincount(codes, minlength=number)
        rows = stable_order(codes)
        values = concat([one for one in parts if one[1]] or parts[:1])
        return Side(np.cumsum(counts) - counts, lengths, counts, np.arange(len(codes)) if rows is None else rows, values)

    def _emitted(self, items: OrderedItems, is_left: Any, left: Side, right: Side) -> Emitted:
        """All pairs, in the order of their later items."""
        codes, starts = items.codes, items.starts
        so_far = []
        for side, mine in ((left, is_left), (right, ~is_left)):
            come = np.concatenate([[0], np.cumsum(mine)])
            so_far.append(side.held[codes] + come[:-1] - come[starts[codes]])
        found = np.where(is_left, so_far[RIGHT], so_far[LEFT])
        counts = np.minimum(found, self.join.items)
        begin = np.where(is_left, right.starts[codes], left.starts[codes]) + found - counts
        own = np.where(is_left, left.starts[codes] + so_far[LEFT], right.starts[codes] + so_far[RIGHT])
        places, others = np.repeat(np.arange(items.count), counts), ranges(begin, counts)
        mine, of_left = own[places], is_left[places]
        values = left.some(np.where(of_left, mine, others)), right.some(np.where(of_left, others, mine))
        gives: Any = self.join.gives
        return Emitted(codes[places], items.ends[places], Struct(gives.cls, gives.names, values))


def _last(items: int, kind: ListOf, side: Side) -> Column:
    """The last items of each key."""
    lengths = np.minimum(side.counts, items)
    rows = ranges(side.starts + side.counts - lengths, lengths)
    return list_column(kind, lengths, take(side.values, side.rows[rows]))
