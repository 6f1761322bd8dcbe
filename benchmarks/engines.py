"""Queries IV and V of the Yahoo benchmark on other engines, on the same files; each answer is compared with a recount.

    python -m venv engines && engines/bin/pip install bytewax pathway pyarrow duckdb
    python -m benchmarks.engines --python engines/bin/python [--events N] [--files N] [--queries IV,V] [--workers 1,2]
                                 [--engines duckdb,bytewax,pathway,spark,ours,local] [--disorder SECONDS] [--runs N]

``seconds`` is the time inside the process from where the engine starts to work until the answer is there; ``whole`` is from the
start of the process to the end of its first run, which writes the answer to files. ``first``: from where the engine starts to
work to the first row, or to the first committed epoch (ours); ``whole_first``: from the start of the process. ``memory``: the
most MB of all processes.

``local`` is ours on the local backend, ``ours`` and ``spark`` (by hand) are on Spark. Ours have a process for each number of
workers, Spark by hand a session of the largest one. They run warm for ``seconds``, Parquet in, nothing kept; the others begin
anew and keep the answer in memory. By hand is the fastest of its ways. Only ours and Spark write checkpoints: take orders of
magnitude, not digits. Spark by hand leaves the windows open that the watermark has not passed.

``--disorder``: events come up to so many seconds late, and lie in the files in the order in which they came; every engine is
told so (``wait``) and reads with the largest number of workers. ``missing`` and ``extra`` are rows of its answer against the
recount (a wrong count is one of each); ``lost_views``: how many of ``views`` its answer lacks (in IV each counts ten times).

Without ``--disorder`` Bytewax is given a ``wait`` of ten seconds, for its watermark moves with the clock of the machine too; with
several workers, each of which reads its own files, one that covers the time of two files.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks._compare import Setting, difference, say, scratch, versions
from benchmarks._processes import PeakMemory
from benchmarks._side import Order
from benchmarks._sides import Side
from benchmarks.by_hand import yahoo as by_hand
from benchmarks.yahoo import RECOUNTS, SECONDS
from examples import yahoo_data
from examples.yahoo_data import START, Tables
from tracetypes.compiler.spark.session import session

ROOT = Path(__file__).resolve().parents[1]
TIMES = ("began", "ended", "started", "first")
"""When something was, in a report of another engine."""

OURS = {"ours": "Spark", "local": "local"}
"""The engines that are ours, and what they are on."""

PACKAGES = {"duckdb": "duckdb", "bytewax": "bytewax", "pathway": "pathway"}


def make(root: Path, dimensions: Tables, arguments: argparse.Namespace) -> None:
    """Parquet files, the same as CSV files, and the table of advertisements as CSV."""
    yahoo_data.write_events(
        root / "events", dimensions, events=arguments.events, files=arguments.files, rate=max(1, arguments.events // SECONDS)
    )
    dimensions.write(root / "reference.sqlite")
    (root / "csv").mkdir()
    ads = "".join(f"{ad},{campaign}\n" for ad, campaign in dimensions.campaign_of.items())
    (root / "ads.csv").write_text("ad_id,campaign_id\n" + ads)
    if arguments.disorder:
        disorder(root / "events", arguments.disorder, arguments.seed)
    for path in sorted((root / "events").iterdir()):
        table = pq.read_table(path, columns=["ad_id", "event_type", "event_time"])
        pa.csv.write_csv(table, root / "csv" / f"{path.stem}.csv")


def disorder(events: Path, seconds: float, seed: int) -> None:
    """Let each event come up to ``seconds`` late: rows in the order of their coming, over the same files."""
    import numpy as np

    files = sorted(events.iterdir())
    whole = pa.concat_tables([pq.read_table(path) for path in files])
    late = np.random.default_rng(seed).integers(0, round(seconds * 1_000), whole.num_rows)
    whole = whole.take(pa.array(np.argsort(whole["event_time"].to_numpy() + late, kind="stable")))
    for n, path in enumerate(files):
        first, after = (whole.num_rows * m // len(files) for m in (n, n + 1))
        pq.write_table(whole.slice(first, after - first), path)
        os.utime(path, (START // 1_000 + n, START // 1_000 + n))


def elsewhere(engine: str, root: Path, out: Path, query: str, workers: int, wait: float, python: str) -> dict[str, Any]:
    """Run an engine in processes of its own; its seconds and notes. Raises RuntimeError when one fails."""
    folder = "csv" if engine == "pathway" else "events"
    orders: dict[str, Any] = {
        "query": query,
        "files": [str(path) for path in sorted((root / folder).iterdir())],
        "ads": str(root / "ads.csv"),
        "workers": workers,
        "wait": wait,
        "out": str(out),
    }
    count = workers if engine == "bytewax" else 1
    if count > 1:
        orders["addresses"] = [f"127.0.0.1:{port}" for port in free_ports(count)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATHWAY_THREADS": str(workers)}
    before = time.time()
    children = [
        subprocess.Popen(
            [python, "-m", f"benchmarks.other_engines.on_{engine}", json.dumps({**orders, "number": n})],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for n in range(count)
    ]
    reports = []
    for process in children:
        stdout, stderr = process.communicate()
        if process.returncode:
            raise RuntimeError(f"{engine}: {stderr[-2_000:]}")
        reports.append(json.loads(stdout.splitlines()[-1]))
    whole = time.time() - before
    notes = {key: sum(one[key] for one in reports) for key in reports[0] if key not in TIMES}
    began, first = min(one["began"] for one in reports), min(one["first"] for one in reports)
    seconds = max(one["ended"] for one in reports) - began
    inside = {"seconds": seconds, "first": first - began}
    return {**inside, "whole": whole, "whole_first": first - before, **notes}


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def ours(order: Order, out: Path, runs: int) -> list[dict[str, Any]]:
    """Ours, in a process of its own: the answer first, then warm runs."""
    before = time.monotonic()
    side = Side(order)
    try:
        cold = side.write(out)
        whole = time.monotonic() - before
        start = whole - cold.seconds
        seconds = [side.run() for _ in range(runs + 1)][1:]
        firsts = [one.first for one in side.timings[-runs:] if one.first is not None]
        notes = {"whole": whole, "memory": side.peak(), "first": min(firsts), "cold": cold.seconds}
    finally:
        side.end()
    return [{"seconds": one, **notes, "whole_first": start + (cold.first or 0)} for one in seconds]


Here: TypeAlias = Callable[[Path | None], float]
"""Runs Spark by hand in this process; its seconds."""


def fastest_by_hand(setting: Setting, dimensions: Tables, query: str, wait: float) -> Here:
    """Spark by hand, the way that takes least when all are run once, warm."""
    reference = by_hand.Reference(dimensions, "", wait=wait)
    ways = [partial(setting.other, way.bound(reference), "append") for way in by_hand.QUERIES[query]]
    if len(ways) == 1:
        return ways[0]
    for way in ways:
        way(None)
    return min(ways, key=lambda way: way(None))


def compare(root: Path, out: Path, dimensions: Tables, query: str, engine: str, wait: float) -> dict[str, Any]:
    """The answer against the recount."""
    ads = pd.DataFrame(dimensions.campaign_of.items(), columns=["ad_id", "campaign_id"])
    newest = max(
        pc.max(pq.read_table(path, columns=["event_time"])["event_time"]).as_py()
        for path in (root / "events").iterdir()
    )
    # Nobody drains Spark by hand: windows that the watermark has not passed are not told yet.
    undue = f'"end" * 1000 > {newest - wait * 1_000}' if engine == "spark" else "false"
    recount = RECOUNTS[query]
    columns = ("key" if engine in OURS else "campaign_id") + ' AS campaign_id, "end", views'
    events = f"{root}/events/*.parquet"
    result = difference(recount, out, columns, undue=undue, events=events, ads=ads)
    with duckdb.connect() as database:
        database.execute(f"CREATE VIEW events AS SELECT * FROM '{events}'")
        database.register("ads", ads)
        (total,) = database.execute(f"SELECT sum(views)::BIGINT FROM ({recount}) WHERE NOT ({undue})").fetchall()
    views = sum(
        pc.sum(pq.read_table(part, columns=["views"])["views"]).as_py() or 0 for part in out.glob("*.parquet")
    )
    return {
        "exact": result.exact,
        "rows": result.rows,
        "missing": result.missing,
        "extra": result.extra,
        "undue": result.undue,
        "lost_views": total[0] - views,
        "views": total[0],
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="of the other engines")
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--files-per-step", type=int, default=2)
    parser.add_argument("--queries", default="IV,V")
    parser.add_argument("--engines", default="duckdb,bytewax,pathway,spark,ours,local")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--disorder", type=float, default=0, help="seconds")
    parser.add_argument("--wait", type=float, help="seconds; default: --disorder, or what covers the time of two files")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    widths = sorted(map(int, arguments.workers.split(",")))
    dimensions = yahoo_data.tables(seed=arguments.seed)
    with scratch() as root:
        make(root, dimensions, arguments)
        for engine in arguments.engines.split(","):
            for workers in widths[-1:] if arguments.disorder or engine in ("spark", "ours") else widths:
                for query in arguments.queries.split(","):
                    measure(engine, workers, query, root, dimensions, arguments)


def measure(engine: str, workers: int, query: str, root: Path, dimensions: Tables, arguments: argparse.Namespace) -> None:
    """Run an engine, compare its answer and print a line."""
    wait = arguments.wait if arguments.wait is not None else arguments.disorder
    if arguments.wait is None and not arguments.disorder and engine == "bytewax":
        wait = 10 if workers == 1 else 2 * SECONDS / arguments.files + 10
    with scratch() as out:
        answer = out / "first.parquet"
        answer.mkdir()
        if engine in OURS:
            per_step = arguments.files_per_step if engine == "ours" else None
            order = Order(OURS[engine], workers, query, str(root), SECONDS / arguments.files, wait, per_step)
            reports = ours(order, answer, arguments.runs)
        elif engine == "spark":
            setting = Setting(session(parallelism=workers), root / "events", "events", arguments.files_per_step, workers)
            setting.warm()
            here = fastest_by_hand(setting, dimensions, query, wait)
            here(answer)
            reports = [{"seconds": here(None)} for _ in range(arguments.runs)]
            with PeakMemory(os.getpid()) as peak:
                here(None)
            reports[0]["memory"] = peak.peak
        else:
            places = [answer, *(out / str(n) for n in range(1, arguments.runs))]
            for place in places[1:]:
                place.mkdir()
            reports = [elsewhere(engine, root, place, query, workers, wait, arguments.python) for place in places]
        result = compare(root, answer, dimensions, query, engine, wait)
    seconds = statistics.median(one["seconds"] for one in reports)
    say(
        benchmark="engines",
        engine=engine,
        query=query,
        events=arguments.events,
        workers=workers,
        disorder=arguments.disorder,
        wait=wait,
        seconds=round(seconds, 2),
        million=round(arguments.events / seconds / 1e6, 2),
        **{name: round(number, 2) for name, number in reports[0].items() if name != "seconds"},
        **result,
        versions=version_of(engine, arguments.python) if engine in PACKAGES else versions(),
    )


def version_of(engine: str, python: str) -> dict[str, str]:
    """The version of an engine in its own environment."""
    program = f"import importlib.metadata as m; print(m.version({PACKAGES[engine]!r}))"
    return {engine: subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout.strip()}


if __name__ == "__main__":
    main()
