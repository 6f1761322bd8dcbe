"""Nexmark, queries 0 to 3, 5, 7 and 8: ours against PySpark as an expert writes it (benchmarks/by_hand/nexmark.py).

    python -m benchmarks.nexmark [--events N] [--files N] [--files-per-step N] [--runs N] [--parallelism 1,2]
                                 [--queries 0,1,2,3,5,7,8] [--discard]

Both sides read the same Parquet files, so many files a micro-batch, in the same session, and write Parquet files of which each
row is there exactly once, ours by its commits, Spark by the log of its file sink. (``--discard``: no side writes.) Ours has two
columns more, the key and the marker. Runs in turns, medians, each side warm; ``processor`` is processor time of all processes,
which other work on the machine disturbs less than seconds. One more run of each goes to files that are compared with a recount by
DuckDB. ``--events`` counts events of all kinds; 46 of 50 are bids. ``floor``: what Spark takes to write what it has read.
Queries 4 and 6 have no other side: a line says why.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks._compare import (
    Difference,
    Processor,
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
PERSON = "id, name, email_address, credit_card, city, state, date_time"
RECOUNTS = {
    0: f"SELECT {BID}, date_time // 1000 AS due FROM bids",
    1: "SELECT auction, bidder, 0.908::DOUBLE * price, date_time, date_time // 1000 AS due FROM bids",
    2: f"SELECT {BID}, date_time // 1000 AS due FROM bids WHERE auction % 123 = 0",
    3: """
        SELECT p.id, p.name, p.city, p.state, a.id AS auction, greatest(p.date_time, a.date_time) // 1000 AS due
        FROM persons p JOIN auctions a ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA') AND abs(a.date_time // 1000 - p.date_time // 1000) <= 20
        """,
    5: """
        WITH windows AS (SELECT *, unnest([5, 10]) + date_time // 5000 * 5 AS due FROM bids)
        SELECT auction, count(*) AS bids, due AS "end", due FROM windows GROUP BY auction, due
        QUALIFY rank() OVER (PARTITION BY due ORDER BY count(*) DESC) = 1
        """,
    7: f"""
        WITH windows AS (SELECT *, date_time // 10000 * 10 + 10 AS due FROM bids)
        SELECT {BID}, due FROM windows QUALIFY price = max(price) OVER (PARTITION BY due)
        """,
    8: f"""
        SELECT {PERSON}, date_time // 10000 * 10 + 10 AS due FROM persons p
        WHERE EXISTS (SELECT * FROM auctions a WHERE a.seller = p.id AND a.date_time // 10000 = p.date_time // 10000)
        """,
}
"""``due``: the second at which the answer is known."""


def compare(query: int, out: Path, setting: Setting, *, ours: bool) -> Difference:
    """An answer against the recount."""
    own = f"{BID}, date_time // {10_000 if query == 7 else 1_000}{' * 10 + 10' if query == 7 else ''}"
    end = 'epoch_ms("end") // 1000' if ours else '"end"'
    columns = f"auction, bids, {end}, {end}" if query == 5 else own
    recount = RECOUNTS[query]
    if query == 3:  # the answer does not say when it was due
        columns = f"{'key AS id' if ours else 'id'}, name, city, state, auction, 0"
        recount = f"SELECT id, name, city, state, auction, 0 AS due FROM ({recount})"
    elif query == 8:
        columns = f"{PERSON}, date_time // 10000 * 10 + 10"
    # Nobody drains Spark by hand: windows that the watermark has not passed are not there yet.
    undue = "false" if ours or query not in (5, 7, 8) else "due > (SELECT max(date_time) // 1000 FROM " + setting.source + ")"
    tables = {name: f"{path}/*.parquet" for name, path in setting.inputs.items()}
    return difference(recount, out, columns, undue=undue, **tables)


def child(arguments: argparse.Namespace) -> None:
    """All queries at one parallelism."""
    spark = session(parallelism=arguments.child)
    for query in map(int, arguments.queries.split(",")):
        if query in by_hand.CANNOT:
            say(benchmark="nexmark", query=query, cannot=by_hand.CANNOT[query])
            continue
        first, *others = by_hand.INPUTS.get(query, ("bids",))
        setting = Setting(
            spark,
            arguments.data / first,
            first,
            arguments.files_per_step,
            arguments.child,
            not arguments.discard,
            others={name: arguments.data / name for name in others},
        )
        setting.warm()
        report(setting, query, arguments)


def report(setting: Setting, query: int, arguments: argparse.Namespace) -> None:
    """Verify, time and print a query."""
    flow = nexmark.dataflow(query)
    ways = {} if arguments.only_ours else by_hand.QUERIES[query]
    differences: dict[str, Difference] = {}
    if not arguments.no_verify:
        with scratch() as out:
            setting.ours(flow, out / "ours.parquet")
            differences["ours"] = compare(query, out / "ours.parquet", setting, ours=True)
            for name, way in ways.items():
                setting.other(way, "append", out / name)
                differences[name] = compare(query, out / name, setting, ours=False)
    sides: dict[str, Callable[[], float]] = {"ours": partial(setting.ours, flow)}
    sides |= {name: partial(setting.other, way, "append") for name, way in ways.items()}
    if not arguments.only_ours:
        sides["floor"] = partial(setting.other, by_hand.floor, "append")
    processor_times: dict[str, list[float]] = {name: [] for name in sides}
    processor = Processor()
    sides = {name: partial(processor.count, side, processor_times[name]) for name, side in sides.items()}
    seconds = alternate(sides, arguments.runs, arguments.warm)
    median = medians(seconds)
    processor_medians = medians({name: times[-arguments.runs :] for name, times in processor_times.items()})
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
        processor=processor_medians,
        processor_ratio=round(min(processor_medians[name] for name in ways) / processor_medians["ours"], 2) if ways else None,
        written=setting.keep,
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
    parser.add_argument("--queries", default="0,1,2,3,4,5,6,7,8")
    parser.add_argument("--discard", action="store_true", help="time runs that write nothing, on both sides")
    arguments = parser.parse_args()
    if arguments.child is not None:
        child(arguments)
        return
    with tempfile.TemporaryDirectory() as data:
        rate = max(1, arguments.events // SECONDS)
        nexmark_data.write(Path(data), arguments.events, files=arguments.files, rate=rate, seed=arguments.seed)
        lines = for_each_parallelism("benchmarks.nexmark", arguments, Path(data))
        speedups("nexmark", [line for line in lines if "ours" in line])


if __name__ == "__main__":
    main()
