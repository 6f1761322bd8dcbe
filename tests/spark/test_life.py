"""Operations on a run's life, drawn: starts, stops, crashes, second starts, changed inputs and graphs, and a model beside it.

In one process, on the session that is here; with real processes: ``benchmarks/torture.py``.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from pyspark.sql import SparkSession

from tests.spark.life import DRAWN, FLOWS, GRAPHS, OPERATIONS, REFUSED, Ended, Life, Start
from tests.spark.test_exactly_once import POINTS, Crash, crashing
from tracetypes import check
from tracetypes.compiler.backend.run_options import Places
from tracetypes.compiler.local.log import LocalLog
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.program import Program, program
from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.spark.run import Batch, run_program
from tracetypes.compiler.store.output_interface import Output, SideOutputs
from tracetypes.compiler.store.outputs import open_output
from tracetypes.errors import TraceTypesError

Point = tuple[Any, str, bool, int]
"""An object and the name of a function of it; whether the crash comes before it; how often it is done before that."""

PROGRAMS: dict[tuple[str, int], Program] = {}


def compiled(name: str, version: int) -> Program:
    """A graph, ready to run."""
    if (name, version) not in PROGRAMS:
        PROGRAMS[name, version] = program(check(FLOWS[name, version]), parallelism=2, key_groups=3)
    return PROGRAMS[name, version]


class InProcess:
    """Starts runs on a session, or on another backend. ``until``: ``stop`` is Ctrl-C, all else a point at which a batch
    crashes."""

    def __init__(self, spark: SparkSession, points: Mapping[str, Point]) -> None:
        self.spark, self.points = spark, points

    def __call__(self, life: Life, start: Start) -> Ended:
        with pytest.MonkeyPatch.context() as broken:
            if start.until in self.points:
                owner, name, first, _ = self.points[start.until]
                broken.setattr(owner, name, crashing(start.after, getattr(owner, name), first=first))
            return self.run(life, start)

    def run(self, life: Life, start: Start) -> Ended:
        left, second = [start.after], list[str]()

        def told(batch: Batch) -> None:
            left[0] -= 1
            if start.second and not second:
                second.append(self.second(life, start))
            if left[0] == -1 and start.until == "stop":
                os.kill(os.getpid(), signal.SIGINT)

        try:
            summary = self.go(life, start, life.root / "checkpoint", told)
        except Crash:
            return Ended(interrupted=True, second=next(iter(second), None))
        except TraceTypesError as error:
            if "Crash" in str(error):
                return Ended(interrupted=True, second=next(iter(second), None))
            return Ended(error.code, str(error), second=next(iter(second), None))
        return Ended(interrupted=summary.stopped, second=next(iter(second), None))

    def go(self, life: Life, start: Start, checkpoint: Path, told: Any) -> Any:
        def output(plan: Plan, run: str) -> Output:
            places = (
                str(life.root / f"out-{plan.sink.name}"),
                run,
                str(life.root / "late"),
                str(life.root / "rejects"),
            )
            return open_output(plan, *places)

        made = compiled(life.name, start.version)
        places = Places(
            inputs={"readings": start.address or str(life.input)},
            outputs={name: output for name in made.sinks},
            checkpoint=checkpoint,
            side_outputs=lambda run: SideOutputs(life.root / "late", life.root / "rejects", run),
        )
        return run_program(
            self.spark, made, places, files_per_step=1, drain=start.drain, appended=start.appended, on_batch=told
        )

    def second(self, life: Life, start: Start) -> str:
        """Another run, while the first one works: what it says."""
        checkpoint = life.root / ("checkpoint" if start.second == "checkpoint" else "other")
        try:
            self.go(life, start, checkpoint, None)
        except TraceTypesError as error:
            return str(error)
        finally:
            shutil.rmtree(life.root / "other", ignore_errors=True)
        return "it ran"


OPERATION = st.tuples(st.sampled_from(DRAWN), st.integers(0, 5))


def machine(
    spark: SparkSession,
    graphs: list[str],
    points: Mapping[str, Point] = POINTS,
    log: Callable[[Path], SparkLog | LocalLog] = SparkLog,
) -> type[RuleBasedStateMachine]:
    """The state machine over one life a time. ``points``: of crashes; ``log``: the backend's."""

    class Lives(RuleBasedStateMachine):
        life: Life

        @initialize(name=st.sampled_from(graphs), files=st.integers(1, 3))
        def begin(self, name: str, files: int) -> None:
            self.root = Path(tempfile.mkdtemp(prefix="tracetypes-life-"))
            self.life = Life(self.root, name, InProcess(spark, points), log)
            for _ in range(files):
                self.life.add()

        @rule(
            operations=st.lists(OPERATION, max_size=3),
            version=st.sampled_from([0, 0, 0, 1, 2]),
            drain=st.sampled_from([False, False, True]),
            appended=st.booleans(),
            until=st.sampled_from(["", "stop", *points]),
            after=st.integers(0, 2),
            second=st.sampled_from(["", "", "", "checkpoint", "output"]),
        )
        def start(self, operations: list[tuple[str, int]], **how: Any) -> None:
            for what, which in operations:
                OPERATIONS[what](self.life, which)
            if not self.life.finished or not how["until"]:
                self.life.start(Start(**how))

        @precondition(lambda self: self.life.is_begun)
        @rule()
        def another_graph(self) -> None:
            assert self.life.start(Start(version=REFUSED)) == "TT211"

        @precondition(lambda self: self.life.is_begun)
        @rule()
        def another_kind_of_input(self) -> None:
            table = self.root / "table"
            if not table.exists():
                write_deltalake(table, pa.Table.from_pylist([{"id": "a", "ts": 1, "watts": 1}]))
            version = self.life.version or 0
            allowed = {"TT211", "TT218"} | ({"TT212"} if self.life.finished or self.life.may_be_drained else set())
            assert self.life.start(Start(version=version, address=f"delta:{table}")) in allowed

        def teardown(self) -> None:
            if hasattr(self, "life"):
                try:
                    self.life.end()
                except BaseException:
                    print("\n".join(self.life.story))
                    raise
                finally:
                    shutil.rmtree(self.root, ignore_errors=True)

    return Lives


FEW = settings(max_examples=3, stateful_step_count=5, phases=[Phase.generate], derandomize=True, database=None)
MANY = settings(max_examples=100, stateful_step_count=8, phases=[Phase.generate], print_blob=True)
"""Without shrinking, for a start takes a second: the story of a life says what happened."""


@pytest.mark.nightly  # by day on the local backend
def test_a_few_lives(spark: SparkSession) -> None:
    run_state_machine_as_test(machine(spark, list(GRAPHS)), settings=FEW)


@pytest.mark.nightly
@pytest.mark.parametrize("graph", GRAPHS)
def test_many_lives(spark: SparkSession, graph: str) -> None:
    run_state_machine_as_test(machine(spark, [graph]), settings=MANY)
