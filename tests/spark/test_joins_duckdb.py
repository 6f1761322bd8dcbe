"""All kinds of joins on Spark against DuckDB: many random inputs in one run, each with its own keys, to the end."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tracetypes
from tests.spark.test_windows_duckdb import key_of, rows_of
from tests.stdlib.small import Event
from tracetypes import Dataflow, U, every

joins: Any = pytest.importorskip("tests.stdlib.test_joins_duckdb")

IN_CI = ("window_join, full", "window_join by own time, left")


def agree(kinds: list[str], number: int) -> None:
    chance, flow = random.Random(number), Dataflow("joins")
    inputs: dict[str, list[Event]] = {}
    outputs: dict[str, list[Any]] = {}
    expected: dict[str, Counter[tuple[Any, ...]]] = {}
    for at, kind in enumerate(kinds):
        setting, _, _ = joins.setting_of(kind, number)
        markers = every(seconds=setting.period, delay=setting.delay, time=joins.second)
        names = [f"{side}-{at}" for side in ("left", "right")]
        left, right = (flow.source(name, U[str, Event], markers=markers, key=key_of) for name in names)
        flow.sink(f"out-{at}", setting.join(left, right))
        inputs |= {name: rows_of(chance) for name in names}
        lefts, rights = (joins.windows.in_time(inputs[name], setting.period, setting.delay) for name in names)
        outputs[f"out-{at}"] = []
        rows = joins.wanted(setting.sql, lefts, rights).elements()
        expected[kind] = Counter(row[1:] for row in rows)  # without the marker
    tracetypes.run(flow, inputs=inputs, outputs=outputs, parallelism=2, key_groups=4)
    for at, kind in enumerate(kinds):
        assert Counter((key, *joins.shown(value)) for key, value in outputs[f"out-{at}"]) == expected[kind], kind
        assert expected[kind].total() > 0, kind


@pytest.mark.nightly  # by day on the local backend
def test_joins_on_spark_are_those_of_duckdb(spark: SparkSession) -> None:
    agree([kind for kind in joins.KINDS if kind in IN_CI], 0)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(12))
def test_all_joins_on_spark_are_those_of_duckdb(spark: SparkSession, part: int) -> None:
    agree([*joins.KINDS][part::12], part)
