"""Folders ``NAME=VALUE`` are columns: those that others wrote, and those that a sink writes with ``partition_by=``."""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final

import attrs
import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracetypes
from tracetypes import (
    CheckFailed,
    Dataflow,
    RunError,
    U,
    UInt64,
    Unit,
    UsageError,
    check,
    csv,
    decimal,
    every,
    json_lines,
    parquet,
)
from tracetypes.compiler.columns.arrow import array, from_array
from tracetypes.compiler.connectors.folders import NULL, folder_values
from tracetypes.compiler.connectors.partitioned_files import PartitionedFiles
from tracetypes.compiler.store import output_interface
from tracetypes.formats import Format, JsonLines, Layout
from tracetypes.records import UnitValue
from tracetypes.schemas import schema_of

FORMATS: Final[dict[str, Format]] = {"parquet": parquet(), "csv": csv(), "jsonl": json_lines()}


class Hue(enum.Enum):
    RED = "a/b"
    BLUE = "b:c=%"


@attrs.frozen
class Row:
    """The columns that can be folders, and two that are not."""

    k: str | None
    n: int | None
    f: float
    day: dt.date
    at: dt.datetime
    money: Annotated[Decimal, decimal(9, 2)]
    hue: Hue
    yes: bool
    id: UInt64
    v: int
    ts: int


ALL = ["k", "n", "f", "day", "at", "money", "hue", "yes", "id"]
NOON = dt.datetime(2024, 1, 1, 12, 0, 0, 1, tzinfo=dt.UTC)
ROWS = [
    Row("a=b%", 7, 0.5, dt.date(1, 1, 1), NOON, Decimal("1.50"), Hue.RED, True, 2**64 - 1, 0, 1),
    Row(None, None, -0.0, dt.date(9999, 12, 31), NOON, Decimal("-1.50"), Hue.BLUE, False, 0, 1, 2),
    Row(" é/..", -(2**63), math.inf, dt.date(2024, 1, 1), NOON, Decimal("0.00"), Hue.RED, True, 1, 2, 3),
    Row("%41+", 2**63 - 1, 0.0, dt.date(2024, 1, 1), NOON, Decimal("0.00"), Hue.RED, True, 1, 3, 4),
]


def flow_of(record: Any, *, key: Callable[[Any], Any] | None = None, kind: Any = Unit, time: Any = None, **more: Any) -> Dataflow:
    """From a source to a sink. ``more``: parameters of the sink, and ``read``: the format of the source."""
    flow, read = Dataflow("folders"), more.pop("read", None)
    markers = every(seconds=10, time=time or (lambda row: row.ts))
    flow.sink("out", flow.source("rows", U[kind, record], key=key, markers=markers, format=read), **more)
    return flow


def read_back(path: Path | str, record: Any, **more: Any) -> list[Any]:
    """The rows of files."""
    rows: list[Any] = []
    tracetypes.run(flow_of(record, **more), {"rows": str(path)}, {"out": rows}, backend="local")
    return [row[1] if "key" in more else row for row in rows]


def places(path: Path) -> dict[str, Any]:
    """What a run has beside its output."""
    return {"checkpoint": str(path / "c"), "late": str(path / "l"), "rejects": str(path / "r")}


