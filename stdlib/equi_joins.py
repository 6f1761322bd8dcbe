"""A plain join by key over a bounded state.

Without a bound a join of two streams holds all that ever came. So one must be given: how many blocks, or how long, an item waits
for partners, or how many items of each side a key holds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, get_args, overload

import attrs

from tracetypes.block_joins import BlockJoin, JoinedBlock
from tracetypes.check import edge_of
from tracetypes.edges import O, U
from tracetypes.errors import UsageError
from tracetypes.graph import Stream, extend, sort
from tracetypes.last_items import LastItems
from tracetypes.markers import Marker, Span, Time, TimeUnit
from tracetypes.stdlib.bags import Bag
from tracetypes.stdlib.join_kinds import How, how_of, result_of
from tracetypes.stdlib.joins import Either, FromLeft, FromRight, Joined, Times, one_period, tagged
from tracetypes.stdlib.periods import multiples_of, period_of
from tracetypes.stdlib.signatures import KeysOfTwoTypes
from tracetypes.stdlib.window_joins import Both, sides_of, sides_together
from tracetypes.stdlib.windows import seconds_as_micros, whole
from tracetypes.templates import Emit, EmitValue, OpKeyedOrdered, OpKeyedUnordered

__all__ = ["EquiJoin", "LastItemsJoin", "Waiting", "equi_join"]

K = TypeVar("K")
L = TypeVar("L")
A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")

Found: TypeAlias = Literal["never", "now", "before"]
"""Whether the items of a block have found partners: at this marker, or at one before."""


@attrs.frozen
class Waiting:
    """The items of a key in one block. ``age``: how many blocks ago."""

    age: int
    lefts: Bag[Any]
    rights: Bag[Any]
    left_found: Found
    right_found: Found


def _found(before: Found, own: Bag[Any], others: bool) -> Found:
    if before == "never":
        return "now" if own and others else "never"
    return "before"


@attrs.frozen
class EquiJoin(OpKeyedUnordered[K, Either[A, B], K, R, tuple[Waiting, ...], Both[A, B]]):
    """See :func:`equi_join`. The state is the items of the last ``blocks`` blocks and of the current one, where there are any."""

    _word = "equi_join"
    _in_python = "keeps the items of blocks"

    forgets_idle = True

    blocks: int
    how: How = "inner"
    joined: Any = None

    def type_arguments(self) -> Mapping[str, Any]:
        return {"R": self.joined}

    def lift(self, key: K, value: Either[A, B]) -> Both[A, B]:
        return sides_of(value)

    def identity(self) -> Both[A, B]:
        return Bag(), Bag()

    def combine(self, a: Both[A, B], b: Both[A, B]) -> Both[A, B]:
        return sides_together(a, b)

    def initial_state(self) -> tuple[Waiting, ...]:
        return ()

    def update_state(self, state: tuple[Waiting, ...], agg: Both[A, B]) -> tuple[Waiting, ...]:
        lefts, rights = agg
        waiting = [
            Waiting(
                one.age + 1,
                one.lefts,
                one.rights,
                _found(one.left_found, one.lefts, bool(rights)),
                _found(one.right_found, one.rights, bool(lefts)),
            )
            for one in state
            if one.age < self.blocks
        ]
        if lefts or rights:
            some_right = bool(rights) or any(one.rights for one in waiting)
            some_left = bool(lefts) or any(one.lefts for one in waiting)
            waiting.append(
                Waiting(0, lefts, rights, _found("never", lefts, some_right), _found("never", rights, some_left))
            )
        return tuple(waiting)

    def linger(self) -> int:
        return self.blocks

    def on_marker(self, new_state: tuple[Waiting, ...], key: K, marker: Marker, emit: Emit[K, R]) -> None:
        tell: Any = emit
        if not new_state:
            return
        if self.how == "semi":
            for one in new_state:
                if one.left_found == "now":
                    for left in one.lefts:
                        tell(key, left)
            return
        newest, oldest = new_state[-1], new_state[0]
        if newest.age == 0 and self.how != "anti":
            for one in new_state:
                for right in newest.rights:
                    for left in one.lefts:
                        tell(key, Joined(left, right))
                if one is not newest:
                    for right in one.rights:
                        for left in newest.lefts:
                            tell(key, Joined(left, right))
        if oldest.age < self.blocks:
            return
        if oldest.left_found == "never" and self.how in ("left", "full", "anti"):
            for left in oldest.lefts:
                tell(key, left if self.how == "anti" else Joined(left, None))
        if oldest.right_found == "never" and self.how in ("right", "full"):
            for right in oldest.rights:
                tell(key, Joined(None, right))

    def _joins(self) -> BlockJoin | None:
        if type(self) is not EquiJoin:  # a subclass may do something else
            return None
        return BlockJoin(
            left=FromLeft,
            right=FromRight,
            gives=Joined,
            how=self.how,
            reach=self.blocks,
            windows=False,
            sides=tuple,
            blocks=_blocks_of,
            state=_state_of,
        )


def _blocks_of(state: tuple[Waiting, ...]) -> list[JoinedBlock]:
    found = [(one, one.left_found != "never", one.right_found != "never") for one in state]
    return [JoinedBlock(one.age, one.lefts, one.rights, left, right) for one, left, right in found]


def _state_of(blocks: Sequence[JoinedBlock]) -> tuple[Waiting, ...]:
    return tuple(
        Waiting(one.age, Bag(tuple(one.lefts)), Bag(tuple(one.rights)), _before(one.left_paired), _before(one.right_paired))
        for one in blocks
    )


def _before(paired: bool) -> Found:
    return "before" if paired else "never"


Last: TypeAlias = tuple[deque[A], deque[B]]
"""The last left and the last right items."""


@attrs.frozen
class LastItemsJoin(OpKeyedOrdered[K, Either[A, B], Joined[A, B], Last[A, B]]):
    """See :func:`equi_join`, with ``items``. The state is the last ``items`` items of each side."""

    _word = "equi_join"

    items: int

    def initial_state(self) -> Last[A, B]:
        return deque(), deque()

    def on_item(self, state: Last[A, B], key: K, value: Either[A, B], emit: EmitValue[Joined[A, B]]) -> Last[A, B]:
        lefts, rights = state
        if isinstance(value, FromLeft):
            for right in rights:
                emit(Joined(value.value, right))
            lefts.append(value.value)
            if len(lefts) > self.items:
                lefts.popleft()
        else:
            for left in lefts:
                emit(Joined(left, value.value))
            rights.append(value.value)
            if len(rights) > self.items:
                rights.popleft()
        return state

    def _says(self) -> LastItems | None:
        if type(self) is not LastItemsJoin:  # a subclass may do something else
            return None
        return LastItems(left=FromLeft, gives=Joined, items=self.items)


@overload
def equi_join(
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["inner"] = "inner",
    within: Span | None = None,
    blocks: int | None = None,
    period: Span | None = None,
) -> Stream[U[K, Joined[A, B]]]: ...


@overload
def equi_join(
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["inner"] = "inner",
    items: int,
    left_time: Callable[[A], Time],
    right_time: Callable[[B], Time],
    unit: TimeUnit = "s",
) -> Stream[O[K, Joined[A, B]]]: ...


@overload
def equi_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["left"],
    within: Span | None = None,
    blocks: int | None = None,
    period: Span | None = None,
) -> Stream[U[K, Joined[A, B | None]]]: ...


@overload
def equi_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["right"],
    within: Span | None = None,
    blocks: int | None = None,
    period: Span | None = None,
) -> Stream[U[K, Joined[A | None, B]]]: ...


@overload
def equi_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["full"],
    within: Span | None = None,
    blocks: int | None = None,
    period: Span | None = None,
) -> Stream[U[K, Joined[A | None, B | None]]]: ...


@overload
def equi_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["semi", "anti"],
    within: Span | None = None,
    blocks: int | None = None,
    period: Span | None = None,
) -> Stream[U[K, A]]: ...


@overload
def equi_join(
    left: Stream[U[K, A]],
    right: Stream[U[L, B]],
    *,
    how: How = "inner",
    within: Span | None = None,
    blocks: int | None = None,
    period: Span | None = None,
) -> Stream[KeysOfTwoTypes[K, L]]: ...  # type: ignore[type-var]


@overload
def equi_join(
    left: Stream[U[K, A]],
    right: Stream[U[L, B]],
    *,
    how: Literal["inner"] = "inner",
    items: int,
    left_time: Callable[[A], Time],
    right_time: Callable[[B], Time],
    unit: TimeUnit = "s",
) -> Stream[KeysOfTwoTypes[K, L]]: ...  # type: ignore[type-var]


def equi_join(
    left: Stream[U[K, A]],
    right: Stream[U[Any, B]],
    *,
    how: How = "inner",
    within: Span | None = None,
    blocks: int | None = None,
    period: Span | None = None,
    items: int | None = None,
    left_time: Callable[[A], Time] | None = None,
    right_time: Callable[[B], Time] | None = None,
    unit: TimeUnit = "s",
) -> Stream[Any]:
    """All items of one key are partners, as far as the bound goes. One bound must be given:

    * ``blocks``: the blocks of both items lie at most so many apart (0: the same block). Behind them an item is dropped.
    * ``within`` (seconds or a timedelta): the same, in time. It is a multiple of the period of the markers; ``period`` gives that
      of markers in band.
    * ``items``: the later item finds the last so many items of the other side. What has been followed by as many of its own side
      is dropped. ``left_time``, ``right_time`` and ``unit`` say what is later, right before left at equal times.

    ``how`` and the types are those of :func:`~tracetypes.stdlib.window_join`. Pairs, and the left items of ``"semi"``, are
    emitted at the marker of the later item. An item without a partner is emitted when it is dropped, ``blocks`` markers behind
    its own, also behind the end of the input. With ``items`` nothing says that an item will find no partner, so ``how`` is
    ``"inner"``.

    The state of a key is its items within the bound. By blocks, a key without any is forgotten.

    Raises :class:`UsageError` ``TT121`` for no bound, for several, and for sources of different periods, and ``TT125`` for a
    ``within`` that does not fit the period of the markers.

    >>> flow, markers = Dataflow("joined"), every(seconds=10, time=lambda time: time)
    >>> left = flow.source("left", U[str, int], markers=markers)
    >>> right = flow.source("right", U[str, int], markers=markers)
    >>> flow.sink("out", equi_join(left, right, within=10, how="left"))
    >>> rows = {"left": [("a", 3), ("a", 28)], "right": [("a", 14), ("b", 22)]}
    >>> found = interpret_rows(check(flow), rows)[0]["out"].items
    >>> [(one.value.left, one.value.right) if isinstance(one, Item) else one for one in found]
    [#10, (3, 14), #20, (28, 14), #30, #40]
    """
    how_of(how, get_args(How))
    if sum(bound is not None for bound in (within, blocks, items)) != 1:
        raise UsageError("TT121", "one bound is needed", fix="give one of within, blocks and items")
    one_period(left, right)
    both = tagged(left, right, "equi_join")
    op: Any
    if items is not None:
        if left_time is None or right_time is None or how != "inner":
            raise UsageError(
                "TT121",
                f"a join of the last items, and how is {how!r}" if how != "inner" else "items without times",
                fix='give left_time and right_time, and how="inner"; for other kinds bound the join by blocks or within',
            )
        whole("items", items)
        op = LastItemsJoin(items)
        return extend(both.through(sort(by=Times(left_time, right_time, unit))), op)
    if left_time is not None or right_time is not None:
        raise UsageError("TT121", "times, and a bound by blocks", fix="leave the times out, or give items")
    if within is not None:
        span = seconds_as_micros("within", within, 0)
        every = period_of(both, None if period is None else seconds_as_micros("period", period))
        multiples_of(every, {"within": span})
        blocks = span // every
    whole("blocks", blocks, 0)
    count: Any = blocks
    types = (edge_of(left), edge_of(right))
    op = EquiJoin(count, how, result_of(how, *(Any if edge is None else edge.value for edge in types)))
    return extend(both, op)
