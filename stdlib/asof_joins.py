"""The join of each left item with the right item whose time is nearest to its own, on one side of it or on both.

What it promises about items in different blocks: see :mod:`tracetypes.stdlib.joins`.
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
from tracetypes.latest import Latest
from tracetypes.markers import Marker, Span, Time, TimeUnit
from tracetypes.nodes import RowPosition
from tracetypes.sort_keys import Orderable
from tracetypes.stdlib.interval_joins import Held
from tracetypes.stdlib.join_kinds import how_of
from tracetypes.stdlib.joins import Either, FromLeft, FromRight, InOrder, Joined, Times, by_time, order_of, time_of
from tracetypes.stdlib.signatures import KeysOfTwoTypes
from tracetypes.stdlib.windows import seconds_as_micros
from tracetypes.templates import EmitValue, OpKeyedOrdered

__all__ = ["AsOf", "AsOfJoin", "AsOfJoinInOrder", "NearestJoin", "NearestJoinInOrder", "asof_join"]

K = TypeVar("K")
L = TypeVar("L")
A = TypeVar("A")
B = TypeVar("B")
E = TypeVar("E")
R = TypeVar("R")

_LEFT: Final[Any] = A
_RIGHT: Final[Any] = B

AsOfHow: TypeAlias = Literal["inner", "left", "full"]
Direction: TypeAlias = Literal["backward", "forward", "nearest"]


@attrs.frozen
class AsOf(Generic[A, B]):
    """A left item, and what was known on the right at its time; None when nothing was."""

    left: A
    right: B | None


Known: TypeAlias = tuple[int, B] | None
"""The latest right item and its time."""


@attrs.frozen
class _AsOfJoin(OpKeyedOrdered[K, E, R, Known[B]], Generic[K, E, R, B]):
    """See :func:`asof_join`: inner and left joins with the latest right item, which is the state. ``tolerance``: microseconds."""

    _word = "asof_join"

    forgets_idle = True

    times: Times[Any, B]
    tolerance: int | None = None
    how: Literal["inner", "left"] = "left"

    def type_arguments(self) -> Mapping[str, Any]:
        return {"R": _joined(self.how, _LEFT, _RIGHT)}

    def initial_state(self) -> Known[B]:
        return None

    def on_item(self, state: Known[B], key: K, value: Any, emit: EmitValue[R]) -> Known[B]:
        tell: Any = emit
        time = self.times.of(value)
        if isinstance(value, FromRight):
            return (time, value.value) if state is None or time >= state[0] else state
        if state is None or state[0] > time or (self.tolerance is not None and time - state[0] > self.tolerance):
            if self.how == "left":
                tell(AsOf(value.value, None))
        else:
            tell(AsOf(value.value, state[1]) if self.how == "left" else Joined(value.value, state[1]))
        return state

    def on_marker(self, state: Known[B], key: K, marker: Marker, emit: EmitValue[R]) -> Known[B]:
        if state is None or self.tolerance is None or marker.micros - state[0] <= self.tolerance:
            return state
        return None

    def next_due(self, state: Known[B], key: K) -> int | None:
        return None if state is None or self.tolerance is None else state[0] + self.tolerance + 1

    def _says(self) -> Latest[Any] | None:
        if type(self) not in (AsOfJoin, AsOfJoinInOrder):  # a subclass may do something else
            return None
        return Latest(FromLeft, AsOf if self.how == "left" else Joined, self.times.of, self.tolerance, how=self.how)


@attrs.frozen
class AsOfJoin(_AsOfJoin[K, Either[A, B], R, B], Generic[K, A, B, R]):
    """See :func:`asof_join`."""


@attrs.frozen
class AsOfJoinInOrder(_AsOfJoin[K, InOrder[A, B], R, B], Generic[K, A, B, R]):
    """See :func:`asof_join`: of a right stream that is ordered."""


Waiting: TypeAlias = tuple[list[tuple[int, A]], list[Held[B]]]
"""Left items that wait for their partner, with their times, and right items that may become partners; both sorted by time."""

_moment: Final = attrgetter("time")


@attrs.frozen
class _NearestJoin(OpKeyedOrdered[K, E, R, Waiting[Any, Any]], Generic[K, E, R]):
    """See :func:`asof_join`: joins that wait for right items, and full joins. ``tolerance``: microseconds."""

    _word = "asof_join"

    forgets_idle = True

    times: Times[Any, Any]
    tolerance: int | None
    how: AsOfHow
    direction: Direction
    strict: bool
    joined: Any

    def type_arguments(self) -> Mapping[str, Any]:
        return {"R": self.joined}

    def initial_state(self) -> Waiting[Any, Any]:
        return [], []

    def on_item(self, state: Waiting[Any, Any], key: K, value: Any, emit: EmitValue[R]) -> Waiting[Any, Any]:
        lefts, rights = state
        time = self.times.of(value)
        if isinstance(value, FromRight):
            insort(rights, Held(time, value.value, False), key=_moment)
        else:
            insort(lefts, (time, value.value), key=time_of)
        self._answer(state, None, emit)
        return state

    def on_marker(self, state: Waiting[Any, Any], key: K, marker: Marker, emit: EmitValue[R]) -> Waiting[Any, Any]:
        self._answer(state, marker.micros, emit)
        return state

    def _answer(self, state: Waiting[Any, Any], marker: int | None, emit: EmitValue[R]) -> None:
        """Emit left items whose partner is certain, then right items that never had one. ``marker``: no item of an earlier time
        comes any more; None: not said."""
        lefts, rights = state
        tell: Any = emit
        waiting = []
        for time, left in lefts:
            due = self._due(time, rights)
            if due is not None and (due == 0 or (marker is not None and due <= marker)):
                partner = self._partner(time, rights)
                if partner is not None:
                    partner.paired = True
                    tell((AsOf if self.how == "left" else Joined)(left, partner.value))
                elif self.how == "left":
                    tell(AsOf(left, None))
                elif self.how == "full":
                    tell(Joined(left, None))
            else:
                waiting.append((time, left))
        lefts[:] = waiting
        gone = self._gone(lefts, rights, marker)
        if self.how == "full":
            for right in rights[:gone]:
                if not right.paired:
                    tell(Joined(None, right.value))
        del rights[:gone]

    def _around(self, time: int, rights: list[Held[Any]]) -> tuple[Held[Any] | None, Held[Any] | None]:
        """The last right item before a left one and the first after it, whatever their distance. At its own time they count as
        before it, or, for ``"forward"``, as after it."""
        if self.strict:
            end, start = bisect_left(rights, time, key=_moment), bisect_right(rights, time, key=_moment)
        else:
            end = start = (bisect_left if self.direction == "forward" else bisect_right)(rights, time, key=_moment)
        before = rights[end - 1] if end and self.direction != "forward" else None
        after = rights[start] if start < len(rights) and self.direction != "backward" else None
        return before, after

    def _partner(self, time: int, rights: list[Held[Any]]) -> Held[Any] | None:
        """The nearest of both within the tolerance; of equally near ones that before."""
        near = [one for one in self._around(time, rights) if one is not None]
        best = min(near, key=lambda one: abs(one.time - time), default=None)
        if best is None or (self.tolerance is not None and abs(best.time - time) > self.tolerance):
            return None
        return best

    def _due(self, time: int, rights: list[Held[Any]]) -> int | None:
        """The first marker that makes the partner of a left item certain: 0 if it is, None if no marker does."""
        before, after = self._around(time, rights)
        if self.direction == "backward" or after is not None or (before is not None and before.time == time):
            return 0
        limit = None if self.tolerance is None else self.tolerance + 1
        if before is not None and (limit is None or time - before.time < limit):
            limit = time - before.time
        return None if limit is None else time + limit

    def _gone(self, lefts: list[tuple[int, Any]], rights: list[Held[Any]], marker: int | None) -> int:
        """How many right items, the first ones, are no partner of an item that waits or comes."""
        count = len(rights)
        if self.direction != "forward":
            # The last one may be that of items that come, until the tolerance is over.
            if count and not (
                marker is not None and self.tolerance is not None and marker - rights[-1].time > self.tolerance
            ):
                count -= 1
            if lefts:  # the first that waits has the last one before it
                place = (bisect_left if self.strict else bisect_right)(rights, lefts[0][0], key=_moment)
                count = min(count, max(place - 1, 0))
        return count

    def linger(self) -> dt.timedelta:
        return dt.timedelta(microseconds=0 if self.tolerance is None else self.tolerance + 1)

    def next_due(self, state: Waiting[Any, Any], key: K) -> int | None:
        lefts, rights = state
        due = [one for time, _ in lefts if (one := self._due(time, rights)) is not None]
        if rights and not lefts and self.tolerance is not None:
            due.append(rights[-1].time + self.tolerance + 1)
        return min(due, default=None)


@attrs.frozen
class NearestJoin(_NearestJoin[K, Either[A, B], R], Generic[K, A, B, R]):
    """See :func:`asof_join`."""


@attrs.frozen
class NearestJoinInOrder(_NearestJoin[K, InOrder[A, B], R], Generic[K, A, B, R]):
    """See :func:`asof_join`: of a right stream that is ordered."""


class Nearness(TypedDict, Generic[A, B]):
    """What :func:`asof_join` takes as near."""

    left_time: Callable[[A], Time]
    right_time: Callable[[B], Time]
    tolerance: NotRequired[Span | None]
    unit: NotRequired[TimeUnit]
    direction: NotRequired[Direction]
    strict: NotRequired[bool]


@overload
def asof_join(
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["left"] = "left",
    order: Callable[[B], Orderable] | None = None,
    **near: Unpack[Nearness[A, B]],
) -> Stream[O[K, AsOf[A, B]]]: ...
@overload
def asof_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["inner"],
    order: Callable[[B], Orderable] | None = None,
    **near: Unpack[Nearness[A, B]],
) -> Stream[O[K, Joined[A, B]]]: ...
@overload
def asof_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["full"],
    order: Callable[[B], Orderable] | None = None,
    **near: Unpack[Nearness[A, B]],
) -> Stream[O[K, Joined[A | None, B | None]]]: ...
@overload
def asof_join(
    left: Stream[U[K, A]],
    right: Stream[O[K, B]],
    *,
    how: Literal["left"] = "left",
    order: RowPosition,
    **near: Unpack[Nearness[A, B]],
) -> Stream[O[K, AsOf[A, B]]]: ...
@overload
def asof_join(
    left: Stream[U[K, A]],
    right: Stream[O[K, B]],
    *,
    how: Literal["inner"],
    order: RowPosition,
    **near: Unpack[Nearness[A, B]],
) -> Stream[O[K, Joined[A, B]]]: ...
@overload
def asof_join(
    left: Stream[U[K, A]],
    right: Stream[O[K, B]],
    *,
    how: Literal["full"],
    order: RowPosition,
    **near: Unpack[Nearness[A, B]],
) -> Stream[O[K, Joined[A | None, B | None]]]: ...
@overload
def asof_join(
    left: Stream[U[K, A]],
    right: Stream[U[L, B]],
    *,
    how: AsOfHow = "left",
    order: Callable[[B], Orderable] | None = None,
    **near: Unpack[Nearness[A, B]],
) -> Stream[KeysOfTwoTypes[K, L]]: ...  # type: ignore[type-var]
def asof_join(
    left: Stream[U[K, A]],
    right: Stream[U[Any, B]],
    *,
    left_time: Callable[[A], Time],
    right_time: Callable[[B], Time],
    tolerance: Span | None = None,
    unit: TimeUnit = "s",
    direction: Direction = "backward",
    strict: bool = False,
    how: AsOfHow = "left",
    order: Callable[[B], Orderable] | RowPosition | None = None,
) -> Stream[Any]:
    """Each left item with the latest right item of its key at or before its time; with None when there is none.

    ``direction``: ``"backward"`` (that), ``"forward"``: the earliest right item at or after its time, ``"nearest"``: the nearer
    of both, and of equally near ones that before. ``strict``: right items of the very time of the left one do not count.
    ``tolerance`` (seconds or a timedelta): a right item that is farther away is none.

    ``how``: ``"left"`` emits ``AsOf``, also with None. ``"inner"`` emits ``Joined`` of left items with a partner. ``"full"``
    emits ``Joined`` of all left items, and of right items that are no partner of any.

    Of several right items of one time the last by ``order`` counts, or, for ``"forward"`` and after the left one for
    ``"nearest"``, the first: ``order`` is a function of the value, such as a sequence number, or
    :data:`~tracetypes.ROW_POSITION` for their place in an ordered stream. Without it, and where it is equal, the canonical order
    of values decides. ``left_time``, ``right_time`` and ``unit``: as ``time`` and ``unit`` of :func:`tracetypes.every`.

    With ``"backward"`` left items are emitted in their own block, in the order of their times. With the others a left item waits,
    and is emitted when its partner is certain: when a right item of its time or later comes, in the block of that; otherwise at
    the first marker behind which none comes that is near enough. That is the first marker more than the tolerance behind it, or,
    for ``"nearest"``, the first one that is as far behind it as the right item before it. A right item without a partner
    (``"full"``) is emitted when it is certain that it has none: when a newer one has come and no left item waits for it, or at
    the first marker more than the tolerance behind it; with ``"forward"`` when it comes. What is emitted at once comes in this
    order: left items by their times, then right items. What is promised about items in different blocks: see
    :mod:`tracetypes.stdlib.joins`.

    ``"nearest"`` and ``"full"`` need a tolerance, and ``"forward"`` unless it is ``"inner"``: otherwise items wait for ever.

    Raises :class:`UsageError` ``TT121`` for that, for a negative tolerance, another ``direction`` or ``how``, an ``order`` that
    is no function, or sources of different periods.

    >>> flow, markers = Dataflow("joined"), every(seconds=10, time=lambda time: time)
    >>> left = flow.source("left", U[str, int], markers=markers)
    >>> right = flow.source("right", U[str, int], markers=markers)
    >>> known = asof_join(left, right, left_time=lambda time: time, right_time=lambda time: time)
    >>> flow.sink("known", known)
    >>> rows = {"left": [("a", 3), ("a", 12)], "right": [("a", 1), ("a", 4), ("a", 11), ("b", 12)]}
    >>> [item.value for item in interpret_rows(check(flow), rows)[0]["known"].items if isinstance(item, Item)]
    [AsOf(left=3, right=1), AsOf(left=12, right=11)]
    """
    how_of(how, get_args(AsOfHow))
    if direction not in get_args(Direction):
        known = ", ".join(map(repr, get_args(Direction)))
        raise UsageError("TT121", f"asof_join was given direction={direction!r}", fix=f"use one of {known}")
    if not isinstance(strict, bool):
        raise UsageError("TT121", f"asof_join was given strict={strict!r}", fix="pass strict=True, or leave it out")
    within = None if tolerance is None else seconds_as_micros("tolerance", tolerance, 1 if strict else 0)
    if within is None and (how == "full" or direction == "nearest" or (direction == "forward" and how == "left")):
        raise UsageError(
            "TT121",
            f"asof_join was given direction={direction!r} and how={how!r} without a tolerance: items would wait for ever",
            fix='pass tolerance=, in seconds, or how="inner" with direction "forward" or "backward"',
        )
    side: Any = order_of("asof_join", order)
    op: Any
    if direction == "backward" and how != "full":
        # An item of the very time is one that comes a microsecond later.
        times = Times(left_time, right_time, unit, side, int(strict))
        shorter = within if within is None or not strict else within - 1
        op = (AsOfJoinInOrder if times.by_position else AsOfJoin)(times, shorter, how)
    else:
        times = Times(left_time, right_time, unit, side, left_first=strict or direction == "forward")
        joined = _joined(how, *(Any if edge is None else edge.value for edge in (edge_of(left), edge_of(right))))
        op = (NearestJoinInOrder if times.by_position else NearestJoin)(times, within, how, direction, strict, joined)
    return extend(by_time(left, right, times, "asof_join"), op)


def _joined(how: AsOfHow, left: Any, right: Any) -> Any:
    """The type of what is emitted."""
    as_of: Any = AsOf
    joined: Any = Joined
    match how:
        case "left":
            return as_of[left, right]
        case "inner":
            return joined[left, right]
        case "full":
            return joined[left | None, right | None]