def put(path: Path, columns: dict[str, Any]) -> None:
    """A file of one row, in the format of its ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix:
        case ".parquet":
            pq.write_table(pa.table({name: [value] for name, value in columns.items()}), path)
        case ".csv":
            path.write_text(f"{','.join(columns)}\n{','.join(map(str, columns.values()))}\n", encoding="utf-8")
        case _:
            path.write_text(json.dumps(columns) + "\n", encoding="utf-8")


# -------------------------------------------------------------------------------------------------- sources


@attrs.frozen
class Few:
    k: str | None
    v: int
    ts: int


@pytest.mark.parametrize("ending", FORMATS)
def test_folders_are_columns(tmp_path: Path, ending: str) -> None:
    """Percent-decoded, at any depth, for keys and times too, and where other files lie."""
    folders = {"k=a%3Db": "a=b", f"k={NULL}": None, "more/k=%C3%A9": "é", "x=1/k=": "", "k=c/x=%zz": "c", "_y=1/k=d": "d"}
    for number, folder in enumerate(folders):
        put(tmp_path / "in" / folder / f"f.{ending}", {"v": number, "ts": number})
    put(tmp_path / "in" / "_temporary" / "k=no" / f"f.{ending}", {"v": 8, "ts": 8})
    put(tmp_path / "in" / "k=no" / f"_hidden.{ending}", {"v": 9, "ts": 9})
    wanted = [Few(k, number, number) for number, k in enumerate(folders.values())]
    assert sorted(read_back(tmp_path / "in", Few), key=lambda row: row.v) == wanted
    (single,) = read_back(tmp_path / "in" / "k=a%3Db" / f"f.{ending}", Few)
    assert single == wanted[0]
    assert read_back(tmp_path / "in" / "k=a%3Db", Few) == [single]


@pytest.mark.parametrize("ending", FORMATS)
def test_keys_and_times_may_be_folders(tmp_path: Path, ending: str) -> None:
    @dataclass(frozen=True)
    class Timed:
        _day: dt.date
        k: int
        v: int

    time: Any = lambda row: dt.datetime.combine(row._day, dt.time(), dt.UTC)  # noqa: E731
    for day in (1, 2):
        put(tmp_path / f"_day=2024-01-0{day}" / "k=7" / f"f.{ending}", {"v": day})
    rows = read_back(tmp_path, Timed, key=lambda row: row.k, kind=int, time=time)
    assert {(row._day.day, row.k, row.v) for row in rows} == {(1, 7, 1), (2, 7, 2)}


@pytest.mark.parametrize("ending", FORMATS)
def test_what_a_file_has_itself_counts(tmp_path: Path, ending: str) -> None:
    """Also in a folder beside one of a file without the column."""
    put(tmp_path / "k=folder" / f"1.{ending}", {"k": "file", "v": 1, "ts": 1})
    assert read_back(tmp_path, Few) == [Few("file", 1, 1)]


@pytest.mark.parametrize("ending", FORMATS)
def test_TT203_a_folder_that_is_no_value(tmp_path: Path, ending: str) -> None:
    @attrs.frozen
    class Numbers:
        k: int | None
        v: int
        ts: int

    put(tmp_path / "k=seven" / f"f.{ending}", {"v": 1, "ts": 1})
    with pytest.raises(RunError, match=r"TT203 .*: the folder k=seven is no value of the column 'k', expected int"):
        read_back(tmp_path, Numbers)
    put(tmp_path / "two" / "k=1" / "k=2" / f"f.{ending}", {"v": 1, "ts": 1})
    with pytest.raises(RunError, match=r"TT203 .* lies in two folders for the column 'k'"):
        read_back(tmp_path / "two", Numbers)


@pytest.mark.parametrize("ending", FORMATS)
def test_a_missing_value_of_a_required_column_is_a_reject(tmp_path: Path, ending: str) -> None:
    @attrs.frozen
    class Texts:
        k: str
        v: int
        ts: int

    for folder in (NULL, "a"):
        put(tmp_path / f"k={folder}" / f"f.{ending}", {"v": 1, "ts": 1})
    rows: list[Any] = []
    done = tracetypes.run(flow_of(Texts), {"rows": str(tmp_path)}, {"out": rows}, backend="local")
    assert rows == [Texts("a", 1, 1)]
    assert [row.reason for row in done.rejected_rows] == [".k is None, expected str"]


def test_the_zone_of_a_format_is_that_of_its_folders(tmp_path: Path) -> None:
    """Spark writes times without a zone."""

    @attrs.frozen
    class Timed:
        at: dt.datetime
        ts: int

    put(tmp_path / "at=2024-07-01 12%3A00%3A00" / "f.parquet", {"ts": 1})
    wanted = Timed(NOON.replace(month=7, hour=10, microsecond=0), 1)
    assert read_back(tmp_path, Timed, read=parquet(zone="Europe/Berlin")) == [wanted]
    with pytest.raises(RunError, match=r"TT203 .*the folder at=2024-07-01 12:00:00 is no value"):
        read_back(tmp_path, Timed, read=parquet())


def test_many_rows_of_json_in_folders(tmp_path: Path) -> None:
    """They are read as columns, and some of them have the field themselves."""
    lines = [json.dumps({"v": at, "ts": at} | ({"k": None} if at == 700 else {})) for at in range(1000)]
    (tmp_path / "k=a").mkdir()
    (tmp_path / "k=a" / "f.jsonl").write_text("\n".join(lines), encoding="utf-8")
    rows = sorted(read_back(tmp_path, Few), key=lambda row: row.v)
    assert rows == [Few(None if at == 700 else "a", at, at) for at in range(1000)]


def test_what_pandas_and_DuckDB_wrote(tmp_path: Path) -> None:
    values = ["a=b/c", "é %", "x:y"]
    frame = pd.DataFrame({"k": values, "v": [0, 1, 2], "ts": [0, 1, 2]})
    frame.to_parquet(tmp_path / "pandas", partition_cols=["k"])
    duckdb.sql(f"COPY (SELECT * FROM frame) TO '{tmp_path}/duckdb' (FORMAT parquet, PARTITION_BY (k))")
    wanted = [Few(k, at, at) for at, k in enumerate(values)]
    for place in ("pandas", "duckdb"):
        assert sorted(read_back(tmp_path / place, Few), key=lambda row: row.v) == wanted


# ---------------------------------------------------------------------------------------------------- sinks

KINDS: Final[dict[str, tuple[Any, st.SearchStrategy[Any]]]] = {
    "text": (str | None, st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)),
    "int": (int | None, st.none() | st.integers(-(2**63), 2**63 - 1)),
    "unsigned": (UInt64, st.integers(0, 2**64 - 1)),
    "float": (float, st.floats()),
    "bool": (bool | None, st.none() | st.booleans()),
    "day": (dt.date, st.dates()),
    "time": (dt.datetime, st.datetimes(timezones=st.just(dt.UTC))),
    "decimal": (Annotated[Decimal, decimal(38, 9)], st.decimals(-(10**20), 10**20, places=9)),
    "enum": (Hue, st.sampled_from(Hue)),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_what_a_sink_writes_is_what_a_source_reads(
    tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    """Every value of a type is one folder, and no two values are the same one."""
    annotation, values = KINDS[kind]
    given = data.draw(st.lists(values, min_size=1, max_size=4))
    place, schema = tmp_path_factory.mktemp("folders"), schema_of(annotation)
    columns = [array(schema, given), pa.array(range(len(given)))]
    files = PartitionedFiles(JsonLines(), str(place / "out"), ["x"])
    files.write(pa.RecordBatch.from_arrays(columns, ["x", "v"]))
    files.close()
    found: dict[int, Any] = {}
    for file in (place / "out").rglob("0*"):
        value = folder_values(str(file), One(schema), None)["x"]
        found |= {json.loads(line)["v"]: value for line in file.read_text().splitlines()}
    assert [repr(found[at]) for at in range(len(given))] == list(map(repr, from_array(schema, columns[0])))


class One(Layout):
    """One column."""

    def __init__(self, schema: Any) -> None:
        super().__init__(UnitValue(), schema)

    @property
    def columns(self) -> Any:
        return (("x", self.value),)


@pytest.mark.parametrize("by", ["k", ["k", "n"], ALL], ids=len)
@pytest.mark.parametrize("ending", FORMATS)
def test_a_sink_in_folders(tmp_path: Path, ending: str, by: str | list[str]) -> None:
    """It is read back by a source; the files do not have the columns of the folders."""
    out = tmp_path / "out"
    tracetypes.run(flow_of(Row, format=FORMATS[ending], partition_by=by), {"rows": ROWS}, {"out": str(out)}, backend="local")
    assert sorted(read_back(out, Row), key=lambda row: row.v) == ROWS
    assert repr(sorted(read_back(out, Row), key=lambda row: row.v)) == repr(ROWS)  # -0.0 is not 0.0
    assert sorted(tracetypes.read(out, Row), key=lambda row: row.v) == ROWS
    (file,) = out.rglob("k=a%3Db%25/**/part-*")
    if ending == "parquet":
        assert pq.read_schema(file).names == [one.name for one in attrs.fields(Row) if one.name not in by]


def test_DuckDB_reads_the_folders_of_a_sink(tmp_path: Path) -> None:
    out = tmp_path / "out"
    by = ["k", "n", "day", "money", "yes"]
    tracetypes.run(flow_of(Row, format=parquet(), partition_by=by), {"rows": ROWS}, {"out": str(out)}, backend="local")
    kinds = "{k: varchar, n: bigint, day: date, money: 'decimal(9,2)', yes: boolean}"
    files = f"read_parquet('{out}/**/*.parquet', hive_partitioning=true, hive_types={kinds})"
    found = duckdb.execute(f"SELECT k, n, day, money, yes, v FROM {files} ORDER BY v").fetchall()
    assert found == [(row.k, row.n, row.day, row.money, row.yes, row.v) for row in ROWS]


@pytest.mark.parametrize("value", ["", NULL, "x" * 300, "é" * 130])
@pytest.mark.parametrize("to", ["files", "table"])
def test_TT228_a_value_that_no_folder_has(tmp_path: Path, value: str, to: str) -> None:
    """It would be read as another one, or cannot be written."""
    out = str(tmp_path / "out") if to == "files" else f"delta:{tmp_path / 'out'}"
    more = places(tmp_path)
    rows = [Few("a", 1, 1), Few(value, 2, 2)]
    with pytest.raises(RunError, match=r"(?s)TT228 partition_by='k': .* cannot be the value of a folder") as refused:
        tracetypes.run(flow_of(Few, partition_by="k"), {"rows": rows}, {"out": out}, backend="local", **more)
    assert refused.value.code == "TT228"
    assert not list((tmp_path / "out").glob("k=*"))


@pytest.mark.parametrize(
    ("by", "found"),
    [
        ("none", r"partition_by=\['none'\]"),
        (["k", "k"], r"partition_by=\['k', 'k'\]"),
        (["k", "v", "ts", "until"], "which are all columns"),
    ],
)
def test_TT119_columns_that_cannot_be_folders(by: str | list[str], found: str) -> None:
    with pytest.raises(CheckFailed, match=f"TT119[\\s\\S]*{found}"):
        check(flow_of(Few, partition_by=by, marker="until"))


def test_TT119_a_column_without_a_text() -> None:
    @attrs.frozen
    class Lists:
        tags: tuple[str, ...]
        data: bytes
        ts: int

    for by in ("tags", "data"):
        with pytest.raises(CheckFailed, match=f"TT119[\\s\\S]*partition_by='{by}' on a column of"):
            check(flow_of(Lists, partition_by=by))


def test_a_marker_may_be_a_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    flow = flow_of(Few, marker="until", partition_by="until", format=json_lines())
    tracetypes.run(flow, {"rows": [Few("a", 1, 1), Few("b", 2, 11)]}, {"out": str(out)}, backend="local")
    folders = {f"until=1970-01-01T00%3A00%3A{second}.000000Z" for second in (10, 20)}
    assert {path.name for path in out.glob("until=*")} == folders


@pytest.mark.parametrize("target", ["-", "tcp://127.0.0.1:9", "kafka://127.0.0.1:9/t"])
def test_TT402_an_output_without_folders(tmp_path: Path, target: str) -> None:
    more = places(tmp_path)
    with pytest.raises(UsageError, match=r"TT402 sink 'out' has partition_by=\['k'\], and .* has no folders"):
        tracetypes.run(flow_of(Few, partition_by="k"), {"rows": [Few("a", 1, 1)]}, {"out": target}, backend="local", **more)


def test_more_folders_than_files_that_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are closed meanwhile, rows of a folder stay in order, and few rows wait."""
    from tracetypes.compiler.connectors import partitioned_files

    monkeypatch.setattr(partitioned_files, "OPEN", 2)
    monkeypatch.setattr(partitioned_files, "TOGETHER", 200)
    files = PartitionedFiles(JsonLines(), str(tmp_path / "out"), ["k"])
    for start in range(0, 300, 10):
        values = np.arange(start, start + 10)
        files.write(pa.RecordBatch.from_pydict({"v": values, "k": values * 7 % 5}))
        assert len(files.open) <= 2
    files.close()
    for k in range(5):
        lines = "".join(file.read_text() for file in sorted((tmp_path / "out" / f"k={k}").iterdir())).splitlines()
        found = [json.loads(line)["v"] for line in lines]
        assert found == [v for v in range(300) if v * 7 % 5 == k]


