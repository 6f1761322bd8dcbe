"""Bit operations over all values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast, overload

import attrs

from tracetypes.stdlib.aggregates import Aggregate, Measured
from tracetypes.stdlib.annotations import function_or_none
from tracetypes.stdlib.where import restrict_if_any

__all__ = ["BitAnd", "BitOr", "BitXor", "bit_and", "bit_or", "bit_xor"]

V = TypeVar("V")


@attrs.frozen
class _Bits(Measured[V, int, int], Generic[V]):
    @property
    def measured(self) -> Any:
        return int

    def lift(self, value: V) -> int:
        return cast(int, self.measure(value))

    def identity(self) -> int:
        return 0

    def result(self, agg: int) -> int:
        return agg


@attrs.frozen
class BitAnd(_Bits[V], Generic[V]):
    """See :func:`bit_and`."""

    _word = "bit_and"

    def identity(self) -> int:
        return -1

    def combine(self, a: int, b: int) -> int:
        return a & b


@attrs.frozen
class BitOr(_Bits[V], Generic[V]):
    """See :func:`bit_or`."""

    _word = "bit_or"

    def combine(self, a: int, b: int) -> int:
        return a | b


@attrs.frozen
class BitXor(_Bits[V], Generic[V]):
    """See :func:`bit_xor`."""

    _word = "bit_xor"

    def combine(self, a: int, b: int) -> int:
        return a ^ b


@overload
def bit_and(of: None = None) -> Aggregate[int, Any, int]: ...
@overload
def bit_and(of: Callable[[V], int]) -> Aggregate[V, Any, int]: ...
@overload
def bit_and(of: None = None, *, where: Callable[[int], bool]) -> Aggregate[int, Any, int | None]: ...
@overload
def bit_and(of: Callable[[V], int], *, where: Callable[[V], bool]) -> Aggregate[V, Any, int | None]: ...
def bit_and(of: Any = None, *, where: Any = None) -> Any:
    """The bits that all integers have (BIT_AND of SQL), in two's complement. ``where``: of the values for which it is true;
    None if there is none.

    >>> evaluate(bit_and(), [0b110, 0b011])
    2
    """
    return restrict_if_any("bit_and", BitAnd(function_or_none("bit_and", of)), where)


@overload
def bit_or(of: None = None) -> Aggregate[int, Any, int]: ...
@overload
def bit_or(of: Callable[[V], int]) -> Aggregate[V, Any, int]: ...
@overload
def bit_or(of: None = None, *, where: Callable[[int], bool]) -> Aggregate[int, Any, int | None]: ...
@overload
def bit_or(of: Callable[[V], int], *, where: Callable[[V], bool]) -> Aggregate[V, Any, int | None]: ...
def bit_or(of: Any = None, *, where: Any = None) -> Any:
    """The bits that some integer has (BIT_OR of SQL); see :func:`bit_and`.

    >>> evaluate(bit_or(), [0b110, 0b011])
    7
    """
    return restrict_if_any("bit_or", BitOr(function_or_none("bit_or", of)), where)


@overload
def bit_xor(of: None = None) -> Aggregate[int, Any, int]: ...
@overload
def bit_xor(of: Callable[[V], int]) -> Aggregate[V, Any, int]: ...
@overload
def bit_xor(of: None = None, *, where: Callable[[int], bool]) -> Aggregate[int, Any, int | None]: ...
@overload
def bit_xor(of: Callable[[V], int], *, where: Callable[[V], bool]) -> Aggregate[V, Any, int | None]: ...
def bit_xor(of: Any = None, *, where: Any = None) -> Any:
    """The bits that an odd number of integers has (BIT_XOR of SQL); see :func:`bit_and`.

    >>> evaluate(bit_xor(), [0b110, 0b011])
    5
    """
    return restrict_if_any("bit_xor", BitXor(function_or_none("bit_xor", of)), where)
