"""``deduplicate`` over columns: the items of a key that have one name follow one another, for all keys and names at once.

An item is emitted if none of its name came before, or if that one is too old: by its time, or by the items in between, whose
places count as times. What came before the block is found in a table of names (:mod:`.name_states`).
"""

from __future__ import annotations

from typing import Any, Final, final

import attrs
import numpy as np

from tracetypes.compiler.analysis.duplicates import TracedDuplicates
from tracetypes.compiler.columns.column import Column, Columns, Struct, full_values, inputs_of, take, taken_later
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.evaluation import return_values
from tracetypes.compiler.columns.groups import groups_of
from tracetypes.compiler.columns.row_hashes import hashes_of_rows
from tracetypes.compiler.columns.sorting import stable_order
from tracetypes.compiler.runtime.closed_blocks import OrderedItems
from tracetypes.compiler.runtime.join_sides import bounded
from tracetypes.compiler.runtime.name_states import ABSENT, NameKind, NameState, NameStates, counts_column, names_in
from tracetypes.compiler.runtime.ordered_base import NEVER, Emitted, Following, OrderedKernel, SeenKeys, Taken
from tracetypes.compiler.runtime.ordered_states import add_keys, columns_of, slots_of
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.marker_runs import MarkerRuns
from tracetypes.records import Integer
from tracetypes.templates import OpKeyedOrdered

__all__ = ["DuplicatesKernel"]

LARGE: Final = 4_096
"""Names of a key of which all are compared with Python; of more only those that its items have."""


@final
@attrs.frozen(eq=False)
class ItemsByName:
    """Items by key and name, which are a pair. ``of_row``: the pair of each item; ``first`` and ``last``: the first and the last
    item of each pair; ``names`` and ``hashes``: as many; ``rows``: where each pair is in the table of names, -1 for nowhere (all
    int64 but names and hashes)."""

    of_row: Any
    first: Any
    last: Any
    names: Columns
    hashes: Any
    rows: Any


