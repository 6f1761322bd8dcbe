"""Graphs with several sinks and consumers: each sink has the trace of the whole graph, and late rows are told of once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark import dags
from tests.spark.support import Cli, all_defined, row, rows_in, rows_of, side_outputs, write_lines
from tests.spark.test_exactly_once import crash_and_go_on
from tracetypes import Dataflow, OperatorFailed, RunError, check
from tracetypes.check import Checked
from tracetypes.compiler.backend.run_options import Places
from tracetypes.compiler.backend.summary import Summary
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.spark.run import run_program
from tracetypes.compiler.store import file_channel
from tracetypes.compiler.store.file_channel import ChannelOutput
from tracetypes.compiler.store.output_interface import Output, SideOutputs
from tracetypes.compiler.store.outputs import FileOutput, open_output
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.compiler.store.topic_channel import Topics


class Job:
    """A program over a few files, as often as it takes."""

    def __init__(
        self, spark: SparkSession, path: Path, flow: Dataflow, files: int = 3, channels: Topics | None = None
    ) -> None:
        self.spark, self.path, self.channels = spark, path, channels
        self.checked: Checked = check(flow)
        self.program = program(self.checked, parallelism=2, key_groups=4)
        self.rows: dict[str, list[str]] = {source.name: [] for source in self.checked.graph.sources}
        for at, source in enumerate(self.rows):
            for number in range(files + at):  # sources of different length
                some = [row(id="abcd"[n % 4], ts=number * 10 + n - 2, watts=number + n) for n in range(12)]
                some += [row(id="late", ts=-40, watts=1), "{"] if number else []
                write_lines(path / source / f"{number}.jsonl", some, at=number + 1)
                self.rows[source] += some

    def __call__(self, *, drain: bool = True) -> Summary:
        late, rejects = self.path / "late", self.path / "rejects"

        def output(plan: Plan, run: str) -> Output:
            return open_output(plan, str(self.path / f"out-{plan.sink.name}"), run, str(late), str(rejects))

        places = Places(
            inputs={name: str(self.path / name) for name in self.rows},
            outputs={name: output for name in self.program.sinks},
            checkpoint=self.path / "checkpoint",
            side_outputs=lambda run: SideOutputs(late, rejects, run),
            topics=self.channels,
        )
        return run_program(self.spark, self.program, places, drain=drain, files_per_step=1)

    def at_several_parallelisms(self) -> None:
        """Run at one after the other, with more rows in between."""
        self(drain=False)
        for at, width in ((7, 4), (8, 1)):
            self.program = program(self.checked, parallelism=width, key_groups=4)
            some = [row(id="abcd"[n % 4], ts=at * 3 + n, watts=n) for n in range(6)]
            write_lines(self.path / "readings" / f"{at}.jsonl", some, at=at)
            self.rows["readings"] += some
            self(drain=at == 8)

    def is_right(self) -> None:
        traces, arranged = all_defined(self.checked, self.rows)
        for sink in self.checked.graph.sinks:
            found = rows_in(self.path / f"out-{sink.name}", "at")
            assert found == rows_of(self.checked, sink, traces[sink.name]), sink.name
        for name, one in arranged.items():
            late = Counter(item.reason for item in one.late)
            assert Counter(row["reason"] for row in side_outputs(self.path / "late", name)) == late
            rejects = Counter(reason for _, reason in one.rejects)
            assert Counter(row["reason"] for row in side_outputs(self.path / "rejects", name)) == rejects


@pytest.mark.repeated
@pytest.mark.parametrize("name", dags.FLOWS)
def test_every_sink_has_its_trace(spark: SparkSession, tmp_path: Path, name: str) -> None:
    job = Job(spark, tmp_path, dags.FLOWS[name]())
    summary = job()
    job.is_right()
    assert summary.rows == sum(map(len, job.rows.values()))
    assert summary.rejects == {name: len([line for line in lines if line == "{"]) for name, lines in job.rows.items()}


@pytest.mark.repeated
def test_TT212_a_program_that_is_finished(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, dags.two_sinks())
    job()
    with pytest.raises(RunError, match="is finished") as failed:
        job()
    assert failed.value.code == "TT212"


POINTS: dict[str, tuple[Any, str, bool, int]] = {
    "a channel has not been written": (ChannelOutput, "take", True, 1),
    "a channel has been written, nothing was committed": (ChannelOutput, "take", False, 1),
    "rows of a channel are there, its manifest is not": (file_channel, "take", False, 1),
    "a sink is about to be written": (FileOutput, "take", True, 2),
    "a batch is committed, Spark does not know": (RunStore, "commit", False, 4),
    "a query is finished, nobody knows": (RunStore, "finish", True, 1),
}


OFTEN = "a channel has been written, nothing was committed"


@pytest.mark.parametrize("point", [p if p == OFTEN else pytest.param(p, marks=pytest.mark.nightly) for p in POINTS])
def test_a_crash_at_any_point_of_a_program(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    crash_and_go_on(Job(spark, tmp_path, dags.diamond(), files=2), POINTS[point], monkeypatch)


@pytest.mark.repeated
def test_a_failure_stops_all_queries_and_tells_its_cause(spark: SparkSession, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    flag.write_text("")
    job = Job(spark, tmp_path, dags.fragile(str(flag)))
    write_lines(tmp_path / "readings/9.jsonl", bad := [row(id="z", ts=35, watts=-1)], at=9)
    job.rows["readings"] += bad
    for _ in range(2):
        with pytest.raises(OperatorFailed, match=r"Fragile.on_item raised ValueError: z is broken"):
            job()
        assert not spark.streams.active
    flag.unlink()
    job()
    job.is_right()


def test_the_command_line_runs_several_sinks(tmp_path: Path, cli: Cli) -> None:
    write_lines(tmp_path / "in/0.jsonl", [row(id="a", ts=1, watts=3), row(id="b", ts=2, watts=9), "{"])
    command = [
        "run",
        "tests.spark.dags:two_sinks_flow",
        "-i",
        f"readings={tmp_path / 'in'}",
        "-o",
        f"sums={tmp_path / 's'}",
    ]
    missing = cli(*command)
    assert (missing.code, "sink 'large' has no output" in missing.err) == (2, True)
    same = cli(*command, "-o", f"large={tmp_path / 's'}")
    assert (same.code, "sinks 'sums' and 'large' have one output" in same.err) == (2, True)
    done = cli(*command, "-o", f"large={tmp_path / 'l'}")
    assert done.code == 0, done.err
    assert sum(rows_in(tmp_path / "s", "at").values()) == 2
    assert sum(rows_in(tmp_path / "l", "at").values()) == 1
    assert f"1 rejected, with the reason of each in {tmp_path / 's/_rejects/readings'}" in done.err
    assert len(side_outputs(tmp_path / "s/_rejects", "readings")) == 1
