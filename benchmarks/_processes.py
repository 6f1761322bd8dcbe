"""The memory of a run's processes, and ending them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import attrs

from tests.spark.test_exactly_once import children, command_of

__all__ = ["Memory", "kill_all", "memory"]


@attrs.frozen
class Memory:
    """Megabytes that are resident: of the driver's Python, of its JVM, and of all Python workers together."""

    driver: float
    jvm: float
    workers: float


def memory(pid: int) -> Memory:
    """Of a run, by the process of its command."""
    sizes = {"driver": resident(pid), "jvm": 0.0, "workers": 0.0}
    for child in children(pid):
        with contextlib.suppress(OSError):
            sizes["jvm" if b"java" in command_of(child) else "workers"] += proportional(child)
    return Memory(**sizes)


def resident(pid: int) -> float:
    """Megabytes of a process."""
    return _kilobytes(pid, "status", "VmRSS:") / 1024


def proportional(pid: int) -> float:
    """Megabytes of a process, what it shares with its like divided among them."""
    return _kilobytes(pid, "smaps_rollup", "Pss:") / 1024


def _kilobytes(pid: int, file: str, name: str) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    return 0


def kill_all(process: subprocess.Popen[str]) -> None:
    """End a run and all that belongs to it by SIGKILL."""
    everybody = [process.pid, *children(process.pid)]
    for pid in everybody:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
