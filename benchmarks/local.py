"""The local backend beside ours on Spark, and beside DuckDB's batch answer: queries of the Yahoo benchmark from Parquet.

    python -m benchmarks.local [--events N] [--queries II,III,IV,V,VI] [--workers 1,2] [--runs N] [--no-spark] [--no-duckdb]

All sides run in one process, warm, in turns, on the same files, checkpoints on; nothing of the rows is kept. Each answer of the
local backend is compared with DuckDB's recount before. ``million``: million events a second, from the call to the end of the run.
``first``: seconds from the call to the first committed epoch. ``memory``: MB of this process after the local runs, before Spark.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import attrs

from benchmarks._compare import Setting, alternate, medians, say, scratch, versions
from benchmarks.yahoo import RECOUNTS, SECONDS, compare, flows
from examples import yahoo_data
from examples.yahoo_data import Tables
from tracetypes import Dataflow, check
from tracetypes.compiler.local.backend import LocalBackend
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.run import run
from tracetypes.compiler.store.outputs import NoOutput


def first_epoch(setting: Setting, flow: Dataflow) -> float:
    """Seconds until the first epoch is committed."""
    query_plan, ends = plan(check(flow), parallelism=setting.parallelism), list[float]()
    with scratch() as checkpoint:
        start = time.monotonic()
        run(
            setting.spark,
            query_plan,
            {setting.source: str(setting.rows)},
            NoOutput(query_plan),
            checkpoint=str(checkpoint),
            on_batch=lambda _: ends.append(time.monotonic() - start),
        )
    return ends[0]


def duckdb_seconds(query: str, root: Path, dimensions: Tables, span: float) -> float:
    """Seconds of DuckDB's batch answer, warm, with as many threads as it likes."""
    import duckdb
    import pandas as pd

    with duckdb.connect() as database:
        database.register("ads", pd.DataFrame(dimensions.campaign_of.items(), columns=["ad_id", "campaign_id"]))
        database.register("users", pd.DataFrame(dimensions.location_of.items(), columns=["user_id", "location"]))
        database.execute(f"CREATE VIEW events AS SELECT * FROM '{root}/events/*.parquet'")
        start = time.monotonic()
        database.sql(RECOUNTS[query].format(span=round(span * 1_000))).to_arrow_table()
        return time.monotonic() - start


def measure(query: str, root: Path, dimensions: Tables, arguments: argparse.Namespace) -> None:
    """Verify, time and print a query."""
    span = SECONDS / arguments.files
    flow = next(iter(flows(dimensions, str(root / "reference.sqlite"), span)[query].values()))
    widths = [int(width) for width in arguments.workers.split(",")]
    local = {
        width: Setting(cast(Any, LocalBackend(width)), root / "events", "events", cast(Any, None), width) for width in widths
    }
    with scratch() as out:
        local[widths[-1]].ours(flow, out / "rows.parquet")
        exact = compare(query, out / "rows.parquet", root, dimensions, span, ours=True).exact
    first = min(first_epoch(local[widths[-1]], flow) for _ in range(3))
    sides: dict[str, Callable[[], float]] = {f"local {width}": partial(one.ours, flow) for width, one in local.items()}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000
    if not arguments.no_spark:
        from tracetypes.compiler.spark.session import session

        on_spark = attrs.evolve(local[widths[-1]], spark=session(parallelism=widths[-1]))
        sides["Spark"] = partial(on_spark.ours, flow)
    if not arguments.no_duckdb and query in RECOUNTS:
        sides["DuckDB"] = partial(duckdb_seconds, query, root, dimensions, span)
    seconds = alternate(sides, arguments.runs, arguments.warm)
    median = medians(seconds)
    best = median[f"local {widths[-1]}"]
    say(
        benchmark="local",
        query=query,
        events=arguments.events,
        workers=widths[-1],
        exact=exact,
        seconds=median,
        all={name: [round(one, 2) for one in times] for name, times in seconds.items()},
        million=round(arguments.events / best / 1e6, 1),
        speed_up=round(median[f"local {widths[0]}"] / best, 2),
        over_spark=round(median["Spark"] / best, 2) if "Spark" in median else None,
        over_duckdb=round(best / median["DuckDB"], 2) if "DuckDB" in median else None,
        first=round(first, 2),
        memory=round(memory),
        versions=versions(),
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--queries", default="II,III,IV,V,VI")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--warm", type=float, default=10.0, help="seconds that each side runs before")
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--no-duckdb", action="store_true")
    arguments = parser.parse_args()
    with scratch() as root:
        dimensions = yahoo_data.tables(users=arguments.users)
        yahoo_data.write_events(
            root / "events", dimensions, events=arguments.events, files=arguments.files, rate=max(1, arguments.events // SECONDS)
        )
        dimensions.write(root / "reference.sqlite")
        for query in arguments.queries.split(","):
            measure(query, root, dimensions, arguments)


if __name__ == "__main__":
    main()
