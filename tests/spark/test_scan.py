"""Parquet is read by the workers or by Spark, and what Spark computes of it is what Python would have computed."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import attrs
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tracetypes import Dataflow, OperatorFailed, OpStateless, U, Unit, check, every, interpret_rows, parquet
from tracetypes.compiler.columns.batches import decode
from tracetypes.compiler.connectors.source_rows import taker
from tracetypes.compiler.plan.plan import Plan, SourceLink, links
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.messages import Items
from tracetypes.compiler.runtime.source import SourceKernel, TakenRow
from tracetypes.compiler.spark.files import SCAN, FileInput, native_emissions
from tracetypes.compiler.spark.run import collect
from tracetypes.compiler.spark.scan import End, ParquetScan
from tracetypes.compiler.store.staging import SEND
from tracetypes.compiler.wire.messages import encode
from tracetypes.errors import RunError
from tracetypes.sources import reader


@attrs.frozen
class Reading:
    sensor: str
    watts: int
    limit: int | None
    at: dt.datetime


@attrs.frozen
class Told:
    what: str
    watts: int


@attrs.frozen
class Split(OpStateless[Unit, Reading, str, Told]):
    """Several emissions, a table, None, text, a division that may fail."""

    rooms: dict[str, str]

    def on_item(self, key: Unit, value: Reading, emit: Callable[[str, Told], None]) -> None:
        if value.sensor not in self.rooms:
            return
        room = self.rooms[value.sensor]
        emit(room, Told("raw", value.watts))
        if value.limit is not None and value.watts > value.limit:
            emit(room + "!", Told(value.sensor.upper(), value.watts // (value.limit - 7) % 5))
        elif value.at.hour == 1:
            emit("night", Told(value.sensor[1:], -value.watts))


START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
ROWS = [
    Reading(
        f"s{n % 7}é" if n % 5 == 0 else f"s{n % 7}",
        n * 37 % 101 - 50,
        None if n % 3 == 0 else n % 11 + 20,
        START + dt.timedelta(minutes=n),
    )
    for n in range(200)
]
ROOMS = {f"s{n}": f"room {n % 3}" for n in range(6)} | {"s0é": "salón", "s5é": "hall"}


def planned() -> Plan:
    flow = Dataflow("split")
    rows = flow.source("rows", U[Unit, Reading], markers=every(seconds=600, time=lambda r: r.at, delay=60))
    flow.sink("told", rows.through(Split(ROOMS)))
    return plan(check(flow), key_groups=4)


def write(path: Path, rows: list[Reading]) -> str:
    types = pa.schema(
        [("sensor", pa.string()), ("watts", pa.int64()), ("limit", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))]
    )
    pq.write_table(
        pa.Table.from_pylist([attrs.asdict(row) for row in rows], types), path / "rows.parquet", row_group_size=64
    )
    return str(path / "rows.parquet")


@pytest.mark.parametrize("scan", ["workers", "spark"])
def test_what_reads_makes_no_difference(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scan: str
) -> None:
    monkeypatch.setenv(SCAN, scan)
    made = planned()
    late = ROWS[0]
    rows = [*ROWS, late]
    answer = collect(spark, made, {"rows": write(tmp_path, rows)}).answer
    flow = Dataflow("split")
    stream = flow.source("rows", U[Unit, Reading], markers=every(seconds=600, time=lambda r: r.at, delay=60))
    flow.sink("told", stream.through(Split(ROOMS)))
    assert answer.trace == interpret_rows(check(flow), {"rows": rows})[0]["told"]
    assert len(answer.late) == 1


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32()], ids=str)
def test_spark_does_not_look_at_files_that_the_workers_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType
) -> None:
    monkeypatch.setattr(FileInput, "_schema", None)
    path = write(tmp_path, ROWS)
    table = pq.read_table(path)
    pq.write_table(table.set_column(1, "watts", table["watts"].cast(kind)), path)
    assert collect(spark, planned(), {"rows": path}).answer.trace


@attrs.frozen
class Shown:
    """A row as pandas writes it."""

    id: str
    at: dt.datetime
    note: str | None


def shown(zone: str | None) -> Dataflow:
    flow = Dataflow("shown")
    rows = flow.source(
        "rows", U[Unit, Shown], markers=every(seconds=60, time=lambda r: r.at), format=parquet(zone=zone)
    )
    flow.sink("out", rows)
    return flow


def test_a_file_as_pandas_writes_it_by_default(spark: SparkSession, tmp_path: Path) -> None:
    """Nanoseconds, a column of nothing but nulls, categories, an index; times without a zone in the first file or a later one."""
    rows = [Shown(id, START + dt.timedelta(minutes=n), None) for n, id in enumerate("abca")]
    frame = pd.DataFrame([attrs.asdict(row) for row in rows]).astype({"id": "category"})
    naive = frame.assign(at=frame["at"].dt.tz_localize(None))
    assert pq.read_schema(pa.BufferReader(naive.to_parquet())).field("at").type == pa.timestamp("ns")
    for name, files in (("aware", [frame]), ("naive", [naive]), ("later", [frame, naive])):
        (tmp_path / name).mkdir()
        for number, one in enumerate(files):
            one.to_parquet(tmp_path / name / f"{number}.parquet")
            os.utime(tmp_path / name / f"{number}.parquet", (number, number))
    expected = interpret_rows(check(shown(None)), {"rows": rows})[0]["out"]
    assert (
        collect(spark, plan(check(shown(None)), key_groups=2), {"rows": str(tmp_path / "aware")}).answer.trace
        == expected
    )
    assert (
        collect(spark, plan(check(shown("UTC")), key_groups=2), {"rows": str(tmp_path / "naive")}).answer.trace
        == expected
    )
    for name, which in (("naive", "0"), ("later", "1")):
        with pytest.raises(
            RunError, match=rf"TT203.*{which}.parquet: the column 'at' is timestamp.*times without a zone"
        ):
            collect(spark, plan(check(shown(None)), key_groups=2), {"rows": str(tmp_path / name)})


def test_the_operator_becomes_columns_of_spark() -> None:
    (link,) = links(planned().stages[0].region)
    assert isinstance(link, SourceLink)
    assert len(native_emissions(link)) == 2


@pytest.mark.parametrize("scan", ["workers", "spark"])
def test_a_row_for_which_python_raises_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scan: str
) -> None:
    monkeypatch.setenv(SCAN, scan)
    bad = Reading("s1", 50, 7, START + dt.timedelta(minutes=201))
    with pytest.raises(OperatorFailed, match=r"(?s)ZeroDivisionError.*limit=7"):
        collect(spark, planned(), {"rows": write(tmp_path, [*ROWS, bad])})


# ------------------------------------------------------------------------------- files and their dictionaries


@attrs.frozen
class Noted:
    sensor: str
    note: str | None
    raw: bytes
    unique: str
    at: int


NOTED = [
    Noted(f"s{n % 5}", None if n % 3 == 0 else f"note {n % 4}", b"\xff%d" % (n % 2), f"{n:06d} only here", n)
    for n in range(600)
]


@attrs.frozen
class Rooms(OpStateless[Unit, Noted, str, Noted]):
    def on_item(self, key: Unit, value: Noted, emit: Callable[[str, Noted], None]) -> None:
        if value.sensor != "s3" and value.sensor in ROOMS:
            emit(ROOMS[value.sensor], value)


def noted() -> Plan:
    flow = Dataflow("noted")
    rows = flow.source("rows", U[Unit, Noted], markers=every(seconds=100, time=lambda r: r.at, delay=60))
    flow.sink("out", rows.through(Rooms()))
    return plan(check(flow), key_groups=2)


def scan_of(planned: Plan) -> tuple[ParquetScan, SourceKernel]:
    (link,) = links(planned.stages[0].region)
    assert isinstance(link, SourceLink)
    return ParquetScan(End(planned, planned.stages[0], link, [0, 1], SEND)), SourceKernel(planned.stages[0], link, 2)


def messages(path: Path) -> list[Any]:
    """What a stage is sent of the rows of a file."""
    scan, kernel = scan_of(noted())
    take = taker(scan.leaf, reader(scan.leaf.source).read)
    tables = scan.tables(str(path), 0, 1)
    sent = kernel.piece((1, 2, 0), chain.from_iterable(map(take, tables)), None)
    return [
        (m.group, decode(kernel.partitioner.stream, m.body.batch)) if isinstance(m.body, Items) else encode(m) for m in sent
    ]


def arrow_of(rows: list[Noted]) -> pa.Table:
    types = pa.schema(
        [
            ("sensor", pa.string()),
            ("note", pa.string()),
            ("raw", pa.binary()),
            ("unique", pa.string()),
            ("at", pa.int64()),
        ]
    )
    return pa.Table.from_pylist([attrs.asdict(row) for row in rows], types)


WRITTEN: dict[str, dict[str, Any]] = {
    "dictionaries": {},
    "plain": {"use_dictionary": False},
    "mixed": {"use_dictionary": ["note", "raw"]},
    "first version": {"version": "1.0", "data_page_version": "1.0"},
    "small dictionaries": {"dictionary_pagesize_limit": 20, "data_page_size": 64, "write_batch_size": 8},
}


@pytest.mark.parametrize("written", list(WRITTEN))
def test_how_a_file_holds_its_text_makes_no_difference(tmp_path: Path, written: str) -> None:
    pq.write_table(arrow_of(NOTED), tmp_path / "plain.parquet", use_dictionary=False, row_group_size=250)
    pq.write_table(arrow_of(NOTED), tmp_path / "some.parquet", row_group_size=250, **WRITTEN[written])
    assert messages(tmp_path / "some.parquet") == messages(tmp_path / "plain.parquet")


def write_two_kinds(path: Path) -> list[Noted]:
    """Two row groups; the second has no notes, and sensors that are all different."""
    second = [attrs.evolve(row, note=None, sensor=row.unique, at=row.at + len(NOTED)) for row in NOTED]
    with pq.ParquetWriter(path, arrow_of([]).schema) as writer:
        writer.write_table(arrow_of(NOTED))
        writer.write_table(arrow_of(second))
    return [*NOTED, *second]


def test_small_row_groups_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = write_two_kinds(tmp_path / "in.parquet")
    pq.write_table(arrow_of(rows), tmp_path / "plain.parquet", use_dictionary=False)
    assert messages(tmp_path / "in.parquet") == messages(tmp_path / "plain.parquet")
    scan, _ = scan_of(noted())
    for whole in scan.tables(str(tmp_path / "in.parquet"), 0, 1):
        for at, name in enumerate(arrow_of([]).column_names):
            assert whole.column(at).to_pylist() == [getattr(row, name) for row in rows]
    held = pq.read_metadata(tmp_path / "in.parquet")
    monkeypatch.setattr(limits, "TOGETHER", sum(held.row_group(at).total_byte_size for at in range(2)) - 1)
    assert [table.num_rows for table in scan.tables(str(tmp_path / "in.parquet"), 0, 1)] == [len(NOTED)] * 2


def test_text_that_repeats_is_read_as_a_dictionary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row group by row group: not where the file has none, nor where its values are mostly different."""
    monkeypatch.setattr(limits, "TOGETHER", 0)
    write_two_kinds(tmp_path / "in.parquet")
    scan, _ = scan_of(noted())
    columns = [[group.column(at) for at in range(5)] for group in scan.tables(str(tmp_path / "in.parquet"), 0, 1)]
    coded = [[pa.types.is_dictionary(column.type) for column in group] for group in columns]
    assert coded == [[True, True, True, False, False], [False, True, True, False, False]]
    assert columns[0][1].to_pylist() == [row.note for row in NOTED]
    assert columns[1][1].null_count == len(NOTED)
    pq.write_table(arrow_of(NOTED), tmp_path / "plain.parquet", use_dictionary=False)
    for plain in scan.tables(str(tmp_path / "plain.parquet"), 0, 1):
        assert not any(pa.types.is_dictionary(plain.column(at).type) for at in range(5))


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int16(), pa.large_string()),
    ],
    ids=str,
)
@pytest.mark.parametrize("coded", [True, False])
def test_text_of_another_width_is_text(tmp_path: Path, kind: Any, coded: bool) -> None:
    table = arrow_of(NOTED)
    for name in ("sensor", "note"):
        table = table.set_column(table.schema.get_field_index(name), name, table.column(name).cast(kind))
    pq.write_table(arrow_of(NOTED), tmp_path / "plain.parquet", use_dictionary=False)
    pq.write_table(table, tmp_path / "wide.parquet", use_dictionary=coded)
    assert messages(tmp_path / "wide.parquet") == messages(tmp_path / "plain.parquet")


