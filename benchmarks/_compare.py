"""What benchmarks against PySpark by hand share: the same session, files, micro-batches and sink on both sides."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tracetypes import Dataflow, __version__, check
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.run import run
from tracetypes.compiler.store.outputs import FileOutput, NoOutput

Query = Callable[[DataFrame], DataFrame]


def versions() -> dict[str, str]:
    """Of what was measured."""
    return {"tracetypes": __version__, "pyspark": pyspark.__version__, "python": platform.python_version()}


def say(**line: Any) -> None:
    """Print a JSON line."""
    print(json.dumps(line), flush=True)


def quantiles(values: Iterable[float]) -> dict[str, float]:
    """p50, p99 and the greatest; nothing of no values."""
    ordered = sorted(values)
    places = {"p50": len(ordered) // 2, "p99": len(ordered) * 99 // 100, "max": len(ordered) - 1}
    return {name: round(ordered[at], 2) for name, at in places.items()} if ordered else {}


class Processor:
    """Counts the processor time of this process and of all below it: the JVM and the Python workers.

    Processes are looked at twice a second. What one uses between the last look and its end is not counted.
    """

    def __init__(self) -> None:
        self.times: dict[tuple[int, str], float] = {}
        self.end = threading.Event()

    def look(self) -> float:
        """Seconds so far, those of processes that have ended among them."""
        tick = os.sysconf("SC_CLK_TCK")
        times: dict[int, tuple[str, float]] = {}
        below: dict[int, list[int]] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                pid = int(stat.parent.name)
                times[pid] = fields[19], (int(fields[11]) + int(fields[12])) / tick  # with its start, for numbers come again
                below.setdefault(int(fields[1]), []).append(pid)
        queue = [os.getpid()]
        while queue:
            pid = queue.pop()
            if pid in times:
                self.times[pid, times[pid][0]] = times[pid][1]
            queue += below.get(pid, [])
        return sum(self.times.values())

    def count(self, side: Callable[[], float], into: list[float]) -> float:
        """Seconds of a run; its processor time goes to a list."""
        before = self.look()
        self.end.clear()
        looking = threading.Thread(target=self._watch, daemon=True)
        looking.start()
        try:
            return side()
        finally:
            self.end.set()
            looking.join()
            into.append(self.look() - before)

    def _watch(self) -> None:
        while not self.end.wait(0.5):
            self.look()


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory that goes away."""
    path = Path(tempfile.mkdtemp(prefix="tracetypes-benchmark-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@attrs.frozen
class Setting:
    """Where both sides run. ``rows``: the directory of the files, Parquet or, with ``text``, lines of text; ``source``: what our
    flows call it; ``others``: more directories, by what our flows call them; ``keep``: rows go to Parquet files on both sides
    where nobody says where to."""

    spark: SparkSession
    rows: Path
    source: str
    files_per_step: int
    parallelism: int
    keep: bool = False
    text: bool = False
    others: Mapping[str, Path] = {}

    @property
    def format(self) -> str:
        """Of the files."""
        return "text" if self.text else "parquet"

    @property
    def inputs(self) -> dict[str, str]:
        """All directories, by what our flows call them."""
        return {name: str(path) for name, path in ((self.source, self.rows), *self.others.items())}

    def ours(self, flow: Dataflow, output: Path | None = None) -> float:
        """Seconds of a whole run, the drain included. ``output``: Parquet files there; None: nothing is kept."""
        if output is None and self.keep:
            with scratch() as directory:
                return attrs.evolve(self, keep=False).ours(flow, directory / "out.parquet")
        query_plan = plan(check(flow), parallelism=self.parallelism)
        with scratch() as checkpoint:
            start = time.monotonic()
            sink = (
                NoOutput(query_plan)
                if output is None
                else FileOutput(query_plan, str(output), "run", f"{output}-late", f"{output}-rejects")
            )
            summary = run(
                self.spark,
                query_plan,
                self.inputs,
                sink,
                checkpoint=str(checkpoint),
                files_per_step=self.files_per_step,
            )
            seconds = time.monotonic() - start
        if summary.late or summary.rejects:
            raise RuntimeError(f"{flow.name}: late {summary.late}, rejected {summary.rejects}")
        return seconds

    def other(self, query: Callable[..., DataFrame], mode: str, output: Path | None = None) -> float:
        """Seconds of a whole run by hand, until all files are answered as far as the watermark goes. ``query``: takes a frame of
        each input. Files are those of Spark's own sink, which are there exactly once; in other modes it has none.

        The session is ours, but for micro-batches without data: ours needs none, and without them the watermark of the last
        files would answer nothing here.
        """
        if output is None and self.keep:
            with scratch() as directory:
                return attrs.evolve(self, keep=False).other(query, mode, directory / "out.parquet")
        self.spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
        with scratch() as checkpoint:
            start = time.monotonic()
            frames = [self.frame(path) for path in self.inputs.values()]
            writer = query(*frames).writeStream.outputMode(mode)
            writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
            if output is None:
                writer = writer.format("noop")
            elif mode == "append":
                writer = writer.format("parquet").option("path", str(output))
            else:
                writer = writer.foreachBatch(lambda rows, _: rows.write.mode("append").parquet(str(output)))
            writer.start().awaitTermination()
            return time.monotonic() - start

    def frame(self, path: str) -> DataFrame:
        """A directory as a stream of Spark."""
        schema = self.spark.read.format(self.format).load(path).schema
        stream = self.spark.readStream.format(self.format).schema(schema)
        return stream.option("maxFilesPerTrigger", self.files_per_step).load(path)

    def warm(self) -> None:
        """Read the files once, so that both sides find them in memory."""
        for path in self.inputs.values():
            self.spark.read.format(self.format).load(path).agg(F.count("*")).collect()


def alternate(sides: Mapping[str, Callable[[], float]], runs: int, warm: float) -> dict[str, list[float]]:
    """Seconds of each side, run in turns: what else the machine does hits all alike. ``warm``: seconds that each side runs
    before, which do not count: that long the JVM makes machine code of what it runs."""
    warm_seconds = dict.fromkeys(sides, 0.0)
    while min(warm_seconds.values()) < warm:
        for name, side in sides.items():
            if warm_seconds[name] < warm:
                warm_seconds[name] += side()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(runs):
        for name, side in sides.items():
            seconds[name].append(side())
    return seconds


def medians(seconds: Mapping[str, list[float]]) -> dict[str, float]:
    """To hundredths of a second."""
    return {name: round(statistics.median(times), 2) for name, times in seconds.items()}


@attrs.frozen
class Difference:
    """Rows of an answer against those of a recount. ``undue``: missing, and not due before the sources end."""

    rows: int
    missing: int
    extra: int
    undue: int

    @property
    def exact(self) -> bool:
        """Is nothing wrong with what was due?"""
        return not self.missing and not self.extra


def difference(recount: str, out: Path, columns: str, *, undue: str = "false", **tables: Any) -> Difference:
    """Compare bags of rows by DuckDB.

    ``wanted``: SQL over ``tables`` (data frames, or paths of Parquet files); ``columns``: what to select from the files in
    ``got``; ``undue``: a condition on wanted rows.
    """
    import duckdb

    with duckdb.connect() as database:
        for name, table in tables.items():
            if isinstance(table, str):
                database.execute(f"CREATE VIEW {name} AS SELECT * FROM '{table}'")
            else:
                database.register(name, table)
        database.execute(f"CREATE TABLE wanted AS {recount}")
        parts = [str(part) for part in out.glob("*.parquet")]
        if parts:
            database.execute(f"CREATE TABLE found AS SELECT {columns} FROM read_parquet({parts!r})")
        else:
            database.execute("CREATE TABLE found AS SELECT * FROM wanted LIMIT 0")

        def count(query: str) -> int:
            row = database.execute(f"SELECT count(*) FROM ({query})").fetchone()
            assert row is not None
            return int(row[0])

        absent = "SELECT * FROM wanted EXCEPT ALL SELECT * FROM found"
        undue_rows = count(f"SELECT * FROM ({absent}) WHERE {undue}")
        return Difference(
            rows=count("SELECT * FROM found"),
            missing=count(absent) - undue_rows,
            extra=count("SELECT * FROM found EXCEPT ALL SELECT * FROM wanted"),
            undue=undue_rows,
        )


def options(description: str | None, *, events: int) -> argparse.ArgumentParser:
    """The options that all of these benchmarks have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=events)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--files-per-step", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--warm", type=float, default=5.0, help="seconds that each side runs before its runs count")
    parser.add_argument("--parallelism", default="1,2", help="as many tasks and cores; a session each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="time runs that write Parquet files, on both sides")
    parser.add_argument("--no-verify", action="store_true", help="time only")
    parser.add_argument("--only-ours", action="store_true", help="leave the others out, for profiling")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    return parser


def for_each_parallelism(module: str, arguments: argparse.Namespace, data: Path) -> list[dict[str, Any]]:
    """Run the module again for each parallelism, in a process of its own, and print its lines as they come; all lines.

    A session has one number of cores, and a process one session.
    """
    lines: list[dict[str, Any]] = []
    for parallelism in arguments.parallelism.split(","):
        again = [sys.executable, "-m", module, *sys.argv[1:], "--child", parallelism, "--data", str(data)]
        with subprocess.Popen(again, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as child:
            assert child.stdout is not None
            for text in child.stdout:
                print(text, end="", flush=True)
                lines.append(json.loads(text))
        if child.returncode:
            sys.exit(child.returncode)
    return lines


def speedups(benchmark: str, lines: Iterable[dict[str, Any]]) -> None:
    """A line for each query: how much faster each side, and the floor, became from the least to the greatest parallelism."""
    by_query: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_query.setdefault(line["query"], []).append(line)
    for query, many in by_query.items():
        first, last = min(many, key=lambda one: one["parallelism"]), max(many, key=lambda one: one["parallelism"])
        if first is not last:
            sides = {side: round(first[side] / last[side], 2) for side in ("ours", "other", "floor") if first.get(side)}
            parallelism = [first["parallelism"], last["parallelism"]]
            say(benchmark=benchmark, query=query, speedup=sides, parallelism=parallelism)
