"""A traced operator that is not what its Python is: found while it runs, done again in Python, said, and not told as success."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark import fooled
from tests.spark.support import Cli, all_defined, row, rows_in, rows_of, write_lines
from tracetypes import Dataflow, check
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.run import run
from tracetypes.compiler.store.outputs import open_output

LINES = [row(user=n % 200, cents=n % 97, ts=n // 20) for n in range(4_000)]


def meant(flow: Dataflow, lines: list[str] = LINES) -> dict[str, Counter[str]]:
    """What Python says."""
    checked = check(flow)
    traces, _ = all_defined(checked, {"events": lines})
    return {sink.name: rows_of(checked, sink, traces[sink.name]) for sink in checked.graph.sinks}


def files(directory: Path, parts: int = 4) -> Path:
    size = len(LINES) // parts
    for at in range(parts):
        write_lines(directory / f"{at}.jsonl", LINES[at * size : (at + 1) * size], at=1_600_000_000 + at)
    return directory


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("prices", "Price.on_item"),
        pytest.param("totals", "Price.on_item", marks=pytest.mark.nightly),
        pytest.param("growth", "Price.on_item", marks=pytest.mark.nightly),
        ("forked", "Price.on_item"),
    ],
)
def test_an_operator_that_differs(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, operator: str
) -> None:
    flow: Dataflow = getattr(fooled, name)
    expected = meant(flow)
    monkeypatch.setattr(fooled, "RATE", 2)
    outputs = [part for sink in expected for part in ("-o", f"{sink}={tmp_path / sink}")]
    arguments = ("run", f"tests.spark.fooled:{name}", "-i", f"events={files(tmp_path / 'in')}", "-p", 2, *outputs)
    ran = cli(*arguments, "--quiet")
    assert ran.code == 1
    assert f"TT240 warning: the traced form of {operator} differs from its Python" in ran.err
    assert "nothing of this run was committed" in ran.err
    assert ran.err.splitlines()[-1] == f"TT240: traced answers of {seen(ran.err)} differed from Python, see above"
    for sink, rows in expected.items():
        assert rows_in(tmp_path / sink) == rows


def seen(text: str) -> str:
    """The operators that warnings name, each once."""
    lines = [line for line in text.splitlines() if line.startswith("TT240 warning")]
    return ", ".join(dict.fromkeys(line.split("form of ")[1].split(" ")[0] for line in lines))


def test_nobody_looks(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fooled, "RATE", 2)
    arguments = ("-i", f"events={files(tmp_path / 'in')}", "-o", f"totals={tmp_path / 'out'}")
    ran = cli("run", "tests.spark.fooled:prices", *arguments, "--no-verify")
    assert ran.code == 0, ran.err
    assert rows_in(tmp_path / "out") == meant(fooled.prices)["totals"]  # RATE is 2 in this process: the traced answer


def test_what_spark_computes_is_compared(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [[json.loads(line)[name] for line in LINES] for name in ("user", "cents", "ts")]
    pq.write_table(pa.table(columns, names=["user", "cents", "ts"]), tmp_path / "in.parquet")
    expected = meant(fooled.totals)["totals"]
    monkeypatch.setenv("TRACETYPES_SCAN", "spark")
    monkeypatch.setattr(fooled, "RATE", 2)
    arguments = ("-i", f"events={tmp_path / 'in.parquet'}", "-o", f"totals={tmp_path / 'out'}")
    ran = cli("run", "tests.spark.fooled:totals", *arguments)
    assert ran.code == 1
    assert "the traced form of Price.on_item differs" in ran.err
    assert rows_in(tmp_path / "out") == expected


def test_a_difference_that_shows_later_and_a_run_that_goes_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed before stays, and is named; nothing of the epoch that differs is."""
    expected = meant(fooled.inflation)["totals"]
    with monkeypatch.context() as fooling:
        fooling.setattr(fooled, "RATE", 2)
        planned = attrs.evolve(plan(check(fooled.inflation), parallelism=2, key_groups=2), verify_every=1)
    said: list[str] = []
    output = open_output(planned, str(tmp_path / "out"), "run", None, None)
    options: dict[str, Any] = {"checkpoint": str(tmp_path / "kept"), "files_per_step": 1, "notify": said.append}
    summary = run(spark, planned, {"events": str(files(tmp_path / "in"))}, output, drain=False, **options)
    assert [one.name for one in summary.differences] == ["Inflation.on_marker"]
    assert summary.verified[0] > 0
    (warning,) = said
    assert "before:   micro-batches 0 to 1, answers up to 1970-01-01 00:01:30Z of this run" in warning
    summary = run(spark, planned, {"events": str(tmp_path / "in")}, output, **options)
    assert not summary.differences
    assert said[1:] == ["goes on; Inflation.on_marker runs in Python: its traced form differed"]
    assert rows_in(tmp_path / "out") == expected
