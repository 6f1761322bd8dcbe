"""``tracetypes schema``: what other systems are told of a record."""

from __future__ import annotations

import datetime as dt
import enum
import json
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import schemas, values
from tracetypes import UInt64, Unit, UsageError, column, decimal
from tracetypes.cli import main
from tracetypes.compiler.connectors.proposals import Maybe, ProposedList, ProposedRecord, Refused
from tracetypes.compiler.connectors.sampled_rows import sample_of
from tracetypes.foreign_schemas import schema_text
from tracetypes.plain_data import to_plain
from tracetypes.records import Optional, Record
from tracetypes.schemas import schema_of

T = TypeVar("T")


class State(enum.Enum):
    OPEN = "open"
    PAID = "paid"


@attrs.frozen
class Line:
    article: str
    count: int


@attrs.frozen
class Order:
    _id: str
    at: dt.datetime
    day: dt.date | None
    total: Annotated[Decimal, decimal(9, 2)]
    state: State
    kind: Literal[1, 2]
    weight: float
    number: UInt64
    paid: bool
    raw: bytes
    lines: list[Line]
    first: Line | None
    sender: Annotated[str | None, column("from")]


ORDER = """
from tests.test_foreign_schemas import Order
TOTAL = 3
"""


def record(annotation: Any) -> Record:
    schema = schema_of(annotation)
    assert isinstance(schema, Record)
    return schema


def test_Avro() -> None:
    line = {
        "type": "record",
        "name": "Line",
        "fields": [{"name": "article", "type": "string"}, {"name": "count", "type": "long"}],
    }
    assert json.loads(schema_text(record(Order), "avro")) == {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "_id", "type": "string"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
            {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "state", "type": "string"},
            {"name": "kind", "type": "long"},
            {"name": "weight", "type": "double"},
            {"name": "number", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0}},
            {"name": "paid", "type": "boolean"},
            {"name": "raw", "type": "bytes"},
            {"name": "lines", "type": {"type": "array", "items": line}},
            {"name": "first", "type": ["null", "Line"], "default": None},
            {"name": "from", "type": ["null", "string"], "default": None},
        ],
    }


def test_Protocol_Buffers() -> None:
    assert schema_text(record(Order), "protobuf") == (
        'syntax = "proto3";\n\nimport "google/protobuf/timestamp.proto";\n\n'
        "message Order {\n"
        "  string _id = 1;\n"
        "  google.protobuf.Timestamp at = 2;\n"
        "  optional string day = 3;  // ISO 8601\n"
        "  string total = 4;  // digits, as text\n"
        "  string state = 5;\n"
        "  int64 kind = 6;\n"
        "  double weight = 7;\n"
        "  uint64 number = 8;\n"
        "  bool paid = 9;\n"
        "  bytes raw = 10;\n"
        "  repeated Line lines = 11;\n"
        "  optional Line first = 12;\n"
        "  optional string from = 13;\n"
        "}\n\n"
        "message Line {\n  string article = 1;\n  int64 count = 2;\n}"
    )


