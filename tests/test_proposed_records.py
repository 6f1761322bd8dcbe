"""``tracetypes record``: the record that is proposed for rows reads them, and its program runs."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tracetypes
from tracetypes.cli import main
from tracetypes.compiler.connectors.proposed_program import class_name, program_of
from tracetypes.compiler.connectors.sampled_rows import sample_of
from tracetypes.errors import RunError, UsageError
from tracetypes.formats import Csv, JsonLines, Layout
from tracetypes.graph import Dataflow
from tracetypes.parsing import rows_of_text
from tracetypes.records import Mismatch, UnitValue
from tracetypes.schemas import schema_of


def proposed(place: Path, rows: int = 1000) -> dict[str, Any]:
    """What the program for the rows at a place defines, and its ``text``."""
    text = program_of(sample_of(str(place), rows), str(place), "Row")
    names: dict[str, Any] = {"text": text, "__name__": "proposed"}
    exec(compile(text, "proposed.py", "exec", dont_inherit=True), names)
    return names


def proposed_for(name: str, text: str) -> dict[str, Any]:
    """As :func:`proposed`, for the text of a file."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / name
        place.write_bytes(text.encode())
        return proposed(place)


def refused(names: dict[str, Any], format: Any, text: str) -> list[Mismatch]:
    """The rows of a text that the record does not read."""
    layout = Layout(UnitValue(), schema_of(names["Row"]))
    found = list(rows_of_text(format, layout, text.encode()))
    assert found
    return [one for one in found if isinstance(one, Mismatch)]


# ------------------------------------------------------------------------------------------------- laws

NAMES = ["a", "_id", "from", "@type", "user-id", "class", "list", "Inner", "ts", "key", "value"]
NAMES += ["ä", "a b", "1", "__x", "A", "", "x'\"y"]
TEXTS = st.text(max_size=3) | st.sampled_from(
    ["2024-01-01", "2024-02-30", "2024-01-01T00:00:00Z", "2024-01-01 10:00", "true", "007", "1", "2018-12-31T23:59:59.9999999Z"]
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.integers(-9, 9) | st.floats(allow_nan=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3), max_leaves=6
)


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=1, max_size=4), min_size=1, max_size=4))
def test_the_record_for_JSON_reads_the_rows_of_the_sample(rows: Sequence[dict[str, Any]]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    names = proposed_for("rows.jsonl", text)
    assume("no field that can be read" not in names["text"])
    wrong = refused(names, JsonLines(zone="UTC"), text)
    assert not wrong or "and rejects" in names["text"], (names["text"], wrong)


KINDS = ["1", "-2", "2.5", "1e3", "true", "2024-01-01", "NaN", "+1", "", "012"]
CELLS = st.text("ab1 \"',;\n\r-0", max_size=4) | st.sampled_from(KINDS)
HEADERS = st.lists(st.sampled_from(["a", "from", "user-id", "list", "a b", "key"]), min_size=1, max_size=4, unique=True)


def quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if set(cell) & set('",\n\r') else cell


@given(st.data())
def test_the_record_for_CSV_reads_the_rows_of_the_sample(data: st.DataObject) -> None:
    header = data.draw(HEADERS)
    rows = data.draw(st.lists(st.lists(CELLS, min_size=len(header), max_size=len(header)), min_size=1, max_size=4))
    text = "".join(",".join(map(quoted, row)) + "\n" for row in [header, *rows])
    assume(any(cell.strip() for row in rows for cell in row))
    names = proposed_for("rows.csv", text)
    assert refused(names, Csv(zone="UTC"), text) == [], names["text"]


# ------------------------------------------------------------------------------------------------- examples


def types_of(names: dict[str, Any], record: str = "Row") -> dict[str, str]:
    """The fields of a class of a program, as they are written."""
    lines = names["text"].partition(f"class {record}:\n")[2].partition("\n\n")[0].splitlines()
    return dict(line.strip().split(": ", 1) for line in lines)


def test_the_types_of_JSON(tmp_path: Path) -> None:
    rows = [
        {"_id": "x", "ts": 1_700_000_000_000, "n": 1, "f": 1.5, "at": "2024-01-01T00:00:00Z", "local": "2024-01-01T00:00:00"},
        {"_id": "y", "ts": 1_700_000_000_000, "n": 2**64 - 1, "f": 2, "at": "2024-01-01T00:00:00+02:00", "local": "2024-01-02"},
    ]
    more: list[dict[str, Any]] = [
        {"day": "2024-01-01", "from": "a", "tags": [], "list": [{"p": 1}], "inner": {"b": True}, "big": 2**70, "both": 1},
        {"day": "2024-01-02", "from": "b", "tags": [], "list": [{"p": 0.5, "q": None}], "inner": {"b": False}}
        | {"both": "x", "new": 1},
    ]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(a | b) + "\n" for a, b in zip(rows, more, strict=True)))
    names = proposed(tmp_path / "r.jsonl")
    local = "its times name no zone: declare one in the format, zone=..."
    assert types_of(names) == {
        "_id": "str",
        "ts": "int",
        "n": "UInt64",
        "f": "float",
        "at": "dt.datetime",
        "local": f"dt.datetime  # {local}",
        "day": "dt.date",
        "from_": 'Annotated[str, column("from")]',
        "tags": "list[str]  # no list of the sample has an item",
        "list_": 'Annotated[list[List], column("list")]',
        "inner": "Inner",
        "big": "Annotated[Decimal, decimal(38, 0)] | None",
        "both": "int  # 1 of 2 values of the sample; the others are texts, and rejects",
        "new": "int | None",
    }
    assert types_of(names, "List") == {"p": "float", "q": "str | None  # no row of the sample has a value"}
    assert 'time=lambda row: row.ts, unit="ms")' in names["text"]
    assert 'format=json_lines(zone="UTC")' in names["text"]


