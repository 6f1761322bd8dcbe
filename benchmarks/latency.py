"""From an event in a topic to the result in a topic: ours against Spark's connector and window by hand, at half load.

    python -m benchmarks.latency [--seconds N] [--warm N] [--keys N] [--runs N] [--rate N] [--parallelism N] [--sides ours,other]
    python -m venv engines && engines/bin/pip install bytewax pathway confluent-kafka
    python -m benchmarks.latency --sides local,bytewax,pathway --python engines/bin/python --rate 10000 --warm 10

Counts and sums of each key and second. First each side works off a backlog, which gives its throughput; half of the slower one's
is the rate at which records are then sent to both, for ``--seconds`` each, in turns. A record's event time is when it is
sent. A result may be there as soon as an event of its second's end and the delay (200 ms, on both sides) has been sent; its
latency is from then until a consumer that reads committed records has it, from 90 s (``--warm``: the JVM's compilers are busy
until then) after the first result on. A side ``local`` is ours on the local backend; ``bytewax`` and ``pathway`` are these
engines (``other_engines``), run by ``--python``. Ratios are to the last side. Broker, sender, consumer and the side share the
machine. Ours sends in transactions (exactly once); the others do not. ``missing``: records of the counted seconds that no result
has counted; ``extra``: those that were counted twice.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import attrs

from benchmarks._compare import quantiles, say, versions
from benchmarks._kafka import backlog, committed_records, connector, create, producing
from tests.spark.broker import Broker, running
from tracetypes import Dataflow, Emit, Marker, OpKeyedUnordered, U, every, kafka

ROOT = Path(__file__).parents[1]
DELAY, PARTITIONS = 200, 2
"""Milliseconds that events may come late; partitions of both topics."""


@attrs.frozen
class Event:
    """``ts``: milliseconds since the epoch."""

    key: int
    value: int
    ts: int


@attrs.frozen
class Totals:
    """Of a second that ends at ``end`` (milliseconds since the epoch)."""

    end: int
    count: int
    total: int


@attrs.frozen
class OfSecond(OpKeyedUnordered[int, Event, int, Totals, tuple[int, int], tuple[int, int]]):
    """Count and sum of each block."""

    skips_untouched = True

    def lift(self, key: int, value: Event) -> tuple[int, int]:
        return 1, value.value

    def identity(self) -> tuple[int, int]:
        return 0, 0

    def combine(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]

    def initial_state(self) -> tuple[int, int]:
        return 0, 0

    def update_state(self, state: tuple[int, int], agg: tuple[int, int]) -> tuple[int, int]:
        return agg

    def on_marker(self, new_state: tuple[int, int], key: int, marker: Marker, emit: Emit[int, Totals]) -> None:
        if new_state[0]:
            emit(key, Totals(marker.timestamp * 1_000, new_state[0], new_state[1]))


flow = Dataflow("latency")
markers = every(seconds=1, time=lambda e: e.ts, unit="ms", delay=DELAY / 1_000)
events = flow.source("events", U[int, Event], key=lambda e: e.key, markers=markers, format=kafka())
flow.sink("totals", events.through(OfSecond()))


ENGINES = ("bytewax", "pathway")
"""Sides that ``--python`` runs."""


class Side:
    """A side in a process of its own. ``name``: ``ours``, ``local``, ``other`` (Spark by hand), or another engine, which the
    interpreter ``python`` has."""

    def __init__(self, broker: Broker, root: Path, parallelism: int, name: str, python: str) -> None:
        self.broker, self.root, self.parallelism, self.name = broker, root, parallelism, name
        self.python = python if name in ENGINES else sys.executable
        self.runs = 0

    def start(self, source: str, to: str, *, bounded: bool) -> subprocess.Popen[str]:
        """Begin to read; from the beginning of the topic."""
        self.runs += 1
        checkpoint = str(self.root / f"{self.name}-{self.runs}")
        self.metrics = Path(f"{checkpoint}.jsonl")
        environment = dict(os.environ)
        if self.name in ENGINES:
            environment["PATHWAY_THREADS"] = str(self.parallelism)
            command = [f"benchmarks.other_engines.latency_on_{self.name}", self.broker.address, source, to, str(DELAY)]
            command += [str(self.parallelism)]
        elif self.name != "other":
            command = ["tracetypes.cli", "run", "benchmarks.latency:flow", "--quiet", "--metrics", str(self.metrics)]
            command += ["--backend", "local" if self.name == "local" else "spark"]
            command += ["-i", f"events=kafka://{self.broker.address}/{source}"]
            command += ["-o", f"totals=kafka://{self.broker.address}/{to}"]
            command += ["--checkpoint", checkpoint, "--parallelism", str(self.parallelism)]
            command += [] if bounded else ["--follow"]
        else:
            command = ["benchmarks.by_hand.latency", self.broker.address, source, to, checkpoint]
            command += [str(DELAY), str(self.parallelism), *(["--until-empty"] if bounded else [])]
            environment["PYSPARK_SUBMIT_ARGS"] = f"--jars {connector()} pyspark-shell"
        return subprocess.Popen(
            [self.python, "-m", *command],
            cwd=ROOT,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )


def end(process: subprocess.Popen[str]) -> None:
    """End a side, and whatever is left of it."""
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(20)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def until_read(broker: Broker, topic: str, results: int, patience: float) -> float:
    """Seconds since the epoch at which so many results had been received."""
    count = 0
    for at, _, _ in committed_records(broker.address, topic, time.time() + patience):
        count += 1
        if count >= results:
            return at
    raise RuntimeError(f"{count} of {results} results after {patience} s")


def throughput(side: Side, keys: int, records: int) -> float:
    """Records a second: of a backlog that comes while the side runs and is warm."""
    name = f"{side.name}-full"
    create(side.broker, name, PARTITIONS)
    create(side.broker, f"{name}-out", PARTITIONS)
    process = side.start(name, f"{name}-out", bounded=False)
    results = []
    try:
        expected = 0
        for _ in range(4):
            backlog(side.broker, name, partitions=PARTITIONS, keys=keys, records=records)
            start = time.time()
            time.sleep(1.3)
            # These end the second of those before; what they begin is ended by the next ones.
            backlog(side.broker, name, partitions=PARTITIONS, keys=1, records=2 * PARTITIONS)
            expected += keys
            results.append(records / (until_read(side.broker, f"{name}-out", expected, 120) - start))
            expected += 1
    finally:
        end(process)
    return max(results[1:])


@attrs.frozen
class Answers:
    """``milliseconds``: of each result. ``missing`` records were not counted, ``extra`` ones twice."""

    milliseconds: list[float]
    missing: int
    extra: int


def records_of(broker: Broker, topic: str, ends: Collection[int]) -> Counter[int]:
    """How many records a topic has of each second that ends at ``ends``."""
    sent = (json.loads(record.value or b"{}")["ts"] // 1_000 * 1_000 + 1_000 for record in broker.read(topic))
    return Counter(end for end in sent if end in ends)


def latencies(side: Side, keys: int, rate: float, warm: float, seconds: float) -> Answers:
    """Of each result. ``warm``: seconds after its first answer that do not count."""
    name = f"{side.name}-{side.runs}"
    create(side.broker, name, PARTITIONS)
    create(side.broker, f"{name}-out", PARTITIONS)
    process = side.start(name, f"{name}-out", bounded=False)
    try:
        results: list[float] = []
        counts = Counter[int]()
        counted_from = last = time.time() + 300
        with producing(side.broker, name, partitions=PARTITIONS, keys=keys, rate=rate, seconds=600):
            for at, _, value in committed_records(side.broker.address, f"{name}-out", last):
                if counted_from == last:  # it has begun to answer: what it is behind by now is not counted
                    counted_from = at + warm
                result = json.loads(value or b"{}")
                due = (result["end"] + DELAY) / 1_000
                if counted_from < due < counted_from + seconds:
                    results.append((at - due) * 1_000)
                    counts[result["end"]] += result["count"]
                elif due > counted_from + seconds + 1:
                    break
    finally:
        end(process)
    if not results:
        raise RuntimeError(f"{name}: no results")
    sent = records_of(side.broker, name, counts)
    return Answers(results, (sent - counts).total(), (counts - sent).total())


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm", type=float, default=90, help="seconds after the first answer that do not count")
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rate", type=float, help="records a second (default: half of the slower side's throughput)")
    parser.add_argument("--backlog", type=int, default=200_000, help="records to find the throughput with")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--sides", default="ours,other", help="of ours, local, other, bytewax and pathway")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the other engines")
    arguments = parser.parse_args()
    with running() as broker, tempfile.TemporaryDirectory(prefix="tracetypes-benchmark-") as scratch:
        names = arguments.sides.split(",")
        sides = {name: Side(broker, Path(scratch), arguments.parallelism, name, arguments.python) for name in names}
        full: dict[str, int] = {}
        rate = arguments.rate
        if rate is None:
            full = {name: round(throughput(side, arguments.keys, arguments.backlog)) for name, side in sides.items()}
            rate = min(full.values()) / 2
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
        for _ in range(arguments.runs):
            for name, side in sides.items():
                answers = latencies(side, arguments.keys, rate, arguments.warm, arguments.seconds)
                notes = {"missing": answers.missing, "extra": answers.extra}
                runs[name].append(quantiles(answers.milliseconds) | notes)
        median: dict[str, dict[str, Any]] = {
            name: {q: statistics.median(one[q] for one in some) for q in ("p50", "p99", "max", "missing", "extra")}
            for name, some in runs.items()
        }
        say(
            benchmark="latency",
            unit="ms",
            throughput=full,
            rate=round(rate),
            keys=arguments.keys,
            parallelism=arguments.parallelism,
            **median,
            ratio={
                name: {q: round(one[q] / median[names[-1]][q], 2) for q in ("p50", "p99")}
                for name, one in median.items()
                if name != names[-1]
            },
            of=names[-1],
            all=runs,
            other_is="Spark's Kafka connector 4.2.0, window(1 s), append mode",
            versions=versions(),
        )


if __name__ == "__main__":
    main()
