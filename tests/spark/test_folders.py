"""Folders ``NAME=VALUE`` that Spark writes, a source reads; and those of a sink, Spark reads."""

from __future__ import annotations

from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tracetypes import Dataflow, Item, RunError, U, Unit, check, every, json_lines, parquet
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.files import SCAN
from tracetypes.compiler.spark.run import collect, run
from tracetypes.compiler.store.outputs import open_output
from tracetypes.formats import Format


@attrs.frozen
class Row:
    k: str | None
    n: int
    v: int
    ts: int


ROWS = [Row("a=b/%41 é", 1, 1, 1), Row(None, 2, 2, 2), Row("x:y", 1, 3, 3), Row("a=b/%41 é", 1, 4, 4)]
SCHEMA = "k string, n bigint, v bigint, ts bigint"


def flow_of(format: Format) -> Dataflow:
    flow = Dataflow("folders")
    rows = flow.source("rows", U[Unit, Row], markers=every(seconds=10, time=lambda row: row.ts))
    flow.sink("out", rows, format=format, partition_by=["k", "n"])
    return flow


@pytest.mark.parametrize("format", [parquet(), json_lines()], ids=lambda one: one.extension)
def test_folders_of_Spark_and_for_Spark(spark: SparkSession, tmp_path: Path, format: Format) -> None:
    frame = spark.createDataFrame([attrs.astuple(row) for row in ROWS], SCHEMA)
    kind = "parquet" if format.extension == "parquet" else "json"
    frame.write.partitionBy("k", "n").format(kind).save(str(tmp_path / "in"))
    planned = plan(check(flow_of(format)))
    found = collect(spark, planned, {"rows": str(tmp_path / "in")}).answer.trace.items
    assert sorted((one.value for one in found if isinstance(one, Item)), key=lambda row: row.v) == ROWS
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "c")
    run(spark, planned, {"rows": str(tmp_path / "in")}, open_output(planned, out, "run"), checkpoint=checkpoint)
    again = spark.read.schema(SCHEMA).format(kind).load(out)
    assert sorted((tuple(row) for row in again.select("k", "n", "v", "ts").collect()), key=lambda row: row[2]) == [
        attrs.astuple(row) for row in ROWS
    ]


def test_TT402_folders_of_files_that_Spark_reads_by_path(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of them is None without a word. A folder for a column that the files have does no harm."""
    monkeypatch.setenv(SCAN, "spark")
    planned = plan(check(flow_of(parquet())))
    for place, columns in (("has", {"k": ["x"], "n": [1]}), ("lacks", {"n": [1]})):
        (tmp_path / place / "k=a").mkdir(parents=True)
        pq.write_table(pa.table(columns | {"v": [1], "ts": [1]}), tmp_path / place / "k=a" / "f.parquet")
    found = collect(spark, planned, {"rows": str(tmp_path / "has")}).answer.trace.items
    assert [one.value for one in found if isinstance(one, Item)] == [Row("x", 1, 1, 1)]
    with pytest.raises(RunError, match=r"TT402 source 'rows': files at .* lie in folders for its columns \('k'\)"):
        collect(spark, planned, {"rows": str(tmp_path / "lacks")})
