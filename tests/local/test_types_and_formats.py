"""Types, formats and writers: what a sink wrote, a source reads as the same values, and DuckDB too; what others wrote, a
source reads as the values that they wrote, or refuses. Values are at the edges of each type."""

from __future__ import annotations

import datetime as dt
import enum
import math
import socket
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import attrs
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tracetypes
from tests.local.test_streams import server
from tracetypes import Dataflow, U, UInt64, Unit, csv, decimal, every, json_lines, parquet
from tracetypes.compiler.columns.arrow import arrow_type
from tracetypes.formats import Format
from tracetypes.records import INT_MAX, INT_MIN
from tracetypes.schemas import schema_of


class Hue(enum.Enum):
    RED = "r"
    ODD = "a,\"b' #"


class Level(enum.IntEnum):
    LOW = -1
    HIGH = 2**40


@attrs.frozen
class Inner:
    """A record within a record."""

    a: int
    b: str | None


Money = Annotated[Decimal, decimal(38, 9)]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ODD = ["", " ", "a", "NULL", "nan", "true", "01", "Infinity", "\"", "a,b", "é\u2028x", "\ufeff", "\x00", "\t", "a\nb"]
ODD += ["\r", "\r\n", "\\"]
TIMES = [
    dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
    dt.datetime(2038, 7, 1, 12, 0, 0, 1, tzinfo=dt.UTC),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
]
FLOATS = [0.0, -0.0, 5e-324, 1.7976931348623157e308, 0.1, 1e22, 2.0**53 + 2, math.nan, math.inf, -math.inf]
SMALL = Decimal("-99999999999999999999999999999.999999999")
BIG = Decimal("99999999999999999999999999999.999999999")
KINDS: Final[dict[str, tuple[Any, list[Any], st.SearchStrategy[Any]]]] = {
    "bool": (bool, [True, False], st.booleans()),
    "int": (int, [INT_MIN, INT_MAX, 0, 2**53 + 1], st.integers(INT_MIN, INT_MAX)),
    "UInt64": (UInt64, [0, 2**63, 2**64 - 1], st.integers(0, 2**64 - 1)),
    "float": (float, FLOATS, st.floats()),
    "decimal": (Money, [BIG, SMALL, Decimal("0.000000001"), Decimal("0E-9")], st.decimals(-(10**15), 10**15, places=9)),
    "str": (str, ODD, TEXTS),
    "bytes": (bytes, [b"", b"\x00\xff", b"\n"], st.binary(max_size=8)),
    "datetime": (dt.datetime, TIMES, st.datetimes(timezones=st.just(dt.UTC)).map(lambda at: at.replace(fold=0))),
    "date": (dt.date, [dt.date.min, dt.date(1970, 1, 1), dt.date.max], st.dates()),
    "enum": (Hue, list(Hue), st.sampled_from(Hue)),
    "IntEnum": (Level, list(Level), st.sampled_from(Level)),
    "Literal": (Literal["", "a b"], ["", "a b"], st.sampled_from(["", "a b"])),
}
FORMATS: Final[dict[str, Format]] = {"jsonl": json_lines(), "csv": csv(), "parquet": parquet()}
TUPLE: Any = tuple
POSITIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "bare": lambda kind: kind,
    "optional": lambda kind: kind | None,
    "list": lambda kind: TUPLE[kind, ...],
    "record": lambda kind: attrs.make_class("Nested", {"a": attrs.field(type=kind), "b": attrs.field(type=kind)}, frozen=True),
}


def record_of(kinds: dict[str, Any]) -> type[Any]:
    """A record with a value of each type, and a number."""
    fields = {name: attrs.field(type=kind) for name, kind in kinds.items()}
    return attrs.make_class("One", {**fields, "at": attrs.field(type=int)}, frozen=True)


def flow_of(record: Any, format: Format | None) -> Dataflow:
    """From a source to a sink."""
    flow = Dataflow("types")
    time: Any = lambda row: row.at  # noqa: E731
    flow.sink("out", flow.source("rows", U[Unit, record], markers=every(seconds=10**6, time=time), format=format), format=format)
    return flow


def moved(record: Any, rows: Any, out: Any, format: Format | None = None, **more: Any) -> Any:
    """A run. Its result."""
    return tracetypes.run(flow_of(record, format), {"rows": rows}, {"out": out}, backend="local", verify=False, **more)


