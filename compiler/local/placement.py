"""Which parts of a plan may run in worker processes, and when that pays.

Python code of operators runs on one core of a process, because of Python's lock (GIL), and on any number of cores in several
processes. What a batch costs more there, a few hundred microseconds and a copy of its columns, is little beside such code; but
the first one takes most of a second of a core to start, and each one imports the author's modules. So they are started when there
is surely enough to do: when Python code has taken two seconds and at least half of a core, or when an epoch begins whose
files are so large that it will.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Self, TypeVar, final

import attrs
import pyarrow as pa

from tracetypes.compiler.connectors.file_splits import Split
from tracetypes.compiler.connectors.parquet import open_parquet
from tracetypes.compiler.local.kernels import SplitTask
from tracetypes.compiler.local.options import Processes
from tracetypes.compiler.plan.in_python import link_calls_python, stage_calls_python
from tracetypes.compiler.plan.plan import Plan, StageLink, links

__all__ = ["Cost", "InPython", "has_gil", "may_start"]

T = TypeVar("T")

SECONDS: Final = 2.0
"""Seconds of Python code that are worth worker processes."""

TEXT: Final = 100_000_000
"""Bytes of text whose items take Python code about four seconds, or more."""

ROWS: Final = 1_000_000
"""Rows of Parquet whose items take Python code two seconds, or more."""

SMALL: Final = 1_000_000
"""Fewer bytes of Parquet are too little for processes, so nobody asks how many rows they have."""


def has_gil() -> bool:
    """Whether only one thread of this process runs Python code at a time."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def may_start(plan: Plan, processes: Processes) -> bool:
    """Whether worker processes can be of use here."""
    if processes == "never" or plan.width == 1 or not has_gil() or not sys.executable:
        return False
    return processes == "always" or _cores() > 1


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@attrs.frozen
class InPython:
    """The parts of a plan that call Python for their items. ``links``: from sources and channels, by the number of the stage and
    their own. ``stages``: by number."""

    links: frozenset[tuple[int, int]]
    stages: frozenset[int]

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Of a plan."""
        ways = [(stage, one) for stage in plan.stages for one in links(stage.region) if not isinstance(one, StageLink)]
        return cls(
            frozenset((stage.number, link.number) for stage, link in ways if link_calls_python(stage, link)),
            frozenset(stage.number for stage in plan.stages if stage_calls_python(plan, stage)),
        )

    def __bool__(self) -> bool:
        return bool(self.links or self.stages)


def _rows(splits: Sequence[Split]) -> float:
    """About how many rows splits of Parquet have, as the first file says: a row takes three bytes in one file, and a hundred in
    another. 0 if they are small, or the file cannot be read: who reads it all says why."""
    size = sum(one.weight for one in splits)
    if size < SMALL:
        return 0.0
    try:
        with open_parquet(splits[0].path) as file:
            return float(file.metadata.num_rows * size / splits[0].size)
    except (OSError, pa.ArrowException):
        return 0.0


@final
class Cost:
    """How much time Python code of operators has taken in this process, and whether it pays to move it. Threads share it: a sum
    that misses a few milliseconds does no harm."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.since, self.spent, self.pays = clock, clock(), 0.0, False

    def add(self, seconds: float) -> None:
        """So many seconds of a core were spent since the last call."""
        self.spent += seconds
        elapsed = self.clock() - self.since
        if self.spent >= SECONDS and self.spent >= elapsed / 2:
            self.pays = True
        elif elapsed > 2 * SECONDS and self.spent < elapsed / 2:
            self.since, self.spent = self.clock(), 0.0

    def expect(self, tasks: Sequence[SplitTask]) -> None:
        """An epoch will read these splits."""
        files = [one for task in tasks if isinstance(task.split, tuple) for one in task.split if isinstance(one, Split)]
        columns = [one for one in files if one.parts]
        if sum(one.weight for one in files if not one.parts) / TEXT + _rows(columns) / ROWS >= 1:
            self.pays = True

    def of_call(self, call: Callable[[], T]) -> T:
        """The result of a call, whose time is added."""
        began = time.thread_time()
        try:
            return call()
        finally:
            self.add(time.thread_time() - began)

    def of_steps(self, steps: Iterator[T]) -> Iterator[T]:
        """What an iterator gives; its time is added, without that of who takes it."""
        seconds = 0.0
        while True:
            began = time.thread_time()
            one = next(steps, None)
            seconds += time.thread_time() - began
            if one is None:
                self.add(seconds)
                return
            yield one
