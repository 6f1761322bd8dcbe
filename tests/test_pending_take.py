"""Rows are copied when somebody reads them, and only then."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.yahoo_data import START
from tests.local.test_code_is_used import run_yahoo
from tracetypes.compiler.columns import evaluation
from tracetypes.compiler.columns.column import Column, full_values, take_column
from tracetypes.compiler.columns.concatenation import concat_column
from tracetypes.compiler.columns.pending_take import PendingTake
from tracetypes.compiler.tracing.expr import Branch, Call, Const, Emission, Input, Leaf
from tracetypes.compiler.tracing.operations import basic
from tracetypes.records import Boolean, Integer, String


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.booleans(), st.booleans(), st.data())
def test_a_column_of_rows_that_are_not_copied_yet(numbers: list[int], text: bool, read_before: bool, data: st.DataObject) -> None:
    """It is the column of the copies: read, taken from, joined with another, pickled."""
    whole: Any = pa.array(list(map(str, numbers))) if text else np.array(numbers)
    rows = st.lists(st.integers(0, len(numbers) - 1), min_size=1, max_size=6)
    some = data.draw(rows)
    column = Column(String() if text else Integer(), PendingTake(whole, np.array(some, np.int64)))
    expected: list[Any] = [str(numbers[row]) if text else numbers[row] for row in some]
    if read_before:
        assert column.values.tolist() == expected
    places = data.draw(st.lists(st.integers(0, len(some) - 1), max_size=4))
    assert take_column(column, np.array(places, np.int64)).values.tolist() == [expected[place] for place in places]
    assert not column.scalar
    assert full_values(column, len(some)).tolist() == expected
    assert concat_column([(column, len(some)), (column, len(some))]).values.tolist() == expected * 2
    loaded = pickle.loads(pickle.dumps(column))
    assert type(loaded.storage) is type(whole)
    assert loaded.values.tolist() == expected


def test_a_few_rows_are_copied_at_once() -> None:
    """They would keep the whole array: what is emitted at a marker waits for all markers that have come."""
    number = Input(("row",), Integer())
    tree = Branch(Call(basic.LT, (number, Const(10, Integer())), Boolean()), Leaf((Emission(None, number),)), Leaf())
    for rows, copies in ((30, False), (1_000, True)):
        column = Column(Integer(), np.arange(rows))
        (emitted,) = evaluation.run(tree, lambda _, column=column: column, rows).emissions  # type: ignore[misc]
        assert isinstance(emitted.value, Column)
        assert isinstance(emitted.value.storage, np.ndarray) == copies
        assert emitted.value.values.tolist() == list(range(10))


@pytest.mark.parametrize("query", ["IV", "V"])
def test_values_that_are_only_counted_are_not_copied(query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries IV and V emit the time of each view and count them."""
    copied: list[Any] = []
    copy = PendingTake.array

    def copy_and_note(pending: PendingTake) -> Any:
        copied.append(copy(pending))
        return copied[-1]

    monkeypatch.setattr(PendingTake, "array", copy_and_note)
    run_yahoo(query, tmp_path)
    numbers = [one for one in copied if isinstance(one, np.ndarray) and one.dtype == np.int64]
    assert numbers
    assert all(one.max() < START for one in numbers)
