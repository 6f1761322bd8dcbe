"""Nexmark, queries 1, 2, 5 and 7: ours against PySpark as an expert writes it (benchmarks/by_hand/nexmark.py).

    python -m benchmarks.nexmark [--events N] [--files N] [--files-per-step N] [--runs N] [--parallelism 1,2] [--queries 1,2,5,7]

These are the queries over bids alone. Otherwise as benchmarks/yahoo.py: same Parquet files, same files a micro-batch, same
session, nothing kept, runs in turns, medians; one more run of each side goes to files and is compared with a recount by DuckDB.
``--events`` counts events of all kinds; 46 of 50 are bids. ``floor``: the scan with nothing after it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

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
from benchmarks.by_hand import nexmark as by_hand
from examples import nexmark, nexmark_data
from tracetypes.compiler.spark.session import session

SECONDS = 200
"""Of event time, whatever the number of events."""

BID = "auction, bidder, price, date_time"
RECOUNTS = {
    1: "SELECT auction, bidder, 0.908::DOUBLE * price, date_time, date_time // 1000 AS due FROM bids",
    2: f"SELECT {BID}, date_time // 1000 AS due FROM bids WHERE auction % 123 = 0",
    5: """
        WITH windows AS (SELECT *, unnest([5, 10]) + date_time // 5000 * 5 AS due FROM bids)
        SELECT auction, count(*) AS bids, due AS "end", due FROM windows GROUP BY auction, due
        QUALIFY rank() OVER (PARTITION BY due ORDER BY count(*) DESC) = 1
        """,
    7: f"""
        WITH windows AS (SELECT *, date_time // 10000 * 10 + 10 AS due FROM bids)
        SELECT {BID}, due FROM windows QUALIFY price = max(price) OVER (PARTITION BY due)
        """,
}
"""``due``: the second at which the answer is known."""


def compare(query: int, got: Path, bids: Path, *, ours: bool) -> Difference:
    """An answer against the recount."""
    own = f"{BID}, date_time // {10_000 if query == 7 else 1_000}{' * 10 + 10' if query == 7 else ''}"
    end = 'epoch_ms("end") // 1000' if ours else '"end"'
    columns = f"auction, bids, {end}, {end}" if query == 5 else own
    # Nobody drains Spark by hand: windows that the watermark has not passed are not there yet.
    undue = "false" if ours or query in (1, 2) else "due > (SELECT max(date_time) // 1000 FROM bids)"
    return difference(RECOUNTS[query], got, columns, undue=undue, bids=f"{bids}/*.parquet")


def child(arguments: argparse.Namespace) -> None:
    """All queries at one parallelism."""
    spark = session(parallelism=arguments.child)
    setting = Setting(spark, arguments.data / "bids", "bids", arguments.files_per_step, arguments.child, arguments.keep)
    setting.warm()
    for query in map(int, arguments.queries.split(",")):
        report(setting, query, arguments)


def report(setting: Setting, query: int, arguments: argparse.Namespace) -> None:
    """Verify, time and print a query."""
    flow = nexmark.dataflow(query)
    ways = {} if arguments.only_ours else by_hand.QUERIES[query]
    differences: dict[str, Difference] = {}
    if not arguments.no_verify:
        with scratch() as out:
            setting.ours(flow, out / "ours.parquet")
            differences["ours"] = compare(query, out / "ours.parquet", setting.rows, ours=True)
            for name, way in ways.items():
                setting.other(way, "append", out / name)
                differences[name] = compare(query, out / name, setting.rows, ours=False)
    sides: dict[str, Callable[[], float]] = {"ours": partial(setting.ours, flow)}
    sides |= {name: partial(setting.other, way, "append") for name, way in ways.items()}
    if not arguments.only_ours:
        sides["floor"] = partial(setting.other, by_hand.floor, "append")
    seconds = alternate(sides, arguments.runs, arguments.warm)
    median = medians(seconds)
    others = {name: median[name] for name in ways}
    best = min(others, key=lambda name: others[name]) if others else None
    say(
        benchmark="nexmark",
        query=query,
        events=arguments.events,
        parallelism=setting.parallelism,
        ours=median["ours"],
        ours_all=[round(t, 2) for t in seconds["ours"]],
        other=median[best] if best else None,
        ratio=round(median[best] / median["ours"], 2) if best else None,
        other_is=best,
        others=others,
        floor=median.get("floor"),
        exact={name: one.exact for name, one in differences.items()},
        differences={
            name: {"rows": one.rows, "missing": one.missing, "extra": one.extra, "undue": one.undue}
            for name, one in differences.items()
        },
        versions=versions(),
    )


def main() -> None:
    """Run the benchmark."""
    parser = options(__doc__, events=4_000_000)
    parser.add_argument("--queries", default="1,2,5,7")
    arguments = parser.parse_args()
    if arguments.child is not None:
        child(arguments)
        return
    with tempfile.TemporaryDirectory() as data:
        rate = max(1, arguments.events // SECONDS)
        nexmark_data.write(Path(data), arguments.events, files=arguments.files, rate=rate, seed=arguments.seed)
        speedups("nexmark", for_each_parallelism("benchmarks.nexmark", arguments, Path(data)))


if __name__ == "__main__":
    main()
