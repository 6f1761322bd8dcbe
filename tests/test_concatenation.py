"""Columns one after the other, of which some are dictionary-encoded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.columns.column import Column, taken_later
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.columns.dictionary import DictionaryEncoded
from tracetypes.records import Optional, String

TEXT = Optional(String())

TEXTS = st.lists(st.none() | st.sampled_from(["", "a", "b"]), max_size=12)


@given(st.lists(st.tuples(TEXTS, st.booleans(), st.booleans()), min_size=1, max_size=4))
def test_text_with_dictionaries_and_without_is_put_together(parts: list[tuple[list[Any], bool, bool]]) -> None:
    columns, expected = [], []
    for texts, coded, later in parts:
        array = pa.array(texts, pa.string())
        column = from_arrow(TEXT, array.dictionary_encode() if coded else array)
        if later:
            rows = np.arange(len(texts))[::-1].copy()
            column, texts = taken_later(column, rows), texts[::-1]
        columns.append((column, len(texts)))
        expected += texts
    assert values_of(concat(columns), len(expected)) == expected


def test_many_rows_of_few_entries_stay_encoded() -> None:
    coded = from_arrow(String(), pa.array(["a", "b"] * 50).dictionary_encode())
    few = from_arrow(String(), pa.array(["c", "a"]))
    both = concat([(coded, 100), (few, 2), (coded, 100)])
    assert isinstance(both, Column)
    assert isinstance(both.storage, DictionaryEncoded)
    assert both.storage.dictionary.to_pylist() == ["a", "b", "c", "a"]  # pieces of one column share their entries
    assert values_of(both, 202) == [*["a", "b"] * 50, "c", "a", *["a", "b"] * 50]
    many = from_arrow(String(), pa.array([f"text {n}" for n in range(100)]))
    assert not isinstance(concat([(coded, 100), (many, 100)]).storage, DictionaryEncoded)  # type: ignore[union-attr]
