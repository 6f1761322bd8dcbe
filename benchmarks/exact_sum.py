"""The price of a reproducible float sum, in plain Python and over columns.

    python -m benchmarks.exact_sum [--values N] [--columns N] [--keys N] [--runs N]

The other side adds with ``+`` through the same interface (``fast_sum``), and ``math.fsum``, which is exact but needs all
values at once and so is no monoid. All sides run in turn, in one process, warm; times are medians in nanoseconds a value.
Prints one JSON line for each kind of values: all in one range; of 600 orders of magnitude; small whole numbers. And one for each
kind as columns: a block of ``--columns`` items of ``--keys`` keys, combined as a stage does before its exchange.
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
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tracetypes import __version__ as version
from tracetypes.compiler.analysis.monoids import monoid_of
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.runtime.flows import KeyedFlow
from tracetypes.compiler.runtime.partial_aggregation import combine
from tracetypes.records import Float, Integer
from tracetypes.stdlib import Aggregate, evaluate, fast_sum, sum
from tracetypes.stdlib.per_block import AggregatePerBlock

Side: TypeAlias = Callable[[Any], float]
"""Adds up values: a list, or an array."""


def kinds(number: int) -> dict[str, list[float]]:
    """Values of several kinds, the same in every run."""
    draw = random.Random(7)
    return {
        "one range": [draw.uniform(-1000, 1000) for _ in range(number)],
        "all magnitudes": [math.ldexp(draw.uniform(-1, 1), draw.randint(-1000, 1000)) for _ in range(number)],
        "whole numbers": [float(draw.randint(0, 1000)) for _ in range(number)],
    }


def nanoseconds(sides: dict[str, Side], values: Any, runs: int) -> dict[str, float]:
    """The median time of each side, a value."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for run in range(runs + 1):
        for name, side in sides.items():
            start = time.perf_counter()
            side(values)
            if run:  # the first run warms up
                times[name].append((time.perf_counter() - start) * 1e9 / len(values))
    return {name: round(statistics.median(times), 1) for name, times in times.items()}


def over_columns(number: int, keys: int) -> dict[str, Side]:
    """Both sums by key, as the operator :func:`aggregate` has them combined."""
    key = from_arrow(Integer(), pa.array(np.random.default_rng(7).integers(0, keys, number)))
    ends = np.zeros(number, np.int64)

    def side(aggregate: Aggregate[float, Any, float]) -> Side:
        monoid = monoid_of(AggregatePerBlock(aggregate), Integer(), Float())

        def run(values: Any) -> float:
            column = from_arrow(Float(), pa.array(values))
            flow = KeyedFlow.of(key, column, number)
            return float(len(combine(monoid, flow, ends, key)))

        return run

    return {"exact": side(sum(to=float)), "plain": side(fast_sum())}


def report(times: dict[str, float], **more: Any) -> None:
    """Print a line."""
    line = {
        "benchmark": "exact_sum",
        "version": version,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    ratio = round(times["exact"] / times["plain"], 2)
    print(json.dumps({**line, **more, "nanoseconds": times, "exact_over_plain": ratio}), flush=True)


def main() -> None:
    """Run all and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    exact: Aggregate[float, Any, float] = sum(to=float)
    plain: Aggregate[float, Any, float] = fast_sum()
    sides: dict[str, Side] = {
        "exact": lambda values: evaluate(exact, values),
        "plain": lambda values: evaluate(plain, values),
        "fsum": math.fsum,
    }
    for kind, values in kinds(arguments.values).items():
        assert sides["exact"](values) == math.fsum(values)
        times = nanoseconds(sides, values, arguments.runs)
        agg = exact.identity()
        for value in values:
            agg = exact.combine(agg, exact.lift(value))
        report(
            times,
            values=kind,
            number=len(values),
            bits=agg.numerator.bit_length(),
            error_of_plain=sides["plain"](values) - math.fsum(values),
        )
    columns = over_columns(arguments.columns, arguments.keys)
    for kind, values in kinds(arguments.columns).items():
        array = np.array(values)
        times = nanoseconds(columns, array, arguments.runs)
        report(times, values=kind, number=arguments.columns, keys=arguments.keys, columns=True)


if __name__ == "__main__":
    main()
