"""Fields with other names than their columns: what a sink writes a source reads, whatever the names are."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracetypes
from tracetypes import (
    CheckFailed,
    DataError,
    Dataflow,
    RunError,
    U,
    Unit,
    UsageError,
    column,
    csv,
    every,
    json_lines,
    kafka,
    parquet,
)
from tracetypes import stdlib as ts
from tracetypes.check import check
from tracetypes.compiler.columns.arrow import array, from_array
from tracetypes.compiler.columns.batches import Batch, rows
from tracetypes.compiler.columns.json_text import json_text, json_texts
from tracetypes.compiler.connectors.arrivals import Part
from tracetypes.compiler.connectors.iterables import Columns, columns_reader
from tracetypes.compiler.connectors.kafka_records import RecordReader
from tracetypes.compiler.connectors.parquet_row_groups import tables
from tracetypes.compiler.connectors.sink_files import VisibleColumns, open_sink_file
from tracetypes.compiler.connectors.source_rows import row_taker, taker
from tracetypes.compiler.connectors.text_reader import SplitNotes, TextReader
from tracetypes.compiler.plan.plan import FromSource, SourceLink, links
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.tracing.tracer import trace_function
from tracetypes.formats import Kafka
from tracetypes.nodes import Sink
from tracetypes.parsing import line_of_dict, record_parser, record_writer, rows_of_text
from tracetypes.plain_data import to_plain
from tracetypes.records import UNIT
from tracetypes.schemas import schema_of
from tracetypes.sources import reader

ODD = ["@timestamp", "from", "user-id", "a.b", "a", "b", "_id", " x", "x ", "\ufeffx", "a,b", 'a"b', "a\nb", "key", "value"]
ODD += ["__end", "_file", "_0", "%d", "%", "ключ", "`", "\\", "{", "null", "k=v", "N", "n", "inner", "many", "\u2028", "\0"]
NAMES = st.sampled_from(ODD) | st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(
    lambda name: not name.startswith("tracetypes-")
)
TEXTS = st.sampled_from(["", "x", "a,b", '"', "\n", " ", "ü"])
TICKS = every(seconds=10, time=lambda r: r.ts)


@st.composite
def classes(draw: st.DrawFn, nested: bool) -> tuple[Any, Any]:
    """A record class with random columns, and a strategy of its records."""
    names = iter(draw(st.lists(NAMES, min_size=8, max_size=8, unique=True)))

    def named(kind: Any) -> Any:
        return Annotated[kind, column(next(names))] if draw(st.booleans()) else kind

    def made(*fields: tuple[str, Any]) -> Any:
        """Each field has the name of the next one, in some classes and where two columns would have one name."""
        own = [name for name, _ in fields]
        given = [kind.__metadata__[0].name if hasattr(kind, "__metadata__") else name for name, kind in fields]
        if len(set(given)) < len(given) or draw(st.integers(0, 3)) == 0:
            bare = [getattr(kind, "__origin__", kind) if hasattr(kind, "__metadata__") else kind for _, kind in fields]
            others = zip(own, bare, [*own[1:], own[0]], strict=True)
            fields = tuple((name, Annotated[kind, column(other)]) for name, kind, other in others)
        return make_dataclass("One", fields, frozen=True)

    inner: Any = made(("a", named(str)), ("b", named(str)))
    flat = [("ts", named(int)), ("_id", named(str)), ("n", named(str | None))]
    if not nested:
        cls = made(*flat)
        return cls, st.builds(cls, st.integers(0, 99), TEXTS, st.none() | TEXTS)
    cls = made(*flat, ("inner", named(inner)), ("many", named(list[inner])), ("o", named(inner | None)))
    part = st.builds(inner, TEXTS, TEXTS)
    values = st.builds(cls, st.integers(0, 99), TEXTS, st.none() | TEXTS, part, st.lists(part, max_size=2), st.none() | part)
    return cls, values


@st.composite
def records(draw: st.DrawFn, nested: bool) -> tuple[Any, list[Any]]:
    cls, values = draw(classes(nested))
    return cls, draw(st.lists(values, min_size=1, max_size=3))


def leaf_of(cls: Any, format: Any) -> FromSource:
    flow = Dataflow("names")
    flow.sink("out", flow.source("rows", U[Unit, cls], markers=TICKS, format=format))
    (link,) = links(plan(check(flow)).stages[0].region)
    assert isinstance(link, SourceLink)
    return link.leaf


def found(leaf: FromSource, taken: Any) -> list[Any]:
    """The values of rows, as columns or one by one."""
    values: list[Any] = []
    for one in taken:
        if isinstance(one, Chunk):
            values += from_array(leaf.layout.value, one.column(("value",)))
        else:
            assert one.row.kind == "item", (one.row.reason, one.show())
            values.append(one.row.value)
    return values


def written(leaf: FromSource, values: list[Any], format: Any, path: Path) -> None:
    """As a sink writes them."""
    batch = Batch([UNIT] * len(values), values, [0] * len(values), [0] * len(values))
    sink = Sink(id=0, where=leaf.source.where, inputs=(0,), name="out", marker=None, position=None, format=None)
    file = open_sink_file(format, str(path))
    file.write(VisibleColumns(leaf.layout, sink).of(rows(leaf.layout, batch)))
    file.close()


@given(records(nested=True))
def test_parquet_is_read_as_it_was_written(case: tuple[Any, list[Any]]) -> None:
    cls, values = case
    leaf = leaf_of(cls, parquet())
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "one.parquet")
        written(leaf, values, parquet(), path)
        read = reader(leaf.source).read
        for take in (taker(leaf, read), row_taker(leaf, read)):
            assert found(leaf, (one for table in tables(leaf, str(path)) for one in take(table))) == values
        assert tracetypes.read(path, cls) == values
        table = pa.Table.from_batches([pa.parquet.ParquetFile(path).read().combine_chunks().to_batches()[0]])
        part = Part(Columns(table), table.num_rows, table.nbytes)
        assert found(leaf, columns_reader(leaf, None)([part])) == values


@given(records(nested=True), st.booleans())
def test_json_is_read_as_it_was_written(case: tuple[Any, list[Any]], many: bool) -> None:
    """Lines of files, records of topics, dicts of the program, and rows of side outputs."""
    cls, values = case
    leaf = leaf_of(cls, json_lines())
    values = values * 300 if many else values
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "one.jsonl")
        written(leaf, values, json_lines(), path)
        text = path.read_bytes()
    assert found(leaf, TextReader(leaf, json_lines(), None, reader(leaf.source).read).of_text(text, 0, SplitNotes())) == values
    assert [value for _, value in rows_of_text(json_lines(), leaf.layout, text)] == values  # type: ignore[misc]
    schema = leaf.layout.value
    assert json_texts(schema, array(schema, values)) == [json_text(to_plain(schema, value)) for value in values]
    lines = [line_of_dict(leaf.layout, to_plain(schema, value)) for value in values]
    assert [json.loads(line or "") for line in lines] == [to_plain(schema, value) for value in values]


@given(records(nested=False))
def test_csv_is_read_as_it_was_written(case: tuple[Any, list[Any]]) -> None:
    cls, values = case
    leaf = leaf_of(cls, csv())
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "one.csv")
        written(leaf, values, csv(), path)
        lines = TextReader(leaf, csv(), None, reader(leaf.source).read)
        assert found(leaf, lines.one_by_one(str(path))) == values
        assert tracetypes.read(path, cls) == values


class Message:
    """A record of Kafka."""

    def __init__(self, key: bytes | None, value: bytes | None, headers: Any = ()) -> None:
        self._parts = key, value, headers

    def key(self) -> bytes | None:
        return self._parts[0]

    def value(self) -> bytes | None:
        return self._parts[1]

    def headers(self) -> Any:
        return self._parts[2]


@given(records(nested=True), st.booleans())
def test_records_of_topics_are_read_as_they_were_sent(case: tuple[Any, list[Any]], with_header: bool) -> None:
    cls, values = case
    schema: Any = schema_of(cls)
    format = kafka(headers=[schema.names[1]] if with_header else [])
    leaf = leaf_of(cls, format)
    write, parse = record_writer(format, leaf.layout), record_parser(format, leaf.layout)
    sent = [write(UNIT, value) for value in values]
    assert [parse(*record)[1] for record in sent] == values
    reading = RecordReader(leaf, None, reject_text=repr)
    messages: Any = [Message(*record) for record in sent]
    assert found(leaf, reading.together(messages)) == values


def _doubled(size: int) -> int:
    return size * 2


@attrs.frozen
class Private:
    _id: str
    ts: int = attrs.field(alias="seconds")
    _size: int = attrs.field(converter=_doubled, validator=attrs.validators.ge(0))
    from_: Annotated[str | None, column("from")] = None


class Point(NamedTuple):
    x: Annotated[int, column("_x")]
    ts: int


T = TypeVar("T")


@dataclass(frozen=True)
class Box(Generic[T]):
    inner: T
    ts: int


def outcome(cls: Any, lines: Any, then: Sequence[Any] = ()) -> tuple[list[Any], Any]:
    flow = Dataflow("names")
    stream: Any = flow.source("rows", U[Unit, cls], markers=TICKS)
    for op in then:
        stream = stream.through(op)
    flow.sink("out", stream)
    out: list[Any] = []
    return out, tracetypes.run(flow, {"rows": lines}, {"out": out}, backend="local")


def test_a_private_field_has_a_column_of_its_own_name() -> None:
    """The constructor takes it by another one, and runs once."""
    rows, result = outcome(
        Private, [{"_id": "x", "ts": 1, "_size": 2, "from": "here"}, {"_id": "y", "ts": 2, "_size": -1}]
    )
    assert rows == [Private("x", 1, 2, "here")]
    assert [row.reason.partition("expected ")[2] for row in result.rejected_rows] == [
        "Private (ValueError: '_size' must be >= 0: -2)"
    ]
    changed, _ = outcome(Private, rows, [ts.map_values(_renamed)])
    assert changed == [Private("x!", 1, 4)]


def _renamed(row: Private) -> Private:
    return attrs.evolve(row, id=row._id + "!", from_=None)


def test_an_evolved_record_with_private_fields_is_traced() -> None:
    @attrs.frozen
    class Plain:
        _id: str
        ts: int

    assert trace_function(lambda row: attrs.evolve(row, id="x"), schema_of(Plain))


def test_named_tuples_and_generic_records_have_columns() -> None:
    assert outcome(Point, [{"_x": 1, "ts": 1}])[0] == [Point(1, 1)]
    named: Any = Box[Annotated[str, column("@inner")]]
    assert outcome(named, [{"@inner": "x", "ts": 1}])[0] == [Box("x", 1)]


def test_headers_and_messages_name_the_column() -> None:
    with pytest.raises(UsageError, match=r"TT402 kafka\(headers=...\) names 'from_', which is no column of Private"):
        record_parser(Kafka(headers=("from_",)), leaf_of(Private, json_lines()).layout)
    _, result = outcome(Point, [{"x": 1, "ts": 1}, {"_x": "1", "ts": 1}])
    assert [row.reason for row in result.rejected_rows] == ["._x is missing, expected int", "._x is '1', expected int"]


@pytest.mark.parametrize("data", ["x,ts\n1,1\n", pa.table({"x": [1], "ts": [1]})])
def test_TT203_names_the_column(data: Any, tmp_path: Path) -> None:
    if isinstance(data, str):
        (tmp_path / "one.csv").write_text(data)
        data = str(tmp_path / "one.csv")
    with pytest.raises(RunError, match=r"TT203.* has no column '_x'"):
        outcome(Point, data)


@pytest.mark.parametrize("name", ["", "\ud800", "tracetypes-end", 5])
def test_TT115_a_name_that_no_column_has(name: Any) -> None:
    with pytest.raises(UsageError, match="TT115 column was given the name"):
        column(name)


TWICE: Any = make_dataclass("Twice", [("a", int), ("b", Annotated[int, column("a")])], frozen=True)
SEVERAL: Any = make_dataclass("Several", [("a", Annotated[int, column("b"), column("c")])], frozen=True)
INSIDE: Any = make_dataclass("Inside", [("a", list[Annotated[int, column("b")]])], frozen=True)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (TWICE, "the fields 'a' and 'b' both have the column 'a'"),
        (SEVERAL, "it has several columns"),
        (INSIDE, "is said of something that is no field"),
        (Annotated[int, column("b")], "is said of something that is no field"),
    ],
)
def test_TT106_columns_that_cannot_be(kind: Any, why: str) -> None:
    with pytest.raises(DataError, match=why) as caught:
        schema_of(kind)
    assert caught.value.code == "TT106"


def test_TT119_the_column_of_markers_collides_with_a_column() -> None:
    flow = Dataflow("names")
    flow.sink("out", flow.source("rows", U[Unit, Point], markers=TICKS), marker="_x")
    with pytest.raises(CheckFailed, match="found:    two columns named '_x'"):
        check(flow)
    other = Dataflow("names")
    other.sink("out", other.source("rows", U[Unit, Point], markers=TICKS), marker="x")
    check(other)


def test_explain_shows_the_columns() -> None:
    flow = Dataflow("names")
    flow.sink("out", flow.source("rows", U[Unit, Private], markers=TICKS))
    assert tracetypes.explain(flow, backend="local").count("columns   'from' for from_") == 2


def test_a_database_is_asked_for_columns(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "points.db")) as connection, connection:
        connection.execute("CREATE TABLE points (id TEXT, _x INTEGER, ts INTEGER)")
        connection.execute("INSERT INTO points VALUES ('a', 1, 2)")
    table = ts.Sqlite(path=str(tmp_path / "points.db"), table="points", key="id", row=Point)
    with closing(table.connect()) as connection:
        (row,) = table.ask(connection, ["a"])
    assert table.record(row[1:]) == Point(1, 2)


SWAPPED: Any = make_dataclass("Swapped", [("a", Annotated[str, column("b")]), ("b", Annotated[str, column("a")])], frozen=True)


@pytest.mark.parametrize("inner", [{"a": "1", "b": "2"}, {"b": "2", "a": "1"}])
def test_a_struct_whose_fields_have_each_others_names(inner: dict[str, str]) -> None:
    """Its type is that of the record, by chance."""
    data = pa.table({"inner": [inner], "ts": [1]})
    assert outcome(Box[SWAPPED], data)[0] == [Box(SWAPPED(a="2", b="1"), 1)]
