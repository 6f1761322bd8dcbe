"""Records of Avro that other programs write, by schemas that differ from ours: one by one, in columns, and by fastavro."""

from __future__ import annotations

import copy
import datetime as dt
import io
import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

import attrs
import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from tests.strategies import FLOATS, STRINGS, Hue, Meter, Place
from tracetypes import decimal
from tracetypes.canonical import canonical
from tracetypes.compiler.columns.arrow import from_array, has_gaps
from tracetypes.compiler.connectors.avro_columns import ColumnDecoder
from tracetypes.compiler.connectors.avro_records import AvroDecoder
from tracetypes.compiler.connectors.avro_schemas import AvroType, bare_schema
from tracetypes.compiler.connectors.schema_registry import RegisteredSchema
from tracetypes.foreign_schemas import schema_text
from tracetypes.plain_data import from_plain
from tracetypes.records import Boolean, Bytes, Float, Integer, Mismatch, Optional, Record, Schema, String, UInt64
from tracetypes.schemas import schema_of


@attrs.frozen
class Moment:
    at: dt.datetime


@attrs.frozen
class Inside:
    inner: Moment


@attrs.frozen
class Price:
    amount: Annotated[Decimal, decimal(20, 6)]


@attrs.frozen
class Seen:
    by: str
    times: int


@attrs.frozen
class Account:
    id: int
    owner: str | None
    opened: dt.datetime
    closed: dt.date | None
    balance: float
    inner: Moment | None
    seen: Seen
    hue: Hue
    size: UInt64


@attrs.frozen
class Twice:
    first: int | None
    second: int


RECORDS = st.sampled_from(list(map(schema_of, (Account, Account, Inside, Seen, Place, Meter))))

EXTREMES = {"int": (0, -1, 2**31 - 1, -(2**31)), "long": (0, -1, 1_999, 2**62, 2**63 - 1, -(2**63))}


def record(name: str, *fields: tuple[Any, ...]) -> dict[str, Any]:
    """A schema of Avro."""
    return {"type": "record", "name": name, "fields": [dict(zip(("name", "type", "default"), one)) for one in fields]}  # noqa: B905


def registered(schema: Any) -> RegisteredSchema:
    """As the registry gives it."""
    return RegisteredSchema(1, "AVRO", json.dumps(schema))


