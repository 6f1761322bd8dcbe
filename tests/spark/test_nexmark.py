"""Nexmark, queries 0 to 8, in one run on Spark: the rows that the interpreter defines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pytest
from pyspark.sql import SparkSession

import tracetypes
from examples import nexmark, nexmark_data
from examples.nexmark import Auction, Bid, Person
from tracetypes import UNIT, Item, check, interpret_rows

SMALL: dict[str, Any] = {"rate": 50, "hot": 10, "active": 40, "in_flight": 20}


def text(row: Any) -> str:
    """A row of an output list: a pair of key and value, or a value whose key is Unit."""
    key, value = row if isinstance(row, tuple) else (UNIT, row)
    return f"{key}: {attrs.asdict(value) if attrs.has(type(value)) else value}"


@pytest.mark.nightly  # the local backend has it every time, and Spark the six queries of Yahoo
def test_nine_queries_of_one_run_mean_on_spark_what_they_mean(spark: SparkSession, tmp_path: Path) -> None:
    kinds: dict[str, Any] = {"persons": Person, "auctions": Auction, "bids": Bid}
    tables = nexmark_data.tables(3_000, seed=4, **SMALL)
    rows = {name: [kinds[name](**row) for row in table.to_pylist()] for name, table in tables.items()}
    traces, _ = interpret_rows(check(nexmark.flow), rows)
    nexmark_data.write(tmp_path, 3_000, files=1, seed=4, **SMALL)
    outputs: dict[str, list[Any]] = {f"query_{number}": [] for number in range(9)}
    inputs = {name: str(tmp_path / name) for name in kinds}
    result = tracetypes.run(nexmark.flow, inputs=inputs, outputs=outputs, parallelism=2, key_groups=4)
    assert result.rows == 3_000
    for name, trace in traces.items():
        wanted = Counter(text((one.key, one.value)) for one in trace.items if isinstance(one, Item))
        assert Counter(map(text, outputs[name])) == wanted, name
        assert wanted.total() > 2, name
