"""Rows that workers put into files themselves are those that would have come to the driver."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import attrs
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark import flows
from tests.spark.support import defined, row, rows_at_sink, rows_in, side_outputs, write_lines
from tracetypes import RunError, check
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.run import run
from tracetypes.compiler.store import staging
from tracetypes.compiler.store.outputs import FileOutput, NoOutput


def lines_of(directory: Path) -> list[str]:
    """Two files with readings, late rows and rejects; all their lines."""
    all_lines: list[str] = []
    for number in range(2):
        some = [row(id="abcdefgh"[n % 8], ts=number * 10 + n % 10, watts=number + n) for n in range(200)]
        some += [row(id="late", ts=-40, watts=n) for n in range(30)] if number else []
        some += ["{", "no row"]
        write_lines(directory / f"{number}.jsonl", some, at=number + 1)
        all_lines += some
    return all_lines


@pytest.mark.parametrize("name", ["delayed", "straight"])
@pytest.mark.parametrize("inline", [0, staging.INLINE])
def test_what_workers_write_is_what_the_driver_would_write(
    spark: SparkSession, tmp_path: Path, name: str, inline: int
) -> None:
    lines = lines_of(tmp_path / "in")
    checked = check(getattr(flows, name))
    planned = plan(checked, parallelism=2, key_groups=4)
    output = FileOutput(planned, str(tmp_path / "out"), "run", None, None)
    output.delivery = attrs.evolve(output.delivery, inline=inline)
    given = {"readings": str(tmp_path / "in")}
    summary = run(spark, planned, given, output, checkpoint=str(tmp_path / "checkpoint"), files_per_step=1)
    trace, arranged = defined(checked, {"readings": lines})
    times = ("at",) if checked.graph.sinks[0].marker else ()
    assert rows_in(tmp_path / "out", *times) == rows_at_sink(checked, trace)
    late = Counter(one.reason for one in arranged["readings"].late)
    assert Counter(one["reason"] for one in side_outputs(tmp_path / "out/_late", "readings")) == late
    assert summary.late == {"readings": sum(late.values())}
    rejects = Counter((reason, text) for text, reason in arranged["readings"].rejects)
    found = Counter((one["reason"], one["row"]) for one in side_outputs(tmp_path / "out/_rejects", "readings"))
    assert {reason for reason, _ in found} == {reason for reason, _ in rejects}
    assert sum(found.values()) == sum(rejects.values()) == summary.rejects["readings"]
    assert late
    names = {path.name for path in (tmp_path / "out").glob("part-*")}
    assert (len(names) > summary.batches) == (inline == 0 and name == "delayed")  # a file for each key group
    assert not list((tmp_path / "out/_tracetypes").glob("*"))


def test_files_of_many_groups_are_named_apart(spark: SparkSession, tmp_path: Path) -> None:
    """Each key group stages a file of its own; none replaces another."""
    lines = lines_of(tmp_path / "in")
    checked = check(flows.delayed)
    planned = plan(checked, parallelism=2, key_groups=4)
    output = FileOutput(planned, str(tmp_path / "out.parquet"), "run", None, None)
    output.delivery = attrs.evolve(output.delivery, inline=0)
    run(spark, planned, {"readings": str(tmp_path / "in")}, output, checkpoint=str(tmp_path / "checkpoint"))
    parts = sorted((tmp_path / "out.parquet").glob("part-*.parquet"))
    assert len(parts) > 1
    trace, _ = defined(checked, {"readings": lines})
    assert sum(pq.read_metadata(part).num_rows for part in parts) == sum(rows_at_sink(checked, trace).values())
    assert {name for part in parts for name in pq.read_schema(part).names} >= {"at"}


def test_TT209_a_directory_that_workers_cannot_write(spark: SparkSession, tmp_path: Path) -> None:
    lines_of(tmp_path / "in")
    planned = plan(check(flows.delayed), parallelism=2, key_groups=4)
    output = FileOutput(planned, str(tmp_path / "out"), "run", None, None)
    (tmp_path / "file").write_text("")
    output.delivery = attrs.evolve(output.delivery, inline=0, directory=str(tmp_path / "file/below"))
    with pytest.raises(RunError, match=r"the output cannot be written: .*file/below: Not a directory") as failed:
        run(spark, planned, {"readings": str(tmp_path / "in")}, output, checkpoint=str(tmp_path / "checkpoint"))
    assert failed.value.code == "TT209"


def test_nothing_is_kept_where_nothing_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    lines_of(tmp_path / "in")
    planned = plan(check(flows.delayed), parallelism=2, key_groups=4)
    summary = run(
        spark, planned, {"readings": str(tmp_path / "in")}, NoOutput(planned), checkpoint=str(tmp_path / "checkpoint")
    )
    assert summary.rejects == {"readings": 4}
    assert json.loads((tmp_path / "checkpoint/commits/00000000.json").read_text())["complete"]
    assert summary.batches == 1  # the end of the sources came with the files


def test_another_directory_between_runs(spark: SparkSession, tmp_path: Path) -> None:
    """The run goes on into that, and what is in the first one stays."""
    checked = check(flows.delayed)
    planned = plan(checked, parallelism=2, key_groups=4)
    lines = [row(id="ab"[n % 2], ts=n, watts=n) for n in range(60)]
    for number, name in enumerate(("one", "two")):
        write_lines(tmp_path / f"in/{number}.jsonl", lines[30 * number : 30 * number + 30], at=number + 1)
        output = FileOutput(planned, str(tmp_path / name), "run", None, None)
        given = {"readings": str(tmp_path / "in")}
        run(spark, planned, given, output, checkpoint=str(tmp_path / "checkpoint"), drain=number == 1)
    trace, _ = defined(checked, {"readings": lines})
    first, second = (rows_in(tmp_path / name, "at") for name in ("one", "two"))
    assert first
    assert second
    assert first + second == rows_at_sink(checked, trace)