def written(schema: Any, value: Any) -> bytes:
    """A value as another program writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(bare_schema(schema)), value)
    return out.getvalue()


def evolved(draw: Callable[[Any], Any], node: Any) -> Any:
    """A schema that differs here and there."""
    if isinstance(node, list):
        return [evolved(draw, one) if isinstance(one, dict) and one["type"] == "record" else one for one in node]
    if isinstance(node, dict) and node["type"] == "record":
        fields = [{**one, "type": evolved(draw, one["type"])} for one in node["fields"] if draw(st.integers(0, 7))]
        for at in range(len(fields)):
            if not draw(st.integers(0, 7)):
                fields[at]["name"] = f"old_{fields[at]['name']}"
        if not draw(st.integers(0, 2)):
            more = draw(st.sampled_from(("string", "double", ["null", "bytes"], {"type": "array", "items": "int"})))
            fields.insert(draw(st.integers(0, len(fields))), {"name": "more", "type": more})
        return {**node, "fields": fields}
    if isinstance(node, dict) and node.get("logicalType") == "decimal" and draw(st.integers(0, 7)):
        node = "long"  # as others write what has no sign; decimals have no columns
    change = draw(st.integers(0, 11))
    if change == 0:
        return ["null", node]
    if change == 1:
        return [node, "null"]
    if change == 2:
        return "null"
    if change == 3 and node == "long":
        return "int"
    if change == 4 and node == "double":
        return draw(st.sampled_from(("float", "long")))
    if isinstance(node, dict) and node.get("logicalType") == "timestamp-micros":
        return {**node, "logicalType": draw(st.sampled_from(("timestamp-micros", "timestamp-millis", "timestamp-nanos")))}
    return node


def newest(node: Any) -> Any:
    """The latest schema: fields that older records call something else, or lack, with defaults for some."""
    node = copy.deepcopy(node)
    for one in node["fields"]:
        one["aliases"] = [f"old_{one['name']}"]
        if one["type"] in ("long", "double"):
            one["default"] = 7
        elif one["type"] == "string":
            one["default"] = "seven"
    return node


def data_of(actual: AvroType) -> SearchStrategy[Any]:
    """Values of a type, as fastavro writes them."""
    match actual.kind:
        case "union":
            if len(actual.inner) == 1 or not all(one.kind == "record" for one in actual.branches):
                return st.one_of(*map(data_of, actual.inner))
            tagged = [data_of(one).map(lambda value, name=one.name: (name, value)) for one in actual.branches]  # type: ignore[misc]
            return st.one_of(*tagged, *([st.none()] if actual.has_null else []))
        case "record":
            return st.fixed_dictionaries({one.name: data_of(one.type) for one in actual.fields})
        case "array":
            return st.lists(data_of(actual.inner[0]), max_size=2)
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "int" | "long" as kind:
            least, most = -(2 ** (31 if kind == "int" else 63)), 2 ** (31 if kind == "int" else 63) - 1
            return st.sampled_from(EXTREMES[kind]) | st.integers(-3, 10_000) | st.integers(least, most)
        case "float":
            return st.floats(width=32)
        case "double":
            return FLOATS
        case "bytes":
            return st.binary(max_size=4)
        case _:
            return STRINGS | st.sampled_from(("red", "blue"))


def alone(decoder: AvroDecoder, schema: Schema, payload: bytes) -> Any:
    """A record by itself, or the reason why it is a reject."""
    try:
        return canonical(schema)(from_plain(schema, decoder.plain(payload)))
    except Mismatch as error:
        return error


@given(st.data())
def test_columns_are_what_each_record_is(data: DataObject) -> None:
    """Of any writer's schema. A record that one of both rejects is nothing that the other takes; no other exception comes."""
    schema = data.draw(RECORDS)
    ours = json.loads(schema_text(schema, "avro"))
    assert isinstance(schema, Record)
    writer = evolved(data.draw, ours)
    decoder = AvroDecoder(registered(writer), schema, registered(newest(ours)))
    if decoder.problems:
        return
    payloads = [written(writer, one) for one in data.draw(st.lists(data_of(decoder.type), min_size=1, max_size=4))]
    one_by_one = [alone(decoder, schema, payload) for payload in payloads]
    columns = ColumnDecoder.of(decoder.type, [inner for _, inner in schema.fields], decoder.matches)
    decoded = None if columns is None else columns.decode(payloads, 0)
    if decoded is None:
        return
    good = [at for at in range(len(payloads)) if at not in decoded.bad]
    for row, at in enumerate(good):
        cells = [column.slice(row, 1) for column in decoded.columns]
        gaps = any(has_gaps(inner, cell) for (_, inner), cell in zip(schema.fields, cells, strict=True))
        assert gaps == isinstance(one_by_one[at], Mismatch)
        if not gaps:
            values = {name: from_array(inner, cell)[0] for (name, inner), cell in zip(schema.fields, cells, strict=True)}
            assert canonical(schema)(schema.cls(**values)) == one_by_one[at]


PLAIN = (Boolean, Integer, Float, String, Bytes)


