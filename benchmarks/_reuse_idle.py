"""What a workspace uses in which nothing happens. Part of :mod:`benchmarks.reuse`."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benchmarks._reuse_process import WorkspaceProcess
from benchmarks._reuse_workloads import Workload

__all__ = ["idle"]

QUIET: Final = 15.0
"""Seconds without a row before anything is measured."""


def idle(workload: Workload, seconds: float) -> dict[str, Any]:
    """The line of ``--idle``: shares of a core that are used without flows, with all flows and no rows, and after the drain."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for feed in workload.feeds:
            (home / "feeds" / feed).mkdir(parents=True)
            (home / "feeds" / feed / "0.jsonl").write_text("".join(workload.rows(feed, 20, 10, 0)))
        with WorkspaceProcess(workload.name, home) as process:
            empty = _core(process, seconds)
            for flow in workload.flows:
                process.tell("submit", flow=flow, outputs="out")
            process.tell("wait")
            full = process.tell("tally")
            waiting = _core(process, seconds)
            for flow in workload.flows:
                process.tell("remove", flow=flow, drain=True)
            left = process.tell("tally")
            after = _core(process, seconds)
    return {
        "benchmark": "reuse",
        "part": "idle",
        "workload": workload.name,
        "seconds": seconds,
        "empty_core": round(empty, 4),
        "idle_core": round(waiting, 4),
        "after_drain_core": round(after, 4),
        "full": full,
        "left": left,
        "asked": {"empty_core": 0.01, "idle_core": 0.05, "left": 0},
        "paper": "7.5 cores for 274 tasks that are paused",
    }


def _core(process: WorkspaceProcess, seconds: float) -> float:
    process.tell("flows")
    time.sleep(QUIET)
    used, began = process.used, time.monotonic()
    time.sleep(seconds)
    return (process.used - used) / (time.monotonic() - began)
