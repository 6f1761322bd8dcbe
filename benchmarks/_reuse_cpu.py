"""The processor time that flows take merged, and with sharing off. Part of :mod:`benchmarks.reuse`.

Sharing off: a workspace to which each flow is submitted with ``backfill=True``. So none of its operators is shared, not even
with an equal one of the same flow. It reads directories of its own, which get the same files from its submit on.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks._reuse_process import WorkspaceProcess
from benchmarks._reuse_traces import Step, Trace, trace
from benchmarks._reuse_workloads import Workload

__all__ = ["MOST", "PAPER", "Pace", "cpu"]

MOST: Final = 0
"""In place of events a second: as many as there is time for."""

PAPER: Final = {
    ("OPMW", "sequential"): "42 % at the peak",
    ("OPMW", "walk 1"): "37 to 40 %",
    ("OPMW", "walk 2"): "37 to 40 %",
    ("RIoT", "sequential"): "37.5 % on average",
    ("RIoT", "walk 1"): "47 to 51 %",
    ("RIoT", "walk 2"): "47 to 51 %",
}
"""By how much fewer cores its merged flows take, with 35 workflows of OPMW and 21 of RIoT, at 10 events a second."""

TICK: Final = 1.0
"""Seconds from one file to the next at most."""


class Pace(NamedTuple):
    """``rate``: events a second for each source, or ``MOST``; ``seconds``: of a step; ``backlog``: events of a step at
    ``MOST``."""

    rate: int
    seconds: float
    backlog: int

    @property
    def tick(self) -> float:
        """Seconds from one file to the next."""
        return 0.0 if self.rate == MOST else min(TICK, self.seconds)

    @property
    def ticks(self) -> int:
        """Files of a step."""
        return 1 if self.rate == MOST else max(1, round(self.seconds / self.tick))

    @property
    def rows(self) -> int:
        """Events of a file."""
        return self.backlog if self.rate == MOST else max(1, round(self.rate * self.tick))


class Feeds:
    """The files that flows read. Each file is a second of event time, so it is a block. ``alone``: each flow has directories of
    its own. A feed that nobody reads gets nothing, and is empty when somebody comes."""

    def __init__(self, workload: Workload, home: Path, pace: Pace, *, alone: bool) -> None:
        self.workload, self.home, self.pace, self.alone = workload, home, pace, alone
        self.number = 0
        self.places: dict[Path, str] = {}
        shutil.rmtree(home / "pool", ignore_errors=True)
        (home / "pool").mkdir()

    def of(self, flow: str) -> str:
        """The directory of the feeds of a flow."""
        return f"private/{flow}" if self.alone else "feeds"

    def comes(self, flow: str) -> None:
        """A flow is about to come."""
        for feed in self.workload.flows[flow].feeds.values():
            place = self.home / self.of(flow) / feed
            if place not in self.places:
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir(parents=True)
                self.places[place] = feed

    def stay(self, flows: list[str]) -> None:
        """These flows are left."""
        read = {self.home / self.of(flow) / feed for flow in flows for feed in self.workload.flows[flow].feeds.values()}
        self.places = {place: feed for place, feed in self.places.items() if place in read}

    def put(self) -> None:
        """The next file of each."""
        rows, number = self.pace.rows, self.number
        for feed in sorted(set(self.places.values())):
            pool = self.home / "pool" / feed
            pool.write_text("".join(self.workload.rows(feed, rows, rows, number * rows)))
            for place in [one for one, name in self.places.items() if name == feed]:
                os.link(pool, place / ".part")
                os.rename(place / ".part", place / f"{number:06d}.jsonl")
            pool.unlink()
        self.number += 1


def put(feeds: list[Feeds], pace: Pace) -> None:
    """All files of a step, each at its time."""
    began = time.monotonic()
    for tick in range(1, pace.ticks + 1):
        for one in feeds:
            one.put()
        time.sleep(max(0.0, began + tick * pace.tick - time.monotonic()))


class Side:
    """A workspace that takes the steps of a trace. ``steps``: seconds of processors in each step, behind its submit or removal;
    ``actions``: in these; ``wall``: seconds of each step; ``reuse``: how many of the tasks are of how many flows, in each step;
    ``left``: what is there in the end."""

    def __init__(self, workload: Workload, home: Path, pace: Pace, *, alone: bool) -> None:
        home.mkdir()
        self.alone, self.feeds = alone, Feeds(workload, home, pace, alone=alone)
        self.process = WorkspaceProcess(workload.name, home)
        self.steps, self.wall, self.reuse = list[float](), list[float](), list[dict[str, int]]()
        self.actions = 0.0
        self.left: dict[str, Any] = {}

    def act(self, step: Step, there: list[str]) -> None:
        """Submit or remove a flow. ``there``: those that are there afterwards."""
        before = self.process.used
        if step.do == "submit":
            self.feeds.comes(step.flow)
            self.process.tell("submit", flow=step.flow, feeds=self.feeds.of(step.flow), outputs="out", alone=self.alone)
        else:
            self.process.tell("remove", flow=step.flow, purge=True)
            self.feeds.stay(there)
        self.process.tell("wait")
        self.reuse.append(self.process.tell("reuse"))
        self.actions += self.process.used - before

    def end(self, before: float, began: float) -> None:
        """The step is over when all is answered."""
        self.process.tell("wait")
        self.steps.append(self.process.used - before)
        self.wall.append(time.monotonic() - began)


def spend(workload: Workload, some: Trace, pace: Pace, home: Path) -> tuple[Side, Side]:
    """Run a trace, merged and with sharing off. Both take each step at the same time, so what else the machine does disturbs
    both."""
    sides = (Side(workload, home / "merged", pace, alone=False), Side(workload, home / "alone", pace, alone=True))
    with sides[0].process, sides[1].process:
        there = list[str]()
        for step in [*(Step("submit", flow) for flow in some.before), *some.steps]:
            (there.append if step.do == "submit" else there.remove)(step.flow)
            for one in sides:
                one.act(step, there)
            if len(sides[0].reuse) <= len(some.before):
                continue
            began, before = time.monotonic(), [one.process.used for one in sides]
            put([one.feeds for one in sides], pace)
            for one, used in zip(sides, before, strict=True):
                one.end(used, began)
        for one in sides:
            one.reuse = one.reuse[len(some.before) :]
            one.left = one.process.tell("tally")
    return sides


class Costs(NamedTuple):
    """``seconds``: of a processor that an operator takes in a step, by its identity, where its flow runs alone; ``operators``:
    the identities of the operators of each flow as submitted."""

    seconds: Mapping[str, float]
    operators: Mapping[str, list[str]]

    def alone(self, flows: list[str]) -> float:
        """Of all operators of these flows."""
        return sum(self.seconds[one] for flow in flows for one in self.operators[flow])

    def merged(self, flows: list[str]) -> float:
        """Of equal operators once."""
        return sum(self.seconds[one] for one in {one for flow in flows for one in self.operators[flow]})

    def ceiling(self, some: Trace) -> float:
        """What a trace can save."""
        there = list(some.before)
        alone = merged = 0.0
        for step in some.steps:
            (there.append if step.do == "submit" else there.remove)(step.flow)
            alone, merged = alone + self.alone(there), merged + self.merged(there)
        return 1 - merged / alone


def costs_of(workload: Workload, pace: Pace, home: Path, steps: int = 3) -> Costs:
    """Measure each operator: each flow runs alone for some steps, behind one to warm up. A segment is a thread with a clock."""
    found: dict[str, list[float]] = {}
    operators: dict[str, list[str]] = {}
    with WorkspaceProcess(workload.name, home) as process:
        for flow in workload.flows:
            feeds = Feeds(workload, home, pace, alone=False)
            feeds.comes(flow)
            process.tell("submit", flow=flow, outputs="out")
            operators[flow] = process.tell("operators", flow=flow)["identities"]
            before: dict[str, float] = {}
            for number in range(1 + steps):
                put([feeds], pace)
                process.tell("wait")
                before = before if number else process.tell("spent")
            for one, seconds in process.tell("spent").items():
                found.setdefault(one, []).append((seconds - before[one]) / steps)
            process.tell("remove", flow=flow, purge=True)
    return Costs({one: sum(some) / len(some) for one, some in found.items()}, operators)


def cpu(workload: Workload, names: list[str], paces: list[Pace], *, walk: int) -> Iterator[dict[str, Any]]:
    """The lines of ``--cpu`` for a workload."""
    sizes = {name: sum(map(workload.is_task, one.build().graph.nodes)) for name, one in workload.flows.items()}
    for pace in paces:
        with tempfile.TemporaryDirectory() as folder:
            costs = costs_of(workload, pace, Path(folder))
        for name in names:
            some = trace(name, workload.flows, first=workload.first, walk=walk)
            with tempfile.TemporaryDirectory() as folder:
                merged, alone = spend(workload, some, pace, Path(folder))
            yield line(workload, some, pace, merged, alone, costs.ceiling(some), sizes)


def line(
    workload: Workload, some: Trace, pace: Pace, merged: Side, alone: Side, ceiling: float, sizes: Mapping[str, int]
) -> dict[str, Any]:
    """What is printed of a trace."""
    saving = 1 - sum(merged.steps) / sum(alone.steps)
    there, tasks = list(some.before), list[int]()
    for step in some.steps:
        (there.append if step.do == "submit" else there.remove)(step.flow)
        tasks.append(sum(sizes[one] for one in there))
    merged_tasks = [sum(one.values()) for one in merged.reuse]
    peak = tasks.index(max(tasks))
    return {
        "benchmark": "reuse",
        "part": "cpu",
        "workload": workload.name,
        "trace": some.name,
        "events_per_second": pace.rate or "most",
        "events_a_step": pace.rows * pace.ticks,
        "step_s": pace.seconds if pace.rate != MOST else None,
        "steps": len(some.steps),
        "merged_cpu_s": round(sum(merged.steps), 2),
        "alone_cpu_s": round(sum(alone.steps), 2),
        "saving": round(saving, 3),
        "ceiling": round(ceiling, 3),
        "of_ceiling": round(saving / ceiling, 3),
        "asked_of_ceiling": 0.9,
        "saving_at_peak": round(1 - merged.steps[peak] / alone.steps[peak], 3),
        "fewer_tasks": round(1 - sum(merged_tasks) / sum(tasks), 3),
        "paper": PAPER[workload.name, some.name],
        "actions_cpu_s": {"merged": round(merged.actions, 2), "alone": round(alone.actions, 2)},
        "left": {"merged": merged.left, "alone": alone.left},
        "tasks": {"merged": merged_tasks, "alone": tasks},
        "cpu_s": {"merged": _rounded(merged.steps), "alone": _rounded(alone.steps)},
        "wall_s": {"merged": _rounded(merged.wall), "alone": _rounded(alone.wall)},
        "reuse": merged.reuse,
    }


def _rounded(some: list[float]) -> list[float]:
    return [round(one, 3) for one in some]
