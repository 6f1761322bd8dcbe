"""The numbers of keys: those of records are found by columns, and are the numbers that objects have."""

from __future__ import annotations

import datetime as dt
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import some
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.gates.container import KeyNumbers
from tracetypes.records import Schema
from tracetypes.schemas import schema_of


@attrs.frozen
class Place:
    zone: int
    name: str
    hot: bool


@attrs.frozen
class Hour:
    at: dt.datetime


@attrs.frozen
class Level:
    level: float


PLACES = st.builds(Place, st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]), st.sampled_from(["", "a", "b"]), st.booleans())
HOURS = st.builds(Hour, st.sampled_from([dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in range(1, 5)]))
KEYS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (Place, PLACES),
    (Hour, HOURS),
    (Level, st.builds(Level, st.sampled_from([0.0, -0.0, 1.5]))),
    (str, st.sampled_from("abc")),
]


def by_columns(schema: Schema) -> bool:
    return KeyNumbers(schema).column is not None


def test_which_keys_are_never_objects() -> None:
    assert [by_columns(schema_of(one)) for one, _ in KEYS] == [True, True, False, True]


@settings(max_examples=some(30))
@given(st.sampled_from(KEYS).flatmap(lambda one: st.tuples(st.just(one[0]), st.lists(st.lists(one[1], max_size=9), max_size=4))))
def test_numbers_are_those_of_a_dictionary(case: tuple[Any, list[list[Any]]]) -> None:
    record, blocks = case
    schema = schema_of(record)
    numbers, known = KeyNumbers(schema), dict[Any, int]()
    for block in blocks:
        found, new = numbers.of(array(schema, block))
        before = len(known)
        # Within a block the order of new ones is any, but the numbers and the keys belong together.
        assert set(new) == set(block) - set(known)
        assert len(new) == len(set(new))
        known |= {key: before + at for at, key in enumerate(new)}
        assert found.tolist() == [known[key] for key in block]
        assert (numbers.keys, numbers.count) == (list(known), len(known))
