"""States of ordered operators as columns: of many keys, a slot each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final, Protocol, final
from weakref import WeakKeyDictionary

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.compiler.analysis.ordered_form import OrderedForm, StateKind
from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.columns.arrow import array, arrow_type
from tracetypes.compiler.columns.coded_arrays import plain_array
from tracetypes.compiler.columns.column import Column, Columns, Struct, full_values, take
from tracetypes.compiler.columns.concatenation import concat, merged_columns
from tracetypes.compiler.columns.conversion import from_arrow, to_arrow, values_of
from tracetypes.compiler.columns.exact_sums import ExactSums
from tracetypes.compiler.columns.groups import groups_of
from tracetypes.compiler.columns.growing import GrowingColumns
from tracetypes.compiler.columns.hash_table import HashTable
from tracetypes.compiler.columns.lists import Lists
from tracetypes.compiler.columns.row_hashes import hashes_of_rows, rows_alike
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.scalars import column_of, full, like, put
from tracetypes.compiler.tracing.expr import Exact, Undefined
from tracetypes.compiler.tracing.kinds import Empty, Level, MapOf, Queue
from tracetypes.records import INT_MIN, Integer, ListOf, Optional, Record

__all__ = [
    "OrderedState",
    "OrderedStates",
    "StatesOfKeys",
    "add_keys",
    "classed",
    "columns_of",
    "keep_keys",
    "list_column",
    "list_parts",
    "merged",
    "objects_of",
    "settled",
    "slots_of",
]


@attrs.define(eq=False)
class OrderedState:
    """States of the keys of a group. ``keys``: ``count`` of them, a slot each; ``states``: as long, with tuples for the author's
    records. ``shape``: what the columns
    stand for, as text and as a pickled :data:`StateKind`, which needs the author's classes only when it is asked for."""

    keys: Columns
    count: int
    states: Columns
    shape: tuple[str, bytes]

    def to_objects(self) -> dict[Any, Any]:
        """States by key."""
        kind: StateKind = loads(self.shape[1])
        return dict(zip(values_of(self.keys, self.count), objects_of(kind, self.states, self.count), strict=True))

    def of_keys(self, rows: Any) -> OrderedState:
        """Those of some slots (int64)."""
        return attrs.evolve(self, keys=take(self.keys, rows), count=len(rows), states=take(self.states, rows))

    def followed_by(self, others: Sequence[OrderedState]) -> OrderedState:
        """These and those of other keys, of the same shape. Raises :class:`Undefined`."""
        full = [one for one in (self, *others) if one.count] or [self]
        keys = concat([(one.keys, one.count) for one in full])
        states = concat([(one.states, one.count) for one in full])
        return attrs.evolve(self, keys=keys, count=sum(one.count for one in full), states=states)


_SLOTS: Final[WeakKeyDictionary[OrderedState, HashTable]] = WeakKeyDictionary()
"""The slots of keys, where there are many. All threads share it: a state has one at a time, and not always the same."""


def slots_of(state: OrderedState, keys: Columns, number: int) -> Any:
    """The slots (int64) of keys that are all different; -1 where there is none."""
    if not state.count or not number:
        return np.full(number, -1, np.int64)
    if number * 8 >= state.count and state.count < limits.LARGE:
        groups = groups_of(concat([(state.keys, state.count), (keys, number)]), state.count + number)
        slots = groups.first[groups.of_row[state.count :]]
        return np.where(slots < state.count, slots, -1)
    if (table := _SLOTS.get(state)) is None:
        table = _SLOTS[state] = HashTable(hashes_of_rows(state.keys, state.count))
    return table.find(
        hashes_of_rows(keys, number), lambda some, rows: rows_alike(take(state.keys, rows), take(keys, some), len(some))
    )


