"""Values become Arrow columns and come back as they were, whatever they are."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Sequence
from typing import Any, NamedTuple

import attrs
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tests.strategies import RECORDS, SCALARS, Everything, Meter, Pair, Place, key_schemas, keys, schemas, values
from tracetypes.canonical import canonical
from tracetypes.compiler.columns.arrow import array, arrow_type, from_array, has_gaps
from tracetypes.compiler.columns.batches import (
    END,
    POSITION,
    Batch,
    decode,
    encode,
    from_rows,
    rows,
    schema_of_rows,
    to_bytes,
)
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.columns.ordering import array_of_runs
from tracetypes.compiler.runtime.stateless import exact_array, exactly
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.errors import DataError
from tracetypes.formats import Layout
from tracetypes.record_copies import builder
from tracetypes.records import INT_MAX, INT_MIN, UNIT, Integer, ListOf, Optional, Record, Schema, Unit, UnitValue
from tracetypes.schemas import schema_of
from tracetypes.trace import StreamType


def same(schema: Schema, ones: Sequence[Any], others: Sequence[Any]) -> bool:
    """Are two lists of values identical? NaN is like NaN, -0.0 is not like 0.0, 1 is not like 1.0 or True."""
    order = canonical(schema)
    texts = [repr(some).replace(", fold=1", "") for some in (ones, others)]  # no time in UTC is there twice
    return list(map(order, ones)) == list(map(order, others)) and texts[0] == texts[1]


@given(st.data())
def test_values_survive_columns(data: DataObject) -> None:
    schema = data.draw(schemas())
    some = data.draw(st.lists(values(schema), max_size=6))
    column = array(schema, some)
    assert column.type == arrow_type(schema)
    assert len(column) == len(some)
    column.validate(full=True)
    assert same(schema, from_array(schema, column), some)


@given(st.data())
def test_values_survive_slices_and_joins_of_columns(data: DataObject) -> None:
    schema = data.draw(schemas())
    some = data.draw(st.lists(values(schema), max_size=6))
    start = data.draw(st.integers(0, len(some)))
    end = data.draw(st.integers(start, len(some)))
    column = array(schema, some)
    assert same(schema, from_array(schema, column.slice(start, end - start)), some[start:end])
    joined = pa.concat_arrays([column.slice(start), column.slice(0, start)])
    assert same(schema, from_array(schema, joined), some[start:] + some[:start])


@pytest.mark.parametrize("schema", [*SCALARS, *RECORDS], ids=repr)
def test_no_values_survive_columns(schema: Schema) -> None:
    for one in (schema, ListOf(schema, True), Optional(ListOf(schema, False))):
        column = array(one, [])
        assert column.type == arrow_type(one)
        assert from_array(one, column) == []


@pytest.mark.parametrize(
    ("annotation", "some"),
    [
        (float, [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324]),
        (int, [INT_MIN, INT_MAX, 0]),
        (float | None, [None, math.nan, -0.0, None]),
        (int | None, [None, None]),
        (str, ["", "\0", "𝄞"]),
        (list[int | None], [[], [None], [1, None, 2]]),
        (tuple[int, ...] | None, [None, (), (1,), None]),
        (list[list[float]], [[], [[]], [[math.nan], []]]),
        (tuple[Place, ...], [(), (Place("a", -0.0), Place("", math.nan))]),
        (Meter | None, [None, Meter(1, Place("a", 0.0), None), None, Meter(2, Place("b", 1.0), "note")]),
        (Place | Pair, [Pair(1, True), Place("a", 0.0), Pair(2, False)]),
        (Place | Pair | None, [None, Pair(1, True), None, Place("a", 0.0)]),
        (list[Place | Pair], [[Pair(1, True), Place("a", 0.0)], []]),
        (list[Meter | None], [[None, Meter(1, Place("a", 0.0), None)], [], [None]]),
    ],
    ids=str,
)
def test_edge_values(annotation: Any, some: list[Any]) -> None:
    schema = schema_of(annotation)
    assert same(schema, from_array(schema, array(schema, some)), some)


def test_an_optional_unit_is_refused() -> None:
    with pytest.raises(DataError, match="a missing Unit looks like a Unit"):
        schema_of(Unit | None)


@given(st.data())
def test_columns_of_values_have_no_gaps(data: DataObject) -> None:
    schema = data.draw(schemas())
    column = array(schema, data.draw(st.lists(values(schema), max_size=6)))
    assert not has_gaps(schema, column)
    assert not has_gaps(schema, column.slice(1))


@pytest.mark.parametrize(
    ("annotation", "column"),
    [
        (int, pa.array([1, None], pa.int64())),
        (str, pa.array([None], pa.string())),
        (list[int], pa.array([[1], None], pa.list_(pa.int64()))),
        (list[int], pa.array([[1], [2, None]], pa.list_(pa.int64()))),
        (list[int] | None, pa.array([None, [None]], pa.list_(pa.int64()))),
        (Pair, pa.array([{"left": 1, "right": None}], arrow_type(schema_of(Pair)))),
        (Pair, pa.array([None], arrow_type(schema_of(Pair)))),
        (Pair | None, pa.array([None, {"left": None, "right": True}], arrow_type(schema_of(Pair)))),
        (Meter, pa.array([{"id": 1, "place": {"name": "a"}}], arrow_type(schema_of(Meter)))),
        (Place | Pair, pa.array([{}], arrow_type(schema_of(Place | Pair)))),
        (
            Place | Pair,
            pa.array(
                [{"Place": {"name": "a", "height": 0.0}, "Pair": {"left": 1, "right": True}}],
                arrow_type(schema_of(Place | Pair)),
            ),
        ),
    ],
    ids=str,
)
def test_gaps_are_found_at_any_level(annotation: Any, column: Any) -> None:
    assert has_gaps(schema_of(annotation), column)


@attrs.frozen(kw_only=True)
class Keywords:
    """Fields that are given by name only."""

    b: int
    a: str


@attrs.frozen
class Mixed:
    """Fields of both kinds, and with defaults."""

    b: int = attrs.field(kw_only=True)
    a: str = "none"


@pytest.mark.parametrize("some", [[Keywords(b=1, a="x"), Keywords(b=2, a="y")], [Mixed("x", b=1), Mixed(b=2)]])
def test_records_are_built_by_name_where_position_will_not_do(some: list[Any]) -> None:
    schema = schema_of(type(some[0]))
    assert same(schema, from_array(schema, array(schema, some)), some)


def test_records_are_built_by_position() -> None:
    assert builder(Pair, ("left", "right"))([[1, 2], [True, False]]) == [Pair(1, True), Pair(2, False)]
    assert builder(Pair, ("left", "right"))([[], []]) == []


@given(st.data())
def test_runs_of_the_same_value_become_the_same_column(data: DataObject) -> None:
    schema = data.draw(key_schemas())
    few = data.draw(st.lists(keys(schema), min_size=1, max_size=3))
    some = [value for value in data.draw(st.lists(st.sampled_from(few), max_size=4)) for _ in range(data.draw(st.integers(1, 9)))]
    assert array_of_runs(schema, some).equals(array(schema, some))


class Doubled(NamedTuple):
    """A plain named tuple, and the base of one that is not plain."""

    number: int


class DoublesItself(Doubled):
    """A named tuple with code of its own."""

    def __new__(cls, number: int) -> DoublesItself:
        return super().__new__(cls, 2 * number)


@pytest.mark.parametrize("cls", [Doubled, DoublesItself, namedtuple("Bare", "number")])
def test_named_tuples_are_built_without_their_constructor(cls: Any) -> None:
    built = builder(cls, ("number",))([[1, 2]])
    assert built == [(1,), (2,)]
    assert {type(one) for one in built} == {cls}


@given(st.data())
def test_columns_one_after_the_other_have_the_values_of_all(data: DataObject) -> None:
    schema = data.draw(st.sampled_from([Optional(one) for one in SCALARS if not isinstance(one, UnitValue)]) | schemas())
    parts = data.draw(st.lists(st.lists(values(schema), min_size=1, max_size=4), min_size=1, max_size=4))
    columns = [(from_arrow(schema, array(schema, some)), len(some)) for some in parts]
    every = [value for some in parts for value in some]
    try:
        joined = concat(columns)
    except Undefined:
        assume(False)
    assert same(schema, values_of(joined, len(every)), every)


# ----------------------------------------------------------------------------------------------------- batches


@st.composite
def batches(draw: st.DrawFn, key: Schema, value: Schema, *, positioned: bool) -> Batch:
    count = draw(st.integers(0, 5))

    def column(one: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(one, min_size=count, max_size=count))

    numbers = st.integers(INT_MIN, INT_MAX)
    return Batch(column(keys(key)), column(values(value)), column(numbers), column(numbers) if positioned else None)


def assert_same(key: Schema, value: Schema, one: Batch, other: Batch) -> None:
    assert same(key, one.keys, other.keys)
    assert same(value, one.values, other.values)
    assert one.ends == other.ends
    assert one.positions == other.positions
    assert len(one) == len(other) == len(one.ends)


@given(st.data(), st.booleans(), st.booleans())
def test_batches_survive_messages(data: DataObject, positioned: bool, ordered: bool) -> None:
    key, value = data.draw(key_schemas()), data.draw(schemas())
    batch = data.draw(batches(key, value, positioned=positioned))
    stream = StreamType(ordered, key, value)
    made = encode(stream, batch)
    assert_same(key, value, decode(stream, made), batch)
    read = pa.ipc.open_stream(to_bytes(made)).read_next_batch()
    assert_same(key, value, decode(stream, read), batch)


@given(st.data(), st.booleans())
def test_batches_survive_rows(data: DataObject, reserved: bool) -> None:
    key, value = data.draw(key_schemas()), data.draw(schemas())
    layout = Layout(key, value, ("marker",) if reserved else ())
    batch = data.draw(batches(key, value, positioned=True))
    made = rows(layout, batch)
    assert made.schema == schema_of_rows(layout)
    assert made.schema.names[-2:] == [END, POSITION]
    assert_same(key, value, from_rows(layout, made), batch)
    read = pa.ipc.open_stream(to_bytes(made)).read_next_batch()
    assert_same(key, value, from_rows(layout, read), batch)


@given(st.data())
def test_batches_survive_tables_of_several_chunks(data: DataObject) -> None:
    key, value = data.draw(key_schemas()), data.draw(schemas())
    layout = Layout(key, value)
    batch = data.draw(batches(key, value, positioned=True))
    cut = data.draw(st.integers(0, len(batch)))
    made = rows(layout, batch)
    assert_same(key, value, from_rows(layout, pa.Table.from_batches([made.slice(0, cut), made.slice(cut)])), batch)


def test_a_table_without_chunks_is_an_empty_batch() -> None:
    for key, value in ((Integer(), schema_of(Everything)), (UnitValue(), Integer())):
        layout = Layout(key, value)
        table = pa.Table.from_batches([], schema=schema_of_rows(layout))
        assert_same(key, value, from_rows(layout, table), Batch([], [], [], []))


def test_columns_of_rows_are_those_of_the_layout() -> None:
    def names(key: Any, value: Any, *reserved: str) -> list[str]:
        return schema_of_rows(Layout(schema_of(key), schema_of(value), reserved)).names[:-2]  # type: ignore[no-any-return]

    assert names(int, Pair) == ["key", "left", "right"]
    assert names(Unit, Pair) == ["left", "right"]
    assert names(Unit, int) == ["value"]
    assert names(str, Pair, "left") == ["key", "value"]


def test_a_unit_value_has_a_column_of_its_own() -> None:
    layout = Layout(UnitValue(), UnitValue())
    batch = Batch([UNIT] * 2, [UNIT] * 2, [1, 2], [0, 0])
    assert_same(UnitValue(), UnitValue(), from_rows(layout, rows(layout, batch)), batch)


@given(st.data())
def test_every_field_of_a_record_is_a_column(data: DataObject) -> None:
    schema = schema_of(Everything)
    assert isinstance(schema, Record)
    some = data.draw(st.lists(values(schema), max_size=3))
    made = rows(Layout(UnitValue(), schema), Batch([UNIT] * len(some), some, [0] * len(some), [0] * len(some)))
    assert made.schema.names[:-2] == [name for name, _ in schema.fields]
    for (name, inner), column in zip(schema.fields, made.columns, strict=False):
        assert same(inner, from_array(inner, column), [getattr(one, name) for one in some])


@pytest.mark.parametrize(
    ("numbers", "fit"),
    [
        ([], True),
        ([2**63 - 1, -(2**63)], True),
        ([2**63], False),
        ([0, -(2**63) - 1], False),
        ([1, True], False),
        ([1, 1.0], False),
        ([1, None], False),
    ],
    ids=repr,
)
def test_integers_become_a_column_only_as_they_are(numbers: list[Any], fit: bool) -> None:
    column = exact_array(Integer(), numbers)
    assert exactly(Integer(), numbers) == fit
    assert column == (array(Integer(), numbers) if fit else None)


@given(st.data())
def test_an_exact_array_is_the_array_of_what_fits(data: DataObject) -> None:
    schema = data.draw(schemas())
    some = data.draw(st.lists(values(schema), max_size=5))
    column = exact_array(schema, some)
    if exactly(schema, some):
        wanted = array(schema, some)
        assert column.type == wanted.type
        assert repr(column.to_pylist()) == repr(wanted.to_pylist())  # NaN equals NaN
    else:
        assert column is None
