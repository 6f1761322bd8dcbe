"""Commutative monoids that keep their laws on a computer.

Floating-point addition is commutative but not associative: the sum of a bag of floats depends on the order of the
additions, so it differs between deployments. :class:`ExactSum` is the sum without rounding; only :meth:`ExactSum.value`
rounds, once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import attrs

__all__ = ["ExactSum", "chosen", "greatest", "larger", "least", "smaller"]


class _Comparable(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...


C = TypeVar("C", bound=_Comparable)
A = TypeVar("A")
R = TypeVar("R")
S = TypeVar("S")


@attrs.frozen
class ExactSum:
    """An exact sum of floats: ``numerator / 2**shift``, and the number of infinities and NaNs among the addends.

    ``ExactSum() + ExactSum.of(x) + ...`` is a commutative monoid in the strict sense, bit for bit. :meth:`value` rounds
    the true sum to the nearest float. The size of the sum is bounded by the range of the exponents (about 2,100 bits).
    """

    numerator: int = 0
    shift: int = 0
    infinities: tuple[int, int] = (0, 0)
    nans: int = 0

    @classmethod
    def of(cls, value: float) -> ExactSum:
        """The sum of one float."""
        if value != value:
            return cls(nans=1)
        if math.isinf(value):
            return cls(infinities=(1, 0) if value > 0 else (0, 1))
        numerator, denominator = float(value).as_integer_ratio()
        return cls(numerator, denominator.bit_length() - 1)

    @classmethod
    def of_square(cls, value: float) -> ExactSum:
        """The sum of one float's square, without rounding. It has about twice as many bits as the sum of the float."""
        one = cls.of(value)
        if one.nans or any(one.infinities):
            return cls(infinities=(sum(one.infinities), 0), nans=one.nans)
        return cls(one.numerator * one.numerator, 2 * one.shift)

    @classmethod
    def of_product(cls, a: float, b: float) -> ExactSum:
        """The sum of one product of two floats, without rounding. An infinity or NaN as IEEE 754 multiplication has it."""
        one, other = cls.of(a), cls.of(b)
        if one.nans or other.nans or any(one.infinities) or any(other.infinities):
            return cls.of(a * b)
        return cls() + cls(one.numerator * other.numerator, one.shift + other.shift)

    def __add__(self, other: ExactSum) -> ExactSum:
        shift = max(self.shift, other.shift)
        total = (self.numerator << (shift - self.shift)) + (other.numerator << (shift - other.shift))
        surplus = min(shift, (total & -total).bit_length() - 1) if total else shift
        plus, minus = self.infinities
        more_plus, more_minus = other.infinities
        return ExactSum(
            total >> surplus, shift - surplus, (plus + more_plus, minus + more_minus), self.nans + other.nans
        )

    def over(self, count: int) -> float:
        """The float nearest to the true sum divided by ``count``, which is at least 1. Rounds once and never overflows
        on the way. Infinities and NaNs count as in :meth:`value`."""
        if self.nans or any(self.infinities):
            return self.value()
        try:
            return self.numerator / (count << self.shift)
        except OverflowError:
            return math.inf if self.numerator > 0 else -math.inf

    def variance(self, ones: ExactSum, count: int, parts: int) -> float:
        """The float nearest to the variance of ``count`` numbers: their squared distances from the mean, divided by ``parts``.
        This is the sum of their squares (:meth:`of_square`), ``ones`` that of themselves. NaN if one of them is not finite,
        and for ``parts`` below 1."""
        return self.covariance(ones, ones, count, parts)

    def deviation(self, ones: ExactSum, count: int, parts: int) -> float:
        """The float nearest to the square root of the :meth:`variance`, which is not rounded before."""
        if parts < 1 or count < 1 or not _finite(self, ones):
            return math.nan
        spread, shift = self._spread(ones, ones, count)
        return _root(spread, count * parts << shift)

    def covariance(self, xs: ExactSum, ys: ExactSum, count: int, parts: int) -> float:
        """The float nearest to the covariance of ``count`` pairs: the sum of the products of their distances from both means,
        divided by ``parts``. This is the sum of the products of the pairs (:meth:`of_product`), ``xs`` and ``ys`` are
        those of their numbers. NaN if a number is not finite, and for ``parts`` below 1."""
        if parts < 1 or count < 1 or not _finite(self, xs, ys):
            return math.nan
        spread, shift = self._spread(xs, ys, count)
        return _quotient(spread, count * parts << shift)

    def correlation(self, xs: ExactSum, ys: ExactSum, x_squares: ExactSum, y_squares: ExactSum, count: int) -> float:
        """The float nearest to Pearson's correlation of ``count`` pairs, as :meth:`covariance`. NaN if a number is not finite,
        and where all ``x`` or all ``y`` are equal."""
        if not _finite(self, xs, ys, x_squares, y_squares):
            return math.nan
        both, both_shift = self._spread(xs, ys, count)
        x, x_shift = x_squares._spread(xs, xs, count)
        y, y_shift = y_squares._spread(ys, ys, count)
        if not x or not y:
            return math.nan
        root = _root(both * both << (x_shift + y_shift), x * y << 2 * both_shift)
        return root if both >= 0 else -root

    def slope(self, xs: ExactSum, ys: ExactSum, x_squares: ExactSum, count: int) -> float:
        """The float nearest to the slope of the line with the least sum of squared distances from ``count`` pairs in ``y``. NaN
        if a number is not finite, and where all ``x`` are equal."""
        if not _finite(self, xs, ys, x_squares):
            return math.nan
        both, both_shift = self._spread(xs, ys, count)
        x, x_shift = x_squares._spread(xs, xs, count)
        return _quotient(both << x_shift, x << both_shift) if x else math.nan

    def intercept(self, xs: ExactSum, ys: ExactSum, x_squares: ExactSum, count: int) -> float:
        """The float nearest to ``y`` of the line of :meth:`slope` where ``x`` is 0."""
        if not _finite(self, xs, ys, x_squares):
            return math.nan
        x, x_shift = x_squares._spread(xs, xs, count)
        level, shift = _less(
            (ys.numerator * x_squares.numerator, ys.shift + x_squares.shift),
            (xs.numerator * self.numerator, xs.shift + self.shift),
        )
        return _quotient(level << x_shift, x << shift) if x else math.nan

    def _spread(self, xs: ExactSum, ys: ExactSum, count: int) -> tuple[int, int]:
        """``count * sum(x * y) - sum(x) * sum(y)`` as a numerator and a shift. That cancels in floating point, but these are
        whole numbers."""
        return _less((count * self.numerator, self.shift), (xs.numerator * ys.numerator, xs.shift + ys.shift))

    def value(self) -> float:
        """The nearest float (ties to even). Infinity beyond the largest float; NaN under the same conditions as IEEE
        754 addition."""
        plus, minus = self.infinities
        if self.nans or (plus and minus):
            return math.nan
        if plus or minus:
            return math.inf if plus else -math.inf
        try:
            return self.numerator / (1 << self.shift)
        except OverflowError:
            return math.inf if self.numerator > 0 else -math.inf


