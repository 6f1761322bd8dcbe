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
        if parts < 1 or count < 1 or self.nans or any(self.infinities):
            return math.nan
        # (n * sum(x^2) - sum(x)^2) / (n * parts) cancels in floating point, but these are whole numbers.
        shift = max(self.shift, 2 * ones.shift)
        spread = count * (self.numerator << (shift - self.shift))
        spread -= ones.numerator * ones.numerator << (shift - 2 * ones.shift)
        try:
            return spread / (count * parts << shift)
        except OverflowError:
            return math.inf

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
