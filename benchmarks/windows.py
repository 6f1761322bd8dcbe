"""A sum a minute, said in two ways: a block of a minute, or a window of six blocks of ten seconds.

    python -m benchmarks.windows [--events N] [--keys N] [--runs N] [--parallelism N]

The same Parquet files and session, the sides in turns, medians; the first run of each does not count. Both answers are compared.
``ratio``: seconds of the window over those of the block; 1 where they cost alike. Prints a JSON line.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import attrs
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._compare import say, scratch, versions
from tracetypes import Dataflow, U, check, every
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.run import run
from tracetypes.compiler.spark.session import session
from tracetypes.compiler.store.outputs import open_output
from tracetypes.stdlib.per_block import aggregate
from tracetypes.stdlib.sums import sum
from tracetypes.stdlib.time_windows import tumbling

MINUTES = 10
"""Of event time, whatever the number of events."""

SIDES = ("block", "window")


@attrs.frozen
class Event:
    """``ts``: seconds since the epoch."""

    id: int
    ts: int
    amount: int


def flow(side: str) -> Dataflow:
    """Sums by key and minute."""
    flow = Dataflow(f"minute-{side}")
    total: Any = sum(of=lambda event: event.amount, to=int)
    period = 60 if side == "block" else 10
    markers = every(seconds=period, time=lambda event: event.ts)
    events = flow.source("events", U[int, Event], markers=markers, key=lambda event: event.id)
    flow.sink("sums", events.through(aggregate(total) if side == "block" else tumbling(total, panes=6)), marker="at")
    return flow


def write(directory: Path, events: int, keys: int, files: int = 10) -> None:
    """The input, in the order of time."""
    directory.mkdir()
    chance = np.random.default_rng(1)
    ts = np.sort(chance.integers(0, MINUTES * 60, events))
    ids, amounts = chance.integers(0, keys, events), chance.integers(0, 100, events)
    for number, part in enumerate(np.array_split(np.arange(events), files)):
        table = pa.table({"id": ids[part], "ts": ts[part], "amount": amounts[part]})
        pq.write_table(table, directory / f"{number:03}.parquet")


def once(side: str, data: Path, parallelism: int, place: Path) -> float:
    """Seconds of a run."""
    query_plan = plan(check(flow(side)), parallelism=parallelism)
    start = time.monotonic()
    run(
        session(parallelism=parallelism),
        query_plan,
        {"events": str(data)},
        lambda name: open_output(query_plan, str(place / "out.parquet"), name),
        checkpoint=str(place / "checkpoint"),
    )
    return time.monotonic() - start


def equal(one: str, other: str) -> bool:
    """Are two bags of rows equal?"""
    with duckdb.connect() as database:
        unequal = f"({one} EXCEPT ALL {other}) UNION ALL ({other} EXCEPT ALL {one})"
        row = database.execute(f"SELECT count(*) FROM ({unequal})").fetchone()
        return row == (0,)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--parallelism", type=int, default=2)
    arguments = parser.parse_args()
    took: dict[str, list[float]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as root:
        data = Path(root, "data")
        write(data, arguments.events, arguments.keys)
        for number in range(arguments.runs + 1):
            answers = []
            with scratch() as one, scratch() as other:
                for side, place in zip(SIDES, (one, other), strict=True):
                    seconds = once(side, data, arguments.parallelism, place)
                    if number:
                        took[side].append(seconds)
                    answers.append(f"SELECT * FROM read_parquet('{place}/out.parquet/*.parquet')")
                same = equal(*answers)
    medians = {side: statistics.median(times) for side, times in took.items()}
    say(
        benchmark="windows",
        events=arguments.events,
        keys=arguments.keys,
        parallelism=arguments.parallelism,
        seconds={side: round(one, 2) for side, one in medians.items()},
        ratio=round(medians["window"] / medians["block"], 2),
        same=same,
        versions=versions(),
    )


if __name__ == "__main__":
    main()
