"""A typed map whose Python cannot be traced, one item in and one out: ours against PySpark by hand, same Python function.

    python -m benchmarks.opaque_map [--events N] [--runs N] [--parallelism 1,2]

What is compared is what surrounds the function, so the function is small: a hash of eight bytes. Same files, session and sink
as in benchmarks/yahoo.py. ``function``: seconds that calling it for each event takes in one Python process.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from benchmarks._compare import (
    Difference,
    Setting,
    alternate,
    difference,
    for_each_parallelism,
    medians,
    options,
    say,
    scratch,
    speedups,
    versions,
)
from benchmarks._opaque import digest, map_flow
from benchmarks.by_hand import opaque_map as by_hand
from benchmarks.keyed_state import make
from tracetypes.compiler.spark.session import session

flow = map_flow()


def bound(way: Callable[[DataFrame, Callable[[int], int]], DataFrame]) -> Callable[[DataFrame], DataFrame]:
    """A way by hand with our function."""
    return lambda events: way(events, digest)


def compare(root: Path, out: Path) -> Difference:
    """An answer against the function itself, called without Spark."""
    rows = pd.concat([pq.read_table(part, columns=["key", "value"]).to_pandas() for part in sorted(root.iterdir())])
    recount = pd.DataFrame({"key": rows["key"], "value": [digest(value) for value in rows["value"].tolist()]})
    return difference("SELECT key, value FROM digests", out, "key, value", digests=recount)


def child(arguments: argparse.Namespace) -> None:
    """One parallelism."""
    root = arguments.data
    source, parallelism = "events", arguments.child
    setting = Setting(session(parallelism=parallelism), root, source, arguments.files_per_step, parallelism, arguments.keep)
    setting.warm()
    ways = {} if arguments.only_ours else {name: bound(way) for name, way in by_hand.WAYS.items()}
    differences: dict[str, Difference] = {}
    if not arguments.no_verify:
        with scratch() as out:
            setting.ours(flow, out / "ours.parquet")
            differences["ours"] = compare(root, out / "ours.parquet")
            for name, way in ways.items():
                setting.other(way, "append", out / name)
                differences[name] = compare(root, out / name)
    sides = {"ours": partial(setting.ours, flow)}
    sides |= {name: partial(setting.other, way, "append") for name, way in ways.items()}
    seconds = alternate(sides, arguments.runs, arguments.warm)
    median = medians(seconds)
    others = {name: median[name] for name in ways}
    best = min(others, key=lambda name: others[name]) if others else None
    began = time.perf_counter()
    for value in range(100_000):
        digest(value)
    each = (time.perf_counter() - began) / 100_000
    say(
        benchmark="opaque_map",
        query="digest",
        keys=1_000,
        events=arguments.events,
        parallelism=arguments.child,
        ours=median["ours"],
        ours_all=[round(t, 2) for t in seconds["ours"]],
        other=median[best] if best else None,
        ratio=round(median[best] / median["ours"], 2) if best else None,
        other_is=best,
        others=others,
        floor=None,
        function=round(each * arguments.events, 2),
        exact={name: one.exact for name, one in differences.items()},
        versions=versions(),
    )


def main() -> None:
    """Run the benchmark."""
    arguments = options(__doc__, events=4_000_000).parse_args()
    if arguments.child is not None:
        child(arguments)
        return
    with tempfile.TemporaryDirectory() as data:
        make(Path(data), arguments.events, 1_000)
        speedups("opaque_map", for_each_parallelism("benchmarks.opaque_map", arguments, Path(data)))


if __name__ == "__main__":
    main()
