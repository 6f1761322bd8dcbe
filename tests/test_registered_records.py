"""Keys and values whose schemas are in a registry, without a broker: a fake registry on loopback has the schemas."""

from __future__ import annotations

import base64
import datetime as dt
import json
import random
import struct
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import attrs
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tests.fake_registry import FakeRegistry, fake_registry
from tests.strategies import Hue, schemas, values
from tests.test_column_names import Message
from tracetypes import Dataflow, RunError, U, UsageError, check, decimal, every, kafka
from tracetypes.canonical import canonical
from tracetypes.compiler.columns.arrow import from_array
from tracetypes.compiler.connectors import kafka as topics
from tracetypes.compiler.connectors import registered_rows, schema_registry
from tracetypes.compiler.connectors.avro_columns import ColumnDecoder
from tracetypes.compiler.connectors.avro_records import AvroDecoder
from tracetypes.compiler.connectors.avro_schemas import avro_type
from tracetypes.compiler.connectors.kafka import Address
from tracetypes.compiler.connectors.kafka_records import RecordReader
from tracetypes.compiler.connectors.protobuf_records import ProtobufDecoder, message_numbers, numbers_as_bytes
from tracetypes.compiler.connectors.protobuf_values import message_of, protobuf_encoder
from tracetypes.compiler.connectors.registered_records import TopicSchemas
from tracetypes.compiler.connectors.registered_values import avro_encoder, registered_writer
from tracetypes.compiler.connectors.schema_registry import RegisteredSchema
from tracetypes.compiler.plan.plan import FromSource, SourceLink, links
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.foreign_schemas import schema_text
from tracetypes.plain_data import from_plain
from tracetypes.records import ListOf, Mismatch, Optional, Record, Schema, UInt64, UnitValue
from tracetypes.schemas import schema_of


@attrs.frozen
class Order:
    shop: str
    ts: int
    cents: int
    note: str | None = None


@attrs.frozen
class Payment:
    at: dt.datetime
    day: dt.date
    amount: Annotated[Decimal, decimal(12, 2)]
    rate: float
    paid: bool
    raw: bytes
    tags: list[str]


@attrs.frozen
class Money:
    cents: int


