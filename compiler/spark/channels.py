"""Channels as Spark reads them: their entries as lines, each once, and what a query has committed of them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import takewhile
from typing import Any, Final

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from tracetypes.compiler.connectors.kafka import Address
from tracetypes.compiler.plan.plan import ChannelLink, Plan, Stage
from tracetypes.compiler.runtime.channel import ChannelKernel
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.compiler.spark.data_source import SplitStreamReader
from tracetypes.compiler.spark.files import literal
from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.spark.wire import MESSAGES, ShippedPlan, Task, as_rows, iterator_of, no_collector
from tracetypes.compiler.store.channel import Channel, Contents, Entry, entry_messages
from tracetypes.compiler.store.file_channel import FileChannel, manifest_number
from tracetypes.compiler.store.gate_channel import GateChannel
from tracetypes.compiler.store.places import spark_address
from tracetypes.compiler.store.topic_channel import ChannelSplits, TopicChannel

__all__ = ["ChannelReader", "ChannelScan", "channel_messages", "reader_of"]


class ChannelReader(ABC):
    """Reads a channel."""

    channel: Channel
    until: int | None = None
    """The place of the first entry that is left out, if the channel ends for the query."""

    @abstractmethod
    def lines(self, spark: SparkSession, tasks: int) -> DataFrame:
        """Entries as lines of JSON, each once, those of a micro-batch of the sender together."""

    @abstractmethod
    def places(self, log: SparkLog) -> list[int]:
        """For each time that a query reads the channel, the place before which it needs nothing any more. ``log``: the
        query's."""

    def trim(self, log: SparkLog) -> None:  # noqa: B027
        """Shorten Spark's records of this channel for a query, between two of its micro-batches."""


class FileReader(ChannelReader):
    """Reads manifests by Spark's source of files."""

    def __init__(self, channel: FileChannel) -> None:
        self.channel: FileChannel = channel

    def lines(self, spark: SparkSession, tasks: int) -> DataFrame:
        """The lines of manifests. Spark records the names of files for a day before the newest one, and ignores older
        files."""
        manifests = literal(spark_address(self.channel.manifests))
        lines = spark.readStream.format("text").option("maxFileAge", "1d").load(manifests)
        return lines.repartition(tasks) if tasks > 1 else lines  # a manifest is one small file, and names many large ones

    def places(self, log: SparkLog) -> list[int]:
        """As in :class:`ChannelReader`. Manifests are read in the order of their numbers."""
        directory = self.channel.manifests.absolute()
        places: list[int] = []
        for files in log.taken_files():
            mine = takewhile(lambda path: path.parent == directory, files)
            places.append(max((manifest_number(path.name) + 1 for path in mine), default=0))
        return [place for place in places if place]

    def trim(self, log: SparkLog) -> None:
        """Shorten the log of manifests."""
        log.shorten(self.channel.manifests)


class TopicReader(ChannelReader):
    """Reads ranges of offsets by a Python data source. Spark records an offset for each reader."""

    def __init__(self, channel: TopicChannel) -> None:
        self.channel: TopicChannel = channel

    def lines(self, spark: SparkSession, tasks: int) -> DataFrame:
        """The ranges of all partitions of a micro-batch."""
        spark.dataSource.register(ChannelTopic)
        address = json.dumps(attrs.asdict(self.channel.address))
        about = {"channel": self.channel.name, "address": address, "id": self.channel.id, "tasks": str(tasks)}
        return spark.readStream.format(ChannelTopic.name()).options(**about).load()

    def places(self, log: SparkLog) -> list[int]:
        """As in :class:`ChannelReader`, by the offsets, which name the channel."""
        return [one["next"] for one in log.taken if one is not None and one.get("channel") == self.channel.name]


def reader_of(channel: Channel) -> ChannelReader:
    """The reader for the kind of a channel."""
    return READERS[type(channel)](channel)


READERS: Final[Mapping[type[Channel], Callable[[Any], ChannelReader]]] = {
    FileChannel: FileReader,
    GateChannel: FileReader,
    TopicChannel: TopicReader,
}


class ChannelTopic(DataSource):
    """Ranges of the offsets of a channel, for Spark."""

    @classmethod
    def name(cls) -> str:
        """The name in Spark."""
        return "tracetypes-channel"

    def schema(self) -> str:
        """The schema of its rows."""
        return "line string"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Called by Spark."""
        address = Address(**json.loads(self.options["address"]))
        return SplitStreamReader(ChannelSplits(self.options["channel"], address, int(self.options["tasks"]), self.options["id"]))


class ChannelScan(Task):
    """``mapInArrow`` of a channel: lines in, messages to the key groups out."""

    def __init__(
        self, plan: Plan, stage: Stage, link: ChannelLink, ids: list[int], contents: Contents, until: int | None
    ) -> None:
        self.plan, self.stage, self.link, self.ids = plan, stage, link, ids
        self.contents, self.until = contents, until

    @cached_property
    def verifier(self) -> Verifier | None:
        """The verifier, made once in each worker."""
        return Verifier.of(self.plan)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return iterator_of(lambda: self.run(batches))

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All lines of a task."""
        with no_collector():
            yield from as_rows(self.messages(batches), self.ids)

    def messages(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Message]:
        """The messages of the lines of a task."""
        for batch in batches:
            for line in batch.column(0).to_pylist():
                if self.until is not None and _place(self.contents.entry(line)) >= self.until:
                    continue
                kernel = ChannelKernel(self.stage, self.link, self.plan.key_groups, self.verifier)
                yield from entry_messages(self.contents, line, kernel)


def _place(entry: Entry) -> int:
    """The epoch of the sender that an entry of a manifest is of."""
    return manifest_number(entry["file"]) if "file" in entry else int(entry["batch"])


def channel_messages(
    spark: SparkSession, parcel: ShippedPlan, stage: Stage, link: ChannelLink, ids: list[int], reader: ChannelReader
) -> DataFrame:
    """The messages of a channel."""
    scan = ChannelScan(parcel.plan, stage, link, ids, reader.channel.contents, reader.until).packed(parcel)
    return reader.lines(spark, parcel.plan.width).mapInArrow(scan, MESSAGES)
