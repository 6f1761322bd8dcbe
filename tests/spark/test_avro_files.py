"""Files of Avro, read by the workers of Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.test_avro_files import NOON, flow_of, orders, write
from tracetypes import RunError, check
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.run import collect
from tracetypes.compiler.store import input_files
from tracetypes.trace import Item


def test_a_file_is_read_in_parts(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With some rows as columns, and all as they were written."""
    monkeypatch.setattr(input_files, "LARGE", 2_000)
    write(tmp_path / "in" / "0.avro", orders(500), sync_interval=400)
    answer = collect(spark, plan(check(flow_of()), parallelism=2, key_groups=4), {"orders": str(tmp_path / "in")}).answer
    found = [one.value for one in answer.trace if isinstance(one, Item)]
    assert sorted(found, key=lambda one: one.ts) == orders(500)
    assert NOON in [one.at for one in found]


def test_TT402_what_spark_reads_itself(spark: SparkSession) -> None:
    with pytest.raises(RunError, match=r"TT402 .*no files of Avro"):
        collect(spark, plan(check(flow_of())), {"orders": "hdfs://host/in.avro"})
