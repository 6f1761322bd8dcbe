"""Smallest and largest values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, cast, overload

import attrs

from tracetypes.algebra import greatest, least
from tracetypes.choices import Choice
from tracetypes.errors import DataError, UsageError
from tracetypes.records import (
    Boolean,
    Bytes,
    Date,
    DecimalOf,
    EnumOf,
    Float,
    Integer,
    LiteralOf,
    Schema,
    String,
    Timestamp,
    Unsigned,
)
from tracetypes.schemas import schema_of, show_type
from tracetypes.stdlib.aggregates import Aggregate, Measured, type_of
from tracetypes.stdlib.annotations import function_or_none
from tracetypes.stdlib.open_aggregates import settled_aggregate
from tracetypes.stdlib.where import restrict

__all__ = ["Max", "Min", "max", "min"]

V = TypeVar("V")
W = TypeVar("W")


@attrs.frozen
class _Extreme(Measured[V, W | None, W], Generic[V, W]):
    """The best value of a total order."""

    to: Any
    floats: bool = attrs.field(init=False, repr=False)

    @floats.default
    def _floats(self) -> bool:
        return isinstance(_ordered(self.to, type(self).__name__.lower()), Float)

    @property
    def measured(self) -> Any:
        return self.to

    def type_arguments(self) -> Mapping[str, Any]:
        return {"W": self.to, **super().type_arguments()}

    def lift(self, value: V) -> W | None:
        # -0.0 and 0.0 are equal and yet two values: which of them comes out must not depend on the order.
        return cast(W, self.measure(value) + 0.0 if self.floats else self.measure(value))

    def identity(self) -> W | None:
        return None

    def result(self, agg: W | None) -> W:
        return cast(W, agg)

    def fold(self, agg: W | None, values: Sequence[V]) -> W | None:
        for one in self.measures(values):
            if one != agg:
                agg = self.combine(agg, one + 0.0 if self.floats else one)
        return agg


@attrs.frozen
class Min(_Extreme[V, W], Generic[V, W]):
    """See :func:`min`."""

    _word = "min"
    _in_python = "compares text, bytes, decimals, unsigned integers or enums, of which columns keep no smallest one"

    def chooses(self) -> tuple[Choice[V], ...]:
        smallest: Choice[V] = Choice(self.measure, ties="any", first=True)
        # The smallest of floats is NaN if there is one, and that is the last in the order of choices.
        return (smallest, Choice(self.measure, ties="any")) if self.floats else (smallest,)

    def combine(self, a: W | None, b: W | None) -> W | None:
        return least(a, b)  # type: ignore[arg-type]


@attrs.frozen
class Max(_Extreme[V, W], Generic[V, W]):
    """See :func:`max`."""

    _word = "max"
    _in_python = "compares text, bytes, decimals, unsigned integers or enums, of which columns keep no largest one"

    def chooses(self) -> tuple[Choice[V], ...]:
        return (Choice(self.measure, ties="any"),)

    def combine(self, a: W | None, b: W | None) -> W | None:
        return greatest(a, b)  # type: ignore[arg-type]


@overload
def min(of: None = None, *, to: type[W]) -> Aggregate[W, Any, W]: ...


@overload
def min(of: Callable[[V], W], *, to: type[W] | None = None) -> Aggregate[V, Any, W]: ...


@overload
def min(of: None = None, *, to: type[W], where: Callable[[W], bool]) -> Aggregate[W, Any, W | None]: ...


@overload
def min(
    of: Callable[[V], W], *, to: type[W] | None = None, where: Callable[[V], bool]
) -> Aggregate[V, Any, W | None]: ...


def min(of: Any = None, *, to: Any = None, where: Any = None) -> Any:
    """The smallest value, of a scalar type with an order (numbers, bool, str, bytes, datetime, date, literals, an IntEnum or
    StrEnum). ``to``: this type, where it does not follow from the stream. Among floats NaN wins over all, and -0.0 counts as
    0.0. ``where``: of the values for which it is true; None if there is none.

    >>> evaluate(min(to=str), ["b", "a"])
    'a'
    """

    def made(value: Any) -> Any:
        aggregate: Any = Min(function_or_none("min", of), type_of("min", of, to, value))
        return restrict("min", aggregate, where, optional=True)

    return settled_aggregate("min", made)


@overload
def max(of: None = None, *, to: type[W]) -> Aggregate[W, Any, W]: ...


@overload
def max(of: Callable[[V], W], *, to: type[W] | None = None) -> Aggregate[V, Any, W]: ...


@overload
def max(of: None = None, *, to: type[W], where: Callable[[W], bool]) -> Aggregate[W, Any, W | None]: ...


@overload
def max(
    of: Callable[[V], W], *, to: type[W] | None = None, where: Callable[[V], bool]
) -> Aggregate[V, Any, W | None]: ...


def max(of: Any = None, *, to: Any = None, where: Any = None) -> Any:
    """The largest value; see :func:`min`.

    >>> evaluate(max(of=abs, to=float), [-3.0, 2.0])
    3.0
    """

    def made(value: Any) -> Any:
        aggregate: Any = Max(function_or_none("max", of), type_of("max", of, to, value))
        return restrict("max", aggregate, where, optional=True)

    return settled_aggregate("max", made)


_ORDERED: Final = (Boolean, Integer, Unsigned, Float, DecimalOf, String, Bytes, Timestamp, Date, LiteralOf)


def _ordered(to: Any, caller: str) -> Schema:
    try:
        schema = schema_of(to)
    except DataError as error:
        raise UsageError("TT121", f"{caller}: {error.message}", fix=error.fix) from None
    ordered = isinstance(schema, EnumOf) and issubclass(schema.cls, int | str)
    if not ordered and not isinstance(schema, _ORDERED):
        raise UsageError(
            "TT121",
            f"{caller} was given values of {show_type(to)}, which have no total order of their own",
            fix="compare a scalar: of=lambda value: ..., or take last(by=...) or top(1, by=...)",
        )
    return schema
