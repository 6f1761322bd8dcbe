"""What a run tells while it goes on: of each micro-batch, of each operator; as JSON lines, and for Prometheus."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tracetypes.compiler.plan import Plan, Stage
from tracetypes.errors import UsageError
from tracetypes.graph import title

__all__ = ["Batch", "StageMetrics", "json_lines", "prometheus", "stage_metrics"]


@attrs.frozen
class StageMetrics:
    """What the key groups of a stage took in a micro-batch (``items``, or aggregates of them where they are combined before the
    exchange), and what they hold after it: keys by operator, and ``bytes`` of state."""

    stage: int
    items: int
    keys: tuple[tuple[str, int], ...]
    bytes: int


@attrs.frozen
class Batch:
    """What one micro-batch did. ``marker``: the last marker that was closed at the sink (microseconds), if any; ``query``: the
    segment of a program that has several, else empty; ``newest``: event times, by source (microseconds)."""

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

    @property
    def lag(self) -> float | None:
        """Seconds of event time between the newest item and the last closed marker."""
        if self.marker is None or not self.newest:
            return None
        return max(0.0, (max(self.newest.values()) - self.marker) / 1e6)


def stage_metrics(plan: Plan, heads: Iterable[Mapping[str, Any]]) -> tuple[StageMetrics, ...]:
    """The metrics of a micro-batch from the headers of its ``METRICS`` messages."""
    found: dict[int, list[Mapping[str, Any]]] = {}
    for head in heads:
        found.setdefault(head["stage"], []).append(head)
    return tuple(_of_stage(stage, found[stage.number]) for stage in plan.stages if stage.number in found)


def _of_stage(stage: Stage, heads: Sequence[Mapping[str, Any]]) -> StageMetrics:
    keys = [sum(head["keys"][at] for head in heads) for at in range(len(stage.steps))]
    names = [title(step.node) for step in stage.steps]
    return StageMetrics(
        stage.number,
        sum(head["items"] for head in heads),
        tuple(zip(names, keys, strict=True)),
        sum(head["bytes"] for head in heads),
    )


def json_lines(path: str) -> Callable[[Batch], None]:
    """A function that appends a line for each micro-batch to a file. Raises :class:`UsageError` ``TT402``."""
    try:
        Path(path).open("a").close()
    except OSError as error:
        raise UsageError(
            "TT402", f"--metrics {path}: {error.strerror}", fix="give a file that can be written"
        ) from error

    def told(batch: Batch) -> None:
        line = attrs.asdict(batch) | {"lag": batch.lag}
        line["stages"] = [attrs.asdict(one) | {"keys": dict(one.keys)} for one in batch.stages]
        with Path(path).open("a") as file:
            file.write(json.dumps(line) + "\n")

    return told


def prometheus(flow: str, port: int, address: str = "127.0.0.1") -> Callable[[Batch], None]:
    """A function that shows each micro-batch at ``http://ADDRESS:PORT/metrics``.

    Raises :class:`UsageError` ``TT401`` without the library, ``TT402`` when the port is taken.
    """
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
    items = counter("stage_items", "Items or aggregates that a stage took.", of_stage)
    size = gauge("state_bytes", "State of a stage.", of_stage)
    keys = gauge("keys", "Keys of which an operator has a state.", of_operator)
    try:
        start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        raise UsageError("TT402", f"--prometheus {port}: {error.strerror}", fix="give a port that is free") from error

    def told(batch: Batch) -> None:
        query = (flow, batch.query)
        batches.labels(*query).inc()
        rows.labels(*query).inc(batch.rows)
        markers.labels(*query).inc(batch.markers)
        seconds.labels(*query).inc(batch.seconds)
        if batch.lag is not None:
            lag.labels(*query).set(batch.lag)
        for counted, counts in ((late, batch.late), (rejects, batch.rejects)):
            for source, count in counts.items():
                counted.labels(*query, source).inc(count)
        for stage in batch.stages:
            items.labels(*query, str(stage.stage)).inc(stage.items)
            size.labels(*query, str(stage.stage)).set(stage.bytes)
            for operator, count in stage.keys:
                keys.labels(*query, str(stage.stage), operator).set(count)

    return told
