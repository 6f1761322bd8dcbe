"""Frames of the program as inputs of a run on Spark, and static DataFrames of Spark in an order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tracetypes
from tests.local.test_data_frames import TABLE, numbered, read
from tests.local.test_streams import COUNTS, clicks
from tracetypes import RunError, UsageError
from tracetypes.compiler.store.outputs import FileOutput
from tracetypes.spark import ordered


def test_a_frame(spark: SparkSession) -> None:
    rows: list[Any] = []
    table = TABLE.set_column(1, "page", TABLE["page"].dictionary_encode())
    result = tracetypes.run(clicks(), {"clicks": table}, {"counts": rows}, backend="spark", parallelism=2)
    assert sorted(rows) == COUNTS
    assert (result.read, result.late, result.rejects) == ({"clicks": 5}, {"clicks": 1}, {"clicks": 1})


@pytest.mark.nightly
def test_a_run_that_was_killed_goes_on(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With visible rows, and then with the same rows alone, in the order of a column of a DataFrame of Spark."""
    take = FileOutput.take

    def killed(*args: Any) -> Any:
        take(*args)
        raise ValueError("killed")

    def run(frame: Any) -> Any:
        outputs = {"numbers": str(tmp_path / "out")}
        return tracetypes.run(numbered(), {"readings": frame}, outputs, backend="spark", parallelism=2)

    times = [n // 300 for n in range(3000)]
    with monkeypatch.context() as patch:
        patch.setattr(FileOutput, "take", killed)
        with pytest.raises(RunError, match="killed"):
            run(pa.table({"ts": times}))
    with pytest.raises(RunError, match="TT218 source 'readings': the run has taken 0 of the 3,000 rows of its frame"):
        run(pa.table({"ts": [*times[:-1], 12]}))
    frame = spark.createDataFrame(list(zip(times, range(3000), strict=True)), "ts long, number long").repartition(3)
    run(ordered(frame, by="number"))
    assert read(tmp_path / "out") == list(range(1, 3001))


def test_frames_of_spark_that_are_refused(spark: SparkSession) -> None:
    stream, table = spark.readStream.format("rate").load(), spark.range(3)
    with pytest.raises(UsageError, match=r"(?s)TT402 a streaming DataFrame .* tracetypes.spark.transform"):
        ordered(stream, by="value")
    with pytest.raises(RunError, match="TT203 the DataFrame has no column 'number'; it has 'id'"):
        ordered(table, by="number")
    with pytest.raises(UsageError, match="TT402 ordered takes a DataFrame of PySpark"):
        ordered([1], by="number")  # type: ignore[arg-type]
    for given, said in [(table, "rows have no order"), (stream, "is a streaming DataFrame")]:
        inputs: Any = {"clicks": given}
        with pytest.raises(UsageError, match=f"TT402 .*{said}"):
            tracetypes.run(clicks(), inputs, {"counts": []}, backend="spark")
