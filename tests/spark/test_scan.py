"""Parquet is read by the workers or by Spark, and what Spark computes of it is what Python would have computed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tracetypes import Dataflow, OperatorFailed, OpStateless, U, Unit, check, every, interpret_rows
from tracetypes.compiler.plan import Plan, links
from tracetypes.compiler.planner import plan
from tracetypes.compiler.spark.files import SCAN, emitted
from tracetypes.compiler.spark.run import collect


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


def test_the_operator_becomes_columns_of_spark() -> None:
    (link,) = links(planned().stages[0].region)
    assert len(emitted(link)) == 2


@pytest.mark.parametrize("scan", ["workers", "spark"])
def test_a_row_for_which_python_raises_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scan: str
) -> None:
    monkeypatch.setenv(SCAN, scan)
    bad = Reading("s1", 50, 7, START + dt.timedelta(minutes=201))
    with pytest.raises(OperatorFailed, match=r"(?s)ZeroDivisionError.*limit=7"):
        collect(spark, planned(), {"rows": write(tmp_path, [*ROWS, bad])})
