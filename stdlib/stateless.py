"""Stateless operators, which take each item by itself. All are ``U[K, V] -> U[L, W]`` and run at any parallelism
without an exchange.

Functions are pure: operators call them in any order, maybe more than once. The type that a function returns follows from its
return annotation, or for a lambda from its code and the stream. Where it does not, ``to=`` declares it (``TT120``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Literal, TypeVar, overload

import attrs

from tracetypes.errors import UsageError
from tracetypes.records import show
from tracetypes.stdlib.annotations import element_of, pair_of, returned
from tracetypes.stdlib.open_aggregates import settled
from tracetypes.stdlib.signatures import KeyedOperator, UnorderedOperator
from tracetypes.templates import Emit, OpStateless

__all__ = [
    "Enrich",
    "Explode",
    "ExplodeLists",
    "Filter",
    "FlatMap",
    "KeyBy",
    "Map",
    "MapValues",
    "enrich",
    "explode",
    "filter",
    "flat_map",
    "key_by",
    "map",
    "map_values",
]

K = TypeVar("K")
V = TypeVar("V")
L = TypeVar("L")
W = TypeVar("W")
D = TypeVar("D")
E = TypeVar("E")
T = TypeVar("T")


@attrs.frozen
class Map(OpStateless[K, V, L, W]):
    """See :func:`map`."""

    _word = "map"

    function: Callable[[K, V], tuple[L, W]]
    to_key: Any
    to: Any

    def type_arguments(self) -> Mapping[str, Any]:
        return {"L": self.to_key, "W": self.to}

    def on_item(self, key: K, value: V, emit: Emit[L, W]) -> None:
        new_key, new_value = self.function(key, value)
        emit(new_key, new_value)


def map(
    function: Callable[[K, V], tuple[L, W]], *, to: type[tuple[L, W]] | None = None
) -> UnorderedOperator[K, V, L, W]:
    """``U[K, V] -> U[L, W]``: ``function(key, value)`` returns the new key and value.

    ``to``: ``tuple[L, W]``, where nothing else says it. Raises :class:`UsageError` ``TT120``.

    >>> preview(map(lambda key, n: (n % 2, key)), U[str, int], [("a", 1), ("b", 2)])
    [[(0, 'b'), (1, 'a')]]
    """

    def made(key: Any, value: Any) -> Any:
        return Map(function, *pair_of(returned(function, to, "map", arguments=(key, value)), "map"))

    operator: UnorderedOperator[K, V, L, W] = settled("map", made)
    return operator


@attrs.frozen
class MapValues(OpStateless[K, V, K, W], Generic[K, V, W]):
    """See :func:`map_values`."""

    _word = "map_values"

    function: Callable[[V], W]
    to: Any

    def type_arguments(self) -> Mapping[str, Any]:
        return {"W": self.to}

    def on_item(self, key: K, value: V, emit: Emit[K, W]) -> None:
        emit(key, self.function(value))


def map_values(function: Callable[[V], W], *, to: type[W] | None = None) -> KeyedOperator[V, W]:
    """``U[K, V] -> U[K, W]``: ``function(value)`` returns the new value; the key is kept.

    ``to``: ``W``, where nothing else says it. (mypy takes classes only: declare a type with None by annotation.) Raises
    :class:`UsageError` ``TT120``.

    >>> preview(map_values(lambda n: n / 2), U[str, int], [("a", 1)], [("a", 3)])
    [[('a', 0.5)], [('a', 1.5)]]
    """

    def made(key: Any, value: Any) -> Any:
        return MapValues(function, returned(function, to, "map_values", arguments=(value,)))

    operator: KeyedOperator[V, W] = settled("map_values", made)
    return operator


@attrs.frozen
class Filter(OpStateless[K, V, K, V], Generic[K, V]):
    """See :func:`filter`."""

    _word = "filter"

    predicate: Callable[[K, V], bool]

    def on_item(self, key: K, value: V, emit: Emit[K, V]) -> None:
        if self.predicate(key, value):
            emit(key, value)


def filter(predicate: Callable[[K, V], bool]) -> UnorderedOperator[K, V, K, V]:
    """``U[K, V] -> U[K, V]``: the items for which ``predicate(key, value)`` is true.

    >>> preview(filter(lambda key, n: n > 1), U[str, int], [("a", 1), ("b", 2)])
    [[('b', 2)]]
    """
    return Filter(_function("filter", predicate))


@attrs.frozen
class FlatMap(OpStateless[K, V, L, W]):
    """See :func:`flat_map`."""

    _word = "flat_map"

    function: Callable[[K, V], Iterable[tuple[L, W]]]
    to_key: Any
    to: Any

    def type_arguments(self) -> Mapping[str, Any]:
        return {"L": self.to_key, "W": self.to}

    def on_item(self, key: K, value: V, emit: Emit[L, W]) -> None:
        for new_key, new_value in self.function(key, value):
            emit(new_key, new_value)


def flat_map(
    function: Callable[[K, V], Iterable[tuple[L, W]]], *, to: type[tuple[L, W]] | None = None
) -> UnorderedOperator[K, V, L, W]:
    """``U[K, V] -> U[L, W]``: ``function(key, value)`` returns any number of pairs; it may be a generator.

    ``to``: ``tuple[L, W]``, the type of one pair, where nothing else says it. A return annotation is that of all pairs:
    ``Iterator[tuple[L, W]]``, ``list[tuple[L, W]]``. Raises :class:`UsageError` ``TT120``.

    >>> words = flat_map(lambda key, text: [(word, 1) for word in text.split()])
    >>> preview(words, U[int, str], [(0, "to be or not to be")])
    [[('be', 1), ('be', 1), ('not', 1), ('or', 1), ('to', 1), ('to', 1)]]
    """

    def made(key: Any, value: Any) -> Any:
        pair = to
        if to is None:
            pair = element_of(returned(function, None, "flat_map", arguments=(key, value)), "flat_map")
        return FlatMap(function, *pair_of(returned(function, pair, "flat_map"), "flat_map"))

    operator: UnorderedOperator[K, V, L, W] = settled("flat_map", made)
    return operator


@attrs.frozen
class ExplodeLists(OpStateless[K, list[W], K, W], Generic[K, W]):
    """See :func:`explode`."""

    _word = "explode"
    _in_python = "emits an item for each element of a list of any length"

    def on_item(self, key: K, value: list[W], emit: Emit[K, W]) -> None:
        for element in value:
            emit(key, element)


@attrs.frozen
class Explode(OpStateless[K, V, K, W], Generic[K, V, W, E]):
    """See :func:`explode`."""

    _word = "explode"
    _in_python = "emits an item for each element of a list of any length"

    get: Callable[[V], Iterable[E]]
    combine: Callable[[V, E], W] | None
    to: Any

    def type_arguments(self) -> Mapping[str, Any]:
        return {"W": self.to}

    def on_item(self, key: K, value: V, emit: Emit[K, W]) -> None:
        for element in self.get(value):
            result: Any = element if self.combine is None else self.combine(value, element)
            emit(key, result)


@overload
def explode() -> KeyedOperator[list[W], W]: ...
@overload
def explode(get: Callable[[V], Iterable[W]], *, to: type[W] | None = None) -> KeyedOperator[V, W]: ...
@overload
def explode(
    get: Callable[[V], Iterable[E]], *, combine: Callable[[V, E], W], to: type[W] | None = None
) -> KeyedOperator[V, W]: ...
def explode(get: Any = None, *, combine: Any = None, to: Any = None) -> Any:
    """``U[K, V] -> U[K, W]``: an item for each element of the list ``get(value)``, as UNNEST of SQL. Without ``get`` the
    value is the list. A value without elements gives no item.

    ``combine(value, element)`` returns the new value where it is more than the element. ``to``: ``W``, where neither
    ``combine``, nor else ``get`` (``list[W]``), says it. Raises :class:`UsageError` ``TT120``, ``TT121``.

    >>> preview(explode(), U[str, list[int]], [("a", [1, 2]), ("b", [])])
    [[('a', 1), ('a', 2)]]
    >>> words = explode(lambda text: text.split(), combine=lambda text, word: f"{word} of {text}")
    >>> preview(words, U[str, str], [("a", "x y")])
    [[('a', 'x of x y'), ('a', 'y of x y')]]
    """
    if get is None:
        if combine is not None or to is not None:
            raise UsageError(
                "TT121",
                "explode was given combine= or to= without a function that gets the list",
                fix="pass it: explode(lambda value: value, ...)",
            )
        return ExplodeLists()
    _function("explode", get)


    def made(key: Any, value: Any) -> Any:
        if combine is not None:
            return Explode(get, combine, returned(combine, to, "explode", arguments=(value, _element(get, value))))
        if to is not None:
            return Explode(get, None, to)
        annotation = returned(get, None, "explode", arguments=(value,))
        return Explode(get, None, element_of(annotation, "explode", "list[W]", "to=W"))

    return settled("explode", made)


def _element(get: Any, value: Any) -> Any:
    """The type of an element of what a function returns; None if it is not known."""
    try:
        return element_of(returned(get, None, "explode", arguments=(value,)), "explode")
    except UsageError:
        return None


@attrs.frozen
class KeyBy(OpStateless[K, V, L, V], Generic[K, V, L]):
    """See :func:`key_by`."""

    _word = "key_by"

    by: Callable[[K, V], L]
    to: Any

    def type_arguments(self) -> Mapping[str, Any]:
        return {"L": self.to}

    def on_item(self, key: K, value: V, emit: Emit[L, V]) -> None:
        emit(self.by(key, value), value)


def key_by(by: Callable[[K, V], L], *, to: type[L] | None = None) -> UnorderedOperator[K, V, L, V]:
    """``U[K, V] -> U[L, V]``: ``by(key, value)`` returns the new key; the value is kept.

    ``to``: ``L``, where nothing else says it. Raises :class:`UsageError` ``TT120``.

    >>> preview(key_by(lambda key, n: n % 2), U[str, int], [("a", 1), ("b", 2)])
    [[(0, 2), (1, 1)]]
    """

    def made(key: Any, value: Any) -> Any:
        return KeyBy(by, returned(by, to, "key_by", arguments=(key, value)))

    operator: UnorderedOperator[K, V, L, V] = settled("key_by", made)
    return operator


@attrs.frozen
class Enrich(OpStateless[K, V, K, W], Generic[K, V, W, D, T]):
    """See :func:`enrich`."""

    _word = "enrich"

    table: Mapping[D, T]
    by: Callable[[K, V], D]
    combine: Callable[[V, Any], W]
    how: Literal["inner", "left"]
    to: Any

    def type_arguments(self) -> Mapping[str, Any]:
        return {"W": self.to}

    def on_item(self, key: K, value: V, emit: Emit[K, W]) -> None:
        name = self.by(key, value)
        if name in self.table:
            emit(key, self.combine(value, self.table[name]))
        elif self.how == "left":
            emit(key, self.combine(value, None))


@overload
def enrich(
    table: Mapping[D, T],
    *,
    by: Callable[[K, V], D],
    combine: Callable[[V, T], W],
    how: Literal["inner"] = "inner",
    to: type[W] | None = None,
) -> UnorderedOperator[K, V, K, W]: ...
@overload
def enrich(
    table: Mapping[D, T],
    *,
    by: Callable[[K, V], D],
    combine: Callable[[V, T | None], W],
    how: Literal["left"],
    to: type[W] | None = None,
) -> UnorderedOperator[K, V, K, W]: ...
def enrich(table: Any, *, by: Any, combine: Any, how: Any = "inner", to: Any = None) -> Any:
    """``U[K, V] -> U[K, W]``: the look-up join with a table that each worker holds whole.

    ``by(key, value)`` returns the key of the row; ``combine(value, row)`` returns the new value. Items without a row
    are left out (``inner``), or combined with None (``left``). ``to``: ``W``, where nothing else says it. The table is copied
    here and shipped with the operator, so it should have at most about 100,000 rows. For more use
    :func:`tracetypes.stdlib.lookup_join`. Raises :class:`UsageError` ``TT120``, ``TT121``.

    >>> rooms = {7: "kitchen"}
    >>> named = enrich(rooms, by=lambda key, n: key, combine=lambda n, room: f"{room} {n}")
    >>> preview(named, U[int, int], [(7, 20), (8, 21)])
    [[(7, 'kitchen 20')]]
    """
    if not isinstance(table, Mapping):
        raise UsageError("TT121", f"enrich was given {show(table)}, which is no mapping", fix="pass a dict")
    how_of("enrich", how)
    _function("enrich", by)
    rows = {type(row) for row in table.values()}
    row: Any = rows.pop() if len(rows) == 1 else None

    def made(key: Any, value: Any) -> Any:
        return Enrich(dict(table), by, combine, how, returned(combine, to, "enrich", arguments=(value, joined_row(row, how))))

    return settled("enrich", made)


def joined_row(row: Any, how: str) -> Any:
    """The type of what is combined with an item: a row of this type, or None as well."""
    return row | None if how == "left" and row is not None else row


def how_of(caller: str, how: object) -> None:
    """The kind of a look-up join. Raises :class:`UsageError` ``TT121`` for an unknown one."""
    if how not in ("inner", "left"):
        raise UsageError("TT121", f"{caller} was given how={show(how)}", fix="pass how='inner' or how='left'")


def _function(caller: str, function: Any) -> Any:
    if not callable(function):
        raise UsageError("TT121", f"{caller} was given {show(function)}, which is no function", fix="pass a function")
    return function