def test_JSON_Schema() -> None:
    schema = json.loads(schema_text(record(Order), "json"))
    assert schema["required"] == [n for n in schema["properties"] if n not in ("day", "first", "from")]
    assert schema["properties"]["state"] == {"enum": ["open", "paid"]}
    assert schema["properties"]["kind"] == {"enum": [1, 2]}
    assert schema["properties"]["from"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert schema["properties"]["at"] == {"type": "string", "format": "date-time"}
    assert schema["properties"]["lines"]["items"]["title"] == "Line"


def test_Spark() -> None:
    line = "STRUCT<article: STRING NOT NULL, count: BIGINT NOT NULL>"
    assert schema_text(record(Order), "spark") == (
        "_id STRING NOT NULL,\nat TIMESTAMP NOT NULL,\nday DATE,\ntotal DECIMAL(9,2) NOT NULL,\nstate STRING NOT NULL,\n"
        "kind BIGINT NOT NULL,\nweight DOUBLE NOT NULL,\nnumber DECIMAL(20,0) NOT NULL,\npaid BOOLEAN NOT NULL,\n"
        f"raw BINARY NOT NULL,\nlines ARRAY<{line}> NOT NULL,\nfirst {line},\nfrom STRING"
    )


@attrs.frozen
class Odd:
    at: Annotated[str, column("@timestamp")]


@attrs.frozen
class Lists:
    some: list[int] | None


@attrs.frozen
class Optionals:
    some: list[int | None]


@attrs.frozen
class Empty:
    some: Unit


@attrs.frozen
class Box(Generic[T]):
    some: T


@attrs.frozen
class Boxes:
    one: Box[int]
    other: Box[str]
    again: Box[int]


@pytest.mark.parametrize(
    ("annotation", "kind", "said"),
    [
        (Odd, "avro", "Odd.@timestamp: Avro has no name such as '@timestamp'"),
        (Odd, "protobuf", "Odd.@timestamp: Protocol Buffers has no name such as '@timestamp'"),
        (Boxes, "avro", "Boxes.other: Avro has no second type with the name Box"),
        (Boxes, "protobuf", "Boxes.other: Protocol Buffers has no second type with the name Box"),
        (Lists, "protobuf", "Lists.some: Protocol Buffers has no list that may be missing"),
        (Optionals, "protobuf", "Optionals.some: Protocol Buffers has no list of optional values, or of lists"),
        (Empty, "protobuf", "Empty.some: Protocol Buffers has no Unit"),
    ],
)
def test_TT402_what_another_system_does_not_have(annotation: Any, kind: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        schema_text(record(annotation), kind)
    assert (caught.value.code, caught.value.message) == ("TT402", said)


def record_of(kinds: list[Any]) -> Record:
    """A record with fields of these kinds."""
    names = [f"f{at}" for at in range(len(kinds))]
    return Record(attrs.make_class("Drawn", names, frozen=True), tuple(zip(names, kinds, strict=True)), tuple(names))


records = st.lists(schemas(), min_size=1, max_size=4).map(record_of)


@given(records)
def test_each_record_has_a_schema_or_an_error_that_says_why_not(schema: Record) -> None:
    assert json.loads(schema_text(schema, "json"))["title"] == "Drawn"
    assert schema_text(schema, "spark").startswith("f0 ")
    for kind in ("avro", "protobuf"):
        with suppress(UsageError):
            assert "Drawn" in schema_text(schema, kind)


@given(st.data())
def test_what_is_written_as_JSON_is_valid_by_its_JSON_Schema(data: st.DataObject) -> None:
    rules = pytest.importorskip("jsonschema_rs")
    schema = data.draw(records)
    rule = rules.validator_for(json.loads(schema_text(schema, "json")))
    for value in data.draw(st.lists(values(schema), max_size=3)):
        plain = json.loads(json.dumps(to_plain(schema, value)))
        assert rule.is_valid(plain), (plain, [one.message for one in rule.iter_errors(plain)])
        needed = [name for name, inner in schema.columns if not isinstance(inner, Optional)]
        assert not rule.is_valid({name: one for name, one in plain.items() if name not in needed[:1]}) or not needed


def types_in(proposal: Any) -> Any:
    """The types of a proposal, as Avro tells them apart."""
    match proposal:
        case Maybe(item):
            return ("maybe", types_in(item))
        case ProposedList(item):
            return ("list", types_in(item))
        case ProposedRecord(fields):
            return [(one.column, types_in(one.kind)) for one in fields]
        case Refused(what):
            return ("refused", what)
        case _:
            return type(proposal).__name__


def test_the_record_of_the_schema_of_a_record_has_its_types(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(schema_text(record(Order), "avro"))
    types = dict(types_in(sample_of(str(tmp_path / "order.avsc"), 0).record))
    line = [("article", "String"), ("count", "Integer")]
    assert (types["lines"], types["first"]) == (("list", line), ("maybe", line))
    plain = {name: one for name, one in record(Order).columns if name not in ("lines", "first", "state", "kind", "number")}
    for name, one in plain.items():
        kind = type(one.item).__name__ if isinstance(one, Optional) else type(one).__name__
        assert types[name] == (("maybe", kind) if isinstance(one, Optional) else kind)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("orders_of_test.py").write_text(ORDER)
    assert main(["schema", "orders_of_test.py:Order", "--as", "spark"]) == 0
    assert capsys.readouterr().out.startswith("_id STRING NOT NULL,\n")
    for target, said in (("nothing", "there is no nothing"), ("TOTAL", "TOTAL is no record"), ("", "no record is named")):
        assert main(["schema", f"orders_of_test.py:{target}"]) in (1, 2)
        assert said in capsys.readouterr().err
