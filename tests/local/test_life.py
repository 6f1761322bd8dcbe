"""Operations on a run's life, on the local backend: with crashes before and after each step of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from pyspark.sql import SparkSession

from tests.local.test_crashes import STEPS
from tests.spark.life import GRAPHS, OPERATIONS, Life, Start
from tests.spark.test_life import InProcess, Point, compiled, machine
from tracetypes.compiler.local.backend import LocalBackend
from tracetypes.compiler.local.log import LocalLog

POINTS: Final[dict[str, Point]] = {
    f"{'before' if first else 'after'} {owner.__name__}.{name}": (owner, name, first, 0)
    for owner, name in STEPS
    for first in (True, False)
}

FEW = settings(
    max_examples=15, stateful_step_count=8, phases=[Phase.generate], derandomize=True, database=None, deadline=None
)
MANY = settings(max_examples=300, stateful_step_count=12, phases=[Phase.generate], print_blob=True, deadline=None)
"""Without shrinking: the story of a life says what happened."""


def test_a_few_lives(spark: LocalBackend) -> None:
    run_state_machine_as_test(machine(spark, list(GRAPHS), POINTS, LocalLog), settings=FEW)  # type: ignore[arg-type]


@pytest.mark.parametrize("what", ["add", "append", "touch", "replace", "remove"])
@pytest.mark.parametrize("graph", ["sums", "two_sinks"])
def test_a_run_that_ended_and_could_not_say_so(spark: LocalBackend, tmp_path: Path, graph: str, what: str) -> None:
    """The process dies after its last query is marked as finished. The next start says what came after that, or has changed; the
    life sees that it names the file."""
    life = Life(tmp_path, graph, InProcess(cast(SparkSession, spark), POINTS), LocalLog)
    life.add()
    last = len(compiled(graph, 0).segments) - 1
    assert life.start(Start(drain=True, until="after RunStore.finish", after=last)) == ""
    OPERATIONS[what](life, 0)
    assert life.start(Start(drain=True)) == ("TT230" if what in ("append", "replace") else "TT212")
    write_deltalake(tmp_path / "table", pa.Table.from_pylist([{"id": "a", "ts": 1, "watts": 1}]))
    assert life.start(Start(drain=True, address=f"delta:{tmp_path / 'table'}")) == "TT212"


@pytest.mark.nightly
@pytest.mark.parametrize("graph", GRAPHS)
def test_many_lives(spark: LocalBackend, graph: str) -> None:
    run_state_machine_as_test(machine(spark, [graph], POINTS, LocalLog), settings=MANY)  # type: ignore[arg-type]
