"""Windows of time over an :class:`~tracetypes.stdlib.aggregates.Aggregate`, tumbling and sliding, made of **panes**.

A pane is the aggregate of one block of a key, and a marker ends it. So size, slide and offset of a window are multiples of the
period of the markers: windows of 60 s every 25 s need a marker every 5 s, their greatest common divisor, or more often.
Windows begin at the multiples of the slide since the epoch, plus the offset. A pane is computed once, and all windows that it
belongs to share it (Li et al., "No Pane, No Gain", SIGMOD Record 2005).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypeVar, overload

import attrs

from tracetypes.edges import U
from tracetypes.errors import UsageError
from tracetypes.graph import Stream, extend
from tracetypes.markers import EventTime, Marker, Span
from tracetypes.nodes import Source, ancestors
from tracetypes.stdlib.aggregates import Aggregate
from tracetypes.stdlib.signatures import KeyedOperator
from tracetypes.stdlib.stacks import Stack, TwoStacks, stack_of
from tracetypes.stdlib.windows import Windowed, seconds_as_micros, typed, whole, windowed
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
"""Up to so many panes a window is a tuple, whose panes are combined where the window ends."""


class Invertible(Aggregate[V, A, W]):
    """An aggregate whose monoid is a group: what went in can be taken out again."""

    @abstractmethod
    def subtract(self, total: A, part: A) -> A:
        """``subtract(combine(a, b), b) == a``, exactly. Counts and sums of integers do; sums of floats do not."""


Pane: TypeAlias = tuple[int, A]
"""How many items, and their aggregate."""


@attrs.frozen
class _Windows(OpKeyedUnordered[K, V, K, R, S, tuple[int, A]]):
    """The aggregate of the last ``panes`` blocks of a key, at the markers that end a window which holds items.

    ``period``: that of the markers, in microseconds; None where it is not known, and then every marker ends a window and
    ``ends`` is not asked for. Windows begin at the multiples of ``slide * period`` plus ``offset`` microseconds.
    """

    forgets_idle = True

    aggregate: Aggregate[V, A, Any]
    panes: int
    slide: int = 1
    period: int | None = None
    ends: bool = False
    offset: int = 0

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

    def linger(self) -> int:
        return self.panes - 1

    def tumbles(self) -> tuple[int, int] | None:
        if self.period is None or self.slide != self.panes:
            return None
        return self.panes * self.period, self.offset

    def on_marker(self, new_state: S, key: K, marker: Marker, emit: Emit[K, R]) -> None:
        start = marker.micros if self.period is None else marker.micros - self.panes * self.period
        if self.period is not None and (start - self.offset) % (self.slide * self.period):
            return
        count, agg = self.window(new_state)
        if count > 0:
            result: Any = self.aggregate.result(agg)
            if self.ends:
                result = windowed(start, marker.micros, result)
            emit(key, result)


@attrs.frozen
class SlidingPanes(_Windows[K, V, R, tuple[tuple[int, A], ...], A]):
    """The panes in a tuple of fixed length. Each key and marker costs a copy of it, and each emitted window ``panes`` times
    ``combine``."""

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
    """A queue of panes as two stacks, for any aggregate. Each key and marker costs three times ``combine`` on average,
    whatever the number of panes.

    The first stack has the old panes, each as the aggregate of all panes from there on. The second has the new ones, beside their
    aggregate. When the first is empty, the second is turned over on it, and that marker costs ``panes`` times ``combine``.
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
    """For an :class:`Invertible` aggregate: each key and marker costs one ``combine`` and one ``subtract``. The state is a queue
    of the panes, as in :class:`SlidingTwoStacks`, and the aggregate of all of them."""

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
    size: Span,
    offset: Span = 0,
    period: Span | None = None,
    ends: Literal[False] = False,
    method: Method | None = None,
) -> KeyedOperator[V, W]: ...


@overload
def tumbling(
    aggregate: Aggregate[V, A, W],
    *,
    size: Span,
    offset: Span = 0,
    period: Span | None = None,
    ends: Literal[True],
    method: Method | None = None,
) -> KeyedOperator[V, Windowed[W]]: ...


@overload
def tumbling(
    aggregate: Aggregate[V, A, W],
    *,
    panes: int,
    offset: Span = 0,
    period: Span | None = None,
    ends: Literal[False] = False,
    method: Method | None = None,
) -> KeyedOperator[V, W]: ...


