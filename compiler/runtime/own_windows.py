"""Windows by the items' own times over columns: all keys and windows at once.

The items of a window are those of its key and number, in their order; what a key holds of a window from before comes first. So
each sum of floats has the bits that adding one after the other gives. The marker that ends a window follows from its number: the
first that lies behind its end and the grace. Items of later blocks come too late for it.
"""

from __future__ import annotations

from typing import Any, final

import attrs
import numpy as np

from tracetypes.compiler.analysis.joins import LONGEST
from tracetypes.compiler.analysis.monoids import Part
from tracetypes.compiler.analysis.own_windows import TracedWindows, WindowForm
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.column import (
    Column,
    Columns,
    Struct,
    full_values,
    inputs_of,
    take,
    take_column,
    taken_later,
)
from tracetypes.compiler.columns.concatenation import concat_column
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.columns.evaluation import return_values, run
from tracetypes.compiler.columns.groups import Groups
from tracetypes.compiler.columns.growing import GrowingColumns
from tracetypes.compiler.columns.lists import Lists
from tracetypes.compiler.columns.sorting import SortKey, sorted_rows
from tracetypes.compiler.runtime.closed_blocks import OrderedItems
from tracetypes.compiler.runtime.flows import fit
from tracetypes.compiler.runtime.join_sides import numbers_of
from tracetypes.compiler.runtime.ordered_base import NEVER, Emitted, Following, KernelOfKeys, SeenKeys, by_row
from tracetypes.compiler.runtime.ordered_states import OrderedState, settled
from tracetypes.compiler.runtime.partial_aggregation import part_of, reduced_in_order, structured
from tracetypes.compiler.tracing.expr import Exact, Undefined
from tracetypes.marker_runs import MarkerRuns
from tracetypes.records import INT_MIN, Integer
from tracetypes.templates import OpKeyedOrdered

__all__ = ["WindowKernel", "WindowsOfItems", "over_of"]


@final
@attrs.frozen(eq=False)
class Before:
    """What keys hold: the number before which their windows are over (int64), how many windows are open (int64), and of each
    window its number (int64) and the parts of its aggregate."""

    over: Any
    lengths: Any
    numbers: Any
    parts: tuple[Column, ...]


@final
@attrs.frozen(eq=False)
class Windows:
    """The windows of some keys, by key, then by number: ``codes`` and ``numbers``, and the marker that ends each (all int64).
    ``of_before`` and ``of_items``: the window of each that was before, and of each item (int64)."""

    codes: Any
    numbers: Any
    removal: Any
    of_before: Any
    of_items: Any

    @property
    def count(self) -> int:
        """How many windows there are."""
        return len(self.codes)

    def only(self, some: Any, rows: Any) -> Windows:
        """Some of the windows (bool), with some of their items (int64)."""
        places = np.cumsum(some) - 1
        items = self.of_items[rows]
        if some.all():
            return attrs.evolve(self, of_items=items)
        codes, numbers, removal = (one[some] for one in (self.codes, self.numbers, self.removal))
        return Windows(codes, numbers, removal, places[self.of_before], places[items])


class WindowKernel(KernelOfKeys):
    """What kernels of windows by the items' own times have in common."""

    def __init__(self, op: OpKeyedOrdered[Any, Any, Any, Any], form: WindowForm, seen: SeenKeys | None = None) -> None:
        super().__init__(op, form, seen)
        self.form_of_windows = form

    def at_markers(self, state: OrderedState, rows: Any, markers: MarkerRuns) -> Any:
        """In which of some slots (int64) a marker may matter (bool)."""
        assert isinstance(state.states, Struct)
        over = over_of(state.states, state.count)
        return (over if len(rows) == state.count else over[rows]) < self._over_at(markers[-1])

    def _over_at(self, marker: int) -> int:
        """The number before which windows are over at a marker."""
        windows = self.form_of_windows
        return (marker - windows.grace - windows.offset) // windows.size

    def _numbers(self, values: Columns, count: int) -> Any:
        """The number (int64) of the window of each value."""
        windows = self.form_of_windows
        numbers = numbers_of(windows.takes, windows.numbers, values, count)
        if count and max(int(numbers.max()), -int(numbers.min())) > LONGEST // windows.size:
            raise Undefined(0)
        return numbers


