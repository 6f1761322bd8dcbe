"""A side of a comparison in a process of its own, which stays warm and runs when it is told to.

    python -m benchmarks._side JSON      # reads words from standard input, prints a JSON line for each

The word ``run`` runs it and keeps nothing, ``write PATH`` runs it into Parquet files. A line has ``seconds`` of the run, and
``first``, the seconds from the call to the first committed epoch, for sides of ours. It imports only what a user's program
would, so that the start of the process can be measured.
"""

from __future__ import annotations

import json
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import attrs

from examples.yahoo_data import Tables
from tracetypes import Dataflow, check

__all__ = ["HOMES", "Order", "Timing"]

HOMES: Final = "homes"
"""The query that is the smart-homes pipeline."""


@attrs.frozen
class Order:
    """``engine``: ``local``, ``Spark`` (ours) or ``DuckDB``. ``workers``: threads; DuckDB takes what it likes. ``data``: the
    directory of the files and tables. ``span``: seconds of event time of a file. ``delay``: seconds that events may come late, of
    queries IV and V. ``per_step``: files of a micro-batch. ``reorder``: what
    the local backend puts back in order. ``python``: the interpreter, if it is not this one."""

    engine: str
    workers: int
    query: str
    data: str
    span: float
    delay: float = 0.0
    per_step: int | None = None
    reorder: Literal["typed", "serial"] = "typed"
    python: str = ""

    @property
    def name(self) -> str:
        """For people."""
        more = (" serial" if self.reorder == "serial" else "") + (" on the other Python" if self.python else "")
        return f"{self.engine} {self.workers}{more}" if self.engine == "local" else self.engine


@attrs.frozen
class Timing:
    """Seconds of a run, and until its first epoch was committed."""

    seconds: float
    first: float | None = None


Run: TypeAlias = Callable[[Path | None], Timing]
"""Runs a side; into files, if there is a path."""


def flow_of(order: Order) -> tuple[Dataflow, str]:
    """Our dataflow, and the name of its source."""
    data = Path(order.data)
    if order.query == HOMES:
        from examples import smart_homes, smart_homes_data

        models = pickle.loads((data / "models.pickle").read_bytes())
        return smart_homes.predictions(smart_homes_data.trees_of(models)), "readings"
    from examples import yahoo

    dimensions = Tables.read(data / "reference.sqlite")
    match order.query:
        case "II":
            return yahoo.query_2(seconds=order.span), "events"
        case "III":
            return yahoo.query_3(dimensions, seconds=order.span), "events"
        case "IV":
            return yahoo.query_4(dimensions, delay=order.delay), "events"
        case "V":
            return yahoo.query_5(dimensions, delay=order.delay), "events"
        case "VI":
            return yahoo.query_6(dimensions, seconds=10, period=10), "events"
        case _:
            raise ValueError(f"no query {order.query}")


def ours(order: Order) -> Run:
    """Ours, on a backend."""
    from tracetypes.compiler.backend.compilation import extras

    with extras():
        from tracetypes.compiler.backend.run import run
        from tracetypes.compiler.plan.planner import plan
        from tracetypes.compiler.store.outputs import FileOutput, NoOutput

    backend: Any
    if order.engine == "local":
        from tracetypes.compiler.local.backend import LocalBackend
        from tracetypes.compiler.local.options import LocalOptions

        backend = LocalBackend(order.workers, LocalOptions(reorder=order.reorder))
    else:
        from tracetypes.compiler.spark.backend import SparkBackend
        from tracetypes.compiler.spark.session import session

        backend = SparkBackend(session(parallelism=order.workers))
    flow, source = flow_of(order)

    def once(output: Path | None) -> Timing:
        ends: list[float] = []
        with tempfile.TemporaryDirectory(prefix="tracetypes-benchmark-") as checkpoint:
            start = time.monotonic()
            query_plan = plan(check(flow), parallelism=order.workers)
            summary = run(
                backend,
                query_plan,
                {source: str(Path(order.data, source))},
                NoOutput(query_plan)
                if output is None
                else FileOutput(query_plan, str(output), "run", f"{output}-late", f"{output}-rejects"),
                checkpoint=checkpoint,
                files_per_step=order.per_step,
                on_batch=lambda _: ends.append(time.monotonic() - start),
            )
            seconds = time.monotonic() - start
        if summary.late or summary.rejects:
            raise RuntimeError(f"{flow.name}: late {summary.late}, rejected {summary.rejects}")
        return Timing(seconds, ends[0])

    return once


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
