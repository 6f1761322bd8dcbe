"""The Yahoo queries of this checkout against those of another one: pairs of runs in turns, each side in a warm session.

    python -m benchmarks.pairs CHECKOUT [--queries I,II,...] [--runs N] [--warm N] [--events N] [--parallelism N]

CHECKOUT: another work tree of this project, say ``git worktree add ../before COMMIT``. Both sides read the same files and keep
nothing. Prints a JSON line for each query: the median seconds of both sides, and ``ratio``, the median over the pairs of
seconds there by seconds here. Above 1 this checkout is the faster one; a change that is not to cost anything asks for 0.95.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 200
"""Of event time, whatever the number of events."""


def serve(data: Path, parallelism: int, files_per_step: int, files: int) -> None:
    """Run queries of the checkout that Python finds, as their names come in; seconds go out."""
    from benchmarks._compare import Setting
    from benchmarks.yahoo import flows
    from examples.yahoo_data import Tables
    from tracetypes.compiler.spark.session import session

    setting = Setting(session(parallelism=parallelism), data / "events", "events", files_per_step, parallelism)
    setting.warm()
    database = str(data / "reference.sqlite")
    dimensions = flows(Tables.read(Path(database)), database, SECONDS * files_per_step / files)
    for line in sys.stdin:
        ways = dimensions[line.strip()]
        print(json.dumps(setting.ours(next(iter(ways.values())))), flush=True)


class Side:
    """A checkout in a process of its own."""

    def __init__(self, checkout: Path, arguments: list[str]) -> None:
        env = {**os.environ, "PYTHONPATH": str(checkout)}
        command = [sys.executable, str(ROOT / "benchmarks" / "pairs.py"), str(checkout), "--serve", *arguments]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env, cwd=checkout)

    def seconds(self, query: str) -> float:
        """Of one run."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(query, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--queries", default="I,II,III,IV,V,VI")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--warm", type=int, default=3, help="runs of each side before those that count")
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--files-per-step", type=int, default=2)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.data, arguments.parallelism, arguments.files_per_step, arguments.files)
        return
    from benchmarks._compare import say, versions
    from examples import yahoo_data

    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory)
        dimensions = yahoo_data.tables(users=arguments.users, locations=50, seed=1)
        rate = max(1, arguments.events // SECONDS)
        yahoo_data.write_events(data / "events", dimensions, events=arguments.events, files=arguments.files, rate=rate, seed=1)
        dimensions.write(data / "reference.sqlite")
        options = {"--data": data, "--parallelism": arguments.parallelism, "--files-per-step": arguments.files_per_step}
        words = [str(part) for pair in ({**options, "--files": arguments.files}).items() for part in pair]
        there, here = Side(arguments.checkout.resolve(), words), Side(ROOT, words)
        for query in arguments.queries.split(","):
            for _ in range(arguments.warm):
                for side in (there, here):
                    side.seconds(query)
            pairs: list[tuple[float, float]] = []
            for number in range(arguments.runs):
                first, second = (there, here) if number % 2 else (here, there)
                seconds = {first: first.seconds(query), second: second.seconds(query)}
                pairs.append((seconds[there], seconds[here]))
            say(
                benchmark="pairs",
                query=query,
                events=arguments.events,
                parallelism=arguments.parallelism,
                there=round(statistics.median(a for a, _ in pairs), 2),
                here=round(statistics.median(b for _, b in pairs), 2),
                ratio=round(statistics.median(a / b for a, b in pairs), 2),
                ratios=[round(a / b, 2) for a, b in pairs],
                versions=versions(),
            )
        for side in (there, here):
            side.process.communicate()


if __name__ == "__main__":
    main()