@attrs.frozen
class Bill:
    ts: int
    money: Money


ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "com.acme",
    "fields": [
        {"name": "shop", "type": "string"},
        {"name": "seller", "type": "string"},
        {"name": "ts", "type": "long"},
        {"name": "cents", "type": "int"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """A fake one."""
    with fake_registry() as fake:
        yield fake


def leaf_of(edge: Any, format: Any, time: Any = lambda order: order.ts, **options: Any) -> FromSource:
    """The source of a flow."""
    flow = Dataflow("orders")
    flow.sink("out", flow.source("orders", edge, markers=every(seconds=10, time=time), format=format, **options))
    (link,) = links(plan(check(flow)).stages[0].region)
    assert isinstance(link, SourceLink)
    return link.leaf


def address(registry: FakeRegistry, options: str = "value=avro", topic: str = "orders") -> Address:
    """Of a topic whose schemas the registry has."""
    return Address.of(f"kafka://broker:9092/{topic}?registry={registry.url}&{options}")


def reading(leaf: FromSource, there: Address) -> RecordReader:
    """A reader of records, as a run opens it."""
    schemas = TopicSchemas.of(there, leaf.source.format, leaf.layout, "source 'orders'")
    return RecordReader(leaf, there, reject_text=lambda message: repr(message.value()), schemas=schemas)


def taken(leaf: FromSource, rows: Any) -> tuple[list[Any], list[str], bool]:
    """The values of items, the reasons of rejects, and whether there are columns."""
    items: list[Any] = []
    reasons: list[str] = []
    columns = False
    for one in rows:
        if isinstance(one, Chunk):
            items += from_array(leaf.layout.value, one.column(("value",)))
            columns = True
        elif one.row.kind == "item":
            items.append(one.row.value)
        else:
            reasons.append(one.row.reason)
    return items, reasons, columns


def framed(number: int, payload: bytes) -> bytes:
    """Confluent's wire format."""
    return b"\0" + struct.pack(">I", number) + payload


def long(number: int) -> bytes:
    """A number of Avro."""
    zigzag, out = (number << 1) ^ (number >> 63), bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def text(word: str) -> bytes:
    """A text of Avro."""
    return long(len(word.encode())) + word.encode()


def order(shop: str, ts: int, cents: int, note: str | None = None) -> bytes:
    """An order by the schema :data:`ORDER`, byte by byte as the specification has it."""
    return text(shop) + text("nobody") + long(ts) + long(cents) + (long(0) if note is None else long(1) + text(note))


# ------------------------------------------------------------------------------------------------- sources


@pytest.mark.parametrize("count", [3, 1000])
def test_records_of_avro_are_rows(registry: FakeRegistry, count: int) -> None:
    """Few are read one by one, many together. A field that nobody needs is passed over."""
    number = registry.add("orders-value", ORDER)
    leaf = leaf_of(U[str, Order], None)
    sent = [Order(f"shop {n}", 10**n % 10**12, -n, None if n % 3 else "é" * n) for n in range(count)]
    messages: Any = [Message(f"k{n}".encode(), framed(number, order(o.shop, o.ts, o.cents, o.note))) for n, o in enumerate(sent)]
    items, reasons, columns = taken(leaf, reading(leaf, address(registry)).together(messages))
    assert (items, reasons, columns) == (sent, [], True)


@pytest.mark.parametrize("count", [3, 1000])
def test_what_cannot_be_decoded_is_a_reject(registry: FakeRegistry, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "UNKNOWN", 0.0)
    number = registry.add("orders-value", ORDER)
    other = registry.add("others-value", {"type": "record", "name": "Other", "fields": [{"name": "shop", "type": "long"}]})
    foreign = registry.add("foreign-value", "{}", "JSON")
    leaf = leaf_of(U[str, Order], None)
    good = order("a", 1, 2)
    bad = [
        (good, "a byte 0 and the id of a schema"),
        (b"\1" + framed(number, good)[1:], "a byte 0 and the id of a schema"),
        (framed(4711, good), "the registry has: it has none with the id 4711"),
        (framed(other, long(3)), f"in that with the id {other}, .shop is long, expected str"),
        (framed(foreign, b"{}"), "is of JSON"),
        (framed(number, good[:-1]), "EOFError"),
        (framed(number, good + b"\0"), "without 1 bytes behind it"),
        (framed(number, text("a")[:1] + b"\xff" + good[2:]), "UnicodeDecodeError"),
        (b"", "a byte 0 and the id of a schema"),
    ]
    messages: Any = [Message(b"k", framed(number, good)) for _ in range(count)]
    for at, (raw, _) in enumerate(bad):
        messages.insert(at * count // len(bad), Message(b"k", raw))
    messages.append(Message(b"k", None))
    items, reasons, _ = taken(leaf, reading(leaf, address(registry)).together(messages))
    assert items == [Order("a", 1, 2)] * count
    assert len(reasons) == len(bad) + 1
    for words in {reason for _, reason in bad} | {"value is missing"}:
        assert sum(words in reason for reason in reasons) == max(1, sum(one == words for _, one in bad)), words
    assert registry.asked.count("GET /schemas/ids/4711") == 1  # and not once for each record


def test_an_id_may_be_registered_later(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records are rejects until then, and no longer."""
    monkeypatch.setattr(schema_registry, "UNKNOWN", 0.0)
    monkeypatch.setattr(schema_registry, "AGAIN", 0.0)
    registry.add("orders-value", ORDER)
    leaf = leaf_of(U[str, Order], None)
    reader = reading(leaf, address(registry))
    messages: Any = [Message(b"k", framed(900, order("a", 1, 1)))]
    assert "none with the id 900" in taken(leaf, reader.together(messages))[1][0]
    registry.add("orders-value", ORDER, number=900)
    assert taken(leaf, reader.together(messages))[:2] == ([Order("a", 1, 1)], [])


def test_many_unknown_ids_are_waited_for_once(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that are none of the registry have any ids: a wait for each would be days."""
    monkeypatch.setattr(schema_registry, "UNKNOWN", 0.1)
    monkeypatch.setattr(schema_registry, "PAUSE", 0.01)
    registry.add("orders-value", ORDER)
    leaf = leaf_of(U[str, Order], None)
    messages: Any = [Message(b"k", framed(number, order("a", 1, 1))) for number in range(900, 920)]
    assert len(taken(leaf, reading(leaf, address(registry)).together(messages))[1]) == 20
    asked = [registry.asked.count(f"GET /schemas/ids/{number}") for number in range(900, 920)]
    assert asked[0] > 1
    assert asked[1:] == [1] * 19


def test_older_and_newer_records_are_read_together(registry: FakeRegistry) -> None:
    """A field that the writer lacks has the default, or the other name, that the latest schema gives it."""
    first = registry.add("orders-value", ORDER)
    fields = [one for one in ORDER["fields"] if one["name"] not in ("seller", "cents")]
    less = registry.add("orders-value", {**ORDER, "fields": fields})
    renamed = [{**one, "name": "store"} if one["name"] == "shop" else one for one in ORDER["fields"]]
    old = registry.add("orders-value", {**ORDER, "fields": renamed})
    latest = [{**one, "aliases": ["store"]} if one["name"] == "shop" else one for one in fields]
    latest.append({"name": "cents", "type": "long", "default": 7})
    registry.add("orders-value", {**ORDER, "fields": latest})
    leaf = leaf_of(U[str, Order], None)
    messages: Any = []
    for n in range(200):
        messages.append(Message(b"k", framed(first, order("a", n, n))))
        messages.append(Message(b"k", framed(less, text("b") + long(n) + long(0))))
        messages.append(Message(b"k", framed(old, order("c", n, n))))
    expected = [one for n in range(200) for one in (Order("a", n, n), Order("b", n, 7), Order("c", n, n))]
    reader = reading(leaf, address(registry))
    assert taken(leaf, reader.together(messages)) == (expected, [], True)
    assert taken(leaf, map(reader.one, messages)) == (expected, [], False)
    blocks = registered_rows._Blocks(leaf.layout, reader.parts["value"], None)
    decoded = blocks.decoded(messages)
    assert decoded is not None  # all three schemas by columns
    assert decoded.bad == []


def test_keys_have_schemas_too(registry: FakeRegistry) -> None:
    value, key = registry.add("orders-value", ORDER), registry.add("orders-key", '"string"')
    leaf = leaf_of(U[str, Order], kafka(value="avro", key="avro"))
    messages: Any = [Message(framed(key, text(f"k{n}")), framed(value, order("a", n, n))) for n in range(600)]
    reader = reading(leaf, address(registry, ""))
    (chunk,) = reader.together(messages)
    assert isinstance(chunk, Chunk)
    assert [reader.one(one).row.key for one in messages] == [f"k{n}" for n in range(600)]
    keys = reader.together([Message(b"k", framed(value, order("a", 1, 1)))])
    assert "id of a schema" in taken(leaf, keys)[1][0]


def test_all_kinds_of_fields(registry: FakeRegistry) -> None:
    """What a sink writes, a source reads: one by one, and in columns."""
    leaf = leaf_of(U[str, Payment], None, time=lambda one: one.at)
    write = registered_writer(kafka(value="avro"), leaf.layout, address(registry, ""), "out")
    assert write is not None
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=dt.UTC)
    sent = [
        Payment(at + dt.timedelta(microseconds=n), dt.date(2026, 1, 2), Decimal(f"-{n}.25"), n / 3, n % 2 == 0, b"\0\xff", ["a"]
        * n)
        for n in range(300)
    ]
    messages: Any = [Message(*write("k", one)) for one in sent]
    assert taken(leaf, reading(leaf, address(registry)).together(messages)) == (sent, [], True)
    assert sum(one.startswith("POST /subjects/orders-value/versions") for one in registry.asked) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "cents", "type": "string"}, ".cents is string, expected int"),
        ({"name": "cents", "type": ["null", "long"]}, ".cents is null or long, expected int"),
        ({"name": "price", "type": "long"}, ".cents is missing (it has shop, seller, ts, price, note), expected int"),
        ({"name": "cents", "type": {"type": "long", "logicalType": "timestamp-millis"}}, "timestamp-millis, expected int"),
        ({"name": "cents", "type": {"type": "array", "items": "long"}}, "array of long, expected int"),
    ],
)
def test_TT203_a_schema_that_does_not_fit(registry: FakeRegistry, change: Any, words: str) -> None:
    """A run that starts says so, with both sides."""
    fields = [change if one["name"] == "cents" else one for one in ORDER["fields"]]
    registry.add("orders-value", {**ORDER, "fields": fields})
    leaf = leaf_of(U[str, Order], None)
    with pytest.raises(RunError, match="TT203") as error:
        reading(leaf, address(registry))
    assert words in str(error.value)
    assert "version 1 of the subject 'orders-value'" in str(error.value)


