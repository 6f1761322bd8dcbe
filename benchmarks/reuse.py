"""Many dataflows as the fewest running operators: how many those are, and what it costs to decide.

    python -m benchmarks.reuse --count
    python -m benchmarks.reuse --decide [--operators N,N,...] [--decisions N]
    python -m benchmarks.reuse --attach [--joins N] [--rows N]

``--count``: the operators of the paper's dataflows (*Collaborative Reuse of Streaming Dataflows in IoT Applications*): of each
flow as it is submitted (``alone``), of each flow without duplicates (``de_duplicated``), and of all flows together
(``merged``). The templates of OPMW are those that were published; a line says so where they are not there. The 21 flows of
RIoTBench are constructed (``examples/riotbench_flows.json``). ``asked``: what an independent count found. Exits with 1 where
a number differs.

``--decide``: the time of a decision, in memory and written. There are N operators of random flows that have much in common. A
flow comes, and one that runs goes, by turns. A line for each N has

* ``submit_ms`` and ``remove_ms``: to decide, and to change the state in memory. The flow is checked and its identities are
  known: this is what ``merge`` and ``unmerge`` get. Exits with 1 if a p99 is above 2 ms. This is time of the processor, so that
  other processes of the machine do not count; ``submit_wall_ms`` and ``remove_wall_ms`` are by the clock.
* ``submit_written_ms`` and ``remove_written_ms``: the same by the clock, and one transaction of SQLite (WAL, synchronous FULL)
  with all that a restart needs to know of what runs: the flow, the operators that start or stop, and what they read. The
  benchmark reads it back and compares.
* ``fsync_ms``: to write a page over an old one and to call fsync, after each decision, in the same folder. ``fsyncs``: how many
  of these a written decision costs. Exits with 1 above 3. This is by the lower quartiles, which other processes disturb least.
* ``walk_ms``: to walk the largest component once, which a decision does not do.

``--attach``: a flow answers a file after the other, while others join and leave a workspace on the local backend. The seconds
from a file to its answer, ``alone``, ``during`` the joins and ``after`` them. Exits with 1 if the p99 rises by more than half a
second. A second line has the **break-even**: what a row costs who writes it into a channel and who reads it, in nanoseconds of
processor time. Two flows that share a prefix pay for one write and two reads, two runs pay for the prefix twice. So sharing pays
from ``pays_from_ns`` on.

Prints JSON lines. There is no other side.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks._attach import attach
from benchmarks._reuse_flows import INFERRED, OPMW, TEMPLATES, Counts, TypedFlow, counts, opmw, processes, riot
from tracetypes import __version__ as version
from tracetypes.compiler.workspace.classes import SubmittedFlow, SubmittedOperator
from tracetypes.compiler.workspace.database import Submission, WorkspaceDatabase
from tracetypes.compiler.workspace.merge import merge, unmerge
from tracetypes.compiler.workspace.running import Decision, Instance, Running

LONGEST: Final = 2.0
"""Milliseconds of a decision, p99."""

MOST_FSYNCS: Final = 3.0
"""What a written decision may cost, in bare fsyncs."""

ASKED: Final = {
    "OPMW, with data": Counts(flows=22, types=43, alone=271, de_duplicated=215, merged=113),
    "OPMW, processes": Counts(flows=22, types=28, alone=91, de_duplicated=79, merged=51),
    "OPMW, inferred types": Counts(flows=22, types=26, alone=271, de_duplicated=215, merged=100),
    "RIoTBench, constructed": Counts(flows=21, types=19, alone=138, de_duplicated=138, merged=75),
}

SUBMISSION: Final = Submission(code=64 * "0", plain={"inputs": {"rows": "rows"}, "outputs": {"out": "out"}})

VERSIONS: Final = {"tracetypes": version, "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}


def count() -> bool:
    """Print the counts. Returns whether they are as asked."""
    workloads: dict[str, Callable[[], dict[str, TypedFlow]]] = {
        "OPMW, with data": lambda: opmw(OPMW / TEMPLATES),
        "OPMW, processes": lambda: {name: processes(flow) for name, flow in opmw(OPMW / TEMPLATES).items()},
        "OPMW, inferred types": lambda: opmw(OPMW / INFERRED),
        "RIoTBench, constructed": riot,
    }
    good = True
    for name, flows in workloads.items():
        line = {"benchmark": "reuse", "part": "count", "workload": name}
        if name.startswith("OPMW") and not OPMW.exists():
            print(json.dumps({**line, "skipped": "there is no ../shared/data/opmw_fragflow"}), flush=True)
            continue
        found = counts(flows())
        fewer = round(1 - found.merged / found.alone, 3)
        print(json.dumps({**line, **found._asdict(), "fewer": fewer, "asked": list(ASKED[name])}), flush=True)
        good &= found == ASKED[name]
    return good


class Flows:
    """Random flows of 4 to 38 operators, as long as those of OPMW. Each goes down a tree of operators that others go down, too,
    and ends in operators of its own; now and then two streams are merged."""

    def __init__(self, sources: int, seed: int) -> None:
        self.sources, self.random = sources, random.Random(seed)
        self.number = 0

    def next(self) -> SubmittedFlow:
        """One more."""
        self.number += 1
        own = f"flow {self.number}"
        drawn = self.random
        operators: list[SubmittedOperator] = []

        def add(kind: str, *inputs: int) -> int:
            above = [operators[one].identity for one in inputs]
            identity = hashlib.sha256(repr((kind, above)).encode()).hexdigest()
            operators.append(
                SubmittedOperator(
                    id=len(operators),
                    identity=identity,
                    inputs=inputs,
                    keeps_state=kind.startswith("state"),
                    is_sink=kind.startswith("sink"),
                )
            )
            return len(operators) - 1

        def path(length: int) -> int:
            at = add(f"source {drawn.randrange(self.sources)}")
            for step in range(length):
                kind = "state" if step % 4 == 3 else "map"
                at = add(f"{kind} {min(drawn.randrange(4), drawn.randrange(4))}", at)
            return at

        length = drawn.choice((2, 3, 4, 5, 6, 8, 12, 17))
        at = path(length)
        if drawn.random() < 0.3:
            at = add("merge", at, path(length - 1))
        for step in range(drawn.randint(0, 2)):
            at = add(f"map {own} {step}", at)
        add(f"sink {own}", at)
        return SubmittedFlow(name=own, operators=tuple(operators))


class Page:
    """A file of which pages are written again and again."""

    def __init__(self, folder: Path) -> None:
        self.file = os.open(folder / "page", os.O_CREAT | os.O_RDWR)
        self.pages = 256
        os.pwrite(self.file, bytes(4096 * self.pages), 0)
        os.fsync(self.file)
        self.at = 0

    def write(self) -> None:
        """Write the next page, and wait until it is on the disk."""
        self.at = (self.at + 1) % self.pages
        os.pwrite(self.file, os.urandom(4096), 4096 * self.at)
        os.fsync(self.file)

    def close(self) -> None:
        """Close the file."""
        os.close(self.file)


def filled(operators: int, seed: int) -> tuple[Running, Flows, list[Decision]]:
    """A state with at least so many operators, the flows that may come, and the decisions that have led to it."""
    running, flows, decisions = Running(), Flows(max(2, operators // 400), seed), list[Decision]()
    while len(running.operators) < operators:
        decisions.append(merge(running, flows.next()))
        running.apply(decisions[-1])
    return running, flows, decisions


class Took(NamedTuple):
    """Milliseconds: of this thread's processor, and of the wall clock."""

    busy: float
    passed: float