def add_keys(state: OrderedState, keys: Columns, slots: Any) -> Any:
    """Give slots to keys that have none (-1); the slots of all."""
    new = np.flatnonzero(slots < 0)
    if not len(new):
        return slots
    count, names = state.count + len(new), take(keys, new)
    state.keys = concat([(state.keys, state.count), (names, len(new))]) if state.count else names
    if (table := _SLOTS.get(state)) is not None:
        table.add(hashes_of_rows(names, len(new)))
    slots = slots.copy()
    slots[new], state.count = state.count + np.arange(len(new)), count
    return slots


def keep_keys(state: OrderedState, rows: Any) -> None:
    """Remove all keys but those of some slots (int64)."""
    state.keys, state.count = take(state.keys, rows), len(rows)
    _SLOTS.pop(state, None)


class StatesOfKeys(Protocol):
    """Makes states of one operator."""

    def fits(self, state: OrderedState) -> bool:
        """Are these columns such as this operator makes?"""

    def of(self, states: dict[Any, Any]) -> OrderedState:
        """Columns for states by key. Raises :class:`Undefined` where they do not fit."""


@final
class OrderedStates:
    """Makes states of one operator, finds them by key, and changes them."""

    def __init__(self, ordered: OrderedForm) -> None:
        self.key, self.kind = ordered.key, ordered.state
        self.shape = repr(self.kind), dumps(self.kind)
        self.first = columns_of(self.kind, [ordered.initial])
        """The state of a key to come, in one row."""

    def fits(self, state: OrderedState) -> bool:
        """Are these columns such as this operator makes? Then they stand for classes of this process, as a member of an enum is
        equal to that of its own class only."""
        if state.shape[0] != self.shape[0]:
            return False
        state.shape = self.shape
        return True

    def of(self, states: dict[Any, Any]) -> OrderedState:
        """Columns for states by key. Raises :class:`Undefined` where they do not fit."""
        keys = from_arrow(self.key, array(self.key, list(states)))
        return OrderedState(keys, len(states), columns_of(self.kind, list(states.values())), self.shape)

    def taken(self, state: OrderedState, slots: Any) -> Columns:
        """The states in some slots; those of keys to come where a slot is -1."""
        known, new = np.flatnonzero(slots >= 0), np.flatnonzero(slots < 0)
        if not len(new):
            return take(state.states, slots)
        fresh = take(self.first, np.zeros(len(new), np.int64)) if len(new) else self.first
        if not len(known):
            return settled(self.kind, fresh, len(new))
        return merged(self.kind, [(take(state.states, slots[known]), known), (fresh, new)], len(slots))

    def change(self, state: OrderedState, keys: Columns, slots: Any, states: Columns) -> None:
        """Replace the states of some keys, and add those whose slot is -1."""
        new = np.flatnonzero(slots < 0)
        if len(new):
            fresh = take(states, new)
            if state.count:
                count = state.count + len(new)
                fresh = settled(self.kind, concat([(state.states, state.count), (fresh, len(new))]), count)
            state.states = fresh
        where = add_keys(state, keys, slots)
        if len(new) < len(slots):
            state.states = _put(self.kind, state.states, state.count, where, states)

    def forget(self, state: OrderedState, slots: Any) -> None:
        """Remove the keys whose state is that of a key to come. Few of many stay until there are more: removing one moves
        all."""
        gone = _alike(state.states, self.first, state.count)
        rows = np.flatnonzero(gone)
        if len(rows) and len(rows) * limits.FEW >= state.count:
            stay = np.flatnonzero(~gone)
            state.states = take(state.states, stay)
            keep_keys(state, stay)


# -------------------------------------------------------------------------------------------------- as columns


def settled(kind: StateKind, columns: Columns, count: int, within: Any = None) -> Columns:
    """Columns of a state as arrays of its kind: so they are kept, and found as inputs. What is None in all rows stays one None.
    ``within``: the rows (bool) that mean something; None for all. Raises :class:`Undefined` for columns of another structure."""
    if isinstance(columns, Column) and columns.kind is None:
        if kind is not None and not isinstance(kind, Optional | Empty | Level):
            raise Undefined(0)
        return columns
    if isinstance(kind, Level):
        kind = Optional(Integer())
    if isinstance(kind, Queue):
        kind = ListOf(kind.item, False)
    valid = columns.valid
    some = valid if valid is None or within is None else valid[within]
    if isinstance(kind, Optional):
        if some is None or some.all():
            return _inside(kind.item, columns, count, within)
        if not some.any():
            return Column(None, None)
        both = valid if within is None else valid & within
        return attrs.evolve(_inside(kind.item, columns, count, both), valid=valid)
    if kind is None or (some is not None and not some.all()):
        raise Undefined(0)
    return _inside(kind, columns, count, within)


