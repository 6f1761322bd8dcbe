"""What runs cost that follow their inputs while no row comes, and how soon a row is answered that comes then.

    python -m benchmarks.idle --runs 1,20,100 --seconds 10

Each run reads files of a folder of its own and writes files, on the local backend, all in one process. One JSON line for each
number of runs: ``core``, the share of one core that the process uses when no row has come for 15 seconds, and ``answer_ms``, the
milliseconds from the move of a file into a folder to its answer in the output (median, and the largest of 20). There is no
other side: a loop that sleeps until a row comes uses nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import attrs

import tracetypes
from tracetypes import Dataflow, U, every
from tracetypes.stdlib import map_values


@attrs.frozen
class Row:
    """A number with a time in seconds."""

    ts: int
    value: int


def flow() -> Dataflow:
    """Rows, each by itself."""
    flow = Dataflow("idle")
    rows = flow.source("rows", U[str, Row], markers=every(seconds=1, time=lambda row: row.ts), format=tracetypes.json_lines())
    flow.sink("out", rows.through(map_values(lambda row: row.value + 1, to=int)))
    return flow


def put(folder: Path, number: int) -> None:
    """A file with a row that ends the block of the row before."""
    text = "".join(json.dumps({"key": "a", "ts": ts, "value": number}) + "\n" for ts in (2 * number, 2 * number + 1))
    (folder / ".part").write_text(text)
    (folder / ".part").rename(folder / f"{number:06}.jsonl")


def lines(folder: Path) -> int:
    """How many rows are in an output."""
    return sum(path.read_text().count("\n") for path in folder.glob("*.jsonl"))


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", default="1,20,100")
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    for count in map(int, given.runs.split(",")):
        with tempfile.TemporaryDirectory() as place:
            root = Path(place)
            runs = []
            for number in range(count):
                (root / f"in{number}").mkdir()
                put(root / f"in{number}", 1)
                paths = {"rows": root / f"in{number}"}, {"out": root / f"out{number}"}
                runs.append(
                    tracetypes.start(flow(), *paths, checkpoint=root / f"ck{number}", backend="local", follow=True, parallelism=1)
                )
            while not all(lines(root / f"out{number}") for number in range(count)):
                time.sleep(0.1)
            time.sleep(15)
            began, used = time.monotonic(), time.process_time()
            time.sleep(given.seconds)
            core = (time.process_time() - used) / (time.monotonic() - began)
            waits = []
            for number in range(2, 22):
                at = number % count
                before = lines(root / f"out{at}")
                moved = time.monotonic()
                put(root / f"in{at}", number)
                while lines(root / f"out{at}") == before:
                    time.sleep(0.001)
                waits.append(1000 * (time.monotonic() - moved))
            for run in runs:
                run.stop()
            for run in runs:
                run.wait()
            print(
                json.dumps(
                    {
                        "runs": count,
                        "core": round(core, 4),
                        "answer_ms": round(statistics.median(waits), 1),
                        "answer_ms_max": round(max(waits), 1),
                        "cpus": os.cpu_count(),
                    }
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
