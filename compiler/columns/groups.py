"""Rows by key: the group of each row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.columns.column import Column, Columns, Struct
from tracetypes.compiler.columns.dictionary import DictionaryEncoded, NumberedDictionary
from tracetypes.compiler.columns.runs import NumberRuns, Numbers
from tracetypes.compiler.columns.text_codes import text_codes
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.records import (
    Boolean,
    Bytes,
    Date,
    DecimalOf,
    EnumOf,
    Float,
    Integer,
    String,
    Timestamp,
    UnitValue,
    Unsigned,
)

__all__ = ["Groups", "codes_of", "groups_of"]

NARROW = 1 << 16
"""Numbers of this range are codes as they are, however few there are."""

PER_GROUP = 64
"""Rows for each group, on average, that are looked at before all rows are."""

LARGEST = 1 << 62
"""The largest code."""


@attrs.frozen(eq=False)
class Groups:
    """Rows by group. ``of_row``: int32 or int64, the group of each row, from 0. ``sizes``: their numbers of rows."""

    of_row: Any
    sizes: Any
    counted: dict[tuple[int, int], tuple[Any, Any]] = attrs.field(factory=dict, init=False)

    @property
    def number(self) -> int:
        """The number of groups."""
        return len(self.sizes)

    @property
    def first(self) -> Any:
        """int64: the first row of each group."""
        first = np.empty(len(self.sizes), np.int64)
        first[self.of_row[::-1].copy()] = np.arange(len(self.of_row) - 1, -1, -1)
        return first

    @property
    def any_row(self) -> Any:
        """int64: one row of each group, no matter which. Where groups are large, a few rows have one of each."""
        count, step = len(self.of_row), max(1, len(self.of_row) // (PER_GROUP * max(1, len(self.sizes))))
        if step > 1:
            some = np.full(len(self.sizes), -1, np.int64)
            some[self.of_row[::step]] = np.arange(0, count, step)
            if some.min() >= 0:
                return some
        some = np.empty(len(self.sizes), np.int64)
        some[self.of_row] = np.arange(count)
        return some

    @classmethod
    def of(cls, codes: Any, number: int) -> Groups:
        """Groups of equal codes, which are below ``number``."""
        count = len(codes)
        if number <= max(4 * count, NARROW):
            of_row, sizes = codes, np.bincount(codes, minlength=number)
            (present,) = sizes.nonzero()
            if len(present) < number:
                places = np.zeros(number, np.int64)
                places[present] = np.arange(len(present))
                of_row, sizes = places[codes], sizes[present]
        else:
            encoded = pa.array(codes).dictionary_encode()
            of_row = encoded.indices.to_numpy().astype(np.int64)
            sizes = np.bincount(of_row, minlength=len(encoded.dictionary))
        return cls(of_row, sizes)

    def counts(self, encoding: DictionaryEncoded) -> Any:
        """int64, groups by entries: how many rows of a group have an entry. None if there are too many of these.

        Columns that share their codes are counted once.
        """
        codes, size = encoding.codes, len(encoding.dictionary)
        if self.number * size > 4 * len(codes):
            return None
        if (id(codes), size) not in self.counted:
            counts = np.bincount(self.of_row * size + codes, minlength=self.number * size)
            self.counted[id(codes), size] = codes, counts.reshape(self.number, size)
        return self.counted[id(codes), size][1]


def groups_of(key: Columns, count: int) -> Groups:
    """Rows by key."""
    codes, number = codes_of(NumberRuns.of_one(0, count), key, count)
    return Groups.of(codes, number)


def codes_of(ends: Numbers, key: Columns, count: int) -> tuple[Any, int]:
    """A number for each block and key, and an upper bound of these numbers."""
    blocks = ends if isinstance(ends, NumberRuns) else None
    codes, number = (None, 1) if blocks is not None else _of_integers(ends, count)
    for column in _scalars(key):
        more, size = _of_column(column, count)
        if size == 1:
            continue
        if codes is None:
            codes, number = more, size
            continue
        if number * size > LARGEST:
            codes, number = _dense(codes)
            more, size = _dense(more)
        # Codes of a dictionary have 32 bits.
        codes, number = np.multiply(codes, size, dtype=np.int64) + more, number * size
    if blocks is None or len(blocks.values) == 1:
        return np.zeros(count, np.int64) if codes is None else codes, number
    if codes is not None and number * len(blocks.values) > LARGEST:
        codes, number = _dense(codes)
    return blocks.spread(np.arange(len(blocks.values)) * number, codes), number * len(blocks.values)


def _scalars(columns: Columns) -> Iterator[Column]:
    if isinstance(columns, Struct):
        if columns.valid is not None:
            yield Column(Boolean(), columns.valid)
        for part in columns.read:
            yield from _scalars(part)
    else:
        yield columns


def _of_column(column: Column, count: int) -> tuple[Any, int]:
    if column.valid is not None:
        codes, number = _of_column(attrs.evolve(column, valid=None), count)
        return np.where(column.valid, codes + 1, 0), number + 1
    storage = column.storage
    if isinstance(storage, NumberedDictionary):
        return storage.numbers.take(storage.codes), storage.bound
    if column.encoding is not None:
        entries = column.encoding.dictionary
        of_entries, number = _of_column(Column(column.kind, entries), len(entries))
        if number == len(entries) and (of_entries == np.arange(number)).all():
            return column.encoding.codes, number
        return of_entries.take(column.encoding.codes), number
    if column.scalar or isinstance(column.kind, UnitValue):
        return np.zeros(count, np.int64), 1
    match column.kind:
        case Integer() | Timestamp() | Date():
            return _of_integers(column.values, count)
        case Boolean():
            return column.values.astype(np.int64), 2
        case Float():
            return _of_integers(column.values.view(np.int64), count)
        case String() | Bytes() | Unsigned() | DecimalOf() | EnumOf():
            return text_codes(column.values)
        case _:
            raise Undefined(0)


def _of_integers(values: Any, count: int) -> tuple[Any, int]:
    if not count:
        return np.zeros(0, np.int64), 1
    low, high = int(np.minimum.reduce(values)), int(np.maximum.reduce(values))
    span = high - low + 1
    if span <= NARROW:
        return values - low, span
    (before,) = (values[1:] != values[:-1]).nonzero()
    if 16 * len(before) < count:
        # Neighbours are mostly equal, as blocks are of rows in the order of their times. Two blocks a second apart are a million
        # numbers, which would not fit beside those of a key.
        starts = np.append(0, before + 1)
        codes, number = _of_integers(values[starts], len(starts))
        return NumberRuns(codes, starts, count).array, number
    if span <= 4 * count:
        return values - low, span
    # Differences of numbers that lie further apart would wrap.
    step = int(np.gcd.reduce(values[:: 1 + (count >> 12)] - low)) if span < 1 << 63 else 1
    if step > 1 and span // step <= max(4 * count, NARROW):
        scaled = (values - low) // step
        if (scaled * step + low == values).all():
            return scaled, span // step + 1
    return _dense(values)


def _dense(values: Any) -> tuple[Any, int]:
    encoded = pa.array(values).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), max(len(encoded.dictionary), 1)
