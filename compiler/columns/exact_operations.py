"""Operations of exact sums over columns."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tracetypes.compiler.columns.arithmetic import Made
from tracetypes.compiler.columns.column import Column, exacts_of
from tracetypes.compiler.columns.exact_sums import ExactSums
from tracetypes.compiler.tracing.expr import Call, Exact
from tracetypes.compiler.tracing.operations import basic

__all__ = ["exact_add", "exact_over", "exact_product", "exact_square", "exact_statistic", "exact_value"]


def exact_add(call: Call, args: list[Any], count: int) -> Made:
    """The sum of two exact sums."""
    kind = Exact()
    sums = [exacts_of(Column(kind, arg), 1) for arg in args]
    total = sums[0] + sums[1]
    return (total if len(total) == count else total.take(np.zeros(count, np.int64))), None


def exact_value(call: Call, args: list[Any], count: int) -> Made:
    """The nearest float."""
    (values,) = args
    if isinstance(values, ExactSums):
        return values.rounded(), None
    return np.where(np.isnan(values), np.nan, values + 0.0), None


def exact_over(call: Call, args: list[Any], count: int) -> Made:
    """The float nearest to the quotient."""
    values, counts = args
    sums = exacts_of(Column(Exact(), values), 1)
    sums = sums if len(sums) == count else sums.take(np.zeros(count, np.int64))
    counts = np.broadcast_to(np.asarray(counts, np.int64), (count,))
    undefined = counts < 1
    results = sums.over(np.where(undefined, 1, counts))
    return results, undefined if undefined.any() else None


_SPLIT: Final = float((1 << 27) + 1)
"""Times this, a float of 53 bits falls into two halves of 26 bits (Dekker, Numerische Mathematik 18, 1971)."""


def exact_square(call: Call, args: list[Any], count: int) -> Made:
    """The square of a float as the sum of two."""
    values = np.broadcast_to(np.asarray(args[0], np.float64), (count,))
    return _products(values, values)


def exact_product(call: Call, args: list[Any], count: int) -> Made:
    """The product of two floats as the sum of two."""
    a, b = (np.broadcast_to(np.asarray(arg, np.float64), (count,)) for arg in args)
    return _products(a, b)


def _products(a: Any, b: Any) -> Made:
    finite, undefined = np.isfinite(a), _out_of_range(a)
    if b is not a:
        finite, undefined = finite & np.isfinite(b), undefined | _out_of_range(b)
    inside = finite & ~undefined
    first = np.where(inside, a, 0.0)
    second = first if b is a else np.where(inside, b, 0.0)
    (high, low), products = _halves(first), first * second
    other_high, other_low = (high, low) if b is a else _halves(second)
    rest = ((high * other_high - products) + high * other_low + low * other_high) + low * other_low
    if not finite.all():
        with np.errstate(invalid="ignore", over="ignore"):
            products = np.where(finite, products, a * b)
    sums = ExactSums.of(products) + ExactSums.of(rest)
    return sums, undefined if undefined.any() else None


def _out_of_range(values: Any) -> Any:
    sizes = np.abs(values)
    return np.isfinite(values) & (values != 0) & ((sizes < basic.SMALLEST_SQUARED) | (sizes > basic.LARGEST_SQUARED))


def _halves(values: Any) -> tuple[Any, Any]:
    """Two floats of 26 bits for each of these."""
    high = _SPLIT * values
    high -= high - values
    return high, values - high


def exact_statistic(call: Call, args: list[Any], count: int) -> Made:
    """What a method of exact sums gives, row by row."""
    columns = []
    for arg, kind in zip(args, call.op.signature.takes, strict=True):
        if isinstance(kind, Exact):
            sums = exacts_of(Column(kind, arg), 1)
            columns.append([*sums.sums()] * (1 if len(sums) == count else count))
        else:
            columns.append(np.broadcast_to(np.asarray(arg, np.int64), (count,)).tolist())
    return np.array([call.op.meaning(*row) for row in zip(*columns, strict=True)], np.float64), None
