"""The sliding ``count_window`` over columns: the windows of all keys at once.

The items of a key are cut into pieces of as many as a window has: what is in the second of its two stacks begins the first piece.
So a window is the end of one piece, the aggregate of an old item and all behind it, with the beginning of the next, the aggregate
of all new items. Both are made as the definition makes them, one item after the other, but of all pieces at once: the results are
the same to the bit, whatever the order of combination does to them.
"""

from __future__ import annotations

from typing import Any, final

import attrs
import numpy as np

from tracetypes.compiler.analysis.monoids import leaves
from tracetypes.compiler.analysis.sliding import TracedSliding
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.column import Column, Columns, inputs_of, scalar_at
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.columns.evaluation import return_values
from tracetypes.compiler.columns.lists import ranges
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.closed_blocks import OrderedItems
from tracetypes.compiler.runtime.flows import fit
from tracetypes.compiler.runtime.ordered_base import Emitted, OrderedKernel, SeenKeys, Taken
from tracetypes.compiler.runtime.ordered_states import slots_of
from tracetypes.compiler.runtime.partial_aggregation import structured
from tracetypes.compiler.runtime.scalars import full
from tracetypes.compiler.runtime.window_states import (
    Aggregates,
    WindowState,
    WindowStates,
    concat_aggregates,
    items_of,
    lists_of,
    some_of,
)
from tracetypes.compiler.tracing.expr import Tree, Undefined
from tracetypes.marker_runs import MarkerRuns
from tracetypes.records import Integer
from tracetypes.templates import OpKeyedOrdered

__all__ = ["SlidingWindows"]

@final
@attrs.frozen(eq=False)
class Pieces:
    """What the second stacks hold, and the items that come, key by key. Of each key: how many the stack has (``before``), where
    its own rows start, and where they end. Of each row: the key (``codes``), and its place in it (``places``). ``fresh``: the
    rows of the items. (All int64.) ``lifted``: the rows."""

    before: Any
    starts: Any
    behind: Any
    codes: Any
    places: Any
    fresh: Any
    lifted: Aggregates


@final
@attrs.frozen(eq=False)
class Folds:
    """Aggregates of some rows. ``where``: the place (int64) of a row among them."""

    aggregates: Aggregates
    count: int
    where: Any


