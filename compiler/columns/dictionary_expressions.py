"""Expressions over the entries of dictionary-encoded columns, and their results as columns of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracetypes.compiler.columns.arithmetic import some_marked
from tracetypes.compiler.columns.column import Column, either_mask
from tracetypes.compiler.columns.dictionary import DictionaryEncoded, NumberedDictionary, gathered

__all__ = ["dictionary_size", "dictionary_values", "mask_of_rows", "rows_of_dictionary", "rows_of_numbered", "shared_codes"]


def rows_of_dictionary(distinct: Column, codes: Any, undefined: Any) -> Column:
    """A column of entries as a column of rows. ``undefined``: additional rows without a value."""
    values = distinct.storage if distinct.scalar else DictionaryEncoded(codes, distinct.storage)
    return _rows_of(distinct, values, codes, undefined)


def rows_of_numbered(distinct: Column, numbers: Any, bound: int, codes: Any, undefined: Any) -> Column:
    """The same, of entries with numbers (:class:`NumberedDictionary`)."""
    return _rows_of(distinct, NumberedDictionary(codes, distinct.storage, numbers, bound), codes, undefined)


def _rows_of(distinct: Column, values: Any, codes: Any, undefined: Any) -> Column:
    valid = None if distinct.valid is None else gathered(distinct.valid, codes)
    return Column(distinct.kind, values, valid, either_mask(undefined, mask_of_rows(distinct.undefined, codes)))


def shared_codes(columns: Sequence[Column]) -> Any:
    """The codes that all columns except scalars share. None if the entries cannot be used."""
    first: DictionaryEncoded | None = None
    for column in columns:
        if column.scalar:
            continue
        if (encoding := column.encoding) is None:
            return None
        if first is None:
            first = encoding
        elif encoding.codes is not first.codes or len(encoding.dictionary) != len(first.dictionary):
            return None
    return None if first is None else first.codes


def dictionary_values(column: Column) -> Any:
    return column.storage.dictionary if isinstance(column.storage, DictionaryEncoded) else column.storage


def dictionary_size(columns: Sequence[Column]) -> int:
    return next(len(column.storage.dictionary) for column in columns if isinstance(column.storage, DictionaryEncoded))


def mask_of_rows(mask: Any, codes: Any) -> Any:
    """A mask of entries as a mask of rows. None if it marks no row."""
    if mask is None or not mask.any():
        return None
    return mask if codes is None else some_marked(gathered(mask, codes))