def test_the_types_of_CSV(tmp_path: Path) -> None:
    text = "id;price;zip;when;ok;note;void\n1;2.5;01234;2024-01-01T00:00:00Z;true;;\n2;3;12345;2024-01-01T01:00:00Z;false;hi;\n"
    (tmp_path / "r.csv").write_text(text)
    names = proposed(tmp_path / "r.csv")
    assert types_of(names) == {
        "id": "int",
        "price": "float",
        "zip": "str  # numbers that begin with a zero or a plus sign, so texts",
        "when": "dt.datetime",
        "ok": "bool",
        "note": "str | None",
        "void": "str | None  # no row of the sample has a value",
    }
    assert 'format=csv(separator=";"),' in names["text"]


def test_a_file_of_CSV_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("7,1377986401,a\n8,1377986402,b\n")
    names = proposed(tmp_path / "r.csv")
    assert types_of(names) == {"c1": "int", "c2": "int", "c3": "str"}
    assert 'time=lambda row: row.c2),\n    format=csv(columns=["c1", "c2", "c3"]),' in names["text"]
    rows: list[Any] = []
    names["flow"].sink("out", names["rows"])
    tracetypes.run(names["flow"], {"r": str(tmp_path / "r.csv")}, {"out": rows}, backend="local")
    assert [(one.c1, one.c3) for one in rows] == [(7, "a"), (8, "b")]


def test_rows_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text('{"a": 1}\n{"a": \n[1]\n{"a": 2}\n')
    assert sample_of(str(file), 100).origin == f"all 4 rows of {file}; 2 of them are rejects"
    assert sample_of(str(file), 2).origin == f"the first 2 rows of {file}; one of them is a reject"
    assert types_of(proposed(file)) == {"a": "int"}
    file = tmp_path / "r.csv"
    file.write_text("a,b\n1,2\n1\n")
    assert sample_of(str(file), 100).origin == f"all 2 rows of {file}; one of them is a reject"


