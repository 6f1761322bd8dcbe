"""Connectors of one's own on Spark: the example of ``docs/connectors.md``, in a process as a user starts it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.pages import ROOT
from tests.test_own_connectors import CLICKS, EXAMPLE, FLOW, expected, fill, killed, package, rows_in


@pytest.mark.nightly
@pytest.mark.parametrize("again", [False, True])
def test_a_run_from_table_to_table(tmp_path: Path, again: bool) -> None:
    """In several micro-batches, and again with rows that came later."""
    package(tmp_path / "site", "shelves", EXAMPLE.replace("LARGEST = 1000", "LARGEST = 100"), "shelf = shelves:connector")
    (tmp_path / "flow.py").write_text(FLOW)
    file = tmp_path / "shop.db"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(ROOT)])}
    command = [sys.executable, "-m", "tracetypes", "run", "flow.py", "--backend", "spark", "--checkpoint", "checkpoint"]
    command += ["--parallelism", "2", "--input", f"clicks=shelf://{file}/clicks", "--output", f"counts=shelf://{file}/counts"]

    def run(*options: str) -> None:
        done = subprocess.run([*command, *options], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    fill(file, CLICKS)
    more = [{"page": "page 1", "ts": 2500 + at} for at in range(300)] if again else []
    if again:
        run("--no-drain")
        assert rows_in(file, "counts")
        fill(file, more, 2501)
    run()
    found = Counter((key, value) for key, value, _ in rows_in(file, "counts").elements())
    assert found == expected(tmp_path, [*CLICKS, *more])


@pytest.mark.nightly
def test_kill_9_between_tables(tmp_path: Path) -> None:
    package(tmp_path / "site", "shelves", EXAMPLE.replace("LARGEST = 1000", "LARGEST = 50"), "shelf = shelves:connector")
    (tmp_path / "flow.py").write_text(FLOW)
    rows = [{"page": f"page {at % 7}", "ts": at} for at in range(5000)]
    fill(tmp_path / "shop.db", rows)
    assert killed(tmp_path, "spark", 2, random.Random(5)) > 0
    found = Counter((key, value) for key, value, _ in rows_in(tmp_path / "shop.db", "counts").elements())
    assert found == expected(tmp_path, rows)
