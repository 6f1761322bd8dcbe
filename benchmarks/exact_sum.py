"""The price of a reproducible float sum, in plain Python.

    python -m benchmarks.exact_sum [--values N] [--runs N]

The other side adds with ``+`` through the same interface (``fast_sum``), and ``math.fsum``, which is exact but needs all
values at once and so is no monoid. All sides run in turn, in one process, warm; times are medians in nanoseconds a value.
Prints one JSON line for each kind of values: all in one range; of 600 orders of magnitude; small whole numbers.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from tracetypes import __version__ as version
from tracetypes.stdlib import Aggregate, evaluate, fast_sum, sum


def kinds(number: int) -> dict[str, list[float]]:
    """Values of several kinds, the same in every run."""
    draw = random.Random(7)
    return {
        "one range": [draw.uniform(-1000, 1000) for _ in range(number)],
        "all magnitudes": [math.ldexp(draw.uniform(-1, 1), draw.randint(-1000, 1000)) for _ in range(number)],
        "whole numbers": [float(draw.randint(0, 1000)) for _ in range(number)],
    }


def nanoseconds(sides: dict[str, Callable[[list[float]], float]], values: list[float], runs: int) -> dict[str, float]:
    """The median time of each side, a value."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for run in range(runs + 1):
        for name, side in sides.items():
            start = time.perf_counter()
            side(values)
            if run:  # the first run warms up
                times[name].append((time.perf_counter() - start) * 1e9 / len(values))
    return {name: round(statistics.median(taken), 1) for name, taken in times.items()}


def main() -> None:
    """Run all and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    exact: Aggregate[float, Any, float] = sum(to=float)
    plain: Aggregate[float, Any, float] = fast_sum()
    sides: dict[str, Callable[[list[float]], float]] = {
        "exact": lambda values: evaluate(exact, values),
        "plain": lambda values: evaluate(plain, values),
        "fsum": math.fsum,
    }
    for kind, values in kinds(given.values).items():
        assert sides["exact"](values) == math.fsum(values)
        taken = nanoseconds(sides, values, given.runs)
        agg = exact.identity()
        for value in values:
            agg = exact.combine(agg, exact.lift(value))
        line = {
            "benchmark": "exact_sum",
            "version": version,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "values": kind,
            "number": len(values),
            "nanoseconds": taken,
            "exact_over_plain": round(taken["exact"] / taken["plain"], 2),
            "bits": agg.numerator.bit_length(),
            "error_of_plain": sides["plain"](values) - math.fsum(values),
        }
        print(json.dumps(line))


if __name__ == "__main__":
    main()
