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
from tracetypes.compiler.columns import groups, runs
from tracetypes.compiler.columns.column import Column, Struct
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.columns.groups import codes_of
from tracetypes.compiler.columns.runs import NumberRuns
from tracetypes.compiler.runtime.partial_aggregation import reduce_by_key
from tracetypes.compiler.runtime.partitioner import ends_of_windows
from tracetypes.records import Integer, String

SIZES = st.lists(st.integers(0, 4), min_size=1, max_size=6)
FEW = st.sampled_from([0, runs.FEW])


def both(sizes: list[int]) -> tuple[NumberRuns, Any]:
    """Ends of blocks in runs, and as an array."""
    values = 7 + np.arange(len(sizes)) * 5
    return NumberRuns.starting_at(np.cumsum(sizes)[:-1], values, sum(sizes)), np.repeat(values, sizes)


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


def test_numbers_of_32_bits_beside_runs() -> None:
    """They are those of a dictionary, and the sum may need more bits."""
    some = NumberRuns.starting_at(np.array([2]), np.array([0, 2**31 - 1]), 4)
    assert some.spread(some.values, np.array([1, 2, 3, 4], np.int32)).tolist() == [1, 2, 2**31 + 2, 2**31 + 3]


def coded(codes: Any, prefix: str, entries: int) -> Column:
    """A dictionary-encoded column."""
    texts = pa.array([f"{prefix}{number}" for number in range(entries)])
    column = from_arrow(String(), pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), texts))
    assert isinstance(column, Column)
    return column


@pytest.mark.parametrize("blocks", [[0], [0, 10]])
def test_keys_of_two_large_dictionaries(blocks: list[int]) -> None:
    """The number of a pair needs more than 32 bits. In these bits the last two pairs are two others."""
    entries = 70_000
    a, b = [*range(entries), 0, 61_357], [*range(entries), 22_704, 0]
    key, count = Struct(tuple, ("a", "b"), (coded(a, "a", entries), coded(b, "b", entries))), entries + 2
    some = NumberRuns.starting_at(np.array(blocks[1:], np.int64), np.arange(len(blocks)), count)
    codes, _ = codes_of(some, key, count)
    assert len(np.unique(codes)) == count


def test_four_large_dictionaries_beside_blocks() -> None:
    """With four blocks there are more numbers than 63 bits have."""
    entries = count = 40_000
    last = [entries - 1 - row % 2 for row in range(count)]
    parts = tuple(coded(last, name, entries) for name in "abcd")
    some = NumberRuns.starting_at(np.array([2, 4, 6]), np.arange(4), count)
    codes, number = codes_of(some, Struct(tuple, tuple("abcd"), parts), count)
    assert len(set(codes.tolist())) == 8
    assert all(0 <= code < number < 2**63 for code in codes.tolist())


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), min_size=1, max_size=9), st.integers(1, 30))
def test_numbers_that_would_be_too_large(rows: list[tuple[str, str]], largest: int) -> None:
    parts = tuple(Column(String(), pa.array(part)) for part in zip(*rows, strict=True))
    some = NumberRuns.starting_at(np.array([len(rows) // 2]), np.array([3, 9]), len(rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "LARGEST", largest)
        codes, number = codes_of(some, Struct(tuple, ("0", "1"), parts), len(rows))
    pairs = list(zip(some.array.tolist(), rows, strict=True))
    assert len(set(zip(codes.tolist(), pairs, strict=True))) == len(set(pairs)) == len(set(codes.tolist()))
    assert max(codes.tolist()) < number


@given(SIZES, st.integers(1, 12), st.integers(-9, 9))
def test_windows_of_runs(sizes: list[int], size: int, offset: int) -> None:
    """Two runs in one window are one run: each window and key has one row."""
    some, array = both(sizes)
    windows = ends_of_windows(some, size, offset)
    assert windows.array.tolist() == ends_of_windows(array, size, offset).tolist()
    assert len(set(windows.values.tolist())) == len(windows.values)


@given(SIZES, FEW, st.lists(st.sampled_from("abc"), min_size=24, max_size=24), st.booleans())
def test_groups_of_runs(sizes: list[int], few: int, texts: list[str], by_dictionary: bool) -> None:
    """Rows of one block and key have one number, and no others."""
    some, array = both(sizes)
    keys = pa.array(texts[: len(array)], pa.string())
    key = from_arrow(String(), keys.dictionary_encode() if by_dictionary else keys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "FEW", few)
        codes, number = codes_of(some, key, len(array))
        pairs = list(zip(array.tolist(), keys.to_pylist(), strict=True))
        assert len(set(zip(codes.tolist(), pairs, strict=True))) == len(set(pairs)) == len(set(codes.tolist()))
        assert all(0 <= code < number for code in codes.tolist())
        ones = Column(Integer(), np.ones(len(array), np.int64))
        made = reduce_by_key([Part((), Integer(), "sum")], some, key, [ones], len(array))
    made_of = zip(made.ends.tolist(), values_of(made.keys, len(made)), strict=True)
    assert dict(zip(made_of, made.parts[0].values.tolist(), strict=True)) == Counter(pairs)
