"""Flows as DataFrames (``transform``) beside PySpark as an expert writes it: queries II to V of the Yahoo benchmark.

    python -m benchmarks.transform [--events N] [--users N] [--files N] [--files-per-step N] [--runs N]
                                   [--parallelism 2] [--queries II,III,IV,V] [--modes static,streaming] [--sides NAME,NAME,...]

The same Parquet files, micro-batches and session on all sides, nothing kept (Spark's noop sink), runs in turns, medians of
seconds and of processor seconds. ``static``: a batch query beside the best one by hand (benchmarks/by_hand/yahoo_batch.py).
``streaming``: with late rows counted and with late rows shown, beside the best by hand (benchmarks/by_hand/yahoo.py) and ``run``
over files that Spark reads (``TRACETYPES_SCAN=spark``). One more run of each goes to files and is compared with a recount by
DuckDB; what the end of the input leaves open is not missing there. A JSON line for each query and mode: ``ratio`` is the time of
the best by hand through ours, ``cpu_ratio`` the same of processor time.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame

from benchmarks._compare import (
    Processor,
    Setting,
    alternate,
    difference,
    for_each_parallelism,
    medians,
    options,
    say,
    scratch,
    versions,
)
from benchmarks.by_hand import yahoo as by_hand
from benchmarks.by_hand.yahoo_batch import BATCH, BatchQuery
from benchmarks.yahoo import COLUMNS, RECOUNTS, SECONDS, flows
from examples import yahoo_data
from examples.yahoo_data import Tables
from tracetypes import Dataflow
from tracetypes.compiler.spark.files import SCAN
from tracetypes.compiler.spark.session import session
from tracetypes.spark import transform

OURS = "transform"
"""The side that all others are compared with."""


@contextmanager
def scanned_by_spark() -> Iterator[None]:
    """``run`` has Spark read the files."""
    before = os.environ.get(SCAN)
    os.environ[SCAN] = "spark"
    try:
        yield
    finally:
        os.environ.pop(SCAN, None)
        if before is not None:
            os.environ[SCAN] = before


def batch(setting: Setting, query: Callable[[DataFrame], DataFrame], output: Path | None = None) -> float:
    """Seconds of a batch query."""
    start = time.monotonic()
    writer = query(setting.spark.read.parquet(str(setting.rows))).write
    if output is None:
        writer.format("noop").mode("overwrite").save()
    else:
        writer.parquet(str(output))
    return time.monotonic() - start


def by_batch(way: BatchQuery, reference: by_hand.Reference, span: float, rows: DataFrame) -> DataFrame:
    """A batch query by hand."""
    return way(rows, reference, span)


def answer(flow: Dataflow, rows: DataFrame, late: str = "count") -> DataFrame:
    """Our side; ``late="rows"`` gives all rows, with their outcomes."""
    if late == "rows":
        outcomes = transform(flow, {"events": rows}, late="rows")
        (frame,) = (outcomes.outcomes(name) for name in outcomes)
    else:
        (frame,) = transform(flow, {"events": rows}).values()
    return frame


def by_run(setting: Setting, flow: Dataflow, output: Path | None = None) -> float:
    """Seconds of ``run`` where Spark reads the files."""
    with scanned_by_spark():
        return setting.ours(flow, output)


Side = Callable[..., float]


def sides_of(
    mode: str, query: str, setting: Setting, flow: Dataflow, reference: by_hand.Reference, span: float
) -> dict[str, Side]:
    """What is measured, by name; ours first."""
    if mode == "static":
        ways = BATCH[query]
        hands = {name: partial(batch, setting, partial(by_batch, way, reference, span)) for name, way in ways.items()}
        return {OURS: partial(batch, setting, partial(answer, flow)), **hands}
    hands = {way.name: partial(setting.other, way.bound(reference), way.mode) for way in by_hand.QUERIES[query]}
    return {
        OURS: partial(setting.other, partial(answer, flow), "append"),
        'late="rows"': partial(setting.other, partial(answer, flow, late="rows"), "append"),
        "run": partial(by_run, setting, flow),
        **hands,
    }


def is_exact(mode: str, query: str, name: str, side: Side, root: Path, dimensions: Tables, span: float) -> bool:
    """Whether a side has the rows of the recount. Streams leave open what the end of the input does not close."""
    import pandas as pd

    columns = COLUMNS[query]
    if name in (OURS, 'late="rows"', "run"):
        first, _, others = columns.partition(", ")
        columns = f"key AS {first}, {others}"
    tables = {
        "events": f"{root}/events/*.parquet",
        "ads": pd.DataFrame(dimensions.campaign_of.items(), columns=["ad_id", "campaign_id"]),
        "users": pd.DataFrame(dimensions.location_of.items(), columns=["user_id", "location"]),
    }
    undue = "false"
    if mode == "streaming" and name != "run":
        undue = '"end" > (SELECT max(event_time) // 1000 FROM events)' if query in ("IV", "V") else "true"
    with scratch() as out:
        side(output=out / "rows.parquet" if name == "run" else out / "rows")
        path = out / ("rows.parquet" if name == "run" else "rows")
        return difference(RECOUNTS[query].format(span=round(span * 1_000)), path, columns, undue=undue, **tables).exact


def child(arguments: argparse.Namespace) -> None:
    """All queries at one parallelism."""
    spark = session(parallelism=arguments.child)
    span = SECONDS * arguments.files_per_step / arguments.files
    root = arguments.data
    database = str(root / "reference.sqlite")
    dimensions = Tables.read(Path(database))
    reference = by_hand.Reference(dimensions, database)
    setting = Setting(spark, root / "events", "events", arguments.files_per_step, arguments.child)
    setting.warm()
    ours = flows(dimensions, database, span)
    for query in arguments.queries.split(","):
        for mode in arguments.modes.split(","):
            (flow,) = ours[query].values()
            sides = sides_of(mode, query, setting, flow, reference, span)
            if arguments.sides:
                sides = {name: side for name, side in sides.items() if name in arguments.sides.split(",")}
            exact = {
                name: is_exact(mode, query, name, side, root, dimensions, span)
                for name, side in sides.items()
                if not arguments.no_verify
            }
            report(mode, query, sides, exact, arguments)


def report(mode: str, query: str, sides: Mapping[str, Side], exact: Mapping[str, bool], arguments: argparse.Namespace) -> None:
    """Time and print a query."""
    processor = Processor()
    used: dict[str, list[float]] = {name: [] for name in sides}
    counted = {name: partial(processor.count, side, used[name]) for name, side in sides.items()}
    seconds = medians(alternate(counted, arguments.runs, arguments.warm))
    processor_seconds = medians({name: times[-arguments.runs :] for name, times in used.items()})
    others = [name for name in sides if name not in (OURS, 'late="rows"', "run")]
    best = min(others, key=lambda name: seconds[name]) if others else None

    def ratio(of: Mapping[str, float], name: str | None) -> float | None:
        return None if name not in of or OURS not in of or name is None else round(of[name] / of[OURS], 2)

    say(
        benchmark="transform",
        mode=mode,
        query=query,
        events=arguments.events,
        parallelism=arguments.child,
        seconds=seconds,
        cpu=processor_seconds,
        best=best,
        ratio=ratio(seconds, best),
        cpu_ratio=ratio(processor_seconds, best),
        run_ratio=ratio(seconds, "run"),
        late_rows_ratio=ratio(seconds, 'late="rows"'),
        exact=dict(exact),
        versions=versions(),
    )


def main() -> None:
    """Run the benchmark."""
    parser = options(__doc__, events=4_000_000)
    parser.set_defaults(parallelism="2")
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--locations", type=int, default=50)
    parser.add_argument("--queries", default="II,III,IV,V")
    parser.add_argument("--modes", default="static,streaming")
    parser.add_argument("--sides", default="", help="only these")
    arguments = parser.parse_args()
    if arguments.child is not None:
        child(arguments)
        return
    with tempfile.TemporaryDirectory() as data:
        root = Path(data)
        dimensions = yahoo_data.tables(users=arguments.users, locations=arguments.locations, seed=arguments.seed)
        rate = max(1, arguments.events // SECONDS)
        yahoo_data.write_events(
            root / "events", dimensions, events=arguments.events, files=arguments.files, rate=rate, seed=arguments.seed
        )
        dimensions.write(root / "reference.sqlite")
        for_each_parallelism("benchmarks.transform", arguments, root)


if __name__ == "__main__":
    main()
