"""Windows of time over an :class:`~tracetypes.stdlib.aggregates.Aggregate`, tumbling and sliding, made of **panes**.

A pane is the aggregate of one block of a key, and a marker ends it. So size, slide and offset of a window are multiples of the
period of the markers: windows of 60 s every 25 s need a marker every 5 s, their greatest common divisor, or more often.
Windows begin at the multiples of the slide since the epoch, plus the offset. A pane is computed once, and all windows that it
belongs to share it (Li et al., "No Pane, No Gain", SIGMOD Record 2005).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, overload

from tracetypes.edges import U
from tracetypes.errors import UsageError
from tracetypes.graph import Stream, extend
from tracetypes.markers import Span
from tracetypes.stdlib.aggregates import Aggregate
from tracetypes.stdlib.open_aggregates import over_aggregates
from tracetypes.stdlib.panes import (
    MOST_PANES,
    Invertible,
    Method,
    SlidingPanes,
    SlidingSubtracting,
    SlidingTwoStacks,
)
from tracetypes.stdlib.periods import multiples_of, period_of
from tracetypes.stdlib.signatures import KeyedOperator
from tracetypes.stdlib.windows import Windowed, seconds_as_micros, whole

__all__ = ["sliding", "tumbling"]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
W = TypeVar("W")

_METHODS: Mapping[Method, Callable[..., Any]] = {
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


@over_aggregates
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
    return _windows(aggregate, panes, size, slide, offset, period, ends, method, "tumbling")


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


@over_aggregates
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
    return _windows(aggregate, panes, size, slide, offset, period, ends, method, "sliding")


def _windows(
    aggregate: Aggregate[V, A, Any],
    panes: int | None,
    size: Span | None,
    slide: Span | None,
    offset: Span,
    period: Span | None,
    ends: bool,
    method: Method | None,
    word: str,
) -> KeyedOperator[V, Any]:
    if (panes is None) == (size is None):
        problem = "neither panes nor size is given" if panes is None else "both panes and size are given"
        raise UsageError("TT121", problem, fix="give one of them")
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
        op: Any = _METHODS[how](aggregate, length, step, every, ends, spans["offset"], word=word)
        return extend(upstream, op)

    return place
