"""Answers of plain Python, and whether others are the same."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final, TypeAlias

import attrs
import numpy as np

from tracetypes.compiler.columns.column import take
from tracetypes.compiler.columns.conversion import values_of
from tracetypes.compiler.columns.evaluation import Emissions
from tracetypes.compiler.runtime.stateless import conforming_emit
from tracetypes.trace import StreamType

__all__ = ["Outcome", "PythonEmissions", "alike", "all_alike", "emissions_by_row", "outcome"]

Outcome: TypeAlias = tuple[str | None, Any]
"""What Python raised, else what it answered."""


def outcome(function: Callable[..., Any], *args: Any) -> Outcome:
    """What Python answers."""
    try:
        return None, function(*args)
    except Exception as error:
        return f"raised {type(error).__name__}: {error}", None


def alike(a: Any, b: Any, *, inexact: bool = False) -> bool:
    """Whether two answers are the same, type by type and bit by bit. All NaNs are alike. ``inexact``: floats may differ
    by the order in which they were added."""
    kind = type(a)
    if kind is not type(b):
        return False
    if kind in _PLAIN:
        return bool(a == b)
    if kind is float:
        if inexact:
            return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(a) and math.isnan(b))
        return struct.pack("<d", a) == struct.pack("<d", b) or (math.isnan(a) and math.isnan(b))
    if kind is dt.datetime:
        return bool(a == b and a.utcoffset() == b.utcoffset())
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(alike(x, y, inexact=inexact) for x, y in zip(a, b, strict=True))
    if kind is dict:
        return a.keys() == b.keys() and all(alike(x, b[key], inexact=inexact) for key, x in a.items())
    cls: Any = kind
    names = _fields(cls)
    return bool(a == b) if names is None else all(alike(getattr(a, n), getattr(b, n), inexact=inexact) for n in names)


def all_alike(a: Sequence[Any], b: Sequence[Any], *, inexact: bool = False) -> bool:
    """Whether the answers of each pair are :func:`alike`. Those of one type are compared by fields, for all at once."""
    if len(a) != len(b):
        return False
    kinds: set[Any] = set(map(type, a))
    if len(kinds) == 1 and kinds == set(map(type, b)):
        (kind,) = kinds
        if kind in _PLAIN:
            return list(a) == list(b)
        if kind is list:
            return [*map(len, a)] == [*map(len, b)] and all_alike([*chain(*a)], [*chain(*b)], inexact=inexact)
        if kind is tuple and len(sizes := {*map(len, a), *map(len, b)}) == 1 and sizes != {0}:
            return all(all_alike(x, y, inexact=inexact) for x, y in zip(zip(*a, strict=True), zip(*b, strict=True), strict=True))
        has_fields = kind is not float and kind is not dt.datetime and not issubclass(kind, tuple | list)
        if has_fields and (names := _fields(kind)) is not None:
            return all(all_alike([getattr(x, n) for x in a], [getattr(y, n) for y in b], inexact=inexact) for n in names)
    return all(alike(x, y, inexact=inexact) for x, y in zip(a, b, strict=True))


_PLAIN: Final[frozenset[type[Any]]] = frozenset({int, str, bytes, bool, type(None)})
"""Types whose values are the same if they are equal."""


@cache
def _fields(cls: Any) -> tuple[str, ...] | None:
    """The fields of a class of attrs or a dataclass."""
    if attrs.has(cls):
        return tuple(one.name for one in attrs.fields(cls))
    fields = getattr(cls, "__dataclass_fields__", None)
    return None if fields is None else tuple(fields)


class PythonEmissions:
    """What an operator emits in Python, fitted to its stream."""

    def __init__(self, op: object, stream: StreamType) -> None:
        self._items: list[tuple[Any, Any]] = []
        self._emit, self._refused = conforming_emit(op, stream, lambda key, value: self._items.append((key, value)))

    def of(self, method: Callable[..., None], *args: Any) -> Outcome:
        """What a method of it raises, else what it emits."""
        self._items = []
        self._refused.clear()
        raised, _ = outcome(method, *args, self._emit)
        return raised or next((f"raised {one}" for one in self._refused), None), self._items


def emissions_by_row(emitted: Sequence[Emissions], rows: Any) -> list[list[Any]]:
    """What was emitted for each of some rows, in order."""
    emissions: list[list[Any]] = [[] for _ in range(len(rows))]
    for one in emitted:
        at = list(range(len(rows)))
        if one.rows is None:
            selected = rows
        else:
            # A row may have emitted several times in one column (those that Spark computed).
            first, behind = np.searchsorted(one.rows, rows), np.searchsorted(one.rows, rows, "right")
            ranges = enumerate(map(range, first.tolist(), behind.tolist()))
            places = [(number, place) for number, some in ranges for place in some]
            at, selected = [number for number, _ in places], np.array([place for _, place in places], np.int64)
        if len(selected):
            keys, values = values_of(take(one.key, selected), len(selected)), values_of(take(one.value, selected), len(selected))
            for place, key, value in zip(at, keys, values, strict=True):
                emissions[place].append((key, value))
    return emissions
