"""Aggregates: commutative monoids with a function into the monoid and one out of it, for windows and running results.

An :class:`Aggregate` is plain Python over tuples and records of numbers. If its methods can be traced, a backend
combines columns instead of objects, before the exchange and after it.

Each aggregate has a function of a lower-case name. ``of`` takes from a value what is aggregated; the default is the
value itself. ``to`` is the type of this, which is needed where it follows neither from a return annotation of ``of`` nor from
its code and the stream. All aggregates are lawful bit for bit, in any order of combination, except
:func:`~tracetypes.stdlib.fast_sum`, which says so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import attrs

from tracetypes.choices import Choice
from tracetypes.errors import UsageError
from tracetypes.open_types import TypeUnknown
from tracetypes.records import show
from tracetypes.self_description import SelfDescribing
from tracetypes.stdlib.annotations import returned
from tracetypes.summaries import Summary
from tracetypes.templates import type_arguments

__all__ = ["Aggregate", "Measured", "aggregate_of", "evaluate", "type_of", "types_of"]

V = TypeVar("V")
A = TypeVar("A")
W = TypeVar("W")
Number = TypeVar("Number", int, float)


class Aggregate(SelfDescribing, ABC, Generic[V, A, W]):
    """A commutative monoid ``A`` over values ``V`` with results ``W``. Instances are frozen; all methods are pure."""

    _is_template = True

    @abstractmethod
    def lift(self, value: V) -> A:
        """One value as an element of the monoid."""

    @abstractmethod
    def identity(self) -> A:
        """The neutral element."""

    @abstractmethod
    def combine(self, a: A, b: A) -> A:
        """Associative and commutative."""

    @abstractmethod
    def result(self, agg: A) -> W:
        """The result for the aggregate of one value or more."""

    def chooses(self) -> tuple[Choice[V], ...]:
        """Which values it needs, if the result is the same without the others: see
        :meth:`tracetypes.OpKeyedUnordered.chooses`. Empty: it needs all."""
        return ()

    def _summary(self) -> Summary[V] | None:
        """What it computes of a bag of values, where columns can; None for all others."""
        return None

    def fold(self, agg: A, values: Sequence[V]) -> A:
        """``combine(agg, lift(value))`` for one value after the other, for operators that have many values at once.
        Override it if there is a faster way."""
        for value in values:
            agg = self.combine(agg, self.lift(value))
        return agg


def types_of(aggregate: Aggregate[Any, Any, Any]) -> tuple[Any, Any]:
    """``V`` and ``W`` of an aggregate as annotations. They contain type variables if the stream binds them.

    For authors of operators upon aggregates: their ``type_arguments`` return ``{"V": ..., "W": ...}``.

    >>> types_of(max(of=len, to=int))
    (~V, <class 'int'>)
    >>> types_of(sum(to=float))
    (<class 'float'>, <class 'float'>)
    """
    value, _, result = type_arguments(aggregate, Aggregate)
    return value, result


def evaluate(aggregate: Aggregate[V, Any, W], values: Iterable[V]) -> W:
    """The result of an aggregate for one value or more.

    >>> evaluate(max(to=int), [3, 1, 2])
    3
    """
    agg = aggregate.identity()
    for value in values:
        agg = aggregate.combine(agg, aggregate.lift(value))
    return aggregate.result(agg)


@attrs.frozen
class Measured(Aggregate[V, A, W]):
    """An aggregate of ``of(value)``, or of the value itself. Subclasses name in ``measured`` the type of what is
    aggregated."""

    of: Callable[[V], Any] | None

    @property
    def measured(self) -> Any:
        """The type of ``of(value)``."""
        return Number

    def type_arguments(self) -> Mapping[str, Any]:
        return {"V": self.measured} if self.of is None else {}

    def measure(self, value: V) -> Any:
        """What of a value is aggregated."""
        return value if self.of is None else self.of(value)

    def measures(self, values: Sequence[V]) -> Iterable[Any]:
        """What of each value is aggregated."""
        return values if self.of is None else map(self.of, values)


def aggregate_of(caller: str, part: object) -> Aggregate[Any, Any, Any]:
    if not isinstance(part, Aggregate):
        raise UsageError("TT121", f"{caller} was given {show(part)}, which is no aggregate", fix="pass e.g. count()")
    return part


def type_of(caller: str, of: Any, to: Any, value: Any = None) -> Any:
    """The type of what is aggregated of values of a type. None: the type of the values is not known."""
    if of is not None:
        return returned(of, to, caller, arguments=(value,))
    if to is None and value is None:
        raise TypeUnknown(
            "TT120", f"{caller} does not know the type of the values", fix=f"pass it: {caller}(to=int), for example"
        )
    return value if to is None else to
