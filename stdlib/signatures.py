"""Types of library operators. Their names make a type checker's message say what to do about a wrong use."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar, overload

from tracetypes.edges import O, U
from tracetypes.graph import Stream
from tracetypes.templates import OpKeyedOrdered

__all__ = ["KeyedOperator", "KeysOfTwoTypes", "OrderedOperator", "SortTheStreamFirst", "UnorderedOperator", "on_ordered"]

K = TypeVar("K")
L = TypeVar("L")
V = TypeVar("V")
W = TypeVar("W")


class SortTheStreamFirst(Generic[K, V]):
    """Stands for a refusal. The stream is ``U[K, V]`` and the operator takes ``O[K, V]``: put
    ``.through(sort(by=...))`` before it."""


class KeysOfTwoTypes(Generic[K, L]):
    """Stands for a refusal. A join was given streams with keys ``K`` and ``L``: give both one type of keys with
    ``key_by`` before it. mypy says that no stream can have this type, where the result is used."""


class OrderedOperator(Protocol[V, W]):
    """An operator on ordered streams, ``O[K, V] -> O[K, W]`` for any ``K``.

    The second overload refuses an unordered stream: mypy says that a type variable of ``through`` "cannot be
    SortTheStreamFirst". Without it mypy compares two generic functions, and its message is about neither.
    """

    @overload
    def __call__(self, upstream: Stream[O[K, V]], /) -> Stream[O[K, W]]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, upstream: Stream[U[K, V]], /) -> Stream[SortTheStreamFirst[K, V]]: ...  # type: ignore[type-var]


class UnorderedOperator(Protocol[K, V, L, W]):
    """``U[K, V] -> U[L, W]``. An ordered stream is accepted and loses its order.

    The first overload repeats this for pyright, which does not use that ``O`` is a subtype of ``U`` when it looks for
    the types of a lambda.
    """

    @overload
    def __call__(self, upstream: Stream[O[K, V]], /) -> Stream[U[L, W]]: ...
    @overload
    def __call__(self, upstream: Stream[U[K, V]], /) -> Stream[U[L, W]]: ...


class KeyedOperator(Protocol[V, W]):
    """``U[K, V] -> U[K, W]`` for any ``K``, like :class:`UnorderedOperator`."""

    @overload
    def __call__(self, upstream: Stream[O[K, V]], /) -> Stream[U[K, W]]: ...
    @overload
    def __call__(self, upstream: Stream[U[K, V]], /) -> Stream[U[K, W]]: ...


def on_ordered(op: OpKeyedOrdered[Any, Any, Any, Any]) -> OrderedOperator[Any, Any]:
    """An operator with its library signature."""
    operator: Any = op
    return operator  # type: ignore[no-any-return]
