"""Graphs of many operators: checked, interpreted, planned, shipped to workers and explained.

    python -m benchmarks.checker [--operators N] [--runs N] [--shape SHAPE ...]

The shapes: a tree of all kinds of operators; a chain; diamonds, one behind the other; a fan; a comb of many sources; random
graphs. There is no other side: nobody else checks such a graph. Prints a JSON line for each shape with the seconds of each part
(median).
"""

from __future__ import annotations

import argparse
import json
import pickle
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import cloudpickle

from benchmarks.shapes import SHAPES, Reading
from tracetypes import Dataflow, check, interpret_rows
from tracetypes import __version__ as version
from tracetypes.compiler.plan.explain import explain
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.spark.wording import SparkWording


def measured(shape: str, operators: int) -> tuple[int, dict[str, float]]:
    """The nodes of a graph, and the seconds of each part."""
    seconds: dict[str, float] = {}

    def timed(name: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = call()
        seconds[f"{name}_seconds"] = time.perf_counter() - start
        return result

    flow = Dataflow("large")
    timed("build", lambda: SHAPES[shape](flow, operators))
    checked = timed("check", lambda: check(flow))
    rows = {source.name: [("a", Reading(1, 1)), ("b", Reading(0, 2))] for source in checked.graph.sources[:1]}
    timed("interpret", lambda: interpret_rows(checked, rows))
    result = timed("plan", lambda: program(checked, parallelism=4))
    timed("ship", lambda: [pickle.loads(cloudpickle.dumps(plan)) for plan in result.plans])
    text = timed("explain", lambda: explain(checked, SparkWording(), parallelism=4, key_groups=16))
    assert "plan:" in text
    return len(checked.graph.nodes), seconds


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--shape", choices=SHAPES, action="append")
    arguments = parser.parse_args()
    for shape in arguments.shape or SHAPES:
        runs = [measured(shape, arguments.operators) for _ in range(arguments.runs + 1)]
        line = {
            "benchmark": "checker",
            "shape": shape,
            "operators": arguments.operators,
            "nodes": runs[0][0],
            **{name: round(statistics.median(run[name] for _, run in runs[1:] or runs), 3) for name in runs[0][1]},
            "versions": {"tracetypes": version, "python": platform.python_version()},
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
