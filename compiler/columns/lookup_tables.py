"""Constant tables of expressions as columns, and the places of keys in them."""

from __future__ import annotations

import datetime as dt
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tracetypes.compiler.columns.arrow import arrow_type
from tracetypes.compiler.columns.column import ZERO, Column, constant
from tracetypes.compiler.columns.text_codes import text_codes
from tracetypes.compiler.columns.text_table import TextTable
from tracetypes.compiler.tracing.cache_keys import ObjectKey
from tracetypes.compiler.tracing.expr import Kind
from tracetypes.records import INT_MAX, INT_MIN, Boolean, Bytes, Date, Float, Integer, String, Timestamp, is_utf8

__all__ = ["Index", "entries_of", "index_of", "new_entries", "new_index", "numbers_of_entries", "table_entries", "table_keys"]


class Index(ABC):
    """The places of a table's keys. ``missing``: the place for other keys, after all of them."""

    def __init__(self, keys: dict[Any, int], missing: int) -> None:
        self.keys, self.missing = keys, missing

    @staticmethod
    def of(keys: dict[Any, int], text: bool, missing: int) -> Index:
        """An index of the kind that fits the keys."""
        if not keys:
            return _Empty(keys, missing)
        if text:
            return _Texts(keys, missing)
        low, high = min(keys), max(keys)
        return _Dense(keys, missing, low, high) if high - low <= 4 * len(keys) + 1024 else _Sorted(keys, missing)

    def place(self, key: Any) -> int:
        """The place of a key."""
        return self.keys.get(key, self.missing)

    @abstractmethod
    def places(self, keys: Any, count: int) -> Any:
        """int64: the place of each key."""


class _Empty(Index):
    def places(self, keys: Any, count: int) -> Any:
        return np.full(count, self.missing, np.int64)


class _Texts(Index):
    """``texts``: the keys; ``order``: their places."""

    def __init__(self, keys: dict[Any, int], missing: int) -> None:
        super().__init__(keys, missing)
        self.texts = TextTable(pa.array(list(keys), pa.string()))
        # The place behind the last one is -1 as well.
        self.order = np.array([*keys.values(), missing], np.int64)

    def places(self, keys: Any, count: int) -> Any:
        # Arrow hashes all keys of the table first; Python has them hashed.
        if 6 * count < len(self.keys) + 600:
            get = self.keys.get
            missing = self.missing
            return np.array([get(key, missing) for key in keys.tolist()], np.int64)
        return self.order[self.texts.places(keys)]


class _Dense(Index):
    """Integers near each other. ``order``: the places of all integers from ``low`` on."""

    def __init__(self, keys: dict[Any, int], missing: int, low: int, high: int) -> None:
        super().__init__(keys, missing)
        self.low, self.high = low, high
        self.order = np.full(high - low + 2, missing, np.int64)
        self.order[np.array(list(keys), np.int64) - low] = np.array(list(keys.values()), np.int64)

    def places(self, keys: Any, count: int) -> Any:
        inside = (keys >= self.low) & (keys <= self.high)
        return self.order[np.where(inside, keys, self.high + 1) - self.low]


class _Sorted(Index):
    """Other integers. ``sorted``: the keys; ``order``: their places."""

    def __init__(self, keys: dict[Any, int], missing: int) -> None:
        super().__init__(keys, missing)
        numbers = np.array(list(keys), np.int64)
        by = np.argsort(numbers)
        self.sorted, self.order = numbers[by], np.array(list(keys.values()), np.int64)[by]

    def places(self, keys: Any, count: int) -> Any:
        at = np.minimum(np.searchsorted(self.sorted, keys), len(self.sorted) - 1)
        return np.where(self.sorted[at] == keys, self.order[at], self.missing)


def table_keys(table: Mapping[Any, Any], kind: Kind | None) -> dict[Any, int] | None:
    """The place in the table of each key that a value of ``kind`` may equal: texts, or integers (also for Boolean).
    None if keys of the table have their own ``==``, or the kind has no tables."""
    text = isinstance(kind, String)
    if not text and not isinstance(kind, Integer | Boolean):
        return None
    if _all_are(Integer() if isinstance(kind, Boolean) else kind, table):
        return dict(zip(table, range(len(table)), strict=True))
    keys: dict[Any, int] = {}
    for place, key in enumerate(table):
        if type(key) is str:
            if text and is_utf8(key):
                keys[key] = place
        elif type(key) in (bool, int, float):
            # Equal numbers are equal keys, whatever their type.
            if not text and INT_MIN <= key <= INT_MAX and key == int(key):
                keys[int(key)] = place
        elif type(key) not in (bytes, dt.datetime, dt.date, type(None)):
            return None
    return keys


