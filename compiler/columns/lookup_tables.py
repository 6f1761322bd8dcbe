"""Constant tables of expressions as columns, and the places of keys in them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.compiler.columns.arrow import arrow_type
from tracetypes.compiler.columns.column import ZERO, Column, constant, has_utf8
from tracetypes.compiler.tracing.expr import Kind
from tracetypes.compiler.tracing.identity import Same
from tracetypes.records import INT_MAX, INT_MIN, Boolean, Bytes, Date, Float, Integer, String, Timestamp

__all__ = ["Index", "entries_of", "index_of", "table_entries", "table_keys"]


class Index:
    """The places of a table's keys. For integer keys either ``sorted`` and ``order``, or ``dense`` from ``low`` on; for
    text keys ``array``. ``missing``: the place for other keys, after all of them."""

    def __init__(self, keys: dict[Any, int], text: bool, missing: int) -> None:
        self.keys = keys
        self.missing = missing
        self.text = text
        self.array = self.dense = self.sorted = self.order = None
        self.low = 0
        if text:
            self.array = pa.array(list(keys), pa.string())
            # The place behind the last one is -1 as well.
            self.order = np.array([*keys.values(), missing], np.int64)
        elif keys:
            low, high = min(keys), max(keys)
            known = np.array(list(keys), np.int64)
            order = np.array(list(keys.values()), np.int64)
            if high - low <= 4 * len(keys) + 1024:
                self.low = low
                self.dense = np.full(high - low + 2, missing, np.int64)
                self.dense[known - low] = order
            else:
                by = np.argsort(known)
                self.sorted, self.order = known[by], order[by]

    def place(self, key: Any) -> int:
        return self.keys.get(key, self.missing)

    def places(self, keys: Any, count: int) -> Any:
        """int64: the place of each key."""
        if not self.keys:
            return np.full(count, self.missing, np.int64)
        if self.text:
            # Arrow hashes all keys of the table first; Python has them hashed.
            if 6 * count < len(self.keys) + 600:
                get = self.keys.get
                missing = self.missing
                return np.array([get(key, missing) for key in keys.tolist()], np.int64)
            found = pc.index_in(keys, value_set=self.array)
            at = found.fill_null(-1).to_numpy() if found.null_count else found.to_numpy()
            assert self.order is not None
            return self.order[at]
        if self.dense is not None:
            high = self.low + len(self.dense) - 2
            inside = (keys >= self.low) & (keys <= high)
            return self.dense[np.where(inside, keys, high + 1) - self.low]
        assert self.sorted is not None
        assert self.order is not None
        at = np.minimum(np.searchsorted(self.sorted, keys), len(self.sorted) - 1)
        return np.where(self.sorted[at] == keys, self.order[at], self.missing)


def table_keys(table: Mapping[Any, Any], kind: Kind | None) -> dict[Any, int] | None:
    """The place in the table of each key that a value of ``kind`` may equal: texts, or integers (also for Boolean).
    None if keys of the table have their own ``==``, or the kind has no tables."""
    text = isinstance(kind, String)
    if not text and not isinstance(kind, Integer | Boolean):
        return None
    keys: dict[Any, int] = {}
    for place, key in enumerate(table):
        if type(key) is str:
            if text and (key.isascii() or has_utf8(key)):
                keys[key] = place
        elif type(key) in (bool, int, float):
            # Equal numbers are equal keys, whatever their type.
            if not text and INT_MIN <= key <= INT_MAX and key == int(key):
                keys[int(key)] = place
        elif type(key) not in (bytes, dt.datetime, dt.date, type(None)):
            return None
    return keys


def table_entries(table: Mapping[Any, Any], path: tuple[str | int, ...], kind: Kind | None) -> list[Column | None]:
    """The content of the table at ``path``, in its order, as columns of one value. None if it is not of the kind."""
    held: list[Column | None] = []
    for value in table.values():
        try:
            for step in path:
                value = value[step] if isinstance(step, int) else getattr(value, step)
        except (AttributeError, LookupError, TypeError):
            held.append(None)
        else:
            held.append(constant(value, kind))
    return held


@lru_cache(maxsize=256)
def index_of(same: Same, kind: Kind | None) -> Index | None:
    """The index of a table that nobody changes, because the tracer has made it. Cached by identity: tables have no
    hash, and comparing takes longer than a look-up."""
    keys = table_keys(same.value, kind)
    return None if keys is None else Index(keys, isinstance(kind, String), len(same.value))


@lru_cache(maxsize=1024)
def entries_of(same: Same, path: tuple[str | int, ...], kind: Kind | None) -> Column:
    """:func:`table_entries` as one column, followed by an undefined entry."""
    held = [*table_entries(same.value, path, kind), None]
    nothing = ZERO[type(kind)]
    values = [nothing if column is None or column.kind is None else column.values for column in held]
    valid = np.array([column is None or column.kind is not None for column in held])
    undefined = np.array([column is None for column in held])
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
            return Column(kind, nothing, None, np.ones(len(held), np.bool_))
    return Column(kind, array, None if valid.all() else valid, undefined)
