"""Windows that follow one another in the order of the items, over columns: sessions and counted windows whose results are
computed of their items.

A key holds the items of its open window. These come first, then its new items. A window ends with the row that is the last of so
many items, or where the next row, or a marker before that, is more than a gap behind. All windows that end are summed up at once.
"""

from __future__ import annotations

from typing import Any, Final, final

import attrs
import numpy as np
import pyarrow.compute as pc

from tracetypes.compiler.analysis.consecutive_windows import TracedConsecutive, TracedGap
from tracetypes.compiler.analysis.summaries import keeps_all
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.column import (
    Column,
    Columns,
    Struct,
    full_values,
    inputs_of,
    take,
    take_coded,
    taken_later,
)
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.columns.evaluation import run
from tracetypes.compiler.columns.groups import Groups
from tracetypes.compiler.columns.sorting import stable_order
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.closed_blocks import OrderedItems
from tracetypes.compiler.runtime.flows import KeyedFlow, fit
from tracetypes.compiler.runtime.join_sides import bounded, numbers_of
from tracetypes.compiler.runtime.ordered_base import NEVER, Emitted, Following, KernelOfKeys, SeenKeys, by_row
from tracetypes.compiler.runtime.ordered_states import OrderedState, list_column
from tracetypes.compiler.runtime.summaries import bucket_count, needed_rows, results_of
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.consecutive_windows import HeldItems
from tracetypes.marker_runs import MarkerRuns
from tracetypes.records import INT_MIN, Integer
from tracetypes.templates import OpKeyedOrdered

__all__ = ["ConsecutiveKernel"]

FEWEST: Final = 1 << 16
"""So many items are held before some are dropped."""

NOTHING: Final = np.zeros(0, np.int64)


@final
@attrs.frozen(eq=False)
class Rows:
    """The rows of keys in their order: those that are held, then those that come. ``codes``: the key of each; ``ends``: the end
    of its block, the least number where it is held (both int64); ``values``. Of sessions also ``times``, where those that are
    held have the last time of these, and ``first``: the first time of each key's open session (all int64)."""

    codes: Any
    ends: Any
    values: Columns
    times: Any
    first: Any

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.codes)


@final
@attrs.frozen(eq=False)
class Windows:
    """Windows, by key, in their order. ``number``: the window of each row; ``starts``: its first row; ``last``: its last one;
    ``ends``: the end of the block, or the marker, at which it ends; :data:`NEVER` where it stays open. (All int64.)"""

    number: Any
    starts: Any
    last: Any
    ends: Any


