"""Spark as a backend: a segment is a streaming query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession

from tracetypes.compiler.backend.backend import Opening
from tracetypes.compiler.backend.closing_clocks import closes_by_clock
from tracetypes.compiler.backend.open_segment import OpenSegment
from tracetypes.compiler.connectors.registry import connector_of
from tracetypes.compiler.spark.archive import find_archive
from tracetypes.compiler.spark.batches import EndOfSources, MicroBatches
from tracetypes.compiler.spark.channel_ends import ChannelEnds
from tracetypes.compiler.spark.channels import ChannelReader, reader_of
from tracetypes.compiler.spark.clock_files import ClockFiles
from tracetypes.compiler.spark.connector_input import ConnectorInput
from tracetypes.compiler.spark.input_interface import Input
from tracetypes.compiler.spark.inputs import OPENINGS
from tracetypes.compiler.spark.java import java_lock
from tracetypes.compiler.spark.log import SparkLog, stage_states
from tracetypes.compiler.spark.prints import show_prints
from tracetypes.compiler.spark.query import Query, RunningQuery
from tracetypes.compiler.spark.session import configure, session
from tracetypes.compiler.spark.stores import reach
from tracetypes.compiler.store.channel import Channel
from tracetypes.compiler.store.inspection import Blobs
from tracetypes.compiler.store.locks import Locks
from tracetypes.compiler.store.places import Place

__all__ = ["SparkBackend", "SparkEngine"]


@attrs.define(eq=False)
class SparkBackend:
    """Starts queries in a session."""

    spark: SparkSession

    @property
    def tasks(self) -> int:
        """As many as the session runs at once."""
        return self.spark.sparkContext.defaultParallelism

    @staticmethod
    def log(checkpoint: Place) -> SparkLog:
        """Spark's own log."""
        return SparkLog(checkpoint)

    def states(self) -> Blobs:
        """Those that Spark reads."""
        return partial(stage_states, self.spark)

    def prepare(self, width: int, locks: Locks) -> None:
        """Configure the session."""
        configure(self.spark, width)
        locks.share(*java_lock(self.spark))

    def reach(self, checkpoint: Place) -> None:
        """On a disk, or on a store that Hadoop's client reaches."""
        reach(self.spark, checkpoint)

    def open(self, opening: Opening) -> Input:
        """The input of a source."""
        connector = connector_of(opening.address)
        if connector.opens is not None:
            return ConnectorInput(self.spark, opening, connector.kind, connector.opens)
        return OPENINGS[connector.kind](self.spark, opening)

    @staticmethod
    def channel_reader(channel: Channel) -> ChannelReader:
        """A reader of a channel."""
        return reader_of(channel)

    def start(self, opened: OpenSegment) -> RunningQuery:
        """Start the query of a segment. Raises :class:`RunError` ``TT225`` and ``TT227`` for files of clocks."""
        store, log = opened.store, SparkLog(opened.store.path)
        if any(map(closes_by_clock, opened.plan.sources)):
            ClockFiles(store.path / "clock", store.run).begin(log)
        ending = EndOfSources(opened.inputs, store, log, drain=opened.drain and not opened.follow)
        ends = ChannelEnds(store.path / "ends", opened.receives, log) if opened.leaves else None
        if ends is not None:
            ends.begin()
        return RunningQuery(Query(opened, log, MicroBatches(self.spark, opened, log, ending), ends=ends)).begin()


@attrs.frozen
class SparkEngine:
    """Starts a session, or takes the one that is there. ``master``: of a cluster; this machine if None."""

    master: str | None = None
    name = "Spark"
    backend = "spark"
    fuses = True

    @staticmethod
    def unsupported(inputs: Mapping[str, object]) -> Sequence[str]:
        """Every plan can run, but Spark does not open every kind of input."""
        return [
            f"source {name!r} reads {connector.display_name.format(address)}, which Spark cannot read"
            for name, address in inputs.items()
            if not (connector := connector_of(address)).reads(OPENINGS)
        ]

    @staticmethod
    def log(checkpoint: Place) -> SparkLog:
        """Spark's own log."""
        return SparkLog(checkpoint)

    @staticmethod
    def states() -> Blobs:
        """Those that Spark reads, in a session."""
        return partial(stage_states, session(parallelism=1))

    @staticmethod
    def data_frame(table: Any) -> DataFrame:
        """In the session of the run."""
        return session(parallelism=1).createDataFrame(table)

    @staticmethod
    def hint() -> str | None:
        """To prepare Java."""
        return None if find_archive() is not None else "tracetypes prepare lets Java start faster, from now on"

    @contextmanager
    def started(self, width: int, show: Callable[[str], None]) -> Iterator[SparkBackend]:
        """A context in which the session is there. It stays for the next run."""
        spark = session(parallelism=width, master=self.master)
        with show_prints(spark, show):
            yield SparkBackend(spark)
