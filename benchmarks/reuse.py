"""Many dataflows as the fewest running operators: how many those are, and what it costs to decide.

    python -m benchmarks.reuse --count
    python -m benchmarks.reuse --decide [--operators N,N,...] [--decisions N]
    python -m benchmarks.reuse --attach [--joins N] [--rows N]
    python -m benchmarks.reuse --http [--running N] [--changes N] [--pause S]
    python -m benchmarks.reuse --cpu [--workloads RIoT,OPMW] [--traces NAME,...] [--rates 10,1000,most] [--step-seconds S]
    python -m benchmarks.reuse --kills N [--walk-steps N]
    python -m benchmarks.reuse --idle
    python -m benchmarks.reuse --spark 3,7,14,21 [--idle-seconds S] [--answer-seconds S]
    python -m benchmarks.reuse --draw LINES.jsonl FIGURES.svg

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

``--http``: how long a client of the service waits for a submit and for a removal of a flow of four tasks in JSON, one after the
other, while N operators run; most of them are cheap ones, so they have few segments. ``spin_ms``: how long it takes by the clock,
between the requests, to use a processor for 10 ms: 10 on a machine that nobody else uses. ``cpu_ms``: what the service and its
worker use of a processor for a submit, its start included, and for a removal. Exits with 1 if a p99 is above 50 ms.

``--cpu``: the processor time that the paper's traces take. Flows come and go: all in random order, and two random walks, which
begin with 15 flows (section 5.1 of the paper). The workspace runs in a process of its own, merged and with sharing off, both at
the same time (:mod:`benchmarks._reuse_cpu`). A line for each trace and rate has

* ``merged_cpu_s`` and ``alone_cpu_s``: of the process and all below it, in steps of ``--step-seconds``. The start of the process
  and what a submit or removal takes is not in them, but in ``actions_cpu_s``.
* ``saving``: how much less the first is. ``ceiling``: the most that merging can save: what each operator takes in a step,
  measured where its flow runs alone, times the steps and flows in which it runs, merged and not. ``of_ceiling``: exits with 1
  below 0.9.
* ``paper``: what the paper says, at 10 events a second, of tasks that are costly, and of 35 workflows of OPMW instead of 22.
* ``left``: what is there when the last flow has gone. Exits with 1 if there is anything.

At the rate ``most`` a step has ``--backlog`` events for each source and lasts until they are answered.

``--kills N``: N times ``kill -9`` at random moments of a walk (:mod:`benchmarks._reuse_kills`). Exits with 1 if a flow is lost or
a trace differs from that of the same walk without kills.

``--idle``: the share of a core that a workspace uses without flows, with all 21 flows of RIoTBench and no rows, and behind their
drain.

``--spark N,N,...``: so many of the 21 flows in a workspace on Spark, one number after the other, up to the first that is not
supported: one that takes longer than ``--answer-seconds`` from a file of a thousand rows for each of the three sources to the
answers of all flows (``answer_s``, ``answer_cpu_s`` of processors). ``queries``: streaming queries, one for each segment.
``idle_core``: the share of a core that is used without rows.

``--draw``: figures 2 to 4 of the paper from the lines of ``--cpu``.

Prints JSON lines. ``--cpu`` has another side; the rest has none.
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
from benchmarks._reuse_cpu import MOST, Pace, cpu
from benchmarks._reuse_flows import INFERRED, OPMW, TEMPLATES, Counts, TypedFlow, counts, opmw, processes, riot
from benchmarks._reuse_http import http
from benchmarks._reuse_idle import idle
from benchmarks._reuse_kills import kills
from benchmarks._reuse_spark import spark
from benchmarks._reuse_traces import TRACES
from benchmarks._reuse_workloads import WORKLOADS, riot_workload
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
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--running", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--idle", action="store_true")
    parser.add_argument("--spark", default="")
    parser.add_argument("--answer-seconds", type=float, default=30.0)
    parser.add_argument("--idle-seconds", type=float, default=30.0)
    parser.add_argument("--draw", nargs=2, type=Path, metavar=("LINES", "SVG"))
    parser.add_argument("--workloads", default="RIoT,OPMW")
    parser.add_argument("--traces", default=",".join(TRACES))
    parser.add_argument("--rates", default="10,1000,most")
    parser.add_argument("--step-seconds", type=float, default=5.0)
    parser.add_argument("--walk-steps", type=int, default=100)
    parser.add_argument("--backlog", type=int, default=2_000)
    options = parser.parse_args(arguments)
    parts = ("count", "decide", "attach", "http", "cpu", "kills", "idle", "spark", "draw")
    if not any(getattr(options, part) for part in parts):
        parser.error(f"say one of {', '.join(f'--{part}' for part in parts)}")
    good = not options.count or count()
    if options.attach:
        for line in attach(options.joins, options.rows):
            print(json.dumps({**line, "versions": VERSIONS}), flush=True)
            good &= line.get("added_p99_s", 0.0) <= line.get("asked_s", 0.0)
    if options.http:
        line = http(options.running, options.changes, options.pause)
        print(json.dumps({**line, "versions": VERSIONS}), flush=True)
        good &= max(line["submit_ms"]["p99"], line["remove_ms"]["p99"]) <= line["asked_ms"] and not line["not_running"]
    if options.cpu:
        rates = [MOST if one == "most" else int(one) for one in options.rates.split(",")]
        paces = [Pace(rate, options.step_seconds, options.backlog) for rate in rates]
        for workload in options.workloads.split(","):
            for line in cpu(WORKLOADS[workload](), options.traces.split(","), paces, walk=options.walk_steps):
                print(json.dumps({**line, "versions": VERSIONS}), flush=True)
                good &= line["of_ceiling"] >= line["asked_of_ceiling"]
                good &= not any(count for side in line["left"].values() for count in side.values())
    if options.draw:
        from benchmarks._reuse_figures import draw, read

        draw(read(options.draw[0]), options.draw[1])
    if options.idle:
        line = idle(riot_workload(), options.idle_seconds)
        print(json.dumps({**line, "versions": VERSIONS}), flush=True)
        good &= line["empty_core"] <= 0.01 and line["idle_core"] <= 0.05 and not any(line["left"].values())
    if options.spark:
        counts = [int(one) for one in options.spark.split(",")]
        for line in spark(riot_workload(), counts, options.idle_seconds, options.answer_seconds):
            print(json.dumps({**line, "versions": VERSIONS}), flush=True)
            good &= line["answer_s"] <= line["asked_s"]
    if options.kills:
        for line in kills(riot_workload(), options.kills, walk=options.walk_steps):
            print(json.dumps({**line, "versions": VERSIONS}), flush=True)
            good &= not line["lost_flows"] and not line["different_traces"]
    if options.decide:
        for operators in map(int, options.operators.split(",")):
            good &= decide(operators, options.decisions)
    sys.exit(not good)


if __name__ == "__main__":
    main()
