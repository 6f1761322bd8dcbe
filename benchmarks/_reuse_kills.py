"""Kills of the process with a workspace at random moments of a walk. Part of :mod:`benchmarks.reuse`.

Two processes take the same walk over RIoTBench's flows. One is killed (``kill -9``) again and again, while it answers, submits,
removes, drains or starts, and does the step again in which it was. Before each submit and removal all is answered, so a flow
begins at the same marker in both, with the same states. So their outputs are the same traces.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks._reuse_process import WorkspaceProcess
from benchmarks._reuse_traces import Step, trace
from benchmarks._reuse_workloads import Workload

__all__ = ["kills"]

ROWS: Final = 20
"""Of each source in a step."""

LATEST: Final = 3.0
"""Seconds after its start at which the process is killed at the latest."""


class Walk:
    """A walk in a directory. ``deaths``: how often its process was killed; ``lost``: the flows that were not there afterwards."""

    def __init__(self, workload: Workload, home: Path) -> None:
        home.mkdir()
        self.workload, self.home = workload, home
        self.process = WorkspaceProcess(workload.name, home)
        self.there: list[str] = []
        self.rows, self.deaths, self.number = 0, 0, 0
        self.lost: list[str] = []
        self.places: dict[str, str] = {}
        for feed in workload.feeds:
            (home / "feeds" / feed).mkdir(parents=True)

    def put(self) -> None:
        """One more file for each source."""
        for feed in self.workload.feeds:
            place = self.home / "feeds" / feed
            (place / ".part").write_text("".join(self.workload.rows(feed, ROWS, 10, self.rows)))
            (place / ".part").rename(place / f"{self.number:06d}.jsonl")
        self.rows, self.number = self.rows + ROWS, self.number + 1

    def take(self, step: Step) -> None:
        """A step: rows come, all is answered, a flow comes or goes."""
        self.process.tell("wait")
        if step.do == "submit":
            self.places.setdefault(step.flow, f"out/{self.number}")
            self.process.tell("submit", flow=step.flow, outputs=self.places[step.flow])
        else:
            self.process.tell("remove", flow=step.flow, drain=True)

    def settle(self, step: Step) -> None:
        """A step is over."""
        if step.do == "submit":
            self.there.append(step.flow)
        else:
            self.there.remove(step.flow)
            del self.places[step.flow]

    def again(self, step: Step) -> None:
        """Start again after a death, and look which flows are there."""
        self.deaths += 1
        self.process.close()
        self.process = WorkspaceProcess(self.workload.name, self.home)
        there = self.process.tell("flows")
        self.lost += [one for one in self.there if one not in there and one != step.flow]

    def traces(self) -> dict[str, Counter[str]]:
        """The rows of each output, with their markers."""
        return {
            str(place.relative_to(self.home / "out")): Counter(
                line for file in place.rglob("*.jsonl") for line in file.read_text().splitlines()
            )
            for place in sorted((self.home / "out").glob("*/*/*"))
            if place.name != "_lock"
        }


def kills(workload: Workload, count: int, *, walk: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """The line of ``--kills``. The walk begins again until there are so many kills."""
    drawn = random.Random(seed)
    deaths = lost = outputs = rows = steps = 0
    different: list[str] = []
    began = time.monotonic()
    while deaths < count:
        with tempfile.TemporaryDirectory() as folder:
            some = trace("walk 1", workload.flows, first=workload.first, walk=walk)
            whole, killed = Walk(workload, Path(folder) / "whole"), Walk(workload, Path(folder) / "killed")
            for step in [*(Step("submit", flow) for flow in some.before), *some.steps]:
                for one in (whole, killed):
                    one.put()
                whole.take(step)
                deaths += _through(killed, step, drawn, count - deaths)
                for one in (whole, killed):
                    one.settle(step)
                steps += 1
            lost += len(killed.lost)
            left = killed.process.tell("tally")
            for one in (whole, killed):
                one.process.close()
            expected, found = whole.traces(), killed.traces()
            outputs += len(expected)
            rows += sum(one.total() for one in expected.values())
            different += [name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)]
    yield {
        "benchmark": "reuse",
        "part": "kills",
        "workload": workload.name,
        "kills": deaths,
        "steps": steps,
        "seconds": round(time.monotonic() - began),
        "outputs": outputs,
        "rows": rows,
        "lost_flows": lost,
        "different_traces": len(different),
        "which": sorted(different)[:10],
        "left": left,
        "asked": {"lost_flows": 0, "different_traces": 0},
    }


def _through(walk: Walk, step: Step, drawn: random.Random, most: int) -> int:
    """Take a step, with at most so many deaths. Returns how many there were."""
    before = walk.deaths
    while True:
        timer = threading.Timer(drawn.uniform(0.05, LATEST), walk.process.kill)
        if walk.deaths - before < most:
            timer.start()
        try:
            walk.take(step)
            return walk.deaths - before
        except EOFError:
            while True:
                try:
                    walk.again(step)
                    break
                except EOFError:
                    continue
        finally:
            timer.cancel()
