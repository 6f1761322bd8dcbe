"""Operators in Python on the local backend: one worker, two threads, and two worker processes.

    python -m benchmarks.worker_processes [--events N] [--flows map,keyed,cheap] [--runs N] [--parallelism N]

``map``: a hash of each value, straight to the sink. ``keyed``: items in order by key, and a hash with the state of its key.
``cheap``: the same without hashes, for what crossing costs. Parquet in, Parquet out, checkpoints on. All sides are compared with
one worker. Of all runs of a side the least counts. ``cpu``: seconds of all processes of a run. ``crossing``: microseconds of a
core that an event costs more in processes than with one worker. ``start``: seconds of a core until the first worker process of a
program can answer; no run that counts has that here.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from benchmarks._compare import Setting, alternate, say, scratch, versions
from benchmarks._counts import FILES
from benchmarks._opaque import FLOWS
from benchmarks._processes import cpu
from benchmarks.keyed_state import make
from tracetypes.compiler.local.backend import LocalBackend
from tracetypes.compiler.local.options import LocalOptions, Processes

IMPORT: Final = "import tracetypes.compiler.local.worker_main"


def rows(path: Path) -> Any:
    """All rows of an output, in one order."""
    table = pq.read_table(path)
    return table.sort_by([(name, "ascending") for name in table.column_names])


def measure(name: str, root: Path, arguments: argparse.Namespace) -> None:
    """Verify, time and print a flow."""
    width = arguments.parallelism

    def setting(workers: int, processes: Processes) -> Setting:
        backend: Any = LocalBackend(workers, LocalOptions(processes=processes))
        return Setting(backend, root, "events", FILES, workers, keep=True)

    sides = {
        "one": setting(1, "never"),
        "threads": setting(width, "never"),
        "processes": setting(width, "always"),
        "auto": setting(width, "auto"),
    }
    answers = []
    with scratch() as out:
        for side, one in sides.items():
            one.ours(FLOWS[name], out / f"{side}.parquet")
            answers.append(rows(out / f"{side}.parquet"))
    used: dict[str, list[float]] = {side: [] for side in sides}

    def timed(side: str) -> float:
        before = cpu()
        seconds = sides[side].ours(FLOWS[name])
        used[side].append(cpu() - before)
        return seconds

    calls: dict[str, Callable[[], float]] = {side: partial(timed, side) for side in sides}
    seconds = alternate(calls, arguments.runs, 0.0)
    before = cpu()
    subprocess.run([sys.executable, "-c", IMPORT], check=True)
    start = cpu() - before
    wall, cores = {side: min(some) for side, some in seconds.items()}, {side: min(some) for side, some in used.items()}
    say(
        benchmark="worker_processes",
        flow=name,
        events=arguments.events,
        parallelism=width,
        exact=all(one.equals(answers[0]) for one in answers),
        seconds={side: round(one, 2) for side, one in wall.items()},
        cpu={side: round(one, 2) for side, one in cores.items()},
        all={side: [round(one, 2) for one in some] for side, some in seconds.items()},
        speed_up={side: round(wall["one"] / one, 2) for side, one in wall.items()},
        start=round(start, 2),
        crossing=round((cores["processes"] - cores["one"]) / arguments.events * 1e6, 2),
        versions=versions(),
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=8_000_000)
    parser.add_argument("--flows", default="map,keyed,cheap")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--parallelism", type=int, default=2)
    arguments = parser.parse_args()
    with scratch() as root:
        make(root, arguments.events, 1_000)
        for name in arguments.flows.split(","):
            measure(name, root, arguments)


if __name__ == "__main__":
    main()