@final
class DuplicatesKernel(OrderedKernel):
    """Runs ``deduplicate`` over columns."""

    def __init__(self, op: OpKeyedOrdered[Any, Any, Any, Any], form: TracedDuplicates, seen: SeenKeys | None = None) -> None:
        states = NameStates(form)
        super().__init__(op, form, states, seen)
        self.its, self.kind = form, states.kind

    def load(self, state: Any) -> int:
        """How many names there are."""
        return int(state.table.count)

    def take(self, state: NameState, items: OrderedItems, markers: MarkerRuns) -> Taken:
        """What keys do that take items and markers."""
        slots = slots_of(state, items.keys, items.number)
        by_name = self._by_name(state, items, slots)
        numbers = None
        if self.its.items is None and self.its.time is None:
            emitted = np.sort(by_name.first[by_name.rows < 0])
        else:
            emitted, numbers = self._by_numbers(state, items, markers, by_name, slots)
        removals, looks = self._removals(state, markers), Looks(self.kind, state, items, by_name, slots)

        def change() -> None:
            looks.slots = self._change(state, items, looks.slots, by_name, numbers, removals, markers)

        out = Emitted(items.codes[emitted], items.ends[emitted], taken_later(items.values, emitted))
        keys, number = items.keys, items.number
        if len(removals) and self.seen is not None:  # markers remove names of keys without items, too
            silent = np.setdiff1d(state.table.slots.values[removals], slots)
            keys = concat([(keys, number), (take(state.keys, silent), len(silent))]) if number else take(state.keys, silent)
            number, slots = number + len(silent), np.concatenate([slots, silent])
            looks.slots = slots
        return Taken(keys, number, slots, out, looks, change)

    # ---------------------------------------------------------------------------------------------------- names

    def _by_name(self, state: NameState, items: OrderedItems, slots: Any) -> ItemsByName:
        count = items.count
        whole = inputs_of({"value": items.values})
        columns = return_values(self.its.name, whole, count) if count else columns_of(self.its.names, [])
        names = names_in(self.its.names, columns, count)
        groups = groups_of(Struct(tuple, (), (Column(Integer(), items.codes), names)), count)
        of_row, first = groups.of_row, groups.first
        last = np.empty(len(first), np.int64)
        last[of_row] = np.arange(count)
        own, names = slots[items.codes[first]], take(names, first)
        hashes = hashes_of_rows(names, len(first))
        rows, known = np.full(len(first), -1), np.flatnonzero(own >= 0)
        if len(known) and state.table.count:
            rows[known] = state.table.find(own[known], take(names, known), hashes[known])
        return ItemsByName(of_row, first, last, names, hashes, rows)

    def _numbers(self, state: NameState, items: OrderedItems, slots: Any) -> Any:
        """The times (int64) of items, or their places among those of their key."""
        if self.its.time is not None:
            if not items.count:
                return items.ends
            column = return_values(self.its.time, inputs_of({"value": items.values}), items.count)
            if not isinstance(column, Column) or column.valid is not None or column.undefined is not None:
                raise Undefined(0)
            return bounded(full_values(column, items.count))
        assert isinstance(state.states, Column)
        before, known = np.zeros(items.number, np.int64), slots >= 0
        before[known] = state.states.values[slots[known]]
        return np.arange(1, items.count + 1) + (before - items.starts[:-1])[items.codes]

    def _by_numbers(
        self, state: NameState, items: OrderedItems, markers: MarkerRuns, by_name: ItemsByName, slots: Any
    ) -> tuple[Any, Any]:
        """Which items (int64) are emitted, and the number (int64) that each pair has afterwards."""
        assert state.table.numbers is not None
        numbers = self._numbers(state, items, slots)
        order = stable_order(by_name.of_row.astype(np.int64, copy=False))
        if order is None:
            order = np.arange(items.count)
        earlier, known = np.full(len(by_name.first), ABSENT), np.flatnonzero(by_name.rows >= 0)
        earlier[known] = state.table.numbers.values[by_name.rows[known]]
        pairs, times = by_name.of_row[order], numbers[order]
        starts = np.flatnonzero(np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)])
        one = Sequences(pairs, times, items.ends[order], starts)
        if self.its.time is not None:
            late, newest = one.late(earlier, self.its.horizon, Following(markers))
        else:
            late, newest = one.late(earlier, self.its.items, None)
        return np.sort(order[late]), newest[np.append(starts[1:], len(pairs)) - 1] if len(pairs) else newest

    # --------------------------------------------------------------------------------------------------- states

    def _removals(self, state: NameState, markers: MarkerRuns) -> Any:
        """The names (int64, rows) that markers remove, unless items of theirs come."""
        if self.its.time is None or not markers:
            return np.zeros(0, np.int64)
        assert self.its.horizon is not None
        assert state.table.numbers is not None
        numbers = state.table.numbers.values
        return np.flatnonzero((numbers < markers[-1] - self.its.horizon) & (numbers != ABSENT))

    def _change(
        self,
        state: NameState,
        items: OrderedItems,
        slots_before: Any,
        by_name: ItemsByName,
        numbers: Any,
        removals: Any,
        markers: MarkerRuns,
    ) -> Any:
        """Change the states. ``slots_before``: of keys (int64); gives those afterwards."""
        before, new = state.count, np.flatnonzero(by_name.rows < 0)
        slots = add_keys(state, items.keys, slots_before[: items.number])
        if self.its.items is not None:
            assert isinstance(state.states, Column)
            counts = np.concatenate([state.states.values, np.zeros(state.count - before, np.int64)])
            counts[slots] += np.diff(items.starts)
            state.states = counts_column(counts)
        table, own = state.table, slots[items.codes[by_name.first]]
        new = new[np.argsort(by_name.first[new])]
        by_name.rows[new] = table.count + np.arange(len(new))
        table.add(own[new], take(by_name.names, new), by_name.hashes[new], None if numbers is None else numbers[new])
        if numbers is not None and table.numbers is not None:
            table.numbers.values[removals] = ABSENT
            if self.its.time is not None and markers:
                assert self.its.horizon is not None
                due = np.maximum(numbers + (self.its.horizon + 1), items.ends[by_name.last])
                numbers = np.where(Following(markers).of(due) < NEVER, ABSENT, numbers)
            table.numbers.values[by_name.rows] = numbers
        if table.log is not None:
            table.log.add(by_name.rows[by_name.of_row])
        slots, places = np.append(slots, slots_before[items.number :]), state.tidy(self.its.items)
        return slots if places is None else places[slots]


