"""Queries I to VI of the Yahoo benchmark: ours against PySpark as an expert writes it (benchmarks/by_hand/yahoo.py).

    python -m benchmarks.yahoo [--events N] [--users N,N,...] [--files N] [--files-per-step N] [--runs N]
                               [--parallelism 1,2] [--queries I,II,...] [--locations N]

Same Parquet files, same files a micro-batch, same session, nothing kept on either side (Spark's noop sink), runs in turns,
medians; before that each side runs ``--warm`` seconds. One more run of each goes to files and is compared with a recount by
DuckDB. ``floor``: scan, filter and look-up with nothing behind them. Prints a JSON line for each query, number of users
and parallelism, and one for each query's speed-up.

So that both sides give the same answer, markers of II and III come once a micro-batch (Spark tells touched groups once a
micro-batch), and those of VI at each clustering. Those of I, which nobody looks at, come once a micro-batch too.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

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
from benchmarks.by_hand import yahoo as by_hand
from examples import yahoo, yahoo_data
from examples.yahoo_data import START, Tables
from tracetypes import Dataflow
from tracetypes.compiler.spark.session import session

SECONDS = 200
"""Of event time, whatever the number of events."""

EVENTS = "user_id, page_id, ad_id, ad_type, event_type, event_time, ip_address"
COUNTS = ", ".join(
    f"count(*) FILTER (event_type = '{name}') AS {column}"
    for name, column in (("view", "views"), ("click", "clicks"), ("purchase", "purchases"))
)
SUMS = ", ".join(f"sum({name}) OVER past AS {name}" for name in ("views", "clicks", "purchases"))

RECOUNTS = {
    "I": f"SELECT campaign_id, {EVENTS} FROM events JOIN ads USING (ad_id)",
    "II": f"""
        WITH touched AS (SELECT user_id, event_time // {{span}} AS span, {COUNTS} FROM events GROUP BY ALL)
        SELECT user_id, {SUMS} FROM touched WINDOW past AS (PARTITION BY user_id ORDER BY span)
        """,
    "III": f"""
        WITH touched AS (
            SELECT location, event_time // {{span}} AS span, {COUNTS}, min(event_time) AS f, max(event_time) AS l
            FROM events JOIN users USING (user_id) GROUP BY ALL)
        SELECT location, {SUMS}, min(f) OVER past AS first, max(l) OVER past AS last
        FROM touched WINDOW past AS (PARTITION BY location ORDER BY span)
        """,
    "IV": """
        WITH panes AS (
            SELECT campaign_id, event_time // 1000 AS pane, count(*) AS views
            FROM events JOIN ads USING (ad_id) WHERE event_type = 'view' GROUP BY ALL)
        SELECT campaign_id, pane + 1 + later.n AS "end", sum(views)::BIGINT AS views
        FROM panes, range(10) AS later(n) GROUP BY ALL
        """,
    "V": """
        SELECT campaign_id, (event_time // 10000 + 1) * 10 AS "end", count(*) AS views
        FROM events JOIN ads USING (ad_id) WHERE event_type = 'view' GROUP BY ALL
        """,
    "VI": 'SELECT location, "end", number, users, views, clicks, purchases FROM clusters',
}
COLUMNS = {
    "I": f"campaign_id, {EVENTS}",
    "II": "user_id, views, clicks, purchases",
    "III": 'location, views, clicks, purchases, "first", "last"',
    "IV": 'campaign_id, "end", views',
    "V": 'campaign_id, "end", views',
    "VI": 'location, "end", number, users, views, clicks, purchases',
}


def flows(dimensions: Tables, database: str, span: float) -> dict[str, dict[str, Dataflow]]:
    """Our side, in the ways that there are. ``span``: seconds of event time of a micro-batch."""
    return {
        "I": {
            "table in memory": yahoo.query_1_in_memory(dimensions, seconds=span),
            "lookup_join": yahoo.query_1(database, seconds=span),
        },
        "II": {"ours": yahoo.query_2(seconds=span)},
        "III": {"ours": yahoo.query_3(dimensions, seconds=span)},
        "IV": {"ours": yahoo.query_4(dimensions)},
        "V": {"ours": yahoo.query_5(dimensions)},
        "VI": {"ours": yahoo.query_6(dimensions, seconds=10, period=10)},
    }


def compare(query: str, out: Path, root: Path, dimensions: Tables, span: float, *, ours: bool) -> Difference:
    """An answer against the recount."""
    import pandas as pd

    columns = COLUMNS[query]
    if ours and query == "I":
        columns = columns.replace("ad_id", "key AS ad_id")
    elif ours:
        name, _, others = columns.partition(", ")
        columns = f"key AS {name}, {others}"
    tables: dict[str, Any] = {
        "events": f"{root}/events/*.parquet",
        "ads": pd.DataFrame(dimensions.campaign_of.items(), columns=["ad_id", "campaign_id"]),
        "users": pd.DataFrame(dimensions.location_of.items(), columns=["user_id", "location"]),
    }
    if query == "VI":
        tables["clusters"] = clusters(tables)
    recount = RECOUNTS[query].format(span=round(span * 1_000))
    # Nobody drains Spark by hand: windows that the watermark has not passed are not there yet.
    late = not ours and query in ("IV", "V", "VI")
    undue = '"end" > (SELECT max(event_time) // 1000 FROM events)' if late else "false"
    return difference(recount, out, columns, undue=undue, **tables)


def clusters(tables: dict[str, Any]) -> Any:
    """The recount of query VI: features by DuckDB, then the same k-means."""
    import duckdb
    import pandas as pd

    with duckdb.connect() as database:
        database.register("users", tables["users"])
        counted = database.execute(
            f"SELECT location, user_id, (event_time // 10000 + 1) * 10 AS e, {COUNTS} "
            f"FROM '{tables['events']}' JOIN users USING (user_id) GROUP BY ALL ORDER BY e"
        ).fetchall()
    ends = sorted({row[2] for row in counted})
    add = yahoo.CountActions().combine
    totals: dict[int, dict[str, yahoo.Counts]] = {}
    rows: list[tuple[Any, ...]] = []
    at = 0
    for end in range(ends[0], ends[-1] + 1, 10):
        while at < len(counted) and counted[at][2] == end:
            location, user, _, *counts = counted[at]
            users = totals.setdefault(location, {})
            users[user] = add(users.get(user, (0, 0, 0)), (counts[0], counts[1], counts[2]))
            at += 1
        for location, users in totals.items():
            rows += [(location, end, number, *one) for number, one in enumerate(yahoo.cluster(users, 4))]
    return pd.DataFrame(rows, columns=["location", "end", "number", "users", "views", "clicks", "purchases"])


def child(arguments: argparse.Namespace) -> None:
    """All queries at one parallelism."""
    spark = session(parallelism=arguments.child)
    span = SECONDS * arguments.files_per_step / arguments.files
    for users in map(int, arguments.users.split(",")):
        root = arguments.data / str(users)
        database = str(root / "reference.sqlite")
        dimensions = Tables.read(Path(database))
        reference = by_hand.Reference(dimensions, database)
        setting = Setting(spark, root / "events", "events", arguments.files_per_step, arguments.child, arguments.keep)
        setting.warm()
        mine = flows(dimensions, database, span)
        for query in arguments.queries.split(","):
            report(setting, query, mine[query], reference, root, arguments, span)


def report(
    setting: Setting,
    query: str,
    flows: dict[str, Dataflow],
    reference: by_hand.Reference,
    root: Path,
    arguments: argparse.Namespace,
    span: float,
) -> None:
    """Verify, time and print a query."""
    dimensions = reference.dimensions
    ways = () if arguments.only_ours else by_hand.QUERIES[query]
    differences: dict[str, Difference] = {}
    if not arguments.no_verify:
        with scratch() as out:
            for name, flow in flows.items():
                setting.ours(flow, out / f"{name}.parquet")
                differences[name] = compare(query, out / f"{name}.parquet", root, dimensions, span, ours=True)
            for way in ways:
                setting.other(way.bound(reference), way.mode, out / way.name)
                differences[way.name] = compare(query, out / way.name, root, dimensions, span, ours=False)
    sides: dict[str, Callable[[], float]] = {name: partial(setting.ours, flow) for name, flow in flows.items()}
    for way in ways:
        sides[way.name] = partial(setting.other, way.bound(reference), way.mode)
    if query in by_hand.FLOORS and not arguments.only_ours:
        sides["floor"] = partial(setting.other, by_hand.FLOORS[query].bound(reference), "append")
    seconds = alternate(sides, arguments.runs, arguments.warm)
    median = medians(seconds)
    others = {way.name: median[way.name] for way in ways}
    ours = min(flows, key=lambda name: median[name])
    best = min(others, key=lambda name: others[name]) if others else None
    say(
        benchmark="yahoo",
        query=query,
        keys=len(dimensions.location_of),
        events=arguments.events,
        parallelism=setting.parallelism,
        ours=median[ours],
        ours_all=[round(t, 2) for t in seconds[ours]],
        ours_is=ours,
        our_ways={name: median[name] for name in flows},
        other=median[best] if best else None,
        ratio=round(median[best] / median[ours], 2) if best else None,
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
    parser.add_argument("--users", default="100000")
    parser.add_argument("--locations", type=int, default=50, help="the keys of III, and of the clusters of VI")
    parser.add_argument("--queries", default="I,II,III,IV,V,VI")
    arguments = parser.parse_args()
    if arguments.child is not None:
        child(arguments)
        return
    if START // 1_000 % (SECONDS * arguments.files_per_step / arguments.files):
        parser.error("--files and --files-per-step: choose them so that a micro-batch is a whole number of markers")
    with tempfile.TemporaryDirectory() as data:
        for users in map(int, arguments.users.split(",")):
            root = Path(data) / str(users)
            dimensions = yahoo_data.tables(users=users, locations=arguments.locations, seed=arguments.seed)
            rate = max(1, arguments.events // SECONDS)
            yahoo_data.write_events(
                root / "events", dimensions, events=arguments.events, files=arguments.files, rate=rate, seed=arguments.seed
            )
            dimensions.write(root / "reference.sqlite")
        speedups("yahoo", for_each_parallelism("benchmarks.yahoo", arguments, Path(data)))


if __name__ == "__main__":
    main()
