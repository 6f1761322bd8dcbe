"""An ordered operator over columns: all keys at once, the first items of all of them, then all second ones, and so on. Where
states say nothing but what the last item was, all items at once.

It does what the sequential algorithm does, key by key. A key takes its items in their order; between two of them, and behind the
last one, it takes the markers that lie there: each of them, or where the operator says when it is due, those at which it is.
When few keys are left that have items, these go on in Python. Whatever columns cannot hold raises :class:`Undefined` before
anything is changed; the caller then goes on with objects, so that an error is that of the sequential algorithm.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, final
from weakref import WeakKeyDictionary

import numpy as np

from tracetypes.compiler.analysis.ordered import Ordered
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
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.columns.machine.code import available
from tracetypes.compiler.columns.machine.compilation import compilation
from tracetypes.compiler.columns.sorting import stable_order
from tracetypes.compiler.columns.turns import MOST
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.closed_blocks import OrderedItems
from tracetypes.compiler.runtime.flows import Inputs, fit
from tracetypes.compiler.runtime.last_item import at_once
from tracetypes.compiler.runtime.ordered_base import (
    NEVER,
    Emitted,
    Enough,
    Following,
    KernelOfKeys,
    Replay,
    SeenKeys,
    evaluated,
)
from tracetypes.compiler.runtime.ordered_machine import MachineLoop, machine_loop
from tracetypes.compiler.runtime.ordered_states import (
    OrderedState,
    columns_of,
    merged,
    objects_of,
    settled,
)
from tracetypes.compiler.tracing.expr import Input, Tree, Undefined
from tracetypes.marker_runs import MarkerRuns
from tracetypes.markers import Marker
from tracetypes.records import Integer
from tracetypes.templates import OpKeyedOrdered

__all__ = ["OrderedColumns"]

_rows: Final[WeakKeyDictionary[Ordered, int]] = WeakKeyDictionary()
"""How many items all kernels of an operator have taken in this process."""


@final
class OrderedColumns(KernelOfKeys):
    """Runs a traced operator over columns."""

    def __init__(self, op: OpKeyedOrdered[Any, Any, Any, Any], ordered: Ordered, seen: SeenKeys | None = None) -> None:
        super().__init__(op, ordered, seen)
        self.ordered, self.asked = ordered, False
        self.loop: MachineLoop | None = None

    def at_markers(self, state: OrderedState, rows: Any, markers: MarkerRuns) -> Any:
        """In which of some slots (int64) a marker may matter (bool)."""
        if self.ordered.due is None:
            return np.ones(len(rows), np.bool_)
        whole = inputs_of({"key": state.keys})
        states = state.states if len(rows) == state.count else take(state.states, rows)
        times = due_times(self.ordered, states, lambda leaf: take_column(whole(leaf), rows), len(rows))
        return times <= markers[-1]

    def after(
        self, items: OrderedItems, markers: MarkerRuns, keys: Columns, first: Any, states: Columns
    ) -> tuple[Columns, Emitted]:
        """What some keys have as states when they have taken items and markers, and what they have emitted."""
        _rows[self.ordered] = _rows.get(self.ordered, 0) + items.count
        if (machine := self._machine()) is not None:
            with suppress(Undefined):  # columns, or Python, find out where
                after, codes, ends, values = machine(items, markers, keys, first, states)
                return settled(self.ordered.state, after, len(first)), Emitted(codes, ends, values)
        if self.ordered.last is not None:
            with suppress(Undefined):
                return at_once(self.ordered, self.ordered.last, items, keys, states)
        steps = _Steps(self.op, self.ordered, items, markers, keys, first, states)
        steps.run()
        return steps.states, steps.emitted()

    def _machine(self) -> Callable[..., Any] | None:
        """The loop in machine code, once it is ready. It is compiled beside the first rows, where so many come that it pays."""
        if _rows.get(self.ordered, 0) < limits.COMPILED or not available():
            return None
        if not self.asked:
            self.asked, self.loop = True, machine_loop(self.ordered)
        if self.loop is None:
            return None
        made = compilation(self.loop.code)
        made.start()
        return None if made.function is None else partial(self.loop.run, made.function)


def due_times(ordered: Ordered, states: Columns, rest: Inputs, count: int) -> Any:
    """When each of some keys is due (int64); :data:`NEVER` where it says None."""
    assert ordered.due is not None
    times = np.full(count, NEVER)
    for rows, ran in evaluated(ordered.due, states, rest, count):
        column = ran.result
        if not isinstance(column, Column) or column.kind is None:
            continue
        values = full_values(column, count if rows is None else len(rows))
        if column.valid is not None:
            values = np.where(column.valid, values, NEVER)
        if rows is None:
            return values
        times[rows] = values
    return times


@final
class _Steps:
    """The steps of all keys. ``states``: of the keys, as they are by now."""

    def __init__(
        self,
        op: OpKeyedOrdered[Any, Any, Any, Any],
        ordered: Ordered,
        items: OrderedItems,
        markers: MarkerRuns,
        keys: Columns,
        first: Any,
        states: Columns,
    ) -> None:
        """``first``: the ``first_markers``."""
        number = len(first)
        self.op, self.ordered, self.items, self.markers = op, ordered, items, markers
        self.keys, self.number, self.states, self.passed = keys, number, states, first
        self.codes: list[Any] = []
        self.ends: list[Any] = []
        self.values: list[tuple[Columns, int]] = []
        self.inputs = inputs_of({"key": keys, "value": items.values})
        starts = items.starts
        self.next = np.full(number, items.count)
        self.next[: items.number] = starts[:-1]
        self.behind = np.full(number, items.count)
        self.behind[: items.number] = starts[1:]

    def run(self) -> None:
        """Take all items and markers."""
        if self.ordered.on_marker is None:
            self._items_alone()
        else:
            self._items_and_markers()

    def emitted(self) -> Emitted:
        """What was emitted, by key."""
        if not self.codes:
            none = np.zeros(0, np.int64)
            return Emitted(none, none, from_arrow(self.ordered.gives, array(self.ordered.gives, [])))
        codes, ends = np.concatenate(self.codes), np.concatenate(self.ends)
        values = concat(self.values)
        order = stable_order(codes)
        if order is None:
            return Emitted(codes, ends, values)
        return Emitted(codes[order], ends[order], taken_later(values, order))

    # ------------------------------------------------------------------------------------------ without markers

    def _items_alone(self) -> None:
        """The first items of all keys, then all second ones: the keys with most items come first, so that those that go on are
        the first ones of the states."""
        counts = self.behind - self.next
        keys = np.argsort(-counts, kind="stable")
        states, counts = take(self.states, keys), counts[keys]
        ended: list[tuple[Columns, Any]] = []
        at = 0
        active = int(np.searchsorted(-counts, 0))
        while active >= limits.MANY:
            some, rows = keys[:active], self.next[keys[:active]] + at
            states = self._on_item(states, some, rows)
            at += 1
            left = int(np.searchsorted(-counts, -at))
            ended.append((take(states, np.arange(left, active)), keys[left:active]))
            states, active = take(states, np.arange(left)), left
        if active:
            self.next[keys[:active]] += at
            ended.append((self._one_by_one(states, keys[:active]), keys[:active]))
        none = keys[int(np.searchsorted(-counts, 0)) :]
        ended.append((take(self.states, none), none))
        self.states = merged(self.ordered.state, ended, self.number)

    def _on_item(self, states: Columns, keys: Any, rows: Any) -> Columns:
        """Each of some keys takes an item; the states afterwards."""
        return self._step(self.ordered.on_item, states, {"key": keys, "value": rows}, keys, self.items.ends[rows])

    def _step(self, tree: Tree, states: Columns, places: dict[str, Any], keys: Any, ends: Any, marker: Any = None) -> Columns:
        """``places``: the rows of the other inputs, by argument."""
        whole, known = self.inputs, dict[tuple[str | int, ...], Column]()

        def rest(leaf: Input) -> Column:
            column = known.get(leaf.path)
            if column is None:
                if leaf.path[0] == "marker":
                    column = inputs_of({"marker": marker})(leaf)
                else:
                    column = take_column(whole(leaf), places[leaf.path[0]])  # type: ignore[index]
                known[leaf.path] = column
            return column

        results: list[tuple[Columns, Any]] = []
        count = len(keys)
        for rows, ran in evaluated(tree, states, rest, count):
            size = count if rows is None else len(rows)
            if size and ran.result is None:
                raise Undefined(0)
            for emitted in ran.emissions:
                some = rows if emitted.rows is None else emitted.rows if rows is None else rows[emitted.rows]
                self.codes.append(keys if some is None else keys[some])
                self.ends.append(ends if some is None else ends[some])
                self.values.append((fit(self.ordered.gives, emitted.value), len(self.codes[-1])))
            if ran.result is not None:
                result = settled(self.ordered.state, ran.result, size)
                results.append((result, np.arange(count) if rows is None else rows))
        return merged(self.ordered.state, results, count)

    # --------------------------------------------------------------------------------------------- with markers

    def _items_and_markers(self) -> None:
        """At each turn a key takes its next item, or a marker that lies before that."""
        following = Following(self.markers)
        passed = self.passed
        active = np.arange(self.number)
        ends = np.append(self.items.ends, NEVER)
        while len(active) >= limits.MANY:
            states = take(self.states, active)
            before = np.where(self.next[active] < self.behind[active], ends[self.next[active]], NEVER)
            marker = following.of(np.maximum(self._times(states, active), passed[active]))
            visit = marker < before
            here, there = np.flatnonzero(visit), np.flatnonzero(~visit & (before < NEVER))
            fresh: list[tuple[Columns, Any]] = []
            if len(here):
                some, at = active[here], marker[here]
                column = Struct(Marker, ("micros",), (Column(Integer(), at),))
                new = self._step(self.ordered.on_marker, take(states, here), {"key": some}, some, at, column)  # type: ignore[arg-type]
                fresh.append((new, some))
                passed[some] = at + 1
            if len(there):
                some = active[there]
                fresh.append((self._on_item(take(states, there), some, self.next[some]), some))
                passed[some] = np.maximum(passed[some], before[there])  # it may be due before that
                self.next[some] += 1
            kept = np.ones(self.number, np.bool_)
            for _, rows in fresh:
                kept[rows] = False
            left = np.flatnonzero(kept)
            self.states = merged(self.ordered.state, [*fresh, (take(self.states, left), left)], self.number)
            active = active[visit | (before < NEVER)]
        if len(active):
            kept = np.ones(self.number, np.bool_)
            kept[active] = False
            left = np.flatnonzero(kept)
            states = self._one_by_one(take(self.states, active), active)
            self.states = merged(self.ordered.state, [(states, active), (take(self.states, left), left)], self.number)

    def _times(self, states: Columns, keys: Any) -> Any:
        """When some keys are due."""
        if self.ordered.due is None:
            return np.full(len(keys), np.iinfo(np.int64).min)
        whole = self.inputs
        return due_times(self.ordered, states, lambda leaf: take_column(whole(leaf), keys), len(keys))

    # ------------------------------------------------------------------------------------------------ in Python

    def _one_by_one(self, states: Columns, keys: Any) -> Columns:
        """Some keys take what is left to them in Python; their states afterwards. Raises :class:`Undefined` for whatever the
        sequential algorithm refuses, which says it."""
        rows = np.concatenate([np.arange(self.next[key], self.behind[key]) for key in keys.tolist()])
        values = iter(values_of(take(self.items.values, rows), len(rows)))
        ends = iter(self.items.ends[rows].tolist())
        counts = (self.behind[keys] - self.next[keys]).tolist()
        names, olds = values_of(take(self.keys, keys), len(keys)), objects_of(self.ordered.state, states, len(keys))
        replay = Replay(self.op, self.ordered, self.markers, MOST)
        passed = self.passed[keys].tolist()
        news: list[Any] = []
        codes: list[int] = []
        try:
            for at, (code, key, state, count) in enumerate(zip(keys.tolist(), names, olds, counts, strict=True)):
                done = len(replay.values)
                pairs = [(next(ends), next(values)) for _ in range(count)]
                news.append(replay.key(state, key, pairs, passed[at]))
                codes += [code] * (len(replay.values) - done)
        except (Exception, Enough):
            raise Undefined(0) from None
        if codes:
            gives = self.ordered.gives
            self.codes.append(np.array(codes, np.int64))
            self.ends.append(np.array(replay.ends, np.int64))
            self.values.append((from_arrow(gives, array(gives, replay.values)), len(codes)))
        return columns_of(self.ordered.state, news)
