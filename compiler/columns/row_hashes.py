"""Hashes of rows, and whether rows are the same: columns of scalars, bit by bit.

What is missing is the same as what is missing. All NaN have to have the same bits.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.compiler.columns.column import Column, Columns, full_values
from tracetypes.records import UnitValue

__all__ = ["hashes_of_rows", "hashes_with", "rows_alike"]

FACTOR, SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)
MISSING: Final = np.uint64(0xC2B2AE3D27D4EB4F)

WORD: Final = 8

LONG: Final = 256
"""Bytes of a text from which on it is hashed by itself."""

MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(WORD + 1)], np.uint64)
"""By how many bytes of a word count."""


def hashes_of_rows(columns: Columns, count: int) -> Any:
    """Hashes (uint64) of rows."""
    hashes = np.zeros(count, np.uint64)
    for column in _scalars(columns):
        words = _words(full_values(column, count))
        hashes = _mixed(hashes ^ (words if column.valid is None else np.where(column.valid, words, MISSING)))
    return hashes


def hashes_with(numbers: Any, hashes: Any) -> Any:
    """Hashes (uint64) of numbers (int64) with what has these hashes."""
    return _mixed(_mixed(numbers.view(np.uint64)) ^ hashes)


def rows_alike(one: Columns, other: Columns, count: int) -> Any:
    """Whether rows are the same (bool)."""
    same = np.ones(count, np.bool_)
    for mine, its in zip(_scalars(one), _scalars(other), strict=True):
        values, others = full_values(mine, count), full_values(its, count)
        if isinstance(values, np.ndarray):
            alike = values.view(np.int64) == others.view(np.int64) if values.dtype == np.float64 else values == others
        else:
            alike = pc.equal(values, others).fill_null(False).to_numpy(zero_copy_only=False)
        if mine.valid is not None or its.valid is not None:
            valid, valid_too = (np.ones(count, np.bool_) if one.valid is None else one.valid for one in (mine, its))
            alike = (valid == valid_too) & (alike | ~valid)
        same &= alike
    return same


def _scalars(columns: Columns) -> list[Column]:
    if isinstance(columns, Column):
        return [] if isinstance(columns.kind, UnitValue) else [columns]
    return [one for part in columns.read for one in _scalars(part)]


def _mixed(words: Any) -> Any:
    words = words * FACTOR
    words ^= words >> SHIFT
    words *= FACTOR
    return words


def _words(values: Any) -> Any:
    """A word (uint64) for each of some values: its bits, or a hash of its text."""
    if isinstance(values, np.ndarray):
        return values.astype(np.uint64) if values.dtype == np.bool_ else np.ascontiguousarray(values).view(np.uint64)
    if not pa.types.is_string(values.type) and not pa.types.is_binary(values.type):
        values = values.cast(pa.string())
    return _text_words(values.fill_null("") if values.null_count else values)


def _text_words(texts: Any) -> Any:
    """Hashes (uint64) of an Arrow array of texts or bytes without nulls, word by word."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    lengths, first = np.diff(bounds), int(bounds[0])
    size = int(bounds[-1]) - first
    octets = np.zeros(size + WORD, np.uint8)
    if size:
        octets[:size] = np.frombuffer(data, np.uint8, size, first)
    starts, hashes = bounds[:-1] - first, _mixed(lengths.view(np.uint64))
    words = np.ndarray((size + 1,), np.uint64, octets.data, 0, (1,))
    rows = np.flatnonzero(lengths < LONG)
    for at in range(0, LONG, WORD):
        if not len(rows := rows[lengths[rows] > at]):
            break
        word = words[starts[rows] + at] & MASKS[np.minimum(lengths[rows] - at, WORD)]
        hashes[rows] = _mixed(hashes[rows] ^ word)
    for row in np.flatnonzero(lengths >= LONG).tolist():
        text = octets[starts[row] : starts[row] + lengths[row]]
        hashes[row] = int.from_bytes(blake2b(text.tobytes(), digest_size=WORD).digest(), "little")
    return hashes
