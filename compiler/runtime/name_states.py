"""States of ``deduplicate`` as columns: the names that keys have had, of all keys of a group in one table.

A name is a row of the table, with the slot of its key. So what comes costs the same however many names a key has had.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, Final, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.analysis.duplicates import TracedDuplicates
from tracetypes.compiler.analysis.joins import LONGEST
from tracetypes.compiler.analysis.ordered_form import StateKind
from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.column import Column, Columns, Struct, full_values, take
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.columns.growing import GrowingArray, GrowingColumns
from tracetypes.compiler.columns.hash_table import HashTable
from tracetypes.compiler.columns.row_hashes import hashes_of_rows, hashes_with, rows_alike
from tracetypes.compiler.columns.sorting import stable_order
from tracetypes.compiler.runtime.join_sides import none_of
from tracetypes.compiler.runtime.ordered_states import OrderedState, columns_of, keep_keys, settled
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.duplicates import settled as settled_name
from tracetypes.records import INT_MIN, Float, Integer, Optional, Record

__all__ = ["ABSENT", "NameKind", "NameState", "NameStates", "NameTable", "counts_column", "names_in"]

ABSENT: Final = INT_MIN
"""The number of a name that has been removed."""


@final
@attrs.frozen
class NameKind:
    """What a table stands for: the kind of names, and the Python form of a state, as :class:`Duplicates` says."""

    names: StateKind
    items: int | None
    timed: bool


@final
class NameTable:
    """Different names of slots. ``numbers``: of each name its last time, or the place of its last item among those of its key,
    which begins with 1; :data:`ABSENT` for a name that is no longer there; None if all stay. ``log``: the rows of the last items,
    in the order of each key; None if that does not count."""

    __slots__ = ("_index", "log", "names", "numbers", "slots")

    def __init__(
        self, slots: GrowingArray, names: GrowingColumns, numbers: GrowingArray | None, log: GrowingArray | None
    ) -> None:
        self.slots, self.names, self.numbers, self.log = slots, names, numbers, log
        self._index: HashTable | None = None

    def __reduce__(self) -> Any:
        return NameTable, (self.slots, self.names, self.numbers, self.log)

    @classmethod
    def of(cls, slots: Any, names: Columns, numbers: Any, log: Any) -> NameTable:
        """A table of numbers (int64) and names."""
        more = [None if one is None else GrowingArray(one) for one in (numbers, log)]
        return cls(GrowingArray(slots), GrowingColumns([(names, len(slots))]), *more)

    @property
    def count(self) -> int:
        """How many names there are."""
        return self.slots.count

    @property
    def index(self) -> HashTable:
        """The rows by slot and name."""
        if self._index is None:
            slots = self.slots.values
            self._index = HashTable(hashes_with(slots, hashes_of_rows(self.names.whole, len(slots))))
        return self._index

    def find(self, slots: Any, names: Columns, hashes: Any) -> Any:
        """The rows (int64) of slots (int64) and names, of which the hashes are slots_of_rows; -1 where there is none."""
        slots_of_rows = self.slots.values

        def is_row(some: Any, rows: Any) -> Any:
            same = slots_of_rows[rows] == slots[some]
            at = np.flatnonzero(same)
            for part, theirs in self.names.of_rows(rows[at]):
                same[at[part]] = rows_alike(theirs, take(names, some[at[part]]), len(part))
            return same

        return self.index.find(hashes_with(slots, hashes), is_row)

    def add(self, slots: Any, names: Columns, hashes: Any, numbers: Any) -> None:
        """Add rows that are not there."""
        if len(slots):
            self.index.add(hashes_with(slots, hashes))
            self.slots.add(slots)
            self.names.add(names, len(slots))
            if self.numbers is not None:
                self.numbers.add(numbers)

    def of_rows(self, rows: Any, slots: Any) -> NameTable:
        """Some rows (int64), with other slots (int64) for all that there are. Of the log stays what is of these rows."""
        numbers = None if self.numbers is None else self.numbers.values[rows]
        log = None
        if self.log is not None:
            places = np.full(self.count, -1)
            places[rows] = np.arange(len(rows))
            log = places[self.log.values]
            log = log[log >= 0]
        return NameTable.of(slots[self.slots.values[rows]], take(self.names.whole, rows), numbers, log)


@final
@attrs.define(eq=False)
class NameState(OrderedState):
    """States of the keys of a group: the names of all slots. ``states`` says nothing, or how many items each key has had."""

    table: NameTable

    def to_objects(self) -> dict[Any, Any]:
        """States by key. A key of which a marker has removed all names has none."""
        kind: NameKind = loads(self.shape[1])
        keys, table = values_of(self.keys, self.count), self.table
        rows = np.arange(table.count) if table.log is None else table.log.values
        order = stable_order(table.slots.values[rows])
        rows = rows if order is None else rows[order]
        bounds = np.searchsorted(table.slots.values[rows], np.arange(self.count + 1)).tolist()
        names, numbers = self._names(kind, rows), None if table.numbers is None else table.numbers.values[rows].tolist()
        states = {}
        for key, first, behind in zip(keys, bounds, bounds[1:], strict=False):
            state = _form(kind, names[first:behind], None if numbers is None else numbers[first:behind])
            if state or not kind.timed:
                states[key] = state
        return states

    def of_slot(self, kind: NameKind, slot: int, rows: Any) -> Any:
        """The state in a slot. ``rows`` (int64): those of the table that count, where there is no log."""
        table = self.table
        if table.log is not None:
            rows = table.log.values[table.slots.values[table.log.values] == slot]
        return _form(kind, self._names(kind, rows), None if table.numbers is None else table.numbers.values[rows].tolist())

    def _names(self, kind: NameKind, rows: Any) -> list[Any]:
        """The names of some rows (int64), as Python has them in a state."""
        names: list[Any] = [None] * len(rows)
        for some, columns in self.table.names.of_rows(rows):
            for at, name in zip(some.tolist(), values_of(columns, len(some)), strict=True):
                names[at] = name
        return list(map(settled_name, names)) if _has_floats(kind.names) else names

    def of_keys(self, rows: Any) -> NameState:
        """Those of some slots (int64)."""
        slots = np.full(self.count, -1)
        slots[rows] = np.arange(len(rows))
        table = self.table.of_rows(np.flatnonzero(slots[self.table.slots.values] >= 0), slots)
        return attrs.evolve(
            self, keys=take(self.keys, rows), count=len(rows), states=take(self.states, rows), table=table
        )

    def followed_by(self, others: Sequence[OrderedState]) -> NameState:
        """These and those of other keys, of the same shape."""
        some = [self, *(one for one in others if isinstance(one, NameState))]
        whole = OrderedState.followed_by(self, others)
        slots = np.cumsum([0, *(one.count for one in some)])
        rows = np.cumsum([0, *(one.table.count for one in some)])
        tables = [one.table for one in some]
        numbers = [one.numbers.values for one in tables if one.numbers is not None]
        logs = [one.log.values + first for one, first in zip(tables, rows[:-1], strict=True) if one.log is not None]
        table = NameTable.of(
            np.concatenate([one.slots.values + first for one, first in zip(tables, slots[:-1], strict=True)]),
            concat([(one.names.whole, one.count) for one in tables]),
            np.concatenate(numbers) if numbers else None,
            np.concatenate(logs) if logs else None,
        )
        return attrs.evolve(self, keys=whole.keys, count=whole.count, states=whole.states, table=table)

    def tidy(self, items: int | None) -> Any:
        """Remove names that no longer count, where they are more than the others, and then keys without names. Gives the new
        slots (int64) by the old ones, -1 for none; None if all are as they were."""
        table = self.table
        if table.numbers is None:
            return None
        numbers, slots = table.numbers.values, table.slots.values
        if items is None:
            stay = numbers != ABSENT
        else:
            assert isinstance(self.states, Column)
            if table.log is not None:
                self._shorten(table.log, items)
            stay = numbers > self.states.values[slots] - items
        if 2 * np.count_nonzero(stay) > len(stay) or not len(stay):
            return None
        rows, places = np.flatnonzero(stay), np.arange(self.count)
        if items is None:
            keys = np.flatnonzero(np.bincount(slots[rows], minlength=self.count))
            places = np.full(self.count, -1)
            places[keys] = np.arange(len(keys))
            self.states = take(self.states, keys)
            keep_keys(self, keys)
        self.table = table.of_rows(rows, places)
        return places

    def _shorten(self, log: GrowingArray, items: int) -> None:
        """Keep the last items of each key, where these are less than half of the log."""
        assert isinstance(self.states, Column)
        if log.count <= 2 * int(np.minimum(self.states.values, items).sum()):
            return
        slots = self.table.slots.values[log.values]
        order = stable_order(slots)
        slots = slots if order is None else slots[order]
        behind = np.searchsorted(slots, slots, "right")
        last = behind - np.arange(len(slots)) <= items
        self.table.log = GrowingArray((log.values if order is None else log.values[order])[last])


@final
class NameStates:
    """Makes states of one operator."""

    def __init__(self, form: TracedDuplicates) -> None:
        self.key, self.kind = form.key, NameKind(form.names, form.items, form.time is not None)
        self.shape = repr(self.kind), dumps(self.kind)
        self.counts = form.items is not None

    def fits(self, state: OrderedState) -> bool:
        """Are these columns such as this operator makes?"""
        return state.shape[0] == self.shape[0]

    def of(self, states: dict[Any, Any]) -> NameState:
        """Columns for states by key. Raises :class:`Undefined` where they do not fit."""
        keys = from_arrow(self.key, array(self.key, list(states)))
        slots, numbers, names, log = list[int](), list[int](), list[Any](), list[int]()
        for slot, state in enumerate(states.values()):
            if self.kind.items is not None:
                last, _ = state
                if len(last) > self.kind.items:
                    raise Undefined(0)
                rows = dict[Any, int]()
                places = dict[Any, int]()
                for place, name in enumerate(last, 1):
                    log.append(rows.setdefault(name, len(names) + len(rows)))
                    places[name] = place
                state = places
            slots += [slot] * len(state)
            names += state
            if self.kind.timed or self.counts:
                numbers += state.values()
        try:
            columns = columns_of(self.kind.names, _bare(self.kind.names, names))
        except AttributeError:  # something else where an enum should be
            raise Undefined(0) from None
        columns = names_in(self.kind.names, columns, len(names))
        if any(abs(number) > LONGEST for number in numbers):
            raise Undefined(0)
        table = NameTable.of(
            np.array(slots, np.int64),
            columns,
            np.array(numbers, np.int64) if self.kind.timed or self.counts else None,
            np.array(log, np.int64) if self.counts else None,
        )
        had = Column(None, None)
        if self.counts:
            had = counts_column(np.array([len(last) for last, _ in states.values()], np.int64))
        return NameState(keys, len(states), had, self.shape, table)


def counts_column(counts: Any) -> Column:
    """How many items keys have had (int64)."""
    return Column(Integer(), counts)


def _form(kind: NameKind, names: list[Any], numbers: list[int] | None) -> Any:
    """The state of a key in Python. ``names``: all of them, or those of the last items."""
    if kind.items is not None:
        last = deque(names[-kind.items :])
        return last, dict(Counter(last))
    if kind.timed:
        assert numbers is not None
        return {name: number for name, number in zip(names, numbers, strict=True) if number != ABSENT}
    return set(names)


# ---------------------------------------------------------------------------------------------------------- names


def names_in(kind: StateKind, columns: Columns, count: int) -> Columns:
    """Names as arrays of which equal rows have the same bits. Raises :class:`Undefined` for those of another kind, and for
    ``-0.0``, which Python takes for ``0.0``, but keeps."""
    return _as_arrays(kind, settled(kind, columns, count), count)


def _as_arrays(kind: StateKind, columns: Columns, count: int) -> Columns:
    if isinstance(kind, Record):
        assert isinstance(columns, Struct)
        fields = zip(kind.fields, columns.parts, strict=True)
        return Struct(tuple, (), tuple(_as_arrays(inner, part, count) for (_, inner), part in fields))  # type: ignore[arg-type]
    assert isinstance(columns, Column)
    if columns.kind is None:
        return none_of(kind, count)
    values = full_values(columns, count)
    if not isinstance(values, np.ndarray | pa.Array):  # one value for all rows, of a kind of which columns make no more
        raise Undefined(0)
    if isinstance(columns.kind, Float):
        zeros = values == 0.0
        if (np.signbit(values) & (zeros if columns.valid is None else zeros & columns.valid)).any():
            raise Undefined(0)
        if (missing := np.isnan(values)).any():
            values = np.where(missing, np.nan, values)
    return Column(columns.kind, values, columns.valid)


def _has_floats(kind: StateKind) -> bool:
    if isinstance(kind, Record):
        return any(_has_floats(part) for _, part in kind.fields)
    return isinstance(kind.item if isinstance(kind, Optional) else kind, Float)


def _bare(kind: StateKind, names: list[Any]) -> list[Any]:
    """Names of a state without what stands for NaN."""
    if not _has_floats(kind):
        return names
    if isinstance(kind, Record):
        if any(type(name) is not tuple or len(name) != len(kind.fields) for name in names):
            raise Undefined(0)
        parts = [_bare(inner, [name[at] for name in names]) for at, (_, inner) in enumerate(kind.fields)]
        return list(zip(*parts, strict=True))
    return [np.nan if name is ... else name for name in names]
