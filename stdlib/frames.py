"""Frames: for each item of a key what some items before it, or behind it, are together."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

import attrs

from tracetypes.errors import UsageError
from tracetypes.markers import Marker, Span, Time, TimeUnit, micros_from
from tracetypes.open_types import OpenOperator
from tracetypes.records import Optional, Record, show
from tracetypes.schemas import schema_of, show_type
from tracetypes.stdlib.aggregates import Aggregate, aggregate_of, types_of
from tracetypes.stdlib.annotations import function_or_none, needed_function, same_values
from tracetypes.stdlib.open_aggregates import OpenAggregate, aggregates_for
from tracetypes.stdlib.products import fits
from tracetypes.stdlib.signatures import OrderedOperator, on_ordered
from tracetypes.stdlib.windows import seconds_as_micros, whole
from tracetypes.templates import EmitValue, OpKeyedOrdered

__all__ = ["Column", "Over", "current", "first_value", "frame", "lag", "lead", "over"]

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")
R = TypeVar("R")


@attrs.frozen
class Column(ABC, Generic[V, W]):
    """What :func:`over` computes for each item, as a field of a record. States belong to the operator, which changes them."""

    @abstractmethod
    def initial(self) -> Any:
        """The state before the first item."""

    @abstractmethod
    def step(self, state: Any, value: V) -> tuple[Any, Any]:
        """The state with an item, and what the column is for that."""


@attrs.frozen
class Current(Column[V, W]):
    """See :func:`current`."""

    of: Callable[[V], W] | None

    def initial(self) -> None:
        return None

    def step(self, state: None, value: V) -> tuple[None, Any]:
        return None, value if self.of is None else self.of(value)


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


Stacks = tuple[list[tuple[int, Any]], list[tuple[int, Any]], Any]
"""The items of a frame on two stacks, each with its place, and the aggregate of the second. The first has the old ones, the
oldest on top, each as the aggregate from there on; the second has the new ones as they are."""


@attrs.frozen
class _Frame(Column[V, W]):
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
class RowFrame(_Frame[V, W]):
    """See :func:`frame`: the last items. ``rows``: how many before this one."""

    rows: int

    def place(self, value: V, last: int | None) -> tuple[int, int]:
        place = 0 if last is None else last + 1
        return place, place - self.rows


@attrs.frozen
class RangeFrame(_Frame[V, W]):
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


@attrs.define
class Waits:
    """The columns of an item whose leads have not come. ``until``: the last time (microseconds) at which it waits."""

    until: int
    parts: list[Any]


@attrs.frozen
class Over(OpKeyedOrdered[K, V, R, "tuple[list[Any], list[Waits]]"], Generic[K, V, R]):
    """See :func:`over`. The state is that of each column, and the items that wait for others."""

    _word = "over"
    _in_python = "keeps frames of any length"

    to: Callable[..., R]
    names: tuple[str, ...]
    columns: tuple[Column[V, Any], ...]

    def type_arguments(self) -> Mapping[str, Any]:
        takes = [types_of(one.aggregate)[0] for one in self.columns if isinstance(one, _Frame | Running)]
        value = same_values([one for one in takes if one not in (Any, object)], "over")
        return {"R": self.to} if value is None or isinstance(value, TypeVar) else {"R": self.to, "V": value}

    def initial_state(self) -> tuple[list[Any], list[Waits]]:
        return [one.initial() for one in self.columns], []

    def on_item(
        self, state: tuple[list[Any], list[Waits]], key: K, value: V, emit: EmitValue[R]
    ) -> tuple[list[Any], list[Waits]]:
        states, waiting = state
        parts = []
        for at, column in enumerate(self.columns):
            states[at], part = column.step(states[at], value)
            parts.append(part)
        leads = self._leads()
        if not leads:
            emit(self._made(parts))
            return state
        until = max(micros_from(lead.time(value), lead.unit) + lead.wait for _, lead in leads)
        waiting.append(Waits(until, parts))
        for at, lead in leads:
            if lead.n < len(waiting):
                waiting[-1 - lead.n].parts[at] = lead.of(value)
        if len(waiting) > max(lead.n for _, lead in leads):
            emit(self._made(waiting.pop(0).parts))
        return state

    def on_marker(
        self, state: tuple[list[Any], list[Waits]], key: K, marker: Marker, emit: EmitValue[R]
    ) -> tuple[list[Any], list[Waits]]:
        waiting = state[1]
        while waiting and waiting[0].until < marker.micros:
            emit(self._made(waiting.pop(0).parts))
        return state

    def linger(self) -> dt.timedelta:
        longest = max([lead.wait + 1 for _, lead in self._leads()], default=0)
        return dt.timedelta(microseconds=longest)

    def next_due(self, state: tuple[list[Any], list[Waits]], key: K) -> int | None:
        return state[1][0].until + 1 if state[1] else None

    def _leads(self) -> list[tuple[int, Lead[V, Any]]]:
        return [(at, one) for at, one in enumerate(self.columns) if isinstance(one, Lead)]

    def _made(self, parts: Sequence[Any]) -> R:
        return self.to(**dict(zip(self.names, parts, strict=True)))


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


def over(to: type[R], /, **columns: Column[V, Any]) -> OrderedOperator[V, R]:
    """For each item of a key a record of what its ``columns`` are, a column for each field: window functions of SQL that
    share one order, that of the stream. Columns are :func:`current`, :func:`lag`, :func:`lead`, :func:`frame` and
    :func:`first_value`.

    Without a ``lead`` a record is emitted with its item. With one it is emitted when all leads have come, or waited long enough
    for, and in the order of the items. Raises :class:`UsageError` ``TT121`` for columns that are not the fields of the record,
    and for a field that cannot hold what its column gives.

    >>> @attrs.frozen
    ... class Row:
    ...     now: int
    ...     before: int | None
    ...     mean: float
    >>> rows = over(Row, now=current(), before=lag(lambda n: n), mean=frame(mean(), rows=1))
    >>> preview(rows, O[str, int], [("a", 1), ("a", 4)])
    [[('a', Row(now=1, before=None, mean=1.0)), ('a', Row(now=4, before=1, mean=2.5))]]
    """
    for name, column in columns.items():
        if not isinstance(column, Column):
            raise UsageError(
                "TT121", f"over was given {name}={show(column)}, which is no column", fix="pass frame(...), lag(...) or the like"
            )
    schema = schema_of(to)
    if not isinstance(schema, Record) or {name for name, _ in schema.fields} != set(columns):
        fields = ", ".join(name for name, _ in schema.fields) if isinstance(schema, Record) else "no fields"
        raise UsageError(
            "TT121",
            f"over was given {', '.join(columns) or 'nothing'} for {show_type(to)}, which has {fields}",
            fix="name one column for each field of the record",
        )
    opened = [one.aggregate for one in columns.values() if isinstance(one, _Frame | Running)]
    unknown = [one for one in opened if isinstance(one, OpenAggregate)]

    def made(key: Any, value: Any) -> Any:
        settled: dict[str, Column[Any, Any]] = {}
        for name, column in columns.items():
            if isinstance(column, _Frame | Running):
                (aggregate,) = aggregates_for((column.aggregate,), value)
                column = attrs.evolve(column, aggregate=aggregate)
            settled[name] = column
        return _checked(to, dict(schema.fields), settled)

    op: Any = OpenOperator("over", made, unknown[0].unknown) if unknown else made(None, None)
    return on_ordered(op)


def _checked(to: Any, fields: Mapping[str, Any], columns: Mapping[str, Column[Any, Any]]) -> Any:
    for name, column in columns.items():
        if isinstance(column, Lag | Lead) and not isinstance(fields[name], Optional):
            raise UsageError(
                "TT121",
                f"over: {show_type(to)}.{name} cannot hold None, which stands for no item",
                fix=f"write {name}: ... | None",
            )
        if isinstance(column, _Frame | Running) and not isinstance(column.aggregate, FirstInOrder):
            given = types_of(column.aggregate)[1]
            if not fits(given, fields[name]):
                raise UsageError(
                    "TT121",
                    f"over: {show_type(to)}.{name} cannot hold {show_type(given)}",
                    fix="change the type of the field, or the aggregate",
                )
    op: Over[Any, Any, Any] = Over(to, tuple(columns), tuple(columns.values()))
    op.type_arguments()
    return op