@final
class SlidingWindows(OrderedKernel):
    """Runs a sliding ``count_window`` over columns."""

    def __init__(self, op: OpKeyedOrdered[Any, Any, Any, Any], form: TracedSliding, seen: SeenKeys | None = None) -> None:
        self.windows = WindowStates(form)
        super().__init__(op, form, self.windows, seen)
        self.its, self.size, self.paths = form, form.items, [path for path, _ in leaves(form.shape)]

    def load(self, state: Any) -> int:
        """How much states hold."""
        return int(state.old.count + state.new.count)

    def take(self, state: WindowState, items: OrderedItems, markers: MarkerRuns) -> Taken:
        """What keys do that take items."""
        slots = slots_of(state, items.keys, items.number)
        before = self.windows.checked(self.windows.to_come(state, slots, items.keys))
        after, emitted = self._after(before, items)
        by_now = [slots]

        def change() -> None:
            by_now[0] = state.change(slots, after)

        def of_key(code: int) -> Any:
            slot = by_now[0][code]
            if slot < 0:
                return self.op.initial_state()
            (one,) = state.of_keys(np.array([slot])).to_objects().values()
            return one

        return Taken(items.keys, items.number, slots, emitted, of_key, change)

    def _after(self, state: WindowState, items: OrderedItems) -> tuple[WindowState, Emitted]:
        pieces = self._pieces(state, items)
        whole = np.flatnonzero(
            (pieces.places % self.size == 0) & (pieces.places + self.size < (pieces.behind - pieces.starts)[pieces.codes])
        )
        totals, ends = self._totals(state, pieces, items.count, len(whole)), self._ends(pieces, whole)
        old = concat_aggregates([(ends.aggregates, ends.count), (items_of(state.old), state.old.count)])
        emitted = self._emissions(state, items, pieces, totals, ends, old)
        return self._states(state, items, pieces, totals, ends, old), emitted

    def _pieces(self, state: WindowState, items: OrderedItems) -> Pieces:
        before, counts = state.new.lengths, np.diff(items.starts)
        lengths = before + counts
        behind = np.cumsum(lengths)
        starts, codes = behind - lengths, np.repeat(np.arange(items.number), lengths)
        fresh = ranges(starts + before, counts)
        rows, number = np.empty(len(codes), np.int64), state.new.count
        rows[ranges(starts, before)] = np.arange(number)
        rows[fresh] = number + np.arange(items.count)
        lifted = self._evaluate(self.its.lift, {"value": items.values}, items.count)
        both = concat_aggregates([(items_of(state.new), number), (lifted, items.count)])
        return Pieces(before, starts, behind, codes, np.arange(len(codes)) - starts[codes], fresh, some_of(both, rows))

    # ------------------------------------------------------------------------------------------------ aggregates

    def _totals(self, state: WindowState, pieces: Pieces, count: int, whole: int) -> Folds:
        """The aggregate of each item and those before it in its piece. Raises :class:`Undefined` where few pieces are long."""
        codes, places = pieces.codes[pieces.fresh], pieces.places[pieces.fresh]
        some = np.flatnonzero((places % self.size == 0) | (places == pieces.before[codes]))
        begins, codes, places = pieces.fresh[some], codes[some], places[some]
        lengths = np.minimum(begins - places % self.size + self.size, pieces.behind[codes]) - begins
        steps = int(lengths.max()) if len(lengths) else 0
        if (steps + (self.size if whole else 0)) * limits.TURN > count:
            raise Undefined(0)
        number = len(state.new.lengths)
        totals = concat_aggregates([(state.totals, number), (self.windows.identity, 1)])
        return self._fold(pieces, begins, lengths, some_of(totals, np.where(places < self.size, codes, number)), 1)

    def _ends(self, pieces: Pieces, whole: Any) -> Folds:
        """The aggregate of each item and those behind it in its piece, but the first. ``whole``: where pieces begin that have
        become first stacks."""
        identity = some_of(self.windows.identity, np.zeros(len(whole), np.int64))
        return self._fold(pieces, whole + self.size - 1, np.full(len(whole), self.size - 1), identity, -1)

    def _fold(self, pieces: Pieces, begins: Any, lengths: Any, aggregates: Aggregates, step: int) -> Folds:
        """Aggregates of rows one after the other, from ``begins`` on, so many ``lengths`` (int64), forwards (``step`` 1) or
        backwards (-1). ``aggregates``: before the first ones."""
        order = np.argsort(-lengths, kind="stable")
        begins, lengths, aggregates = begins[order], lengths[order], some_of(aggregates, order)
        where, parts, count = np.full(len(pieces.codes), -1), list[tuple[Aggregates, int]](), 0
        for turn in range(int(lengths[0]) if len(lengths) else 0):
            active = int(np.searchsorted(-lengths, -turn))
            rows = begins[:active] + step * turn
            before, items = some_of(aggregates, np.arange(active)), some_of(pieces.lifted, rows)
            aggregates = self._combine(*((before, items) if step == 1 else (items, before)), active)
            where[rows] = count + np.arange(active)
            parts.append((aggregates, active))
            count += active
        return Folds(concat_aggregates(parts or [(some_of(aggregates, begins[:0]), 0)]), count, where)

    def _combine(self, a: Aggregates, b: Aggregates, count: int) -> Aggregates:
        return self._evaluate(self.its.combine, {"a": self._columns(a), "b": self._columns(b)}, count)

    def _columns(self, aggregates: Aggregates) -> Columns:
        return structured(self.its.shape, dict(zip(self.paths, aggregates, strict=True)), ())

    def _evaluate(self, tree: Tree, arguments: dict[str, Columns], count: int) -> Aggregates:
        if not count:  # a tree returns nothing then
            return some_of(self.windows.identity, np.zeros(0, np.int64))
        kinds, columns = self.windows.kinds, return_values(tree, inputs_of(arguments), count)
        return [full(kind, scalar_at(columns, path), count) for kind, path in zip(kinds, self.paths, strict=True)]

    # --------------------------------------------------------------------------------------- emissions and states

    def _emissions(
        self, state: WindowState, items: OrderedItems, pieces: Pieces, totals: Folds, ends: Folds, old: Aggregates
    ) -> Emitted:
        codes, places = pieces.codes[pieces.fresh], pieces.places[pieces.fresh]
        some = np.flatnonzero((_since(state)[codes] + places - pieces.before[codes] + 1) % self.its.slide == 0)
        rows, codes, places = pieces.fresh[some], codes[some], places[some] % self.size
        later = pieces.places[rows] >= self.size
        first = ends.count + state.old.starts[codes] + (self.size - 2 - places)
        behind = np.where(later, ends.where[np.maximum(rows - self.size + 1, 0)], first)
        has = np.flatnonzero((later | (state.old.lengths[codes] > 0)) & (places < self.size - 1))
        windows = some_of(totals.aggregates, totals.where[rows])
        both = self._combine(some_of(old, behind[has]), some_of(windows, has), len(has))
        at = np.arange(len(rows))
        at[has] = len(rows) + np.arange(len(has))
        whole = some_of(concat_aggregates([(windows, len(rows)), (both, len(has))]), at)
        values = from_arrow(self.its.gives, array(self.its.gives, []))
        if len(rows):
            inputs = inputs_of({"agg": self._columns(whole)})
            values = fit(self.its.gives, return_values(self.its.result, inputs, len(rows)))
        return Emitted(items.codes[some], items.ends[some], values)

    def _states(
        self, state: WindowState, items: OrderedItems, pieces: Pieces, totals: Folds, ends: Folds, old: Aggregates
    ) -> WindowState:
        last, counts = pieces.behind - 1, np.diff(items.starts)
        places = pieces.places[last] % self.size
        later = pieces.places[last] >= self.size
        lengths = np.where(later | (state.old.lengths > 0), self.size - 1 - places, 0)
        within = ranges(np.zeros_like(lengths), lengths)
        of_piece = ends.where[np.maximum(np.repeat(last - places - 1, lengths) - within, 0)]
        of_stack = ends.count + np.repeat(state.old.starts, lengths) + within
        return WindowState(
            items.keys,
            items.number,
            Column(Integer(), (_since(state) + counts) % self.its.slide),
            self.windows.shape,
            lists_of(lengths, some_of(old, np.where(np.repeat(later, lengths), of_piece, of_stack)), len(within)),
            lists_of(places + 1, some_of(pieces.lifted, ranges(last - places, places + 1)), int((places + 1).sum())),
            some_of(totals.aggregates, totals.where[last]),
        )


def _since(state: WindowState) -> Any:
    assert isinstance(state.states, Column)
    return state.states.values
