"""Window functions of SQL: for each item of a key what several frames are."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import attrs

from tracetypes.errors import UsageError
from tracetypes.markers import Marker, micros_from
from tracetypes.open_types import OpenOperator
from tracetypes.records import Optional, Record, show
from tracetypes.schemas import schema_of, show_type
from tracetypes.stdlib.aggregates import types_of
from tracetypes.stdlib.annotations import same_values
from tracetypes.stdlib.frame_columns import Column, FirstInOrder, Frame, Lag, Lead, Running
from tracetypes.stdlib.open_aggregates import OpenAggregate, aggregates_for
from tracetypes.stdlib.products import fits
from tracetypes.stdlib.signatures import OrderedOperator, on_ordered
from tracetypes.templates import EmitValue, OpKeyedOrdered

__all__ = ["FixedOver", "Over", "over"]

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")


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
        return _types(self.to, self.columns)

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


@attrs.frozen
class FixedOver(OpKeyedOrdered[K, V, R, tuple[Any, ...]], Generic[K, V, R]):
    """See :func:`over`: where no item waits, and the states of all columns have a structure that never changes."""

    _word = "over"

    to: Callable[..., R]
    names: tuple[str, ...]
    columns: tuple[Column[V, Any], ...]

    def type_arguments(self) -> Mapping[str, Any]:
        return _types(self.to, self.columns)

    def initial_state(self) -> tuple[Any, ...]:
        return tuple([one.fixed() for one in self.columns])

    def on_item(self, state: tuple[Any, ...], key: K, value: V, emit: EmitValue[R]) -> tuple[Any, ...]:
        taken = tuple([column.next(state[at], value) for at, column in enumerate(self.columns)])
        emit(self.to(**{name: taken[at][1] for at, name in enumerate(self.names)}))
        return tuple([one[0] for one in taken])


def _types(to: Any, columns: Sequence[Column[Any, Any]]) -> Mapping[str, Any]:
    takes = [types_of(one.aggregate)[0] for one in columns if isinstance(one, Frame | Running)]
    value = same_values([one for one in takes if one not in (Any, object)], "over")
    return {"R": to} if value is None or isinstance(value, TypeVar) else {"R": to, "V": value}


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
    opened = [one.aggregate for one in columns.values() if isinstance(one, Frame | Running)]
    unknown = [one for one in opened if isinstance(one, OpenAggregate)]

    def made(key: Any, value: Any) -> Any:
        settled: dict[str, Column[Any, Any]] = {}
        for name, column in columns.items():
            if isinstance(column, Frame | Running):
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
        if isinstance(column, Frame | Running) and not isinstance(column.aggregate, FirstInOrder):
            given = types_of(column.aggregate)[1]
            if not fits(given, fields[name]):
                raise UsageError(
                    "TT121",
                    f"over: {show_type(to)}.{name} cannot hold {show_type(given)}",
                    fix="change the type of the field, or the aggregate",
                )
    fixed = all(column.is_fixed for column in columns.values())
    op: Any = (FixedOver if fixed else Over)(to, tuple(columns), tuple(columns.values()))
    op.type_arguments()
    return op