def _inside(kind: StateKind, columns: Columns, count: int, within: Any) -> Columns:
    """The same for columns of which no row is None."""
    if isinstance(kind, Record):
        if not isinstance(columns, Struct) or columns.cls not in (kind.cls, tuple) or len(columns.parts) != len(kind.fields):
            raise Undefined(0)
        parts = [
            settled(inner, part, count, within)  # type: ignore[arg-type]
            for (_, inner), part in zip(kind.fields, columns.parts, strict=True)
        ]
        return Struct(tuple, _names(kind), tuple(parts))
    if not isinstance(columns, Column):
        raise Undefined(0)
    if isinstance(kind, Exact):
        return full(kind, attrs.evolve(columns, valid=None), count)
    if columns.kind != kind:
        raise Undefined(0)
    return Column(kind, full_values(columns, count))


def merged(kind: StateKind, parts: Sequence[tuple[Columns, Any]], count: int) -> Columns:
    """One column from several, each with the rows that it is for."""
    parts = [(columns, rows) for columns, rows in parts if len(rows)]
    if len(parts) == 1 and len(parts[0][1]) == count and (parts[0][1] == np.arange(count)).all():
        return parts[0][0]
    return settled(kind, merged_columns(parts, count), count)


def _alike(states: Columns, one: Columns, count: int) -> Any:
    """Which rows are the only row of other columns, to the bit (bool); False where that is unknown."""
    if isinstance(one, Column) and one.kind is None:
        if states.valid is not None:
            return ~states.valid
        return np.full(count, isinstance(states, Column) and states.kind is None)
    if isinstance(states, Column) and states.kind is None:
        return np.zeros(count, np.bool_)
    same = np.ones(count, np.bool_)
    if isinstance(states, Struct) and isinstance(one, Struct):
        for part, first in zip(states.parts, one.parts, strict=True):
            same &= _alike(part, first, count)  # type: ignore[arg-type]
    elif isinstance(states, Column) and isinstance(one, Column):
        same &= like(attrs.evolve(states, valid=None), one)
    return same if states.valid is None else same & states.valid


def _put(kind: StateKind, columns: Columns, count: int, rows: Any, fresh: Columns) -> Columns:
    """Columns of a state with some rows replaced, in place where that can be."""
    if isinstance(columns, Struct) and isinstance(fresh, Struct) and columns.valid is None and fresh.valid is None:
        bare: Any = kind.item if isinstance(kind, Optional) else kind
        fields = zip(bare.fields, columns.parts, fresh.parts, strict=True)
        parts = [_put(inner, one, count, rows, other) for (_, inner), one, other in fields]  # type: ignore[arg-type]
        return Struct(tuple, columns.names, tuple(parts))
    if isinstance(columns, Column) and isinstance(fresh, Column) and columns.kind is not None and fresh.kind is not None:
        return put(columns, rows, fresh)
    kept = np.ones(count, np.bool_)
    kept[rows] = False
    left = np.flatnonzero(kept)
    return merged(kind, [(take(columns, left), left), (fresh, rows)], count)