def test_what_a_reader_refuses_of_a_sample_is_told(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"x": 1e400, "t": "\\ud800", "n": {"a": 1, "a": 2}}\n')
    fit = "some values of the sample do not fit, and are rejects"
    left_out = '"a" is left out: a field that is there twice in an object'
    names = proposed(tmp_path / "r.jsonl")
    assert {name: one for name, one in types_of(names).items() if name in "xt"} == {"x": f"float  # {fit}", "t": f"str  # {fit}"}
    assert '"n" is left out: a record without fields that can be read' in names["text"], left_out


def test_folders_are_columns(tmp_path: Path) -> None:
    for folder, name in (("k=7/day=2024-01-01", "b"), ("k=__HIVE_DEFAULT_PARTITION__/day=2024-01-02", "a"), ("_old", "c")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / f"{name}.jsonl").write_text('{"ts": 1}\n')
    names = proposed(tmp_path)
    assert types_of(names) == {"ts": "int", "k": "int | None", "day": "dt.date"}
    rows: list[Any] = []
    names["flow"].sink("out", names["rows"])
    tracetypes.run(names["flow"], {names["flow"].name: str(tmp_path)}, {"out": rows}, backend="local")
    assert sorted((one.k, one.day.day) for one in rows if one.k is not None) == [(7, 1)]
    assert len(rows) == 2


def table() -> pa.Table:
    utc = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    columns = {
        "n": pa.array([1, 2], pa.int32()),
        "u": pa.array([1, 2**64 - 1], pa.uint64()),
        "x": pa.array([1.5, None], pa.float32()),
        "d": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
        "t": pa.array(["a", "b"]).dictionary_encode(),
        "at": pa.array([utc, utc], pa.timestamp("ns", "UTC")),
        "day": pa.array([utc.date(), None]),
        "raw": pa.array([b"a", b""], pa.binary()),
        "l": pa.array([[1], []], pa.list_(pa.int64())),
        "s": pa.array([{"a": 1, "b": None}, {"a": 2, "b": "x"}]),
        "m": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    }
    return pa.table(columns)


PARQUET = {
    "n": "int",
    "u": "UInt64",
    "x": "float | None",
    "d": "Annotated[Decimal, decimal(9, 2)] | None",
    "t": "str",
    "at": "dt.datetime",
    "day": "dt.date | None",
    "raw": "bytes",
    "l": "list[int | None] | None",
    "s": "S | None",
}


def test_the_types_of_Parquet_are_those_of_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    pq.write_table(table(), folder / "a.parquet")
    names = proposed(folder)
    types = types_of(names)
    assert types.pop('# "m" is left out').startswith("map<string, int64")
    assert types == PARQUET
    rows: list[Any] = []
    names["flow"].sink("out", names["rows"])
    result = tracetypes.run(names["flow"], {"rows": str(folder)}, {"out": rows}, backend="local")
    assert (len(rows), len(result.rejected_rows)) == (2, 0)
    assert rows[1].u == 2**64 - 1


def test_the_types_of_a_Delta_table(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    some = table().select(["n", "x", "d", "at", "l", "s"])
    deltalake.write_deltalake(str(tmp_path / "table"), some)
    sample = sample_of(f"delta:{tmp_path / 'table'}", 10)
    text = program_of(sample, "delta:table", "Row")
    assert "    d: Annotated[Decimal, decimal(9, 2)] | None\n" in text
    assert "    at: dt.datetime | None\n" in text


LINE = {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}

AVRO = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
        {"name": "before", "type": "State"},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "first", "type": ["null", "Line"]},
        {"name": "large", "type": {"type": "bytes", "logicalType": "decimal", "precision": 40}},
        {"name": "any", "type": ["int", "string"]},
        {"name": "more", "type": {"type": "map", "values": "string"}},
        {"name": "next", "type": ["null", "shop.Order"]},
    ],
}


