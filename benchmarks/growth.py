"""Ours alone: throughput as the number of keys grows, and as the state grows to a gigabyte.

    python -m benchmarks.growth [--events N] [--keys N,N,...] [--state N,N,...] [--runs N] [--svg FILE]
    python -m benchmarks.growth --lines FILE --svg FILE      # draws lines that were printed before
    python -m benchmarks.growth --backend local [--before CHECKOUT] [--keys N] [--bytes N] [--epochs N] [--runs N]

A running count and mean of each key, as in benchmarks/keyed_state.py. ``--state``: further bytes of state a key; 1,000,000 keys
with 1,000 bytes are a gigabyte, read and written in each micro-batch. Prints a JSON line for each number of keys and bytes.

``--backend local``: epochs of 10,000 events for 10,000 random keys of ``--keys``, and of 100,000 events for 10,000 keys,
beside the same over 10,000 keys ("small"), in turns, each in a process of its own (:mod:`benchmarks._growth_local`); medians.
``--before``: the same by another work tree. Exits with 1 if a figure is worse than its limit.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks._compare import Setting, say, scratch, versions
from benchmarks._counts import flow_of
from benchmarks.keyed_state import make
from tracetypes.compiler.spark.session import session


def plot(lines: Sequence[dict[str, Any]]) -> str:
    """An SVG: events a second over keys, both logarithmic, a curve for each size of state."""
    width, height, left, bottom, top, right = 720, 420, 90, 60, 20, 180
    keys = [line["keys"] for line in lines]
    speeds = [line["events_per_second"] for line in lines]
    x0, x1 = math.floor(math.log10(min(keys))), math.ceil(math.log10(max(keys)))
    y0, y1 = math.floor(math.log10(min(speeds))), math.ceil(math.log10(max(speeds)))

    def x(value: float) -> float:
        return left + (math.log10(value) - x0) / max(1, x1 - x0) * (width - left - right)

    def y(value: float) -> float:
        return height - bottom - (math.log10(value) - y0) / max(1, y1 - y0) * (height - bottom - top)

    def text(at: float, to: float, words: str, anchor: str = "middle", more: str = "") -> str:
        return f'<text x="{at:.1f}" y="{to:.1f}" text-anchor="{anchor}"{more}>{words}</text>'

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for power in range(x0, x1 + 1):
        at = x(10**power)
        out.append(f'<path d="M{at:.1f} {top}V{height - bottom}" stroke="#ddd"/>')
        out.append(text(at, height - bottom + 20, f"{10**power:,}"))
    for power in range(y0, y1 + 1):
        at = y(10**power)
        out.append(f'<path d="M{left} {at:.1f}H{width - right}" stroke="#ddd"/>')
        out.append(text(left - 8, at + 4, f"{10**power:,}", "end"))
    out.append(text((left + width - right) / 2, height - 15, "keys"))
    turned = f' transform="rotate(-90 20 {height / 2:.0f})"'
    out.append(text(20, height / 2, "events a second", more=turned))
    colours = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e")
    for n, size in enumerate(sorted({line["state_bytes"] for line in lines})):
        points = sorted((line["keys"], line["events_per_second"]) for line in lines if line["state_bytes"] == size)
        colour = colours[n % len(colours)]
        path = " ".join(f"{x(k):.1f},{y(speed):.1f}" for k, speed in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x(k):.1f}" cy="{y(speed):.1f}" r="3.5" fill="{colour}"/>' for k, speed in points]
        name = f"+ {size:,} bytes a key" if size else "count and mean"
        out.append(text(x(points[-1][0]) + 10, y(points[-1][1]) + 4, name, "start", f' fill="{colour}"'))
    return "\n".join([*out, "</svg>", ""])


def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """A line for each number of keys and bytes."""
    spark = session(parallelism=arguments.parallelism)
    lines: list[dict[str, Any]] = []
    for size in map(int, arguments.state.split(",")):
        for keys in map(int, arguments.keys.split(",")):
            with scratch() as root:
                make(root, arguments.events, keys)
                setting = Setting(spark, root, "events", 2, arguments.parallelism)
                setting.warm()
                flow = flow_of(size)
                if not lines:
                    setting.ours(flow)
                seconds = statistics.median(setting.ours(flow) for _ in range(arguments.runs))
            line = {
                "benchmark": "growth",
                "keys": keys,
                "state_bytes": size,
                "state_megabytes": round(min(keys, arguments.events) * size / 1e6, 1),
                "events": arguments.events,
                "parallelism": arguments.parallelism,
                "ours": round(seconds, 2),
                "events_per_second": round(arguments.events / seconds),
                "versions": versions(),
            }
            say(**line)
            lines.append(line)
    return lines


LIMITS = {"commit_by_small": 2.0, "written_by_changed": 3.0, "slowest_by_median": 3.0, "recovery_s": 2.0, "disk_by_live": 2.5}
"""What a state that grows may cost on the local backend."""

SMALL = 10_000
"""Keys of the state to compare with, and keys that an epoch touches."""

OVERHEAD = 80
"""Bytes of a state besides its luggage, with its key, in a segment."""


def of_local(checkout: Path, keys: int, size: int, events: int, epochs: int) -> dict[str, Any]:
    """One run on the local backend of a work tree."""
    script = Path(__file__).with_name("_growth_local.py")
    numbers = {"keys": keys, "bytes": size, "epochs": epochs, "events": events, "touched": SMALL}
    command = [sys.executable, str(script), *(f"--{name}={number}" for name, number in numbers.items()), "--recover"]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(command, check=True, cwd=checkout, env=environment, capture_output=True, text=True)
    line: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return line


def measure_local(arguments: argparse.Namespace) -> bool:
    """Prints a line for each load and work tree; whether all limits hold for this one."""
    holds = True
    trees = {"ours": Path(__file__).parents[1], **({"before": arguments.before} if arguments.before else {})}
    for events in (SMALL, 10 * SMALL):
        runs: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for _ in range(arguments.runs):
            for name, tree in trees.items():
                for keys in (SMALL, int(arguments.keys)):
                    one = of_local(tree.resolve(), keys, arguments.bytes, events, arguments.epochs)
                    runs.setdefault((name, keys), []).append(one)
        for name in trees:
            small, large = (
                {figure: statistics.median(one[figure] for one in runs[name, keys]) for figure in runs[name, keys][0]}
                for keys in (SMALL, int(arguments.keys))
            )
            ratios = {
                "commit_by_small": round(large["commit_ms"] / small["commit_ms"], 2),
                "epoch_by_small": round(large["epoch_ms"] / small["epoch_ms"], 2),
                "written_by_changed": round(large["written_mb"] * 1e6 / (SMALL * (arguments.bytes + OVERHEAD)), 2),
                "disk_by_live": round(large["disk_mb"] * 1e6 / (int(arguments.keys) * (arguments.bytes + OVERHEAD)), 2),
            }
            say(benchmark="growth_local", tree=name, **large, small=small, **ratios, limits=LIMITS, versions=versions())
            if name == "ours":
                holds &= all((large | ratios)[figure] <= limit for figure, limit in LIMITS.items())
    return holds


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--keys", default="100,1000,10000,100000,1000000")
    parser.add_argument("--state", default="0,1000", help="bytes of state a key, besides count and mean")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--backend", choices=["spark", "local"], default="spark")
    parser.add_argument("--before", type=Path, help="another work tree, with --backend local")
    parser.add_argument("--bytes", type=int, default=1000, help="bytes of state a key, with --backend local")
    parser.add_argument("--epochs", type=int, default=300, help="with --backend local")
    parser.add_argument("--lines", type=Path, help="draw these, measure nothing")
    parser.add_argument("--svg", type=Path, help="draw the lines")
    arguments = parser.parse_args()
    if arguments.backend == "local":
        if "," in arguments.keys:
            arguments.keys = "1000000"
        raise SystemExit(not measure_local(arguments))
    if arguments.lines is not None:
        lines = [
            line for line in map(json.loads, arguments.lines.read_text().splitlines()) if line["benchmark"] == "growth"
        ]
    else:
        lines = measure(arguments)
    if arguments.svg is not None:
        arguments.svg.write_text(plot(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
