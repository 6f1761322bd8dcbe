"""Statistics of numbers and of pairs of numbers: functions of exact sums, each rounded once.

>>> evaluate(covariance(lambda r: r[0], lambda r: r[1]), [[1.0, 2.0], [3.0, 6.0]])
4.0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

import attrs

from tracetypes.algebra import ExactSum
from tracetypes.stdlib.aggregates import Aggregate
from tracetypes.stdlib.annotations import function_or_none, needed_function
from tracetypes.stdlib.sums import Moments, Real, Variance
from tracetypes.stdlib.where import restrict_if_any

__all__ = ["Correlation", "Covariance", "Deviation", "Line", "Regression", "correlation", "covariance", "regression", "stddev"]

V = TypeVar("V")


@attrs.frozen
class Deviation(Variance[V], Generic[V]):
    """See :func:`stddev`."""

    _word = "stddev"

    def result(self, agg: Moments) -> float:
        n, ones, squares = agg
        return squares.deviation(ones, n, n if self.population else n - 1)


@overload
def stddev(of: None = None, *, population: bool = False) -> Aggregate[Real, Any, float]: ...


@overload
def stddev(of: Callable[[V], float], *, population: bool = False) -> Aggregate[V, Any, float]: ...


@overload
def stddev(
    of: None = None, *, population: bool = False, where: Callable[[Real], bool]
) -> Aggregate[Real, Any, float | None]: ...


@overload
def stddev(
    of: Callable[[V], float], *, population: bool = False, where: Callable[[V], bool]
) -> Aggregate[V, Any, float | None]: ...


def stddev(of: Any = None, *, population: bool = False, where: Any = None) -> Any:
    """The standard deviation of numbers taken as floats: the float nearest to the square root of the true variance. NaN if a
    number is not finite.

    By default of a sample (``n - 1``; NaN for one number); with ``population`` of the whole population (``n``). ``where``: of
    the values for which it is true; None if there is none. It keeps what :func:`variance` keeps.

    >>> evaluate(stddev(), [1e9, 1e9 + 2, 1e9 + 4])
    2.0
    """
    return restrict_if_any("stddev", Deviation(function_or_none("stddev", of), population), where)


PairSums = tuple[int, ExactSum, ExactSum, ExactSum]
"""How many pairs, and the exact sums of x, of y and of their products."""


@attrs.frozen
class _OfPairs(Aggregate[V, tuple[Any, ...], Any]):
    """An aggregate of two numbers of each value."""

    x: Callable[[V], float]
    y: Callable[[V], float]


@attrs.frozen
class Covariance(_OfPairs[V], Aggregate[V, PairSums, float], Generic[V]):
    """See :func:`covariance`."""

    _word = "covariance"

    population: bool

    def lift(self, value: V) -> PairSums:
        x, y = self.x(value), self.y(value)
        return 1, ExactSum.of(x), ExactSum.of(y), ExactSum.of_product(x, y)

    def identity(self) -> PairSums:
        return 0, ExactSum(), ExactSum(), ExactSum()

    def combine(self, a: PairSums, b: PairSums) -> PairSums:
        return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]

    def result(self, agg: PairSums) -> float:
        n, xs, ys, products = agg
        return products.covariance(xs, ys, n, n if self.population else n - 1)


@overload
def covariance(
    x: Callable[[V], float], y: Callable[[V], float], *, population: bool = False
) -> Aggregate[V, Any, float]: ...


@overload
def covariance(
    x: Callable[[V], float], y: Callable[[V], float], *, population: bool = False, where: Callable[[V], bool]
) -> Aggregate[V, Any, float | None]: ...


def covariance(x: Any, y: Any, *, population: bool = False, where: Any = None) -> Any:
    """The covariance of two numbers ``x(value)`` and ``y(value)``, taken as floats: the float nearest to the true one. NaN if a
    number is not finite.

    By default of a sample (divided by ``n - 1``; NaN for one pair); with ``population`` of the whole population (divided by
    ``n``). ``where``: of the values for which it is true; None if there is none. Raises :class:`UsageError` ``TT121``.

    >>> evaluate(covariance(lambda n: n, lambda n: n * n), [1, 2, 3])
    4.0
    """
    aggregate: Any = Covariance(*_functions("covariance", x, y), population)
    return restrict_if_any("covariance", aggregate, where)


LineSums = tuple[int, ExactSum, ExactSum, ExactSum, ExactSum]
"""How many pairs, and the exact sums of x, of y, of their products and of the squares of x."""


@attrs.frozen
class Line:
    """The line ``y = slope * x + intercept``."""

    slope: float
    intercept: float


@attrs.frozen
class Regression(_OfPairs[V], Aggregate[V, LineSums, Line], Generic[V]):
    """See :func:`regression`."""

    _word = "regression"

    def lift(self, value: V) -> LineSums:
        x, y = self.x(value), self.y(value)
        return 1, ExactSum.of(x), ExactSum.of(y), ExactSum.of_product(x, y), ExactSum.of_square(x)

    def identity(self) -> LineSums:
        return 0, ExactSum(), ExactSum(), ExactSum(), ExactSum()

    def combine(self, a: LineSums, b: LineSums) -> LineSums:
        return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4]

    def result(self, agg: LineSums) -> Line:
        n, xs, ys, products, squares = agg
        return Line(products.slope(xs, ys, squares, n), products.intercept(xs, ys, squares, n))


@overload
def regression(x: Callable[[V], float], y: Callable[[V], float]) -> Aggregate[V, Any, Line]: ...


@overload
def regression(
    x: Callable[[V], float], y: Callable[[V], float], *, where: Callable[[V], bool]
) -> Aggregate[V, Any, Line | None]: ...


def regression(x: Any, y: Any, *, where: Any = None) -> Any:
    """The line that predicts ``y(value)`` from ``x(value)`` with the least squares, as ``Line(slope, intercept)``: REGR_SLOPE and
    REGR_INTERCEPT of SQL, which take ``y`` first. Both are the floats nearest to the true ones; NaN if a number is not finite,
    and where all ``x`` are equal. ``where``: of the values for which it is true; None if there is none. Raises
    :class:`UsageError` ``TT121``.

    >>> evaluate(regression(lambda n: n, lambda n: 2 * n + 1), [1, 2, 5])
    Line(slope=2.0, intercept=1.0)
    """
    aggregate: Any = Regression(*_functions("regression", x, y))
    return restrict_if_any("regression", aggregate, where)


CorrelationSums = tuple[int, ExactSum, ExactSum, ExactSum, ExactSum, ExactSum]
"""How many pairs, and the exact sums of x, of y, of their products, and of the squares of x and of y."""


@attrs.frozen
class Correlation(_OfPairs[V], Aggregate[V, CorrelationSums, float], Generic[V]):
    """See :func:`correlation`."""

    _word = "correlation"

    def lift(self, value: V) -> CorrelationSums:
        x, y = self.x(value), self.y(value)
        sums = ExactSum.of(x), ExactSum.of(y), ExactSum.of_product(x, y)
        return 1, *sums, ExactSum.of_square(x), ExactSum.of_square(y)

    def identity(self) -> CorrelationSums:
        return 0, ExactSum(), ExactSum(), ExactSum(), ExactSum(), ExactSum()

    def combine(self, a: CorrelationSums, b: CorrelationSums) -> CorrelationSums:
        return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5]

    def result(self, agg: CorrelationSums) -> float:
        n, xs, ys, products, x_squares, y_squares = agg
        return products.correlation(xs, ys, x_squares, y_squares, n)


@overload
def correlation(x: Callable[[V], float], y: Callable[[V], float]) -> Aggregate[V, Any, float]: ...


@overload
def correlation(
    x: Callable[[V], float], y: Callable[[V], float], *, where: Callable[[V], bool]
) -> Aggregate[V, Any, float | None]: ...


def correlation(x: Any, y: Any, *, where: Any = None) -> Any:
    """Pearson's correlation of two numbers ``x(value)`` and ``y(value)``, taken as floats: the float nearest to the true one,
    from -1.0 to 1.0. NaN if a number is not finite, and where all ``x`` or all ``y`` are equal. ``where``: of the values for
    which it is true; None if there is none. Raises :class:`UsageError` ``TT121``.

    >>> evaluate(correlation(lambda n: n, lambda n: -3 * n), [1, 2, 5])
    -1.0
    """
    aggregate: Any = Correlation(*_functions("correlation", x, y))
    return restrict_if_any("correlation", aggregate, where)


def _functions(caller: str, x: Any, y: Any) -> tuple[Any, Any]:
    return needed_function(caller, "x", x), needed_function(caller, "y", y)
