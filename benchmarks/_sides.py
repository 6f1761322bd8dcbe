"""Sides of a comparison, each in a process of its own (:mod:`benchmarks._side`), which stays warm and runs when it is told to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import attrs

from benchmarks._processes import PeakMemory
from benchmarks._side import Order, Timing

__all__ = ["Side"]


class Side:
    """A process of a side."""

    def __init__(self, order: Order) -> None:
        self.order, self.timings = order, list[Timing]()
        command = [order.python or sys.executable, "-m", "benchmarks._side", json.dumps(attrs.asdict(order))]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self) -> float:
        """Seconds of a run; its timing is appended to ``timings``."""
        return self._told("run").seconds

    def write(self, path: Path) -> Timing:
        """Run into files."""
        return self._told(f"write {path}")

    def peak(self) -> float:
        """The most megabytes that a run takes."""
        with PeakMemory(self.process.pid) as memory:
            self.run()
        return memory.peak

    def end(self) -> None:
        """End the process."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()

    def _told(self, word: str) -> Timing:
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("the process of a side has pipes")
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("{"):
                self.timings.append(Timing(**json.loads(line)))
                return self.timings[-1]
        raise RuntimeError(f"{self.order.name} ended with status {self.process.wait()}")
