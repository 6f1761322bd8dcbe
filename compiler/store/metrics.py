"""Metrics of a run, for each micro-batch and operator; as JSON lines, and for Prometheus."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tracetypes.compiler.plan.plan import Plan, Stage
from tracetypes.compiler.runtime.messages import Jump, Message, Metrics, TextNotes
from tracetypes.compiler.runtime.side_rows import Lateness
from tracetypes.errors import RunError, UsageError
from tracetypes.nodes import title
from tracetypes.results import GateReport

__all__ = [
    "Batch",
    "OperatorMetrics",
    "StageMetrics",
    "instant",
    "json_lines",
    "operators_of",
    "prometheus",
    "stage_metrics",
]


@attrs.frozen
class OperatorMetrics:
    """What an operator of a stage did in a micro-batch. ``items``: items that it took (for the first operator of a
    stage, aggregates of them if they are combined before the exchange). ``emitted``: items that it emitted.
    ``keys``: of which it has a state afterwards."""

    operator: str
    items: int
    emitted: int
    keys: int


@attrs.frozen
class StageMetrics:
    """What the key groups of a stage did in a micro-batch. ``items``: items that came, or aggregates of them.
    ``emitted``: items sent on. ``markers``: closed markers. ``marker``: the last one so far (microseconds).
    ``bytes``: of state afterwards."""

    stage: int
    items: int
    emitted: int
    markers: int
    marker: int | None
    bytes: int
    operators: tuple[OperatorMetrics, ...]


@attrs.frozen
class Batch:
    """What one micro-batch did. ``marker``: the last marker closed at the sink (microseconds), if any. ``query``: the
    segment of a program with several, else empty. ``newest``: event times so far, by source (microseconds), also of
    the sources of the queries that it reads from. ``read``: rows by source. ``written``: rows that went to the sink.
    ``verified``: how many rows were compared with plain Python, and the processor seconds for it. ``lateness``: what
    is known so far of late rows, by source. ``gate``: what the gate behind the query did so far, if there is one.
    ``jumps``: rows that are very far ahead of those before them, by source. ``notes``: what was noticed in files of CSV."""

    number: int
    rows: int
    markers: int
    marker: int | None
    late: Mapping[str, int]
    rejects: Mapping[str, int]
    seconds: float
    query: str = ""
    newest: Mapping[str, int] = attrs.Factory(dict)
    stages: tuple[StageMetrics, ...] = ()
    read: Mapping[str, int] = attrs.Factory(dict)
    written: int = 0
    verified: tuple[int, float] = (0, 0.0)
    lateness: Mapping[str, Lateness] = attrs.Factory(dict)
    gate: GateReport | None = None
    jumps: tuple[tuple[str, Jump], ...] = ()
    notes: tuple[TextNotes, ...] = ()

    def lag_of(self, marker: int | None) -> float | None:
        """Seconds of event time between the newest item and a marker."""
        if marker is None or not self.newest:
            return None
        return max(0.0, (max(self.newest.values()) - marker) / 1e6)

    @property
    def lag(self) -> float | None:
        """Seconds of event time between the newest item and the last closed marker."""
        return self.lag_of(self.marker)

    @property
    def plain(self) -> dict[str, Any]:
        """For JSON."""
        stages = [attrs.asdict(one) | {"lag": self.lag_of(one.marker)} for one in self.stages]
        mine = attrs.asdict(self, filter=lambda field, _: field.name not in ("lateness", "jumps", "notes"))
        return mine | {"lag": self.lag, "stages": stages}


def stage_metrics(plan: Plan, messages: Iterable[Message]) -> tuple[StageMetrics, ...]:
    """The metrics of a micro-batch from its messages."""
    metrics: dict[int, list[Metrics]] = {}
    for message in messages:
        if isinstance(message.body, Metrics):
            metrics.setdefault(message.body.stage, []).append(message.body)
    return tuple(_of_stage(stage, metrics[stage.number]) for stage in plan.stages if stage.number in metrics)


def _of_stage(stage: Stage, groups: Sequence[Metrics]) -> StageMetrics:
    flowed = [sum(one.flowed[at] for one in groups) for at in range(len(stage.steps) + 1)]
    keys = [sum(one.keys[at] for one in groups) for at in range(len(stage.steps))]
    closed = [one.marker for one in groups if one.marker is not None]
    return StageMetrics(
        stage.number,
        flowed[0],
        sum(one.emitted for one in groups),
        max(one.markers for one in groups),
        max(closed, default=None),
        sum(one.bytes for one in groups),
        tuple(
            OperatorMetrics(name, flowed[at], flowed[at + 1], keys[at]) for at, name in enumerate(operators_of(stage))
        ),
    )


def operators_of(stage: Stage) -> list[str]:
    """The names of the steps of a stage. Equal names get numbers from the second one on."""
    names: list[str] = []
    for step in stage.steps:
        name, count = title(step.node), 1
        while name in names:
            count += 1
            name = f"{title(step.node)} {count}"
        names.append(name)
    return names


def instant(micros: int) -> str:
    """An event time as text."""
    try:
        return (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)).isoformat(" ") + "Z"
    except OverflowError:
        return f"{micros} us"


def json_lines(path: str) -> Callable[[Batch], None]:
    """A function that appends a line for each micro-batch to a file, with the time at which it was out (seconds since
    the epoch). Raises :class:`UsageError` ``TT402``; the function raises :class:`RunError` ``TT209``."""
    try:
        Path(path).open("a").close()
    except OSError as error:
        raise UsageError(
            "TT402", f"--metrics {path}: {error.strerror}", fix="give a file that can be written"
        ) from error

    def on_batch(batch: Batch) -> None:
        try:
            with Path(path).open("a") as file:
                file.write(json.dumps({"at": round(time.time(), 3), **batch.plain}) + "\n")
        except OSError as error:
            raise RunError(
                "TT209", f"--metrics {path} cannot be written: {error.strerror}", fix="make room; run again to go on"
            ) from error

    return on_batch


def prometheus(flow: str, port: int, address: str = "127.0.0.1") -> Callable[[Batch], None]:
    """A function that shows each micro-batch at ``http://ADDRESS:PORT/metrics``.

    Raises :class:`UsageError` ``TT401`` without the library, ``TT402`` if the port is taken or impossible.
    """
    if not 0 < port < 65536:
        raise UsageError("TT402", f"--prometheus {port} is no port", fix="give a port from 1 to 65535")
    try:
        from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
    except ModuleNotFoundError as error:
        raise UsageError("TT401", f"{error.name} is not installed", fix="pip install 'tracetypes[metrics]'") from error
    registry = CollectorRegistry()
    of_query, of_source = ("flow", "query"), ("flow", "query", "source")
    of_stage, of_operator = (*of_query, "stage"), (*of_query, "stage", "operator")

    def counter(name: str, about: str, labels: tuple[str, ...]) -> Any:
        return Counter(f"tracetypes_{name}", about, labels, registry=registry)

    def gauge(name: str, about: str, labels: tuple[str, ...]) -> Any:
        return Gauge(f"tracetypes_{name}", about, labels, registry=registry)

    batches = counter("batches", "Micro-batches.", of_query)
    rows = counter("rows", "Rows that came in.", of_query)
    markers = counter("markers", "Markers that were closed at the sink.", of_query)
    late = counter("late", "Late items.", of_source)
    rejects = counter("rejects", "Rejected rows.", of_source)
    seconds = counter("batch_seconds", "Time spent in micro-batches.", of_query)
    lag = gauge("lag_seconds", "Event time between the newest item and the last closed marker.", of_query)
    sink_rows = counter("written", "Rows that went to the sink.", of_query)
    read = counter("read", "Rows of a source.", of_source)
    newest = gauge("newest_seconds", "Newest event time of a source.", of_source)
    stage_items = counter("stage_items", "Items or aggregates that a stage took.", of_stage)
    stage_emitted = counter("stage_emitted", "Items that a stage sent on.", of_stage)
    stage_markers = counter("stage_markers", "Markers that a stage closed.", of_stage)
    stage_lag = gauge("stage_lag_seconds", "Event time between the newest item and a stage's last marker.", of_stage)
    came = gauge("gate_markers", "Markers that came to the gate behind a query.", of_query)
    through = gauge("gate_executions", "Markers that the gate let through.", of_query)
    size = gauge("state_bytes", "State of a stage.", of_stage)
    items = counter("items", "Items that an operator took, or aggregates of them.", of_operator)
    emitted = counter("emitted", "Items that an operator gave.", of_operator)
    keys = gauge("keys", "Keys of which an operator has a state.", of_operator)
    try:
        start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        raise UsageError("TT402", f"--prometheus {port}: {error.strerror}", fix="give a port that is free") from error

    def on_batch(batch: Batch) -> None:
        query = (flow, batch.query)
        batches.labels(*query).inc()
        rows.labels(*query).inc(batch.rows)
        markers.labels(*query).inc(batch.markers)
        seconds.labels(*query).inc(batch.seconds)
        if batch.lag is not None:
            lag.labels(*query).set(batch.lag)
        sink_rows.labels(*query).inc(batch.written)
        for counted, counts in ((late, batch.late), (rejects, batch.rejects), (read, batch.read)):
            for source, count in counts.items():
                counted.labels(*query, source).inc(count)
        for source, micros in batch.newest.items():
            newest.labels(*query, source).set(micros / 1e6)
        if batch.gate is not None:
            came.labels(*query).set(batch.gate.markers)
            through.labels(*query).set(batch.gate.executions)
        for stage in batch.stages:
            here = (*query, str(stage.stage))
            stage_items.labels(*here).inc(stage.items)
            stage_emitted.labels(*here).inc(stage.emitted)
            stage_markers.labels(*here).inc(stage.markers)
            size.labels(*here).set(stage.bytes)
            behind = batch.lag_of(stage.marker)
            if behind is not None:
                stage_lag.labels(*here).set(behind)
            for one in stage.operators:
                items.labels(*here, one.operator).inc(one.items)
                emitted.labels(*here, one.operator).inc(one.emitted)
                keys.labels(*here, one.operator).set(one.keys)

    return on_batch
