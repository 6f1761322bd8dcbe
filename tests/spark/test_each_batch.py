"""Functions as outputs of a run on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import tracetypes
from tests.local.test_each_batch import Store, write
from tests.local.test_streams import clicks, line
from tracetypes import Epoch, RunError, each_batch


def test_a_function_gets_the_same_rows_again(spark: SparkSession, tmp_path: Path) -> None:
    """The first time as a DataFrame. It fails when it has stored them."""
    store = Store()
    write(tmp_path / "in", 0, line("a", 1), line("b", 12))
    store.fails_at = 0

    def of_frame(rows: DataFrame, epoch: Epoch) -> None:
        assert isinstance(rows, DataFrame)
        assert rows.columns == ["key", "value", "until"]
        store(rows.toArrow(), epoch)

    def run(function: Any, rows: Any) -> None:
        outputs, inputs = {"counts": each_batch(function, rows=rows)}, {"clicks": str(tmp_path / "in")}
        tracetypes.run(clicks(), inputs, outputs, backend="spark", parallelism=2, checkpoint=tmp_path / "checkpoint", drain=False)

    with pytest.raises(RunError, match=r"TT209 the function of sink 'counts' failed with micro-batch 0: ValueError: the store"):
        run(of_frame, "spark")
    write(tmp_path / "in", 1, line("a", 13), line("b", 25))
    run(store, "arrow")
    assert store.calls[:2] == [0, 0]
    assert store.counts == {"a": 2, "b": 1}
