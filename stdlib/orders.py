"""Total orders and equality of values by the values themselves: for ties, for sets and for hashes.

Values conform to their declared types, so all compared values have one type, and no schema is needed. A worker has no
schema of a class that was sent there with annotations as texts.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import hashlib
import struct
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import attrs

from tracetypes.canonical import float_order
from tracetypes.conformance import micros_of
from tracetypes.records import Unit
from tracetypes.sort_keys import sort_key

__all__ = ["hash_of", "likeness_of", "order_of", "place_of"]


def place_of(value: Any) -> Any:
    """The place of a value of an author's ``by`` in a total order: NaN after all other numbers, -0.0 as 0.0.

    Raises :class:`ValueError` for a value without a place, such as None.
    """
    return sort_key(value, nan=True, giver="by")


def order_of(value: Any) -> Any:
    """The place of a value in the canonical order of its type (:func:`tracetypes.canonical.canonical`). Equal for
    identical values only."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return 1, float_order(value)
    return 1, _plain(value, order_of)


def likeness_of(value: Any) -> Any:
    """An object that is equal for values that are equal as keys (all NaNs, -0.0 and 0.0): numbers, texts and tuples of
    these."""
    if isinstance(value, float):
        return float_order(value + 0.0)
    return None if value is None else _plain(value, likeness_of)


def _plain(value: Any, inner: Any) -> Any:
    match value:
        case Unit():
            return 0
        case enum.Enum():
            return value.value
        case int() | str() | bytes():
            return value
        case Decimal():
            return Fraction(value)
        case dt.datetime():
            return micros_of(value)
        case dt.date():
            return value.toordinal()
        case _:
            cls: Any = type(value)
            if cls in (list, tuple):
                return tuple([inner(one) for one in value])
            return cls.__module__, cls.__qualname__, *[inner(getattr(value, name)) for name in _names(cls)]


@cache
def _names(cls: Any) -> tuple[str, ...]:
    """The fields of a record class."""
    if attrs.has(cls):
        return tuple(a.name for a in attrs.fields(cls))
    if dataclasses.is_dataclass(cls):
        return tuple(f.name for f in dataclasses.fields(cls))
    names: tuple[str, ...] = cls._fields
    return names


def hash_of(likeness: Any) -> int:
    """64 bits that depend on the value alone, in every process."""
    text = likeness if isinstance(likeness, str) else ascii(likeness)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    hashed: int = struct.unpack("<Q", digest)[0]
    return hashed
