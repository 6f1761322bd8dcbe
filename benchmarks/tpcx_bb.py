"""TPCx-BB, queries 1, 2, 3, 4 and 15: the local backend beside ours on Spark, and beside DuckDB's batch answer.

    python -m benchmarks.tpcx_bb [--events N] [--days N] [--users N] [--queries 1,2,3,4,15] [--workers 1,2] [--runs N] [--warm S]
                                 [--no-spark] [--no-duckdb]

Streams and windows are those of ``examples/tpcx_bb.py``, from Parquet: ``--events`` clicks for queries 2, 3 and 4, as many
lines of tickets for 1 and 15; a pair of query 1 is frequent from 6 times in an hour. All sides run in one process, warm, in
turns, on the same files, checkpoints on; nothing of the rows is kept. DuckDB answers each window as ``tests/test_tpcx_bb.py``
counts them; one more run of ours is compared with that. ``million``: million events a second, from the call to the end of the
run. ``processor``: seconds of processor time of all processes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import attrs

import tracetypes
from benchmarks._compare import Processor, Setting, alternate, medians, say, scratch, versions
from examples import tpcx_bb, tpcx_bb_data
from tests.test_tpcx_bb import TIMES, pairs_of, recount
from tracetypes.compiler.local.backend import LocalBackend

GIVEN = tpcx_bb.Parameters(frequent=5)
SOURCES = {1: "store_sales", 2: "web_clickstreams", 3: "web_clickstreams", 4: "web_clickstreams", 15: "store_sales"}


def in_duckdb(number: int, root: Path) -> tuple[list[tuple[Any, ...]], float]:
    """The rows of DuckDB's batch answer and its seconds, with as many threads as it likes."""
    import duckdb

    with duckdb.connect() as database:
        for name in ("store_sales", "web_clickstreams"):
            database.execute(f"CREATE VIEW {name} AS SELECT * FROM '{root}/{name}/*.parquet'")
        for name in ("item", "web_page"):
            database.execute(f"CREATE VIEW {name} AS SELECT * FROM '{root}/{name}.parquet'")
        database.execute(TIMES)
        started = time.monotonic()
        rows = database.execute(recount(number, GIVEN)).fetchall()
        return rows, time.monotonic() - started


def is_exact(number: int, root: Path, parallelism: int) -> tuple[bool, int]:
    """Whether the answer of the local backend is the recount, and how many rows it has."""
    rows: list[Any] = []
    source = SOURCES[number]
    tracetypes.run(
        tpcx_bb.dataflow(number, given=GIVEN),
        inputs={source: str(root / source)},
        outputs={f"query_{number}": rows},
        backend="local",
        parallelism=parallelism,
    )
    expected, _ = in_duckdb(number, root)
    return pairs_of(rows) == Counter(row[1:] for row in expected), len(rows)


def measure(number: int, root: Path, arguments: argparse.Namespace) -> None:
    """Verify, time and print a query."""
    flow, source = tpcx_bb.dataflow(number, given=GIVEN), SOURCES[number]
    widths = [int(width) for width in arguments.workers.split(",")]
    exact, rows = is_exact(number, root, widths[-1])
    settings = {
        width: Setting(cast(Any, LocalBackend(width)), root / source, source, cast(Any, None), width) for width in widths
    }
    sides: dict[str, Callable[[], float]] = {f"local {width}": partial(one.ours, flow) for width, one in settings.items()}
    if not arguments.no_spark:
        from tracetypes.compiler.spark.session import session

        sides["Spark"] = partial(attrs.evolve(settings[widths[-1]], spark=session(parallelism=widths[-1])).ours, flow)
    if not arguments.no_duckdb:
        sides["DuckDB"] = lambda: in_duckdb(number, root)[1]
    used: dict[str, list[float]] = {name: [] for name in sides}
    processor = Processor()
    counted = {name: partial(processor.count, side, used[name]) for name, side in sides.items()}
    taken = alternate(counted, arguments.runs, arguments.warm)
    median, best = medians(taken), medians(taken)[f"local {widths[-1]}"]
    say(
        benchmark="tpcx_bb",
        query=number,
        events=arguments.events,
        rows=rows,
        workers=widths[-1],
        exact=exact,
        seconds=median,
        processor=medians({name: times[-arguments.runs :] for name, times in used.items()}),
        all={name: [round(one, 2) for one in times] for name, times in taken.items()},
        million=round(arguments.events / best / 1e6, 2),
        over_spark=round(median["Spark"] / best, 2) if "Spark" in median else None,
        over_duckdb=round(best / median["DuckDB"], 2) if "DuckDB" in median else None,
        versions=versions(),
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--queries", default="1,2,3,4,15")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--warm", type=float, default=5.0, help="seconds that each side runs before")
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--no-duckdb", action="store_true")
    arguments = parser.parse_args()
    with scratch() as root:
        events, days, users = arguments.events, arguments.days, arguments.users
        tpcx_bb_data.write(root, clicks=events, lines=events, days=days, users=users, files=arguments.files)
        for number in json.loads(f"[{arguments.queries}]"):
            measure(number, root, arguments)


if __name__ == "__main__":
    main()
