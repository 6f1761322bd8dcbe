"""Windows over an :class:`~tracetypes.stdlib.aggregates.Aggregate`.

Time windows are made of **panes**: a pane is the aggregate of one block of a key, and a marker ends it. So the period of
the markers is the unit of size and slide. For windows of 60 s every 15 s let the source send a marker every 15 s (the
largest period that divides both, their greatest common divisor) and ask for ``panes=4, slide=1``. A window that should
begin inside a block needs a shorter period. A pane is computed once and shared by all windows that it belongs to (Li et
al., "No Pane, No Gain", SIGMOD Record 2005).

Windows over the items of a key, in order, are :func:`session`, :func:`count_window` and :func:`time_window`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, Generic, Literal, TypeAlias, TypeVar, overload

import attrs

from tracetypes.edges import U
from tracetypes.errors import UsageError
from tracetypes.graph import Source, Stream, ancestors, extend
from tracetypes.markers import EventTime, Marker, Time, TimeUnit, micros_from
from tracetypes.stdlib.aggregates import Aggregate, types_of
from tracetypes.stdlib.signatures import KeyedOperator, OrderedOperator, on_ordered
from tracetypes.templates import Emit, EmitValue, OpKeyedOrdered, OpKeyedUnordered

__all__ = [
    "CountWindow",
    "Invertible",
    "Session",
    "SessionWindow",
    "SlidingPanes",
    "SlidingSubtracting",
    "SlidingTwoStacks",
    "TimeWindow",
    "Windowed",
    "count_window",
    "session",
    "sliding",
    "time_window",
    "tumbling",
]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
W = TypeVar("W")
R = TypeVar("R")
S = TypeVar("S")
X = TypeVar("X")

Method: TypeAlias = Literal["panes", "two stacks", "subtract"]

MOST_PANES = 64
"""Up to so many panes a window is a tuple that is added up at each marker."""


@attrs.frozen
class Windowed(Generic[W]):
    """The result of a window. ``end``: the time that the window lies before, in microseconds since the epoch."""

    end: int
    value: W


@attrs.frozen
class Session(Generic[W]):
    """The result of a session. ``start`` and ``end``: times of its first and last item, in microseconds since the epoch."""

    start: int
    end: int
    value: W


class Invertible(Aggregate[V, A, W]):
    """An aggregate whose monoid is a group: what went in can be taken out again."""

    @abstractmethod
    def subtract(self, total: A, part: A) -> A:
        """``subtract(combine(a, b), b) == a``, exactly. Counts and sums of integers do; sums of floats do not."""


def typed(aggregate: Aggregate[Any, Any, Any], told_as: Any = None) -> Mapping[str, Any]:
    """What an operator over an aggregate knows of its types: ``V``, unless the aggregate takes anything, and ``R``, its
    results, in the generic record ``told_as`` if there is one."""
    taken, told = types_of(aggregate)
    result = {"R": told if told_as is None else told_as[told]}
    return result if taken in (Any, object) else {"V": taken, **result}


# ------------------------------------------------------------------------------------------------- time windows

Pane: TypeAlias = tuple[int, A]
"""How many items, and their aggregate."""


@attrs.frozen
class _Windows(OpKeyedUnordered[K, V, K, R, S, tuple[int, A]]):
    """The aggregate of the last ``panes`` blocks of a key, at every ``slide``-th marker, where it holds items.

    ``period``: microseconds; the markers that end a window are the multiples of ``slide * period``. None: every marker.
    """

    forgets_idle = True

    aggregate: Aggregate[V, A, Any]
    panes: int
    slide: int = 1
    period: int | None = None
    ends: bool = False

    def type_arguments(self) -> Mapping[str, Any]:
        return typed(self.aggregate, Windowed if self.ends else None)

    def lift(self, key: K, value: V) -> tuple[int, A]:
        return 1, self.aggregate.lift(value)

    def identity(self) -> tuple[int, A]:
        return 0, self.aggregate.identity()

    def combine(self, a: tuple[int, A], b: tuple[int, A]) -> tuple[int, A]:
        return a[0] + b[0], self.aggregate.combine(a[1], b[1])

    @abstractmethod
    def window(self, state: S) -> tuple[int, A]:
        """The aggregate of all panes of a state."""

    def on_marker(self, new_state: S, key: K, marker: Marker, emit: Emit[K, R]) -> None:
        if self.period is not None and marker.micros % (self.slide * self.period):
            return
        count, agg = self.window(new_state)
        if count > 0:
            told: Any = self.aggregate.result(agg)
            if self.ends:
                told = Windowed(marker.micros, told)
            emit(key, told)


@attrs.frozen
class SlidingPanes(_Windows[K, V, R, tuple[tuple[int, A], ...], A]):
    """The panes in a tuple of fixed length: for each key and marker a copy of it, and ``panes`` times ``combine`` where
    a window is told."""

    def initial_state(self) -> tuple[tuple[int, A], ...]:
        return (self.identity(),) * self.panes

    def update_state(self, state: tuple[tuple[int, A], ...], agg: tuple[int, A]) -> tuple[tuple[int, A], ...]:
        return (*state[1:], agg)

    def window(self, state: tuple[tuple[int, A], ...]) -> tuple[int, A]:
        total = state[0]
        for pane in state[1:]:
            total = self.combine(total, pane)
        return total


@attrs.frozen(eq=False)
class Stack(Generic[X]):
    """A stack that is never changed: a push makes a new top, and old tops stay what they were. One or more elements."""

    top: X
    below: Stack[X] | None

    def __iter__(self) -> Iterator[X]:
        at: Stack[X] | None = self
        while at is not None:
            yield at.top
            at = at.below

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stack):
            return False
        mine: Stack[Any] | None = self
        theirs: Stack[Any] | None = other
        while mine is not None and theirs is not None:
            if mine is theirs:
                return True
            if mine.top is not theirs.top and mine.top != theirs.top:
                return False
            mine, theirs = mine.below, theirs.below
        return mine is theirs

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        # Flat: a chain would be pickled and copied by recursion, deeper than Python allows.
        return stack_of, (tuple(self)[::-1],)


def stack_of(elements: tuple[X, ...]) -> Stack[X] | None:
    """The stack that these were pushed on, in this order."""
    made: Stack[X] | None = None
    for one in elements:
        made = Stack(one, made)
    return made


TwoStacks: TypeAlias = tuple[Stack[tuple[int, A]] | None, Stack[tuple[int, A]] | None, tuple[int, A]]


@attrs.frozen
class SlidingTwoStacks(_Windows[K, V, R, TwoStacks[A], A]):
    """A queue of panes as two stacks, for any aggregate: amortised three times ``combine`` for each key and marker,
    whatever the number of panes.

    Old panes are on the first stack as aggregates of all panes from there on, new ones on the second beside their
    aggregate. When the first is empty the second is turned over on it: that marker costs ``panes`` times ``combine``.
    """

    def initial_state(self) -> TwoStacks[A]:
        return stack_of((self.identity(),) * self.panes), None, self.identity()

    def update_state(self, state: TwoStacks[A], agg: tuple[int, A]) -> TwoStacks[A]:
        old, new, total = state
        left, pushed = None if old is None else old.below, Stack(agg, new)
        if left is not None:
            return left, pushed, self.combine(total, agg)
        suffix = self.identity()
        for pane in pushed:
            suffix = self.combine(suffix, pane)
            left = Stack(suffix, left)
        return left, None, self.identity()

    def window(self, state: TwoStacks[A]) -> tuple[int, A]:
        old, _, total = state
        return total if old is None else self.combine(old.top, total)


@attrs.frozen
class SlidingSubtracting(_Windows[K, V, R, TwoStacks[A], A]):
    """For an :class:`Invertible` aggregate: one ``combine`` and one ``subtract`` for each key and marker. The panes are a
    queue as in :class:`SlidingTwoStacks`, as they are; beside it the aggregate of all of them."""

    def initial_state(self) -> TwoStacks[A]:
        return stack_of((self.identity(),) * self.panes), None, self.identity()

    def update_state(self, state: TwoStacks[A], agg: tuple[int, A]) -> TwoStacks[A]:
        old, new, total = state
        assert old is not None, "a window has a pane or more"
        assert isinstance(self.aggregate, Invertible)
        grown, gone = self.combine(total, agg), old.top
        total = grown[0] - gone[0], self.aggregate.subtract(grown[1], gone[1])
        left, pushed = old.below, Stack(agg, new)
        if left is not None:
            return left, pushed, total
        for pane in pushed:
            left = Stack(pane, left)
        return left, None, total

    def window(self, state: TwoStacks[A]) -> tuple[int, A]:
        return state[2]


_METHODS: Mapping[Method, type[_Windows[Any, Any, Any, Any, Any]]] = {
    "panes": SlidingPanes,
    "two stacks": SlidingTwoStacks,
    "subtract": SlidingSubtracting,
}


@overload
def tumbling(
    aggregate: Aggregate[V, A, W],
    *,
    panes: int,
    period: float | None = None,
    ends: Literal[False] = False,
    method: Method | None = None,
) -> KeyedOperator[V, W]: ...
@overload
def tumbling(
    aggregate: Aggregate[V, A, W],
    *,
    panes: int,
    period: float | None = None,
    ends: Literal[True],
    method: Method | None = None,
) -> KeyedOperator[V, Windowed[W]]: ...
def tumbling(
    aggregate: Aggregate[V, A, Any],
    *,
    panes: int,
    period: float | None = None,
    ends: bool = False,
    method: Method | None = None,
) -> KeyedOperator[V, Any]:
    """Windows that follow one another: each item of a key belongs to one window of ``panes`` blocks.

    Windows end at the markers whose time is a multiple of ``panes * period``, wherever the stream begins; there the
    aggregate of each key with items in the window is told. ``period`` (seconds) is that of the markers; None: that of the
    sources upstream. ``ends``, ``method`` and the errors: as in :func:`sliding`. A window whose end has not come is not
    told, also when the sources end.

    >>> preview(tumbling(sum(to=int), panes=2), U[str, int], [("a", 1)], [("a", 2)], [("a", 4)], [])
    [[], [('a', 3)], [], [('a', 4)]]
    """
    return sliding(aggregate, panes=panes, slide=panes, period=period, ends=ends, method=method)  # type: ignore[call-overload, no-any-return]


@overload
def sliding(
    aggregate: Aggregate[V, A, W],
    *,
    panes: int,
    slide: int = 1,
    period: float | None = None,
    ends: Literal[False] = False,
    method: Method | None = None,
) -> KeyedOperator[V, W]: ...
@overload
def sliding(
    aggregate: Aggregate[V, A, W],
    *,
    panes: int,
    slide: int = 1,
    period: float | None = None,
    ends: Literal[True],
    method: Method | None = None,
) -> KeyedOperator[V, Windowed[W]]: ...
def sliding(
    aggregate: Aggregate[V, A, Any],
    *,
    panes: int,
    slide: int = 1,
    period: float | None = None,
    ends: bool = False,
    method: Method | None = None,
) -> KeyedOperator[V, Any]:
    """Windows that overlap: at every marker the aggregate of the last ``panes`` blocks of each key that has items there.

    ``slide``: tell only at the markers whose time is a multiple of ``slide * period``; ``period`` as in :func:`tumbling`.
    ``ends``: tell :class:`Windowed`, the aggregate with the end of the window, instead of the aggregate alone (the sink
    can write the time of the marker without: ``marker=``). ``method``: ``"panes"`` (:class:`SlidingPanes`; the default
    up to 64 panes), ``"two stacks"`` (:class:`SlidingTwoStacks`; the default beyond) or ``"subtract"``
    (:class:`SlidingSubtracting`; the default beyond for an :class:`Invertible` aggregate). All tell the same.

    Raises :class:`UsageError` ``TT121`` for a number of panes below 1, a method that does not fit the aggregate, and a
    ``slide`` over markers whose period is not known.

    >>> preview(sliding(sum(to=int), panes=2), U[str, int], [("a", 1)], [("a", 2)], [], [])
    [[('a', 1)], [('a', 3)], [('a', 2)], []]
    >>> preview(sliding(sum(to=int), panes=2, ends=True), U[str, int], [("a", 1)])
    [[('a', Windowed(end=1000000, value=1))]]
    """
    whole("panes", panes)
    whole("slide", slide)
    if method is None:
        large: Method = "subtract" if isinstance(aggregate, Invertible) else "two stacks"
        method = "panes" if panes <= MOST_PANES else large
    if method not in _METHODS:
        raise UsageError("TT121", f"method is {method!r}", fix=f"use one of {', '.join(map(repr, _METHODS))}")
    if method == "subtract" and not isinstance(aggregate, Invertible):
        raise UsageError(
            "TT121",
            f'method is "subtract", and {type(aggregate).__name__} cannot take out what went in',
            fix='derive the aggregate from Invertible, or use method="two stacks"',
        )
    micros = None if period is None else seconds_as_micros("period", period)

    def place(upstream: Stream[U[K, V]]) -> Stream[U[K, Any]]:
        every = None if slide == 1 else micros or period_of(upstream)
        op: Any = _METHODS[method](aggregate, panes, slide, every, ends)
        return extend(upstream, op)

    return place


def whole(name: str, number: object, least: int = 1) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise UsageError("TT121", f"{name} is {number!r}", fix=f"give {name} as a whole number from {least}")


def seconds_as_micros(name: str, seconds: object, least: int = 1) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise UsageError("TT121", f"{name} is {seconds!r}", fix=f"give {name} as a number of seconds")
    micros = round(seconds * 1_000_000)
    if micros < least:
        bound = "at least a microsecond" if least else "not negative"
        raise UsageError("TT121", f"{name} is {seconds!r}", fix=f"give {name} as a number of seconds, {bound}")
    return micros


def periods_of(upstream: Stream[Any]) -> set[int | None]:
    """The periods in microseconds of the markers of all sources of a stream; None for markers in band."""
    sources = [node for node in ancestors(upstream.flow.graph, upstream.id) if isinstance(node, Source)]
    return {source.markers.period if isinstance(source.markers, EventTime) else None for source in sources}


def period_of(upstream: Stream[Any]) -> int:
    found = periods_of(upstream)
    period = found.pop() if len(found) == 1 else None
    if period is None:
        raise UsageError(
            "TT121",
            "the sources upstream have no period in common: it is not known which markers end a window",
            fix="give all sources every(seconds=...) of one period, or pass period= (seconds)",
        )
    return period


# ------------------------------------------------------------------------------------------------- windows of items

Open: TypeAlias = tuple[int, int, A]
"""First and last time in microseconds, and the aggregate."""


@attrs.frozen
class SessionWindow(OpKeyedOrdered[K, V, R, tuple[int, int, A] | None]):
    """Items of a key that follow each other within ``gap`` microseconds are one session; see :func:`session`."""

    aggregate: Aggregate[V, A, Any]
    gap: int
    time: Callable[[V], Time]
    unit: TimeUnit

    def type_arguments(self) -> Mapping[str, Any]:
        return typed(self.aggregate, Session)

    def initial_state(self) -> tuple[int, int, A] | None:
        return None

    def on_item(self, state: tuple[int, int, A] | None, key: K, value: V, emit: EmitValue[R]) -> tuple[int, int, A]:
        time, lifted = micros_from(self.time(value), self.unit), self.aggregate.lift(value)
        if state is not None and time - state[1] <= self.gap:
            first, last, agg = state
            return min(first, time), max(last, time), self.aggregate.combine(agg, lifted)
        if state is not None:
            self.tell(state, emit)
        return time, time, self.aggregate.combine(self.aggregate.identity(), lifted)

    def on_marker(
        self, state: tuple[int, int, A] | None, key: K, marker: Marker, emit: EmitValue[R]
    ) -> tuple[int, int, A] | None:
        if state is None or marker.micros - state[1] <= self.gap:
            return state
        self.tell(state, emit)
        return None

    def tell(self, state: tuple[int, int, A], emit: EmitValue[R]) -> None:
        """Emit a session."""
        first, last, agg = state
        told: Any = Session(first, last, self.aggregate.result(agg))
        emit(told)


def session(
    aggregate: Aggregate[V, A, W], *, gap: float, time: Callable[[V], Time], unit: TimeUnit = "s"
) -> OrderedOperator[V, Session[W]]:
    """Sessions of each key: items of which each follows within ``gap`` seconds of the one before.

    ``time`` and ``unit``: as in :func:`tracetypes.every`; the stream must be sorted by the same time. A session is told
    by the item that is too late for it, or at the first marker that lies more than ``gap`` after its last item: nothing
    that comes after that marker can belong to it. A session that is open when the sources end is not told.
    Raises :class:`UsageError` ``TT121`` for a negative gap.

    Here the value is the time. The session of 0 and 1 is over at marker 4, that of 4 would be at marker 7:

    >>> sessions = session(count(), gap=2, time=lambda time: time)
    >>> preview(sessions, O[str, int], [("a", 0), ("a", 1)], [], [], [("a", 4)], [], [])
    [[], [], [], [('a', Session(start=0, end=1000000, value=2))], [], []]
    """
    return on_ordered(SessionWindow(aggregate, seconds_as_micros("gap", gap, 0), time, unit))


@attrs.frozen
class CountWindow(OpKeyedOrdered[K, V, R, tuple[int, A]]):
    """The aggregate of every ``items`` items of a key; see :func:`count_window`."""

    aggregate: Aggregate[V, A, Any]
    items: int

    def type_arguments(self) -> Mapping[str, Any]:
        return typed(self.aggregate)

    def initial_state(self) -> tuple[int, A]:
        return 0, self.aggregate.identity()

    def on_item(self, state: tuple[int, A], key: K, value: V, emit: EmitValue[R]) -> tuple[int, A]:
        count, agg = state[0] + 1, self.aggregate.combine(state[1], self.aggregate.lift(value))
        if count < self.items:
            return count, agg
        told: Any = self.aggregate.result(agg)
        emit(told)
        return self.initial_state()


def count_window(aggregate: Aggregate[V, A, W], *, items: int) -> OrderedOperator[V, W]:
    """The aggregate of the first ``items`` items of each key, then of the next, and so on, told with the last of them.

    Raises :class:`UsageError` ``TT121`` for fewer than one item.

    >>> preview(count_window(sum(to=int), items=2), O[str, int], [("a", 1), ("a", 2), ("a", 3)], [("a", 4)])
    [[('a', 3)], [('a', 7)]]
    """
    whole("items", items)
    return on_ordered(CountWindow(aggregate, items))


@attrs.define
class OpenWindows(Generic[V, A]):
    """The windows of a key that are not told yet, by number; window 0 begins with the epoch."""

    over: float = -math.inf
    """Windows before this number are over."""
    aggregates: dict[int, A] = attrs.Factory(dict)
    """Of the values up to the last marker."""
    values: list[V] = attrs.Factory(list)
    """Those since then: to fold them in together costs less than to combine one after the other."""


@attrs.frozen
class TimeWindow(OpKeyedOrdered[K, V, R, OpenWindows[V, A]]):
    """Windows of ``size`` microseconds by the values' own time, told ``grace`` later; see :func:`time_window`."""

    aggregate: Aggregate[V, A, Any]
    size: int
    grace: int
    time: Callable[[V], Time]
    unit: TimeUnit
    ends: bool
    may_change = ("grace",)  # the state says which windows are over, so that none is told again

    def type_arguments(self) -> Mapping[str, Any]:
        return typed(self.aggregate, Windowed if self.ends else None)

    def initial_state(self) -> OpenWindows[V, A]:
        return OpenWindows()

    def on_item(self, state: OpenWindows[V, A], key: K, value: V, emit: EmitValue[R]) -> OpenWindows[V, A]:
        state.values.append(value)
        return state

    def on_marker(self, state: OpenWindows[V, A], key: K, marker: Marker, emit: EmitValue[R]) -> OpenWindows[V, A]:
        aggregates = state.aggregates
        for time, values in groupby(state.values, self.time):
            number = micros_from(time, self.unit) // self.size
            if number >= state.over:
                before = aggregates[number] if number in aggregates else self.aggregate.identity()
                aggregates[number] = self.aggregate.fold(before, list(values))
        over = max(state.over, (marker.micros - self.grace) // self.size)
        for number in sorted(number for number in aggregates if number < over):
            told: Any = self.aggregate.result(aggregates.pop(number))
            if self.ends:
                told = Windowed((number + 1) * self.size, told)
            emit(told)
        return OpenWindows(over, aggregates)


@overload
def time_window(
    aggregate: Aggregate[V, A, W],
    *,
    seconds: float,
    time: Callable[[V], Time],
    unit: TimeUnit = "s",
    grace: float = 0,
    ends: Literal[False] = False,
) -> OrderedOperator[V, W]: ...
@overload
def time_window(
    aggregate: Aggregate[V, A, W],
    *,
    seconds: float,
    time: Callable[[V], Time],
    unit: TimeUnit = "s",
    grace: float = 0,
    ends: Literal[True],
) -> OrderedOperator[V, Windowed[W]]: ...
def time_window(
    aggregate: Aggregate[V, A, Any],
    *,
    seconds: float,
    time: Callable[[V], Time],
    unit: TimeUnit = "s",
    grace: float = 0,
    ends: bool = False,
) -> OrderedOperator[V, Any]:
    """Windows of ``seconds`` that follow one another by the time of the values, whatever blocks these come in.

    ``time`` and ``unit``: as in :func:`tracetypes.every`; windows begin at the multiples of ``seconds`` since the epoch.
    For values that come behind the markers which end the blocks of their times, such as those that :func:`interpolate`
    fills in when the next reading is there; otherwise :func:`tumbling` does with less. ``grace``: how many seconds a value
    may lie behind the last marker. Each window of a key is told once, at the first marker that lies ``grace`` behind its
    end, those of one marker in their order; one without items is not told, nor is one whose marker has not come when the
    sources end. An item that lies still further behind, in a window that such a marker has ended for its key, is dropped.
    ``ends``: tell :class:`Windowed`.

    The values of a window are added up in the order of the stream, so that here :func:`fast_sum` tells the same bits at
    every parallelism. Raises :class:`UsageError` ``TT121`` for a size that is not positive and a negative grace.

    Here the value is the time, and markers come at 1, 2, 3, 4 and 5. The 0 behind marker 1 counts, the one behind marker 3 is
    dropped:

    >>> windows = time_window(count(), seconds=2, time=lambda time: time, grace=1)
    >>> preview(windows, O[str, int], [("a", 0)], [("a", 0), ("a", 1)], [("a", 2)], [("a", 0)], [("a", 2)])
    [[], [], [('a', 3)], [], [('a', 2)]]
    """
    size, behind = seconds_as_micros("seconds", seconds), seconds_as_micros("grace", grace, 0)
    return on_ordered(TimeWindow(aggregate, size, behind, time, unit, ends))
