"""A join with the latest values of a stream of changes: a table with a row for each key.

An item sees the row as it is at the item's time. What happens to the row later, a change or a delete, changes nothing that was
emitted. The streams are merged and sorted by time, so this is a join of the whole histories under the same conditions as those
of :mod:`tracetypes.stdlib.joins`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar, get_args, overload

import attrs

from tracetypes.check import edge_of
from tracetypes.edges import O, U
from tracetypes.graph import Stream, extend
from tracetypes.latest import Latest
from tracetypes.markers import Time, TimeUnit
from tracetypes.nodes import RowPosition
from tracetypes.sort_keys import Orderable
from tracetypes.stdlib.annotations import function_or_none
from tracetypes.stdlib.join_kinds import how_of, result_of
from tracetypes.stdlib.joins import Either, FromLeft, FromRight, InOrder, Joined, Times, by_time, order_of
from tracetypes.stdlib.signatures import KeysOfTwoTypes
from tracetypes.templates import EmitValue, OpKeyedOrdered

__all__ = ["TableHow", "TableJoin", "TableJoinInOrder", "table_join"]

K = TypeVar("K")
L = TypeVar("L")
A = TypeVar("A")
B = TypeVar("B")
E = TypeVar("E")
R = TypeVar("R")

TableHow: TypeAlias = Literal["inner", "left", "semi", "anti"]

Row: TypeAlias = tuple[int, B] | None
"""The row of a key and the time of its last change."""


@attrs.frozen
class _TableJoin(OpKeyedOrdered[K, E, R, Row[B]]):
    """See :func:`table_join`. The state is the row. A key without a row is forgotten."""

    _word = "table_join"

    forgets_idle = True

    times: Times[Any, B]
    deleted: Callable[[B], bool] | None = None
    how: TableHow = "inner"
    joined: Any = None

    def type_arguments(self) -> Mapping[str, Any]:
        return {"R": self.joined}

    def initial_state(self) -> Row[B]:
        return None

    def on_item(self, state: Row[B], key: K, value: Any, emit: EmitValue[R]) -> Row[B]:
        time = self.times.of(value)
        if isinstance(value, FromRight):
            if state is not None and time < state[0]:
                return state
            return None if self.deleted is not None and self.deleted(value.value) else (time, value.value)
        output: Any = value.value
        if state is None or time < state[0]:
            if self.how in ("inner", "semi"):
                return state
            output = output if self.how == "anti" else Joined(output, None)
        elif self.how == "anti":
            return state
        elif self.how != "semi":
            output = Joined(output, state[1])
        emit(output)
        return state

    def _deletes(self, item: FromRight[B]) -> bool:
        return self.deleted is not None and self.deleted(item.value)

    def _says(self) -> Latest[Any] | None:
        if type(self) not in (TableJoin, TableJoinInOrder):  # a subclass may do something else
            return None
        deleted = None if self.deleted is None else self._deletes
        return Latest(FromLeft, Joined, self.times.of, deleted=deleted, how=self.how)


@attrs.frozen
class TableJoin(_TableJoin[K, Either[A, B], R, B]):
    """See :func:`table_join`."""


@attrs.frozen
class TableJoinInOrder(_TableJoin[K, InOrder[A, B], R, B]):
    """See :func:`table_join`: with a table that is ordered."""


@overload
def table_join(
    left: Stream[U[K, A]],
    table: Stream[U[K, B]],
    *,
    how: Literal["inner"] = "inner",
    left_time: Callable[[A], Time],
    table_time: Callable[[B], Time],
    deleted: Callable[[B], bool] | None = None,
    unit: TimeUnit = "s",
    order: Callable[[B], Orderable] | None = None,
) -> Stream[O[K, Joined[A, B]]]: ...


@overload
def table_join(
    left: Stream[U[K, A]],
    table: Stream[O[K, B]],
    *,
    how: Literal["inner"] = "inner",
    left_time: Callable[[A], Time],
    table_time: Callable[[B], Time],
    deleted: Callable[[B], bool] | None = None,
    unit: TimeUnit = "s",
    order: RowPosition,
) -> Stream[O[K, Joined[A, B]]]: ...


@overload
def table_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    table: Stream[U[K, B]],
    *,
    how: Literal["left"],
    left_time: Callable[[A], Time],
    table_time: Callable[[B], Time],
    deleted: Callable[[B], bool] | None = None,
    unit: TimeUnit = "s",
    order: Callable[[B], Orderable] | None = None,
) -> Stream[O[K, Joined[A, B | None]]]: ...


@overload
def table_join(
    left: Stream[U[K, A]],
    table: Stream[O[K, B]],
    *,
    how: Literal["left"],
    left_time: Callable[[A], Time],
    table_time: Callable[[B], Time],
    deleted: Callable[[B], bool] | None = None,
    unit: TimeUnit = "s",
    order: RowPosition,
) -> Stream[O[K, Joined[A, B | None]]]: ...


@overload
def table_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    table: Stream[U[K, B]],
    *,
    how: Literal["semi", "anti"],
    left_time: Callable[[A], Time],
    table_time: Callable[[B], Time],
    deleted: Callable[[B], bool] | None = None,
    unit: TimeUnit = "s",
    order: Callable[[B], Orderable] | None = None,
) -> Stream[O[K, A]]: ...


@overload
def table_join(
    left: Stream[U[K, A]],
    table: Stream[O[K, B]],
    *,
    how: Literal["semi", "anti"],
    left_time: Callable[[A], Time],
    table_time: Callable[[B], Time],
    deleted: Callable[[B], bool] | None = None,
    unit: TimeUnit = "s",
    order: RowPosition,
) -> Stream[O[K, A]]: ...


@overload
def table_join(
    left: Stream[U[K, A]],
    table: Stream[U[L, B]],
    *,
    how: TableHow = "inner",
    left_time: Callable[[A], Time],
    table_time: Callable[[B], Time],
    deleted: Callable[[B], bool] | None = None,
    unit: TimeUnit = "s",
    order: Callable[[B], Orderable] | None = None,
) -> Stream[KeysOfTwoTypes[K, L]]: ...  # type: ignore[type-var]


def table_join(
    left: Stream[U[K, A]],
    table: Stream[U[Any, B]],
    *,
    how: TableHow = "inner",
    left_time: Callable[[A], Time],
    table_time: Callable[[B], Time],
    deleted: Callable[[B], bool] | None = None,
    unit: TimeUnit = "s",
    order: Callable[[B], Orderable] | RowPosition | None = None,
) -> Stream[Any]:
    """Each left item with the row that the table has for its key at the item's time.

    ``table``: changes, each the new row of its key. ``deleted`` says of a change that it removes the row instead. A change counts
    for the items of its own time and for later ones. **Only later items see a change or a delete**: what was emitted stays as it
    is. Of several changes of one time the last by ``order`` counts: a function of the change, such as its number in the log, or
    :data:`~tracetypes.ROW_POSITION` for its place in an ordered stream. Without it, and where it is equal, the canonical order of
    values decides. Items before the first change of their key, and behind a delete, have no row.

    ``how``: ``"inner"`` emits ``Joined[A, B]`` for items with a row, ``"left"`` ``Joined[A, B | None]`` for all, ``"semi"`` the
    items with a row, and ``"anti"`` those without. Rows without items are never emitted, so there is neither ``"right"`` nor
    ``"full"``. ``left_time``, ``table_time`` and ``unit``: as ``time`` and ``unit`` of :func:`tracetypes.every`. Items are
    emitted in their own block, in the order of their times; so nothing is open when the input ends.

    The state of a key is its row, for as long as the table has it; a key without a row is forgotten. No marker visits a key.

    Raises :class:`UsageError` ``TT121`` for another ``how``, a ``deleted`` or ``order`` that is no function, or sources of
    different periods.

    >>> flow, markers = Dataflow("joined"), every(seconds=10, time=lambda time: time)
    >>> left = flow.source("left", U[str, int], markers=markers)
    >>> prices = flow.source("prices", U[str, int], markers=markers)
    >>> second = lambda time: time
    >>> joined = table_join(left, prices, how="left", left_time=second, table_time=second, deleted=lambda time: time == 15)
    >>> flow.sink("out", joined)
    >>> rows = {"left": [("a", 3), ("a", 12), ("a", 18)], "prices": [("a", 5), ("a", 11), ("a", 15)]}
    >>> found = interpret_rows(check(flow), rows)[0]["out"].items
    >>> [(one.value.left, one.value.right) for one in found if isinstance(one, Item)]
    [(3, None), (12, 11), (18, None)]
    """
    how_of(how, get_args(TableHow))
    function_or_none("table_join", deleted)
    types = (edge_of(left), edge_of(table))
    results = result_of(how, *(Any if edge is None else edge.value for edge in types))
    times = Times(left_time, table_time, unit, order_of("table_join", order))
    op: Any = (TableJoinInOrder if times.by_position else TableJoin)(times, deleted, how, results)
    return extend(by_time(left, table, times, "table_join"), op)
