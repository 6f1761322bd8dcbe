"""Sessions of a web log: ours against PySpark as an expert writes it (benchmarks/by_hand/web_log.py).

    python -m benchmarks.web_log [--events N] [--files N] [--files-per-step N] [--runs N] [--parallelism 1,2]

Lines of text in the combined log format (examples/web_log_data.py), out of order within the delay. None is late and none is cut
off, because Spark drops late rows without a word, and which these are depends on how it cuts micro-batches. About ten lines are a
session. Otherwise as benchmarks/yahoo.py: same files, files a micro-batch and session, nothing kept, runs in turns, medians;
one more run of each side goes to files and is compared with a recount by DuckDB. ``floor``: the scan of the lines alone.
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
from benchmarks.by_hand import web_log as by_hand
from examples import web_log, web_log_data
from tracetypes import Dataflow, U, Unit, text_lines
from tracetypes.compiler.spark.session import session

MINUTES = 600
"""Of event time, whatever the number of events."""

DELAY, GAP = int(web_log.DELAY.total_seconds()), int(web_log.GAP.total_seconds())

RECOUNT = f"""
    WITH named AS (
        SELECT *, CASE WHEN visitor % 3 = 0 THEN 'user-' || visitor
                  ELSE '10.' || (visitor >> 16) || '.' || (visitor >> 8 & 255) || '.' || (visitor & 255) END AS name FROM visits
    ), begun AS (
        SELECT *, coalesce(time - lag(time) OVER (PARTITION BY name ORDER BY time) > {GAP}, true) AS begins FROM named
    ), numbered AS (
        SELECT *, sum(begins::INTEGER) OVER (PARTITION BY name ORDER BY time) AS number,
            {{'time': time, 'page': page, 'status': status, 'bytes': bytes, 'referrer': referrer}} AS place FROM begun
    )
    SELECT name, min(time), max(time) AS until, count(*), count_if(status >= 400), arg_min(page, place), arg_max(page, place),
        arg_min(referrer, place), sum(bytes)::BIGINT
    FROM numbered GROUP BY name, number
    """


def sessions() -> Dataflow:
    """Of the application the part that Spark can say, too."""
    flow = Dataflow("sessions")
    lines = flow.source("log", U[Unit, str], format=text_lines(), markers=web_log.MARKERS)
    flow.sink("sessions", web_log.sessions_of(lines))
    return flow


def compare(out: Path, visits: Path, *, ours: bool) -> Difference:
    """An answer against the recount."""
    seconds = [f'epoch_ms("{name}") // 1000' for name in ("start", "end")]
    name = "key" if ours else "visitor"
    columns = f"{name}, {seconds[0]}, {seconds[1]}, pages, errors, entry, exit, referrer, bytes"
    # Nobody drains Spark by hand: sessions that the watermark has not passed are not there yet.
    undue = "false" if ours else f"until + {GAP} > (SELECT max(time) - {DELAY} FROM visits)"
    return difference(RECOUNT, out, columns, undue=undue, visits=str(visits))


def child(arguments: argparse.Namespace) -> None:
    """Verify, time and print at one parallelism."""
    spark = session(parallelism=arguments.child)
    setting = Setting(
        spark, arguments.data / "lines", "log", arguments.files_per_step, arguments.child, arguments.keep, text=True
    )
    setting.warm()
    flow = sessions()
    ways = {} if arguments.only_ours else by_hand.WAYS
    differences: dict[str, Difference] = {}
    if not arguments.no_verify:
        with scratch() as out:
            setting.ours(flow, out / "ours.parquet")
            differences["ours"] = compare(out / "ours.parquet", arguments.data / "visits.parquet", ours=True)
            for name, way in ways.items():
                setting.other(way, "append", out / name)
                differences[name] = compare(out / name, arguments.data / "visits.parquet", ours=False)
    sides: dict[str, Callable[[], float]] = {"ours": partial(setting.ours, flow)}
    sides |= {name: partial(setting.other, way, "append") for name, way in ways.items()}
    if not arguments.only_ours:
        sides["floor"] = partial(setting.other, by_hand.floor, "append")
    seconds = alternate(sides, arguments.runs, arguments.warm)
    median = medians(seconds)
    others = {name: median[name] for name in ways}
    best = min(others, key=lambda name: others[name]) if others else None
    say(
        benchmark="web_log",
        query="sessions",
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


def write(directory: Path, events: int, *, files: int, seed: int) -> None:
    """The lines, and the visits as Parquet for the recount."""
    import pyarrow.parquet as pq

    rate = max(1, events // MINUTES)
    settings = {"rate": rate, "active": 2 * rate, "visitors": 20 * rate, "late": 0, "seed": seed}
    web_log_data.write(directory / "lines", events, files=files, cut=0, **settings)
    pq.write_table(web_log_data.table(events, **settings), directory / "visits.parquet")


def main() -> None:
    """Run the benchmark."""
    arguments = options(__doc__, events=1_000_000).parse_args()
    if arguments.child is not None:
        child(arguments)
        return
    with tempfile.TemporaryDirectory() as data:
        write(Path(data), arguments.events, files=arguments.files, seed=arguments.seed)
        speedups("web_log", for_each_parallelism("benchmarks.web_log", arguments, Path(data)))


if __name__ == "__main__":
    main()
