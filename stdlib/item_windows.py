"""Windows over the items of a key in their order: by their number, and by their own times."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, Generic, Literal, TypeAlias, TypeVar, overload

import attrs

from tracetypes.consecutive_windows import ConsecutiveWindows, HeldItems
from tracetypes.markers import Marker, Span, Time, TimeUnit, micros_from
from tracetypes.own_windows import OwnWindows
from tracetypes.sliding import Sliding
from tracetypes.stdlib.aggregates import Aggregate
from tracetypes.stdlib.open_aggregates import over_aggregates
from tracetypes.stdlib.products import summary_of
from tracetypes.stdlib.sessions import held_windows
from tracetypes.stdlib.signatures import OrderedOperator, on_ordered
from tracetypes.stdlib.windows import Windowed, seconds_as_micros, typed, whole, windowed
from tracetypes.templates import EmitValue, OpKeyedOrdered

__all__ = [
    "CountWindow",
    "OpenWindows",
    "Queue",
    "SlidingCountWindow",
    "TimeWindow",
    "count_window",
    "time_window",
]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
W = TypeVar("W")
R = TypeVar("R")


@attrs.frozen
class CountWindow(OpKeyedOrdered[K, V, R, tuple[int, A]]):
    """The aggregate of every ``items`` items of a key; see :func:`count_window`."""

    _word = "count_window"

    aggregate: Aggregate[V, A, Any]
    items: int

    def type_arguments(self) -> Mapping[str, Any]:
        return typed(self.aggregate)

    def initial_state(self) -> tuple[int, A]:
        return 0, self.aggregate.identity()

    def on_item(self, state: tuple[int, A] | HeldItems[V], key: K, value: V, emit: EmitValue[R]) -> tuple[int, A]:
        if isinstance(state, HeldItems):
            state = len(state.values), self.aggregate.fold(self.aggregate.identity(), state.values)
        count, agg = state[0] + 1, self.aggregate.combine(state[1], self.aggregate.lift(value))
        if count < self.items:
            return count, agg
        self.answer(self.aggregate.result(agg), emit)
        return self.initial_state()

    def answer(self, result: Any, emit: EmitValue[R]) -> None:
        """Emit the result of a window."""
        emit(result)

    def _says(self) -> ConsecutiveWindows[V] | None:
        if type(self) is not CountWindow:  # a subclass may do something else
            return None
        return held_windows(self, self.items)


Queue: TypeAlias = tuple[int, list[A], list[A], A]
"""How many items came since a window was emitted; the last items in two stacks, and the aggregate of the second stack. The first
has the old items, the oldest on top, each as the aggregate from there on. The second has the new items as they are."""


@attrs.frozen
class SlidingCountWindow(OpKeyedOrdered[K, V, R, Queue[A]]):
    """The aggregate of the last ``items`` items of a key, after every ``slide``-th; see :func:`count_window`."""

    _word = "count_window"

    aggregate: Aggregate[V, A, Any]
    items: int
    slide: int

    def type_arguments(self) -> Mapping[str, Any]:
        return typed(self.aggregate)

    def initial_state(self) -> Queue[A]:
        return 0, [], [], self.aggregate.identity()

    def on_item(self, state: Queue[A], key: K, value: V, emit: EmitValue[R]) -> Queue[A]:
        since, old, new, total = state
        combine, lifted = self.aggregate.combine, self.aggregate.lift(value)
        if len(old) + len(new) == self.items:
            if not old:
                suffix = total = self.aggregate.identity()
                while new:
                    suffix = combine(new.pop(), suffix)
                    old.append(suffix)
            old.pop()
        new.append(lifted)
        total, since = combine(total, lifted), since + 1
        if since < self.slide:
            return since, old, new, total
        result: Any = self.aggregate.result(combine(old[-1], total) if old else total)
        emit(result)
        return 0, old, new, total

    def _says(self) -> Sliding | None:
        if type(self) is not SlidingCountWindow:  # a subclass may do something else
            return None
        return Sliding(self.aggregate, self.items, self.slide)


@over_aggregates
def count_window(aggregate: Aggregate[V, A, W], *, items: int, slide: int | None = None) -> OrderedOperator[V, W]:
    """After every ``slide``-th item of a key the aggregate of its last ``items`` items.

    Without ``slide`` windows follow one another: the first ``items`` items, the next, and so on. Where fewer than ``items``
    items came so far, the aggregate is that of all. A window is emitted with its last item. So a window that is not full when the
    input ends is not emitted: no item says that it is complete. Raises :class:`UsageError` ``TT121`` for fewer than one item.

    >>> preview(count_window(sum(to=int), items=2), O[str, int], [("a", 1), ("a", 2), ("a", 3)], [("a", 4)])
    [[('a', 3)], [('a', 7)]]
    >>> preview(count_window(sum(to=int), items=2, slide=1), O[str, int], [("a", 1), ("a", 2), ("a", 3)], [("a", 4)])
    [[('a', 1), ('a', 3), ('a', 5)], [('a', 7)]]
    """
    whole("items", items)
    if slide is None or slide == items:
        return on_ordered(CountWindow(aggregate, items))
    whole("slide", slide)
    return on_ordered(SlidingCountWindow(aggregate, items, slide))


@attrs.define
class OpenWindows(Generic[V, A]):
    """The open windows of a key, by number; window 0 begins at the offset from the epoch."""

    over: float = -math.inf
    """Windows before this number are over."""
    aggregates: dict[int, A] = attrs.Factory(dict)
    """Of the values before the last marker."""
    values: list[V] = attrs.Factory(list)
    """Those since then: to fold them in together costs less than to combine one after the other."""


@attrs.frozen
class TimeWindow(OpKeyedOrdered[K, V, R, OpenWindows[V, A]]):
    """Windows of ``size`` microseconds by the values' own time, emitted ``grace`` later; see :func:`time_window`."""

    _word = "time_window"

    aggregate: Aggregate[V, A, Any]
    size: int
    grace: int
    time: Callable[[V], Time]
    unit: TimeUnit
    ends: bool
    offset: int = 0
    may_change = ("grace",)  # the state says which windows are over, so that none is emitted again

    def type_arguments(self) -> Mapping[str, Any]:
        return typed(self.aggregate, Windowed if self.ends else None)

    def initial_state(self) -> OpenWindows[V, A]:
        return OpenWindows()

    def on_item(self, state: OpenWindows[V, A], key: K, value: V, emit: EmitValue[R]) -> OpenWindows[V, A]:
        state.values.append(value)
        return state

    def on_marker(self, state: OpenWindows[V, A], key: K, marker: Marker, emit: EmitValue[R]) -> OpenWindows[V, A]:
        return self.answered(state, (marker.micros - self.grace - self.offset) // self.size, emit)

    def answered(self, state: OpenWindows[V, A], over: int, emit: EmitValue[R]) -> OpenWindows[V, A]:
        """The state when the windows before a number are over, which are emitted."""
        aggregates = state.aggregates
        for time, values in groupby(state.values, self.time):
            number = self.number_at(time)
            if number >= state.over:
                before = aggregates[number] if number in aggregates else self.aggregate.identity()
                aggregates[number] = self.aggregate.fold(before, list(values))
        last = max(state.over, over)
        for number in sorted(number for number in aggregates if number < last):
            self.answer(number, aggregates.pop(number), emit)
        return OpenWindows(last, aggregates)

    def number_at(self, time: Time) -> int:
        """The number of the window of a time."""
        return (micros_from(time, self.unit) - self.offset) // self.size

    def number_of(self, value: V) -> int:
        """The number of the window of a value."""
        return self.number_at(self.time(value))

    def answer(self, number: int, agg: A, emit: EmitValue[R]) -> None:
        """Emit the result of a window."""
        self.answer_result(number, self.aggregate.result(agg), emit)

    def answer_result(self, number: int, result: Any, emit: EmitValue[R]) -> None:
        """What :meth:`answer` emits, by the result of the aggregate."""
        if self.ends:
            start = number * self.size + self.offset
            result = windowed(start, start + self.size, result)
        emit(result)

    def linger(self) -> dt.timedelta:
        return dt.timedelta(microseconds=self.size + self.grace)

    def next_due(self, state: OpenWindows[V, A], key: K) -> int:
        if state.values or state.over == -math.inf:
            return -(2**62)  # at any marker
        return (int(state.over) + 1) * self.size + self.offset + self.grace

    def next_emission(self, state: OpenWindows[V, A], key: K) -> int | None:
        if state.values:
            return -(2**62)
        return (min(state.aggregates) + 1) * self.size + self.offset + self.grace if state.aggregates else None

    def _says(self) -> OwnWindows[V] | None:
        if type(self) is not TimeWindow:  # a subclass may do something else
            return None
        return OwnWindows(
            aggregate=self.aggregate,
            number=self.number_of,
            answer=self.answer,
            answer_result=self.answer_result,
            size=self.size,
            offset=self.offset,
            grace=self.grace,
            summary=summary_of(self.aggregate),
        )


@overload
def time_window(
    aggregate: Aggregate[V, A, W],
    *,
    size: Span,
    time: Callable[[V], Time],
    unit: TimeUnit = "s",
    offset: Span = 0,
    grace: Span = 0,
    ends: Literal[False] = False,
) -> OrderedOperator[V, W]: ...


@overload
def time_window(
    aggregate: Aggregate[V, A, W],
    *,
    size: Span,
    time: Callable[[V], Time],
    unit: TimeUnit = "s",
    offset: Span = 0,
    grace: Span = 0,
    ends: Literal[True],
) -> OrderedOperator[V, Windowed[W]]: ...


@over_aggregates
def time_window(
    aggregate: Aggregate[V, A, Any],
    *,
    size: Span,
    time: Callable[[V], Time],
    unit: TimeUnit = "s",
    offset: Span = 0,
    grace: Span = 0,
    ends: bool = False,
) -> OrderedOperator[V, Any]:
    """Windows of ``size`` that follow one another by the time of the values, whatever blocks these come in.

    ``size``, ``offset`` and ``grace``: seconds or timedeltas. ``time`` and ``unit``: as in :func:`tracetypes.every`. Windows
    begin at the multiples of ``size`` since the epoch, plus ``offset``; they need not fit the period of the markers. This is
    for values that come behind the markers which end the blocks of their times, such as those that :func:`interpolate`
    fills in when the next reading is there; otherwise :func:`tumbling` does with less. ``grace``: how far a value may lie
    behind the last marker; it must not lie ahead of the marker that ends its block. Each window of a key that has items is
    emitted once, at the first marker that lies ``grace`` behind its end, and those of one marker in their order. When the input
    ends, the windows that are still open are emitted, too. An item that lies still further behind, in a window that such a
    marker has ended for its key, is dropped. ``ends``: emit :class:`Windowed`.

    The values of a window are added up in the order of the stream, so that here :func:`fast_sum` gives the same bits at
    every parallelism. Raises :class:`UsageError` ``TT121`` for a size that is not positive and a negative grace.

    Here the value is the time, and markers come at 1, 2, 3, 4 and 5. The 0 behind marker 1 counts, the one behind marker 3 is
    dropped:

    >>> windows = time_window(count(), size=2, time=lambda time: time, grace=1)
    >>> found = preview(windows, O[str, int], [("a", 0)], [("a", 0), ("a", 1)], [("a", 2)], [("a", 0)], [("a", 2)])
    >>> [(at, *pair) for at, block in enumerate(found, 1) for pair in block]
    [(3, 'a', 3), (5, 'a', 2)]
    """
    length, begin = seconds_as_micros("size", size), seconds_as_micros("offset", offset, -(2**62))
    return on_ordered(TimeWindow(aggregate, length, seconds_as_micros("grace", grace, 0), time, unit, ends, begin))
