"""The dataflow of :mod:`benchmarks.latency` on Bytewax: its Kafka source and sink, ``fold_window``.

    python -m benchmarks.other_engines.latency_on_bytewax SERVERS FROM TO DELAY_MS WORKERS

A worker is a process; the first one starts the others. No recovery store: nothing survives.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.testing import cluster_main

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def flow_of(servers: str, topic: str, to: str, delay: int) -> Dataflow:
    """Counts and sums of each key and second."""
    clock = win.EventClock(
        lambda event: EPOCH + timedelta(milliseconds=event["ts"]),
        wait_for_system_duration=timedelta(milliseconds=delay),
    )
    windower = win.TumblingWindower(length=timedelta(seconds=1), align_to=EPOCH)

    def of(message: Any) -> tuple[str, Mapping[str, int]]:
        event = json.loads(message.value)
        return str(event["key"]), event

    def total(one: tuple[int, int], event: Mapping[str, int]) -> tuple[int, int]:
        return one[0] + 1, one[1] + event["value"]

    def added(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        return one[0] + other[0], one[1] + other[1]

    def result(keyed: tuple[str, tuple[int, tuple[int, int]]]) -> Any:
        key, (window, (count, summed)) = keyed
        value = {"end": (window + 1) * 1_000, "count": count, "total": summed}
        return KafkaSinkMessage(key.encode(), json.dumps(value).encode())

    flow = Dataflow("latency")
    messages = op.input("messages", flow, KafkaSource([servers], [topic], batch_size=1_000))
    events = op.map("events", messages, of)
    windows = win.fold_window("windows", events, clock, windower, lambda: (0, 0), total, added, ordered=False)
    op.output("results", op.map("records", windows.down, result), KafkaSink([servers], to))
    return flow


def main() -> None:
    """Run it, as one of the workers; until it is ended."""
    servers, topic, to, delay, workers, *more = sys.argv[1:]
    flow = flow_of(servers, topic, to, int(delay))
    if int(workers) == 1:
        cluster_main(flow, [], 0)
    elif more:
        number, *addresses = more
        cluster_main(flow, addresses, int(number))
    else:
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(workers))]
        addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
        for one in sockets:
            one.close()
        others = [
            subprocess.Popen([sys.executable, "-m", __spec__.name, *sys.argv[1:], str(number), *addresses])
            for number in range(1, int(workers))
        ]
        try:
            cluster_main(flow, addresses, 0)
        finally:
            for other in others:
                other.kill()


if __name__ == "__main__":
    main()
