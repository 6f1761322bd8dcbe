"""What a pause costs: three rows, the third one after a pause with a marker each second.

    python -m benchmarks.pause [--backend local|spark] [--seconds 864000,1000000000] [--runs N]

For each operator prints a JSON line: the seconds of a run with a pause of each length, less those of a run without one: of the
processor on the local backend, of the clock on Spark. Each run is that of a new dataflow, and the first one does not count. Runs
with and without a pause take turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, Literal

import attrs

from benchmarks._compare import say, versions
from tracetypes import Dataflow, Stream, U, every, run, sort, stdlib

__all__ = ["FLOWS", "seconds_of"]


@attrs.frozen
class Reading:
    """``ts``: seconds."""

    key: str
    ts: int


def second(reading: Reading) -> int:
    """Its time."""
    return reading.ts


def in_order(op: Any) -> Callable[..., Any]:
    """An operator on the sorted stream."""
    return lambda stream: stream.through(sort(by=second)).through(op)


BOTH: dict[str, Any] = {"left_time": second, "right_time": second}

FLOWS: dict[str, Callable[..., Any]] = {
    "tumbling": lambda one: one.through(stdlib.tumbling(stdlib.count(), size=60)),
    "sliding": lambda one: one.through(stdlib.sliding(stdlib.count(), size=60, slide=10)),
    "time_window": in_order(stdlib.time_window(stdlib.count(), size=60, time=second)),
    "session": in_order(stdlib.session(stdlib.count(), gap=60, time=second)),
    "interval_join": lambda one, other: stdlib.interval_join(one, other, before=60, after=60, **BOTH),
    "asof_join": lambda one, other: stdlib.asof_join(one, other, **BOTH),
    "table_join": lambda one, other: stdlib.table_join(one, other, left_time=second, table_time=second),
}
JOINS = ("interval_join", "asof_join", "table_join")


def flow_of(name: str) -> tuple[Dataflow, list[str]]:
    """A dataflow with one operator, and its sources."""
    flow, names = Dataflow("pause"), ["one", "other"] if name in JOINS else ["one"]
    streams: list[Stream[Any]] = [
        flow.source(each, U[str, Reading], key=lambda reading: reading.key, markers=every(seconds=1, time=second))
        for each in names
    ]
    flow.sink("out", FLOWS[name](*streams))
    return flow, names


def seconds_of(name: str, pause: int, backend: Literal["local", "spark"]) -> float:
    """A run with a pause of so many seconds."""
    flow, names = flow_of(name)
    rows = [Reading("a", 1_000_000_000), Reading("b", 1_000_000_030), Reading("a", 1_000_000_030 + pause)]
    out: list[Any] = []
    clock = time.process_time if backend == "local" else time.perf_counter
    began = clock()
    run(flow, inputs={each: rows for each in names}, outputs={"out": out}, backend=backend)
    return clock() - began


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("local", "spark"), default="local")
    parser.add_argument("--seconds", default="864000,1000000000")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    lengths = [1, *map(int, given.seconds.split(","))]
    say(benchmark="pause", backend=given.backend, **versions())
    for name in FLOWS:
        took: dict[int, list[float]] = {length: [] for length in lengths}
        for _ in range(given.runs + 1):
            for length in lengths:
                took[length].append(seconds_of(name, length, given.backend))
        medians = {length: statistics.median(times[1:]) for length, times in took.items()}
        say(operator=name, without=medians[1], **{str(n): medians[n] - medians[1] for n in lengths[1:]})


if __name__ == "__main__":
    main()
