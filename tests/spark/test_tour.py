"""The runs of docs/tour.md print and write what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import SparkSession

from tests.pages import blocks, sessions, write_tour
from tests.spark.support import Cli

PATH = re.compile(r"^(\w+=)?(\w+\.\w+.*|out)$")
"""A file of the tour, or a directory, behind a name or by itself. The JVM of a session that runs stays in its directory."""


def timeless(text: str) -> list[str]:
    """Lines without the seconds that a run took."""
    return re.sub(r"\d+\.\d( s\b|,|$)", r"_\1", text, flags=re.MULTILINE).splitlines()


def lines(folder: Path) -> list[str]:
    """The lines of all files of a directory, sorted."""
    return sorted(line for path in folder.glob("part-*") for line in path.read_text(encoding="utf-8").splitlines())


def test_the_runs_of_the_tour(spark: SparkSession, cli: Cli, tmp_path: Path) -> None:
    text, _, files = write_tour(tmp_path)
    for file in files:
        spark.sparkContext.addPyFile(str(file))  # workers of a session that runs already know no new directory
    runs = [(words[1:], output) for words, output in sessions(text) if words[:2] == ["tracetypes", "run"]]
    assert len(runs) == 2
    for words, output in runs:
        ran = cli(*(PATH.sub(rf"\1{tmp_path}/\2", word) for word in words))
        assert ran.code == 0
        said = (ran.out + ran.err).replace(f"{tmp_path}/", "")
        assert sorted(timeless(said)) == sorted(timeless(output))
    _, _, rows, late, rejects = blocks(text, "json")
    out = tmp_path / "out"
    for folder, shown in ((out, rows), (out / "_late" / "hub", late), (out / "_rejects" / "hub", rejects)):
        assert lines(folder) == sorted(shown.splitlines())
