"""Columns of lists, of which some are replaced again and again, are lists."""

from __future__ import annotations

import pickle
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.columns.column import Column, Struct
from tracetypes.compiler.columns.conversion import values_of
from tracetypes.compiler.columns.growing import GrowingColumns
from tracetypes.compiler.columns.lists import Lists
from tracetypes.records import Integer, String

LISTS = st.lists(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["", "a", "é"])), max_size=3), max_size=6)


def lists_of(lists: list[list[tuple[int, str]]]) -> Lists:
    """Python lists as a column."""
    items = [one for some in lists for one in some]
    numbers = Column(Integer(), np.array([number for number, _ in items], np.int64))
    texts = Column(String(), pa.array([text for _, text in items], pa.string()))
    return Lists.of([*map(len, lists)], GrowingColumns.of(Struct(tuple, (), (numbers, texts)), len(items)))


def plain(lists: Lists) -> list[list[Any]]:
    items = values_of(lists.items, lists.count)
    return [items[first:behind] for first, behind in pairwise(accumulate(lists.lengths.tolist(), initial=0))]


@given(LISTS, st.lists(st.tuples(st.integers(0, 3), LISTS), max_size=9), st.data())
def test_lists_are_replaced_added_and_taken(first: list[Any], steps: list[tuple[int, list[Any]]], data: st.DataObject) -> None:
    lists, model = lists_of(first), list(first)
    for kind, more in steps:
        if kind == 0:
            lists, model = lists.followed_by([lists_of(more), lists_of([])]), model + more
        elif kind == 1:
            lists = pickle.loads(pickle.dumps(lists))
        elif kind == 2:
            rows = data.draw(st.lists(st.integers(-1, len(model) - 1), max_size=6))
            lists, model = lists.take(np.array(rows, np.int64)), [[] if row < 0 else model[row] for row in rows]
        else:
            rows = data.draw(st.permutations(range(len(model))))[: len(more)]
            more = more[: len(rows)]
            lists.put(np.array(rows, np.int64), lists_of(more))
            for row, one in zip(rows, more, strict=True):
                model[row] = one
        assert plain(lists) == model
        assert len(lists) == len(model)
        assert lists.count == sum(map(len, model))


def test_items_that_were_replaced_are_removed() -> None:
    """The heap has at most twice what the lists hold, and an item a list."""
    lists = lists_of([[(1, "a")] * 4 for _ in range(10)])
    for turn in range(200):
        lists.put(np.array([turn % 10]), lists_of([[(turn, "b")] * (turn % 5)]))
        assert lists.heap.count <= 2 * lists.count + len(lists)
