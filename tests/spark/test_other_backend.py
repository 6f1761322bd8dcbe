"""A checkpoint of one backend is refused by the other, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.life import Life, Start
from tests.spark.test_life import InProcess
from tracetypes.compiler.local.backend import LocalBackend
from tracetypes.compiler.local.log import LocalLog
from tracetypes.compiler.spark.log import SparkLog


def content(directory: Path) -> dict[Path, bytes]:
    """All files below a directory, but what says who uses it."""
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file() and path.parent.name != "_lock"}


@pytest.mark.parametrize("graph", ["two_sinks", pytest.param("sums", marks=pytest.mark.nightly)])
def test_TT211_a_checkpoint_of_the_other_backend(spark: SparkSession, tmp_path: Path, graph: str) -> None:
    """It stays as it is, and its backend goes on."""
    local: Any = LocalBackend(2)
    runners = {"spark": InProcess(spark, {}), "local": InProcess(local, {})}
    logs: dict[str, Any] = {"spark": SparkLog, "local": LocalLog}
    for mine, other in (("spark", "local"), ("local", "spark")):
        life = Life(tmp_path / mine, graph, runners[mine], logs[mine])
        life.add()
        assert life.start(Start()) == ""
        before = content(life.root)
        ended = runners[other](life, Start())
        assert ended.code == "TT211"
        assert f"was made by the backend '{mine}', and this run has '{other}'" in ended.text
        assert f"give --backend {mine}, or another --checkpoint" in ended.text
        assert content(life.root) == before
        life.add()
        life.end()
        assert life.finished