# ----------------------------------------------------------------------------------------------- exactly once


class Crash(Exception):
    """In the middle of a commit."""


def restarted(path: Path, to: str, crash: int | None) -> int:
    """A run over two files, which crashes at a move. The number of moves."""
    moves = 0
    move = output_interface.move

    def counted(file: Path, place: Path) -> None:
        nonlocal moves
        if moves == crash:
            raise Crash
        moves += 1
        move(file, place)

    target = str(path / "out") if to == "files" else f"delta:{path / 'out'}"
    more = places(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_interface, "move", counted)
        tracetypes.run(
            flow_of(Few, partition_by="k"), {"rows": str(path / "in")}, {"out": target}, backend="local", files_per_step=1, **more
        )
    return moves


@pytest.mark.parametrize("to", ["files", "table"])
def test_a_crash_between_the_files_of_an_epoch(tmp_path: Path, to: str) -> None:
    """No row is there twice, and no folder is empty."""
    rows = [Few(k, at, at) for at, k in enumerate(["a", "b", "c", "a", "d", None])]
    for number in range(2):
        (tmp_path / "in").mkdir(exist_ok=True)
        lines = [json.dumps(attrs.asdict(row)) for row in rows[3 * number : 3 * number + 3]]
        (tmp_path / "in" / f"{number}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    crash = 0
    while True:
        home = tmp_path / str(crash)
        home.mkdir()
        (home / "in").symlink_to(tmp_path / "in")
        try:
            moves = restarted(home, to, crash)
        except (Crash, RunError):
            restarted(home, to, None)
        else:
            assert moves == crash
            break
        target = str(home / "out") if to == "files" else f"delta:{home / 'out'}"
        assert sorted(read_back(target, Few), key=lambda row: row.v) == rows
        folders = [path for path in (home / "out").rglob("*=*") if path.is_dir()]
        assert all(any(folder.iterdir()) for folder in folders)
        crash += 1
    assert crash >= 6


KILLED = """
import os, sys
from pathlib import Path
sys.path.insert(0, os.getcwd())
from tests.local import test_folders
from tracetypes.compiler.store import output_interface
move, left = output_interface.move, [int(sys.argv[2])]
def killing(file, place):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), 9)
    move(file, place)
output_interface.move = killing
test_folders.restarted(Path(sys.argv[1]), "files", None)
"""


def test_kill_9_between_the_files_of_an_epoch(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = [Few(k, at, at) for at, k in enumerate("abcabd")]
    lines = [json.dumps(attrs.asdict(row)) for row in rows]
    (tmp_path / "in" / "f.jsonl").write_text("\n".join(lines), encoding="utf-8")
    command = [sys.executable, "-c", KILLED, str(tmp_path), "3"]
    assert subprocess.run(command, env=os.environ | {"PYTHONPATH": os.getcwd()}).returncode == -9
    assert len(list((tmp_path / "out").glob("k=*/part-*"))) == 2
    restarted(tmp_path, "files", None)
    assert sorted(read_back(tmp_path / "out", Few), key=lambda row: row.v) == rows


# ---------------------------------------------------------------------------------------------------- Delta


def test_a_table_in_partitions(tmp_path: Path) -> None:
    """The log has the values; a table in other partitions is refused."""
    deltalake = pytest.importorskip("deltalake")
    more, by = places(tmp_path), [name for name in ALL if name != "money"]  # of which deltalake reads no negative ones
    table = f"delta:{tmp_path / 'out'}"
    tracetypes.run(flow_of(Row, partition_by=by), {"rows": ROWS}, {"out": table}, backend="local", **more)
    assert repr(sorted(read_back(table, Row), key=lambda row: row.v)) == repr(ROWS)
    found = deltalake.DeltaTable(tmp_path / "out")
    assert found.metadata().partition_columns == by
    rows = sorted(found.to_pyarrow_table().to_pylist(), key=lambda row: row["v"])
    assert [(row["k"], row["n"], row["day"], row["at"], row["money"]) for row in rows] == [
        (row.k, row.n, row.day, row.at, row.money) for row in ROWS
    ]
    more["checkpoint"] = str(tmp_path / "other")
    with pytest.raises(RunError, match=r"TT209 .*in partitions by k, n, .*; the sink has .*in partitions by k\n"):
        tracetypes.run(flow_of(Row, partition_by="k"), {"rows": ROWS}, {"out": table}, backend="local", **more)
