"""What a late row costs, and a rejected one, against a row that is on time: microseconds of a whole run.

    python -m benchmarks.late [--rows N] [--runs N] [--parallelism N]

Counts by key and second of JSON lines. The first row of the first file is a day newer than all that follow, so that each of them
is late; or the rows lack a field, so that each of them is rejected; or the first row is as old as they are. The sides run in
turns, and the first run of each does not count. What a run of a thousand rows takes is taken off. Prints a JSON line for each
side: seconds, and processor time of the driver, Java and the workers, which does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import attrs

from benchmarks._compare import say, scratch, versions
from tests.spark.test_exactly_once import children
from tracetypes import Dataflow, U, check, every
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.run import run
from tracetypes.compiler.spark.session import session
from tracetypes.compiler.store.outputs import open_output
from tracetypes.stdlib.per_block import aggregate
from tracetypes.stdlib.sums import count

SECONDS, DAY, KEYS = 600, 86_400, 1_000
"""Of event time; how much newer the row is that makes all others late; keys."""

SIDES = ("on time", "late", "rejected")


@attrs.frozen
class Event:
    """``ts``: seconds since the epoch."""

    id: str
    ts: int
    price: float


def flow() -> Dataflow:
    """Counts by key and second."""
    flow = Dataflow("late")
    events = flow.source("events", U[str, Event], markers=every(seconds=1, time=lambda e: e.ts), key=lambda e: e.id)
    flow.sink("counts", events.through(aggregate(count())))
    return flow


def write(directory: Path, side: str, rows: int) -> None:
    """The input of a side."""
    directory.mkdir()
    first = DAY if side == "late" else 0
    price = "" if side == "rejected" else ',"price":0.5'
    lines = [f'{{"id":"first","ts":{first},"price":0.5}}\n']
    lines += [f'{{"id":"{n % KEYS}","ts":{n * SECONDS // rows}{price}}}\n' for n in range(rows)]
    (directory / "0.jsonl").write_text(lines[0])
    (directory / "1.jsonl").write_text("".join(lines[1:]))
    os.utime(directory / "0.jsonl", (1, 1))


TICK = os.sysconf("SC_CLK_TCK")


def processor() -> float:
    """Processor seconds of this process and all below it so far."""
    total = 0
    for pid in (os.getpid(), *children(os.getpid())):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
        except OSError:
            continue
    return total / TICK


def once(events: Path, parallelism: int) -> tuple[float, float, int]:
    """Seconds of a run, its processor seconds, and how many rows went aside."""
    spark = session(parallelism=parallelism)
    query_plan = plan(check(flow()), parallelism=parallelism)
    with scratch() as place:
        before, start = processor(), time.monotonic()
        summary = run(
            spark,
            query_plan,
            {"events": str(events)},
            lambda name: open_output(query_plan, str(place / "out"), name),
            checkpoint=str(place / "checkpoint"),
        )
        took = time.monotonic() - start, processor() - before
        return *took, sum(summary.late.values()) + sum(summary.rejects.values())


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--parallelism", type=int, default=2)
    arguments = parser.parse_args()
    few = 1_000
    with tempfile.TemporaryDirectory() as data:
        runs: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for side in SIDES:
            for rows in (few, arguments.rows):
                write(Path(data) / f"{side}-{rows}", side, rows)
        for number in range(arguments.runs + 1):
            for side in SIDES:
                for rows in (few, arguments.rows):
                    *took, aside = once(Path(data) / f"{side}-{rows}", arguments.parallelism)
                    assert aside == (0 if side == "on time" else rows)
                    if number:
                        runs.setdefault((side, rows), []).append((took[0], took[1]))
        for side in SIDES:
            whole, base = (
                [statistics.median(one) for one in zip(*runs[side, rows], strict=True)] for rows in (arguments.rows, few)
            )
            micros = [round((a - b) / (arguments.rows - few) * 1e6, 2) for a, b in zip(whole, base, strict=True)]
            say(
                benchmark="late",
                side=side,
                rows=arguments.rows,
                parallelism=arguments.parallelism,
                micros_a_row=micros[0],
                processor_micros_a_row=micros[1],
                seconds=round(whole[0], 2),
                seconds_of_few=round(base[0], 2),
                versions=versions(),
            )


if __name__ == "__main__":
    main()
