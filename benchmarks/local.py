"""The local backend beside ours on Spark, and beside DuckDB's batch answer: queries of the Yahoo benchmark, and the smart homes.

    python -m benchmarks.local [--events N] [--files N] [--queries II,III,IV,V,VI] [--workers 1,2] [--runs N] [--warm SECONDS]
                               [--data DIR] [--homes N] [--sides local,spark,duckdb] [--serial] [--no-verify] [--python FILE]

The same Parquet files on all sides, checkpoints on, nothing of the rows kept. Each side is a process of its own, which stays
warm; they run in turns, after ``--warm`` seconds of each. ``--homes``: the pipeline of ``examples/smart_homes.py`` for that many
homes in the place of the queries. ``--data``: events are written there if the directory has none, and stay. ``--python``: the
local backend also on this interpreter, such as one without a GIL.

``exact``: the answer of the local backend with most threads equals a recount, by DuckDB or pandas. ``million``: million events a
second, from the call to the end of the run. ``first``: seconds from the call to the first committed epoch, the least of the runs.
``memory``: the most MB of all processes of a side in one more run.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
from pathlib import Path
from typing import Any

from benchmarks._compare import alternate, medians, say, scratch, versions
from benchmarks._side import HOMES, Order
from benchmarks._sides import Side
from benchmarks.yahoo import RECOUNTS, SECONDS, compare
from examples import yahoo_data
from examples.yahoo_data import Tables


def orders(query: str, data: Path, span: float, arguments: argparse.Namespace) -> list[Order]:
    """The sides of a query."""
    widths = [int(width) for width in arguments.workers.split(",")]
    engines = arguments.sides.split(",")
    others = [Order("local", width, query, str(data), span, python=arguments.python) for width in widths if arguments.python]
    some = [*others, *(Order("local", width, query, str(data), span) for width in widths)]
    some = [*[Order("local", widths[-1], query, str(data), span, reorder="serial") for _ in range(arguments.serial)], *some]
    some += [Order("Spark", widths[-1], query, str(data), span)] if "spark" in engines else []
    return some + ([Order("DuckDB", widths[-1], query, str(data), span)] if "duckdb" in engines and query in RECOUNTS else [])


def is_exact(query: str, data: Path, out: Path, span: float) -> bool:
    """The answer against a recount."""
    if query != HOMES:
        return compare(query, out, data, Tables.read(data / "reference.sqlite"), span, ours=True).exact
    import pyarrow.parquet as pq

    from benchmarks import smart_homes

    rows = pq.read_table(data / "readings").to_pandas()
    expected = smart_homes.recount(rows, pickle.loads((data / "models.pickle").read_bytes()))
    return smart_homes.exact(smart_homes.compare(expected, out, until=int(rows["timestamp"].max())))


def measure(query: str, data: Path, events: int, arguments: argparse.Namespace) -> None:
    """Verify, time and print a query."""
    sides = [Side(order) for order in orders(query, data, SECONDS / arguments.files, arguments)]
    try:
        local = [side for side in sides if side.order.engine == "local"]
        exact = None
        if not arguments.no_verify:
            with scratch() as out:
                local[-1].write(out / "rows.parquet")
                exact = is_exact(query, data, out / "rows.parquet", SECONDS / arguments.files)
        seconds = alternate({side.order.name: side.run for side in sides}, arguments.runs, arguments.warm)
        firsts = {side.order.name: [one.first for one in side.timings[-arguments.runs :] if one.first] for side in sides}
        peaks = {side.order.name: round(side.peak()) for side in sides}
    finally:
        for side in sides:
            side.end()
    median = medians(seconds)
    best, typed = median[local[-1].order.name], [one.order for one in local if one.order.reorder == "typed"]
    narrow = next(one.name for one in typed if not one.python)
    others = [median[one.name] for one in typed if one.python]
    say(
        benchmark="local",
        query=query,
        events=events,
        exact=exact,
        seconds=median,
        all={name: [round(one, 2) for one in times] for name, times in seconds.items()},
        million=round(events / best / 1e6, 1),
        speed_up=round(median[narrow] / best, 2),
        other=dict(python=version_of(arguments.python), speed_up=round(others[0] / others[-1], 2)) if others else None,
        over_spark=round(median["Spark"] / best, 2) if "Spark" in median else None,
        over_duckdb=round(best / median["DuckDB"], 2) if "DuckDB" in median else None,
        first={name: round(min(some), 2) for name, some in firsts.items() if some},
        memory=peaks,
        versions=versions(),
    )


def version_of(python: str) -> str:
    """What an interpreter says of itself."""
    return subprocess.run([python, "-VV"], capture_output=True, text=True, check=True).stdout.partition("(")[0].strip()


def write_yahoo(data: Path, arguments: argparse.Namespace) -> int:
    """Events and tables, if they are not there. How many events there are."""
    request = {name: vars(arguments)[name] for name in ("events", "files", "users")}
    record = data / "events.json"
    if record.exists():
        if json.loads(record.read_text()) != request:
            raise SystemExit(f"{data} has other events: {record.read_text()}")
        return int(arguments.events)
    dimensions = yahoo_data.tables(users=arguments.users)
    rate = max(1, arguments.events // SECONDS)
    yahoo_data.write_events(data / "events", dimensions, events=arguments.events, files=arguments.files, rate=rate)
    dimensions.write(data / "reference.sqlite")
    record.write_text(json.dumps(request))
    return int(arguments.events)


def write_homes(data: Path, arguments: argparse.Namespace) -> int:
    """Measurements and models. How many measurements there are."""
    from examples import smart_homes_data
    from examples.smart_homes_data import HOUSEHOLDS, PLUGS, START

    seconds = max(120, arguments.events // (arguments.homes * HOUSEHOLDS * PLUGS))  # one a plug and second
    count = smart_homes_data.write(data / "readings", homes=arguments.homes, seconds=seconds, files=arguments.files)
    history = smart_homes_data.measurements(smart_homes_data.generate(1, 3_000, seed=2, start=START))
    models: dict[str, Any] = smart_homes_data.train(smart_homes_data.histories(history))
    (data / "models.pickle").write_bytes(pickle.dumps(models))
    return count


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--queries", default="II,III,IV,V,VI")
    parser.add_argument("--homes", type=int, help="homes of 24 plugs each")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--warm", type=float, default=10.0, help="seconds that each side runs before")
    parser.add_argument("--sides", default="local,spark,duckdb")
    parser.add_argument("--data", type=Path, help="where events are kept")
    parser.add_argument("--serial", action="store_true", help="and serial order beside typed order")
    parser.add_argument("--python", default="", metavar="FILE", help="another interpreter for the local backend")
    parser.add_argument("--no-verify", action="store_true", help="time only")
    arguments = parser.parse_args()
    with scratch() as root:
        if arguments.homes:
            measure(HOMES, root, write_homes(root, arguments), arguments)
            return
        data = arguments.data or root
        events = write_yahoo(data, arguments)
        for query in arguments.queries.split(","):
            measure(query, data, events, arguments)


if __name__ == "__main__":
    main()
