"""Unions as columns: they are taken apart into members, from pieces of any kind, and ordered as the definition says."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import FLOATS, STRINGS
from tracetypes.canonical import canonical
from tracetypes.compiler.columns.arrow import array, arrow_type, from_array
from tracetypes.compiler.columns.column import take, taken_later
from tracetypes.compiler.columns.conversion import values_of
from tracetypes.compiler.columns.members import members_of, union_column
from tracetypes.compiler.columns.ordering import canonical_keys
from tracetypes.compiler.columns.sorting import sorted_rows
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.schemas import schema_of


@attrs.frozen
class Left:
    """A member with all that may be equal or missing."""

    number: int
    text: str
    more: float | None


@attrs.frozen
class Right:
    """Another one."""

    text: str | None
    number: int


KIND: Any = schema_of(Left | Right)

FEW = st.sampled_from(["", "a", "b"]) | STRINGS
LEFTS = st.builds(Left, st.integers(0, 1), FEW, st.none() | FLOATS)
RIGHTS = st.builds(Right, st.none() | FEW, st.integers(0, 1))

PIECES = st.lists(st.lists(LEFTS, max_size=4) | st.lists(RIGHTS, max_size=4) | st.lists(LEFTS | RIGHTS, max_size=6), min_size=1)
"""Of one member, as what comes from one link is, or of both."""


def arrays(pieces: list[list[Any]]) -> list[Any]:
    """The pieces as Arrow arrays: parts of larger ones."""
    found = []
    for piece in pieces:
        whole = array(KIND, [Left(7, "before", None), *piece, Right("behind", 7)])
        found.append(whole.slice(1, len(piece)))
    return found


@given(PIECES, st.data())
def test_members_of_pieces_and_of_some_of_their_rows(pieces: list[list[Any]], data: st.DataObject) -> None:
    whole, column = [value for piece in pieces for value in piece], union_column(KIND, arrays(pieces))
    rows = data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=20) if whole else st.just([]))
    places = np.array(rows, np.int64)
    for some, expected in (
        (column, whole),
        (taken_later(column, places), [whole[row] for row in rows]),
        (take(column, places), [whole[row] for row in rows]),
    ):
        assert list(map(repr, values_of(some, len(expected)))) == list(map(repr, expected))  # NaN is not equal to itself
        found: list[Any] = [None] * len(expected)
        for member in members_of(KIND, some, len(expected)):
            values = values_of(member.columns, len(member.rows))
            assert {type(value) for value in values} <= {member.record.cls}
            for row, value in zip(member.rows.tolist(), values, strict=True):
                found[row] = value
        assert list(map(repr, found)) == list(map(repr, expected))


@given(PIECES)
def test_the_order_of_a_union_is_the_canonical_one(pieces: list[list[Any]]) -> None:
    whole = [value for piece in pieces for value in piece]
    rows = sorted_rows(canonical_keys(union_column(KIND, arrays(pieces))), len(whole))
    order = canonical(KIND)
    assert [order(whole[row]) for row in rows.tolist()] == sorted(map(order, whole))


def test_pieces_whose_texts_have_dictionaries_and_others() -> None:
    pieces = arrays([[Left(1, "a", None), Left(2, "b", 1.0)], [Left(3, "a", 2.0), Right("c", 4)]])
    coded = pieces[0].field(0)
    texts = pa.StructArray.from_arrays(
        [coded.field(0), coded.field(1).dictionary_encode(), coded.field(2)], names=["number", "text", "more"]
    )
    pieces[0] = pa.StructArray.from_arrays([texts, pieces[0].field(1)], names=["Left", "Right"])
    column = union_column(KIND, pieces)
    assert values_of(column, 4) == [Left(1, "a", None), Left(2, "b", 1.0), Left(3, "a", 2.0), Right("c", 4)]
    assert values_of(take(column, np.array([3, 1])), 2) == [Right("c", 4), Left(2, "b", 1.0)]
    assert [len(member.rows) for member in members_of(KIND, column, 4)] == [3, 1]


def test_a_row_of_no_member_is_undefined() -> None:
    none = pa.StructArray.from_arrays(
        [pa.nulls(1, field.type) for field in arrow_type(KIND)], names=[field.name for field in arrow_type(KIND)]
    )
    assert from_array(KIND, none) == [None]
    with pytest.raises(Undefined):
        union_column(KIND, [*arrays([[Right("a", 1)]]), none])
