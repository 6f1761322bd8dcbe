"""Joins of two streams in windows: the items of a key that lie in one window are partners.

Both streams are tagged and merged, and a window collects the items of each side. So the answer is a function of the bags of items
in each window: no order is needed, and none comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Generic, Literal, TypeAlias, TypedDict, TypeVar, Unpack, get_args, overload

import attrs

from tracetypes.block_joins import BlockJoin, JoinedBlock
from tracetypes.check import edge_of
from tracetypes.edges import U
from tracetypes.errors import UsageError
from tracetypes.graph import Stream, extend, sort
from tracetypes.markers import Marker, Span, Time, TimeUnit
from tracetypes.own_windows import OwnWindows, PairsOfWindows
from tracetypes.self_description import SelfDescribing
from tracetypes.stdlib.aggregates import Aggregate
from tracetypes.stdlib.bags import Bag
from tracetypes.stdlib.item_windows import TimeWindow
from tracetypes.stdlib.join_kinds import How, how_of, result_of
from tracetypes.stdlib.joins import Either, FromLeft, FromRight, Joined, Times, one_period, tagged
from tracetypes.stdlib.panes import SlidingPanes
from tracetypes.stdlib.periods import multiples_of, period_of
from tracetypes.stdlib.signatures import KeysOfTwoTypes
from tracetypes.stdlib.windows import seconds_as_micros, whole
from tracetypes.templates import Emit, EmitValue

__all__ = [
    "OwnTimeJoin",
    "Sides",
    "SidesInOrder",
    "WindowJoin",
    "sides_of",
    "sides_together",
    "window_join",
]

K = TypeVar("K")
L = TypeVar("L")
A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")

Both: TypeAlias = tuple[Bag[A], Bag[B]]
"""The values of the left and of the right items."""


def matches(how: How, lefts: Iterable[A], rights: Bag[B] | list[B]) -> Iterable[Any]:
    """What a join emits for all items of a key that are partners."""
    match how:
        case "semi":
            return lefts if rights else ()
        case "anti":
            return () if rights else lefts
        case _:
            pass
    on_the_left = list(lefts)
    if on_the_left and rights:
        return [Joined(left, right) for right in rights for left in on_the_left]
    if how in ("left", "full") and on_the_left:
        return [Joined(left, None) for left in on_the_left]
    if how in ("right", "full") and rights:
        return [Joined(None, right) for right in rights]
    return ()


def sides_of(value: Either[A, B]) -> Both[A, B]:
    """The bags of one item."""
    return (Bag((value.value,)), Bag()) if isinstance(value, FromLeft) else (Bag(), Bag((value.value,)))


def sides_together(a: Both[A, B], b: Both[A, B]) -> Both[A, B]:
    """The bags of two groups of items."""
    return a[0] | b[0], a[1] | b[1]


@attrs.frozen
class Sides(Aggregate[Either[A, B], Both[A, B], Any]):
    """Collects the values of both sides."""

    _word = "window_join"
    _in_python = "keeps all items of a window"

    def lift(self, value: Either[A, B]) -> Both[A, B]:
        return sides_of(value)

    def identity(self) -> Both[A, B]:
        return Bag(), Bag()

    def combine(self, a: Both[A, B], b: Both[A, B]) -> Both[A, B]:
        return sides_together(a, b)

    def result(self, agg: Both[A, B]) -> Any:
        return agg


Lists: TypeAlias = tuple[list[A], list[B]]
"""The values of the left and of the right items in the order of the stream."""


@attrs.frozen
class SidesInOrder(Aggregate[Either[A, B], Lists[A, B], Any]):
    """The same in the order of the stream, for an operator whose output has an order."""

    _word = "window_join"
    _in_python = "keeps all items of a window"

    def lift(self, value: Either[A, B]) -> Lists[A, B]:
        return ([value.value], []) if isinstance(value, FromLeft) else ([], [value.value])

    def identity(self) -> Lists[A, B]:
        return [], []

    def combine(self, a: Lists[A, B], b: Lists[A, B]) -> Lists[A, B]:
        return a[0] + b[0], a[1] + b[1]

    def result(self, agg: Lists[A, B]) -> Any:
        return agg

    def fold(self, agg: Lists[A, B], values: Sequence[Either[A, B]]) -> Lists[A, B]:
        lefts, rights = agg  # the operator's own: a copy for each block would take time with the square of the window
        for value in values:
            if isinstance(value, FromLeft):
                lefts.append(value.value)
            else:
                rights.append(value.value)
        return agg


@attrs.frozen
class WindowJoin(SlidingPanes[K, Either[A, B], R, Both[A, B]]):
    """See :func:`window_join`. The state is the items of the window, block by block."""

    _in_python = "keeps all items of a window"

    how: How = "inner"
    joined: Any = None

    def _stands_for(self) -> SelfDescribing:
        return self.aggregate

    def _name(self) -> str:
        return "window_join"

    def type_arguments(self) -> Mapping[str, Any]:
        return {"R": self.joined}

    def on_marker(
        self, new_state: tuple[tuple[int, Both[A, B]], ...], key: K, marker: Marker, emit: Emit[K, R]
    ) -> None:
        if self.period is not None:
            start = marker.micros - self.panes * self.period
            if (start - self.offset) % (self.slide * self.period):
                return
        lefts, rights = self.window(new_state)[1]
        for one in matches(self.how, lefts, rights):
            emit(key, one)

    def _joins(self) -> BlockJoin | None:
        if type(self) is not WindowJoin or self.aggregate != Sides():  # another one may do something else
            return None
        return BlockJoin(
            left=FromLeft,
            right=FromRight,
            gives=Joined,
            how=self.how,
            reach=self.panes - 1,
            windows=True,
            grid=self._grid(),
            sides=itemgetter(1),
            blocks=self._blocks_of,
            state=self._state_of,
        )

    def _blocks_of(self, state: tuple[tuple[int, Both[A, B]], ...]) -> list[JoinedBlock]:
        return [JoinedBlock(self.panes - 1 - at, *sides) for at, (count, sides) in enumerate(state) if count]

    def _state_of(self, blocks: Sequence[JoinedBlock]) -> tuple[tuple[int, Both[A, B]], ...]:
        panes = [self.identity()] * self.panes
        for one in blocks:
            lefts, rights = tuple(one.lefts), tuple(one.rights)
            panes[self.panes - 1 - one.age] = len(lefts) + len(rights), (Bag(lefts), Bag(rights))
        return tuple(panes)


@attrs.frozen
class OwnTimeJoin(TimeWindow[K, Either[A, B], R, Lists[A, B]]):
    """See :func:`window_join`, with times. The state is the items of the open windows."""

    _word = "window_join"

    how: How = "inner"
    joined: Any = None

    def type_arguments(self) -> Mapping[str, Any]:
        return {"R": self.joined}

    def answer(self, number: int, agg: Lists[A, B], emit: EmitValue[R]) -> None:
        for one in matches(self.how, *agg):
            emit(one)

    def _says(self) -> OwnWindows[Either[A, B]] | None:
        if type(self) is not OwnTimeJoin or self.aggregate != SidesInOrder():  # another one may do something else
            return None
        return OwnWindows(
            aggregate=self.aggregate,
            number=self.number_of,
            answer=self.answer,
            answer_result=self.answer_result,
            size=self.size,
            offset=self.offset,
            grace=self.grace,
            values=_tagged,
            pairs=PairsOfWindows(left=FromLeft, gives=Joined, how=self.how),
        )


def _tagged(agg: Lists[A, B]) -> list[Either[A, B]]:
    lefts, rights = agg
    return [*map(FromLeft, lefts), *map(FromRight, rights)]


class WindowsOfTwo(TypedDict, Generic[A, B], total=False):
    """The windows of :func:`window_join`."""

    size: Span | None
    panes: int | None
    slide: Span | None
    offset: Span
    period: Span | None
    left_time: Callable[[A], Time] | None
    right_time: Callable[[B], Time] | None
    unit: TimeUnit
    grace: Span


@overload
def window_join(
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["inner"] = "inner",
    **windows: Unpack[WindowsOfTwo[A, B]],
) -> Stream[U[K, Joined[A, B]]]: ...


@overload
def window_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["left"],
    **windows: Unpack[WindowsOfTwo[A, B]],
) -> Stream[U[K, Joined[A, B | None]]]: ...


@overload
def window_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["right"],
    **windows: Unpack[WindowsOfTwo[A, B]],
) -> Stream[U[K, Joined[A | None, B]]]: ...


@overload
def window_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["full"],
    **windows: Unpack[WindowsOfTwo[A, B]],
) -> Stream[U[K, Joined[A | None, B | None]]]: ...


@overload
def window_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["semi", "anti"],
    **windows: Unpack[WindowsOfTwo[A, B]],
) -> Stream[U[K, A]]: ...


@overload
def window_join(
    left: Stream[U[K, A]],
    right: Stream[U[L, B]],
    *,
    how: How = "inner",
    **windows: Unpack[WindowsOfTwo[A, B]],
) -> Stream[KeysOfTwoTypes[K, L]]: ...  # type: ignore[type-var]


def window_join(
    left: Stream[U[K, A]],
    right: Stream[U[Any, B]],
    *,
    how: How = "inner",
    size: Span | None = None,
    panes: int | None = None,
    slide: Span | None = None,
    offset: Span = 0,
    period: Span | None = None,
    left_time: Callable[[A], Time] | None = None,
    right_time: Callable[[B], Time] | None = None,
    unit: TimeUnit = "s",
    grace: Span = 0,
) -> Stream[Any]:
    """The items of a key that lie in one window are partners. At the end of a window the join emits, for each key:

    ============  ===================================  ===========================================================
    ``how``       type of the values                   what
    ============  ===================================  ===========================================================
    ``"inner"``   ``Joined[A, B]``                     all pairs of a left and a right item
    ``"left"``    ``Joined[A, B | None]``              the same, and left items without a partner
    ``"right"``   ``Joined[A | None, B]``              the same, and right items without a partner
    ``"full"``    ``Joined[A | None, B | None]``       the same, and items of either side without a partner
    ``"semi"``    ``A``                                the left items with a partner, each once
    ``"anti"``    ``A``                                the left items without a partner
    ============  ===================================  ===========================================================

    ``size`` (seconds or a timedelta) or ``panes`` (blocks), ``offset`` and ``period``: windows as those of
    :func:`~tracetypes.stdlib.tumbling`; an item is in the window of its block. With ``slide`` windows overlap, as those of
    :func:`~tracetypes.stdlib.sliding`: a window begins every ``slide``, and each answers for itself, so that a pair comes out of
    every window that both items are in. With ``left_time``, ``right_time`` and ``unit`` an item is in the window of its own time
    instead; ``size``, ``offset`` and ``grace`` are those of :func:`~tracetypes.stdlib.time_window`, and windows do not overlap.
    When the input ends, the windows that are still open are answered.

    The state of a key is the items of its open windows. Where windows go by blocks, a key without any is forgotten.

    Raises :class:`UsageError` ``TT121`` for parameters that mean nothing and for sources of different periods, and ``TT125`` for
    windows that do not fit the period of the markers.

    >>> flow, markers = Dataflow("joined"), every(seconds=10, time=lambda time: time)
    >>> left = flow.source("left", U[str, int], markers=markers)
    >>> right = flow.source("right", U[str, int], markers=markers)
    >>> flow.sink("out", window_join(left, right, size=20, how="left"))
    >>> rows = {"left": [("a", 3), ("b", 12), ("a", 25)], "right": [("a", 11), ("c", 12)]}
    >>> found = interpret_rows(check(flow), rows)[0]["out"].items
    >>> [(one.value.left, one.value.right) if isinstance(one, Item) else one for one in found]
    [#10, (3, 11), (12, None), #20, #30, (25, None), #40]
    """
    how_of(how, get_args(How))
    if (panes is None) == (size is None):
        raise UsageError("TT121", "one of size and panes is needed", fix="give one of them")
    begin, types = seconds_as_micros("offset", offset, -(2**62)), (edge_of(left), edge_of(right))
    results: Any = result_of(how, *(Any if edge is None else edge.value for edge in types))
    one_period(left, right)
    op: Any
    if left_time is not None and right_time is not None:
        if size is None or period is not None or slide is not None:
            raise UsageError(
                "TT121",
                "windows by the items' own times have a size, and follow one another",
                fix="give size, no panes, no slide and no period; for windows that overlap leave the times out",
            )
        length, late = seconds_as_micros("size", size), seconds_as_micros("grace", grace, 0)
        times = Times(left_time, right_time, unit)
        op = OwnTimeJoin(SidesInOrder(), length, late, times.of, "us", False, begin, how, results)
        return extend(tagged(left, right, "window_join").through(sort(by=times.of)), op)
    if left_time is not None or right_time is not None or grace != 0:
        raise UsageError(
            "TT121", "one of left_time and right_time is missing", fix="give both, or neither and no grace"
        )
    both = tagged(left, right, "window_join")
    said_period = None if period is None else seconds_as_micros("period", period)
    length, step, every = _panes(both, size, panes, slide, begin, said_period)
    op = WindowJoin(Sides(), length, step, every, False, begin, how, results)
    return extend(both, op)


def _panes(
    both: Stream[Any], size: Span | None, panes: int | None, slide: Span | None, offset: int, period: int | None
) -> tuple[int, int, int | None]:
    """Size and slide of windows in blocks, and the period of the markers where it matters."""
    if size is not None:
        spans = {"size": seconds_as_micros("size", size)}
        if slide is not None:
            spans["slide"] = seconds_as_micros("slide", slide)
        every = period_of(both, period)
        multiples_of(every, {"offset": offset, **spans})
        return spans["size"] // every, spans.get("slide", spans["size"]) // every, every
    length: Any = panes
    whole("panes", length)
    step: Any = length if slide is None else slide
    whole("slide", step)
    if step == 1 and not offset:
        return length, step, None
    every = period_of(both, period)
    multiples_of(every, {"offset": offset})
    return length, step, every
