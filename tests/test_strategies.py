"""The strategies of the other tests give what they promise, and all of it."""

import math
from typing import Any

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tests.strategies import (
    SCALARS,
    Everything,
    Meter,
    bits,
    congruent,
    equivalent,
    inequivalent,
    items_of,
    key_schemas,
    keys,
    schemas,
    streams,
    tag_types,
    tagged,
    tagged_items,
    values,
)
from tracetypes.canonical import canonical
from tracetypes.conformance import conformer, key_problem
from tracetypes.markers import Marker
from tracetypes.records import INT_MAX, INT_MIN, Float, Integer, ListOf, OneOf, Optional, Record, Schema, String
from tracetypes.schemas import schema_of
from tracetypes.trace import Item, StreamType, Tagged, TagsType, Trace, blocks


@given(st.data())
def test_values_fit_their_schema_as_they_are(data: DataObject) -> None:
    schema = data.draw(schemas())
    value = data.draw(values(schema))
    assert canonical(schema)(conformer(schema)(value)) == canonical(schema)(value)


@given(st.data())
def test_keys_can_be_keys(data: DataObject) -> None:
    schema = data.draw(key_schemas())
    key = data.draw(keys(schema))
    assert key_problem(schema, key) is None
    hash(key)


@pytest.mark.parametrize(
    ("schema", "edge"),
    [
        (Integer(), INT_MIN),
        (Integer(), INT_MAX),
        (Float(), -0.0),
        (Float(), math.nan),
        (Float(), -math.inf),
        (String(), ""),
        (Optional(Integer()), None),
    ],
)
def test_edge_values_come_up(schema: Schema, edge: Any) -> None:
    order = canonical(schema)
    assert find(values(schema), lambda v: order(v) == order(edge)) is not None or edge is None


def test_non_ascii_text_comes_up() -> None:
    assert not find(values(String()), lambda text: len(text.encode()) > len(text) + 2).isascii()


@pytest.mark.parametrize("kind", [*map(type, SCALARS), Optional, ListOf, Record, OneOf])
def test_every_kind_of_schema_comes_up(kind: type[Any]) -> None:
    assert isinstance(find(schemas(), lambda s: isinstance(s, kind)), kind)


def test_every_kind_of_schema_is_a_field_of_everything() -> None:
    schema = schema_of(Everything)
    assert isinstance(schema, Record)
    kinds = {type(inner) for _, inner in schema.fields}
    assert kinds == {*map(type, SCALARS), Optional, ListOf, Record, OneOf}


def test_bits_tell_zeros_apart() -> None:
    assert bits(0.0) != bits(-0.0)
    assert bits(math.nan) == bits(math.nan)


STREAMS = st.builds(StreamType, st.booleans(), st.sampled_from((Integer(), schema_of(Meter))), st.just(Integer()))


@given(st.data())
def test_streams_are_streams(data: DataObject) -> None:
    type = data.draw(STREAMS)
    ended = data.draw(st.booleans())
    items = data.draw(streams(type, ended=ended))
    assert Trace(type, items).items == tuple(items)
    *_, open_ = blocks(items)
    if ended:
        assert open_.items == ()


@given(st.data())
def test_equivalent_sequences_are_congruent(data: DataObject) -> None:
    type = data.draw(tag_types())
    one = data.draw(tagged(type, most=6))
    other = data.draw(equivalent(type, one))
    assert tuple(map(type.order, other)) in congruent(type, one)


def test_equivalent_sequences_are_not_all_the_same() -> None:
    type = StreamType(False, Integer(), Integer())
    one = [Item(1, 1), Item(2, 2), Item(3, 3), Marker(0)]
    turned = find(equivalent(type, one), lambda other: other == [Item(3, 3), Item(2, 2), Item(1, 1), Marker(0)])
    assert turned != one


@given(st.data())
def test_inequivalent_sequences_are_not_congruent(data: DataObject) -> None:
    type = data.draw(tag_types())
    one = data.draw(tagged(type, most=5))
    other = data.draw(inequivalent(type, one, tagged_items(type)))
    assert tuple(map(type.order, other)) not in congruent(type, one)


def test_inequivalent_sequences_may_hold_the_same_items() -> None:
    type = StreamType(True, Integer(), Integer())
    one = [Item(1, 1), Item(1, 2), Marker(0)]
    find(inequivalent(type, one, items_of(type)), lambda other: other == [Item(1, 2), Item(1, 1), Marker(0)])


def test_a_congruence_class_by_hand() -> None:
    type = TagsType({"a": int, "b": int, "c": int}, frozenset({("a", "b")}))
    a, b, c = Tagged("a", 0), Tagged("b", 0), Tagged("c", 0)
    words = {"abc", "acb", "cab"}
    named = {type.order(a): "a", type.order(b): "b", type.order(c): "c"}
    assert {"".join(named[one] for one in word) for word in congruent(type, [a, b, c])} == words


@settings(max_examples=30)
@given(st.data())
def test_inequivalent_streams_are_still_streams(data: DataObject) -> None:
    type = data.draw(STREAMS)
    one = data.draw(streams(type))
    assert list(blocks(data.draw(inequivalent(type, one, items_of(type)))))
