"""All kinds of windows on Spark against DuckDB: many random inputs in one run, each with its own keys, to the end."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tracetypes
from tests.stdlib.small import Event
from tracetypes import Dataflow, Item, U, every, merge

duckdb_tests: Any = pytest.importorskip("tests.stdlib.test_windows_duckdb")

INPUTS = 30
"""Random inputs of each kind."""


def rows_of(chance: random.Random) -> list[Event]:
    """Rows in the order in which they come: some far behind others that are newer."""
    drawn = [
        (Event(f"{one}-{chance.choice('abc')}", chance.randint(-40, 90), chance.randint(-9, 9)), chance.randint(0, 25))
        for one in range(INPUTS)
        for _ in range(chance.randint(0, 40))
    ]
    return [row for row, _ in sorted(drawn, key=lambda pair: pair[0].ts + pair[1])]


def key_of(event: Event) -> str:
    return event.key


@pytest.mark.nightly  # by day on the local backend
@pytest.mark.parametrize("number", range(3))
def test_windows_on_spark_are_those_of_duckdb(spark: SparkSession, number: int) -> None:
    chance, flow = random.Random(number), Dataflow("windows")
    inputs: dict[str, list[Event]] = {}
    outputs: dict[str, list[Any]] = {}
    expected: dict[str, Counter[tuple[Any, ...]]] = {}
    for at, kind in enumerate(duckdb_tests.KINDS):
        setting, _, _ = duckdb_tests.setting_of(kind, number)
        markers = every(seconds=setting.period, delay=setting.delay, time=duckdb_tests.second)
        names = [f"s{at}-{one}" for one in range(setting.sources)]
        streams = [flow.source(name, U[str, Event], markers=markers, key=key_of) for name in names]
        flow.sink(f"out-{at}", setting.windows(merge(*streams) if len(streams) > 1 else streams[0]))
        inputs |= {name: rows_of(chance) for name in names}
        known = [row for name in names for row in duckdb_tests.in_time(inputs[name], setting.period, setting.delay)]
        outputs[f"out-{at}"], expected[kind] = [], duckdb_tests.wanted(setting.sql, known)
    tracetypes.run(flow, inputs=inputs, outputs=outputs, parallelism=2, key_groups=4)
    for at, kind in enumerate(duckdb_tests.KINDS):
        found = Counter(duckdb_tests.shown(Item(key, value)) for key, value in outputs[f"out-{at}"])
        assert found == expected[kind], kind
        assert expected[kind].total() > INPUTS
