"""Runs that stop and go on with another number of tasks: the same trace, and the state goes along."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark import dags
from tests.spark.support import all_defined, row, rows_in, rows_of, side_outputs, write_lines
from tests.spark.test_exactly_once import Crash, crashing
from tracetypes import Dataflow, RunError, check
from tracetypes.compiler.backend.run_options import Places
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.spark.run import run_program
from tracetypes.compiler.store.output_interface import Output, SideOutputs
from tracetypes.compiler.store.outputs import FileOutput, open_output
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.compiler.store.topic_channel import Topics


class Growing:
    """A run whose input grows, at a parallelism that changes. ``channels``: topics instead of files."""

    channels: Topics | None = None

    def __init__(self, spark: SparkSession, path: Path, flow: Dataflow) -> None:
        self.spark, self.path, self.checked = spark, path, check(flow)
        self.lines: list[str] = []

    def more(self, files: int = 1) -> None:
        """More rows, some late."""
        for _ in range(files):
            number = len(list((self.path / "in").glob("*"))) if self.lines else 0
            some = [row(id=f"k{n % 11}", ts=number * 10 + n // 4, watts=n % 7) for n in range(44)]
            some += [row(id="late", ts=-40, watts=1)] if number else []
            write_lines(self.path / f"in/{number:03d}.jsonl", some, at=number + 1)
            self.lines += some

    def __call__(self, parallelism: int, *, drain: bool = False) -> list[str]:
        """A run; what it says of a changed graph."""

        def output(plan: Plan, run: str) -> Output:
            late, rejects = str(self.path / "late"), str(self.path / "rejects")
            return open_output(plan, str(self.path / f"out-{plan.sink.name}"), run, late, rejects)

        said: list[str] = []
        compiled = program(self.checked, parallelism=parallelism, key_groups=8)
        places = Places(
            inputs={"readings": str(self.path / "in")},
            outputs={name: output for name in compiled.sinks},
            checkpoint=self.path / "checkpoint",
            side_outputs=lambda run: SideOutputs(self.path / "late", self.path / "rejects", run),
            topics=self.channels,
        )
        run_program(self.spark, compiled, places, files_per_step=1, drain=drain, notify=said.append)
        return [line for line in said if not line.startswith("TT242")]  # some rows are late

    def tasks(self) -> set[int | None]:
        """In how many parts the state of each query lies."""
        root = self.path / "checkpoint"
        found: set[int | None] = set()
        for path in [*root.glob("queries/*")] or [root]:
            found.add(SparkLog(path).tasks)
        return found

    def is_right(self) -> None:
        traces, arranged = all_defined(self.checked, {"readings": self.lines})
        for sink in self.checked.graph.sinks:
            found = rows_in(self.path / f"out-{sink.name}", "at")
            assert found == rows_of(self.checked, sink, traces[sink.name]), sink.name
        late = Counter(one.reason for one in arranged["readings"].late)
        assert Counter(one["reason"] for one in side_outputs(self.path / "late", "readings")) == late
        assert late


@pytest.mark.parametrize(
    "flow",
    [dags.chain, pytest.param(dags.two_sinks, marks=pytest.mark.nightly), dags.straight],
    ids=lambda flow: flow.__name__,
)
def test_two_tasks_then_four_then_one(spark: SparkSession, tmp_path: Path, flow: Callable[[], Dataflow]) -> None:
    job = Growing(spark, tmp_path, flow())
    stateful = flow is not dags.straight
    for parallelism in (2, 4):
        job.more()
        job(parallelism)
        assert job.tasks() <= {parallelism if stateful else None, None}  # None: nothing has reached a query yet
    job.more()
    job(1, drain=True)
    assert job.tasks() == {1 if stateful else None}
    job.is_right()


POINTS: dict[str, tuple[Any, str, bool]] = {
    "the batch is not committed": (FileOutput, "take", False),
    "the batch is committed, Spark does not know": (RunStore, "commit", False),
}


@pytest.mark.nightly  # the test below has a crash during a rescale every time
@pytest.mark.parametrize("point", POINTS)
def test_a_batch_that_was_under_way_ends_first(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    job = Growing(spark, tmp_path, dags.chain())
    job.more(2)
    owner, name, first = POINTS[point]
    with monkeypatch.context() as broken:
        broken.setattr(owner, name, crashing(1, getattr(owner, name), first=first))
        with pytest.raises((Crash, RunError)):
            job(2)
    job.more()
    job(4)
    assert job.tasks() == {4}
    job(2, drain=True)
    job.is_right()


@pytest.mark.nightly
def test_a_rescale_without_a_record_is_known(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends right after the state was spread anew: the newest times before are found all the same. A record that is
    gone is no rescale."""
    job = Growing(spark, tmp_path, dags.chain())
    job.more(2)
    job(2)
    with monkeypatch.context() as broken:
        broken.setattr(SparkLog, "repartition", crashing(0, SparkLog.repartition, first=False))
        with pytest.raises(Crash):
            job(4)
    job.more()
    *_, newest = sorted((tmp_path / "checkpoint/commits").iterdir())
    newest.rename(tmp_path / "record")
    with pytest.raises(RunError, match=f"TT227 .*{newest.name}.*its commit record is gone"):
        job(4, drain=True)
    (tmp_path / "record").rename(newest)
    job(4, drain=True)
    job.is_right()
