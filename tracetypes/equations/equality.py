"""Equality of states and aggregates, up to the rounding of floats where a message asks for it."""

from __future__ import annotations

import collections
import dataclasses
import math
import pickle
import types as python_types
from collections.abc import Iterator
from typing import Any, Final

import attrs

from tracetypes import record_copies
from tracetypes.errors import UsageError
from tracetypes.records import show

__all__ = ["copied", "fields_of", "floats_in", "largest_of", "near", "same"]


def same(one: Any, other: Any) -> bool:
    """Equality of states and aggregates: ``==``, with NaN equal to NaN, at any depth; plain objects by their fields."""
    try:
        equal = one == other
        if bool(equal.all() if hasattr(equal, "all") else equal):
            return True
    except Exception:  # an == that cannot cope, such as that of arrays of different lengths
        pass
    if isinstance(one, float) and isinstance(other, float):
        return one != one and other != other
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple | collections.deque):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if hasattr(one, "tolist") and hasattr(one, "shape"):
        return bool(one.shape == other.shape) and same(one.tolist(), other.tolist())
    mine, theirs = fields_of(one), fields_of(other)
    if not mine:
        return not theirs and _bytes_of(one) == _bytes_of(other)
    return mine.keys() == theirs.keys() and all(same(mine[name], theirs[name]) for name in mine)


def _bytes_of(value: Any) -> Any:
    """What tells two values apart that have neither an ``==`` nor fields."""
    try:
        return pickle.dumps(value)
    except Exception:
        return id(value)


def fields_of(value: Any) -> dict[str, Any]:
    cls = type(value)
    if isinstance(value, type | python_types.FunctionType | python_types.BuiltinFunctionType):
        return {}
    if attrs.has(cls):
        return {a.name: getattr(value, a.name) for a in attrs.fields(cls) if a.eq}
    if dataclasses.is_dataclass(cls):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(cls) if f.compare}
    slots = [name for at in cls.__mro__ for name in _as_tuple(at.__dict__.get("__slots__", ()))]
    fields = {name: getattr(value, name) for name in slots if name != "__weakref__" and hasattr(value, name)}
    return {**getattr(value, "__dict__", {}), **fields}


def _as_tuple(names: Any) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def near(one: Any, other: Any, largest: float = 1.0) -> bool:
    """Do they differ, if at all, by the rounding of floats only? ``largest``: the largest number that was added up."""
    if isinstance(one, float | complex) and isinstance(other, float | complex):
        return same(one, other) or _rounded(one, other, largest)
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple | collections.deque):
        return len(one) == len(other) and all(near(*pair, largest) for pair in zip(one, other, strict=True))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(near(one[key], other[key], largest) for key in one)
    if same(one, other):
        return True
    mine, theirs = fields_of(one), fields_of(other)
    return bool(mine) and mine.keys() == theirs.keys() and all(near(mine[name], theirs[name], largest) for name in mine)


_NEARLY: Final = 1e-9
_HUGE: Final = 1e300
"""A sum of such numbers may leave the range of floats in one order, and not in another."""


def _rounded(one: complex, other: complex, largest: float) -> bool:
    difference = abs(one - other)
    if math.isfinite(difference):
        return difference <= _NEARLY * max(abs(one), abs(other), largest)
    return _HUGE < largest < math.inf


def largest_of(values: Any) -> float:
    """The largest absolute number of all floats in some values."""
    return max((abs(one) for one in floats_in(values) if one == one), default=0.0)


def floats_in(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, list | tuple | set | frozenset | collections.deque):
        for one in value:
            yield from floats_in(one)
    elif isinstance(value, dict):
        for one in (*value.keys(), *value.values()):
            yield from floats_in(one)
    else:
        for one in fields_of(value).values():
            yield from floats_in(one)


def copied(value: Any) -> Any:
    try:
        return record_copies.copied(value)
    except Exception as error:
        raise UsageError(
            "TT407",
            f"{show(value)} cannot be copied: {type(error).__name__}: {error}",
            fix="build states and aggregates of plain data: they are saved and sent between processes",
        ) from None
