"""A standalone Spark cluster: the command line runs on it, and an executor that is killed changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.spark import flows
from tests.spark.cluster import cluster, driver_environment
from tests.spark.test_exactly_once import expect, files
from tests.spark.test_processes import until
from tracetypes import check

ROOT = Path(__file__).parents[2]


def test_an_executor_is_killed(tmp_path: Path) -> None:
    """Its tasks and its state go to another one; each row is answered once."""
    lines = files(tmp_path / "in", count=4)
    with cluster(workers=2) as made:
        command = [sys.executable, "-m", "tracetypes.cli", "run", "tests.spark.flows:delayed", "--master", made.master]
        command += ["--parallelism", "2", "--files-per-step", "1"]
        command += ["-i", f"readings={tmp_path / 'in'}", "-o", f"sums={tmp_path / 'out'}"]
        environment = driver_environment()
        running = subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stderr=subprocess.PIPE)
        try:
            until(running, "batch 1:")
            killed, _ = made.executors()
            os.kill(killed, signal.SIGKILL)
            until(running, "done:")
            assert running.wait(60) == 0
            assert killed not in made.executors()
        finally:
            running.kill()
            running.communicate()
    expect(check(flows.delayed), lines, tmp_path / "out")