def columns_of(kind: StateKind, values: list[Any]) -> Columns:
    """Python values as columns. Raises :class:`Undefined` for values of another structure."""
    if isinstance(kind, Empty):
        if any(values):
            raise Undefined(0)
        return Column(None, None)
    if kind is None or (isinstance(kind, Optional) and all(value is None for value in values)):
        if any(value is not None for value in values):
            raise Undefined(0)
        return Column(None, None)
    if isinstance(kind, Optional):
        valid = np.array([value is not None for value in values], np.bool_)
        present = columns_of(kind.item, [value for value in values if value is not None])
        return present if valid.all() else merged_columns([(present, np.flatnonzero(valid))], len(values))
    if isinstance(kind, Record):
        if any(type(value) is not kind.cls for value in values):
            raise Undefined(0)
        parts = [columns_of(inner, list(map(_getter(step), values))) for step, inner in kind.fields]
        if kind.cls is tuple and any(len(value) != len(kind.fields) for value in values):
            raise Undefined(0)
        return Struct(tuple, _names(kind), tuple(parts))
    if isinstance(kind, Exact):
        return Column(kind, ExactSums.from_sums(values) if values else ExactSums.zero(0))
    if isinstance(kind, Level):
        return columns_of(Optional(Integer()), [None if value == -math.inf else value for value in values])
    if isinstance(kind, MapOf):
        return _maps(kind, values)
    if isinstance(kind, Queue):
        return column_of(ListOf(kind.item, False), values)
    return column_of(kind, values)


def _maps(kind: MapOf, values: list[Any]) -> Column:
    """Dicts as a column."""
    if any(type(value) is not dict for value in values):
        raise Undefined(0)
    pairs = [pair for value in values for pair in sorted(value.items(), key=itemgetter(0))]
    keys, held = ([pair[place] for pair in pairs] for place in (0, 1))
    items = Struct(tuple, (), (columns_of(kind.key, keys), columns_of(kind.value, held)))
    return Column(kind, Lists.of([len(value) for value in values], GrowingColumns.of(items, len(pairs))))  # type: ignore[arg-type]


def list_column(kind: ListOf, lengths: Any, items: Columns) -> Column:
    """Lists of these lengths (int64) from their items, one list after the other."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    flat = plain_array(to_arrow(kind.item, items, int(offsets[-1])))
    return Column(kind, pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat, type=arrow_type(kind)))


def list_parts(kind: ListOf, lists: Column) -> tuple[Any, Columns]:
    """The lengths (int64) of lists, and their items."""
    values = lists.values
    return pc.list_value_length(values).to_numpy().astype(np.int64), from_arrow(kind.item, values.flatten())


def _names(kind: Record) -> tuple[str, ...]:
    return () if kind.cls is tuple else tuple(name for name, _ in kind.fields)


def objects_of(kind: StateKind, columns: Columns, count: int) -> list[Any]:
    """Columns of states as Python values."""
    return values_of(classed(kind, columns), count)


def classed(kind: StateKind, columns: Columns) -> Columns:
    """Columns of states with the author's classes."""
    bare: Any = kind.item if isinstance(kind, Optional) else kind
    if isinstance(columns, Column):
        return _for_objects(bare, columns)
    fields = zip(bare.fields, columns.parts, strict=True)
    return Struct(bare.cls, columns.names, tuple(classed(inner, part) for (_, inner), part in fields), columns.valid)  # type: ignore[arg-type]


def _for_objects(kind: StateKind, column: Column) -> Column:
    """A column with what makes the author's objects of it."""
    if isinstance(kind, MapOf):
        lists = column.values
        pairs = zip((kind.key, kind.value), lists.items.parts, strict=True)
        items = Struct(tuple, (), tuple(classed(*pair) for pair in pairs))
        return Column(column.kind, Lists.of(lists.lengths, GrowingColumns.of(items, lists.count)))
    if isinstance(kind, Empty):
        return Column(kind, None)  # type: ignore[arg-type]
    if isinstance(kind, Queue):
        return Column(kind, column.values)  # type: ignore[arg-type]
    if not isinstance(kind, Level):
        return column
    if column.kind is None:
        return Column(kind, INT_MIN)  # type: ignore[arg-type]
    return Column(kind, column.values if column.valid is None else np.where(column.valid, column.values, INT_MIN))  # type: ignore[arg-type]


def _getter(step: str | int) -> Callable[[Any], Any]:
    return itemgetter(step) if isinstance(step, int) else attrgetter(step)


