"""A side of a comparison in a process of its own, which stays warm and runs when it is told to.

    python -m benchmarks._sides JSON      # reads words from standard input, prints a JSON line for each

The word ``run`` runs it and keeps nothing, ``write PATH`` runs it into Parquet files. A line has ``seconds`` of the run, and
``first``, the seconds from the call to the first committed epoch, for sides of ours.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import attrs

from benchmarks._processes import PeakMemory
from examples.yahoo_data import Tables
from tracetypes import Dataflow

__all__ = ["HOMES", "Order", "Side", "Timing"]

HOMES: Final = "homes"
"""The query that is the smart-homes pipeline."""


@attrs.frozen
class Order:
    """``engine``: ``local``, ``Spark`` (ours) or ``DuckDB``. ``workers``: threads; DuckDB takes what it likes. ``data``: the
    directory of the files and tables. ``span``: seconds of event time of a file."""

    engine: str
    workers: int
    query: str
    data: str
    span: float

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.engine} {self.workers}" if self.engine == "local" else self.engine


@attrs.frozen
class Timing:
    """Seconds of a run, and until its first epoch was committed."""

    seconds: float
    first: float | None = None


class Side:
    """A process of a side."""

    def __init__(self, order: Order) -> None:
        self.order, self.timings = order, list[Timing]()
        command = [sys.executable, "-m", "benchmarks._sides", json.dumps(attrs.asdict(order))]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self) -> float:
        """Seconds of a run; its timing is appended to ``timings``."""
        return self._told("run").seconds

    def write(self, path: Path) -> None:
        """Run into files."""
        self._told(f"write {path}")

    def peak(self) -> float:
        """The most megabytes that a run takes."""
        with PeakMemory(self.process.pid) as memory:
            self.run()
        return memory.peak

    def end(self) -> None:
        """End the process."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()

    def _told(self, word: str) -> Timing:
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("the process of a side has pipes")
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("{"):
                self.timings.append(Timing(**json.loads(line)))
                return self.timings[-1]
        raise RuntimeError(f"{self.order.name} ended with status {self.process.wait()}")


# ------------------------------------------------------------------------------------------- inside the process

Run: TypeAlias = Callable[[Path | None], Timing]
"""Runs a side; into files, if there is a path."""


def flow_of(order: Order) -> tuple[Dataflow, str]:
    """Our dataflow, and the name of its source."""
    data = Path(order.data)
    if order.query == HOMES:
        from examples import smart_homes, smart_homes_data

        models = pickle.loads((data / "models.pickle").read_bytes())
        return smart_homes.predictions(smart_homes_data.trees_of(models)), "readings"
    from benchmarks.yahoo import flows

    database = str(data / "reference.sqlite")
    return next(iter(flows(Tables.read(Path(database)), database, order.span)[order.query].values())), "events"


def ours(order: Order) -> Run:
    """Ours, on a backend."""
    from benchmarks._compare import Setting

    backend: Any
    if order.engine == "local":
        from tracetypes.compiler.local.backend import LocalBackend

        backend = LocalBackend(order.workers)
    else:
        from tracetypes.compiler.spark.session import session

        backend = session(parallelism=order.workers)
    flow, source = flow_of(order)
    setting = Setting(backend, Path(order.data, source), source, cast(Any, None), order.workers)

    def run(output: Path | None) -> Timing:
        ends: list[float] = []
        start = time.monotonic()
        seconds = setting.ours(flow, output, on_batch=lambda _: ends.append(time.monotonic() - start))
        return Timing(seconds, ends[0])

    return run


def duckdb_batch(order: Order) -> Run:
    """DuckDB's batch answer, with as many threads as it likes. The time has the reading of the files, not that of the tables."""
    import duckdb
    import pandas as pd

    from benchmarks.yahoo import RECOUNTS

    dimensions = Tables.read(Path(order.data, "reference.sqlite"))

    def run(output: Path | None) -> Timing:
        with duckdb.connect() as database:
            database.register("ads", pd.DataFrame(dimensions.campaign_of.items(), columns=["ad_id", "campaign_id"]))
            database.register("users", pd.DataFrame(dimensions.location_of.items(), columns=["user_id", "location"]))
            database.execute(f"CREATE VIEW events AS SELECT * FROM '{order.data}/events/*.parquet'")
            start = time.monotonic()
            database.sql(RECOUNTS[order.query].format(span=round(order.span * 1_000))).to_arrow_table()
            return Timing(time.monotonic() - start)

    return run


def main() -> None:
    """Do what standard input says."""
    order = Order(**json.loads(sys.argv[1]))
    run = duckdb_batch(order) if order.engine == "DuckDB" else ours(order)
    for line in sys.stdin:
        word, _, path = line.strip().partition(" ")
        timing = run(Path(path) if word == "write" else None)
        print(json.dumps(attrs.asdict(timing)), flush=True)


if __name__ == "__main__":
    main()
