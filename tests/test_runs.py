"""Numbers in runs are those of an array."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.analysis.monoids import Part
from tracetypes.compiler.columns import runs
from tracetypes.compiler.columns.column import Column
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.columns.groups import codes_of
from tracetypes.compiler.columns.runs import Runs
from tracetypes.compiler.runtime.partial_aggregation import reduce_by_key
from tracetypes.compiler.runtime.partitioner import ends_of_windows
from tracetypes.records import Integer, String

SIZES = st.lists(st.integers(0, 4), min_size=1, max_size=6)
FEW = st.sampled_from([0, runs.FEW])


def both(sizes: list[int]) -> tuple[Runs, Any]:
    """Ends of blocks in runs, and as an array."""
    values = 7 + np.arange(len(sizes)) * 5
    return Runs.at(values, np.cumsum(sizes)[:-1], sum(sizes)), np.repeat(values, sizes)


@given(SIZES, FEW, st.data())
def test_runs_are_the_array(sizes: list[int], few: int, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "FEW", few)
        some, array = both(sizes)
        assert len(some) == len(array)
        assert some.array.tolist() == array.tolist()
        assert some.present.tolist() == sorted(set(array.tolist()))
        rest = np.arange(len(array), dtype=np.int32)
        assert some.spread(some.values, rest).tolist() == (array + rest).tolist()
        rows = data.draw(st.lists(st.integers(0, len(array) - 1))) if len(array) else []
        assert some.take(np.array(rows, np.int64)).tolist() == array[np.array(rows, np.int64)].tolist()
        in_order = np.array(sorted(rows), np.int64)
        assert some.of_rows(in_order).array.tolist() == array[in_order].tolist()


@given(SIZES, st.integers(1, 12), st.integers(-9, 9))
def test_windows_of_runs(sizes: list[int], size: int, offset: int) -> None:
    """Two runs in one window are one run: each window and key has one row."""
    some, array = both(sizes)
    windows = ends_of_windows(some, size, offset)
    assert windows.array.tolist() == ends_of_windows(array, size, offset).tolist()
    assert len(set(windows.values.tolist())) == len(windows.values)


@given(SIZES, FEW, st.lists(st.sampled_from("abc"), min_size=24, max_size=24), st.booleans())
def test_groups_of_runs(sizes: list[int], few: int, texts: list[str], coded: bool) -> None:
    """Rows of one block and key have one number, and no others."""
    some, array = both(sizes)
    keys = pa.array(texts[: len(array)], pa.string())
    key = from_arrow(String(), keys.dictionary_encode() if coded else keys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "FEW", few)
        codes, number = codes_of(some, key, len(array))
        pairs = list(zip(array.tolist(), keys.to_pylist(), strict=True))
        assert len(set(zip(codes.tolist(), pairs, strict=True))) == len(set(pairs)) == len(set(codes.tolist()))
        assert all(0 <= code < number for code in codes.tolist())
        ones = Column(Integer(), np.ones(len(array), np.int64))
        made = reduce_by_key([Part((), Integer(), "sum")], some, key, [ones], len(array))
    groups = zip(made.ends.tolist(), values_of(made.keys, len(made)), strict=True)
    assert dict(zip(groups, made.parts[0].values.tolist(), strict=True)) == Counter(pairs)
