"""Columns one after the other, and columns put together from several by rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tracetypes.compiler.columns.coded_arrays import concat_arrays
from tracetypes.compiler.columns.column import SHARED, ZERO, Column, Columns, Struct, exacts_of, full_values
from tracetypes.compiler.columns.dictionary import DictionaryEncoded
from tracetypes.compiler.columns.exact_sums import ExactSums
from tracetypes.compiler.columns.lists import Lists
from tracetypes.compiler.columns.pending_take import rows_of_one
from tracetypes.compiler.tracing.expr import Exact, Undefined
from tracetypes.records import UNIT, Boolean, Bytes, Date, Float, Integer, String, Timestamp, UnitValue

__all__ = ["concat", "concat_column", "merged_column", "merged_columns"]

ARRAYS: Final = (Boolean, Integer, Float, Timestamp, Date, String, Bytes)
"""Kinds whose columns are arrays."""


def concat(parts: Sequence[tuple[Columns, int]]) -> Columns:
    """Columns one after the other, each with its number of rows. Raises ``Undefined`` if they have different
    structures."""
    first = parts[0][0] if parts else None
    if isinstance(first, Struct) and all(isinstance(one, Struct) and _alike(one, first) for one, _ in parts):
        pieces: Any = zip(*(one.parts for one, _ in parts), strict=True)  # type: ignore[union-attr]
        counts = [count for _, count in parts]
        columns = tuple(None if None in some else concat(list(zip(some, counts, strict=True))) for some in pieces)
        return Struct(
            first.cls, first.names, columns, _masks([(one.valid, count) for one, count in parts], filler=True)
        )
    if (column := _end_to_end(parts) or _lists(parts)) is not None:
        return column
    starts = np.cumsum([0, *[count for _, count in parts]])
    placed = [(columns, np.arange(a, b)) for (columns, _), a, b in zip(parts, starts[:-1], starts[1:], strict=True)]
    return merged_columns(placed, int(starts[-1]))


def _alike(one: Struct, other: Struct) -> bool:
    return one.cls is other.cls and len(one.parts) == len(other.parts)


def concat_column(parts: Sequence[tuple[Column, int]]) -> Column:
    """:func:`concat` for columns that are not structs."""
    column = concat(parts)
    assert isinstance(column, Column)
    return column


def _end_to_end(parts: Sequence[tuple[Columns, int]]) -> Column | None:
    """Arrays of one kind, one after the other. None for columns that have others."""
    kinds = [column.kind for column, _ in parts if isinstance(column, Column) and column.kind is not None]
    if not kinds or not isinstance(kinds[0], ARRAYS) or any(kind != kinds[0] for kind in kinds[1:]):
        return None
    kind, filled, valid, undefined = kinds[0], list[tuple[Column, int]](), list[Any](), list[Any]()
    for column, count in parts:
        if isinstance(column, Struct):
            return None
        missing = column.kind is None
        filled.append((Column(kind, ZERO[type(kind)]) if missing else column, count))
        valid.append((np.zeros(count, np.bool_) if missing else column.valid, count))
        undefined.append((column.undefined, count))
    whole: Any = rows_of_one([column.storage for column, _ in filled])
    if whole is None:
        whole = _by_entries(filled)
    if whole is None:
        arrays = [full_values(column, count) for column, count in filled]
        whole = np.concatenate(arrays) if type(arrays[0]) is np.ndarray else pa.concat_arrays(arrays)
    return Column(kind, whole, _masks(valid, filler=True), _masks(undefined, filler=False))


def _by_entries(parts: Sequence[tuple[Column, int]]) -> DictionaryEncoded | None:
    """Text of which a part is dictionary-encoded: entries after entries. The few rows of other parts become entries. None where
    that is more than a fraction of the rows."""
    if not any(isinstance(column.storage, DictionaryEncoded) for column, _ in parts):
        return None
    entries, codes, first = list[Any](), list[Any](), 0
    begins: dict[int, int] = {}
    for column, count in parts:
        storage = column.storage
        coded = isinstance(storage, DictionaryEncoded)
        some = storage.dictionary if coded else full_values(column, count)
        if not isinstance(some, pa.Array):
            return None
        if id(some) not in begins:  # pieces of one column share their entries
            begins[id(some)], first = first, first + len(some)
            entries.append(some)
        codes.append((storage.codes if coded else np.arange(count)) + begins[id(some)])
    if SHARED * first > sum(count for _, count in parts) or len({one.type for one in entries}) > 1:
        return None
    whole = entries[0] if len(entries) == 1 else pa.concat_arrays(entries)
    return DictionaryEncoded(np.concatenate(codes).astype(np.int32, copy=False), whole)


def _lists(parts: Sequence[tuple[Columns, int]]) -> Column | None:
    """Lists one after the other. None for other columns."""
    lists = [one.storage for one, _ in parts if isinstance(one, Column) and one.valid is None and isinstance(one.storage, Lists)]
    first = parts[0][0] if parts else None
    if not isinstance(first, Column) or len(lists) < len(parts):
        return None
    return Column(first.kind, lists[0].followed_by(lists[1:]))


def _masks(parts: Sequence[tuple[Any, int]], *, filler: bool) -> Any:
    """Masks one after the other. ``filler``: what one that is None stands for."""
    if all(mask is None for mask, _ in parts):
        return None
    return np.concatenate([np.full(count, filler) if mask is None else mask for mask, count in parts])


def merged_columns(parts: Sequence[tuple[Columns, Any]], count: int) -> Columns:
    """One column from several, each with the rows that it is for."""
    structs = [(columns, rows) for columns, rows in parts if isinstance(columns, Struct)]
    scalars = [(columns, rows) for columns, rows in parts if isinstance(columns, Column)]
    if structs:
        first = structs[0][0]
        same = all(s.cls is first.cls and len(s.parts) == len(first.parts) for s, _ in structs)
        if not same or any(column.kind is not None for column, _ in scalars):
            raise Undefined(0)
        merged = []
        for at in range(len(first.parts)):
            pieces = [(s.parts[at], rows) for s, rows in structs]
            present = [(piece, rows) for piece, rows in pieces if piece is not None]
            merged.append(merged_columns(present, count) if len(present) == len(pieces) else None)
        return Struct(first.cls, first.names, tuple(merged), _merge_valid(parts, count))
    return merged_column(scalars, count)


def merged_column(parts: Sequence[tuple[Column, Any]], count: int) -> Column:
    """:func:`merged_columns` for columns that are not structs."""
    kinds = {column.kind for column, _ in parts if column.kind is not None}
    if not kinds:
        return Column(None, None)
    if len(kinds) > 1:
        raise Undefined(0)
    kind = kinds.pop()
    present = [(column, rows) for column, rows in parts if column.kind is not None]
    values: Any
    if isinstance(kind, UnitValue):
        values = UNIT
    elif isinstance(kind, Exact):
        exacts = ExactSums.concat([exacts_of(column, len(rows)) for column, rows in present] + [ExactSums.zero(1)])
        values = exacts.take(_places([len(rows) for _, rows in present], [rows for _, rows in present], count))
    elif isinstance(present[0][0].storage, Lists):
        lists = [column.values for column, _ in present]
        places = _places(list(map(len, lists)), [rows for _, rows in present], count)
        places[places == sum(map(len, lists))] = -1
        values = lists[0].followed_by(lists[1:]).take(places)
    elif isinstance(kind, Boolean | Integer | Float | Timestamp | Date):
        dtype = np.bool_ if isinstance(kind, Boolean) else np.float64 if isinstance(kind, Float) else np.int64
        values = np.zeros(count, dtype)
        for column, rows in present:
            values[rows] = column.values
    else:
        arrays = [column.values if not column.scalar else full_values(column, 1) for column, _ in present]
        filler = pa.nulls(1, arrays[0].type) if not isinstance(kind, String | Bytes) else full_values(_empty(kind), 1)
        places = _places([len(a) for a in arrays], [rows for _, rows in present], count)
        values = concat_arrays([*arrays, filler]).take(pa.array(places))
    undefined = None
    if any(column.undefined is not None for column, _ in present):
        undefined = np.zeros(count, np.bool_)
        for column, rows in present:
            if column.undefined is not None:
                undefined[rows] = column.undefined
    return Column(kind, values, _merge_valid(parts, count), undefined)


def _empty(kind: String | Bytes) -> Column:
    return Column(kind, "" if isinstance(kind, String) else b"")


def _places(lengths: list[int], rows: list[Any], count: int) -> Any:
    """Where each row lies in the concatenation of arrays; those of no array at its end. An array of length one may serve
    many rows."""
    places = np.full(count, sum(lengths), np.int64)
    start = 0
    for length, which in zip(lengths, rows, strict=True):
        places[which] = start if length == 1 else np.arange(start, start + length)
        start += length
    return places


def _merge_valid(parts: Sequence[tuple[Columns, Any]], count: int) -> Any:
    if all(columns.valid is None and not _is_none(columns) for columns, _ in parts):
        covered = sum(len(rows) for _, rows in parts)
        if covered == count:
            return None
    valid = np.zeros(count, np.bool_)
    for columns, rows in parts:
        valid[rows] = False if _is_none(columns) else True if columns.valid is None else columns.valid
    return valid


def _is_none(columns: Columns) -> bool:
    return isinstance(columns, Column) and columns.kind is None