def test_TT203_a_subject_of_another_format(registry: FakeRegistry) -> None:
    registry.add("orders-value", "{}", "JSON")
    with pytest.raises(RunError, match=r"is of JSON, expected AVRO"):
        reading(leaf_of(U[str, Order], None), address(registry))


def test_a_null_where_something_must_be_is_a_reject(registry: FakeRegistry) -> None:
    """Of a schema that comes later: its other records are read."""
    registry.add("orders-value", ORDER)
    fields = [{**one, "type": ["null", "int"]} if one["name"] == "cents" else one for one in ORDER["fields"]]
    later = registry.add("later-value", {**ORDER, "fields": fields})
    front = text("a") + text("n") + long(1)
    messages: Any = [Message(b"k", framed(later, front + long(1) + long(5) + long(0))) for _ in range(300)]
    messages.append(Message(b"k", framed(later, front + long(0) + long(0))))
    leaf = leaf_of(U[str, Order], None)
    items, reasons, _ = taken(leaf, reading(leaf, address(registry)).together(messages))
    assert items == [Order("a", 1, 5)] * 300
    assert reasons == [".cents is None, expected int"]


# -------------------------------------------------------------------------------------- Protocol Buffers, JSON


def proto() -> tuple[Any, Any]:
    """The description of a file with two messages, and the class of the second one's inner message."""
    file: Any = descriptor_pb2.FileDescriptorProto(name="orders.proto", package="acme", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    file.message_type.add(name="Other")
    outer = file.message_type.add(name="Outer")
    inner = outer.nested_type.add(name="Order")
    kinds = [("shop", 9), ("ts", 3), ("cents", 17), ("note", 9), ("made", 11), ("words", 9)]
    for at, (name, kind) in enumerate(kinds, 1):
        field = inner.field.add(name=name, number=at, type=kind, label=3 if name == "words" else 1)
        if name == "note":
            inner.oneof_decl.add(name="_note")
            field.proto3_optional, field.oneof_index = True, 0
        if name == "made":
            field.type_name = ".google.protobuf.Timestamp"
    pool: Any = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    cls: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("acme.Outer.Order"))
    return file, cls