@overload
def tumbling(
    aggregate: Aggregate[V, A, W],
    *,
    panes: int,
    offset: Span = 0,
    period: Span | None = None,
    ends: Literal[True],
    method: Method | None = None,
) -> KeyedOperator[V, Windowed[W]]: ...


def tumbling(
    aggregate: Aggregate[V, A, Any],
    *,
    panes: int | None = None,
    size: Span | None = None,
    offset: Span = 0,
    period: Span | None = None,
    ends: bool = False,
    method: Method | None = None,
) -> KeyedOperator[V, Any]:
    """Windows that follow one another. Each item of a key belongs to one window. At the end of a window the operator emits the
    aggregate of each key that has items in it.

    ``size``: seconds or a timedelta; or ``panes``: a number of blocks. Windows begin at the multiples of their size since the
    epoch, plus ``offset``. The other parameters and the errors are those of :func:`sliding`.

    Markers are a second apart here, and the first window lasts from 0 to 2:

    >>> preview(tumbling(sum(to=int), size=2), U[str, int], [("a", 1)], [("a", 2)], [("a", 4)])
    [[], [('a', 3)], [], [('a', 4)]]
    >>> preview(tumbling(sum(to=int), size=2, offset=1), U[str, int], [("a", 1)], [("a", 2)], [("a", 4)])
    [[('a', 1)], [], [('a', 6)], []]
    """
    slide: Any = panes if size is None else size
    return _windows(aggregate, panes, size, slide, offset, period, ends, method)


@overload
def sliding(
    aggregate: Aggregate[V, A, W],
    *,
    size: Span,
    slide: Span | None = None,
    offset: Span = 0,
    period: Span | None = None,
    ends: Literal[False] = False,
    method: Method | None = None,
) -> KeyedOperator[V, W]: ...


@overload
def sliding(
    aggregate: Aggregate[V, A, W],
    *,
    size: Span,
    slide: Span | None = None,
    offset: Span = 0,
    period: Span | None = None,
    ends: Literal[True],
    method: Method | None = None,
) -> KeyedOperator[V, Windowed[W]]: ...


@overload
def sliding(
    aggregate: Aggregate[V, A, W],
    *,
    panes: int,
    slide: int = 1,
    offset: Span = 0,
    period: Span | None = None,
    ends: Literal[False] = False,
    method: Method | None = None,
) -> KeyedOperator[V, W]: ...


@overload
def sliding(
    aggregate: Aggregate[V, A, W],
    *,
    panes: int,
    slide: int = 1,
    offset: Span = 0,
    period: Span | None = None,
    ends: Literal[True],
    method: Method | None = None,
) -> KeyedOperator[V, Windowed[W]]: ...


def sliding(
    aggregate: Aggregate[V, A, Any],
    *,
    panes: int | None = None,
    size: Span | None = None,
    slide: Span | None = None,
    offset: Span = 0,
    period: Span | None = None,
    ends: bool = False,
    method: Method | None = None,
) -> KeyedOperator[V, Any]:
    """Windows that overlap: one of ``size`` begins every ``slide``. At the end of a window the operator emits the aggregate of
    each key that has items in it.

    ``size`` and ``slide``: seconds or timedeltas; or ``panes`` and ``slide``: numbers of blocks. Without ``slide`` a window
    ends at every marker. Windows begin at the multiples of ``slide`` since the epoch, plus ``offset`` (seconds or a timedelta).
    A window that begins before the first item holds what there is. When the input ends, the windows that are still open are
    emitted, too.

    ``period`` (seconds or a timedelta) is that of the markers. It is needed where the sources upstream send their markers in
    band. ``ends``: emit :class:`Windowed`, the aggregate with the start and the end of the window, instead of the aggregate
    alone. ``method``: ``"panes"`` (:class:`SlidingPanes`; the default up to 64 panes), ``"two stacks"``
    (:class:`SlidingTwoStacks`; the default beyond) or ``"subtract"`` (:class:`SlidingSubtracting`; the default beyond for an
    :class:`Invertible` aggregate). All emit the same.

    Raises :class:`UsageError` ``TT121`` for a size below 1 or below a microsecond, and for a method that does not fit the
    aggregate. All windows but ``panes`` without ``slide`` need the period of the markers, and ``TT121`` says so where it is not
    known. ``TT125``: size, slide or offset is no multiple of the period.

    Markers are a second apart here:

    >>> preview(sliding(sum(to=int), size=2), U[str, int], [("a", 1)], [("a", 2)])
    [[('a', 1)], [('a', 3)], [('a', 2)]]
    >>> first, _ = preview(sliding(sum(to=int), size=2, ends=True), U[str, int], [("a", 1)])
    >>> key, window = first[0]
    >>> print(window.start, "to", window.end, "has", window.value)
    1969-12-31 23:59:59+00:00 to 1970-01-01 00:00:01+00:00 has 1
    """
    return _windows(aggregate, panes, size, slide, offset, period, ends, method)


