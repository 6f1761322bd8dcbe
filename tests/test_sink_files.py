"""Rows that were written to files are read again as they were, by our own readers and by other people's."""

from __future__ import annotations

import datetime as dt
import math
import tempfile
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tests.strategies import SCALARS, key_schemas, keys, schemas, values
from tracetypes.canonical import canonical
from tracetypes.compiler.columns.arrow import array, from_array
from tracetypes.compiler.columns.batches import Batch, rows, rows_of_columns
from tracetypes.compiler.connectors.sink_files import VisibleColumns, open_sink_file
from tracetypes.compiler.runtime.messages import Rows
from tracetypes.errors import Location
from tracetypes.formats import Csv, Format, JsonLines, Layout, Parquet
from tracetypes.nodes import Sink
from tracetypes.parsing import text_parser
from tracetypes.records import UNIT, Boolean, Float, Record, Schema, String, Unit, UnitValue
from tracetypes.schemas import schema_of


def sink(marker: str | None = None, position: str | None = None) -> Sink:
    return Sink(id=0, where=Location("here.py", 1), inputs=(), name="out", marker=marker, position=position)


def written(path: Path, format: Format, layout: Layout, to: Sink, *batches: Batch) -> Path:
    shown = VisibleColumns(layout, to)
    file = open_sink_file(format, str(path))
    for batch in batches:
        file.write(shown.of(rows(layout, batch)))
    file.close()
    return path


def batch_of(pairs: list[tuple[Any, Any]]) -> Batch:
    return Batch([k for k, _ in pairs], [v for _, v in pairs], [1_000_000] * len(pairs), list(range(len(pairs))))


def as_known(layout: Layout, pairs: list[tuple[Any, Any]]) -> list[Any]:
    key, value = canonical(layout.key), canonical(layout.value)
    return [(key(k), value(v)) for k, v in pairs]


