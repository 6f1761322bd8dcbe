"""Counts, sums, means and variances, exact to the last bit.

>>> evaluate(mean(), [1.0, 2.0, 4.5])
2.5
>>> evaluate(sum(of=len, to=int), ["a", "bc"])
3
"""

from __future__ import annotations

import builtins
import decimal
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final, Generic, TypeVar, cast, get_args, overload

import attrs

from tracetypes.algebra import ExactSum
from tracetypes.errors import UsageError
from tracetypes.records import DecimalOf, Unsigned
from tracetypes.schemas import show_type
from tracetypes.stdlib.aggregates import Aggregate, Measured, type_of
from tracetypes.stdlib.annotations import function_or_none
from tracetypes.stdlib.open_aggregates import settled_aggregate
from tracetypes.stdlib.where import restrict, restrict_if_any

__all__ = [
    "Count",
    "DecimalSum",
    "FastSum",
    "FloatSum",
    "IntegerSum",
    "Mean",
    "Moments",
    "UnsignedSum",
    "Variance",
    "count",
    "fast_sum",
    "mean",
    "sum",
    "variance",
]

V = TypeVar("V")
A = TypeVar("A")
W = TypeVar("W")
Real = TypeVar("Real", bound=float)
"""``Number`` for mypy, which finds bounded variables more often than constrained ones."""
Addend = TypeVar("Addend", bound=float | Decimal)


@attrs.frozen
class Count(Aggregate[V, int, int]):
    """See :func:`count`."""

    _word = "count"

    def lift(self, value: V) -> int:
        return 1

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def result(self, agg: int) -> int:
        return agg

    def fold(self, agg: int, values: Sequence[V]) -> int:
        return agg + len(values)


@overload
def count() -> Aggregate[Any, Any, int]: ...


@overload
def count(*, where: Callable[[V], bool]) -> Aggregate[V, Any, int]: ...


def count(*, where: Any = None) -> Any:
    """The number of values. ``where``: of those for which it is true.

    >>> evaluate(count(), ["a", "b", "b"])
    3
    >>> evaluate(count(where=lambda text: text > "a"), ["a", "b", "b"])
    2
    """
    return restrict("count", Count(), where)


@attrs.frozen
class IntegerSum(Measured[V, int, int], Generic[V]):
    """See :func:`sum`."""

    _word = "sum"

    @property
    def measured(self) -> Any:
        return int

    def lift(self, value: V) -> int:
        return cast(int, self.measure(value))

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def result(self, agg: int) -> int:
        return agg


@attrs.frozen
class FloatSum(Measured[V, ExactSum, float], Generic[V]):
    """See :func:`sum`."""

    _word = "sum"

    @property
    def measured(self) -> Any:
        return float

    def lift(self, value: V) -> ExactSum:
        return ExactSum.of(self.measure(value))

    def identity(self) -> ExactSum:
        return ExactSum()

    def combine(self, a: ExactSum, b: ExactSum) -> ExactSum:
        return a + b

    def result(self, agg: ExactSum) -> float:
        return agg.value()


_EXACT: Final = Context(prec=10_000, Emin=-999_999, Emax=999_999, traps=[Inexact, InvalidOperation])
"""In which no sum is rounded."""


@attrs.frozen
class _DeclaredSum(Measured[V, A, W], Generic[V, A, W]):
    """A sum of numbers of a declared type."""

    to: Any

    @property
    def measured(self) -> Any:
        return self.to

    def type_arguments(self) -> Mapping[str, Any]:
        return {"W": self.to, **super().type_arguments()}

    def lift(self, value: V) -> A:
        return cast(A, self.measure(value))

    def result(self, agg: A) -> W:
        return cast(W, agg)


@attrs.frozen
class UnsignedSum(_DeclaredSum[V, int, W], Generic[V, W]):
    """See :func:`sum`."""

    _word = "sum"
    _in_python = "adds unsigned integers, which columns only pass on"

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b


@attrs.frozen
class DecimalSum(_DeclaredSum[V, Decimal, W], Generic[V, W]):
    """See :func:`sum`."""

    _word = "sum"
    _in_python = "adds decimals, which columns only pass on"

    def identity(self) -> Decimal:
        return Decimal(0)

    def combine(self, a: Decimal, b: Decimal) -> Decimal:
        return _EXACT.add(a, b)


@attrs.frozen
class FastSum(Measured[V, float, float], Generic[V]):
    """See :func:`fast_sum`."""

    _word = "fast_sum"

    @property
    def measured(self) -> Any:
        return float

    def lift(self, value: V) -> float:
        return cast(float, self.measure(value) + 0.0)

    def identity(self) -> float:
        return 0.0

    def combine(self, a: float, b: float) -> float:
        return a + b

    def result(self, agg: float) -> float:
        return agg

    def fold(self, agg: float, values: Sequence[V]) -> float:
        for number in self.measures(values):
            agg += number
        return agg


@overload
def sum(
    of: None = None, *, to: type[Addend], where: Callable[[Addend], bool] | None = None
) -> Aggregate[Addend, Any, Addend]: ...


@overload
def sum(
    of: Callable[[V], Addend], *, to: type[Addend] | None = None, where: Callable[[V], bool] | None = None
) -> Aggregate[V, Any, Addend]: ...


