"""What is private to Spark is as :mod:`tracetypes.compiler.spark.log` has it: a new Spark that changes it fails here."""

from __future__ import annotations

import ast
from pathlib import Path

from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession

from tests.spark.flows import Reading
from tests.spark.test_state import chain
from tests.test_imports import PACKAGES
from tracetypes import check
from tracetypes.compiler.connectors.program_rows import Rows
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark import log
from tracetypes.compiler.spark.log import SparkLog, stage_states
from tracetypes.compiler.spark.run import run
from tracetypes.compiler.store.inspection import open_checkpoint, states
from tracetypes.compiler.store.outputs import MemoryOutput
from tracetypes.compiler.store.places import on_disk

TIMES = (1, 12)
"""A micro-batch takes the reading of each."""


def test_the_log_of_a_query(spark: SparkSession, tmp_path: Path) -> None:
    """Two stages, two micro-batches, the last one with the drain; logs of files are made compact with every second one."""
    kept, planned = SparkLog(tmp_path), plan(check(chain), parallelism=2, key_groups=2)
    assert (kept.begun, kept.ended, kept.tasks, kept.stores, kept.taken, kept.source_logs) == (-1, -1, None, 0, [], set())
    rows = Rows(tuple((Reading("k1", ts, 1), Reading("k2", ts, 2)) for ts in TIMES), 1)

    compact = "spark.sql.streaming.fileSource.log.compactInterval"
    spark.conf.set(compact, "2")
    try:
        run(spark, planned, {"readings": rows}, MemoryOutput(planned), checkpoint=str(tmp_path))
    finally:
        spark.conf.unset(compact)
    ended = kept.ended
    assert (kept.begun, ended) == (1, 1)
    assert (kept.tasks, kept.stores) == (2, 2)

    # sources: the listings of the files, and the control directory
    assert len(kept.taken) == 2
    assert kept.taken == kept.offsets(ended)
    control, steps = tmp_path / "control", tmp_path / "inputs"
    assert kept.took_from(control, ended)
    assert not kept.took_from(control, ended - 1)
    listed, drained = sorted((list(files) for files in kept.taken_files()), key=len, reverse=True)
    assert [path.parent for path in drained] == [control]
    numbers = [int(path.parent.name) for path in listed]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 2
    assert all(on_disk(path).is_relative_to(steps) for path in listed)
    noted = set(kept.noted(kept.source_logs))
    assert noted >= {*listed, *drained}
    assert {int(path.parent.name) for path in noted - {*drained}} == {1, 2}

    assert {on_disk(path).suffix for path in kept.source_logs} >= {".compact"}  # and tests of channels shorten one

    # state: by operator, and files of a micro-batch that has not ended
    checkpoint = open_checkpoint(str(tmp_path), SparkLog)
    names = {
        stage.operators: sorted(group for group, _, _ in states(lambda k, s: stage_states(spark, k, s), checkpoint, stage))
        for stage in checkpoint.stages
    }
    assert names == {("sort", "Named"): [0, 1], ("Sum",): [0, 1]}
    held = {file for file in (kept.path / "state").rglob("*") if log._STATE.fullmatch(file.name)}
    assert {on_disk(file).relative_to(on_disk(kept.path) / "state").parts[0] for file in held} == {"0", "1"}
    assert {int(file.name.strip(".").partition(".")[0].partition("_")[0]) for file in held} >= {ended + 1}
    kept.forget()
    assert all(file.exists() for file in held)
    (kept.path / "commits" / str(ended)).unlink()
    kept.forget()
    gone = {file for file in held if not file.exists()}
    assert gone
    assert {int(file.name.strip(".").partition(".")[0].partition("_")[0]) for file in gone} == {ended + 1}

    # the one private call
    assert callable(spark._streamingCheckpointManager.repartition)


def test_what_is_private_to_the_gateway() -> None:
    assert all(hasattr(SparkContext, name) for name in ("_gateway", "_jvm", "_ensure_initialized", "_active_spark_context"))
    assert {"Popen", "launch_gateway"} <= vars(java_gateway).keys()


PRIVATE = {name for name in dir(SparkContext) + dir(SparkSession) if name.startswith("_") and not name.startswith("__")}
"""What only :mod:`..log` and :mod:`..java` may use."""


def test_nobody_else_knows_what_is_private_to_spark() -> None:
    found = set()
    compiler = PACKAGES["tracetypes.compiler"]
    for path in [*compiler.glob("spark/*.py"), *compiler.glob("store/*.py"), *compiler.glob("trial/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in PRIVATE | {"_streamingCheckpointManager"}:
                found.add(path.stem)
            if isinstance(node, ast.Constant) and node.value in ("sources", "offsets", "statestore", "logOffset", "batchId"):
                found.add(path.stem)
    assert found - {"scripted"} == {"log", "java"}