@given(st.data())
def test_fastavro_resolves_the_same(data: DataObject) -> None:
    """With the latest schema as the reader's: aliases, defaults, int for long, float and long for double."""
    schema = schema_of(Account)
    assert isinstance(schema, Record)
    ours = json.loads(schema_text(schema, "avro"))
    writer, reader = evolved(data.draw, ours), newest(ours)
    decoder = AvroDecoder(registered(writer), schema, registered(reader))
    if decoder.problems:
        return
    payload = written(writer, data.draw(data_of(decoder.type)))
    try:
        resolved: Any = fastavro.schemaless_reader(
            io.BytesIO(payload), fastavro.parse_schema(bare_schema(writer)), fastavro.parse_schema(bare_schema(reader))
        )
        plain = decoder.plain(payload)
    except (Mismatch, fastavro.read.SchemaResolutionError):
        return
    for name, inner in schema.columns:
        if isinstance(inner.item if isinstance(inner, Optional) else inner, PLAIN):
            found, expected = plain[name], resolved[name]
            if isinstance(inner, Float):
                found, expected = float(found), float(expected)
            assert found == expected or (math.isnan(found) and math.isnan(expected)), name


OPENED: Any = {"type": "long", "logicalType": "timestamp-micros"}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (["null", record("Moment", ("at", OPENED))], {"at": 5}),
        (["null", OPENED], 5),
        (["null", {"type": "int", "logicalType": "date"}], 5),
        (["null", {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}], b"\1"),
    ],
)
def test_a_null_that_must_not_be_is_a_reject(kind: Any, value: Any) -> None:
    """Of values that become others, too: it is no end of a run."""
    types: list[Any] = [Moment, dt.datetime, dt.date, Annotated[Decimal, decimal(12, 2)]]
    for one in types:
        schema = Record(dict, (("it", schema_of(one)),))
        writer = record("R", ("it", kind))
        decoder = AvroDecoder(registered(writer), schema, None)
        if not decoder.problems:
            decoder.plain(written(writer, {"it": value}))
            assert decoder.plain(written(writer, {"it": None})) == {"it": None}
            break
    else:
        pytest.fail("no type fits")
    with pytest.raises(Mismatch, match="it is None, expected"):
        from_plain(schema, {"it": None})


def test_a_field_of_nothing() -> None:
    """Its type is ``null``: None where the field may be that, else a reject."""
    writer = record("R", ("owner", "null"), ("id", "null"))
    for inner, gaps in ((Optional(String()), ()), (String(), (".owner is null, expected str",))):
        decoder = AvroDecoder(registered(writer), Record(dict, (("owner", inner),)), None)
        assert (decoder.problems, decoder.gaps) == ((), gaps)
        assert decoder.plain(b"")["owner"] is None


def test_records_of_a_union_become_one_by_their_own_types() -> None:
    """Milliseconds of one branch are not microseconds of the other."""
    branches = [record("A", ("at", {**OPENED, "logicalType": "timestamp-millis"})), record("B", ("at", OPENED))]
    writer = record("Inside", ("inner", branches))
    decoder, schema = AvroDecoder(registered(writer), schema_of(Inside), None), schema_of(Inside)
    for value in (("A", {"at": 1_000}), ("B", {"at": 1_000_000})):
        found: Any = from_plain(schema, decoder.plain(written(writer, {"inner": value})))
        assert found == Inside(Moment(dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)))


def test_decimals_that_look_alike_are_refused() -> None:
    """fastavro does not say which ``fixed`` of a union a value is."""
    kinds = [
        {"type": "fixed", "name": f"F{scale}", "size": 4, "logicalType": "decimal", "precision": 8, "scale": scale}
        for scale in (2, 4)
    ]
    decoder = AvroDecoder(registered(record("Price", ("amount", kinds))), schema_of(Price), None)
    assert decoder.problems == (".amount is decimal or decimal, decimals of several scales that look alike",)


def test_one_field_of_the_writer_for_two_of_ours() -> None:
    """By its name and by an alias."""
    writer = record("Twice", ("first", "long"))
    latest = record("Twice", ("second", "long"))
    latest["fields"][0]["aliases"] = ["first"]
    schema = schema_of(Twice)
    decoder = AvroDecoder(registered(writer), schema, registered(latest))
    payload = written(writer, {"first": 5})
    assert decoder.plain(payload) == {"first": 5, "second": 5}
    columns = ColumnDecoder.of(decoder.type, [], decoder.matches)
    assert columns is not None
    assert columns.decode([payload], 0) is None