@given(st.data())
def test_json_lines_are_read_again(data: DataObject) -> None:
    layout = Layout(data.draw(key_schemas() | st.just(UnitValue())), data.draw(schemas()))
    pairs = data.draw(st.lists(st.tuples(keys(layout.key), values(layout.value)), min_size=1, max_size=4))
    with tempfile.TemporaryDirectory() as scratch:
        path = written(Path(scratch, "rows"), JsonLines(), layout, sink(), batch_of(pairs), batch_of(pairs[:1]))
        parse = text_parser(JsonLines(), layout, None)
        found = [parse(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    assert as_known(layout, found) == as_known(layout, [*pairs, pairs[0]])


FLAT = [schema for schema in SCALARS if not isinstance(schema, UnitValue)]


@given(st.data(), st.sampled_from(",;\t|"))
def test_lines_of_csv_are_read_again(data: DataObject, separator: str) -> None:
    """All but text that spans lines, which our reader takes as rows."""
    schema: Schema = data.draw(st.sampled_from(FLAT))
    layout = Layout(String(), schema)
    pairs = data.draw(st.lists(st.tuples(keys(String()), values(schema)), min_size=1, max_size=4))
    assume(all("\n" not in str(cell) and "\r" not in str(cell) and "\0" not in str(cell) for p in pairs for cell in p))
    format = Csv(separator)
    with tempfile.TemporaryDirectory() as scratch:
        path = written(Path(scratch, "rows"), format, layout, sink(), batch_of(pairs), batch_of(pairs[:1]))
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    assert lines[0] == f"key{separator}value"
    parse = text_parser(format, layout, ["key", "value"])
    assert as_known(layout, [parse(line) for line in lines[1:]]) == as_known(layout, [*pairs, pairs[0]])


@given(st.data())
def test_parquet_is_read_again(data: DataObject) -> None:
    layout = Layout(UnitValue(), data.draw(schemas()))
    some = data.draw(st.lists(values(layout.value), min_size=1, max_size=4))
    pairs = [(UNIT, value) for value in some]
    with tempfile.TemporaryDirectory() as scratch:
        path = written(Path(scratch, "rows"), Parquet(), layout, sink(), batch_of(pairs))
        table = pq.read_table(path)
    assert table.num_rows == len(pairs)
    assert table.schema.names == [name for name, _ in layout.columns]
    if not layout.opened and not has_unit(layout.value):
        found = from_array(layout.value, table.column("value").combine_chunks())
        assert as_known(layout, [(UNIT, value) for value in found]) == as_known(layout, pairs)


def has_unit(schema: Any) -> bool:
    if isinstance(schema, UnitValue):
        return True
    inner = [field for _, field in schema.fields] if isinstance(schema, Record) else []
    inner += [getattr(schema, name) for name in ("item",) if hasattr(schema, name)]
    inner += list(getattr(schema, "members", ()))
    return any(map(has_unit, inner))


@attrs.frozen
class Odd:
    """A row with what formats disagree about."""

    name: str
    x: float
    flag: bool
    at: dt.datetime
    nothing: Unit
    maybe: int | None


ODD = Layout(UnitValue(), schema_of(Odd), ("at marker", "place"))
INSTANT = dt.datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=dt.UTC)


def odd() -> Batch:
    some = [Odd('say "a,b"', float("nan"), True, INSTANT, UNIT, None), Odd("", 1e300, False, INSTANT, UNIT, 7)]
    return Batch([UNIT, UNIT], some, [2_000_000, 2_000_000], [0, 1])


@pytest.mark.parametrize(
    ("format", "text"),
    [
        (
            Csv(),
            "name,x,flag,at,nothing,maybe,at marker,place\n"
            '"say ""a,b""",NaN,true,2026-01-02T03:04:05.678900Z,,,1970-01-01T00:00:02.000000Z,0\n'
            '"",1e+300,false,2026-01-02T03:04:05.678900Z,,7,1970-01-01T00:00:02.000000Z,1\n',
        ),
        (
            JsonLines(),
            '{"name":"say \\"a,b\\"","x":"NaN","flag":true,"at":"2026-01-02T03:04:05.678900Z","nothing":null,'
            '"maybe":null,"at marker":"1970-01-01T00:00:02.000000Z","place":0}\n'
            '{"name":"","x":1e+300,"flag":false,"at":"2026-01-02T03:04:05.678900Z","nothing":null,'
            '"maybe":7,"at marker":"1970-01-01T00:00:02.000000Z","place":1}\n',
        ),
    ],
)
def test_the_text_of_odd_values(tmp_path: Path, format: Format, text: str) -> None:
    path = written(tmp_path / "rows", format, ODD, sink("at marker", "place"), odd())
    assert path.read_text() == text


def test_parquet_has_types_that_others_know(tmp_path: Path) -> None:
    table = pq.read_table(written(tmp_path / "rows", Parquet(), ODD, sink("at marker", "place"), odd()))
    assert table.schema.field("at marker").type == pa.timestamp("us", "UTC")
    assert table.schema.field("nothing").type == pa.string()
    assert table.column("place").to_pylist() == [0, 1]


def test_a_single_column_of_csv_has_no_empty_lines(tmp_path: Path) -> None:
    layout = Layout(UnitValue(), String())
    path = written(tmp_path / "rows", Csv(), layout, sink(), batch_of([(UNIT, ""), (UNIT, "a")]))
    assert path.read_text() == 'value\n""\na\n'


def test_flags_and_numbers_alone(tmp_path: Path) -> None:
    for schema, value, text in ((Boolean(), True, "true"), (Float(), float("inf"), "Infinity")):
        path = written(tmp_path / "rows", Csv(), Layout(UnitValue(), schema), sink(), batch_of([(UNIT, value)]))
        assert path.read_text() == f"value\n{text}\n"


CODED = pa.array(["", "a", "b", "b", "never"])


def by_entries(column: Any) -> Any:
    """A column whose text has dictionaries, in records, too."""
    if pa.types.is_string(column.type):
        return column.dictionary_encode()
    if not pa.types.is_struct(column.type) or not column.type.num_fields:
        return column
    parts = [by_entries(column.field(at)) for at in range(column.type.num_fields)]
    missing = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(parts, names=[part.name for part in column.type], mask=missing)


@given(st.data())
def test_dictionaries_leave_no_trace_in_files(data: DataObject) -> None:
    """The same rows and types, whichever batches of a file have keys and text of records by their dictionaries."""
    layout = Layout(String(), data.draw(schemas()))
    plain, coded = [], []
    for _ in range(data.draw(st.integers(1, 3))):
        codes = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
        keys = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), CODED)
        some = array(layout.value, data.draw(st.lists(values(layout.value), min_size=len(codes), max_size=len(codes))))
        ends = np.arange(len(codes))
        plain.append(rows_of_columns(layout, keys.dictionary_decode(), some, ends))
        if data.draw(st.booleans()):
            some = by_entries(some)
        coded.append(rows_of_columns(layout, keys, some, ends) if data.draw(st.booleans()) else plain[-1])
        assert Rows(coded[-1]).batch.schema.equals(plain[-1].schema)
    shown, tables = VisibleColumns(layout, sink("its_block", "its_position")), []
    with tempfile.TemporaryDirectory() as scratch:
        for name, batches in (("plain", plain), ("coded", coded)):
            file = open_sink_file(Parquet(), str(Path(scratch, name)))
            assert file.codes
            for batch in batches:
                file.write(shown.of(batch))
            file.close()
            tables.append(pq.read_table(Path(scratch, name)))
    assert tables[0].schema.equals(tables[1].schema)
    assert list(map(repr, tables[0].to_pylist())) == list(map(repr, tables[1].to_pylist()))


