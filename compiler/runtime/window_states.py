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
from tracetypes.compiler.columns.column import Column, take, take_column
from tracetypes.compiler.columns.concatenation import concat_column
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.runtime.column_states import described, objects_of
from tracetypes.compiler.runtime.ordered_states import OrderedState, add_keys
from tracetypes.compiler.runtime.scalars import columns_of, full
from tracetypes.compiler.tracing.expr import Undefined, Value
from tracetypes.records import Integer

__all__ = ["Aggregates", "Lists", "WindowState", "WindowStates", "joined", "rows_between", "some_of"]

Aggregates = list[Column]
"""Aggregates: a column for each of their scalars."""


def joined(parts: Sequence[tuple[Aggregates, int]]) -> Aggregates:
    """Aggregates one after the other, each with their number."""
    if len(parts) == 1:
        return parts[0][0]
    counts = [count for _, count in parts]
    return [concat_column(list(zip(some, counts, strict=True))) for some in zip(*(part for part, _ in parts), strict=True)]


def some_of(aggregates: Aggregates, rows: Any) -> Aggregates:
    """Some rows (int64)."""
    return [take_column(one, rows) for one in aggregates]


def rows_between(starts: Any, lengths: Any) -> Any:
    """The numbers (int64) of ranges, one range after the other. ``starts`` and ``lengths``: int64."""
    behind = np.cumsum(lengths)
    return np.arange(behind[-1] if len(behind) else 0) + np.repeat(starts - behind + lengths, lengths)


@final
@attrs.frozen(eq=False)
class Lists:
    """Lists of aggregates, one after the other, with their lengths (int64)."""

    lengths: Any
    items: Aggregates

    @property
    def count(self) -> int:
        """How many aggregates there are."""
        return int(self.lengths.sum())

    @property
    def starts(self) -> Any:
        """Where each begins (int64)."""
        return np.cumsum(self.lengths) - self.lengths

    def of_rows(self, rows: Any) -> Lists:
        """Some of the lists (int64)."""
        lengths = self.lengths[rows]
        return Lists(lengths, some_of(self.items, rows_between(self.starts[rows], lengths)))

    def followed_by(self, *others: Lists) -> Lists:
        """These and others."""
        some = (self, *others)
        return Lists(np.concatenate([one.lengths for one in some]), joined([(one.items, one.count) for one in some]))


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
        old, new, totals = self.old.of_rows(rows), self.new.of_rows(rows), some_of(self.totals, rows)
        return WindowState(keys, len(rows), states, self.shape, old, new, totals)

    def followed_by(self, others: Sequence[OrderedState]) -> WindowState:
        """These and those of other keys, of the same shape."""
        whole = OrderedState.followed_by(self, others)
        more = [one for one in others if isinstance(one, WindowState)]
        old, new = self.old.followed_by(*(one.old for one in more)), self.new.followed_by(*(one.new for one in more))
        totals = joined([(one.totals, one.count) for one in (self, *more)])
        return WindowState(whole.keys, whole.count, whole.states, self.shape, old, new, totals)

    def change(self, slots: Any, by: WindowState) -> Any:
        """Replace the states of keys by others, and add those whose slot (int64) is -1. Gives the slots of all."""
        before, slots = self.count, add_keys(self, by.keys, slots)
        rows = np.arange(self.count)
        rows[slots] = before + np.arange(by.count)
        old, new = self.old.followed_by(by.old), self.new.followed_by(by.new)
        self.old, self.new = old.of_rows(rows), new.of_rows(rows)
        self.totals = some_of(joined([(self.totals, before), (by.totals, by.count)]), rows)
        self.states = take(concat_column([(_column(self.states), before), (_column(by.states), by.count)]), rows)
        return slots


def _column(columns: Any) -> Column:
    assert isinstance(columns, Column)
    return columns


def _lists_of(shape: Value, lists: Lists) -> list[list[Any]]:
    items = objects_of(shape, lists.items, lists.count)
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
        none = np.zeros(1, np.int64)
        rows = np.where(slots < 0, state.count, slots)
        empty = Lists(none, some_of(self.identity, none[:0]))
        return WindowState(
            keys,
            len(slots),
            take(concat_column([(_column(state.states), state.count), (Column(Integer(), none), 1)]), rows),
            self.shape,
            state.old.followed_by(empty).of_rows(rows),
            state.new.followed_by(empty).of_rows(rows),
            some_of(joined([(state.totals, state.count), (self.identity, 1)]), rows),
        )

    def _lists(self, lists: list[list[Any]]) -> Lists:
        return Lists(np.array([*map(len, lists)], np.int64), self._aggregates([one for some in lists for one in some]))

    def _aggregates(self, values: list[Any]) -> Aggregates:
        columns = columns_of(self.form.shape, self.kinds, values)
        return [full(kind, column, len(values)) for kind, column in zip(self.kinds, columns, strict=True)]