@attrs.frozen
class Sold:
    shop: str
    ts: int
    cents: int
    note: str | None
    made: dt.datetime | None
    words: list[str]


def test_records_of_protobuf_are_rows(registry: FakeRegistry) -> None:
    """The message is named by numbers: the first message inside the second one."""
    file, cls = proto()
    number = registry.add("orders-value", "text", "PROTOBUF", serialized=file.SerializeToString())
    leaf = leaf_of(U[str, Sold], None)
    front = numbers_as_bytes((1, 0))
    made = [{"seconds": 5, "nanos": 7_000}, {"nanos": 7}, {"seconds": 10**15}]
    sent = [
        cls(shop="a", ts=1, cents=-5, note="", made=made[0], words=["x", "y"]),
        cls(),
        cls(made=made[1]),
        cls(made=made[2]),
    ]
    messages: Any = [Message(b"k", framed(number, front + one.SerializeToString())) for one in sent]
    messages += [Message(b"k", framed(number, raw)) for raw in (b"\0", b"\2\xff", front + b"\xff", b"", b"\6\6\6\6")]
    items, reasons, _ = taken(leaf, reading(leaf, address(registry, "value=protobuf")).together(messages))
    at = dt.datetime(1970, 1, 1, 0, 0, 5, 7, tzinfo=dt.UTC)
    assert items == [Sold("a", 1, -5, "", at, ["x", "y"]), Sold("", 0, 0, None, None, [])]
    assert len(reasons) == 7
    assert ".made is '0 s 7 ns'" in reasons[0]
    assert ".shop is missing (it has no field)" in reasons[2]  # the message Other


def message_file(*fields: tuple[str, int, int]) -> tuple[bytes, Any]:
    """The description of a file with one message, and the class of that. ``fields``: name, number and type."""
    file: Any = descriptor_pb2.FileDescriptorProto(name="sale.proto", syntax="proto3")
    message, kinds = file.message_type.add(name="Sale"), file.enum_type.add(name="Kind")
    for number, name in enumerate(("CASH", "CARD")):
        kinds.value.add(name=name, number=number)
    for name, number, kind in fields:
        field = message.field.add(name=name, number=number, type=kind, label=1)
        if kind == 14:
            field.type_name = ".Kind"
    pool: Any = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return file.SerializeToString(), message_factory.GetMessageClass(pool.FindMessageTypeByName("Sale"))


@attrs.frozen
class Sale:
    ts: int
    cents: int
    kind: int


def test_a_field_of_protobuf_that_had_another_name(registry: FakeRegistry) -> None:
    """Its number is the same, so it is the same field: it has not the default. A number of an enum is its default, no name."""
    old, cls = message_file(("ts", 1, 3), ("amount", 2, 3))
    number = registry.add("orders-value", "text", "PROTOBUF", serialized=old)
    new, _ = message_file(("ts", 1, 3), ("cents", 2, 3), ("kind", 3, 14))
    registry.add("orders-value", "text", "PROTOBUF", serialized=new)
    leaf = leaf_of(U[str, Sale], None)
    messages: Any = [Message(b"k", framed(number, b"\0" + cls(ts=1, amount=7).SerializeToString()))]
    items, reasons, _ = taken(leaf, reading(leaf, address(registry, "value=protobuf")).together(messages))
    assert (items, reasons) == ([Sale(1, 7, 0)], [])


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5), st.binary(max_size=3))
def test_numbers_of_messages(numbers: list[int], rest: bytes) -> None:
    raw = numbers_as_bytes(numbers)
    assert message_numbers(raw + rest) == (tuple(numbers), len(raw))


