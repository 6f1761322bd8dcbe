"""An ordered operator over columns: all keys at once, the first items of all of them, then all second ones, and so on.

It does what the sequential algorithm does, key by key. A key takes its items in their order; between two of them, and behind the
last one, it takes the markers that lie there: each of them, or where the operator says when it is due, those at which it is.
When few keys are left that have items, these go on in Python. Whatever columns cannot hold raises :class:`Undefined` before
anything is changed; the caller then goes on with objects, so that an error is that of the sequential algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, final
from weakref import WeakKeyDictionary

import attrs
import numpy as np

from tracetypes.compiler.analysis.ordered import Ordered
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.column import (
    Column,
    Columns,
    Struct,
    concat,
    full_values,
    inputs_of,
    take,
    take_column,
)
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.columns.evaluation import Ran, run
from tracetypes.compiler.columns.machine.code import available
from tracetypes.compiler.columns.machine.compilation import compilation
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.closed_blocks import OrderedItems
from tracetypes.compiler.runtime.flows import Inputs, fit
from tracetypes.compiler.runtime.ordered_machine import MachineLoop, machine_loop
from tracetypes.compiler.runtime.ordered_states import (
    OrderedState,
    OrderedStates,
    columns_of,
    merged,
    objects_of,
    settled,
)
from tracetypes.compiler.tracing.expr import Input, Tree, Undefined
from tracetypes.conformance import conformer
from tracetypes.marker_runs import MarkerRuns
from tracetypes.markers import Marker
from tracetypes.records import INT_MAX, Integer
from tracetypes.state_check import states_of
from tracetypes.templates import OpKeyedOrdered

__all__ = ["Emitted", "OrderedColumns", "Taken"]

NEVER: Final = INT_MAX
"""Behind every marker."""


@attrs.frozen(eq=False)
class Emitted:
    """What was emitted: the key, the end of the block (both int64) and the value of each emission. Those of a key are in their
    order."""

    codes: Any
    ends: Any
    values: Columns


@attrs.frozen(eq=False)
class Taken:
    """What keys have taken: ``number`` of them, their slots before (int64, -1 for none), their states before and after, and what
    they have emitted."""

    keys: Columns
    number: int
    slots: Any
    before: Columns
    after: Columns
    emitted: Emitted


_rows: Final[WeakKeyDictionary[Ordered, int]] = WeakKeyDictionary()
"""How many items all kernels of an operator have taken in this process."""

SeenKeys = Callable[[OrderedItems, MarkerRuns, Taken], None]
"""Sees what keys have taken."""


@final
class OrderedColumns:
    """Runs a traced operator over columns. ``seen`` sees what it does."""

    def __init__(self, op: OpKeyedOrdered[Any, Any, Any, Any], ordered: Ordered, seen: SeenKeys | None = None) -> None:
        self.op, self.ordered, self.seen = op, ordered, seen
        self.states = OrderedStates(ordered)
        self.asked = False
        self.loop: MachineLoop | None = None
        self.refused = 0
        """How many states did not fit into columns."""

    @property
    def at_once(self) -> bool:
        """Whether markers that change nothing cost nothing."""
        return self.ordered.on_marker is None or self.ordered.due is not None

    def adopted(self, state: Any, count: int) -> OrderedState | None:
        """States as columns; None where they and the ``count`` items that come are so few that objects are as fast, or where they
        do not fit. Those that did not fit are tried again only when there are twice as many."""
        if isinstance(state, OrderedState):
            return state if self.states.fits(state) else None
        if count + len(state) < limits.MANY or (self.refused and len(state) < 2 * self.refused):
            return None
        try:
            return self.states.of(state)
        except Undefined:
            self.refused = len(state)
            return None

    def run(self, state: OrderedState, items: OrderedItems, markers: MarkerRuns) -> OrderedItems:
        """Take the items of the blocks of some markers, and the markers; gives what is emitted. Raises :class:`Undefined`; then
        ``state`` is as it was."""
        with np.errstate(all="ignore"):
            taken = self._taken(state, items, markers)
            if self.seen is not None:
                self.seen(items, markers, taken)
            self.states.change(state, taken.keys, taken.slots, taken.after)
        if self.ordered.forgets:
            self.states.forget(state, taken.slots)
        return _items(taken, items.start + 1)

    def _taken(self, state: OrderedState, items: OrderedItems, markers: MarkerRuns) -> Taken:
        keys, number, slots = items.keys, items.number, self.states.find(state, items.keys, items.number)
        states = self.states.taken(state, slots)
        if self.ordered.on_marker is not None and markers:
            due = self._due(state, slots, markers)
            if len(due):
                parts = [(states, np.arange(number)), (take(state.states, due), number + np.arange(len(due)))]
                states = merged(self.ordered.state, parts, number + len(due))
                keys = concat([(keys, number), (take(state.keys, due), len(due))]) if number else take(state.keys, due)
                number, slots = number + len(due), np.concatenate([slots, due])
        _rows[self.ordered] = _rows.get(self.ordered, 0) + items.count
        if (machine := self._machine()) is not None:
            with suppress(Undefined):  # columns, or Python, find out where
                after, codes, ends, values = machine(items, markers, keys, first_markers(items, slots), states)
                after = settled(self.ordered.state, after, number)
                return Taken(keys, number, slots, states, after, Emitted(codes, ends, values))
        steps = _Steps(self.op, self.ordered, items, markers, keys, first_markers(items, slots), states)
        steps.run()
        return Taken(keys, number, slots, states, steps.states, steps.emitted())

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

    def _due(self, state: OrderedState, slots: Any, markers: MarkerRuns) -> Any:
        """The slots (int64) without items for which a marker may matter."""
        untouched = np.ones(state.count, np.bool_)
        untouched[slots[slots >= 0]] = False
        rows = np.flatnonzero(untouched)
        if self.ordered.due is None or not len(rows):
            return rows
        whole = inputs_of({"key": state.keys})
        states = state.states if len(rows) == state.count else take(state.states, rows)
        times = due_times(self.ordered, states, lambda leaf: take_column(whole(leaf), rows), len(rows))
        return rows[times <= markers[-1]]


def _items(taken: Taken, start: int) -> OrderedItems:
    """What was emitted, of the keys that have emitted something."""
    keys, number, out = taken.keys, taken.number, taken.emitted
    new = np.ones(len(out.codes), np.bool_)
    new[1:] = out.codes[1:] != out.codes[:-1]
    some = out.codes[new]
    if len(some) < number:
        return OrderedItems(take(keys, some), len(some), np.cumsum(new) - 1, out.ends, out.values, start)
    return OrderedItems(keys, number, out.codes, out.ends, out.values, start)


def first_markers(items: OrderedItems, slots: Any) -> Any:
    """The time (int64) from which each key takes markers: a key to come begins with its first item. ``slots``: as in
    :class:`Taken`."""
    first = np.full(len(slots), np.iinfo(np.int64).min)
    new = np.flatnonzero(slots < 0)
    first[new] = items.ends[items.starts[new]]
    return first


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


def evaluated(tree: Tree, states: Columns, rest: Inputs, count: int) -> Iterator[tuple[Any, Ran]]:
    """What a tree gives for states; those that are None by themselves, as trees ask for that first. ``rest``: its other inputs.
    Gives the rows (int64, None for all) with what it gives for them."""
    groups: list[tuple[Any, Columns]] = [(None, states)]
    if states.valid is not None:
        none, some = np.flatnonzero(~states.valid), np.flatnonzero(states.valid)
        groups = [(none, Column(None, None)), (some, attrs.evolve(take(states, some), valid=None))]
    for rows, part in groups:
        own = inputs_of({"state": part})

        def find(leaf: Input, own: Inputs = own, rows: Any = rows) -> Column:
            if leaf.path[0] == "state":
                return own(leaf)
            column = rest(leaf)
            return column if rows is None else take_column(column, rows)

        yield rows, run(tree, find, count if rows is None else len(rows))


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
        """``first``: the :func:`first_markers`."""
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
        if (codes[1:] >= codes[:-1]).all():
            return Emitted(codes, ends, values)
        order = np.argsort(codes, kind="stable")
        return Emitted(codes[order], ends[order], take(values, order))

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
        following = _Following(self.markers)
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
        replay, passed = Replay(self.op, self.ordered, self.markers), self.passed[keys].tolist()
        news: list[Any] = []
        codes: list[int] = []
        try:
            for at, (code, key, state, count) in enumerate(zip(keys.tolist(), names, olds, counts, strict=True)):
                done = len(replay.values)
                pairs = [(next(ends), next(values)) for _ in range(count)]
                news.append(replay.key(state, key, pairs, passed[at]))
                codes += [code] * (len(replay.values) - done)
        except Exception:
            raise Undefined(0) from None
        if codes:
            gives = self.ordered.gives
            self.codes.append(np.array(codes, np.int64))
            self.ends.append(np.array(replay.ends, np.int64))
            self.values.append((from_arrow(gives, array(gives, replay.values)), len(codes)))
        return columns_of(self.ordered.state, news)


@final
class Replay:
    """An operator in Python, key by key: what it emits, with the end of each block."""

    def __init__(self, op: Any, ordered: Ordered, markers: MarkerRuns) -> None:
        self.op, self.markers, self.marks = op, markers, ordered.on_marker is not None and bool(markers)
        self.dues = ordered.due is not None
        self.fit, self.types = conformer(ordered.gives), states_of(op)
        self.values: list[Any] = []
        self.ends: list[int] = []

    def key(self, state: Any, key: Any, items: Sequence[tuple[int, Any]], passed: int) -> Any:
        """A key takes items, each with the end of its block, and markers from a time on; its state afterwards."""
        op, emit, returned, start = self.op, self._emit, self.types.returned, passed
        for end, value in items:
            if self.marks:
                state, start = self._up_to(state, key, start, end)
            self.end = end
            state = returned("on_item", key, op.on_item(state, key, value, emit))
        return self._up_to(state, key, start, NEVER)[0] if self.marks else state

    def _up_to(self, state: Any, key: Any, start: int, end: int) -> tuple[Any, int]:
        """A key takes the markers from ``start`` on, before ``end``."""
        while True:
            if self.dues:
                due = self.op.next_due(state, key)
                marker = None if due is None else self.markers.next(max(due, start))
            else:
                marker = self.markers.next(start)
            if marker is None or marker >= end:
                return state, start
            self.end, start = marker, marker + 1
            state = self.types.returned("on_marker", key, self.op.on_marker(state, key, Marker(marker), self._emit))

    def _emit(self, value: Any) -> None:
        self.values.append(self.fit(value))
        self.ends.append(self.end)


@final
class _Following:
    """The first marker from a time on."""

    def __init__(self, markers: MarkerRuns) -> None:
        self.ranges = markers.ranges

    def of(self, times: Any) -> Any:
        """For many times (int64); :data:`NEVER` where there is none."""
        first = np.full(len(times), NEVER)
        for one in self.ranges:
            steps = np.maximum(0, -((one.start - times) // one.step)) if one.step else 0
            steps = np.where(times <= one.start, 0, steps)
            marker = np.where(times <= one[-1], one.start + steps * one.step, NEVER)
            first = np.minimum(first, marker)
        return first
