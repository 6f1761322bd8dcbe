"""Kafka topics as sources and as the sink.

As sources: Spark plans which offsets a micro-batch reads, and the workers read the records.

Spark only keeps the offsets (a Python data source whose rows are ranges of offsets, one for each partition), as it only
lists Parquet files. A worker reads its range with librdkafka. A partition is a part of the source with a frontier of
its own, and its records are in the order of their offsets, so that late rows and blocks do not depend on how
micro-batches are cut. A run that does not follow its inputs reads up to the offsets of the moment when it starts.

As the sink: the driver sends the rows of a micro-batch in one transaction, which also commits the number of the
micro-batch as an offset of a group of the run. A micro-batch whose transaction went through is not sent again, even if
our own record is lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from tracetypes.compiler.connectors.identity import Identity
from tracetypes.compiler.connectors.kafka_splits import TopicSplits
from tracetypes.compiler.connectors.source_rows import in_columns
from tracetypes.compiler.connectors.text import AT_ONCE, Dialect, Fit, columns_of_json, decoded, fit_of_json
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.messages import Piece
from tracetypes.compiler.runtime.source import Taken
from tracetypes.compiler.spark.input import Input
from tracetypes.compiler.spark.scan import End, Scan
from tracetypes.compiler.spark.split_reader import SplitReader
from tracetypes.compiler.store.inputs import InputFiles
from tracetypes.errors import UsageError
from tracetypes.formats import Kafka
from tracetypes.markers import InBand
from tracetypes.parsing import Row, of_bytes
from tracetypes.records import Record
from tracetypes.sources import record_reader

if TYPE_CHECKING:
    from confluent_kafka import Message
from tracetypes.compiler.connectors.kafka import Address
from tracetypes.compiler.connectors.kafka_records import records, shown
from tracetypes.compiler.connectors.kafka_topic import Watch

__all__ = ["TopicInput", "TopicScan"]

RANGE = "partition int, start bigint, until bigint, parts int, idle boolean"


# ------------------------------------------------------------------------------------------------ addresses


# -------------------------------------------------------------------------------------------------- driver


class TopicInput(Input):
    """A topic as the input of a source. ``bounded``: up to the current offsets."""

    def __init__(self, spark: SparkSession, leaf: FromSource, text: str, *, bounded: bool) -> None:
        self.spark, self.address = spark, Address.of(text)
        record_reader(leaf.source, leaf.layout)  # raises for formats that records do not have
        if self.address.idle is not None and isinstance(leaf.source.markers, InBand):
            raise UsageError(
                "TT402",
                f"{text}: source {leaf.source.name!r} has markers in band, which no clock can stand for",
                fix="leave idle= out, and send each marker to every partition",
            )
        watch = Watch(self.address)
        topic = watch.topic()
        self.id, self.until = topic.id, watch.offsets(topic.partitions) if bounded else None

    @property
    def identity(self) -> Identity:
        """The identity of the topic."""
        return Identity("topic", self.address.topic, self.id)

    @property
    def at_once(self) -> bool:
        """Whether one micro-batch takes all records."""
        return self.address.records is None

    def frame(self) -> DataFrame:
        """A row for each range of offsets."""
        self.spark.dataSource.register(Topic)
        reader = self.spark.readStream.format(Topic.name()).option("address", self.address.text).option("id", self.id)
        return reader.option("until", json.dumps(self.until)).load()


    def scanned(self, end: End, files: InputFiles | None) -> tuple[DataFrame, Scan]:
        """Ranges of offsets."""
        return self.frame(), TopicScan(end, self.address)


class Topic(DataSource):
    """Ranges of the offsets of a topic, for Spark."""

    @classmethod
    def name(cls) -> str:
        """The name in Spark."""
        return "tracetypes-topic"

    def schema(self) -> str:
        """The schema of its rows."""
        return RANGE

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Called by Spark."""
        until = json.loads(self.options["until"])
        ends = None if until is None else {int(partition): end for partition, end in until.items()}
        return SplitReader(TopicSplits(Address.of(self.options["address"]), ends, self.options["id"]))


# ------------------------------------------------------------------------------------------------- workers


class TopicScan(Scan):
    """Reads records. Input columns: ``partition``, ``start``, ``until``, the number of partitions ``parts``, and
    whether this one is ``idle``."""

    def __init__(self, end: End, address: Address) -> None:
        super().__init__(end)
        self.address, self.parts, self.idle = address, 1, False

    def part_of(self, piece: Piece) -> tuple[int, int, bool]:
        """The partition, which is a part of the source."""
        return piece[0], self.parts, self.idle

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[Taken | Chunk]]]:
        """Reads the records of each range."""
        row_of = record_reader(self.leaf.source, self.leaf.layout)
        format = self.leaf.source.format if isinstance(self.leaf.source.format, Kafka) else Kafka()

        def one(message: Message) -> Taken:
            row = row_of(message.key(), message.value(), message.headers() or ())
            return Taken(row, partial(shown, message))

        together = self.together(read, format, one)

        def take(partition: int, start: int, until: int) -> Iterator[Taken | Chunk]:
            held: list[Message] = []
            for message in records(self.address, partition, start, until):
                if any(name == format.marker for name, _ in message.headers() or ()):
                    yield from together(held)
                    yield one(message)
                    held = []
                else:
                    held.append(message)
                    if len(held) == AT_ONCE:
                        yield from together(held)
                        held = []
            yield from together(held)

        for batch in batches:
            for row in batch.to_pylist():
                self.parts, self.idle = row["parts"], row["idle"]
                taken = iter(()) if self.idle else take(row["partition"], row["start"], row["until"])
                yield (row["partition"], row["start"], 0), taken

    def together(
        self, read: Callable[[Any, Any], Row], format: Kafka, one: Callable[[Message], Taken]
    ) -> Callable[[Sequence[Message]], Iterator[Taken | Chunk]]:
        """Takes records that are not markers."""
        layout = self.leaf.layout.zoned(format.zone)
        if not isinstance(layout.value, Record) or not layout.opened or format.headers:
            return lambda messages: map(one, messages)
        names = [name for name, _ in layout.value.fields]
        fits = [fit_of_json(schema) for _, schema in layout.value.fields]
        if layout.keyed:
            fits = [Fit(lambda cells: None, lambda raw: of_bytes(layout.key, raw, ".key")), *fits]

        def cells(messages: Sequence[Message]) -> tuple[list[int], list[list[Any]]]:
            kept, columns = columns_of_json([decoded(message.value()) for message in messages], names)
            if layout.keyed:
                columns = [[messages[at].key() for at in kept], *columns]
            return kept, columns

        return in_columns(self.leaf, Dialect(cells, fits, one), self.verifier)


# ---------------------------------------------------------------------------------------------------- sink
