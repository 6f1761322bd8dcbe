"""Files of an object store beside the same files on a disk: seconds of a run on the local backend, and their ratio.

    python -m benchmarks.stores [--events N] [--files N] [--runs N] [--parallelism 1,2] [--latency SECONDS,...]
                               [--formats parquet,jsonl]

The store is ``benchmarks/_object_server.py`` on loopback, in a process of its own: it sends bytes and does nothing else. It has
no latency unless ``--latency`` says so, and shares the cores with the run. The flow counts by key and block; its rows are kept
nowhere. Runs in turns, medians. ``ratio``: seconds on the disk for each second from the store.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._compare import alternate, medians, say, scratch
from tracetypes import Dataflow, U, Unit, every, run
from tracetypes.stdlib import aggregate, count, key_by


@attrs.frozen
class Event:
    ts: int
    user: int
    cents: int
    page: str


def flow() -> Dataflow:
    graph = Dataflow("events")
    events = graph.source("events", U[Unit, Event], markers=every(seconds=10, time=lambda event: event.ts))
    by_user = events.through(key_by(lambda key, event: event.user, to=int))
    graph.sink("counts", by_user.through(aggregate(count())))
    return graph


def write(place: Path, format: str, events: int, files: int) -> None:
    """Files of equal sizes."""
    place.mkdir(parents=True)
    random, each = np.random.default_rng(1), events // files
    for at in range(files):
        table = pa.table(
            {
                "ts": np.arange(at * each, (at + 1) * each) * 200 // events,
                "user": random.integers(0, 1_000, each),
                "cents": random.integers(0, 100_000, each),
                "page": [f"page {one}" for one in random.integers(0, 100, each)],
            }
        )
        if format == "parquet":
            pq.write_table(table, place / f"part-{at}.parquet", row_group_size=500_000)
            continue
        with (place / f"part-{at}.jsonl").open("w") as file:
            for batch in table.to_batches(100_000):
                ts, user, cents, page = (column.to_pylist() for column in batch.columns)
                rows = zip(ts, user, cents, page, strict=True)
                file.writelines(f'{{"ts":{a},"user":{b},"cents":{c},"page":"{d}"}}\n' for a, b, c, d in rows)


@contextmanager
def serving(directory: Path, latency: float) -> Iterator[None]:
    """The store, and the environment that names it."""
    command = [sys.executable, "-m", "benchmarks._object_server", str(directory), "--latency", str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        os.environ |= {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.stdout.readline().strip()}", "AWS_REGION": "us-east-1"}
        os.environ |= {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}
        try:
            yield
        finally:
            server.terminate()


def timed(address: str, parallelism: int) -> float:
    """Seconds of a run."""
    began = time.perf_counter()
    with scratch() as checkpoint:
        run(
            flow(),
            {"events": address},
            {"counts": "noop:"},
            backend="local",
            parallelism=parallelism,
            checkpoint=checkpoint / "checkpoint",
        )
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=8_000_000)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--warm", type=float, default=1.0)
    parser.add_argument("--parallelism", default="1,2")
    parser.add_argument("--latency", default="0")
    parser.add_argument("--formats", default="parquet,jsonl")
    arguments = parser.parse_args()
    with scratch() as place:
        for format in arguments.formats.split(","):
            events = arguments.events if format == "parquet" else arguments.events // 4
            write(place / "bucket" / format, format, events, arguments.files)
            for latency in map(float, arguments.latency.split(",")):
                with serving(place, latency):
                    for parallelism in map(int, arguments.parallelism.split(",")):
                        sides = {
                            "disk": partial(timed, str(place / "bucket" / format), parallelism),
                            "store": partial(timed, f"s3://bucket/{format}", parallelism),
                        }
                        seconds = medians(alternate(sides, arguments.runs, arguments.warm))
                        say(
                            benchmark="stores",
                            format=format,
                            events=events,
                            parallelism=parallelism,
                            latency=latency,
                            **seconds,
                            ratio=round(seconds["disk"] / seconds["store"], 2),
                        )


if __name__ == "__main__":
    main()
