"""What it costs to compare traced answers with plain Python: processor seconds inside the check, of all that the workers take.

    python -m benchmarks.verification [--queries I,II,...] [--events N] [--users N] [--files N] [--files-per-step N] [--runs N]
        [--parallelism N]

The Yahoo queries of examples/yahoo.py over Parquet. Each query runs with the check and without it, in turns; the first runs
of each side do not count. Prints a JSON line for each query: rows that were compared, seconds of the check and of the workers,
their ratio (asked: below 0.01), and the seconds of whole runs with the check and without it.
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
from examples import yahoo, yahoo_data
from examples.yahoo_data import Tables
from tests.spark.test_exactly_once import children, command_of
from tracetypes import Dataflow, check
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.run import run
from tracetypes.compiler.spark.session import session
from tracetypes.compiler.store.outputs import NoOutput

SECONDS = 200
"""Of event time, whatever the number of events."""

TICK = os.sysconf("SC_CLK_TCK")


def workers() -> float:
    """Processor seconds of all Python workers so far."""
    total = 0
    for pid in children(os.getpid()):
        try:
            if b"java" not in command_of(pid):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += sum(map(int, fields[11:13]))
        except OSError:
            continue
    return total / TICK


@attrs.frozen
class Ran:
    """One run: rows that were compared, and seconds: of the check, of the workers, of the whole run."""

    rows: int
    check: float
    workers: float
    whole: float


def once(flow: Dataflow, events: Path, arguments: argparse.Namespace, *, verify: bool) -> Ran:
    """Run a query."""
    spark = session(parallelism=arguments.parallelism)
    query_plan = plan(check(flow), parallelism=arguments.parallelism)
    with scratch() as checkpoint:
        before, start = workers(), time.monotonic()
        summary = run(
            spark,
            query_plan,
            {"events": str(events)},
            NoOutput(query_plan),
            checkpoint=str(checkpoint),
            files_per_step=arguments.files_per_step,
            verify=verify,
        )
        assert not summary.differences
        return Ran(*summary.verified, workers() - before, time.monotonic() - start)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", default="I,II,III,IV,V,VI")
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--files-per-step", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--parallelism", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as data:
        dimensions: Tables = yahoo_data.tables(users=arguments.users, locations=50, seed=1)
        events = Path(data) / "events"
        rate = max(1, arguments.events // SECONDS)
        yahoo_data.write_events(events, dimensions, events=arguments.events, files=arguments.files, rate=rate, seed=1)
        span = SECONDS * arguments.files_per_step / arguments.files
        flows = {
            "I": yahoo.query_1_in_memory(dimensions, seconds=span),
            "II": yahoo.query_2(seconds=span),
            "III": yahoo.query_3(dimensions, seconds=span),
            "IV": yahoo.query_4(dimensions),
            "V": yahoo.query_5(dimensions),
            "VI": yahoo.query_6(dimensions, seconds=10, period=10),
        }
        for query in arguments.queries.split(","):
            flow = flows[query]
            runs: dict[bool, list[Ran]] = {True: [], False: []}
            for number in range(arguments.runs + 2):
                for verify in (True, False):
                    one = once(flow, events, arguments, verify=verify)
                    if number >= 2:
                        runs[verify].append(one)
            checks, all_of = sum(one.check for one in runs[True]), sum(one.workers for one in runs[True])
            say(
                benchmark="verification",
                query=query,
                events=arguments.events,
                parallelism=arguments.parallelism,
                rows=runs[True][-1].rows,
                check=round(checks / arguments.runs, 4),
                workers=round(all_of / arguments.runs, 2),
                ratio=round(checks / all_of, 4),
                seconds=round(statistics.median(one.whole for one in runs[True]), 2),
                seconds_without=round(statistics.median(one.whole for one in runs[False]), 2),
                versions=versions(),
            )


if __name__ == "__main__":
    main()
