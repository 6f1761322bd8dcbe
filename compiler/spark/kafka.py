"""Kafka topics as sources. Spark plans which offsets a micro-batch reads, and the workers read the records.

Spark only keeps the offsets (a Python data source whose rows are ranges of offsets, one for each partition), as it only
lists Parquet files. A worker reads its range with librdkafka. A partition is a part of the source with a frontier of
its own, and its records are in the order of their offsets, so that late rows and blocks do not depend on how
micro-batches are cut. A run that does not follow its inputs reads up to the offsets of the moment when it starts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.kafka import Address
from tracetypes.compiler.connectors.kafka_records import RecordReader
from tracetypes.compiler.connectors.kafka_splits import TopicSource, TopicSplits
from tracetypes.compiler.connectors.registered_records import TopicSchemas
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.messages import Piece
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.spark.data_source import SplitStreamReader
from tracetypes.compiler.spark.input_interface import Input
from tracetypes.compiler.spark.scan import End, Scan
from tracetypes.compiler.store.input_files import InputFiles
from tracetypes.parsing import Row

__all__ = ["TopicInput", "TopicScan"]

RANGE = "partition int, start bigint, until bigint, parts int, idle boolean"


class TopicInput(Input):
    """A topic as the input of a source. ``bounded``: up to the current offsets."""

    def __init__(self, spark: SparkSession, leaf: FromSource, text: str, *, bounded: bool) -> None:
        self.spark, self.source = spark, TopicSource.of(leaf, text, bounded=bounded)
        self.address = self.source.address

    @property
    def identity(self) -> EndpointIdentity:
        """The identity of the topic."""
        return self.source.identity

    @property
    def at_once(self) -> bool:
        """Whether one micro-batch takes all records."""
        return self.address.records is None

    def frame(self) -> DataFrame:
        """A row for each range of offsets."""
        self.spark.dataSource.register(Topic)
        reader = self.spark.readStream.format(Topic.name()).option("address", self.address.text).option("id", self.source.id)
        return reader.option("until", json.dumps(self.source.until)).load()


    def scanned(self, end: End, files: InputFiles | None) -> tuple[DataFrame, Scan]:
        """Ranges of offsets."""
        return self.frame(), TopicScan(end, self.address, self.source.schemas)


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
        return SplitStreamReader(TopicSplits(Address.of(self.options["address"]), ends, self.options["id"]))


class TopicScan(Scan):
    """Reads records. Input columns: ``partition``, ``start``, ``until``, the number of partitions ``parts``, and
    whether this one is ``idle``."""

    def __init__(self, end: End, address: Address, schemas: TopicSchemas | None) -> None:
        super().__init__(end)
        self.address, self.schemas, self.parts, self.idle = address, schemas, 1, False

    def part_of(self, piece: Piece) -> tuple[int, int, bool]:
        """The partition, which is a part of the source."""
        return piece[0], self.parts, self.idle

    def in_order(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Ranges, by partition and offset."""
        for batch in batches:
            yield batch.sort_by([("partition", "ascending"), ("start", "ascending")])

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[TakenRow | Chunk]]]:
        """Reads the records of each range."""
        reader = RecordReader(self.leaf, self.address, self.verifier, schemas=self.schemas)
        for batch in batches:
            for row in batch.to_pylist():
                self.parts, self.idle = row["parts"], row["idle"]
                rows = iter(()) if self.idle else reader.read(row["partition"], row["start"], row["until"])
                yield (row["partition"], row["start"], 0), rows
