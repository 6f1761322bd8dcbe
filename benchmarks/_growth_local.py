"""One run of :mod:`benchmarks.growth` on the local backend, in a process of its own.

    python -m benchmarks._growth_local --keys N --bytes N --epochs N --events N --touched N

The first epochs have all keys, a million each; each of the others has ``--events`` events of ``--touched`` random keys.
Prints a JSON line: of the epochs behind the first ones, the seconds of a commit (states are taken, written, synchronised),
bytes written, and the slowest epoch beside the median one; bytes on disk; and with ``--recover`` the seconds from a call that
goes on to its first commit.
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
from tracetypes.compiler.local.section_files import LogSections

WARM = 3
"""Epochs behind those with all keys that do not count."""

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


LOADED = 1_000_000
"""Keys of an epoch with all of them."""


def _files(root: Path, first: int, behind: int, arguments: argparse.Namespace) -> None:
    """Files of events. The first ones have each key once."""
    loads = -(-arguments.keys // LOADED)
    for number in range(first, behind):
        chance = np.random.default_rng(number)
        if number >= loads:
            if arguments.zipf is None:
                some = chance.choice(arguments.keys, min(arguments.touched, arguments.keys), replace=False)
                keys = np.resize(some, arguments.events)
            else:
                ranks = np.arange(1, arguments.keys + 1) ** -arguments.zipf
                places = np.searchsorted(np.cumsum(ranks) / ranks.sum(), chance.random(arguments.events))
                keys = np.random.default_rng(7).permutation(arguments.keys)[np.minimum(places, arguments.keys - 1)]
        else:
            keys = np.arange(number * LOADED, min(arguments.keys, (number + 1) * LOADED))
        count = len(keys)
        table = pa.table({"key": keys, "value": chance.integers(0, 1000, count), "ts": np.full(count, number * EPOCH)})
        pq.write_table(table, root / f"{number:05}.parquet")


def _drop_pages() -> None:
    """Let what is read of sections leave the page cache, so that a state that is read comes from the disk."""
    read = LogSections.read

    def drops(self: LogSections, number: int, start: int, size: int) -> bytes:
        content = read(self, number, start, size)
        if (file := self._open.get(number)) is not None:
            os.posix_fadvise(file, start, size, os.POSIX_FADV_DONTNEED)
        return content

    LogSections.read = drops  # type: ignore[method-assign]


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
    parser.add_argument("--state-memory", help="as of the run; then files that were read leave the page cache")
    parser.add_argument("--zipf", type=float, help="keys by Zipf's law with this exponent, instead of uniform ones")
    arguments = parser.parse_args()
    if arguments.state_memory is not None:
        _drop_pages()
    watch = Watch()
    watch.around(runners.ThreadRunner, "state")
    watch.around(LocalLog, "end", watch.ended)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "events").mkdir()
        warm = -(-arguments.keys // LOADED) + WARM - 1
        _files(root / "events", 0, warm + arguments.epochs, arguments)

        def run() -> None:
            tracetypes.run(
                flow_of(arguments.bytes),
                {"events": root / "events"},
                {"running": root / "out.parquet"},
                backend="local",
                parallelism=arguments.parallelism,
                files_per_step=1,
                processes="never",
                **({} if arguments.state_memory is None else {"state_memory": arguments.state_memory}),
                checkpoint=root / "checkpoint",
                drain=False,
            )

        run()
        epochs = [after - before for before, after in zip(watch.ends[warm - 1 :], watch.ends[warm:], strict=False)]
        written = [after - before for before, after in zip(watch.written[warm - 1 :], watch.written[warm:], strict=False)]
        line: dict[str, Any] = {
            "keys": arguments.keys,
            "bytes": arguments.bytes,
            "events": arguments.events,
            "touched": arguments.touched,
            "epochs": len(epochs),
            "events_per_second": round(arguments.events / statistics.median(epochs)),
            "commit_ms": round(statistics.median(watch.commits[warm:]) * 1e3, 1),
            "epoch_ms": round(statistics.median(epochs) * 1e3, 1),
            "slowest_by_median": round(max(epochs) / statistics.median(epochs), 2),
            "written_mb": round(statistics.mean(written) / 1e6, 2),
            "disk_mb": round(_size(root / "checkpoint") / 1e6, 1),
        }
        if arguments.recover:
            _files(root / "events", warm + arguments.epochs, warm + arguments.epochs + 1, arguments)
            watch.ends.clear()
            start = time.perf_counter()
            run()
            line["recovery_s"] = round(watch.ends[0] - start, 2)
        line["resident_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
        print(json.dumps(line), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