def _all_are(kind: Kind | None, values: Collection[Any]) -> bool:
    """Whether all are values of a kind as they are, of whatever is quickly told."""
    types = set(map(type, values))
    match kind:
        case String():
            return types == {str} and is_utf8("".join(values))
        case Integer():
            return types == {int} and min(values) >= INT_MIN and max(values) <= INT_MAX
        case Float():
            return types == {float}
        case _:
            return False


def _at_path(table: Mapping[Any, Any], path: tuple[str | int, ...]) -> list[Any] | None:
    """The content of the table at ``path``, in its order. None if one of its values has nothing there."""
    values = list(table.values())
    try:
        for step in path:
            values = list(map(itemgetter(step) if isinstance(step, int) else attrgetter(step), values))
    except (AttributeError, LookupError, TypeError):
        return None
    return values


def table_entries(table: Mapping[Any, Any], path: tuple[str | int, ...], kind: Kind | None) -> list[Column | None]:
    """The content of the table at ``path``, in its order, as columns of one value. None if it is not of the kind."""
    columns: list[Column | None] = []
    for value in table.values():
        try:
            for step in path:
                value = value[step] if isinstance(step, int) else getattr(value, step)
        except (AttributeError, LookupError, TypeError):
            columns.append(None)
        else:
            columns.append(constant(value, kind))
    return columns


_building: Final = threading.RLock()
"""Threads of a run come to a table at the same time, and each would build it, with Python's lock."""


def index_of(same: ObjectKey, kind: Kind | None) -> Index | None:
    """The index of a table that nobody changes, because the tracer has made it. Cached by identity: tables have no
    hash, and comparing takes longer than a look-up."""
    with _building:
        return _index_of(same, kind)


def new_index(same: ObjectKey, kind: Kind | None) -> Index | None:
    """The index of a table, not cached."""
    keys = table_keys(same.value, kind)
    return None if keys is None else Index.of(keys, isinstance(kind, String), len(same.value))


def entries_of(same: ObjectKey, path: tuple[str | int, ...], kind: Kind | None) -> Column:
    """:func:`table_entries` as one column, followed by an undefined entry. Cached as above."""
    with _building:
        return _entries_of(same, path, kind)


def numbers_of_entries(same: ObjectKey, path: tuple[str | int, ...], kind: Kind | None) -> tuple[Any, int] | None:
    """A number (int64) of each of :func:`entries_of`, the same for equal ones, and how many there are. None for what is no text.
    Cached as above."""
    with _building:
        return _numbers_of_entries(same, path, kind)


def new_numbers(same: ObjectKey, path: tuple[str | int, ...], kind: Kind | None) -> tuple[Any, int] | None:
    """The same, not cached."""
    return text_codes(_entries_of(same, path, kind).values) if isinstance(kind, String | Bytes) else None


def new_entries(same: ObjectKey, path: tuple[str | int, ...], kind: Kind | None) -> Column:
    """The same, not cached."""
    plain = _at_path(same.value, path)
    if plain is not None and _all_are(kind, plain):
        behind = np.arange(len(plain) + 1) == len(plain)
        if isinstance(kind, String):
            return Column(kind, pa.array([*plain, ""], arrow_type(kind)), None, behind)
        return Column(kind, np.array([*plain, 0], np.int64 if isinstance(kind, Integer) else np.float64), None, behind)
    columns = [*table_entries(same.value, path, kind), None]
    nothing = ZERO[type(kind)]
    values = [nothing if column is None or column.kind is None else column.values for column in columns]
    valid = np.array([column is None or column.kind is not None for column in columns])
    undefined = np.array([column is None for column in columns])
    array: Any
    match kind:
        case Boolean():
            array = np.array(values, np.bool_)
        case Integer() | Timestamp() | Date():
            array = np.array(values, np.int64)
        case Float():
            array = np.array(values, np.float64)
        case String() | Bytes():
            array = pa.array(values, arrow_type(kind))
        case _:
            return Column(kind, nothing, None, np.ones(len(columns), np.bool_))
    return Column(kind, array, None if valid.all() else valid, undefined)


_index_of = lru_cache(maxsize=256)(new_index)
_entries_of = lru_cache(maxsize=1024)(new_entries)
_numbers_of_entries = lru_cache(maxsize=1024)(new_numbers)