def _windows(
    aggregate: Aggregate[V, A, Any],
    panes: int | None,
    size: Span | None,
    slide: Span | None,
    offset: Span,
    period: Span | None,
    ends: bool,
    method: Method | None,
) -> KeyedOperator[V, Any]:
    if (panes is None) == (size is None):
        said = "neither panes nor size is given" if panes is None else "both panes and size are given"
        raise UsageError("TT121", said, fix="give one of them")
    spans = {"offset": seconds_as_micros("offset", offset, -(2**62))}
    if size is not None:
        spans["size"] = seconds_as_micros("size", size)
        if slide is not None:
            spans["slide"] = seconds_as_micros("slide", slide)
    else:
        whole("panes", panes)
        whole("slide", 1 if slide is None else slide)
    if method is not None and method not in _METHODS:
        raise UsageError("TT121", f"method is {method!r}", fix=f"use one of {', '.join(map(repr, _METHODS))}")
    if method == "subtract" and not isinstance(aggregate, Invertible):
        raise UsageError(
            "TT121",
            f'method is "subtract", and {type(aggregate).__name__} cannot take out what went in',
            fix='derive the aggregate from Invertible, or use method="two stacks"',
        )
    said_period = None if period is None else seconds_as_micros("period", period)

    def place(upstream: Stream[U[K, V]]) -> Stream[U[K, Any]]:
        length: Any = panes
        step: Any = 1 if slide is None else slide
        every = None
        if size is not None or step != 1 or ends or spans["offset"]:
            every = period_of(upstream, said_period)
            multiples_of(every, spans if size is not None else {**spans, "size": length * every, "slide": step * every})
            if size is not None:
                length, step = spans["size"] // every, spans.get("slide", every) // every
        large: Method = "subtract" if isinstance(aggregate, Invertible) else "two stacks"
        how = method or ("panes" if length <= MOST_PANES else large)
        op: Any = _METHODS[how](aggregate, length, step, every, ends, spans["offset"])
        return extend(upstream, op)

    return place


def multiples_of(period: int, spans: Mapping[str, int]) -> None:
    """Refuse a window whose size, slide or offset (microseconds) is no multiple of the period of the markers."""
    names = {span: name for name, span in reversed([*spans.items()])}  # a tumbling window has one size and no slide
    wrong = [f"{name} is {_seconds(span)}" for span, name in names.items() if span % period]
    if wrong:
        fits = _seconds(math.gcd(*spans.values()))
        raise UsageError(
            "TT125",
            f"{' and '.join(sorted(wrong))}, and markers come every {_seconds(period)}",
            fix=f"let the sources send a marker every {fits}, the greatest common divisor of size, slide and offset, or at a "
            "period that divides it; say windows by size=, not by panes=",
        )


def _seconds(micros: int) -> str:
    return f"{micros / 1_000_000:.6f}".rstrip("0").rstrip(".") + " s"


def periods_of(upstream: Stream[Any]) -> set[int | None]:
    """The periods in microseconds of the markers of all sources of a stream; None for markers in band."""
    sources = [node for node in ancestors(upstream.flow.graph, upstream.id) if isinstance(node, Source)]
    return {source.markers.period if isinstance(source.markers, EventTime) else None for source in sources}


def period_of(upstream: Stream[Any], given: int | None = None) -> int:
    """The period of the markers of a stream in microseconds. ``given``: what the author says of markers in band."""
    found = periods_of(upstream)
    known = sorted(period for period in found if period is not None)
    if len(known) > 1:
        raise UsageError(
            "TT121",
            f"the sources upstream send markers every {' and '.join(map(_seconds, known))}: their blocks are not of one length",
            fix="give all sources every(seconds=...) of one period",
        )
    if None in found and given is None:
        raise UsageError(
            "TT121",
            "a source upstream sends its markers in band: it is not known which of them end a window",
            fix="pass period= (seconds) if they are regular, or use every(seconds=...)",
        )
    if known and given not in (None, known[0]):
        raise UsageError(
            "TT121",
            f"period is {_seconds(given or 0)}, and the sources upstream send markers every {_seconds(known[0])}",
            fix="leave period= out",
        )
    return known[0] if given is None else given
