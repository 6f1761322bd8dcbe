"""Arrays whose text is dictionary-encoded mean what they mean without dictionaries."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.columns.coded_arrays import concat_arrays, plain_array, with_short_dictionaries

ROWS = st.none() | st.fixed_dictionaries(
    {
        "name": st.none() | st.sampled_from(["a", "b", "é", ""]),
        "number": st.integers(0, 3),
        "more": st.none() | st.text(max_size=2),
    }
)
TYPE = pa.struct([("name", pa.string()), ("number", pa.int64()), ("more", pa.string())])


def coded(rows: Sequence[dict[str, Any] | None], names: list[str]) -> Any:
    """An array of structs in which some fields are dictionary-encoded."""
    kind = pa.struct([part.with_type(pa.dictionary(pa.int32(), pa.string())) if part.name in names else part for part in TYPE])
    return pa.array(rows, TYPE).cast(kind)


TABLES = st.lists(st.tuples(st.lists(ROWS, max_size=6), st.sets(st.sampled_from(["name", "more"]))), min_size=1, max_size=4)


@given(TABLES)
def test_arrays_after_each_other(tables: list[tuple[list[Any], set[str]]]) -> None:
    whole = concat_arrays([coded(rows, sorted(names)) for rows, names in tables])
    assert whole.to_pylist() == [row for rows, _ in tables for row in rows]
    assert plain_array(whole).type == TYPE
    assert plain_array(whole).to_pylist() == whole.to_pylist()


@given(st.lists(ROWS, max_size=9), st.integers(0, 9), st.integers(0, 9))
def test_no_dictionary_is_longer_than_its_rows(rows: list[Any], start: int, count: int) -> None:
    part = coded(rows, ["name", "more"]).slice(min(start, len(rows)), count)
    short = with_short_dictionaries(part)
    assert short.to_pylist() == part.to_pylist()
    for at in range(short.type.num_fields):
        if pa.types.is_dictionary(short.type.field(at).type):
            assert len(short.field(at).dictionary) <= len(short)


def test_text_is_coded_where_it_is_for_most_rows() -> None:
    chance = random.Random(1)
    rows = [{"name": chance.choice("ab"), "number": 1, "more": None} for _ in range(9)]
    many, few = coded(rows, ["name"]), coded(rows[:2], [])
    assert concat_arrays([few, many]).type == many.type
    assert concat_arrays([many.slice(0, 2), coded(rows, [])]).type == TYPE
