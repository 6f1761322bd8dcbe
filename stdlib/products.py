"""Several aggregates of the same values, as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Generic, TypeVar

import attrs

from tracetypes.choices import Choice
from tracetypes.errors import UsageError
from tracetypes.records import DecimalOf, Float, Integer, Optional, Record, Schema
from tracetypes.schemas import schema_of, show_type
from tracetypes.stdlib.aggregates import Aggregate, aggregate_of, types_of
from tracetypes.stdlib.annotations import returned, same_values
from tracetypes.stdlib.open_aggregates import aggregates_for, results_for, settled_aggregate
from tracetypes.summaries import OfAggregate, Summary

__all__ = ["Both", "Struct", "both", "fits", "struct", "summary_of"]

V = TypeVar("V")
W = TypeVar("W")
W1 = TypeVar("W1")
W2 = TypeVar("W2")


@attrs.frozen
class Both(Aggregate[V, tuple[Any, Any], W], Generic[V, W]):
    """See :func:`both`."""

    _word = "both"

    a: Aggregate[V, Any, Any]
    b: Aggregate[V, Any, Any]
    into: Callable[[Any, Any], W]
    to: Any

    def type_arguments(self) -> Mapping[str, Any]:
        return {"V": same_values((types_of(self.a)[0], types_of(self.b)[0]), "both"), "W": self.to}

    def chooses(self) -> tuple[Choice[V], ...]:
        return _of_each((self.a, self.b))

    def lift(self, value: V) -> tuple[Any, Any]:
        return self.a.lift(value), self.b.lift(value)

    def identity(self) -> tuple[Any, Any]:
        return self.a.identity(), self.b.identity()

    def combine(self, a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
        return self.a.combine(a[0], b[0]), self.b.combine(a[1], b[1])

    def result(self, agg: tuple[Any, Any]) -> W:
        return self.into(self.a.result(agg[0]), self.b.result(agg[1]))

    def _summary(self) -> Summary[V] | None:
        return _together(self, (self.a, self.b), self.of_results)

    def of_results(self, results: Sequence[Any]) -> W:
        """The result of these."""
        return self.into(results[0], results[1])

    def fold(self, agg: tuple[Any, Any], values: Sequence[V]) -> tuple[Any, Any]:
        return self.a.fold(agg[0], values), self.b.fold(agg[1], values)


def _of_each(aggregates: Sequence[Aggregate[V, Any, Any]]) -> tuple[Choice[V], ...]:
    """What several aggregates need together."""
    choices = [one.chooses() for one in aggregates]
    return tuple([choice for some in choices for choice in some]) if all(choices) else ()


def _together(
    whole: Aggregate[V, Any, Any], aggregates: Sequence[Aggregate[V, Any, Any]], result: Callable[[Sequence[Any]], Any]
) -> Summary[V] | None:
    """What several aggregates compute of a bag of values, if one of them says what it computes, or needs some values only.
    ``result``: of their results."""
    if not any(one.chooses() or one._summary() for one in aggregates):
        return None
    summaries = [one._summary() or _alone(one) for one in aggregates]
    first = [sum(len(one.parts) for one in summaries[:at]) for at in range(len(summaries))]
    places = [(one.result, at, at + len(one.parts)) for at, one in zip(first, summaries, strict=True)]
    parts = [
        attrs.evolve(part, owners=(whole, *(part.owners or (one,))))
        for one, summary in zip(aggregates, summaries, strict=True)
        for part in summary.parts
    ]
    return Summary(tuple(parts), lambda values: result([of(values[start:end]) for of, start, end in places]))


def summary_of(aggregate: Aggregate[V, Any, Any]) -> Summary[V] | None:
    """What an aggregate computes of a bag of values, or which of them it needs; None if it says neither."""
    return aggregate._summary() or (_alone(aggregate) if aggregate.chooses() else None)


def _alone(aggregate: Aggregate[V, Any, Any]) -> Summary[V]:
    """The summary of an aggregate that has none of its own."""
    choices = aggregate.chooses()
    alone = len(choices) == 1 and choices[0].count == 1 and choices[0].ties != "all"
    return Summary((OfAggregate(aggregate=aggregate, choice=choices[0] if alone else None),), itemgetter(0))


def both(
    a: Aggregate[V, Any, W1], b: Aggregate[V, Any, W2], into: Callable[[W1, W2], W], *, to: type[W] | None = None
) -> Aggregate[V, Any, W]:
    """Two aggregates of the same values, and ``into(result of a, result of b)`` of their results. ``into``: a record,
    or a function. ``to``: what the function returns, where neither its annotation nor its code says it. Raises
    :class:`UsageError` ``TT120``.

    >>> evaluate(both(count(), max(to=int), lambda n, most: [n, most]), [7, 5])
    [2, 7]
    """

    def made(value: Any) -> Any:
        first, second = aggregates_for((aggregate_of("both", a), aggregate_of("both", b)), value)
        pair: Both[V, W] = Both(first, second, into, returned(into, to, "both", arguments=results_for((first, second), value)))
        pair.type_arguments()
        return pair

    aggregate: Aggregate[V, Any, W] = settled_aggregate("both", made, (a, b))
    return aggregate


@attrs.frozen
class Struct(Aggregate[V, tuple[Any, ...], W], Generic[V, W]):
    """See :func:`struct`."""

    _word = "struct"

    to: Callable[..., W]
    names: tuple[str, ...]
    parts: tuple[Aggregate[V, Any, Any], ...]

    def type_arguments(self) -> Mapping[str, Any]:
        return {"V": same_values((types_of(part)[0] for part in self.parts), "struct"), "W": self.to}

    def _parts(self) -> Iterator[tuple[str, object]]:
        return zip(self.names, self.parts, strict=True)

    def chooses(self) -> tuple[Choice[V], ...]:
        return _of_each(self.parts)

    def lift(self, value: V) -> tuple[Any, ...]:
        return tuple([part.lift(value) for part in self.parts])

    def identity(self) -> tuple[Any, ...]:
        return tuple([part.identity() for part in self.parts])

    def combine(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([part.combine(a[at], b[at]) for at, part in enumerate(self.parts)])

    def result(self, agg: tuple[Any, ...]) -> W:
        return self.to(
            **{name: part.result(agg[at]) for at, (name, part) in enumerate(zip(self.names, self.parts, strict=True))}
        )

    def _summary(self) -> Summary[V] | None:
        return _together(self, self.parts, self.of_results)

    def of_results(self, results: Sequence[Any]) -> W:
        """The record of these."""
        return self.to(**dict(zip(self.names, results, strict=True)))

    def fold(self, agg: tuple[Any, ...], values: Sequence[V]) -> tuple[Any, ...]:
        return tuple([part.fold(agg[at], values) for at, part in enumerate(self.parts)])


def struct(to: type[W], **parts: Aggregate[V, Any, Any]) -> Aggregate[V, Any, W]:
    """A record of several aggregates of the same values, one for each field of ``to``, by name.

    Raises :class:`UsageError` ``TT121`` if the names are not the fields of ``to``, or a result does not fit its field.

    >>> @attrs.frozen
    ... class Range:
    ...     low: int
    ...     high: int
    >>> evaluate(struct(Range, low=min(to=int), high=max(to=int)), [3, 1, 2])
    Range(low=1, high=3)
    """
    for part in parts.values():
        aggregate_of("struct", part)

    def made(value: Any) -> Any:
        return _struct(to, dict(zip(parts, aggregates_for(parts.values(), value), strict=True)))

    aggregate: Aggregate[V, Any, W] = settled_aggregate("struct", made)
    return aggregate


def _struct(to: type[W], parts: Mapping[str, Aggregate[V, Any, Any]]) -> Struct[V, W]:
    record: Struct[V, W] = Struct(to, tuple(parts), tuple(parts.values()))
    schema = schema_of(to)
    if not isinstance(schema, Record) or {name for name, _ in schema.fields} != set(parts):
        fields = ", ".join(name for name, _ in schema.fields) if isinstance(schema, Record) else "no fields"
        raise UsageError(
            "TT121",
            f"struct was given {', '.join(parts) or 'nothing'} for {show_type(to)}, which has {fields}",
            fix="name one aggregate for each field of the record",
        )
    for name, field in schema.fields:
        annotation = types_of(parts[name])[1]
        if not fits(annotation, field):
            raise UsageError(
                "TT121",
                f"struct: {show_type(to)}.{name} cannot hold {show_type(annotation)}",
                fix="change the type of the field, or the aggregate",
            )
    record.type_arguments()
    return record


def fits(annotation: Any, field: Schema) -> bool:
    """Can a field hold the values of a type? A type that is not known yet may fit."""
    if isinstance(annotation, TypeVar) or getattr(annotation, "__parameters__", None):
        return True
    return _holds(field, schema_of(annotation))


def _holds(field: Schema, schema: Schema) -> bool:
    """Can the field hold every value of the schema?"""
    match schema, field:
        case DecimalOf(), DecimalOf():
            return schema.scale <= field.scale and schema.precision - schema.scale <= field.precision - field.scale
        case Optional(item), Optional(inner):
            return _holds(inner, item)
        case _, Optional(inner):
            return schema == field or _holds(inner, schema)
        case _:
            return schema == field or (isinstance(schema, Integer) and isinstance(field, Float))
