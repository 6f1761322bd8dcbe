"""Parquet files of several shapes, read by the workers and by Spark."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tracetypes import Dataflow, Item, U, check, column, every
from tracetypes import stdlib as ts
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.files import SCAN
from tracetypes.compiler.spark.run import collect


@attrs.frozen
class Inner:
    a: int
    b: str | None


@attrs.frozen
class Renamed:
    a: Annotated[str, column("b")]
    b: Annotated[str, column("a")]


@attrs.frozen
class Row:
    k: str
    inner: Inner
    more: list[Inner]
    ts: int


@pytest.mark.parametrize("scan", ["workers", "spark"])
def test_structs_match_by_name(
    spark: SparkSession, tmp_path: Path, scan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another order, with further fields, and without an optional one; a decimal without digits behind the point is an int."""
    monkeypatch.setenv(SCAN, scan)
    inner = pa.struct([("c", pa.int64()), ("b", pa.string()), ("a", pa.decimal128(18, 0))])
    more = pa.list_(pa.struct([("a", pa.int32())]))
    rows = [{"k": "x", "inner": {"a": Decimal(1), "b": "z", "c": 9}, "more": [{"a": 2}, {"a": 3}], "ts": 5}]
    schema = pa.schema([("ts", pa.int64()), ("inner", inner), ("more", more), ("k", pa.string())])
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "in.parquet")
    flow = Dataflow("structs")
    flow.sink("out", flow.source("rows", U[str, Row], key=lambda r: r.k, markers=every(seconds=60, time=lambda r: r.ts)))
    found = collect(spark, plan(check(flow)), {"rows": str(tmp_path / "in.parquet")}).answer.trace.items
    wanted = Row("x", Inner(1, "z"), [Inner(2, None), Inner(3, None)], 5)
    assert [one.value for one in found if isinstance(one, Item)] == [wanted]


@attrs.frozen
class Named:
    _k: str
    n: Annotated[int, column("a.b`")]
    inner: Annotated[Inner, column("_file")]
    more: list[Renamed]
    ts: Annotated[int, column("@timestamp")]


@pytest.mark.parametrize("scan", ["workers", "spark"])
def test_columns_have_other_names_than_fields(
    spark: SparkSession, tmp_path: Path, scan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SCAN, scan)
    row = {"_k": "x", "a.b`": 7, "_file": {"a": 1, "b": "z"}, "more": [{"b": "1", "a": "2"}], "@timestamp": 5}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "in.parquet")
    flow = Dataflow("names")
    rows = flow.source("rows", U[str, Named], key=lambda r: r._k, markers=every(seconds=60, time=lambda r: r.ts))
    flow.sink("out", rows.through(ts.filter(lambda _, r: r.n == 7)))
    found = collect(spark, plan(check(flow)), {"rows": str(tmp_path / "in.parquet")}).answer.trace.items
    wanted = Named("x", 7, Inner(1, "z"), [Renamed(a="1", b="2")], 5)
    assert [one.value for one in found if isinstance(one, Item)] == [wanted]
