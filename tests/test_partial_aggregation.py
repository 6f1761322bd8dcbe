"""Aggregates know whether a block and key has one row."""

from __future__ import annotations

import pickle
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.analysis.monoids import Part
from tracetypes.compiler.columns.column import Column
from tracetypes.compiler.runtime.column_states import Columnar
from tracetypes.compiler.runtime.partial_aggregation import Combined, Reduced, reduce_by_key
from tracetypes.records import Integer

SUM = Part((), Integer(), "sum")


def column(numbers: list[int]) -> Column:
    return Column(Integer(), np.array(numbers, np.int64))


def reduced(rows: list[tuple[int, int]]) -> Reduced:
    """Counts by block and key."""
    ends, keys = [end for end, _ in rows], [key for _, key in rows]
    return reduce_by_key([SUM], np.array(ends, np.int64), column(keys), [column([1] * len(rows))], len(rows))


def content(one: Combined) -> list[tuple[int, int, int]]:
    keys: Any = one.keys
    return list(zip(one.ends.tolist(), keys.values.tolist(), one.parts[0].values.tolist(), strict=True))


some_rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12)


@given(some_rows, st.lists(st.integers(0, 3), min_size=4, max_size=4), st.data())
def test_what_is_called_reduced_is(rows: list[tuple[int, int]], blocks: list[int], data: st.DataObject) -> None:
    """Whatever becomes of the blocks, and of the rows."""
    one: Combined = reduced(rows)
    assert {row[:2]: row[2] for row in content(one)} == Counter(rows)
    if data.draw(st.booleans()):
        some = data.draw(st.lists(st.integers(0, max(len(one) - 1, 0)), unique=True, max_size=len(one)))
        expected = [content(one)[at] for at in some]
        one = one.rows(np.array(some, np.int64))
        assert (content(one), type(one)) == (expected, Reduced)
    before = content(one)
    one = one.in_blocks(one.ends if data.draw(st.booleans()) else np.array(blocks, np.int64)[one.ends])
    assert [row[1:] for row in content(one)] == [row[1:] for row in before]
    if isinstance(one, Reduced):
        assert len({row[:2] for row in content(one)}) == len(one)
    elif len({end for end, *_ in before}) < 2:
        raise AssertionError("rows of one block stay different")


@given(some_rows, st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_a_block_that_was_two_is_reduced_again(rows: list[tuple[int, int]], blocks: list[int]) -> None:
    """When it closes, also if a single message has brought it."""
    one = reduced(rows)
    moved = one.in_blocks(np.array(blocks, np.int64)[one.ends])
    operator: Any = SimpleNamespace(keyed=SimpleNamespace(monoid=SimpleNamespace(parts=[SUM])))
    found = content(Columnar._combined(operator, [moved]))
    expected = Counter((blocks[end], key) for end, key in rows)
    assert (len(found), {row[:2]: row[2] for row in found}) == (len(expected), expected)


def test_a_checkpoint_has_no_other_class_for_it() -> None:
    one = pickle.loads(pickle.dumps(reduced([(1, 2), (1, 2)]), protocol=5))
    assert (type(one), content(one)) == (Combined, [(1, 2, 2)])
