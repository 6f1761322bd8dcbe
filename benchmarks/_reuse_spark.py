"""What the flows of a workspace on Spark cost. Part of :mod:`benchmarks.reuse`."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

import attrs

from benchmarks._processes import memory
from benchmarks._reuse_process import WorkspaceProcess
from benchmarks._reuse_workloads import Workload

__all__ = ["spark"]

QUIET: Final = 10.0
"""Seconds without a row before anything is measured."""

ROUNDS: Final = 3
"""Files for each feed, one after the other; the first one is not counted."""

ROWS: Final = 1_000
"""Rows of a file."""


def spark(workload: Workload, counts: Sequence[int], seconds: float, most_s: float) -> Iterator[dict[str, Any]]:
    """The lines of ``--spark``: one for each number of flows. It ends behind the first number of flows that is not supported."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for feed in workload.feeds:
            (home / "feeds" / feed).mkdir(parents=True)
            _put(home, workload, feed, 0)
        with WorkspaceProcess(workload.name, home, backend="spark") as process:
            files = 1
            for before, count in pairwise((0, *counts)):
                submits = list[float]()
                for flow in list(workload.flows)[before:count]:
                    began = time.monotonic()
                    process.tell("submit", flow=flow, outputs="out")
                    submits.append(time.monotonic() - began)
                process.tell("wait")
                tally = process.tell("tally")
                time.sleep(QUIET)
                used, began = process.used, time.monotonic()
                time.sleep(seconds)
                idle = (process.used - used) / (time.monotonic() - began)
                answers, cpu = list[float](), list[float]()
                for number in range(files, files + ROUNDS):
                    used, began = process.used, time.monotonic()
                    for feed in workload.feeds:
                        _put(home, workload, feed, number)
                    process.tell("wait")
                    answers.append(time.monotonic() - began)
                    cpu.append(process.used - used)
                files += ROUNDS
                yield {
                    "benchmark": "reuse",
                    "part": "spark",
                    "workload": workload.name,
                    "flows": count,
                    "tasks_alone": tally["alone"],
                    "tasks": tally["running"],
                    "queries": tally["segments"],
                    "submit_s": round(median(submits), 2),
                    "idle_core": round(idle, 2),
                    "answer_s": round(median(answers[1:]), 2),
                    "answer_cpu_s": round(median(cpu[1:]), 2),
                    "rows": ROWS * len(workload.feeds),
                    "memory_mb": attrs.asdict(memory(process.process.pid), value_serializer=lambda *one: round(one[2])),
                    "states": sorted(set(process.tell("flows").values())),
                    "load": round(os.getloadavg()[0], 1),
                    "asked_s": most_s,
                }
                if median(answers[1:]) > most_s:
                    return


def _put(home: Path, workload: Workload, feed: str, number: int) -> None:
    hidden = home / "feeds" / feed / f".{number}"
    hidden.write_text("".join(workload.rows(feed, ROWS, ROWS, number * ROWS)))
    hidden.rename(home / "feeds" / feed / f"{number:06d}.jsonl")
