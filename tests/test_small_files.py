"""A small file of a checkpoint that is not what was written is an error with its name, wherever it is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.test_parsed import Reading
from tracetypes import Dataflow, RunError, U, check, every
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.store.compatibility import claim, claim_all, queries_of
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.compiler.store.small_files import read_json, write_json


def flow() -> Dataflow:
    made = Dataflow("small")
    made.sink(
        "out", made.source("in", U[str, Reading], key=lambda r: r.name, markers=every(seconds=1, time=lambda r: r.ts))
    )
    return made


CHECKED = check(flow())
PLAN, PROGRAM = plan(CHECKED), program(CHECKED)


def commit_records(path: Path) -> None:
    checkpoint = RunStore(claim(path, PLAN, SparkLog))
    checkpoint.commit(0, {"newest": {}, "complete": False})
    assert checkpoint.before(1) == {"newest": {}, "complete": False}
    assert checkpoint.before(0) == {}


READ: dict[str, Callable[[Path], Any]] = {
    "graph.json": lambda path: claim(path, PLAN, SparkLog),
    "program.json": lambda path: (queries_of(path), claim_all(path, PROGRAM, SparkLog)),
    "channels.json": lambda path: claim_all(path, PROGRAM, SparkLog).run(None),
    "commits/00000000.json": lambda path: RunStore(claim(path, PLAN, SparkLog)).before(1),
}


@pytest.mark.parametrize("name", READ)
def test_TT225_a_file_that_was_cut_off_or_is_not_ours(tmp_path: Path, name: str) -> None:
    """Each prefix of what was written, and what a disk may leave instead."""
    if name in ("program.json", "channels.json"):
        claims = claim_all(tmp_path, PROGRAM, SparkLog)
        claims.write()
        claims.run(None)
    else:
        commit_records(tmp_path)
    READ[name](tmp_path)
    whole = (tmp_path / name).read_bytes()
    for content in (*(whole[:size] for size in range(len(whole))), b"\0" * len(whole), b"null", b"[]", b"\xff"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(RunError) as refused:
            READ[name](tmp_path)
        assert refused.value.code == "TT225"
        assert f"{tmp_path / name} is not what the run wrote there" in refused.value.message


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert read_json(tmp_path / "a.json") is None
    write_json(tmp_path / "a.json", {"é": [1, None]})
    assert read_json(tmp_path / "a.json") == {"é": [1, None]}
