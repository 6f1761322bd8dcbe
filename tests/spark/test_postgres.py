"""Tables of a real PostgreSQL as sinks of a run on Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from pyspark.sql import SparkSession

from tests.local.test_each_batch import IN_ORDER, READINGS, sorted_readings, write
from tests.local.test_postgres import COUNTS, Base, run
from tests.local.test_streams import line
from tests.stdlib.postgres import Server
from tracetypes import RunError
from tracetypes.compiler.connectors.postgres_sink import PostgresSink


@pytest.fixture
def base(postgres: Server) -> Base:
    return Base(postgres, "spark")


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.nightly), "after"])
def test_a_killed_run_loses_no_row_and_doubles_none(
    spark: SparkSession, base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """It is killed around the transaction of its second micro-batch with rows."""
    real, calls = PostgresSink._write, list[int]()

    def put(*args: Any) -> None:
        calls.append(0)
        if len(calls) == 2 and when == "before":
            raise ValueError("killed")
        real(*args)
        if len(calls) == 2:
            raise ValueError("killed")

    for number, rows in enumerate([[("a", 1), ("b", 12)], [("a", 13), ("b", 25)], [("a", 26), ("b", 38)]]):
        write(tmp_path / "in", number, *(line(page, ts) for page, ts in rows))
    options: dict[str, Any] = {"backend": "spark", "parallelism": 2}
    with monkeypatch.context() as patch:
        patch.setattr(PostgresSink, "_write", put)
        with pytest.raises(RunError, match="killed"):
            run(base.address(), tmp_path, **options)
    assert len(calls) == 2
    assert len(base.rows("SELECT * FROM counts")) == (1 if when == "before" else 3)
    run(base.address(), tmp_path, **options)
    assert base.rows(COUNTS) == [("a", 3), ("b", 3)]
    assert base.rows("SELECT count(*)::int FROM counts") == [(6,)]


def test_positions_and_rows_by_key(spark: SparkSession, base: Base, tmp_path: Path) -> None:
    write(tmp_path / "in", 0, *(json.dumps(attrs.asdict(row)).encode() + b"\n" for row in READINGS))
    for mode in ("append", "upsert"):
        address = base.address(table=mode, mode=mode)
        run(address, tmp_path, sorted_readings(), backend="spark", parallelism=2, checkpoint=tmp_path / mode)
    rows = base.rows("SELECT extract(epoch FROM until)::int, place::int, name FROM append ORDER BY until, place")
    assert rows == IN_ORDER
    assert base.rows("SELECT key, name FROM upsert") == [("one", "z")]
