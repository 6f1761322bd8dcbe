"""TPCx-BB in one run on Spark: the rows that DuckDB counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tracetypes
from examples import tpcx_bb, tpcx_bb_data
from tests.test_tpcx_bb import DAYS, GIVEN, KINDS, NUMBERS, SMALL, Rows, generated, pairs_of, tables, wanted


def without_markers(rows: Rows) -> Rows:
    return Counter(row[1:] for row in rows.elements())


@pytest.mark.nightly  # the local backend has it every time, and Spark the six queries of Yahoo
@pytest.mark.parametrize("numbers", [(2, 15), NUMBERS])
def test_queries_mean_on_spark_what_duckdb_counts(spark: SparkSession, tmp_path: Path, numbers: tuple[int, ...]) -> None:
    tpcx_bb_data.write(tmp_path, clicks=2_500, lines=3_000, files=2, days=DAYS, users=60, seed=2, **SMALL)
    expected = wanted(generated(2))
    graph = tpcx_bb.dataflow(*numbers, those=tables(), given=GIVEN)
    outputs: dict[str, list[Any]] = {f"query_{number}": [] for number in numbers}
    inputs = {name: str(tmp_path / name) for name in KINDS}
    result = tracetypes.run(graph, inputs=inputs, outputs=outputs, backend="spark", parallelism=2, key_groups=4)
    assert (result.rows, result.drained) == (5_500, True)
    for number in numbers:
        assert pairs_of(outputs[f"query_{number}"]) == without_markers(expected[number]), number
