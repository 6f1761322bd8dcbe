"""One run of :mod:`benchmarks.growth` on the local backend, in a process of its own.

    python -m benchmarks._growth_local --keys N --bytes N --epochs N --events N --touched N

The first epoch has all keys; each of the others has ``--events`` events of ``--touched`` random keys. Prints a JSON line: of the
epochs behind the first ones, the seconds of a commit (states are taken, written, synchronised), bytes written, and the
slowest epoch beside the median one; bytes on disk; and with ``--recover`` the seconds from a call that goes on to its first
commit.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tracetypes
from benchmarks._counts import flow_of
from tracetypes.compiler.local import runners
from tracetypes.compiler.local.log import LocalLog

WARM = 3
"""Epochs that do not count: the first one has all keys."""

EPOCH = 100
"""Seconds of event time."""


class Watch:
    """Seconds that calls take, and when epochs end."""

    def __init__(self) -> None:
        self.commit = 0.0
        self.commits: list[float] = []
        self.ends: list[float] = []
        self.written: list[int] = []

    def around(self, owner: Any, name: str, then: Callable[[], None] | None = None) -> None:
        """Watch a method."""
        before = getattr(owner, name)

        @wraps(before)
        def call(*arguments: Any) -> Any:
            start = time.perf_counter()
            try:
                return before(*arguments)
            finally:
                self.commit += time.perf_counter() - start
                if then is not None:
                    then()

        setattr(owner, name, call)

    def ended(self) -> None:
        """An epoch has ended."""
        self.commits.append(self.commit)
        self.ends.append(time.perf_counter())
        self.written.append(_written())
        self.commit = 0.0


def _written() -> int:
    """Bytes that this process has had written to disks."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["write_bytes"])


def _files(root: Path, first: int, epochs: int, arguments: argparse.Namespace) -> None:
    """Files of events. The first of all has each key once."""
    for number in range(first, first + epochs):
        chance = np.random.default_rng(number)
        if number:
            some = chance.choice(arguments.keys, min(arguments.touched, arguments.keys), replace=False)
            keys = np.resize(some, arguments.events)
        else:
            keys = np.arange(arguments.keys)
        count = len(keys)
        table = pa.table({"key": keys, "value": chance.integers(0, 1000, count), "ts": np.full(count, number * EPOCH)})
        pq.write_table(table, root / f"{number:05}.parquet")


def _size(place: Path) -> int:
    return sum(one.stat().st_size for one in place.rglob("*") if one.is_file())


def main() -> None:
    """Run, and print a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--touched", type=int, default=10_000)
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--recover", action="store_true")
    arguments = parser.parse_args()
    watch = Watch()
    watch.around(runners.ThreadRunner, "state")
    watch.around(LocalLog, "end", watch.ended)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "events").mkdir()
        _files(root / "events", 0, arguments.epochs + WARM, arguments)

        def run() -> None:
            tracetypes.run(
                flow_of(arguments.bytes),
                {"events": root / "events"},
                {"running": root / "out.parquet"},
                backend="local",
                parallelism=arguments.parallelism,
                files_per_step=1,
                processes="never",
                checkpoint=root / "checkpoint",
                drain=False,
            )

        run()
        epochs = [after - before for before, after in zip(watch.ends[WARM - 1 :], watch.ends[WARM:], strict=False)]
        written = [after - before for before, after in zip(watch.written[WARM - 1 :], watch.written[WARM:], strict=False)]
        line: dict[str, Any] = {
            "keys": arguments.keys,
            "bytes": arguments.bytes,
            "events": arguments.events,
            "touched": arguments.touched,
            "epochs": len(epochs),
            "commit_ms": round(statistics.median(watch.commits[WARM:]) * 1e3, 1),
            "epoch_ms": round(statistics.median(epochs) * 1e3, 1),
            "slowest_by_median": round(max(epochs) / statistics.median(epochs), 2),
            "written_mb": round(statistics.mean(written) / 1e6, 2),
            "disk_mb": round(_size(root / "checkpoint") / 1e6, 1),
        }
        if arguments.recover:
            _files(root / "events", arguments.epochs + WARM, 1, arguments)
            watch.ends.clear()
            start = time.perf_counter()
            run()
            line["recovery_s"] = round(watch.ends[0] - start, 2)
        line["resident_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
        print(json.dumps(line), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
