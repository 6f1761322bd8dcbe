"""Windows by the items' own times over columns, whose answers need the items themselves: joins, and aggregates that keep values.

A key holds the items of its open windows, in the order in which they came. When markers come, all items of all keys get the
numbers of their windows, and the marker that ends each. Those of windows that end are put by key and window, and are joined or
summed up at once. The others stay in the list of their key. Python has such a state between two markers.
"""

from __future__ import annotations

from typing import Any, Final, final

import attrs
import numpy as np

from tracetypes.compiler.analysis.joins import value_in
from tracetypes.compiler.analysis.own_windows import TracedHeldWindows, TracedPairs
from tracetypes.compiler.analysis.summaries import TracedResults, keeps_all
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.column import Column, Columns, Struct, inputs_of, take, take_coded, taken_later
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.columns.evaluation import run
from tracetypes.compiler.columns.groups import Groups
from tracetypes.compiler.columns.lists import ranges
from tracetypes.compiler.columns.members import members_of
from tracetypes.compiler.columns.sorting import SortKey, sorted_rows, stable_order
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.closed_blocks import OrderedItems
from tracetypes.compiler.runtime.flows import KeyedFlow, fit
from tracetypes.compiler.runtime.join_sides import none_of, value_of
from tracetypes.compiler.runtime.ordered_base import NEVER, Emitted, Following, SeenKeys, by_row
from tracetypes.compiler.runtime.ordered_states import OrderedState, list_column, list_parts
from tracetypes.compiler.runtime.own_windows import WindowKernel, over_of
from tracetypes.compiler.runtime.summaries import bucket_count, needed_rows, results_of
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.marker_runs import MarkerRuns
from tracetypes.records import INT_MIN, Integer, OneOf
from tracetypes.templates import OpKeyedOrdered

__all__ = ["HeldWindows"]

FEWEST: Final = 1 << 16
"""So many items are held before some are dropped."""

NOTHING: Final = np.zeros(0, np.int64)


@final
@attrs.frozen(eq=False)
class Ended:
    """Windows that end, by key, then by number: the ``codes`` of their keys, their ``numbers``, and the marker that ends each.
    Their items lie by window, those of one as they came: ``of_items``, the window of each (all int64), and ``values``."""

    codes: Any
    numbers: Any
    removal: Any
    of_items: Any
    values: Columns

    @property
    def count(self) -> int:
        """How many items there are."""
        return len(self.of_items)

    @property
    def groups(self) -> Groups:
        """The items by window."""
        return Groups(self.of_items, np.bincount(self.of_items, minlength=len(self.codes)))


