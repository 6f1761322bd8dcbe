"""Bytewax, as its documentation shows windows: a source with partitions, filter, map, ``count_window``.

A worker is a process, with one partition that reads its share of the files in order (every ``workers``-th file). Only the three
columns that are needed are read; records are dictionaries.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
import pyarrow.parquet as pq
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main

from benchmarks.other_engines.orders import Orders

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BATCH = 1_000


class Share(StatefulSourcePartition):  # type: ignore[misc]
    """Some of the files, one after the other."""

    def __init__(self, files: list[str]) -> None:
        self.rows = self._rows(files)

    def _rows(self, files: list[str]) -> Iterator[list[dict[str, Any]]]:
        for name in files:
            for batch in pq.ParquetFile(name).iter_batches(BATCH, columns=["ad_id", "event_type", "event_time"]):
                yield batch.to_pylist()

    def next_batch(self) -> list[dict[str, Any]]:
        return next(self.rows)

    def snapshot(self) -> None:
        return None


class Files(FixedPartitionedSource):  # type: ignore[misc]
    """All files, a share for each worker."""

    def __init__(self, files: list[str], workers: int) -> None:
        self.shares = {str(n): files[n::workers] for n in range(workers)}

    def list_parts(self) -> list[str]:
        return list(self.shares)

    def build_part(self, step_id: str, for_part: str, resume_state: None) -> Share:
        return Share(self.shares[for_part])


class Keep(StatelessSinkPartition):  # type: ignore[misc]
    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def write_batch(self, items: list[Any]) -> None:
        if items and self.memory.first is None:
            self.memory.first = time.time()
        self.memory.kept += items


class Memory(DynamicSink):  # type: ignore[misc]
    """A list of this process. ``first``: when it got the first item."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.first: float | None = None

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Keep:
        return Keep(self)


def main() -> None:
    """Run the orders, as one of the workers."""
    orders = Orders()
    ads, length = orders.ads, timedelta(seconds=10)

    def view(event: dict[str, Any]) -> tuple[str, datetime] | None:
        campaign = ads.get(event["ad_id"]) if event["event_type"] == "view" else None
        return None if campaign is None else (campaign, EPOCH + timedelta(milliseconds=event["event_time"]))

    clock = win.EventClock(lambda one: one[1], wait_for_system_duration=timedelta(seconds=orders.wait))
    windower = (
        win.SlidingWindower(length=length, offset=timedelta(seconds=orders.slide), align_to=EPOCH)
        if orders.query == "IV"
        else win.TumblingWindower(length=length, align_to=EPOCH)
    )
    counted, late = Memory(), Memory()
    flow = Dataflow("views")
    events = op.input("events", flow, Files(orders.files, orders.workers))
    views = op.filter_map("views", events, view)
    windows = win.count_window("count", views, clock, windower, key=lambda one: one[0])
    op.output("counted", windows.down, counted)
    op.output("late", windows.late, late)
    began = time.time()
    cluster_main(flow, orders.addresses, orders.number)
    rows = [(campaign, window * orders.slide + 10, views) for campaign, (window, views) in counted.kept]
    orders.answer(rows, began, counted.first, late=len(late.kept))


if __name__ == "__main__":
    main()
