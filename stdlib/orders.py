"""Total orders and likeness of values, told by their classes: for ties, for sets and for hashes.

Values conform to their declared types, so the class of a value says which schema it has, but for what is missing or
inside a list; these are told apart as they come.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import struct
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

from tracetypes.records import canonical, float_order, micros_of, positive_zeros, schema_of

__all__ = ["hash_of", "likeness_of", "order_of", "place_of"]


def place_of(found: Any) -> Any:
    """A place in a total order for what an author's ``by`` gave: floats by :func:`float_order`, with -0.0 as 0.0."""
    if isinstance(found, float):
        return float_order(found + 0.0)
    if isinstance(found, tuple):
        return tuple([place_of(one) for one in found])
    if found is None:
        raise ValueError("by gave None, which has no place in an order")
    return found


def order_of(value: Any) -> Any:
    """The place of a value in the canonical order of its type, which its class tells: equal for identical values only."""
    if value is None:
        return (0,)
    cls: Any = type(value)
    if cls in (list, tuple):
        return 1, tuple([order_of(one) for one in value])
    return 1, cls.__qualname__, _canonical(cls)(value)


def likeness_of(value: Any) -> Any:
    """The same for values that are equal as keys are (NaNs alike, -0.0 as 0.0): numbers, texts and tuples of these."""
    match value:
        case float():
            return float_order(value + 0.0)
        case None | bool() | int() | str() | bytes():
            return value
        case dt.datetime():
            return micros_of(value)
        case dt.date():
            return value.toordinal()
        case _:
            pass
    cls: Any = type(value)
    if cls in (list, tuple):
        return tuple([likeness_of(one) for one in value])
    return cls.__qualname__, _canonical(cls)(positive_zeros(schema_of(cls), value))


@cache
def _canonical(cls: Hashable) -> Callable[[Any], Any]:
    return canonical(schema_of(cls))


def hash_of(likeness: Any) -> int:
    """64 bits that depend on the value alone, in every process."""
    text = likeness if isinstance(likeness, str) else ascii(likeness)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    hashed: int = struct.unpack("<Q", digest)[0]
    return hashed