def test_parquet_has_no_dictionaries_of_floats_and_times(tmp_path: Path) -> None:
    """What is mostly different costs half of the time without; every reader finds the values."""
    import duckdb

    moments = pa.array([1, 2, None, 1_700_000_000_123_456], pa.timestamp("us", "UTC"))
    columns = {"at": moments, "x": pa.array([0.5, None, -0.0, float("inf")]), "n": pa.array([1, 1, 2, None]), "s": ["a"] * 4}
    batch = pa.RecordBatch.from_pydict(columns)
    path = tmp_path / "out.parquet"
    file = open_sink_file(Parquet(), str(path))
    file.write(batch)
    file.close()
    group = pq.ParquetFile(path).metadata.row_group(0)
    encodings = {group.column(at).path_in_schema: set(group.column(at).encodings) for at in range(4)}
    assert {name for name, some in encodings.items() if "RLE_DICTIONARY" in some} == {"n", "s"}
    assert "DELTA_BINARY_PACKED" in encodings["at"]
    assert pq.read_table(path).to_pydict() == batch.to_pydict()
    found = duckdb.connect().execute(f'''SELECT epoch_us("at"), x, n, s FROM '{path}' ''').fetchall()
    assert found == [(1, 0.5, 1, "a"), (2, None, 1, "a"), (None, 0.0, 2, "a"), (1_700_000_000_123_456, math.inf, None, "a")]


def test_text_stays_coded_where_entries_are_twice(tmp_path: Path) -> None:
    """Parquet alone would write such text as it is. Columns with codes have no least and greatest text."""
    texts = [f"{n} {'long ' * 20}" for n in range(3)]
    column = pa.DictionaryArray.from_arrays(pa.array([3, 0, 2, None] * 500, pa.int32()), pa.array([*texts, texts[1]]))
    inner = pa.StructArray.from_arrays([column], names=["s"], mask=column.is_null())
    file = open_sink_file(Parquet(), str(tmp_path / "out.parquet"))
    file.write(pa.RecordBatch.from_arrays([column, inner, column.indices], names=["s", "inner", "n"]))
    file.close()
    parquet = pq.ParquetFile(tmp_path / "out.parquet")
    group = parquet.metadata.row_group(0)
    assert group.total_byte_size < 5_000
    assert [group.column(at).statistics is not None for at in range(3)] == [False, False, True]
    shown = [None if text is None else {"s": text} for text in column.to_pylist()]
    assert parquet.read().select(["s", "inner"]).to_pydict() == {"s": column.to_pylist(), "inner": shown}


@attrs.frozen
class Inner:
    """With a text, a time and a float."""

    name: str
    at: dt.datetime
    x: float | None


@attrs.frozen
class Outer:
    """A record in which another one may be missing."""

    inner: Inner | None
    n: int


def test_records_within_records_are_written_as_their_parts_alone(tmp_path: Path) -> None:
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    items = [Outer(Inner("a", at, 0.5), 1), Outer(None, 2), Outer(Inner("b", at, None), 3), Outer(Inner("a", at, 0.5), 1)]
    layout = Layout(String(), schema_of(Outer))
    some = by_entries(array(layout.value, items))
    batch = rows_of_columns(layout, pa.array(["k"] * 4).dictionary_encode(), some, np.arange(4))
    file = open_sink_file(Parquet(), str(tmp_path / "out.parquet"))
    file.write(VisibleColumns(layout, sink()).of(batch))
    file.write(VisibleColumns(layout, sink()).of(Rows(batch).batch))
    file.close()
    parquet = pq.ParquetFile(tmp_path / "out.parquet")
    assert "ARROW:schema" not in {name.decode() for name in parquet.metadata.metadata or {}}
    group = parquet.metadata.row_group(0)
    encodings = {group.column(at).path_in_schema: set(group.column(at).encodings) for at in range(group.num_columns)}
    coded = {name for name, some in encodings.items() if "RLE_DICTIONARY" in some}
    assert coded == {"key", "inner.name", "n"}
    assert "DELTA_BINARY_PACKED" in encodings["inner.at"]
    table = parquet.read().combine_chunks()
    shown = [{"inner": None if one.inner is None else attrs.asdict(one.inner), "n": one.n} for one in items]
    assert table.select(["inner", "n"]).to_pylist() == shown * 2