@final
@attrs.frozen(eq=False)
class Sequences:
    """The items of each pair in their order, one pair after the other: their pairs, times, and the ends of their blocks;
    ``starts``: where the pairs start (all int64)."""

    pairs: Any
    times: Any
    ends: Any
    starts: Any

    def late(self, earlier: Any, horizon: Any, removal: Following | None) -> tuple[Any, Any]:
        """Which items (bool) come more than ``horizon`` behind the newest one before, or when a marker has removed that; and the
        newest time so far (int64). ``earlier``: the newest time of each pair before all items, or :data:`ABSENT`. ``removal``:
        the markers, if they remove something."""
        starts, times, ends = self.starts, self.times, self.ends
        over = earlier == ABSENT
        if removal is not None:
            over |= removal.of(np.where(over, 0, earlier + (horizon + 1))) < ends[starts]
        newest = times.copy()
        newest[starts] = np.where(over, times[starts], np.maximum(times[starts], earlier))
        newest = _newest(self.pairs, newest)
        before = np.empty_like(times)
        before[1:] = newest[:-1]
        before[starts] = np.where(over, 0, earlier)
        late = times - before > horizon
        late[starts] |= over
        if removal is not None:
            rows = np.ones(len(times), np.bool_)
            rows[starts] = False
            inner = np.flatnonzero(rows)
            removed = removal.of(np.maximum(before[inner] + (horizon + 1), ends[inner - 1])) < ends[inner]
            if (removed & (times[inner] < before[inner])).any():
                raise Undefined(0)  # the newest time so far is that of an item which a marker has removed
            late[inner] |= removed
        return late, newest


@final
@attrs.define(eq=False)
class Looks:
    """What the states of some keys are by now, as objects. ``slots``: of these keys (int64)."""

    kind: NameKind
    state: NameState
    items: OrderedItems
    by_name: ItemsByName
    slots: Any
    few: dict[int, bool] = attrs.Factory(dict)
    """Of keys that were looked at: whether all of their names are."""

    def __call__(self, code: int) -> Any:
        """The state of a key, with all names or those of its items."""
        slot, by_name, table = int(self.slots[code]), self.by_name, self.state.table
        rows = np.flatnonzero(table.slots.values == slot)
        pairs = np.flatnonzero(self.items.codes[by_name.first] == code)
        if self.few.setdefault(code, len(rows) + len(pairs) <= LARGE):
            return self.state.of_slot(self.kind, slot, rows)
        rows = table.find(np.full(len(pairs), slot), take(by_name.names, pairs), by_name.hashes[pairs])
        return self.state.of_slot(self.kind, slot, rows[rows >= 0])


def _newest(pairs: Any, times: Any) -> Any:
    """The newest time (int64) of each pair so far."""
    if ((times[1:] >= times[:-1]) | (pairs[1:] != pairs[:-1])).all():
        return times
    order = np.argsort(times, kind="stable")
    ranks = np.empty(len(times), np.int64)
    ranks[order] = np.arange(len(times))
    base = pairs.astype(np.int64) * len(times)
    return times[order[np.maximum.accumulate(base + ranks) - base]]