def test_a_file_may_lack_text_that_is_optional(tmp_path: Path) -> None:
    pq.write_table(arrow_of(NOTED).drop_columns("note"), tmp_path / "in.parquet")
    scan, _ = scan_of(noted())
    for group in scan.tables(str(tmp_path / "in.parquet"), 0, 1):
        assert group.column(1).null_count == len(NOTED)
        assert group.column(0).to_pylist() == [row.sensor for row in NOTED]


def test_rows_one_by_one_are_shown_as_text(tmp_path: Path) -> None:
    """A row that is refused makes all of its row group come one by one."""
    table = arrow_of(NOTED)
    sensors = pa.array([None, *table.column("sensor").to_pylist()[1:]])
    pq.write_table(table.set_column(0, "sensor", sensors), tmp_path / "in.parquet")
    scan, _ = scan_of(noted())
    read = reader(scan.leaf.source).read
    tables = scan.tables(str(tmp_path / "in.parquet"), 0, 1)
    taken = list(chain.from_iterable(map(taker(scan.leaf, read), tables)))
    assert [one.row.kind for one in taken[:2] if isinstance(one, TakenRow)] == ["reject", "item"]
    assert [one.row.value for one in taken[1:] if isinstance(one, TakenRow)] == NOTED[1:]
    assert isinstance(taken[1], TakenRow)
    assert json.loads(taken[1].show())["note"] == "note 1"


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("at", pa.array(["1"] * 3)),
        ("at", pa.array([1.0] * 3)),
        ("sensor", pa.array([1] * 3)),
        ("sensor", pa.array([1, 1, 1]).dictionary_encode()),
        ("sensor", pa.array([["a"]] * 3)),
        ("sensor", pa.array([b"a"] * 3)),
        ("raw", pa.array(["a"] * 3)),
    ],
    ids=lambda one: str(getattr(one, "type", one)),
)
def test_TT203_a_later_file_whose_column_has_another_type(tmp_path: Path, name: str, column: Any) -> None:
    table = arrow_of(NOTED[:3])
    at = table.schema.get_field_index(name)
    pq.write_table(table.set_column(at, name, column), tmp_path / "in.parquet")
    scan, _ = scan_of(noted())
    with pytest.raises(RunError, match=f"TT203.*in.parquet: the column {name!r} is .*, expected "):
        next(scan.tables(str(tmp_path / "in.parquet"), 0, 1))


def test_TT203_a_later_file_with_two_columns_of_a_name(tmp_path: Path) -> None:
    table = arrow_of(NOTED[:3])
    pq.write_table(table.append_column("at", table["at"]), tmp_path / "in.parquet")
    scan, _ = scan_of(noted())
    with pytest.raises(RunError, match=r"TT203.*has 2 columns 'at'"):
        next(scan.tables(str(tmp_path / "in.parquet"), 0, 1))


@pytest.mark.parametrize(("name", "column"), [("at", pa.array([1] * 3, pa.int16())), ("sensor", pa.array(["a"] * 3))])
def test_types_that_differ_in_width_only_are_alike(tmp_path: Path, name: str, column: Any) -> None:
    table = arrow_of(NOTED[:3])
    at = table.schema.get_field_index(name)
    pq.write_table(table.set_column(at, name, column), tmp_path / "in.parquet")
    scan, _ = scan_of(noted())
    (read,) = [group.column(at) for group in scan.tables(str(tmp_path / "in.parquet"), 0, 1)]
    assert read.to_pylist() == column.to_pylist()