def sum(of: Any = None, *, to: Any = None, where: Any = None) -> Any:
    """The sum of ``int``, ``float``, ``UInt64`` or ``Annotated[Decimal, decimal(...)]``. ``to``: which of them, where that does
    not follow from the stream. ``where``: of the values for which it is true; 0 if there is none.

    Integers are added exactly; a sum beyond 64 bits is an error when it is emitted (TT206). Floats are added without
    rounding (:class:`tracetypes.ExactSum`), and the true sum is rounded once: the same bits at every parallelism.
    Decimals are added exactly, whatever the context of ``decimal`` says; a sum with more digits than the type has is TT206.
    Raises :class:`UsageError` ``TT120`` if the type is unknown, ``TT121`` if it is none of these.

    >>> evaluate(sum(to=float), [1e16, 1.0, -1e16])
    1.0
    """

    def made(value: Any) -> Any:
        return restrict("sum", _numbers("sum", of, to, {int: IntegerSum, float: FloatSum}, value), where)

    return settled_aggregate("sum", made)


def fast_sum(
    of: Callable[[V], float] | None = None, *, where: Callable[[V], bool] | None = None
) -> Aggregate[V, Any, float]:
    """The sum of floats by plain addition. Its result is not a function of the values: float addition is not
    associative, so the last bits differ between runs, deployments and recoveries. ``check_laws`` reports TT302. If
    values are added in the order of a stream, as by :func:`tracetypes.stdlib.time_window`, the bits do not differ.
    ``where`` as in :func:`sum`.

    >>> evaluate(fast_sum(), [1e16, 1.0, -1e16])
    0.0
    """
    aggregate: Aggregate[V, Any, float] = restrict("fast_sum", FastSum(function_or_none("fast_sum", of)), where)
    return aggregate


@attrs.frozen
class Mean(Measured[V, tuple[ExactSum, int], float], Generic[V]):
    """See :func:`mean`."""

    _word = "mean"

    def lift(self, value: V) -> tuple[ExactSum, int]:
        return ExactSum.of(self.measure(value)), 1

    def identity(self) -> tuple[ExactSum, int]:
        return ExactSum(), 0

    def combine(self, a: tuple[ExactSum, int], b: tuple[ExactSum, int]) -> tuple[ExactSum, int]:
        return a[0] + b[0], a[1] + b[1]

    def result(self, agg: tuple[ExactSum, int]) -> float:
        return agg[0].over(agg[1])


@overload
def mean(of: None = None) -> Aggregate[Real, Any, float]: ...


@overload
def mean(of: Callable[[V], float]) -> Aggregate[V, Any, float]: ...


@overload
def mean(of: None = None, *, where: Callable[[Real], bool]) -> Aggregate[Real, Any, float | None]: ...


@overload
def mean(of: Callable[[V], float], *, where: Callable[[V], bool]) -> Aggregate[V, Any, float | None]: ...


def mean(of: Any = None, *, where: Any = None) -> Any:
    """The arithmetic mean of numbers taken as floats: the float nearest to the true mean. ``where``: of the values for
    which it is true; None if there is none.

    >>> evaluate(mean(), [1e308, 1e308, 1e308])
    1e+308
    >>> evaluate(mean(where=lambda x: x < 10.0), [1.0, 2.0, 99.0])
    1.5
    """
    return restrict_if_any("mean", Mean(function_or_none("mean", of)), where)


Moments = tuple[int, ExactSum, ExactSum]


@attrs.frozen
class Variance(Measured[V, Moments, float], Generic[V]):
    """See :func:`variance`. An element of the monoid is the count, the exact sum, and the exact sum of squares."""

    _word = "variance"

    population: bool

    def lift(self, value: V) -> Moments:
        number = self.measure(value)
        return 1, ExactSum.of(number), ExactSum.of_square(number)

    def identity(self) -> Moments:
        return 0, ExactSum(), ExactSum()

    def combine(self, a: Moments, b: Moments) -> Moments:
        return a[0] + b[0], a[1] + b[1], a[2] + b[2]

    def result(self, agg: Moments) -> float:
        n, ones, squares = agg
        return squares.variance(ones, n, n if self.population else n - 1)


@overload
def variance(of: None = None, *, population: bool = False) -> Aggregate[Real, Any, float]: ...


@overload
def variance(of: Callable[[V], float], *, population: bool = False) -> Aggregate[V, Any, float]: ...


@overload
def variance(
    of: None = None, *, population: bool = False, where: Callable[[Real], bool]
) -> Aggregate[Real, Any, float | None]: ...


@overload
def variance(
    of: Callable[[V], float], *, population: bool = False, where: Callable[[V], bool]
) -> Aggregate[V, Any, float | None]: ...


def variance(of: Any = None, *, population: bool = False, where: Any = None) -> Any:
    """The variance of numbers taken as floats: the float nearest to the true variance. NaN if a number is not finite.

    By default of a sample (divided by ``n - 1``; NaN for one number); with ``population`` of the whole population
    (divided by ``n``). ``where``: of the values for which it is true; None if there is none.

    >>> evaluate(variance(), [1e9, 1e9 + 1, 1e9 + 2])
    1.0
    """
    return restrict_if_any("variance", Variance(function_or_none("variance", of), population), where)


def _numbers(caller: str, of: Any, to: Any, classes: Mapping[Any, Callable[[Any], Any]], value: Any) -> Any:
    type_, function = type_of(caller, of, to, value), function_or_none(caller, of)
    if type_ in classes:
        return classes[type_](function)
    match get_args(type_):
        case (builtins.int, Unsigned()):
            return UnsignedSum(function, type_)
        case (decimal.Decimal, DecimalOf()):
            return DecimalSum(function, type_)
        case _:
            raise UsageError(
                "TT121",
                f"{caller} was given values of {show_type(type_)}",
                fix="add int or float: to=int or to=float; UInt64 or Annotated[Decimal, decimal(18, 2)], which the function "
                "for of= says that it returns",
            )