@given(st.binary(max_size=12))
def test_any_bytes_are_numbers_of_messages_or_not(raw: bytes) -> None:
    try:
        numbers, at = message_numbers(raw)
    except ValueError:
        return
    assert 0 < at <= len(raw)
    assert numbers


def test_records_with_a_schema_of_json(registry: FakeRegistry) -> None:
    leaf = leaf_of(U[str, Order], None)
    there = address(registry, "value=json_schema")
    write = registered_writer(None, leaf.layout, there, "out")
    assert write is not None
    sent = [Order("a", n, n, None if n % 2 else "é") for n in range(300)]
    messages: Any = [Message(*write("k", one)) for one in sent]
    messages.append(Message(b"k", messages[0].value()[:-1]))
    items, reasons, columns = taken(leaf, reading(leaf, there).together(messages))
    assert (items, columns, len(reasons)) == (sent, True, 1)


@pytest.mark.parametrize("raw", [b"[1, 2]", b"5", b'"ab"', b"null"])
def test_a_value_of_json_that_is_no_object(registry: FakeRegistry, raw: bytes) -> None:
    """A reject, also where fields come from headers."""
    number = registry.add("others-value", "{}", "JSON")
    leaf = leaf_of(U[str, Order], kafka(headers=["note"]))
    reader = reading(leaf, address(registry, "value=json_schema"))
    items, reasons, _ = taken(leaf, reader.together([Message(b"k", framed(number, raw))]))
    assert items == []
    assert "expected an object" in reasons[0]


# --------------------------------------------------------------------------------------------------- sinks


def test_a_sink_writes_with_the_schema_that_is_there(registry: FakeRegistry) -> None:
    """If it takes the same values. Fields of it that the record lacks have their defaults."""
    fields = [{"name": name, "type": kind} for name, kind in (("shop", "string"), ("ts", "long"), ("cents", "long"))]
    more = [{"name": "note", "type": ["null", "string"], "default": None}, {"name": "by", "type": "string", "default": "us"}]
    number = registry.add("orders-value", {**ORDER, "fields": [*fields, *more]})
    leaf = leaf_of(U[str, Order], None)
    write = registered_writer(None, leaf.layout, address(registry), "out")
    assert write is not None
    key, value, headers = write("k", Order("a", 1, 2))
    assert (key, headers) == (b"k", [])
    assert value == framed(number, text("a") + long(1) + long(2) + long(0) + text("us"))
    assert not any(one.startswith("POST") for one in registry.asked)


def test_a_sink_registers_what_is_new(registry: FakeRegistry) -> None:
    """Under the name that the record has there."""
    registry.add("orders-value", ORDER)
    leaf = leaf_of(U[str, Order], None)
    write = registered_writer(None, leaf.layout, address(registry), "out")
    assert write is not None
    value = write("k", Order("a", 1, 2))[1]
    newest = registry.subjects["orders-value"][-1]
    assert value is not None
    assert value[:5] == framed(newest.id, b"")
    assert (json.loads(newest.text)["name"], json.loads(newest.text)["namespace"]) == ("Order", "com.acme")


@attrs.frozen
class Count:
    count: int | None


@attrs.frozen
class Amount:
    amount: Annotated[Decimal, decimal(12, 2)]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Count(2**60 + 1), ["null", "double", "long"]),  # it would be a double, of another value
        (Amount(Decimal("1234567890.25")), {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}),
        (Amount(Decimal("0.25")), {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3}),
    ],
)
def test_a_schema_that_changes_values_is_not_used(registry: FakeRegistry, value: Any, kind: Any) -> None:
    """The sink registers its own."""
    name = type(value).__name__
    number = registry.add("orders-value", {"type": "record", "name": name, "fields": [{"name": name.lower(), "type": kind}]})
    leaf = leaf_of(U[str, type(value)], None, time=lambda one: 1)  # type: ignore[misc]
    write = registered_writer(None, leaf.layout, address(registry), "out")
    assert write is not None
    raw = write("k", value)[1]
    newest = registry.subjects["orders-value"][-1]
    assert raw is not None
    assert newest.id != number
    decoder = AvroDecoder(RegisteredSchema(newest.id, "AVRO", newest.text), schema_of(type(value)), None)
    assert from_plain(schema_of(type(value)), decoder.plain(raw[5:])) == value


@attrs.frozen
class Paid:
    by: Money | Order


