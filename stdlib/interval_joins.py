"""The join of two streams by key and bounds on the times of both items.

What it promises about items in different blocks: see :mod:`tracetypes.stdlib.joins`. An item that comes after a marker which is
newer than itself may be emitted as one without a partner, although it had one that was forgotten.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final, Generic, Literal, NotRequired, TypeAlias, TypedDict, TypeVar, Unpack, get_args, overload

import attrs

from tracetypes.check import edge_of
from tracetypes.edges import O, U
from tracetypes.errors import UsageError
from tracetypes.graph import Stream, extend
from tracetypes.markers import Marker, Span, Time, TimeUnit
from tracetypes.near import Near
from tracetypes.stdlib.join_kinds import How, how_of, result_of
from tracetypes.stdlib.joins import Either, FromLeft, IntervalJoin, Joined, Times, by_time, time_of
from tracetypes.stdlib.signatures import KeysOfTwoTypes
from tracetypes.stdlib.windows import seconds_as_micros
from tracetypes.templates import EmitValue, OpKeyedOrdered

__all__ = ["Held", "IntervalSemiJoin", "OuterIntervalJoin", "interval_join"]

K = TypeVar("K")
L = TypeVar("L")
V = TypeVar("V")
A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")

@attrs.define
class Held(Generic[V]):
    """An item that may still find a partner. ``paired``: it has found one."""

    time: int
    value: V
    paired: bool


_moment: Final = attrgetter("time")

HeldSides: TypeAlias = tuple[list[Held[A]], list[Held[B]]]
"""Left and right items that may still find a partner, sorted by time."""


@attrs.frozen
class OuterIntervalJoin(OpKeyedOrdered[K, Either[A, B], R, HeldSides[A, B]]):
    """See :func:`interval_join`: left, right and full joins. The state holds what may still find a partner. An item that has
    found none is emitted at the marker that removes it."""

    _word = "interval_join"

    forgets_idle = True

    times: Times[A, B]
    before: int
    after: int
    how: How
    joined: Any

    def type_arguments(self) -> Mapping[str, Any]:
        return {"R": self.joined}

    def initial_state(self) -> HeldSides[A, B]:
        return [], []

    def on_item(self, state: HeldSides[A, B], key: K, value: Either[A, B], emit: EmitValue[R]) -> HeldSides[A, B]:
        tell: Any = emit
        time = self.times.of(value)
        is_left = isinstance(value, FromLeft)
        own: Any = state[0 if is_left else 1]
        others: Any = state[1 if is_left else 0]
        least, most = (time - self.before, time + self.after) if is_left else (time - self.after, time + self.before)
        partners = others[bisect_left(others, least, key=_moment) : bisect_right(others, most, key=_moment)]
        for one in partners:
            one.paired = True
            tell(Joined(value.value, one.value) if is_left else Joined(one.value, value.value))
        insort(own, Held(time, value.value, bool(partners)), key=_moment)
        return state

    def on_marker(self, state: HeldSides[A, B], key: K, marker: Marker, emit: EmitValue[R]) -> HeldSides[A, B]:
        tell: Any = emit
        lefts, rights = state
        old_lefts = bisect_left(lefts, marker.micros - self.after, key=_moment)
        old_rights = bisect_left(rights, marker.micros - self.before, key=_moment)
        if self.how != "right":
            for left in lefts[:old_lefts]:
                if not left.paired:
                    tell(Joined(left.value, None))
        if self.how != "left":
            for right in rights[:old_rights]:
                if not right.paired:
                    tell(Joined(None, right.value))
        del lefts[:old_lefts]
        del rights[:old_rights]
        return state

    def linger(self) -> dt.timedelta:
        waits = {"left": self.after, "right": self.before}.get(self.how, max(self.before, self.after))
        return dt.timedelta(microseconds=max(waits, 0) + 1)

    def next_due(self, state: HeldSides[A, B], key: K) -> int | None:
        lefts, rights = state
        due = [one.time + self.after + 1 for one in lefts[:1]] + [one.time + self.before + 1 for one in rights[:1]]
        return min(due, default=None)

    def _says(self) -> Near[Any] | None:
        if type(self) is not OuterIntervalJoin:  # a subclass may do something else
            return None
        return Near(FromLeft, Joined, Held, self.times.of, self.before, self.after, self.how)


LeftsAndTimes: TypeAlias = tuple[list[tuple[int, A]], list[int]]
"""Left items without a partner so far, with their times, and the times of right items; both sorted."""


@attrs.frozen
class IntervalSemiJoin(OpKeyedOrdered[K, Either[A, B], A, LeftsAndTimes[A]]):
    """See :func:`interval_join`: semi and anti joins. The state holds left items that have found no partner, and the times of
    right items."""

    _word = "interval_join"

    forgets_idle = True

    times: Times[A, B]
    before: int
    after: int
    how: How

    def initial_state(self) -> LeftsAndTimes[A]:
        return [], []

    def on_item(self, state: LeftsAndTimes[A], key: K, value: Either[A, B], emit: EmitValue[A]) -> LeftsAndTimes[A]:
        lefts, rights = state
        time = self.times.of(value)
        if not isinstance(value, FromLeft):
            first = bisect_left(lefts, time - self.after, key=time_of)
            last = bisect_right(lefts, time + self.before, key=time_of)
            if self.how == "semi":
                for _, left in lefts[first:last]:
                    emit(left)
            del lefts[first:last]
            insort(rights, time)
        elif bisect_left(rights, time - self.before) == bisect_right(rights, time + self.after):
            insort(lefts, (time, value.value), key=time_of)
        elif self.how == "semi":
            emit(value.value)
        return state

    def on_marker(self, state: LeftsAndTimes[A], key: K, marker: Marker, emit: EmitValue[A]) -> LeftsAndTimes[A]:
        lefts, rights = state
        old = bisect_left(lefts, marker.micros - self.after, key=time_of)
        if self.how == "anti":
            for _, left in lefts[:old]:
                emit(left)
        del lefts[:old]
        del rights[: bisect_left(rights, marker.micros - self.before)]
        return state

    def linger(self) -> dt.timedelta:
        return dt.timedelta(microseconds=max(self.after, 0) + 1 if self.how == "anti" else 0)

    def next_due(self, state: LeftsAndTimes[A], key: K) -> int | None:
        lefts, rights = state
        due = [time + self.after + 1 for time, _ in lefts[:1]] + [time + self.before + 1 for time in rights[:1]]
        return min(due, default=None)

    def _says(self) -> Near[Any] | None:
        if type(self) is not IntervalSemiJoin:  # a subclass may do something else
            return None
        return Near(FromLeft, Joined, tuple, self.times.of, self.before, self.after, self.how)


class Interval(TypedDict, Generic[A, B]):
    """The interval of :func:`interval_join`."""

    before: Span
    after: Span
    left_time: Callable[[A], Time]
    right_time: Callable[[B], Time]
    unit: NotRequired[TimeUnit]


@overload
def interval_join(
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["inner"] = "inner",
    **interval: Unpack[Interval[A, B]],
) -> Stream[O[K, Joined[A, B]]]: ...


@overload
def interval_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["left"],
    **interval: Unpack[Interval[A, B]],
) -> Stream[O[K, Joined[A, B | None]]]: ...


@overload
def interval_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["right"],
    **interval: Unpack[Interval[A, B]],
) -> Stream[O[K, Joined[A | None, B]]]: ...


@overload
def interval_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["full"],
    **interval: Unpack[Interval[A, B]],
) -> Stream[O[K, Joined[A | None, B | None]]]: ...


@overload
def interval_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["semi", "anti"],
    **interval: Unpack[Interval[A, B]],
) -> Stream[O[K, A]]: ...


@overload
def interval_join(
    left: Stream[U[K, A]],
    right: Stream[U[L, B]],
    *,
    how: How = "inner",
    **interval: Unpack[Interval[A, B]],
) -> Stream[KeysOfTwoTypes[K, L]]: ...  # type: ignore[type-var]


def interval_join(
    left: Stream[U[K, A]],
    right: Stream[U[Any, B]],
    *,
    how: How = "inner",
    before: Span,
    after: Span,
    left_time: Callable[[A], Time],
    right_time: Callable[[B], Time],
    unit: TimeUnit = "s",
) -> Stream[Any]:
    """A left and a right item of one key are partners where the right one's time lies within ``[t - before, t + after]`` of the
    left one's time ``t``, both ends included.

    ``how`` and the types are those of :func:`~tracetypes.stdlib.window_join`, but the stream has an order. ``before`` and
    ``after``: seconds or timedeltas; one of them may be negative, so that the interval lies to one side. ``left_time``,
    ``right_time`` and ``unit``: as ``time`` and ``unit`` of :func:`tracetypes.every`. What is promised about items in different
    blocks: see the module.

    A pair, and a left item of ``"semi"``, is emitted in the block of the later item, in the order in which the later items come.
    An item without a partner is emitted at the first marker by which none can come any more, ``after`` behind a left item and
    ``before`` behind a right one, also behind the end of the input: left before right ones, each in the order of their times.

    The state of a key is what may still find a partner: left items of ``after``, right items of ``before``. A key without any is
    forgotten.

    Raises :class:`UsageError` ``TT121`` for another ``how``, an empty interval and sources of different periods.

    >>> flow, markers = Dataflow("joined"), every(seconds=10, time=lambda time: time)
    >>> left = flow.source("left", U[str, int], markers=markers)
    >>> right = flow.source("right", U[str, int], markers=markers)
    >>> second = lambda time: time
    >>> near = interval_join(left, right, how="left", before=2, after=1, left_time=second, right_time=second)
    >>> flow.sink("near", near)
    >>> rows = {"left": [("a", 3), ("a", 12), ("a", 19)], "right": [("a", 1), ("a", 4), ("a", 11), ("b", 12)]}
    >>> found = interpret_rows(check(flow), rows)[0]["near"].items
    >>> [(one.value.left, one.value.right) if isinstance(one, Item) else one for one in found]
    [(3, 1), (3, 4), #10, (12, 11), #20, (19, None), #30]
    """
    how_of(how, get_args(How))
    back, ahead = (seconds_as_micros(name, one, -(2**62)) for name, one in (("before", before), ("after", after)))
    if back + ahead < 0:
        raise UsageError(
            "TT121",
            f"no time lies within [{-back / 1_000_000:+g} s, {ahead / 1_000_000:+g} s]",
            fix="give before and after whose sum is not negative",
        )
    times = Times(left_time, right_time, unit)
    op: Any
    match how:
        case "inner":
            op = IntervalJoin(times, back, ahead)
        case "semi" | "anti":
            op = IntervalSemiJoin(times, back, ahead, how)
        case _:
            types = (edge_of(left), edge_of(right))
            joined = result_of(how, *(Any if edge is None else edge.value for edge in types))
            op = OuterIntervalJoin(times, back, ahead, how, joined)
    return extend(by_time(left, right, times, "interval_join"), op)
