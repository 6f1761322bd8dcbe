"""The memory of a run's processes, and ending them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from pathlib import Path
from types import TracebackType

import attrs

from tests.spark.test_exactly_once import children, command_of

__all__ = ["Memory", "PeakMemory", "cpu", "kill_all", "memory", "used_by"]


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


class PeakMemory:
    """The most megabytes that some processes, and all below them, take together while this is open. What processes share is
    divided among them. They are looked at twenty times a second. ``peak``: 0 before the first look."""

    def __init__(self, *pids: int) -> None:
        self.pids, self.peak = pids, 0.0
        self.end = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end.set()
        self.thread.join()

    def _watch(self) -> None:
        while True:
            below = {pid for one in self.pids for pid in (one, *children(one))}
            self.peak = max(self.peak, sum(map(proportional, below)))
            if self.end.wait(0.05):
                return


def resident(pid: int) -> float:
    """Megabytes of a process."""
    return _kilobytes(pid, "status", "VmRSS:") / 1024


def proportional(pid: int) -> float:
    """Megabytes of a process, what it shares with its like divided among them."""
    return _kilobytes(pid, "smaps_rollup", "Pss:") / 1024


def cpu() -> float:
    """Seconds of a core that this process has used, all below it, and those that any of these has waited for."""
    return used_by(os.getpid())


def used_by(pid: int) -> float:
    """Seconds of a core that a process has used, all below it, and those that any of these has waited for."""
    ticks = 0
    for one in (pid, *children(pid)):
        with contextlib.suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


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
