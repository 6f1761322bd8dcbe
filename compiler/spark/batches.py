"""The work of each micro-batch: its messages are taken, written and committed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tracetypes.compiler.backend.closing_clocks import ClosingClocks
from tracetypes.compiler.backend.epochs import EpochResult, epoch_result
from tracetypes.compiler.backend.open_segment import OpenSegment
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.spark.input_interface import Input
from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.spark.wire import BEFORE
from tracetypes.compiler.store.metrics import Batch
from tracetypes.compiler.store.places import Place
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
        # Topics and tables are taken up to their ends at once, if not on_batch otherwise.
        self.store, self.log, self.drain = store, log, drain and all(one.at_once for one in inputs.values())
        self.left: list[tuple[int | None, set[str]]] = []
        self.read: set[Place] = set()

    def begin(self) -> None:
        """List the files, unless no new ones may be read any more."""
        listed = self.store.files.values()
        for files in listed if not self.store.drained else ():
            files.look()
        self.left = [one.waiting for one in self.inputs.values() if one.waiting is not None]
        self.left += [(files.listings.parts, files.waiting) for files in listed]

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

    def __init__(self, spark: SparkSession, opened: OpenSegment, log: SparkLog, ending: EndOfSources) -> None:
        self.spark, self.opened, self.log, self.ending = spark, opened, log, ending
        self.plan, self.store, self.output = opened.plan, opened.store, opened.store.output
        self.clocks = ClosingClocks(self.plan, self.store, {})
        self.error: TraceTypesError | None = None
        self.failed = False
        """Has a micro-batch of the query that runs failed?"""
        self.last: Batch | None = None
        """The metrics of the last one."""

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
            result = self.computed(messages, number)
            record = result.written(self.output, number)
            self.store.commit(number, record)
            self.last = result.batch(number, time.monotonic() - started, self.opened.shown, self.output)
            self.opened.reports.on_epoch(self.last)
        elif not is_straight(self.plan):
            # The end came between our commit and Spark's. Spark wants to see its state stores commit all the same.
            messages.write.mode("overwrite").format("noop").save()
            self.output.tidy()
        for label, files in self.store.files.items():
            files.committed(record["files"][label])
        self.clocks.came(record)
        tell(self.spark, number + 1, record["newest"])
        self.ending.look()
        for retention in self.opened.receives.values():
            retention.clean()
            retention.reader.trim(self.log)

    def computed(self, messages: DataFrame, number: int) -> EpochResult:
        """Compute a micro-batch, in one job."""
        arrived = [
            decode(0, row["kind"], bytes(row["header"] or b""), bytes(row["payload"] or b""))
            for row in messages.select("kind", "header", "payload").collect()
        ]
        return epoch_result(self.plan, arrived, number, self.store)


def tell(spark: SparkSession, batch: int, newest: Mapping[str, Any], pieces: Mapping[str, Any] | None = None) -> None:
    """Send the workers of the next micro-batch the newest event times before it, of each part of each reading of a
    source."""
    content = {"batch": batch, "newest": newest, "pieces": pieces or {}}
    spark.sparkContext.setLocalProperty(BEFORE, json.dumps(content))
