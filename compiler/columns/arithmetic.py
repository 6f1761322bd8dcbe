"""Arithmetic of columns: integers of 64 bits, and floats, as Python computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from tracetypes.compiler.columns.column import either_mask
from tracetypes.compiler.tracing.expr import Call
from tracetypes.records import INT_MAX, INT_MIN

__all__ = [
    "Act",
    "Made",
    "absolute",
    "add",
    "bounds",
    "float_division",
    "floordiv",
    "integral",
    "mod",
    "mul",
    "negative",
    "plain",
    "some_marked",
    "sub",
    "truediv",
]


Made: TypeAlias = tuple[Any, Any]
"""Values, and a mask of the rows that have none (or None)."""


Act: TypeAlias = Callable[[Call, list[Any], int], Made]


_SMALL: Final = 4096
"""Up to here a pass over a column costs less than the call that makes it."""


def bounds(values: Any) -> tuple[int, int]:
    if isinstance(values, int):
        return values, values
    if not len(values):
        return 0, 0
    return int(np.minimum.reduce(values)), int(np.maximum.reduce(values))


def some_marked(mask: Any) -> Any:
    return mask if np.logical_or.reduce(mask) else None


def add(call: Call, args: list[Any], count: int) -> Made:
    a, b = args
    result = a + b
    if count > _SMALL:
        (a_low, a_high), (b_low, b_high) = bounds(a), bounds(b)
        if a_low + b_low >= INT_MIN and a_high + b_high <= INT_MAX:
            return result, None
    return result, some_marked(((a ^ result) & (b ^ result)) < 0)


def sub(call: Call, args: list[Any], count: int) -> Made:
    a, b = args
    result = a - b
    if count > _SMALL:
        (a_low, a_high), (b_low, b_high) = bounds(a), bounds(b)
        if a_low - b_high >= INT_MIN and a_high - b_low <= INT_MAX:
            return result, None
    return result, some_marked(((a ^ b) & (a ^ result)) < 0)


def mul(call: Call, args: list[Any], count: int) -> Made:
    a, b = args
    result = a * b
    (a_low, a_high), (b_low, b_high) = bounds(a), bounds(b)
    products = (a_low * b_low, a_low * b_high, a_high * b_low, a_high * b_high)
    if min(products) >= INT_MIN and max(products) <= INT_MAX:
        return result, None
    about = np.abs(np.multiply(a, b, dtype=np.float64))
    undefined = about >= 2.0**64
    near = np.flatnonzero((about >= 2.0**62) & ~undefined)
    pairs = zip(_at(a, near), _at(b, near), strict=True)
    undefined[near] = [not INT_MIN <= x * y <= INT_MAX for x, y in pairs]
    return result, some_marked(undefined)


def _at(values: Any, rows: Any) -> list[Any]:
    return values[rows].tolist() if isinstance(values, np.ndarray) else [values] * len(rows)


def negative(call: Call, args: list[Any], count: int) -> Made:
    return -args[0], some_marked(args[0] == INT_MIN)


def absolute(call: Call, args: list[Any], count: int) -> Made:
    return np.abs(args[0]), some_marked(args[0] == INT_MIN)


def _divisor(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """The divisor, 1 where it is 0 or -1; where it is 0; where it is -1."""
    if isinstance(b, int):
        if b not in (0, -1):
            return b, None, None
        b = np.full(len(a), b, np.int64)
    zero, minus = some_marked(b == 0), some_marked(b == -1)
    risky = either_mask(zero, minus)
    return (b if risky is None else np.where(risky, 1, b)), zero, minus


def floordiv(call: Call, args: list[Any], count: int) -> Made:
    a, b = args
    b, zero, minus = _divisor(a, b)
    result = a // b
    if minus is not None:
        result = np.where(minus, -result, result)
        zero = either_mask(zero, some_marked(minus & (a == INT_MIN)))
    return result, zero


def mod(call: Call, args: list[Any], count: int) -> Made:
    a, b = args
    b, zero, _ = _divisor(a, b)
    return a % b, zero


def truediv(call: Call, args: list[Any], count: int) -> Made:
    a, b = args
    zero = None
    if not isinstance(b, int):
        zero = some_marked(b == 0)
        if zero is not None:
            b = np.where(zero, 1, b)
    elif b == 0:
        return np.zeros(count), np.ones(count, np.bool_)
    result = np.true_divide(a, b)
    low = min(bounds(a)[0], bounds(b)[0])
    high = max(bounds(a)[1], bounds(b)[1])
    if low < -(2**53) or high > 2**53:
        # Not all operands are floats: the quotient of the rounded ones may not be the rounded quotient.
        big = np.zeros(count, np.bool_)
        for values in (a, b):
            big |= (np.asarray(values) > 2**53) | (np.asarray(values) < -(2**53))
        rows = np.flatnonzero(big)
        result[rows] = [x / y for x, y in zip(_at(a, rows), _at(b, rows), strict=True)]
    return result, zero


def float_division(act: Callable[[Any, Any], Any]) -> Act:
    def divide(call: Call, args: list[Any], count: int) -> Made:
        a, b = args
        if isinstance(b, float):
            return act(a, b), None if b != 0.0 else np.ones(count, np.bool_)
        return act(a, b), some_marked(b == 0.0)

    return divide


def integral(values: Any) -> Made:
    """Floats without a fraction as integers."""
    fits = (values >= -(2.0**63)) & (values < 2.0**63)
    if fits.all():
        return values.astype(np.int64), None
    return np.where(fits, values, 0.0).astype(np.int64), ~fits


def plain(act: Callable[..., Any]) -> Act:
    """An operation that has a value for every row."""

    def plain(call: Call, args: list[Any], count: int) -> Made:
        return act(*args), None

    return plain
