"""Windows of time over an :class:`~tracetypes.stdlib.aggregates.Aggregate`, tumbling and sliding, made of **panes**.

A pane is the aggregate of one block of a key, and a marker ends it. So the period of the markers is the unit of size and
slide. For windows of 60 s every 15 s let the source send a marker every 15 s (the largest period that divides both, their
greatest common divisor) and ask for ``panes=4, slide=1``. A window that should begin inside a block needs a shorter period.
A pane is computed once and shared by all windows that it belongs to (Li et al., "No Pane, No Gain", SIGMOD Record 2005).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypeVar, overload

import attrs

from tracetypes.edges import U
from tracetypes.errors import UsageError
from tracetypes.graph import Stream, extend
from tracetypes.markers import EventTime, Marker
from tracetypes.nodes import Source, ancestors
from tracetypes.stdlib.aggregates import Aggregate
from tracetypes.stdlib.signatures import KeyedOperator
from tracetypes.stdlib.stacks import Stack, TwoStacks, stack_of
from tracetypes.stdlib.windows import Windowed, seconds_as_micros, typed, whole
from tracetypes.templates import Emit, OpKeyedUnordered

__all__ = [
    "MOST_PANES",
    "Invertible",
    "Method",
    "Pane",
    "SlidingPanes",
    "SlidingSubtracting",
    "SlidingTwoStacks",
    "period_of",
    "periods_of",
    "sliding",
    "tumbling",
]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
W = TypeVar("W")
R = TypeVar("R")
S = TypeVar("S")


Method: TypeAlias = Literal["panes", "two stacks", "subtract"]


MOST_PANES = 64
"""Up to so many panes a window is a tuple that is added up at each marker."""


class Invertible(Aggregate[V, A, W]):
    """An aggregate whose monoid is a group: what went in can be taken out again."""

    @abstractmethod
    def subtract(self, total: A, part: A) -> A:
        """``subtract(combine(a, b), b) == a``, exactly. Counts and sums of integers do; sums of floats do not."""


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