def _finite(*sums: ExactSum) -> bool:
    return not any(one.nans or any(one.infinities) for one in sums)


def _less(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """``a - b`` of two fractions, each a numerator over two to the power of a shift."""
    shift = max(a[1], b[1])
    return (a[0] << (shift - a[1])) - (b[0] << (shift - b[1])), shift


def _quotient(numerator: int, denominator: int) -> float:
    """The nearest float; infinity beyond the largest one."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def _root(numerator: int, denominator: int) -> float:
    """The float nearest to the square root of a quotient; NaN for a negative one, which sums of the same numbers never give."""
    if numerator < 0 or denominator < 0:
        return math.nan
    # The root is scaled to 55 bits or more. Its last bit says whether something was cut off, so that the division rounds once.
    half = (numerator.bit_length() - denominator.bit_length() - 109) // 2
    if half >= 0:
        return _quotient(_root_to_odd(numerator, denominator << 2 * half) << half, 1)
    return _quotient(_root_to_odd(numerator << -2 * half, denominator), 1 << -half)


def _root_to_odd(numerator: int, denominator: int) -> int:
    """The square root of a quotient, rounded down; where it is not exact, the odd one of the two around it."""
    root = math.isqrt(numerator // denominator)
    return root | (root * root * denominator != numerator)


def smaller(a: C, b: C) -> C:
    """The smaller of two values of a total order. For floats NaN wins, so that the order of the arguments does not
    matter."""
    return a if a != a or a < b else b


def larger(a: C, b: C) -> C:
    """The larger of two values of a total order. For floats NaN wins, so that the order of the arguments does not
    matter."""
    return a if a != a or b < a else b


def least(a: C | None, b: C | None) -> C | None:
    """The :func:`smaller` of two values, where None is the identity: LEAST of SQL."""
    return b if a is None else a if b is None else smaller(a, b)


def greatest(a: C | None, b: C | None) -> C | None:
    """The :func:`larger` of two values, where None is the identity: GREATEST of SQL."""
    return b if a is None else a if b is None else larger(a, b)


def chosen(condition: bool, function: Callable[[A], R], argument: A, otherwise: S) -> R | S:
    """``function(argument) if condition else otherwise``, for a pure function. It is one expression over columns where
    an ``if`` has two paths: a record of ten counts with conditions has one path instead of a thousand."""
    return function(argument) if condition else otherwise