def read(record: Any, place: Any, format: Format | None = None) -> tuple[list[Any], Any]:
    """The rows by their numbers, and the result of the run."""
    found: list[Any] = []
    result = moved(record, str(place), found, format)
    return sorted(found, key=lambda row: row.at), result


def in_position(position: str, kind: Any, values: Sequence[Any]) -> list[Any]:
    """Values of a type as the ones of a type in a position."""
    match position:
        case "optional":
            return [*values, None]
        case "list":
            return [(), *((value,) for value in values), tuple(values)]
        case "record":
            return [kind(value, values[0]) for value in values]
        case _:
            return list(values)


def differences(wanted: Sequence[Any], found: Sequence[Any]) -> list[tuple[str, str, str]]:
    """Fields whose values are others. NaN is NaN, and -0.0 is not 0.0."""
    pairs = [(a, b, name.name) for a, b in zip(wanted, found, strict=True) for name in attrs.fields(type(a))]
    texts = [(name, repr(getattr(a, name)), repr(getattr(b, name))) for a, b, name in pairs]
    return [one for one in texts if one[1] != one[2]]


@pytest.mark.parametrize("position", POSITIONS)
@settings(max_examples=2, phases=[Phase.generate])
@given(data=st.data())
def test_what_a_sink_wrote_a_source_reads(tmp_path_factory: pytest.TempPathFactory, position: str, data: st.DataObject) -> None:
    """In files, in each position that the format has, and in a Delta table."""
    kinds, columns = {}, {}
    for name, (bare, edges, some) in KINDS.items():
        kinds[name] = POSITIONS[position](bare)
        columns[name] = in_position(position, kinds[name], [*edges, *data.draw(st.lists(some, max_size=10))])
    record, place = record_of(kinds), tmp_path_factory.mktemp("types")
    count = max(map(len, columns.values()))
    rows = [record(*(values[at % len(values)] for values in columns.values()), at) for at in range(count)]
    targets: dict[str, tuple[str, Format | None]] = {ending: (str(place / ending), format) for ending, format in FORMATS.items()}
    targets["table"] = (f"delta:{place / 'table'}", None)
    if position in ("list", "record"):
        del targets["csv"]
    for ending, (out, format) in targets.items():
        more = {what: str(place / f"{ending}-{what}") for what in ("checkpoint", "late", "rejects")}
        moved(record, rows, out, format, **more)
        found, result = read(record, out, format)
        assert not result.rejected_rows, (ending, result.rejected_rows[:1])
        assert len(found) == len(rows), (ending, {row.at for row in rows} - {row.at for row in found}, result)
        assert not (lost := differences(rows, found)), (ending, lost)


def all_kinds(position: str, kinds: Sequence[str] = tuple(KINDS)) -> tuple[type[Any], list[Any]]:
    """A record with a field of each type in a position, and rows with the edges of each."""
    types = {name: POSITIONS[position](KINDS[name][0]) for name in kinds}
    columns = {name: in_position(position, kind, KINDS[name][1]) for name, kind in types.items()}
    record, count = record_of(types), max(map(len, columns.values()))
    return record, [record(*(values[at % len(values)] for values in columns.values()), at) for at in range(count)]


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
@pytest.mark.parametrize("position", POSITIONS)
def test_a_socket_brings_what_a_sink_wrote(tmp_path: Path, ending: str, position: str) -> None:
    """Line by line, however the lines are cut."""
    if ending == "csv" and position in ("list", "record"):
        return
    record, rows = all_kinds(position)
    more = {what: str(tmp_path / what) for what in ("checkpoint", "late", "rejects")}
    moved(record, rows, str(tmp_path / "out"), FORMATS[ending], **more)
    texts = [file.read_bytes() for file in sorted((tmp_path / "out").glob(f"*.{ending}"))]
    header = texts[0].splitlines(keepends=True)[0] if ending == "csv" else b""
    text = header + b"".join(one.removeprefix(header) for one in texts)

    def talk(client: socket.socket) -> None:
        for at in range(0, len(text), 1009):
            client.sendall(text[at : at + 1009])

    with server(talk) as address:
        found, result = read(record, address, FORMATS[ending])
    assert not result.rejected_rows
    assert not differences(rows, found)


# ------------------------------------------------------------------------------------------------ other writers and readers

