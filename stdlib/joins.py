"""What joins of two streams have in common, and the join of items whose times are near.

Joins by event time, such as :func:`~tracetypes.stdlib.asof_join` and :func:`~tracetypes.stdlib.interval_join`, merge the two
streams, sort each key and block by time (right before left at equal times) and run one ordered operator. What they promise rests
on the markers: no item of a time before ``t`` comes after marker ``#t``. This holds when the sources of both sides have
``every(...)`` of one period, with the times that the join is given. Then each item lies in the block of its time on either side,
and the answer is the join of the whole histories: of all left with all right items that were not late, in whatever block they
lie. Sources of different periods are refused. Where markers are in band, or the times are not those of the markers, an item may
come after a marker that is newer than itself. Then pairs of it with items that were already forgotten are missing; all pairs
that are emitted are right, but where a join chooses the nearest item, which may be nearer than one that is missing.

A pair is emitted when its second item comes. A key's state holds only what the future may still need, and is pruned at each
marker.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs

from tracetypes.check import edge_of
from tracetypes.edges import U
from tracetypes.errors import UsageError
from tracetypes.graph import Stream, extend, merge, sort
from tracetypes.markers import Marker, Time, TimeUnit, micros_from
from tracetypes.near import Near
from tracetypes.nodes import RowPosition
from tracetypes.schemas import show_type
from tracetypes.sort_keys import Orderable
from tracetypes.stdlib.annotations import function_or_none
from tracetypes.stdlib.periods import periods_of
from tracetypes.templates import Emit, EmitValue, OpKeyedOrdered, OpStateless

__all__ = [
    "Either",
    "FromLeft",
    "FromOrdered",
    "FromRight",
    "InOrder",
    "IntervalJoin",
    "Joined",
    "TagInOrder",
    "Times",
    "by_time",
    "one_period",
    "order_of",
    "tagged",
    "time_of",
]

K = TypeVar("K")
L = TypeVar("L")
V = TypeVar("V")
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
E = TypeVar("E")


@attrs.frozen
class FromLeft(Generic[A]):
    """An item of the left stream."""

    value: A


@attrs.frozen
class FromRight(Generic[B]):
    """An item of the right stream."""

    value: B


@attrs.frozen
class FromOrdered(FromRight[B]):
    """An item of a right stream that is ordered. ``position``: its place among those of its key and block."""

    position: int


@attrs.frozen
class Joined(Generic[A, B]):
    """Two items whose times lie close enough."""

    left: A
    right: B


Either: TypeAlias = FromLeft[A] | FromRight[B]
InOrder: TypeAlias = FromLeft[A] | FromOrdered[B]
_OWN: Final[Any] = V


def _either(left: Any, right: Any, of_right: Any = FromRight) -> Any:
    of_left: Any = FromLeft
    return of_left[left] | of_right[right]


@attrs.frozen
class Tag(OpStateless[K, V, K, R]):
    """Say of an item which stream it is from. ``side`` is :class:`FromLeft` or :class:`FromRight`, ``other`` the type of
    the values of the other stream, ``word`` the function that joins them, ``right`` the class of right items."""

    side: Any
    other: Any
    word: str = attrs.field(default="join", eq=False)
    right: Any = FromRight

    def _name(self) -> str:
        return self.word

    def type_arguments(self) -> Mapping[str, Any]:
        own = (_OWN, self.other) if self.side is FromLeft else (self.other, _OWN)
        return {"R": _either(*own, self.right)}

    def on_item(self, key: K, value: V, emit: Emit[K, R]) -> None:
        emit(key, self.side(value))


@attrs.frozen
class TagInOrder(OpKeyedOrdered[K, V, R, int]):
    """:class:`Tag` of an ordered right stream. The state counts the items of the key in the block. ``other``: the type of the
    values of the left stream."""

    other: Any
    word: str = attrs.field(default="join", eq=False)

    forgets_idle = True

    def _name(self) -> str:
        return self.word

    def type_arguments(self) -> Mapping[str, Any]:
        return {"R": _either(self.other, _OWN, FromOrdered)}

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: K, value: V, emit: EmitValue[Any]) -> int:
        emit(FromOrdered(value, state))
        return state + 1

    def on_marker(self, state: int, key: K, marker: Marker, emit: EmitValue[Any]) -> int:
        return 0


@attrs.frozen
class Times(Generic[A, B]):
    """Event time of the items of both sides in microseconds. ``order``: of right items of one time, if it is said; their position
    for :data:`ROW_POSITION`. ``right_later``: so many microseconds later are right items. ``left_first``: at equal times left
    items come before right ones."""

    left: Callable[[A], Time]
    right: Callable[[B], Time]
    unit: TimeUnit
    order: Callable[[B], Orderable] | RowPosition | None = None
    right_later: int = 0
    left_first: bool = False

    @property
    def by_position(self) -> bool:
        """Whether right items have a position."""
        return isinstance(self.order, RowPosition)

    def of(self, value: Either[A, B]) -> int:
        """Of an item of either side."""
        if isinstance(value, FromLeft):
            return micros_from(self.left(value.value), self.unit)
        return micros_from(self.right(value.value), self.unit) + self.right_later

    def __call__(self, value: Either[A, B]) -> tuple[Orderable, ...]:
        """The order in which joins need items: at equal times right before left or the other way round, and right items as
        :attr:`order` says."""
        place = self.of(value), isinstance(value, FromLeft) != self.left_first
        if self.order is None:
            return place
        if isinstance(value, FromLeft):
            return (*place, 0)
        return (*place, value.position if isinstance(value, FromOrdered) else self.order(value.value))  # type: ignore[operator]


time_of: Final = itemgetter(0)
"""Of an item that is held with its time."""

Sides: TypeAlias = tuple[list[tuple[int, A]], list[tuple[int, B]]]
"""Left and right items that may still find a partner, with their times, sorted by time."""


@attrs.frozen
class IntervalJoin(OpKeyedOrdered[K, Either[A, B], Joined[A, B], Sides[A, B]]):
    """The inner join of :func:`~tracetypes.stdlib.interval_join`. ``before`` and ``after``: microseconds. The state holds what
    may still find a partner; each item costs a binary search and its partners."""

    _word = "interval_join"

    forgets_idle = True

    times: Times[A, B]
    before: int
    after: int

    def initial_state(self) -> Sides[A, B]:
        return [], []

    def on_item(self, state: Sides[A, B], key: K, value: Either[A, B], emit: EmitValue[Joined[A, B]]) -> Sides[A, B]:
        lefts, rights = state
        time = self.times.of(value)
        if isinstance(value, FromLeft):
            first = bisect_left(rights, time - self.before, key=time_of)
            for _, right in rights[first : bisect_right(rights, time + self.after, key=time_of)]:
                emit(Joined(value.value, right))
            insort(lefts, (time, value.value), key=time_of)
        else:
            first = bisect_left(lefts, time - self.after, key=time_of)
            for _, left in lefts[first : bisect_right(lefts, time + self.before, key=time_of)]:
                emit(Joined(left, value.value))
            insort(rights, (time, value.value), key=time_of)
        return state

    def on_marker(self, state: Sides[A, B], key: K, marker: Marker, emit: EmitValue[Joined[A, B]]) -> Sides[A, B]:
        lefts, rights = state
        del lefts[: bisect_left(lefts, marker.micros - self.after, key=time_of)]
        del rights[: bisect_left(rights, marker.micros - self.before, key=time_of)]
        return state

    def next_due(self, state: Sides[A, B], key: K) -> int | None:
        lefts, rights = state
        due = [time + self.after + 1 for time, _ in lefts[:1]] + [time + self.before + 1 for time, _ in rights[:1]]
        return min(due, default=None)

    def _says(self) -> Near[Any] | None:
        if type(self) is not IntervalJoin:  # a subclass may do something else
            return None
        return Near(FromLeft, Joined, tuple, self.times.of, self.before, self.after, "inner")


def by_time(left: Stream[U[K, A]], right: Stream[U[Any, B]], times: Times[A, B], word: str) -> Stream[Any]:
    """Both streams, tagged and in the order of time."""
    one_period(left, right)
    return tagged(left, right, word, in_order=times.by_position).through(sort(by=times))


def order_of(caller: str, order: object) -> Any:
    """``order`` itself. Raises :class:`UsageError` ``TT121`` if it is no function."""
    return order if isinstance(order, RowPosition) else function_or_none(caller, order)


def one_period(left: Stream[Any], right: Stream[Any]) -> None:
    """Refuse sources of different periods."""
    periods = {period for stream in (left, right) for period in periods_of(stream) if period is not None}
    if len(periods) > 1:
        sizes = " and ".join(f"{period / 1_000_000:g} s" for period in sorted(periods))
        raise UsageError(
            "TT121",
            f"the sources of the two sides have markers every {sizes}: an item may come long after the markers of the other side",
            fix="give all sources every(seconds=...) of one period",
        )


def tagged(
    left: Stream[U[K, A]], right: Stream[U[Any, B]], word: str, *, in_order: bool = False
) -> Stream[U[K, Either[A, B]]]:
    """Both streams in one, each item with its side. ``word``: the function that joins them. ``in_order``: right items get their
    position, which the check refuses where they have no order. Raises :class:`UsageError` ``TT102`` for keys of two types."""
    keys = [edge.key for edge in (edge_of(left), edge_of(right)) if edge is not None]
    if len(keys) == 2 and keys[0] != keys[1]:
        raise UsageError(
            "TT102",
            f"{word}: the keys of the left stream are {show_type(keys[0])}, those of the right one {show_type(keys[1])}",
            fix="key both by values of one type, with key= of the source or .through(key_by(..., to=...))",
        )
    of_right = FromOrdered if in_order else FromRight
    sides: list[Stream[Any]] = []
    for side, stream, partner in ((FromLeft, left, right), (FromRight, right, left)):
        some: Any = stream
        edge = edge_of(partner)
        other: Any = Any if edge is None else edge.value
        op: Any = TagInOrder(other, word) if in_order and side is FromRight else Tag(side, other, word, of_right)
        sides.append(extend(some, op))
    return merge(*sides)
