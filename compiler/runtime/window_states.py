"""States of the sliding ``count_window`` as columns: the two stacks of all keys of a group, one key after the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, final

import attrs
import numpy as np

from tracetypes.compiler.analysis.monoids import leaves
from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.analysis.sliding import TracedSliding
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.column import Column, Struct, take, take_column
from tracetypes.compiler.columns.concatenation import concat_column, merged_column
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.columns.growing import GrowingColumns
from tracetypes.compiler.columns.lists import Lists
from tracetypes.compiler.runtime.column_states import described, objects_of
from tracetypes.compiler.runtime.ordered_states import OrderedState, add_keys
from tracetypes.compiler.runtime.scalars import columns_of, full, put
from tracetypes.compiler.tracing.expr import Undefined, Value
from tracetypes.records import Integer

__all__ = ["Aggregates", "WindowState", "WindowStates", "concat_aggregates", "items_of", "lists_of", "some_of"]

Aggregates = list[Column]
"""Aggregates: a column for each of their scalars."""


def concat_aggregates(parts: Sequence[tuple[Aggregates, int]]) -> Aggregates:
    """Aggregates one after the other, each with their number."""
    if len(parts) == 1:
        return parts[0][0]
    counts = [count for _, count in parts]
    return [concat_column(list(zip(some, counts, strict=True))) for some in zip(*(part for part, _ in parts), strict=True)]


def some_of(aggregates: Aggregates, rows: Any) -> Aggregates:
    """Some rows (int64)."""
    return [take_column(one, rows) for one in aggregates]


def lists_of(lengths: Any, items: Aggregates, count: int) -> Lists:
    """Lists of these lengths (int64) of so many aggregates."""
    return Lists.of(lengths, GrowingColumns.of(Struct(tuple, (), tuple(items)), count))


def items_of(lists: Lists) -> Aggregates:
    """The aggregates of all lists, one list after the other."""
    return list(lists.items.parts)


@final
@attrs.define(eq=False)
class WindowState(OrderedState):
    """States of the keys of a group. ``states``: how many items came since a window was emitted. ``old`` and ``new``: the stacks;
    ``totals``: the aggregates of the new ones."""

    old: Lists
    new: Lists
    totals: Aggregates

    def to_objects(self) -> dict[Any, Any]:
        """States by key."""
        shape: Value = loads(self.shape[1])
        keys, since = values_of(self.keys, self.count), values_of(self.states, self.count)
        stacks = [_lists_of(shape, one) for one in (self.old, self.new)]
        totals = objects_of(shape, self.totals, self.count)
        return dict(zip(keys, zip(since, *stacks, totals, strict=True), strict=True))

    def of_keys(self, rows: Any) -> WindowState:
        """Those of some slots (int64)."""
        keys, states = take(self.keys, rows), take(self.states, rows)
        old, new, totals = self.old.take(rows), self.new.take(rows), some_of(self.totals, rows)
        return WindowState(keys, len(rows), states, self.shape, old, new, totals)

    def followed_by(self, others: Sequence[OrderedState]) -> WindowState:
        """These and those of other keys, of the same shape."""
        whole = OrderedState.followed_by(self, others)
        more = [one for one in others if isinstance(one, WindowState)]
        old, new = self.old.followed_by([one.old for one in more]), self.new.followed_by([one.new for one in more])
        totals = concat_aggregates([(one.totals, one.count) for one in (self, *more)])
        return WindowState(whole.keys, whole.count, whole.states, self.shape, old, new, totals)

    def change(self, slots: Any, by: WindowState) -> Any:
        """Replace the states of keys by others, and add those whose slot (int64) is -1. Gives the slots of all."""
        more, slots = np.flatnonzero(slots < 0), add_keys(self, by.keys, slots)
        if len(more):  # they are replaced below
            none = by.of_keys(more)
            self.old, self.new = self.old.followed_by([none.old]), self.new.followed_by([none.new])
            before = self.count - len(more)
            self.totals = concat_aggregates([(self.totals, before), (none.totals, len(more))])
            self.states = concat_column([(_column(self.states), before), (_column(none.states), len(more))])
        self.old.put(slots, by.old)
        self.new.put(slots, by.new)
        self.totals = [put(one, slots, other) for one, other in zip(self.totals, by.totals, strict=True)]
        self.states = put(_column(self.states), slots, _column(by.states))
        return slots


def _column(columns: Any) -> Column:
    assert isinstance(columns, Column)
    return columns


def _lists_of(shape: Value, lists: Lists) -> list[list[Any]]:
    items = objects_of(shape, items_of(lists), lists.count)
    return [items[first:behind] for first, behind in pairwise(accumulate(lists.lengths.tolist(), initial=0))]


@final
class WindowStates:
    """Makes states of one operator."""

    def __init__(self, form: TracedSliding) -> None:
        self.form = form
        self.kinds = [at.kind for _, at in leaves(form.shape)]
        self.shape = f"windows of {described(form.shape)}", dumps(form.shape)
        self.identity = self._aggregates([form.identity])

    def fits(self, state: OrderedState) -> bool:
        """Are these columns such as this operator makes?"""
        return state.shape[0] == self.shape[0]

    def of(self, states: dict[Any, Any]) -> WindowState:
        """Columns for states by key. Raises :class:`Undefined` where they do not fit."""
        keys = from_arrow(self.form.key, array(self.form.key, list(states)))
        since = [state[0] for state in states.values()]
        old, new = (self._lists([state[at] for state in states.values()]) for at in (1, 2))
        totals = self._aggregates([state[3] for state in states.values()])
        return self.checked(
            WindowState(keys, len(states), Column(Integer(), np.array(since, np.int64)), self.shape, old, new, totals)
        )

    def checked(self, state: WindowState) -> WindowState:
        """States as this operator makes them. Raises :class:`Undefined` for others, as those of other parameters are."""
        old, new, since = state.old.lengths, state.new.lengths, _column(state.states).values
        fits = np.where(old > 0, old + new == self.form.items, new <= self.form.items)
        if not (fits & (since < self.form.slide)).all():
            raise Undefined(0)
        return state

    def to_come(self, state: WindowState, slots: Any, keys: Any) -> WindowState:
        """The states in some slots (int64); those of keys to come where a slot is -1."""
        known, new = np.flatnonzero(slots >= 0), np.flatnonzero(slots < 0)
        rows, since = slots[known], np.zeros(len(slots), np.int64)
        since[known] = _column(state.states).values[rows]
        none = np.zeros(len(new), np.int64)
        totals = [
            full(kind, merged_column([(take_column(one, rows), known), (take_column(first, none), new)], len(slots)), len(slots))
            for kind, one, first in zip(self.kinds, state.totals, self.identity, strict=True)
        ]
        stacks = state.old.take(slots), state.new.take(slots)
        return WindowState(keys, len(slots), Column(Integer(), since), self.shape, *stacks, totals)

    def _lists(self, lists: list[list[Any]]) -> Lists:
        items = [one for some in lists for one in some]
        return lists_of([*map(len, lists)], self._aggregates(items), len(items))

    def _aggregates(self, values: list[Any]) -> Aggregates:
        columns = columns_of(self.form.shape, self.kinds, values)
        return [full(kind, column, len(values)) for kind, column in zip(self.kinds, columns, strict=True)]