class Clock:
    """The time since it was made."""

    def __init__(self) -> None:
        self.busy, self.passed = time.thread_time(), time.perf_counter()

    def milliseconds(self) -> Took:
        """So far."""
        return Took(1000 * (time.thread_time() - self.busy), 1000 * (time.perf_counter() - self.passed))


def decided(running: Running, flows: Flows, decisions: int) -> Iterator[tuple[str, Took, Decision]]:
    """Decisions that are applied: what each is, its milliseconds, and itself. The flow that goes is any that runs."""
    names = list(running.flows)
    for number in range(decisions):
        if number % 2 == 0:
            flow = flows.next()
            clock = Clock()
            decision = merge(running, flow)
            running.apply(decision)
            took = clock.milliseconds()
            names.append(flow.name)
            yield "submit", took, decision
        else:
            at = flows.random.randrange(len(names))
            names[at], names[-1] = names[-1], names[at]
            name = names.pop()
            clock = Clock()
            decision = unmerge(running, name)
            running.apply(decision)
            yield "remove", clock.milliseconds(), decision


def shown(milliseconds: list[float]) -> dict[str, float]:
    """The percentiles."""
    parts = statistics.quantiles(milliseconds, n=100)
    found = {"p25": parts[24], "p50": parts[49], "p99": parts[98], "most": max(milliseconds)}
    return {name: round(one, 3) for name, one in found.items()}


