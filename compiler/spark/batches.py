"""The work of each micro-batch: its messages are taken, written and committed."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import Drain, Message, Piece, Report, StageProgress, TakenSplit, Verified
from tracetypes.compiler.runtime.stage import StageKernel
from tracetypes.compiler.spark.channel_retention import ChannelRetention
from tracetypes.compiler.spark.input_interface import Input
from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.spark.wire import BEFORE
from tracetypes.compiler.store.metrics import Batch, StageMetrics, stage_metrics
from tracetypes.compiler.store.output_interface import Output, rows_sent
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.compiler.store.staging import unwritable
from tracetypes.compiler.wire.messages import decode
from tracetypes.errors import TraceTypesError

__all__ = ["EndOfSources", "MicroBatches", "tell"]


class EndOfSources:
    """Ends the sources with the micro-batch that takes the last files, so that the end needs no micro-batch of its own.

    Spark's checkpoint says what Spark has taken. If that is unknown (a file system that is not local), nothing is ended
    here, and the run ends the sources when nothing is left to do.
    """

    def __init__(self, inputs: Mapping[str, Input], store: RunStore, log: SparkLog, *, drain: bool) -> None:
        self.inputs = inputs
        # Topics and tables are taken up to their ends at once, unless a limit is given.
        self.store, self.log, self.drain = store, log, drain and all(one.at_once for one in inputs.values())
        self.left: list[tuple[int | None, set[str]]] = []
        self.read: set[Path] = set()

    def begin(self) -> None:
        """List the files, unless no new ones may be read any more."""
        listed = self.store.files.values()
        for files in listed if not self.store.drained else ():
            files.look()
        self.left = [one.waiting for one in self.inputs.values() if one.waiting is not None]
        self.left += [(files.tasks, files.waiting) for files in listed]

    def look(self) -> None:
        """End the sources if the next micro-batch takes the last files."""
        if not self.drain or self.store.drained:
            return
        logs = self.log.source_logs
        for path in self.log.noted(logs - self.read):
            for _, files in self.left:
                files.discard(str(path))
        self.read = logs
        if all(at_once is None or len(files) <= at_once for at_once, files in self.left):
            self.store.drain()


class MicroBatches:
    """The function of ``foreachBatch``."""

    def __init__(
        self,
        spark: SparkSession,
        plan: Plan,
        store: RunStore,
        log: SparkLog,
        output: Output,
        ending: EndOfSources,
        on_batch: Callable[[Batch], None],
        name: str = "",
        takes: Sequence[ChannelRetention] = (),
    ) -> None:
        self.spark, self.plan, self.store, self.output, self.on_batch = spark, plan, store, output, on_batch
        self.ending, self.log, self.name, self.takes = ending, log, name, takes
        self.error: TraceTypesError | None = None
        self.failed = False
        """Has a micro-batch of the query that runs failed?"""
        self.verified = 0, 0.0
        self.last: Batch | None = None
        """The report of the last one."""

    def __call__(self, messages: DataFrame, number: int) -> None:
        try:
            self.run(messages, number)
        except BaseException as error:
            self.failed = True
            if isinstance(error, OSError):
                self.error = unwritable(error)
            elif isinstance(error, TraceTypesError):
                self.error = error
            raise

    def run(self, messages: DataFrame, number: int) -> None:
        """Take a micro-batch, unless it was taken before."""
        started = time.monotonic()
        record = self.store.committed(number)
        if record is None:
            record, stages = self.take(messages, number)
            self.store.commit(number, record)
            self.last = Batch(
                number,
                record["rows"],
                record["markers"],
                record["marker"],
                record["late"],
                record["rejects"],
                time.monotonic() - started,
                self.name,
                _latest(record["newest"]),
                stages,
                record["read"],
                record["written"],
                self.verified,
                dict(self.output.lateness),
            )
            self.on_batch(self.last)
        elif not is_straight(self.plan):
            # The end came between our commit and Spark's. Spark wants to see its state stores commit all the same.
            messages.write.mode("overwrite").format("noop").save()
            self.output.tidy()
        for label, files in self.store.files.items():
            files.committed(record["files"][label])
        tell(self.spark, number + 1, record["newest"])
        self.ending.look()
        for joint in self.takes:
            joint.clean()
            joint.reader.trim(self.log)

    def take(self, messages: DataFrame, number: int) -> tuple[dict[str, Any], tuple[StageMetrics, ...]]:
        """Compute a micro-batch, in one job, and write its rows. Returns its commit record, and the metrics of its
        stages."""
        before = self.store.before(number)
        arrived = [
            decode(0, row["kind"], bytes(row["header"] or b""), bytes(row["payload"] or b""))
            for row in messages.select("kind", "header", "payload").collect()
        ]
        splits = [message.body for message in arrived if isinstance(message.body, TakenSplit)]
        arrived = [message for message in arrived if not isinstance(message.body, TakenSplit)]
        if is_straight(self.plan):
            record, progress, frontiers = self.close(arrived, before)
            arrived += progress
        else:
            record, frontiers = self.record(arrived, before), {}
        record["written"] = rows_sent(arrived)
        record["files"] = {
            label: files.taken([one for one in splits if one.reading == label])
            for label, files in self.store.files.items()
        }
        compared = [message.body for message in arrived if isinstance(message.body, Verified)]
        self.verified = sum(one.rows for one in compared), sum(one.seconds for one in compared)
        self.output.take(arrived, number, frontiers)
        return record, stage_metrics(self.plan, arrived)

    def close(
        self, arrived: list[Message], before: dict[str, Any]
    ) -> tuple[dict[str, Any], list[Message], dict[tuple[int, Piece], int]]:
        """Close the blocks from the sources' reports, if the sources send rows of the sink."""
        kernel = StageKernel(self.plan, self.plan.stages[0])
        state = loads(base64.b64decode(before["state"])) if "state" in before else kernel.fresh()
        messages = list(kernel.step(state, 0, [m for m in arrived if isinstance(m.body, Report | Drain)]))
        record = self.record(messages, before)
        names = {at: one.leaf.source.name for at, one in kernel.frontier.readers.items()}
        for message in arrived:
            if isinstance(report := message.body, Report):
                for counts, count in ((record["late"], report.late), (record["rejects"], report.rejects)):
                    if count:
                        counts[names[report.link]] = counts.get(names[report.link], 0) + count
        blob = dumps(state)
        record["state"] = base64.b64encode(blob).decode()
        return record, [*messages, kernel.metrics(state, 0, len(blob))], kernel.epoch.frontiers

    def record(self, messages: Sequence[Message], before: dict[str, Any]) -> dict[str, Any]:
        """The report of a micro-batch, from the stages' progress."""
        record: dict[str, Any] = {
            "rows": 0,
            "read": {},
            "markers": 0,
            "marker": None,
            "late": {},
            "rejects": {},
            "newest": dict(before.get("newest", {})),
            "complete": False,
        }
        for progress in [message.body for message in messages if isinstance(message.body, StageProgress)]:
            record["newest"].update(progress.newest)
            record["rows"] += progress.rows
            for source, count in progress.read.items():
                record["read"][source] = record["read"].get(source, 0) + count
            if progress.stage == self.plan.stages[-1].number:
                record["late"], record["rejects"] = progress.late, progress.rejects
                record["complete"] = progress.complete
                if progress.markers:
                    record["markers"], record["marker"] = len(progress.markers), progress.markers[-1]
        return record


def _latest(newest: Mapping[str, list[int | None]]) -> dict[str, int]:
    """The newest event time of each source that has one, over its parts."""
    latest: dict[str, list[int]] = {}
    for reading, parts in newest.items():
        latest.setdefault(reading.partition(":")[0], []).extend(time for time in parts if time is not None)
    return {name: max(times) for name, times in latest.items() if times}


def tell(spark: SparkSession, batch: int, newest: Mapping[str, Any], pieces: Mapping[str, Any] | None = None) -> None:
    """Send the workers of the next micro-batch the newest event times before it, of each part of each reading of a
    source."""
    record = {"batch": batch, "newest": newest, "pieces": pieces or {}}
    spark.sparkContext.setLocalProperty(BEFORE, json.dumps(record))
