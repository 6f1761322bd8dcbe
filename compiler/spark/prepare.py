"""A small run from which Java learns what it will load: ``tracetypes prepare``."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import attrs

from tracetypes.compiler.backend.run_request import RunRequest
from tracetypes.compiler.spark import archive, java
from tracetypes.compiler.spark.backend import SparkEngine
from tracetypes.compiler.spark.session import session
from tracetypes.edges import U
from tracetypes.graph import Dataflow
from tracetypes.markers import Marker, every
from tracetypes.records import Unit
from tracetypes.templates import Emit, OpKeyedUnordered, OpStateless

__all__ = ["flow", "prepare"]

PATIENCE = 300
"""Seconds for Java to write the archive."""


@attrs.frozen
class Tick:
    """A number at a second."""

    name: str
    number: int
    ts: int


@attrs.frozen
class ByName(OpStateless[Unit, Tick, str, int]):
    """The numbers of each name."""

    def on_item(self, key: Unit, value: Tick, emit: Emit[str, int]) -> None:
        if value.number > 0:
            emit(value.name, value.number)


@attrs.frozen
class Totals(OpKeyedUnordered[str, int, str, int, int, int]):
    """Their sums so far, under another name."""

    def lift(self, key: str, value: int) -> int:
        return value

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: int) -> int:
        return state + agg

    def on_marker(self, new_state: int, key: str, marker: Marker, emit: Emit[str, int]) -> None:
        emit("all", new_state)


def _ts(tick: Tick) -> int:
    return tick.ts


def flow() -> Dataflow:
    """A query of one stage, and one of two."""
    dataflow = Dataflow("prepare")
    by_name = dataflow.source("ticks", U[Unit, Tick], markers=every(seconds=10, time=_ts)).through(ByName())
    totals = by_name.through(Totals())
    dataflow.sink("named", by_name)
    dataflow.sink("totals", totals)
    dataflow.sink("all", totals.through(Totals()))
    return dataflow


def prepare() -> None:
    """Run the flow in a Java process that archives its classes. Raises :class:`TraceTypesError`."""
    with tempfile.TemporaryDirectory(prefix="tracetypes-") as scratch, archive.record():
        rows = Path(scratch, "ticks.jsonl")
        rows.write_text("".join(json.dumps({"name": "ab"[n % 2], "number": n, "ts": n}) + "\n" for n in range(40)))
        sinks = {name: str(Path(scratch, name)) for name in ("named", "totals", "all")}
        RunRequest(flow(), {"ticks": str(rows)}, sinks, parallelism=2, engine=SparkEngine()).run()
        java.end(session(parallelism=2), PATIENCE)