@final
class HeldWindows(WindowKernel):
    """Runs windows by the items' own times that hold their items."""

    def __init__(
        self, op: OpKeyedOrdered[Any, Any, Any, Any], form: TracedHeldWindows, seen: SeenKeys | None = None
    ) -> None:
        super().__init__(op, form, seen)
        self.windows = form

    def adopted(self, state: Any, count: int) -> OrderedState | None:
        """States as columns. The first items begin with columns, however few they are: many aggregates do not become items
        again."""
        if isinstance(state, OrderedState):
            return super().adopted(state, count)
        if not state:
            return self.columns.of({})
        if self.windows.its.values is not None and count + len(state) >= limits.MANY:
            state = {key: self._with_values(one) for key, one in state.items()}
        return super().adopted(state, count)

    def _with_values(self, state: Any) -> Any:
        """The same state, with what its aggregates hold as values."""
        keeps = self.windows.its.values
        assert keeps is not None
        held = [value for number in sorted(state.aggregates) for value in keeps(state.aggregates[number])]
        return type(state)(state.over, {}, held + state.values)

    def after(
        self, items: OrderedItems, markers: MarkerRuns, keys: Columns, first: Any, states: Columns
    ) -> tuple[Columns, Emitted]:
        """What some keys have as states when they have taken items and markers, and what they have emitted."""
        if items.count and (not markers or int(items.ends.max()) > markers[-1]):
            raise Undefined(0)
        assert isinstance(states, Struct)
        over, (lengths, held) = over_of(states, len(first)), self._held(states)
        before = np.repeat(np.arange(len(first)), lengths)
        codes, values = np.concatenate([before, items.codes]), items.values
        if len(before):
            values = concat([(held, len(before)), (values, items.count)]) if items.count else held
        numbers = self._numbers(values, len(codes))
        removal = self._removal(numbers, codes, first, markers)
        late = np.concatenate([np.full(len(before), INT_MIN), items.ends]) > removal
        late |= numbers < over[codes]
        ended = np.flatnonzero(~late & (removal < NEVER))
        emitted = self._emitted(keys, self._ended(codes, numbers, removal, values, ended))
        stay = np.flatnonzero(~late & (removal == NEVER))
        if (order := stable_order(codes[stay])) is not None:
            stay = stay[order]
        if markers:
            over = np.maximum(over, self._over_at(markers[-1]))
        return self._states(keys, states, over, codes, numbers, values, stay), emitted

    def _held(self, states: Struct) -> tuple[Any, Columns]:
        """How many items each key holds (int64), and these items."""
        lists = states.parts[2]
        assert isinstance(lists, Column)
        return list_parts(self.windows.values, lists)

    def _removal(self, numbers: Any, codes: Any, first: Any, markers: MarkerRuns) -> Any:
        """The marker that ends the window of each item (int64). Neighbours often have one window."""
        windows = self.windows
        new = np.ones(len(numbers), np.bool_)
        new[1:] = (codes[1:] != codes[:-1]) | (numbers[1:] != numbers[:-1])
        starts = np.flatnonzero(new)
        ends = (numbers[starts] + 1) * windows.size + (windows.offset + windows.grace)
        removal = Following(markers).of(np.maximum(ends, first[codes[starts]]))
        return np.repeat(removal, np.diff(starts, append=len(numbers)))

    def _ended(self, codes: Any, numbers: Any, removal: Any, values: Columns, rows: Any) -> Ended:
        """The windows of some rows (int64)."""
        rows = rows[sorted_rows([SortKey.column(codes[rows]), SortKey.column(numbers[rows])], len(rows))]
        codes, numbers = codes[rows], numbers[rows]
        new = np.ones(len(rows), np.bool_)
        new[1:] = (codes[1:] != codes[:-1]) | (numbers[1:] != numbers[:-1])
        return Ended(codes[new], numbers[new], removal[rows[new]], np.cumsum(new) - 1, taken_later(values, rows))

    # ----------------------------------------------------------------------------------------------- emissions

    def _emitted(self, keys: Columns, ended: Ended) -> Emitted:
        """What the windows that end emit, in their order."""
        gives = self.windows.gives
        if not ended.count:
            return Emitted(NOTHING, NOTHING, from_arrow(gives, array(gives, [])))
        match self.windows.content:
            case TracedPairs() as pairs:
                of, values = self._joined(pairs, ended)
            case TracedResults() as results:
                of, values = self._results(results, keys, ended)
        return Emitted(ended.codes[of], ended.removal[of], values)

    def _results(self, results: TracedResults, keys: Columns, ended: Ended) -> tuple[Any, Columns]:
        """The results of windows: the window of each (int64), and what is emitted."""
        flow = KeyedFlow.of(take_coded(keys, ended.codes[ended.of_items]), ended.values, ended.count)
        groups, whole = ended.groups, np.arange(len(ended.codes))
        parts = {f"part{at}": results_of(part, flow, groups) for at, part in enumerate(results.parts)}
        ran = run(results.tree, inputs_of({"number": Column(Integer(), ended.numbers), **parts}), len(whole))
        gives = self.windows.gives
        return by_row([(whole if one.rows is None else one.rows, fit(gives, one.value)) for one in ran.emissions])

    def _joined(self, pairs: TracedPairs, ended: Ended) -> tuple[Any, Columns]:
        """What is emitted for the partners in windows, and for items without one."""
        assert isinstance(self.windows.takes, OneOf)
        members = {one.record.cls: one for one in members_of(self.windows.takes, ended.values, ended.count)}
        left, right = members[pairs.left.cls], members[pairs.right.cls]
        of_left, of_right = ended.of_items[left.rows], ended.of_items[right.rows]
        lefts, rights = (np.bincount(of, minlength=len(ended.codes)) for of in (of_left, of_right))
        if pairs.alone:
            some = np.flatnonzero((rights > 0)[of_left] == (pairs.how == "semi"))
            return of_left[some], taken_later(value_of(left), some)
        starts = (np.cumsum(lefts) - lefts)[of_right]
        of = np.repeat(of_right, lefts[of_right])
        some, others = ranges(starts, lefts[of_right]), np.repeat(np.arange(len(of_right)), lefts[of_right])
        lone_left, lone_right = (
            np.flatnonzero(partners[mine] == 0) if outer else NOTHING
            for outer, mine, partners in zip(pairs.outer, (of_left, of_right), (rights, lefts), strict=True)
        )
        if len(lone_left) or len(lone_right):
            of = np.concatenate([of, of_left[lone_left], of_right[lone_right]])
            some = np.concatenate([some, lone_left, np.full(len(lone_right), -1)])
            others = np.concatenate([others, np.full(len(lone_left), -1), lone_right])
            if (order := stable_order(of)) is not None:
                of, some, others = of[order], some[order], others[order]
        gives: Any = self.windows.gives
        parts = _or_none(value_of(left), some, value_in(pairs.left)), _or_none(value_of(right), others, value_in(pairs.right))
        return of, Struct(gives.cls, gives.names, parts)

    # -------------------------------------------------------------------------------------------------- states

    def _states(
        self, keys: Columns, states: Struct, over: Any, codes: Any, numbers: Any, values: Columns, stay: Any
    ) -> Columns:
        """The states of keys when all has been taken. ``stay``: the items that they hold (int64), by key."""
        if len(stay) > FEWEST:
            stay = stay[self._needed(keys, codes[stay], numbers[stay], taken_later(values, stay))]
        there = over > INT_MIN
        level = Column(Integer(), over, None if there.all() else there)
        held = list_column(self.windows.values, np.bincount(codes[stay], minlength=len(over)), take(values, stay))
        return Struct(tuple, states.names, (level, states.parts[1], held))

    def _needed(self, keys: Columns, codes: Any, numbers: Any, values: Columns) -> Any:
        """The items (int64) of open windows that are needed. Raises :class:`Undefined` where aggregates are less than half as
        large."""
        content, whole = self.windows.content, np.arange(len(codes))
        if not isinstance(content, TracedResults) or any(map(keeps_all, content.parts)):
            return whole
        flow = KeyedFlow.of(take_coded(keys, codes), values, len(codes))
        rows = needed_rows(content.parts, flow, numbers, fewest=True)
        if rows is not None:
            return rows
        if 2 * bucket_count(content.parts, flow, numbers) < len(codes):
            raise Undefined(0)
        return whole


def _or_none(values: Columns, rows: Any, kind: Any) -> Columns:
    """Some values (int64); None for the row -1."""
    missing = rows < 0
    if not missing.any():
        return taken_later(values, rows)
    if missing.all():
        return none_of(kind, len(rows))
    found = take(values, np.maximum(rows, 0))
    return attrs.evolve(found, valid=~missing if found.valid is None else found.valid & ~missing)