@final
class WindowsOfItems(WindowKernel):
    """Runs windows by the items' own times over columns."""

    def __init__(
        self, op: OpKeyedOrdered[Any, Any, Any, Any], form: TracedWindows, seen: SeenKeys | None = None
    ) -> None:
        super().__init__(op, form, seen)
        self.windows = form

    def after(
        self, items: OrderedItems, markers: MarkerRuns, keys: Columns, first: Any, states: Columns
    ) -> tuple[Columns, Emitted]:
        """What some keys have as states when they have taken items and markers, and what they have emitted."""
        if items.count and (not markers or int(items.ends.max()) > markers[-1]):
            raise Undefined(0)
        before = self._before(states, len(first))
        windows = self._windows(items, before, first, Following(markers))
        late = (items.ends > windows.removal[windows.of_items]) | (windows.numbers < before.over[windows.codes])[
            windows.of_items
        ]
        rows = np.flatnonzero(~late)
        some = np.zeros(windows.count, np.bool_)
        some[windows.of_before] = some[windows.of_items[rows]] = True
        windows = windows.only(some, rows)
        values = items.values if len(rows) == items.count else taken_later(items.values, rows)
        parts = self._fold(windows, before, values, len(rows))
        emitted = self._emissions(windows, parts)
        over = np.maximum(before.over, self._over_at(markers[-1])) if markers else before.over
        return self._states(windows, parts, over, states), emitted

    def _before(self, states: Columns, count: int) -> Before:
        assert isinstance(states, Struct)
        aggregates = states.parts[1]
        assert isinstance(aggregates, Column)
        lists: Lists = aggregates.values
        number, content = lists.items.parts
        total, monoid = lists.count, self.windows.monoid
        parts = tuple(part_of(content, part, total) for part in monoid.parts) if total else ()
        return Before(over_of(states, count), lists.lengths, full_values(number, total), parts)

    def _windows(self, items: OrderedItems, before: Before, first: Any, following: Following) -> Windows:
        """All windows of which something is before or comes."""
        size, shift = self.windows.size, self.windows.offset + self.windows.grace
        numbers = self._numbers(items.values, items.count)
        new = np.ones(items.count, np.bool_)
        new[1:] = (items.codes[1:] != items.codes[:-1]) | (numbers[1:] != numbers[:-1])
        starts, count = np.flatnonzero(new), len(before.numbers)
        codes = np.concatenate([np.repeat(np.arange(len(first)), before.lengths), items.codes[starts]])
        numbers = np.concatenate([before.numbers, numbers[starts]])
        group = np.arange(len(codes))
        again = (codes[1:] == codes[:-1]) & (numbers[1:] <= numbers[:-1])
        if count or again.any():
            order = sorted_rows([SortKey.column(codes), SortKey.column(numbers)], len(codes))
            codes, numbers = codes[order], numbers[order]
            differs = np.ones(len(codes), np.bool_)
            differs[1:] = (codes[1:] != codes[:-1]) | (numbers[1:] != numbers[:-1])
            group[order] = np.cumsum(differs) - 1
            codes, numbers = codes[differs], numbers[differs]
        removal = following.of(np.maximum((numbers + 1) * size + shift, first[codes]))
        of_items = np.repeat(group[count:], np.diff(starts, append=items.count))
        return Windows(codes, numbers, removal, group[:count], of_items)

    def _fold(self, windows: Windows, before: Before, values: Columns, count: int) -> list[Column]:
        """The parts of the aggregates of windows. ``values``: ``count`` of them come."""
        monoid = self.windows.monoid
        if not windows.count:
            return []
        if not count:
            place = np.empty(windows.count, np.int64)
            place[windows.of_before] = np.arange(len(windows.of_before))
            return [take_column(part, place) for part in before.parts]
        lifted = return_values(monoid.lift, inputs_of({"value": values}), count)
        fresh = [part_of(lifted, part, count) for part in monoid.parts]
        groups = Groups(windows.of_items, np.bincount(windows.of_items, minlength=windows.count))
        if not len(windows.of_before):
            return [reduced_in_order(part, column, groups) for part, column in zip(monoid.parts, fresh, strict=True)]
        return [
            _add(part, one, column, windows.of_before, groups)
            for part, one, column in zip(monoid.parts, before.parts, fresh, strict=True)
        ]

    def _emissions(self, windows: Windows, parts: list[Column]) -> Emitted:
        """The results of the windows that end, in their order."""
        gives, ends = self.windows.gives, np.flatnonzero(windows.removal < NEVER)
        if not len(ends):
            return Emitted(ends, ends, from_arrow(gives, array(gives, [])))
        numbers = Column(Integer(), windows.numbers[ends])
        inputs = inputs_of({"number": numbers, "agg": self._aggregates(parts, ends)})
        ran = run(self.windows.answer, inputs, len(ends))
        whole = np.arange(len(ends))
        at, values = by_row([(whole if one.rows is None else one.rows, fit(gives, one.value)) for one in ran.emissions])
        rows = ends[at]
        return Emitted(windows.codes[rows], windows.removal[rows], values)

    def _aggregates(self, parts: list[Column], rows: Any) -> Columns:
        """The aggregates of some windows (int64)."""
        paths = (part.path for part in self.windows.monoid.parts)
        by_path = dict(zip(paths, (take_column(part, rows) for part in parts), strict=True))
        return structured(self.windows.monoid.shape, by_path, ())

    def _states(self, windows: Windows, parts: list[Column], over: Any, states: Columns) -> Columns:
        """The states of keys when all has been taken."""
        assert isinstance(states, Struct)
        stay = np.flatnonzero(windows.removal == NEVER)
        kind: Any = dict(self.windows.state.fields)["aggregates"]  # type: ignore[union-attr]
        if not len(stay):
            items = states.parts[1].values.items  # type: ignore[union-attr]
            items = take(items, stay)
        else:
            aggregates = settled(kind.value, self._aggregates(parts, stay), len(stay))
            items = Struct(tuple, (), (Column(Integer(), windows.numbers[stay]), aggregates))
        lengths = np.bincount(windows.codes[stay], minlength=len(over))
        there = over > INT_MIN
        level = Column(Integer(), over, None if there.all() else there)
        lists = Lists.of(lengths, GrowingColumns.of(items, len(stay)))
        return Struct(tuple, states.names, (level, Column(kind, lists), states.parts[2]))


def over_of(states: Struct, count: int) -> Any:
    """The numbers before which the windows of keys are over (int64); the least where none is."""
    level = states.parts[0]
    assert isinstance(level, Column)
    if level.kind is None:
        return np.full(count, INT_MIN)
    return level.values if level.valid is None else np.where(level.valid, level.values, INT_MIN)


def _add(part: Part, before: Column, fresh: Column, of_before: Any, groups: Groups) -> Column:
    """A part of the aggregates of windows: of what was before, then of what comes."""
    of_fresh, count = groups.of_row, len(groups.of_row)
    if isinstance(before.kind, Exact | Integer) and part.reduction == "sum":
        # The order makes no difference: so few rows are put behind others.
        fresh, of_fresh, count = reduced_in_order(part, fresh, groups), np.arange(groups.number), groups.number
    both = np.concatenate([of_before, of_fresh])
    column = concat_column([(before, len(of_before)), (fresh, count)])
    return reduced_in_order(part, column, Groups(both, np.bincount(both, minlength=groups.number)))