@final
class ConsecutiveKernel(KernelOfKeys):
    """Runs windows that follow one another, and hold their items, over columns."""

    def __init__(
        self, op: OpKeyedOrdered[Any, Any, Any, Any], form: TracedConsecutive, seen: SeenKeys | None = None
    ) -> None:
        super().__init__(op, form, seen)
        self.windows = form
        self.gap = form.length if isinstance(form.length, TracedGap) else None

    def adopted(self, state: Any, count: int) -> OrderedState | None:
        """States as columns. The first items begin with columns, however few they are: aggregates do not become items again."""
        if isinstance(state, OrderedState):
            return super().adopted(state, count)
        if not state:
            return self.columns.of({})
        if self.gap is None and count + len(state) >= limits.MANY:
            state = {key: HeldItems([]) if isinstance(one, tuple) and one[0] == 0 else one for key, one in state.items()}
        return super().adopted(state, count)

    def at_markers(self, state: OrderedState, rows: Any, markers: MarkerRuns) -> Any:
        """In which of some slots (int64) a marker may matter (bool)."""
        assert self.gap is not None
        if not isinstance(state.states, Struct):
            return np.zeros(len(rows), np.bool_)
        due = full_values(state.states.parts[1], state.count) < markers[-1] - self.gap.micros  # type: ignore[arg-type]
        return (due if state.states.valid is None else due & state.states.valid)[rows]

    def after(
        self, items: OrderedItems, markers: MarkerRuns, keys: Columns, first: Any, states: Columns
    ) -> tuple[Columns, Emitted]:
        """What some keys have as states when they have taken items and markers, and what they have emitted."""
        rows = self._rows(items, states, len(first))
        windows = self._windows(rows, markers, first)
        emitted = self._emitted(keys, rows, windows)
        return self._states(keys, rows, windows, len(first)), emitted

    # ---------------------------------------------------------------------------------------------------- windows

    def _rows(self, items: OrderedItems, states: Columns, count: int) -> Rows:
        parts, lengths, held = self._held(states, count)
        before = np.repeat(np.arange(count), lengths)
        codes, ends = np.concatenate([before, items.codes]), np.concatenate([np.full(len(before), INT_MIN), items.ends])
        times, first = NOTHING, NOTHING
        if self.gap is not None:
            first = parts[0]
            fresh = bounded(numbers_of(self.windows.takes, self.gap.times, items.values, items.count))
            times = np.concatenate([parts[1][before], fresh])
        values = items.values
        if held is not None and len(before):
            values = concat([(held, len(before)), (values, items.count)]) if items.count else held
        if (order := stable_order(codes)) is not None:
            codes, ends, values = codes[order], ends[order], taken_later(values, order)
            times = times[order] if self.gap is not None else times
        return Rows(codes, ends, values, times, first)

    def _held(self, states: Columns, count: int) -> tuple[list[Any], Any, Columns | None]:
        """The first and the last time of each key's session (int64), how many items it holds (int64), and these items."""
        if not isinstance(states, Struct):
            return [np.zeros(count, np.int64)] * 2, np.zeros(count, np.int64), None
        *times, lists = states.parts
        assert isinstance(lists, Column)
        lengths = pc.fill_null(pc.list_value_length(lists.values), 0).to_numpy().astype(np.int64)
        held = from_arrow(self.windows.values.item, lists.values.flatten())
        return [full_values(one, count) for one in times], lengths, held  # type: ignore[arg-type]

    def _windows(self, rows: Rows, markers: MarkerRuns, first: Any) -> Windows:
        """All windows of which something is held or comes."""
        if not rows.count:
            return Windows(NOTHING, NOTHING, NOTHING, NOTHING)
        same = rows.codes[1:] == rows.codes[:-1]
        ends = self._ends_of_counted(rows, same) if self.gap is None else self._ends_of_sessions(rows, same, markers, first)
        new = np.ones(rows.count, np.bool_)
        new[1:] = ~same | (ends[:-1] < NEVER)
        starts = np.flatnonzero(new)
        last = np.append(starts[1:], rows.count) - 1
        return Windows(np.cumsum(new) - 1, starts, last, ends[last])

    def _ends_of_counted(self, rows: Rows, same: Any) -> Any:
        """The end of the block (int64) at which a window ends behind each row; :data:`NEVER` where none does."""
        length = self.windows.length
        assert isinstance(length, int)
        first = np.flatnonzero(np.append(True, ~same))
        places = np.arange(rows.count) - np.repeat(first, np.diff(first, append=rows.count))
        return np.where((places + 1) % length == 0, rows.ends, NEVER)

    def _ends_of_sessions(self, rows: Rows, same: Any, markers: MarkerRuns, first: Any) -> Any:
        """The marker, or the end of the block of the next item (int64), at which a window ends behind each row; :data:`NEVER`
        where none does. Raises :class:`Undefined` where times go back."""
        assert self.gap is not None
        passed = np.diff(rows.times)
        if (passed[same] < 0).any():
            raise Undefined(0)
        following = np.full(rows.count, NEVER)
        following[:-1][same] = rows.ends[1:][same]
        late = np.zeros(rows.count, np.bool_)
        late[:-1] = same & (passed > self.gap.micros)
        # A marker lies between two items only where another block begins.
        some = np.flatnonzero(late | (following > rows.ends))
        marker = np.full(rows.count, NEVER)
        earliest = np.maximum(np.maximum(rows.times[some] + (self.gap.micros + 1), rows.ends[some]), first[rows.codes[some]])
        marker[some] = Following(markers).of(earliest)
        return np.where(marker < following, marker, np.where(late, following, NEVER))

    # -------------------------------------------------------------------------------------------------- emissions

    def _emitted(self, keys: Columns, rows: Rows, windows: Windows) -> Emitted:
        """What the windows that end emit, in their order."""
        gives, results = self.windows.gives, self.windows.results
        over = windows.ends < NEVER
        ended = np.flatnonzero(over)
        if not len(ended):
            return Emitted(NOTHING, NOTHING, from_arrow(gives, array(gives, [])))
        some = np.flatnonzero(over[windows.number])
        flow = KeyedFlow.of(take_coded(keys, rows.codes[some]), taken_later(rows.values, some), len(some))
        groups = Groups((np.cumsum(over) - 1)[windows.number[some]], (windows.last - windows.starts + 1)[ended])
        known: dict[str, Columns] = {}
        if self.gap is not None:
            times = self._first_times(rows, windows)[ended], rows.times[windows.last[ended]]
            known = {name: Column(Integer(), one) for name, one in zip(("first", "last"), times, strict=True)}
        parts = {f"part{at}": results_of(part, flow, groups) for at, part in enumerate(results.parts)}
        ran = run(results.tree, inputs_of({**known, **parts}), len(ended))
        whole = np.arange(len(ended))
        at, values = by_row([(whole if one.rows is None else one.rows, fit(gives, one.value)) for one in ran.emissions])
        of = ended[at]
        return Emitted(rows.codes[windows.starts[of]], windows.ends[of], values)

    def _first_times(self, rows: Rows, windows: Windows) -> Any:
        """The first time of each session (int64)."""
        held = rows.ends[windows.starts] == INT_MIN
        return np.where(held, rows.first[rows.codes[windows.starts]], rows.times[windows.starts])

    # ----------------------------------------------------------------------------------------------------- states

    def _states(self, keys: Columns, rows: Rows, windows: Windows, count: int) -> Columns:
        """The states of keys when all has been taken."""
        left = np.flatnonzero(windows.ends == NEVER)  # one of a key at most
        stay = np.flatnonzero((windows.ends == NEVER)[windows.number])
        codes = rows.codes[windows.starts[left]]
        if len(stay) > FEWEST:
            stay = stay[self._needed(keys, rows.codes[stay], taken_later(rows.values, stay))]
        lengths = np.bincount(rows.codes[stay], minlength=count)
        if self.gap is not None and not len(left):
            return Column(None, None)
        held = list_column(self.windows.values, lengths, take(rows.values, stay))
        if self.gap is None:
            return Struct(tuple, ("values",), (held,))
        times, there = np.zeros((2, count), np.int64), np.zeros(count, np.bool_)
        times[0, codes], times[1, codes] = self._first_times(rows, windows)[left], rows.times[windows.last[left]]
        there[codes] = True
        first, last = (Column(Integer(), one) for one in times)
        return Struct(tuple, ("first", "last", "values"), (first, last, held), None if there.all() else there)

    def _needed(self, keys: Columns, codes: Any, values: Columns) -> Any:
        """The items (int64) of open sessions that are needed. Raises :class:`Undefined` where aggregates are less than half as
        large. Counted windows need all, as their number counts."""
        parts, whole = self.windows.results.parts, np.arange(len(codes))
        if self.gap is None or any(map(keeps_all, parts)):
            return whole
        flow, ends = KeyedFlow.of(take_coded(keys, codes), values, len(codes)), np.zeros(len(codes), np.int64)
        rows = needed_rows(parts, flow, ends, fewest=True)
        if rows is not None:
            return rows
        if 2 * bucket_count(parts, flow, ends) < len(codes):
            raise Undefined(0)
        return whole
