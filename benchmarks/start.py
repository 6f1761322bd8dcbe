"""From command to prompt: a run of two rows by this checkout and by another one, in turns.

    python -m benchmarks.start CHECKOUT [--runs N] [--prepared]

CHECKOUT: another work tree of this project, say ``git worktree add ../before COMMIT``, or this one. Each run is a process
of its own, with a Java process of its own. ``--prepared``: this side runs ``tracetypes prepare`` before, in a cache that is
removed; the other side has none. Prints a JSON line for each side: the median seconds, the seconds of processor time of all
its processes, which other work on the machine disturbs less, and the median ``phases`` of the last line of a run. Then a line
with ``ratio`` and ``processor_ratio``, the medians over the pairs of there by here. Above 1 this checkout is the faster one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[1]
ROWS = [{"id": "sensor-1", "scalar": 20.5, "ts": 1000}, {"id": "sensor-2", "scalar": 21.0, "ts": 1005}]


@attrs.frozen
class Measurement:
    """What a run took."""

    seconds: float
    processor: float
    phases: dict[str, float]


def processor() -> float:
    """Seconds of processor time of all processes that have ended below this one."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def command(checkout: Path, cache: Path, *arguments: str) -> str:
    """Run a command of a checkout. What it says on standard error."""
    env = {**os.environ, "PYTHONPATH": str(checkout), "XDG_CACHE_HOME": str(cache)}
    whole = [sys.executable, "-m", "tracetypes", *arguments]
    return subprocess.run(whole, cwd=checkout, env=env, stderr=subprocess.PIPE, text=True, check=True).stderr


def once(checkout: Path, cache: Path, folder: Path) -> Measurement:
    """A run of two rows."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    options = ["--input", f"hub={folder / 'rows.jsonl'}", "--output", f"filled={out}"]
    before, began = processor(), time.monotonic()
    output = command(checkout, cache, "run", "examples/sensors.py:filled", *options)
    seconds = time.monotonic() - began
    (line,) = (line for line in output.splitlines() if line.startswith("seconds: "))
    phases = {what: float(number) for what, number in re.findall(r"([A-Za-z- ]+) ([\d.]+)", line.partition(":")[2])}
    return Measurement(seconds, processor() - before, {what.strip(): number for what, number in phases.items()})


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--prepared", action="store_true", help="run tracetypes prepare on this side before")
    options = parser.parse_args()
    from benchmarks._compare import say, versions

    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        sides = {"there": (options.checkout.resolve(), folder / "none"), "here": (ROOT, folder / "cache")}
        if options.prepared:
            command(*sides["here"], "prepare")
        pairs: list[dict[str, Measurement]] = []
        for number in range(options.runs + 1):
            order = ("there", "here") if number % 2 else ("here", "there")
            pairs.append({name: once(*sides[name], folder) for name in order})
        del pairs[0]  # files come into memory
        for name in sides:
            mine = [pair[name] for pair in pairs]
            phases = {what: statistics.median(one.phases.get(what, 0.0) for one in mine) for what in mine[0].phases}
            say(
                benchmark="start",
                side=name,
                prepared=options.prepared and name == "here",
                seconds=round(statistics.median(one.seconds for one in mine), 1),
                processor=round(statistics.median(one.processor for one in mine), 1),
                phases={what: round(seconds, 1) for what, seconds in phases.items()},
            )
        say(
            benchmark="start",
            runs=options.runs,
            ratio=round(statistics.median(pair["there"].seconds / pair["here"].seconds for pair in pairs), 2),
            processor_ratio=round(statistics.median(pair["there"].processor / pair["here"].processor for pair in pairs), 2),
            ratios=[round(pair["there"].seconds / pair["here"].seconds, 2) for pair in pairs],
            versions=versions(),
        )


if __name__ == "__main__":
    main()