def test_the_types_of_a_schema_of_Avro(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(AVRO))
    assert types_of(proposed(tmp_path / "order.avsc")) == {
        "id": "int",
        "at": "dt.datetime",
        "day": "dt.date | None",
        "total": "Annotated[Decimal, decimal(9, 2)]",
        "state": "str",
        "before": "str",
        "lines": "list[Lines]",
        "first": "First | None",
        '# "large" is left out': "a decimal of 40 digits",
        '# "any" is left out': "a union of 2 types",
        '# "more" is left out': "a map",
        '# "next" is left out': "a record inside itself",
    }


# ------------------------------------------------------------------------------------------------- the command


def test_the_command_says_how_many_rows_it_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "web-log.jsonl"
    file.write_text('{"page": "a", "ts": 1}\n' * 3)
    assert main(["record", str(file), "--rows", "2"]) == 0
    printed = capsys.readouterr().out
    assert f"# From the first 2 rows of {file}.\n" in printed
    assert "class WebLog:\n    page: str\n    ts: int\n" in printed
    assert main(["record", str(file), "--name", "Click"]) == 0
    printed = capsys.readouterr().out
    assert f"# From all 3 rows of {file}.\n" in printed
    assert 'rows = flow.source("web_log", U[Unit, Click], markers=every(seconds=60, time=lambda row: row.ts))\n' in printed


def test_the_example_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[1] / "docs/types.md").read_text(encoding="utf-8")
    session = page.partition("```console\n")[2].partition("```")[0]
    rows, printed = session.partition("$ head -2 clicks.jsonl\n")[2].split("$ tracetypes record clicks.jsonl\n")
    monkeypatch.chdir(tmp_path)
    Path("clicks.jsonl").write_text(rows)
    assert main(["record", "clicks.jsonl"]) == 0
    assert capsys.readouterr().out == printed


def test_a_program_without_a_time_is_a_program_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"page": "a"}\n')
    names = proposed(tmp_path / "r.jsonl")
    assert isinstance(names["flow"], Dataflow)
    assert "# No field looks like a time." in names["text"]


@pytest.mark.parametrize(
    ("text", "name"),
    [("web-log", "WebLog"), ("2024", "Row"), ("2024-log", "Log"), ("none", "RowNone"), ("a b", "AB"), ("ä", "Row")],
)
def test_names_of_classes(text: str, name: str) -> None:
    assert class_name(text) == name


@pytest.mark.parametrize(
    ("name", "content", "code", "said"),
    [
        ("rows.jsonl", "[1]\n", "TT203", "has no rows with fields: row 1 is no object of JSON"),
        ("rows.jsonl", "", "TT203", "has no rows with fields: it has no rows"),
        ("rows.jsonl", "{\n", "TT203", "row 1 is no JSON"),
        ("rows.jsonl", "{}\n", "TT203", "has no rows with fields"),
        ("rows.csv", "", "TT203", "has no columns with names"),
        ("rows.txt2", "a\n", "TT207", "is unknown"),
        ("rows.parquet", "no", "TT208", "cannot be read"),
        ("rows.avsc", "{", "TT208", "cannot be read"),
        ("rows.avsc", '"string"', "TT203", "none of a record"),
    ],
)
def test_rows_that_have_no_record(tmp_path: Path, name: str, content: str, code: str, said: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(RunError, match=rf"{code}.*{said}"):
        sample_of(str(tmp_path / name), 10)


@pytest.mark.parametrize("address", ["kafka://localhost:9092/topic", "nowhere.jsonl", "empty"])
def test_TT402_an_address_without_rows(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="TT402"):
        sample_of(address, 10)


def test_TT403_a_name_of_no_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.jsonl").write_text('{"page": "a"}\n')
    assert main(["record", str(tmp_path / "r.jsonl"), "--name", "a b"]) == 2
    assert "TT403 --name 'a b' is no name of a class" in capsys.readouterr().err