@pytest.mark.parametrize("there", [True, False])
def test_members_of_a_union_have_the_namespace_of_the_registry(registry: FakeRegistry, there: bool) -> None:
    """Of the schema that is used, and of the one that is registered under the name that is there."""
    schema = {**json.loads(schema_text(schema_of(Paid), "avro")), "namespace": "com.acme"}
    registry.add("orders-value", schema if there else {**schema, "fields": []})
    leaf = leaf_of(U[str, Paid], None, time=lambda one: 1)
    write = registered_writer(None, leaf.layout, address(registry), "out")
    assert write is not None
    sent = [Paid(Money(5)), Paid(Order("a", 1, 2))]
    assert len(registry.subjects["orders-value"]) == 2 - there
    messages: Any = [Message(*write("k", one)) for one in sent]
    assert taken(leaf, reading(leaf, address(registry)).together(messages))[:2] == (sent, [])


def test_TT209_the_registry_refuses_a_schema(registry: FakeRegistry) -> None:
    registry.refuses = "Schema being registered is incompatible: READER_FIELD_MISSING_DEFAULT_VALUE"
    with pytest.raises(RunError, match=r"TT209 .*READER_FIELD_MISSING_DEFAULT_VALUE"):
        registered_writer(None, leaf_of(U[str, Order], None).layout, address(registry), "out")


def test_TT402_protobuf_has_messages(registry: FakeRegistry) -> None:
    with pytest.raises(UsageError, match=r"TT402 .*the keys are str, and protobuf has messages"):
        registered_writer(None, leaf_of(U[str, Order], None).layout, address(registry, "key=protobuf"), "out")
    with pytest.raises(UsageError, match=r"TT402 .*union of messages"):
        registered_writer(None, leaf_of(U[str, Odd], None).layout, address(registry, "value=protobuf"), "out")


@attrs.frozen
class Odd:
    ts: int
    either: Money | Bill


@attrs.frozen
class Wide:
    ts: int
    size: UInt64
    rate: float
    text: str | None
    raw: bytes
    at: dt.datetime
    ended: dt.datetime | None
    day: dt.date
    amount: Annotated[Decimal, decimal(12, 2)] | None
    hue: Hue
    money: Money
    maybe: Money | None
    many: list[Money]
    words: tuple[str, ...]
    ok: bool | None


@given(st.data())
def test_messages_of_a_sink_are_read_back(data: DataObject) -> None:
    """By the description that a registry makes of the text."""
    schema: Any = schema_of(Wide)
    sent = data.draw(st.lists(values(schema), min_size=1, max_size=3))
    encode, (file, _) = protobuf_encoder(schema), message_of(schema)
    registered = RegisteredSchema(1, "PROTOBUF", base64.b64encode(file.SerializeToString()).decode())
    decoder = ProtobufDecoder(registered, schema, None)
    assert decoder.problems == ()
    found = [from_plain(schema, decoder.plain(encode(one))) for one in sent]
    assert list(map(canonical(schema), found)) == list(map(canonical(schema), sent))


def test_a_sink_writes_messages(registry: FakeRegistry) -> None:
    """Their schema is registered as text."""
    write = registered_writer(None, leaf_of(U[str, Order], None).layout, address(registry, "value=protobuf"), "out")
    assert write is not None
    (entry,) = registry.subjects["orders-value"]
    assert entry.kind == "PROTOBUF"
    assert "message Order {" in entry.text
    assert write("k", Order("a", 1, 2))[1] == framed(entry.id, b"\0\x0a\x01a\x10\x01\x18\x02")


def test_TT402_a_sink_takes_no_header_out_of_a_schema(registry: FakeRegistry) -> None:
    format = kafka(headers=["note"])
    with pytest.raises(UsageError, match=r"TT402 .*headers"):
        registered_writer(format, leaf_of(U[str, Order], format).layout, address(registry), "out")


# ---------------------------------------------------------------------------------------------- the registry