IN_DUCKDB: Final = {
    "bool": "BOOLEAN",
    "int": "BIGINT",
    "UInt64": "UBIGINT",
    "float": "DOUBLE",
    "decimal": "DECIMAL(38, 9)",
    "str": "VARCHAR",
    "datetime": "TIMESTAMPTZ",
    "date": "DATE",
    "enum": "VARCHAR",
    "IntEnum": "BIGINT",
    "Literal": "VARCHAR",
}
"""Types for DuckDB. It has no base64 where we have bytes in text."""


def rows_at_the_edges(*, optional: bool) -> tuple[type[Any], list[Any]]:
    """A record with a field of each type that DuckDB has, and rows with the edges of each."""
    return all_kinds("optional" if optional else "bare", tuple(IN_DUCKDB))


def plain(value: Any) -> Any:
    """A value as others have it."""
    return value.value if isinstance(value, enum.Enum) else value


def in_text(row: Sequence[Any]) -> list[str]:
    """Values, without the name of a zone."""
    return [one.isoformat() if isinstance(one, dt.datetime) else repr(plain(one)) for one in row]


def in_duckdb() -> Any:
    """A connection."""
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize("ending", FORMATS)
def test_duckdb_reads_what_a_sink_wrote(tmp_path: Path, ending: str, optional: bool) -> None:
    """With declared types of columns."""
    connection = in_duckdb()
    record, rows = rows_at_the_edges(optional=optional)
    moved(record, rows, str(tmp_path / "out"), FORMATS[ending], checkpoint=str(tmp_path / "checkpoint"))
    columns = ", ".join(f"\"{name}\": '{kind}'" for name, kind in {**IN_DUCKDB, "at": "BIGINT"}.items())
    files = f"'{tmp_path}/out/*.{ending}'"
    query = {
        "jsonl": f"read_json({files}, format='newline_delimited', columns={{{columns}}})",
        "csv": f"read_csv({files}, header=true, delim=',', quote='\"', escape='\"', nullstr='', allow_quoted_nulls=false, "
        f"columns={{{columns}}})",
        "parquet": f"read_parquet({files})",
    }[ending]
    names = [*IN_DUCKDB, "at"]
    shown = ", ".join(f'"{name}"' for name in names)
    found = connection.execute(f"SELECT {shown} FROM {query} ORDER BY \"at\"").fetchall()
    assert list(map(in_text, found)) == [in_text([getattr(row, name) for name in names]) for row in rows]


def table_of(rows: Sequence[Any]) -> pa.Table:
    """Rows of the types that DuckDB has."""
    types = {name: arrow_type(schema_of(KINDS[name][0])) for name in IN_DUCKDB}
    columns = {name: pa.array([plain(getattr(row, name)) for row in rows], type) for name, type in types.items()}
    return pa.table({**columns, "at": pa.array([row.at for row in rows])})


def read_as_written(rows: Sequence[Any], place: Any, format: Format | None) -> None:
    """No row is missing, and none has another value."""
    found: list[Any] = []
    result = moved(type(rows[0]), place, found, format)
    of_at = {row.at: row for row in rows}
    assert len(found) + sum(result.rejects.values()) == len(rows)
    lost = differences([of_at[row.at] for row in found], found)
    assert not lost
    assert len(found) > len(rows) // 2, result.rejected_rows[:3]


@pytest.mark.parametrize("writer", ["duckdb.jsonl", "duckdb.csv", "duckdb.parquet", "pandas.parquet", "arrow"])
@pytest.mark.parametrize("optional", [False, True])
def test_what_others_wrote_is_read_as_they_wrote_it(tmp_path: Path, writer: str, optional: bool) -> None:
    """Spark is another one (tests/spark/test_field_types.py)."""
    _, rows = rows_at_the_edges(optional=optional)
    table = table_of(rows)
    name, _, ending = writer.partition(".")
    place: Any = str(tmp_path / f"in.{ending}")
    match name:
        case "duckdb":
            connection = in_duckdb()
            connection.register("given", table)
            as_csv = 'FORMAT csv, HEADER, FORCE_QUOTE (str, enum, "Literal")'
            how = {"jsonl": "FORMAT json", "csv": as_csv, "parquet": "FORMAT parquet"}
            connection.execute(f"COPY given TO '{place}' ({how[ending]})")
        case "pandas":
            table.to_pandas(types_mapper=pd.ArrowDtype).to_parquet(place)
        case _:
            place = table
    read_as_written(rows, place, FORMATS.get(ending))
