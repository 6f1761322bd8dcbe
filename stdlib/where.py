"""Aggregates of some of the values: ``where=`` of the aggregates of the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import attrs

from tracetypes.algebra import chosen
from tracetypes.choices import Choice
from tracetypes.errors import UsageError
from tracetypes.records import show
from tracetypes.self_description import SelfDescribing
from tracetypes.stdlib.aggregates import Aggregate, types_of
from tracetypes.summaries import Summary

__all__ = ["Where", "WhereIfAny", "restrict", "restrict_if_any"]

V = TypeVar("V")
A = TypeVar("A")
W = TypeVar("W")


@attrs.frozen
class Where(Aggregate[V, A, W]):
    """The aggregate of the values for which ``where`` is true. The result of the identity is that of no value.

    ``optional``: this is None, while the result of some value is not.
    """

    aggregate: Aggregate[V, A, W]
    where: Callable[[V], bool]
    optional: bool

    def _stands_for(self) -> SelfDescribing:
        return self.aggregate

    def _name(self) -> str:
        return self.aggregate._name()

    def type_arguments(self) -> Mapping[str, Any]:
        value, result = types_of(self.aggregate)
        return {"V": value, "W": result | None if self.optional else result}

    def chooses(self) -> tuple[Choice[V], ...]:
        return _among(self.aggregate, self.where)

    def lift(self, value: V) -> A:
        return chosen(self.where(value), self.aggregate.lift, value, self.aggregate.identity())

    def identity(self) -> A:
        return self.aggregate.identity()

    def combine(self, a: A, b: A) -> A:
        return self.aggregate.combine(a, b)

    def result(self, agg: A) -> W:
        return self.aggregate.result(agg)

    def _summary(self) -> Summary[V] | None:
        return _of_some(self.aggregate, self.where)

    def fold(self, agg: A, values: Sequence[V]) -> A:
        return self.aggregate.fold(agg, [value for value in values if self.where(value)])


@attrs.frozen
class WhereIfAny(Aggregate[V, tuple[int, A], W | None], Generic[V, A, W]):
    """The aggregate of the values for which ``where`` is true; None if there is none. An element of the monoid is their
    number and their aggregate."""

    aggregate: Aggregate[V, A, W]
    where: Callable[[V], bool]

    def _stands_for(self) -> SelfDescribing:
        return self.aggregate

    def _name(self) -> str:
        return self.aggregate._name()

    def type_arguments(self) -> Mapping[str, Any]:
        value, result = types_of(self.aggregate)
        return {"V": value, "W": result | None}

    def chooses(self) -> tuple[Choice[V], ...]:
        return _among(self.aggregate, self.where)

    def lift(self, value: V) -> tuple[int, A]:
        return chosen(self.where(value), self.one, value, self.identity())

    def one(self, value: V) -> tuple[int, A]:
        """A value that counts."""
        return 1, self.aggregate.lift(value)

    def identity(self) -> tuple[int, A]:
        return 0, self.aggregate.identity()

    def combine(self, a: tuple[int, A], b: tuple[int, A]) -> tuple[int, A]:
        return a[0] + b[0], self.aggregate.combine(a[1], b[1])

    def result(self, agg: tuple[int, A]) -> W | None:
        return chosen(agg[0] > 0, self.aggregate.result, agg[1], None)

    def _summary(self) -> Summary[V] | None:
        return _of_some(self.aggregate, self.where, if_any=True)

    def fold(self, agg: tuple[int, A], values: Sequence[V]) -> tuple[int, A]:
        some = [value for value in values if self.where(value)]
        return agg[0] + len(some), self.aggregate.fold(agg[1], some)


def _among(aggregate: Aggregate[V, Any, Any], where: Callable[[V], bool]) -> tuple[Choice[V], ...]:
    """What an aggregate needs of some of the values."""
    choices = aggregate.chooses()
    alone = all(choice.where is None for choice in choices)
    return tuple([attrs.evolve(choice, where=where) for choice in choices]) if alone else ()


def _of_some(
    aggregate: Aggregate[V, Any, Any], where: Callable[[V], bool], *, if_any: bool = False
) -> Summary[V] | None:
    """What an aggregate computes of some of the values."""
    summary = aggregate._summary()
    if summary is None or len(summary.parts) > 1 or summary.parts[0].where is not None:
        return None
    return Summary((attrs.evolve(summary.parts[0], where=where, if_any=if_any),), summary.result)


def restrict(caller: str, aggregate: Aggregate[Any, Any, Any], where: Any, *, optional: bool = False) -> Any:
    """An aggregate whose identity has a result, with ``where=`` if there is one."""
    return aggregate if where is None else Where(aggregate, _predicate(caller, where), optional)


def restrict_if_any(caller: str, aggregate: Aggregate[Any, Any, Any], where: Any) -> Any:
    """An aggregate of one value or more, with ``where=`` if there is one: then it is None for no value."""
    return aggregate if where is None else WhereIfAny(aggregate, _predicate(caller, where))


def _predicate(caller: str, where: Any) -> Any:
    if not callable(where):
        raise UsageError(
            "TT121", f"{caller} was given where={show(where)}, which is no function", fix="pass where=lambda value: ..."
        )
    return where
