"""The dataflow of :mod:`benchmarks.latency` on Pathway: its Kafka connectors, ``windowby``, a window that is told once.

    PATHWAY_THREADS=WORKERS python -m benchmarks.other_engines.latency_on_pathway SERVERS FROM TO DELAY_MS WORKERS

No persistence: nothing survives. Records are taken every ten milliseconds (by default it is 1.5 seconds).
"""

from __future__ import annotations

import os
import sys

import pathway as pw


class Event(pw.Schema):  # type: ignore[misc]
    key: int
    value: int
    ts: int


def main() -> None:
    """Run it, until it is ended."""
    servers, topic, to, delay, workers = sys.argv[1:]
    assert os.environ["PATHWAY_THREADS"] == workers
    settings = {"bootstrap.servers": servers, "group.id": "latency", "auto.offset.reset": "earliest"}
    events = pw.io.kafka.read(settings, topic, schema=Event, format="json", autocommit_duration_ms=10)
    windows = events.windowby(
        pw.this.ts,
        window=pw.temporal.tumbling(duration=1_000, origin=0),
        instance=pw.this.key,
        behavior=pw.temporal.exactly_once_behavior(shift=int(delay)),
    )
    totals = windows.reduce(
        key=pw.this._pw_instance,
        end=pw.this._pw_window_end,
        count=pw.reducers.count(),
        total=pw.reducers.sum(pw.this.value),
    )
    pw.io.kafka.write(totals, {"bootstrap.servers": servers}, to, format="json")
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    main()
