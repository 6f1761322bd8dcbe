"""Half an hour at 70 % of what a run can do: is memory flat, is the lag bounded, does the state stay as large as it should?

    python -m benchmarks.soak [--minutes N] [--load SHARE] [--keys N] [--rate N] [--parallelism N]
                              [--backend spark|local]

Count and mean of each key (``benchmarks/keyed_state.py``), from a topic to a topic, with a marker a second: most records come
out again. Throughput is what the run takes of backlogs, after the first two. Then records come at ``--load`` of it for
``--minutes``. Every ten seconds: memory of the driver (all of a run on the local backend), its JVM and its workers, size of the
checkpoint. Of each micro-batch: lag by the clock (from the newest event's sending to the end of the micro-batch) and bytes of
state. Prints a JSON line a minute, and one for all: memory in the second and the last fifth of the time, growth by a straight
line through the last four fifths (megabytes an hour).
``expected``: what the columns of the keys, and of the aggregates of a block, take.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._compare import quantiles, say, versions
from benchmarks._kafka import backlog, create, producing
from benchmarks._processes import kill_all, memory
from benchmarks._soak_flow import DELAY
from tests.spark.broker import Broker, running

ROOT = Path(__file__).parents[1]
PARTITIONS = 2


class Run:
    """The command line over a topic."""

    def __init__(self, broker: Broker, root: Path, name: str, parallelism: int, backend: str) -> None:
        self.checkpoint, self.metrics = root / name, root / f"{name}.jsonl"
        self.place = 0
        command = [sys.executable, "-m", "tracetypes.cli", "run", "benchmarks._soak_flow:flow", "--follow", "--quiet"]
        command += ["-i", f"events=kafka://{broker.address}/{name}?records=500000"]
        command += ["-o", f"running=kafka://{broker.address}/{name}-out"]
        command += ["--checkpoint", str(self.checkpoint), "--metrics", str(self.metrics)]
        command += ["--parallelism", str(parallelism), "--max-rejects", "0", "--backend", backend]
        self.process = subprocess.Popen(command, cwd=ROOT, env=dict(os.environ), text=True, start_new_session=True)

    def batches(self) -> list[dict[str, Any]]:
        """The micro-batches since this was asked last."""
        if not self.metrics.exists():
            return []
        with self.metrics.open("rb") as lines:
            lines.seek(self.place)
            new = lines.read()
        new = new[: new.rfind(b"\n") + 1]
        self.place += len(new)
        if self.process.poll() is not None:
            raise RuntimeError(f"the run ended with status {self.process.returncode}")
        return [json.loads(line) for line in new.splitlines()]


def topics(broker: Broker, name: str) -> None:
    """Topics that forget what is older than a few minutes."""
    for topic in (name, f"{name}-out"):
        config = {"retention.ms": "180000", "segment.ms": "60000", "segment.bytes": str(64 << 20)}
        create(broker, topic, PARTITIONS, **config)


def throughput(broker: Broker, root: Path, keys: int, records: int, parallelism: int, backend: str) -> float:
    """Records a second of a backlog, which has as many in a second of event time as a run takes, about."""
    topics(broker, "full")
    run = Run(broker, root, "full", parallelism, backend)
    dense, start = 40_000, time.time()
    try:
        speeds: list[float] = []
        for number in range(6):
            ticks = (start + number * records / dense, dense)
            backlog(broker, "full", partitions=PARTITIONS, keys=keys, records=records, ticks=ticks)
            before, rows = time.monotonic(), 0
            while rows < records and time.monotonic() < before + 180:
                rows += sum(batch["rows"] for batch in run.batches())
                time.sleep(0.02)
            speeds.append(rows / (time.monotonic() - before))
    finally:
        kill_all(run.process)
    return statistics.median(speeds[2:])


def slope(times: Sequence[float], sizes: Sequence[float]) -> float:
    """Megabytes an hour."""
    return round(float(np.polyfit(times, sizes, 1)[0]) * 3_600, 1) if len(times) > 2 else 0.0


def expected(keys: int, rate: float) -> int:
    """Bytes of the columns of so many keys: key, count and sum in eight bytes each, and whether it was touched; and those of the
    aggregates of an open block, for the keys that records of a second and the delay have, by chance."""
    active = keys * -math.expm1(-rate * (1 + DELAY) / keys)
    return round(keys * (3 * 8 + 1) + active * 3 * 8)


def bytes_below(path: Path) -> tuple[int, int]:
    """Bytes and number of the files in a directory."""
    sizes = []
    for directory, _, names in os.walk(path):
        for name in names:
            try:
                sizes.append(os.path.getsize(os.path.join(directory, name)))
            except OSError:
                continue
    return sum(sizes), len(sizes)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rate", type=float, help="records a second (default: by the throughput)")
    parser.add_argument("--backlog", type=int, default=400_000, help="records to find the throughput with")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--backend", choices=("spark", "local"), default="spark")
    arguments = parser.parse_args()
    with running() as broker, tempfile.TemporaryDirectory(prefix="tracetypes-benchmark-") as scratch:
        root, full = Path(scratch), None
        rate = arguments.rate
        if rate is None:
            full = throughput(broker, root, arguments.keys, arguments.backlog, arguments.parallelism, arguments.backend)
            rate = full * arguments.load
        topics(broker, "soak")
        run = Run(broker, root, "soak", arguments.parallelism, arguments.backend)
        seconds = arguments.minutes * 60
        samples: list[tuple[float, float, float, float, int, int]] = []
        lags: list[tuple[float, float]] = []
        states: list[int] = []
        rows = 0
        try:
            # A few records, until the run has answered: Spark's start is not part of the time.
            backlog(broker, "soak", partitions=PARTITIONS, keys=arguments.keys, records=PARTITIONS)
            while not run.batches():
                time.sleep(0.5)
            start = time.time()
            with producing(
                broker, "soak", partitions=PARTITIONS, keys=arguments.keys, rate=rate, seconds=seconds
            ) as producer:
                minute = 1
                while producer.is_alive():
                    time.sleep(10 if seconds > 120 else 1)
                    at = time.time() - start
                    for batch in run.batches():
                        rows += batch["rows"]
                        if batch["newest"]:
                            lags.append((batch["at"] - start, batch["at"] - max(batch["newest"].values()) / 1e6))
                        states.append(sum(stage["bytes"] for stage in batch["stages"]))
                    now = memory(run.process.pid)
                    samples.append((at, now.driver, now.jvm, now.workers, *bytes_below(run.checkpoint)))
                    if at > minute * 60:
                        minute += 1
                        report(samples[-1], lags, states, rows, at)
        finally:
            kill_all(run.process)
        tail = [one for one in samples if one[0] > seconds / 5]
        early = [one for one in tail if one[0] < 2 * seconds / 5]
        late = [one for one in samples if one[0] > 4 * seconds / 5]
        times = [one[0] for one in tail]
        say(
            benchmark="soak",
            backend=arguments.backend,
            minutes=arguments.minutes,
            throughput=None if full is None else round(full),
            rate=round(rate),
            taken=rows,
            rows_a_second=round(rows / seconds),
            keys=arguments.keys,
            parallelism=arguments.parallelism,
            memory_mb={
                name: {
                    "early": round(statistics.median(one[place] for one in early), 1),
                    "late": round(statistics.median(one[place] for one in late), 1),
                    "max": round(max(one[place] for one in samples), 1),
                    "mb_an_hour": slope(times, [one[place] for one in tail]),
                }
                for place, name in ((1, "driver"), (2, "jvm"), (3, "workers"))
            },
            checkpoint={
                "mb_early": round(statistics.median(one[4] for one in early) / 1e6, 1),
                "mb_late": round(statistics.median(one[4] for one in late) / 1e6, 1),
                "files_early": statistics.median(one[5] for one in early),
                "files_late": statistics.median(one[5] for one in late),
            },
            lag_s=quantiles([lag for at, lag in lags if at > seconds / 10]),
            state={"bytes": states[-1], "max": max(states), "expected": expected(arguments.keys, rate)},
            versions=versions(),
        )


def report(
    sample: tuple[float, ...], lags: Sequence[tuple[float, float]], states: Sequence[int], rows: int, at: float
) -> None:
    """A line for the minute that has passed."""
    say(
        benchmark="soak",
        minute=round(at / 60, 1),
        rows=rows,
        driver_mb=round(sample[1], 1),
        jvm_mb=round(sample[2], 1),
        workers_mb=round(sample[3], 1),
        checkpoint_mb=round(sample[4] / 1e6, 1),
        checkpoint_files=sample[5],
        lag_s=quantiles([lag for then, lag in lags if then > at - 60]),
        state_bytes=states[-1] if states else None,
    )


if __name__ == "__main__":
    main()
