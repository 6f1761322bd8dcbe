"""Columns of frames: what some items before an item, or behind it, are together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, overload

import attrs

from tracetypes.errors import UsageError
from tracetypes.markers import Span, Time, TimeUnit, micros_from
from tracetypes.stdlib.aggregates import Aggregate, aggregate_of
from tracetypes.stdlib.annotations import function_or_none, needed_function
from tracetypes.stdlib.windows import seconds_as_micros, whole

__all__ = ["Column", "FirstInOrder", "Frame", "Lag", "Lead", "Running", "current", "first_value", "frame", "lag", "lead"]

V = TypeVar("V")
W = TypeVar("W")

MOST_ROWS: Final = 16
"""Up to so many rows the state of a frame is a tuple, whose aggregates are combined at each item."""

MOST_LAG: Final = 6
"""Up to so many items the state of a lag is a tuple that begins with None: columns learn item by item what may stand there."""


@attrs.frozen
class Column(ABC, Generic[V, W]):
    """What :func:`over` computes for each item, as a field of a record. States belong to the operator, which changes them."""

    @abstractmethod
    def initial(self) -> Any:
        """The state before the first item."""

    @abstractmethod
    def step(self, state: Any, value: V) -> tuple[Any, Any]:
        """The state with an item, and what the column is for that."""

    @property
    def is_fixed(self) -> bool:
        """Whether it has states of a structure that never changes, which nobody changes in place: then :meth:`fixed` is the
        first of them, and :meth:`next` goes on."""
        return False

    def fixed(self) -> Any:
        """:meth:`initial` for such states."""
        return self.initial()

    def next(self, state: Any, value: V) -> tuple[Any, Any]:
        """:meth:`step` for such states."""
        return self.step(state, value)


@attrs.frozen
class Current(Column[V, W]):
    """See :func:`current`."""

    of: Callable[[V], W] | None

    def initial(self) -> None:
        return None

    def step(self, state: Any, value: V) -> tuple[Any, Any]:
        return state, value if self.of is None else self.of(value)

    @property
    def is_fixed(self) -> bool:
        return True

    def fixed(self) -> tuple[()]:
        return ()


@attrs.frozen
class Lag(Column[V, W]):
    """See :func:`lag`. The state is what the last ``n`` items have, the oldest first."""

    of: Callable[[V], W]
    n: int

    def initial(self) -> tuple[Any, ...]:
        return ()

    def step(self, state: tuple[Any, ...], value: V) -> tuple[tuple[Any, ...], Any]:
        before = state[0] if len(state) == self.n else None
        return (*state, self.of(value))[-self.n :], before

    @property
    def is_fixed(self) -> bool:
        return self.n <= MOST_LAG

    def fixed(self) -> tuple[None, ...]:
        return (None,) * self.n

    def next(self, state: tuple[Any, ...], value: V) -> tuple[tuple[Any, ...], Any]:
        return (*state[1:], self.of(value)), state[0]


@attrs.frozen
class Lead(Column[V, W]):
    """See :func:`lead`. The operator finds it. ``wait``: microseconds."""

    of: Callable[[V], W]
    n: int
    wait: int
    time: Callable[[V], Time]
    unit: TimeUnit

    def initial(self) -> None:
        return None

    def step(self, state: None, value: V) -> tuple[None, None]:
        return None, None


@attrs.frozen
class Running(Column[V, W]):
    """See :func:`frame`: of all items so far."""

    aggregate: Aggregate[V, Any, W]

    def initial(self) -> Any:
        return self.aggregate.identity()

    def step(self, state: Any, value: V) -> tuple[Any, W]:
        total = self.aggregate.combine(state, self.aggregate.lift(value))
        return total, self.aggregate.result(total)

    @property
    def is_fixed(self) -> bool:
        return True


Stacks = tuple[list[tuple[int, Any]], list[tuple[int, Any]], Any]
"""The items of a frame on two stacks, each with its place, and the aggregate of the second. The first has the old ones, the
oldest on top, each as the aggregate from there on; the second has the new ones as they are."""


@attrs.frozen
class Frame(Column[V, W]):
    """See :func:`frame`."""

    aggregate: Aggregate[V, Any, W]

    @abstractmethod
    def place(self, value: V, last: int | None) -> tuple[int, int]:
        """The place of an item, and the least place that is in its frame. ``last``: the place of the item before."""

    def initial(self) -> Stacks:
        return [], [], self.aggregate.identity()

    def step(self, state: Stacks, value: V) -> tuple[Stacks, W]:
        old, new, total = state
        combine, lifted = self.aggregate.combine, self.aggregate.lift(value)
        place, least = self.place(value, new[-1][0] if new else old[0][0] if old else None)
        new.append((place, lifted))
        total = combine(total, lifted)
        while True:
            while old and old[-1][0] < least:
                old.pop()
            if old or new[0][0] >= least:
                break
            suffix = total = self.aggregate.identity()
            while new:
                at, one = new.pop()
                suffix = combine(one, suffix)
                old.append((at, suffix))
        return (old, new, total), self.aggregate.result(combine(old[-1][1], total) if old else total)


@attrs.frozen
class RowFrame(Frame[V, W]):
    """See :func:`frame`: the last items. ``rows``: how many before this one."""

    rows: int

    def place(self, value: V, last: int | None) -> tuple[int, int]:
        place = 0 if last is None else last + 1
        return place, place - self.rows

    @property
    def is_fixed(self) -> bool:
        return self.rows <= MOST_ROWS

    def fixed(self) -> tuple[Any, ...]:
        return (self.aggregate.identity(),) * self.rows

    def next(self, state: tuple[Any, ...], value: V) -> tuple[tuple[Any, ...], W]:
        lifted = total = self.aggregate.lift(value)
        for one in state[::-1]:
            total = self.aggregate.combine(one, total)
        return (*state[1:], lifted) if state else (), self.aggregate.result(total)


@attrs.frozen
class RangeFrame(Frame[V, W]):
    """See :func:`frame`: the items of some time. ``span``: microseconds."""

    span: int
    time: Callable[[V], Time]
    unit: TimeUnit

    def place(self, value: V, last: int | None) -> tuple[int, int]:
        time = micros_from(self.time(value), self.unit)
        return time, time - self.span


@attrs.frozen
class FirstInOrder(Aggregate[V, "tuple[Any] | None", Any]):
    """The first value in the order in which values are combined. It is no aggregate of a bag."""

    _word = "first_value"

    of: Callable[[V], Any]

    def lift(self, value: V) -> tuple[Any] | None:
        return (self.of(value),)

    def identity(self) -> tuple[Any] | None:
        return None

    def combine(self, a: tuple[Any] | None, b: tuple[Any] | None) -> tuple[Any] | None:
        return b if a is None else a

    def result(self, agg: tuple[Any] | None) -> Any:
        assert agg is not None
        return agg[0]


@overload
def current(of: None = None) -> Column[Any, Any]: ...
@overload
def current(of: Callable[[V], W]) -> Column[V, W]: ...
def current(of: Any = None) -> Any:
    """The item itself, or ``of(item)``: for :func:`over`. As every frame ends with the current item, this is LAST_VALUE of SQL.

    >>> @attrs.frozen
    ... class Shown:
    ...     number: int
    >>> preview(over(Shown, number=current()), O[str, int], [("a", 1)])
    [[('a', Shown(number=1))]]
    """
    return Current(function_or_none("current", of))


def lag(of: Callable[[V], W], n: int = 1) -> Column[V, W | None]:
    """``of`` of the ``n``-th item before, None if there is none: LAG of SQL, for :func:`over`. Keeps ``n`` of them. Raises
    :class:`UsageError` ``TT121`` for an ``n`` below 1.

    >>> @attrs.frozen
    ... class Change:
    ...     now: int
    ...     before: int | None
    >>> changes = over(Change, now=current(), before=lag(lambda n: n))
    >>> preview(changes, O[str, int], [("a", 1)], [("a", 4)])
    [[('a', Change(now=1, before=None))], [('a', Change(now=4, before=1))]]
    """
    whole("n", n)
    column: Any = Lag(needed_function("lag", "of", of), n)
    return column  # type: ignore[no-any-return]


def lead(
    of: Callable[[V], W], n: int = 1, *, wait: Span, time: Callable[[V], Time], unit: TimeUnit = "s"
) -> Column[V, W | None]:
    """``of`` of the ``n``-th item behind, None if it does not come: LEAD of SQL, for :func:`over`.

    The item waits for it, and is emitted when it comes; without it, at the first marker more than ``wait`` (seconds or a
    timedelta) behind the item's ``time``. ``time`` and ``unit``: as in :func:`tracetypes.every`. Keeps the columns of ``n``
    items. Raises :class:`UsageError` ``TT121`` for an ``n`` below 1 and a negative ``wait``.

    >>> @attrs.frozen
    ... class Next:
    ...     now: int
    ...     behind: int | None
    >>> pairs = over(Next, now=current(), behind=lead(lambda n: n, wait=2, time=lambda n: n))
    >>> found = preview(pairs, O[str, int], [("a", 0)], [("a", 1)])
    >>> [(at, *pair) for at, block in enumerate(found, 1) for pair in block]
    [(2, 'a', Next(now=0, behind=1)), (4, 'a', Next(now=1, behind=None))]
    """
    whole("n", n)
    column: Any = Lead(needed_function("lead", "of", of), n, seconds_as_micros("wait", wait, 0), time, unit)
    return column  # type: ignore[no-any-return]


def frame(
    aggregate: Aggregate[V, Any, W],
    *,
    rows: int | None = None,
    seconds: Span | None = None,
    time: Callable[[V], Time] | None = None,
    unit: TimeUnit = "s",
) -> Column[V, W]:
    """The aggregate of a frame that ends with the current item, for :func:`over`: of the ``rows`` items before it
    (ROWS n PRECEDING of SQL), of the items at most ``seconds`` (a number or a timedelta) older (RANGE PRECEDING), or of all so
    far.

    ``time`` and ``unit``: as in :func:`tracetypes.every`; the stream must be sorted by the same time. Of items of one time only
    those count that come before the current one. Keeps an aggregate for each item of the frame, and combines three times for an
    item, on average. Items are combined in their order. Raises :class:`UsageError` ``TT121``.

    >>> @attrs.frozen
    ... class Sums:
    ...     two: int
    ...     all: int
    >>> sums = over(Sums, two=frame(sum(to=int), rows=1), all=frame(sum(to=int)))
    >>> preview(sums, O[str, int], [("a", 1), ("a", 2), ("a", 4)])
    [[('a', Sums(two=1, all=1)), ('a', Sums(two=3, all=3)), ('a', Sums(two=6, all=7))]]
    """
    of = aggregate_of("frame", aggregate)
    if rows is not None and seconds is not None:
        raise UsageError("TT121", "frame was given both rows and seconds", fix="give one of them")
    if (seconds is None) != (time is None):
        raise UsageError("TT121", "seconds and time go together", fix="give both or none of them")
    column: Any = Running(of)
    if rows is not None:
        whole("rows", rows, 0)
        column = RowFrame(of, rows)
    if seconds is not None and time is not None:
        column = RangeFrame(of, seconds_as_micros("seconds", seconds, 0), time, unit)
    return column  # type: ignore[no-any-return]


def first_value(
    of: Callable[[V], W],
    *,
    rows: int | None = None,
    seconds: Span | None = None,
    time: Callable[[V], Time] | None = None,
    unit: TimeUnit = "s",
) -> Column[V, W]:
    """``of`` of the first item of a frame: FIRST_VALUE of SQL, for :func:`over`. The frame as in :func:`frame`.

    >>> @attrs.frozen
    ... class Since:
    ...     first: int
    >>> preview(over(Since, first=first_value(lambda n: n, rows=1)), O[str, int], [("a", 1), ("a", 2), ("a", 4)])
    [[('a', Since(first=1)), ('a', Since(first=1)), ('a', Since(first=2))]]
    """
    first: Any = FirstInOrder(needed_function("first_value", "of", of))
    return frame(first, rows=rows, seconds=seconds, time=time, unit=unit)