def test_the_registry_may_be_named_elsewhere(registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the environment, or in the file of settings, with a password that no message has."""
    registry.login = "ann:swordfish"
    leaf, plain = leaf_of(U[str, Order], kafka(value="avro")), Address.of("kafka://broker:9092/orders")
    with pytest.raises(UsageError, match=r"TT402 .*and no registry"):
        reading(leaf, plain)
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry.url)
    with pytest.raises(RunError, match=r"TT208 .*Unauthorized"):
        reading(leaf, plain)
    monkeypatch.setenv("SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO", "ann:swordfish")
    reading(leaf, plain)
    monkeypatch.delenv("SCHEMA_REGISTRY_URL")
    monkeypatch.delenv("SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO")
    lines = ["security.protocol=PLAINTEXT", f"schema.registry.url={registry.url}"]
    config = tmp_path / "settings"
    config.write_text("\n".join([*lines, "schema.registry.basic.auth.user.info=ann:swordfish", "schema.registry.timeout=5"]))
    there = Address.of(f"kafka://broker:9092/orders?config={config}")
    assert "schema" not in " ".join(there.settings())
    reading(leaf, there)
    config.write_text("\n".join([*lines, "schema.registry.basic.auth.user.info=swordfish"]))
    with pytest.raises(UsageError, match="TT402") as error:
        reading(leaf, there)
    assert "swordfish" not in str(error.value)
    config.write_text("\n".join([*lines, "schema.registry.colour=red"]))
    with pytest.raises(UsageError, match=r"TT402 .*colour"):
        reading(leaf, there)


@pytest.mark.parametrize("url", ["http://ann:swordfish@host", "ftp://host", "host:8081", "http://a,ftp://b"])
def test_TT402_addresses_of_registries(url: str) -> None:
    with pytest.raises(UsageError, match="TT402") as error:
        Address.of(f"kafka://broker:9092/orders?value=avro&registry={url}")
    assert "swordfish" not in str(error.value)


def test_TT402_formats_of_addresses() -> None:
    with pytest.raises(UsageError, match=r"(?s)TT402 .*avro, protobuf, json_schema"):
        Address.of("kafka://broker:9092/orders?value=xml")
    with pytest.raises(UsageError, match="TT115"):
        kafka(value="xml")  # type: ignore[arg-type]


def test_TT208_a_registry_that_is_down(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start, and later, when an id comes that is not known yet. Ids that are known need no registry."""
    monkeypatch.setattr(topics, "PATIENCE", 0.2)
    monkeypatch.setattr(schema_registry, "PAUSE", 0.05)
    number, later = registry.add("orders-value", ORDER), registry.add("later-value", ORDER)
    leaf = leaf_of(U[str, Order], None)
    reader = reading(leaf, address(registry))
    known: Any = [Message(b"k", framed(number, order("a", 1, 1)))]
    assert taken(leaf, reader.together(known))[0] == [Order("a", 1, 1)]
    registry.stop()
    assert taken(leaf, reader.together(known))[0] == [Order("a", 1, 1)]
    new: Any = [*known, Message(b"k", framed(later, order("a", 2, 2)))]
    with pytest.raises(RunError, match=rf"TT208 .*the schema registry {registry.url}"):
        list(reader.together(new))
    with pytest.raises(RunError, match=rf"TT208 .*the schema registry {registry.url}"):
        reading(leaf, address(registry))
    registry.start()
    assert taken(leaf, reader.together(new))[0] == [Order("a", 1, 1), Order("a", 2, 2)]


def test_schemas_may_refer_to_others(registry: FakeRegistry) -> None:
    """By the names that they use."""
    money = {"type": "record", "name": "Money", "namespace": "com.acme", "fields": [{"name": "cents", "type": "long"}]}
    registry.add("money", money)
    whole = {"type": "record", "name": "Bill", "namespace": "com.acme", "fields": [{"name": "ts", "type": "long"}]}
    whole["fields"].append({"name": "money", "type": "com.acme.Money"})  # type: ignore[attr-defined]
    reference = {"name": "com.acme.Money", "subject": "money", "version": 1}
    number = registry.add("orders-value", whole, references=[reference])
    leaf = leaf_of(U[str, Bill], None)
    messages: Any = [Message(b"k", framed(number, long(n) + long(-n))) for n in range(300)]
    found = taken(leaf, reading(leaf, address(registry)).together(messages))
    assert found == ([Bill(n, Money(-n)) for n in range(300)], [], True)
    assert taken(leaf, map(reading(leaf, address(registry)).one, messages))[0] == found[0]


# ----------------------------------------------------------------------------------------------------- laws


class Memory:
    """A registry of one subject, in memory."""

    def __init__(self) -> None:
        self.text = ""

    def latest(self, subject: str) -> None:
        """There is none."""

    def register(self, subject: str, kind: str, text: str) -> int:
        """Keeps it."""
        self.text = text
        return 1


def has_endless(schema: Schema) -> bool:
    """Whether a list of items without bytes is inside."""
    match schema:
        case ListOf(UnitValue(), _):
            return True
        case ListOf(item, _) | Optional(item):
            return has_endless(item)
        case Record(_, fields):
            return any(has_endless(inner) for _, inner in fields)
        case _:
            return False


AVRO = schemas().filter(lambda schema: not isinstance(schema, Optional) and not has_endless(schema))


def coded(schema: Schema, some: Sequence[Any]) -> tuple[list[bytes], RegisteredSchema]:
    """Values as a sink writes them, without the id, and their schema."""
    memory: Any = Memory()
    encode = avro_encoder(memory, "subject", schema)
    return [encode(one)[5:] for one in some], RegisteredSchema(1, "AVRO", memory.text)  # type: ignore[index]


@given(st.data())
def test_values_of_all_types_come_back(data: DataObject) -> None:
    schema = data.draw(AVRO)
    sent = data.draw(st.lists(values(schema), min_size=1, max_size=4))
    payloads, registered = coded(schema, sent)
    decoder = AvroDecoder(registered, schema, registered)
    assert (decoder.problems, decoder.gaps) == ((), ())
    found = [from_plain(schema, decoder.plain(one)) for one in payloads]
    assert list(map(canonical(schema), found)) == list(map(canonical(schema), sent))
    columns = ColumnDecoder.of(decoder.type, [schema], None)
    if columns is not None:
        decoded = columns.decode(payloads, 0)
        assert decoded is not None
        assert decoded.bad == []
        (column,) = decoded.columns
        assert list(map(canonical(schema), from_array(schema, column))) == list(map(canonical(schema), sent))


@given(st.data())
def test_a_byte_that_changes_makes_a_reject_or_another_record(data: DataObject) -> None:
    """Never an exception. What columns hold is what the record by itself is."""
    schema = data.draw(AVRO)
    sent = data.draw(st.lists(values(schema), min_size=1, max_size=4))
    payloads, registered = coded(schema, sent)
    at = data.draw(st.integers(0, len(payloads) - 1))
    broken = bytearray(payloads[at])
    change = data.draw(st.sampled_from(("byte", "cut", "more")))
    if change == "byte" and broken:
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    elif change == "cut":
        del broken[data.draw(st.integers(0, len(broken))) :]
    else:
        broken += data.draw(st.binary(min_size=1, max_size=3))
    payloads[at] = bytes(broken)
    decoder = AvroDecoder(registered, schema, None)
    alone: list[Any] = []
    for one in payloads:
        try:
            alone.append(canonical(schema)(from_plain(schema, decoder.plain(one))))
        except Mismatch:
            alone.append(None)
    columns = ColumnDecoder.of(decoder.type, [schema], None)
    decoded = None if columns is None else columns.decode(payloads, 0)
    if decoded is None:
        return
    good = [n for n in range(len(payloads)) if n not in decoded.bad]
    assert at in decoded.bad or len(good) == len(payloads)
    (column,) = decoded.columns
    for n, row in zip(good, range(len(column)), strict=True):
        if alone[n] is not None:
            assert canonical(schema)(from_array(schema, column.slice(row, 1))[0]) == alone[n]


@given(st.data())
def test_a_byte_of_a_message_that_changes(data: DataObject) -> None:
    """The same with the id in front, of many records: the reader gives a row for each, in order except for rejects."""
    seed = data.draw(st.integers(0, 2**32))
    chance = random.Random(seed)
    registered = RegisteredSchema(1, "AVRO", json.dumps(ORDER))
    decoder = AvroDecoder(registered, schema_of(Order), registered)
    columns = ColumnDecoder.of(decoder.type, [], decoder.matches)
    assert columns is not None
    raws = [bytearray(order("shop", chance.randrange(2**40), n, chance.choice((None, "x", "é")))) for n in range(40)]
    for one in chance.sample(raws, 10):
        one[chance.randrange(len(one))] = chance.randrange(256)
    decoded = columns.decode(list(map(bytes, raws)), 0)
    if decoded is None:
        return
    rows = [at for at in range(len(raws)) if at not in decoded.bad]
    got = zip(*[column.to_pylist() for column in decoded.columns], strict=True)
    for at, row in zip(rows, got, strict=True):
        plain = decoder.plain(bytes(raws[at]))
        assert row == tuple(plain[name] for name in ("shop", "ts", "cents", "note"))


def test_shapes_that_have_no_columns() -> None:
    """They are read by fastavro."""
    for kind in ({"type": "map", "values": "long"}, ["string", "long"], {"type": "array", "items": "int"}):
        fields = [{"name": "ts", "type": "long"}, {"name": "more", "type": kind}]
        registered = RegisteredSchema(1, "AVRO", json.dumps({"type": "record", "name": "R", "fields": fields}))
        assert ColumnDecoder.of(avro_type(registered), [], []) is None


def test_a_list_of_nothing_is_no_bomb() -> None:
    """A few bytes could stand for any number of nulls."""
    registered = RegisteredSchema(1, "AVRO", json.dumps({"type": "array", "items": "null"}))
    assert AvroDecoder(registered, ListOf(UnitValue(), False), None).problems == ("an array has items of no bytes",)
    with pytest.raises(UsageError, match=r"TT402 .*list of Unit"):
        coded(ListOf(UnitValue(), False), [])


def test_the_names_of_types() -> None:
    """As messages show them."""
    schema = {"type": "record", "name": "a.R", "fields": [{"name": "next", "type": ["null", "R"]}]}
    actual = avro_type(RegisteredSchema(1, "AVRO", json.dumps(schema)))
    assert str(actual) == "record a.R"
    assert str(actual.fields[0].type) == "null or record a.R"
