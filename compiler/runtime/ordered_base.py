"""What all kernels of ordered operators have in common.

A kernel takes the items of many keys at once, and the markers, from columns of states to columns of states. Whatever it cannot do
raises :class:`Undefined` before anything is changed; the caller then goes on with objects, so that an error is that of the
sequential algorithm.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, final

import attrs
import numpy as np

from tracetypes.compiler.analysis.ordered_form import OrderedForm
from tracetypes.compiler.columns.column import Column, Columns, inputs_of, take, take_column, taken_later
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.evaluation import Ran, run
from tracetypes.compiler.columns.sorting import stable_order
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.closed_blocks import OrderedItems
from tracetypes.compiler.runtime.flows import Inputs
from tracetypes.compiler.runtime.ordered_states import (
    OrderedState,
    OrderedStates,
    StatesOfKeys,
    merged,
    objects_of,
    slots_of,
)
from tracetypes.compiler.tracing.expr import Input, Tree, Undefined
from tracetypes.conformance import conformer
from tracetypes.marker_runs import MarkerRuns
from tracetypes.markers import Marker
from tracetypes.pauses import catch_up
from tracetypes.records import INT_MAX
from tracetypes.state_check import states_of
from tracetypes.templates import OpKeyedOrdered

__all__ = [
    "NEVER",
    "Emitted",
    "Enough",
    "Following",
    "KernelOfKeys",
    "OrderedKernel",
    "Replay",
    "SeenKeys",
    "Taken",
    "by_row",
    "evaluated",
    "first_markers",
]

AGAIN: Final = 4
"""Where items do not fit, so many bits less than states hold must come as items before states are columns again; each time
twice as many as before."""

MOST_FAILURES: Final = 12
"""Times from which on it is no more."""

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
    """What keys have taken: ``number`` of them, their slots before (int64, -1 for none), and what they have emitted. ``change``:
    lets the states be as they are afterwards. ``state``: that of one of these keys as an object, as it is by now."""

    keys: Columns
    number: int
    slots: Any
    emitted: Emitted
    state: Callable[[int], Any]
    change: Callable[[], None]


SeenKeys = Callable[[OrderedItems, MarkerRuns, Taken], Callable[[], None] | None]
"""Sees what keys have taken, before their states change; what it gives is called afterwards."""


class OrderedKernel(ABC):
    """Runs an ordered operator over columns. ``seen`` sees what it does."""

    def __init__(
        self, op: OpKeyedOrdered[Any, Any, Any, Any], form: OrderedForm, states: StatesOfKeys, seen: SeenKeys | None
    ) -> None:
        self.op, self.form, self.states, self.seen = op, form, states, seen
        self.refused = self.failures = self.waits = 0
        """How many states did not fit into columns; how often items did not, and how many go on as objects before states are
        columns again."""

    @abstractmethod
    def take(self, state: Any, items: OrderedItems, markers: MarkerRuns) -> Taken:
        """What keys do that take the items of the blocks of some markers, and the markers. Raises :class:`Undefined`."""

    def load(self, state: Any) -> int:
        """How much states hold that need not be touched by items that come: so much is moved when they become objects."""
        return 0

    @property
    def at_once(self) -> bool:
        """Whether markers that change nothing cost nothing."""
        return not self.form.marks or self.form.dues

    def adopted(self, state: Any, count: int) -> OrderedState | None:
        """States as columns; None where they and the ``count`` items that come are so few that objects are as fast, or where they
        do not fit. Those that did not fit are tried again only when there are twice as many; where items did not fit, only after
        some others, so that what states hold is not moved each time."""
        if isinstance(state, OrderedState):
            return state if self.states.fits(state) else None
        if self.waits > 0:
            self.waits -= count
            return None
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
            try:
                taken = self.take(state, items, markers)
            except Undefined:
                self.failures = min(self.failures + 1, MOST_FAILURES)
                self.waits = (self.load(state) << self.failures) >> AGAIN
                raise
            compare = None if self.seen is None else self.seen(items, markers, taken)
            taken.change()
            if compare is not None:
                compare()
        return _items(taken, items.start + 1)


class KernelOfKeys(OrderedKernel):
    """A kernel that takes the states of keys, a row each, to states."""

    def __init__(self, op: OpKeyedOrdered[Any, Any, Any, Any], form: OrderedForm, seen: SeenKeys | None = None) -> None:
        self.columns = OrderedStates(form)
        super().__init__(op, form, self.columns, seen)

    @abstractmethod
    def at_markers(self, state: OrderedState, rows: Any, markers: MarkerRuns) -> Any:
        """In which of some slots (int64) a marker may matter (bool)."""

    @abstractmethod
    def after(
        self, items: OrderedItems, markers: MarkerRuns, keys: Columns, first: Any, states: Columns
    ) -> tuple[Columns, Emitted]:
        """What some keys have as states when they have taken items and markers, and what they have emitted. ``first``:
        the :func:`first_markers`."""

    def take(self, state: OrderedState, items: OrderedItems, markers: MarkerRuns) -> Taken:
        """What keys do that take items and markers."""
        keys, number, slots = items.keys, items.number, slots_of(state, items.keys, items.number)
        states = self.columns.taken(state, slots)
        if self.form.marks and markers:
            due = self._due(state, slots, markers)
            if len(due):
                parts = [(states, np.arange(number)), (take(state.states, due), number + np.arange(len(due)))]
                states = merged(self.form.state, parts, number + len(due))
                keys = concat([(keys, number), (take(state.keys, due), len(due))]) if number else take(state.keys, due)
                number, slots = number + len(due), np.concatenate([slots, due])
        after, emitted = self.after(items, markers, keys, first_markers(items, slots), states)
        by_now = [states]

        def change() -> None:
            by_now[0] = after
            self.columns.change(state, keys, slots, after)
            if self.form.forgets:
                self.columns.forget(state, slots)

        def of_key(code: int) -> Any:
            return objects_of(self.form.state, take(by_now[0], np.array([code])), 1)[0]

        return Taken(keys, number, slots, emitted, of_key, change)

    def _due(self, state: OrderedState, slots: Any, markers: MarkerRuns) -> Any:
        """The slots (int64) without items for which a marker may matter."""
        untouched = np.ones(state.count, np.bool_)
        untouched[slots[slots >= 0]] = False
        rows = np.flatnonzero(untouched)
        return rows[self.at_markers(state, rows, markers)] if len(rows) else rows


def _items(taken: Taken, start: int) -> OrderedItems:
    """What was emitted, of the keys that have emitted something."""
    keys, number, out = taken.keys, taken.number, taken.emitted
    new = np.ones(len(out.codes), np.bool_)
    new[1:] = out.codes[1:] != out.codes[:-1]
    some = out.codes[new]
    if len(some) < number:
        return OrderedItems(take(keys, some), len(some), np.cumsum(new) - 1, out.ends, out.values, start)
    return OrderedItems(keys, number, out.codes, out.ends, out.values, start)


def evaluated(tree: Tree, states: Columns, rest: Inputs, count: int) -> Iterator[tuple[Any, Ran]]:
    """What a tree gives for states; those that are None by themselves, as trees ask for that first. ``rest``: its other inputs.
    Gives the rows (int64, None for all) with what it gives for them."""
    groups: list[tuple[Any, Columns]] = [(None, states)]
    if states.valid is not None:
        none, some = np.flatnonzero(~states.valid), np.flatnonzero(states.valid)
        groups = [(none, Column(None, None)), (some, attrs.evolve(taken_later(states, some), valid=None))]
    for rows, part in groups:
        own = inputs_of({"state": part})

        def find(leaf: Input, own: Inputs = own, rows: Any = rows) -> Column:
            if leaf.path[0] == "state":
                return own(leaf)
            column = rest(leaf)
            return column if rows is None else take_column(column, rows)

        yield rows, run(tree, find, count if rows is None else len(rows))


def by_row(parts: Sequence[tuple[Any, Columns]]) -> tuple[Any, Columns]:
    """Emissions in the order of the rows (int64, ascending in each part) that emit them; of one row, in that of the parts."""
    at = np.concatenate([rows for rows, _ in parts])
    values = parts[0][1] if len(parts) == 1 else concat([(value, len(rows)) for rows, value in parts])
    if (order := stable_order(at)) is not None:
        at, values = at[order], taken_later(values, order)
    return at, values


def first_markers(items: OrderedItems, slots: Any) -> Any:
    """The time (int64) from which each key takes markers: a key to come begins with its first item. ``slots``: as in
    :class:`Taken`."""
    first = np.full(len(slots), np.iinfo(np.int64).min)
    new = np.flatnonzero(slots < 0)
    first[new] = items.ends[items.starts[new]]
    return first


class Enough(BaseException):
    """An operator has emitted as much as somebody wants to see. No code of an author catches it."""


@final
class Replay:
    """An operator in Python, key by key: what it emits, with the end of each block. ``most``: of emissions, from which on it
    raises :class:`Enough`."""

    def __init__(self, op: Any, form: OrderedForm, markers: MarkerRuns, most: float = math.inf) -> None:
        self.op, self.markers, self.marks = op, markers, form.marks and bool(markers)
        self.dues, self.puts_off = form.dues, form.puts_off
        self.next = op.next_emission if form.puts_off else op.next_due
        self.fit, self.types = conformer(form.gives), states_of(op)
        self.most = most
        self.values: list[Any] = []
        self.ends: list[int] = []

    def key(self, state: Any, key: Any, items: Sequence[tuple[int, Any]], passed: int) -> Any:
        """A key takes items, each with the end of its block, and markers from a time on; its state afterwards."""
        op, emit, returned, start = self.op, self._emit, self.types.returned, passed
        for end, value in items:
            if self.marks:
                state, start = self._up_to(state, key, start, end)
                start = max(start, end)  # an item may be due before its own block
            self.end = end
            state = returned("on_item", key, op.on_item(state, key, value, emit))
        return self._up_to(state, key, start, NEVER)[0] if self.marks else state

    def _up_to(self, state: Any, key: Any, start: int, end: int) -> tuple[Any, int]:
        """A key takes the markers from ``start`` on, before ``end``."""
        while True:
            if self.dues:
                due = self.next(state, key)
                marker = None if due is None else self.markers.next(max(due, start))
            else:
                marker = self.markers.next(start)
            done = marker is None or marker >= end
            if self.puts_off and (last := self.markers.before(end if done else marker)) is not None and last >= start:  # type: ignore[arg-type]
                state, start = catch_up(self.op, state, key, Marker(last)), last + 1
            if marker is None or marker >= end:
                return state, start
            self.end, start = marker, marker + 1
            state = self.types.returned("on_marker", key, self.op.on_marker(state, key, Marker(marker), self._emit))

    def _emit(self, value: Any) -> None:
        if len(self.values) >= self.most:
            raise Enough
        self.values.append(self.fit(value))
        self.ends.append(self.end)


@final
class Following:
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
