"""Killed with a gigabyte of state: seconds from the same command to the next micro-batch that is out, beside Spark by hand.

    python -m benchmarks.recovery [--keys N] [--bytes N] [--events N] [--runs N] [--parallelism N] [--backend local]

Count, mean and ``--bytes`` of further state of each key: ours as in ``benchmarks/growth.py``, by hand Spark's own aggregation
in RocksDB (``benchmarks/by_hand/recovery.py``). Each side is a process of its own, over eight Parquet files of uniform keys,
two a micro-batch, to Parquet files. When its second micro-batch is out all of its processes are ended by SIGKILL, and it is
started again. ``seconds``: from then until the third is out; ``usual``: what the second one took, from the first. In turns,
medians. ``exact``: the last count of each key is that of a recount.

``--backend local``: ours on the local backend, alone. ``warm`` is the same within a process that has run before: from the call to
the first commit; ``warm_usual``: the epoch before, which needs no start. ``--bytes 0``: the states are columns, 36 bytes a key.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from benchmarks._compare import say, versions
from benchmarks._counts import FILES, FILES_PER_STEP, flow_of
from benchmarks._processes import kill_all
from benchmarks.keyed_state import make
from tracetypes import check
from tracetypes.compiler.backend.run import run
from tracetypes.compiler.local.backend import LocalBackend
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.store.outputs import NoOutput

ROOT = Path(__file__).parents[1]

class Side:
    """A run of a side. ``ours`` or by hand."""

    def __init__(self, data: Path, root: Path, size: int, parallelism: int, backend: str, *, ours: bool) -> None:
        self.data, self.root, self.ours = data, root, ours
        self.out, checkpoint = root / "out.parquet", str(root / "checkpoint")
        if ours:
            command = ["tracetypes.cli", "run", "benchmarks._counts:flow", "--files-per-step", "2"]
            command += ["-i", f"events={data}", "-o", f"running={self.out}", "--checkpoint", checkpoint]
            command += ["--parallelism", str(parallelism), "--backend", backend, "--progress", "lines"]
        else:
            command = ["benchmarks.by_hand.recovery", str(data), checkpoint, str(self.out), str(size), str(parallelism)]
        self.command, self.environment = [sys.executable, "-m", *command], {**os.environ, "COUNT_BYTES": str(size)}

    def start(self) -> subprocess.Popen[str]:
        """The command."""
        return subprocess.Popen(
            self.command,
            cwd=ROOT,
            env=self.environment,
            text=True,
            stdout=subprocess.DEVNULL if self.ours else subprocess.PIPE,
            stderr=subprocess.PIPE if self.ours else subprocess.DEVNULL,
            start_new_session=True,
        )

    def times(self, process: subprocess.Popen[str], count: int | None) -> list[float]:
        """When each of the next ``count`` micro-batches was out; for None all that there are, and the end of the run."""
        times: list[float] = []
        for line in (process.stderr if self.ours else process.stdout) or ():
            if line.startswith("micro-batch "):
                times.append(time.monotonic())
                if len(times) == count:
                    return times
            elif line.startswith("done") and count is None:
                # Spark's JVM may hang at its end, inside RocksDB, with gigabytes of memory: nobody waits for that.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                return times
        raise RuntimeError(f"{self.command} ended with status {process.wait()}")

    def go(self) -> tuple[float, float]:
        """Kill it and start it again: seconds until the next micro-batch, and of a usual one."""
        process = self.start()
        first, second = self.times(process, 2)
        kill_all(process)
        again = time.monotonic()
        process = self.start()
        third, *_ = self.times(process, None)
        return third - again, second - first

    def exact(self) -> bool:
        """Is the last count of each key that of a recount?"""
        parts = [str(part) for part in self.out.rglob("part-*.parquet")]
        last = ds.dataset(parts).to_table(columns=["key", "count"]).group_by("key").aggregate([("count", "max")])
        want = ds.dataset(self.data).to_table(columns=["key"]).group_by("key").aggregate([([], "count_all")])
        mine = dict(zip(last["key"].to_pylist(), last["count_max"].to_pylist(), strict=True))
        return mine == dict(zip(want["key"].to_pylist(), want["count_all"].to_pylist(), strict=True))


def warm(data: Path, root: Path, size: int, parallelism: int) -> tuple[float, float]:
    """Seconds from the call to the first commit of a run that goes on, in this process, and those of the last epoch before."""
    query_plan = plan(check(flow_of(size)), parallelism=parallelism)
    files = sorted(data.iterdir())
    (root / "data").mkdir(parents=True)

    def run_on(some: Sequence[Path]) -> list[float]:
        for path in some:
            shutil.copy2(path, root / "data")
        ends = [time.monotonic()]
        run(
            LocalBackend(parallelism),
            query_plan,
            {"events": str(root / "data")},
            NoOutput(query_plan),
            checkpoint=str(root / "checkpoint"),
            files_per_step=FILES_PER_STEP,
            drain=False,
            on_batch=lambda _: ends.append(time.monotonic()),
        )
        return [after - before for before, after in pairwise(ends)]

    *_, usual = run_on(files[: FILES - FILES_PER_STEP])
    again, *_ = run_on(files[FILES - FILES_PER_STEP :])
    return again, usual


def local(data: Path, root: Path, arguments: argparse.Namespace) -> None:
    """The local backend alone."""
    cold, calls = list[tuple[float, float]](), list[tuple[float, float]]()
    exact, state = True, 0
    for number in range(arguments.runs):
        here = root / str(number)
        here.mkdir()
        side = Side(data, here, arguments.bytes, arguments.parallelism, "local", ours=True)
        cold.append(side.go())
        exact = exact and side.exact()
        calls.append(warm(data, here / "warm", arguments.bytes, arguments.parallelism))
        state = sum(path.stat().st_size for path in (here / "warm" / "checkpoint").rglob("*") if path.is_file())
        shutil.rmtree(here)
    say(
        benchmark="recovery",
        backend="local",
        keys=arguments.keys,
        bytes=arguments.bytes,
        checkpoint_megabytes=round(state / 1e6, 1),
        events=arguments.events,
        parallelism=arguments.parallelism,
        seconds=round(statistics.median(again for again, _ in cold), 3),
        usual=round(statistics.median(usual for _, usual in cold), 3),
        warm=round(statistics.median(again for again, _ in calls), 3),
        warm_usual=round(statistics.median(usual for _, usual in calls), 3),
        all=[[round(one, 3) for one in (*first, *second)] for first, second in zip(cold, calls, strict=True)],
        exact=exact,
        versions=versions(),
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=1_000)
    parser.add_argument("--events", type=int, default=8_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--backend", choices=("spark", "local"), default="spark")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracetypes-benchmark-") as directory:
        data = Path(directory, "data")
        data.mkdir()
        make(data, arguments.events, arguments.keys)
        if arguments.backend == "local":
            local(data, Path(directory), arguments)
            return
        all_runs: dict[str, list[tuple[float, float]]] = {"ours": [], "other": []}
        exact: dict[str, bool] = {}
        for number in range(arguments.runs):
            for name, runs in all_runs.items():
                root = Path(directory, f"{name}-{number}")
                side = Side(data, root, arguments.bytes, arguments.parallelism, "spark", ours=name == "ours")
                root.mkdir()
                runs.append(side.go())
                exact[name] = exact.get(name, True) and side.exact()
                shutil.rmtree(root)
        seconds: dict[str, Any] = {name: statistics.median(r for r, _ in runs) for name, runs in all_runs.items()}
        usual = {name: round(statistics.median(u for _, u in runs), 2) for name, runs in all_runs.items()}
        say(
            benchmark="recovery",
            keys=arguments.keys,
            state_megabytes=round(arguments.keys * arguments.bytes / 1e6),
            events=arguments.events,
            parallelism=arguments.parallelism,
            ours=round(seconds["ours"], 2),
            other=round(seconds["other"], 2),
            ratio=round(seconds["other"] / seconds["ours"], 2),
            all={name: [round(r, 2) for r, _ in runs] for name, runs in all_runs.items()},
            usual=usual,
            other_is="groupBy.agg, RocksDB",
            exact=exact,
            versions=versions(),
        )


if __name__ == "__main__":
    main()