def write(kept: WorkspaceDatabase, decision: Decision) -> None:
    """Make a decision durable."""
    kept.write(decision, dict.fromkeys((flow.name for flow in decision.joins), SUBMISSION))


def decide(operators: int, decisions: int) -> bool:
    """Print the times of decisions. Returns whether they are as short as asked."""
    running, flows, before = filled(operators, seed=operators)
    times: dict[str, list[Took]] = {"submit": [], "remove": []}
    for kind, took, decision in decided(running, flows, decisions):
        times[kind].append(took)
        before.append(decision)
    written: dict[str, list[float]] = {"submit": [], "remove": []}
    bare: list[float] = []
    with tempfile.TemporaryDirectory(dir=".") as folder:
        kept, page = WorkspaceDatabase(Path(folder, "workspace.db"), "local"), Page(Path(folder))
        for decision in before:
            write(kept, decision)
        for kind, took, decision in decided(running, flows, decisions // 2):
            start = time.perf_counter()
            write(kept, decision)
            between = time.perf_counter()
            page.write()
            end = time.perf_counter()
            written[kind].append(took.passed + 1000 * (between - start))
            bare.append(1000 * (end - between))
        read = kept.running()
        assert (read.operators, read.flows, read.counts, read.taps) == (
            running.operators,
            running.flows,
            running.counts,
            running.taps,
        ), "what is written is not what runs"
        kept.close()
        page.close()
    one = max(_one_of_each(running), key=running.components.size)
    size = running.components.size(one)
    start = time.perf_counter()
    running.components.size(one)
    walk = 1000 * (time.perf_counter() - start)
    fsyncs = {kind: round(_quarter(took) / _quarter(bare), 2) for kind, took in written.items()}
    line: dict[str, Any] = {
        "benchmark": "reuse",
        "part": "decide",
        "operators": len(running.operators),
        "flows": len(running.flows),
        **{f"{kind}_ms": shown([one.busy for one in took]) for kind, took in times.items()},
        **{f"{kind}_wall_ms": shown([one.passed for one in took]) for kind, took in times.items()},
        **{f"{kind}_written_ms": shown(took) for kind, took in written.items()},
        "fsync_ms": shown(bare),
        "fsyncs": fsyncs,
        "component": size,
        "walk_ms": round(walk, 1),
        "asked": {"submit_ms": LONGEST, "remove_ms": LONGEST, "fsyncs": MOST_FSYNCS},
        "versions": VERSIONS,
    }
    print(json.dumps(line), flush=True)
    return all(line[f"{kind}_ms"]["p99"] <= LONGEST for kind in times) and max(fsyncs.values()) <= MOST_FSYNCS


def _quarter(milliseconds: list[float]) -> float:
    """A quarter of them is shorter."""
    return statistics.quantiles(milliseconds, n=4)[0]


def _one_of_each(running: Running) -> list[Instance]:
    """An operator of each component."""
    return list({running.components.of(one): one for one in running.operators}.values())


def main(arguments: list[str] | None = None) -> None:
    """Count, or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--decide", action="store_true")
    parser.add_argument("--operators", default="1000,10000,100000")
    parser.add_argument("--decisions", type=int, default=4_000)
    parser.add_argument("--attach", action="store_true")
    parser.add_argument("--joins", type=int, default=20)
    parser.add_argument("--rows", type=int, default=2_000_000)
    options = parser.parse_args(arguments)
    if not (options.count or options.decide or options.attach):
        parser.error("say --count, --decide or --attach")
    good = not options.count or count()
    if options.attach:
        for line in attach(options.joins, options.rows):
            print(json.dumps({**line, "versions": VERSIONS}), flush=True)
            good &= line.get("added_p99_s", 0.0) <= line.get("asked_s", 0.0)
    if options.decide:
        for operators in map(int, options.operators.split(",")):
            good &= decide(operators, options.decisions)
    sys.exit(not good)


if __name__ == "__main__":
    main()
