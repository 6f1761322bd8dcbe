"""Expressions over the entries of dictionary-encoded columns, and their results as columns of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracetypes.compiler.columns.arithmetic import some_marked
from tracetypes.compiler.columns.column import Column, either_mask
from tracetypes.compiler.columns.dictionary import DictionaryEncoded, gathered

__all__ = ["dictionary_size", "dictionary_values", "mask_of_rows", "rows_of_dictionary", "shared_codes"]


def rows_of_dictionary(distinct: Column, codes: Any, undefined: Any) -> Column:
    """A column of entries as a column of rows. ``undefined``: additional rows without a value."""
    values = distinct.held if distinct.scalar else DictionaryEncoded(codes, distinct.held)
    valid = None if distinct.valid is None else gathered(distinct.valid, codes)
    return Column(distinct.kind, values, valid, either_mask(undefined, mask_of_rows(distinct.undefined, codes)))


def shared_codes(columns: Sequence[Column]) -> Any:
    """The codes that all columns except scalars share. None if the entries cannot be used."""
    coded = [column.coded for column in columns if not column.scalar]
    if not coded or coded[0] is None:
        return None
    first = coded[0]
    same = all(x is not None and x.codes is first.codes and len(x.entries) == len(first.entries) for x in coded)
    return first.codes if same else None


def dictionary_values(column: Column) -> Any:
    return column.held.entries if isinstance(column.held, DictionaryEncoded) else column.held


def dictionary_size(columns: Sequence[Column]) -> int:
    return next(len(column.held.entries) for column in columns if isinstance(column.held, DictionaryEncoded))


def mask_of_rows(mask: Any, codes: Any) -> Any:
    """A mask of entries as a mask of rows. None if it marks no row."""
    if mask is None or not mask.any():
        return None
    return mask if codes is None else some_marked(gathered(mask, codes))
