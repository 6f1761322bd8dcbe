"""Sources that a connector opens by the public protocol. Spark keeps the offsets, and the workers read the splits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from tracetypes.compiler.backend.backend import Opening
from tracetypes.compiler.connectors.connector_source import ConnectorSource
from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.messages import Piece
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.spark.data_source import SplitStreamReader
from tracetypes.compiler.spark.input_interface import Input
from tracetypes.compiler.spark.scan import End, Scan
from tracetypes.compiler.store.input_files import InputFiles
from tracetypes.connectors import Connector, Offset, Split
from tracetypes.parsing import Row

__all__ = ["ConnectorInput"]


class ConnectorInput(Input):
    """A source of a connector as the input of a source of the flow."""

    def __init__(self, spark: SparkSession, opening: Opening, kind: str, connector: Connector) -> None:
        self.spark, self.kind, self.name = spark, kind, opening.leaf.source.name
        self.source = ConnectorSource.of(opening.leaf, connector, opening.address, bounded=opening.bounded)

    @property
    def identity(self) -> EndpointIdentity:
        """By what the source says."""
        return self.source.identity(self.kind)

    @property
    def at_once(self) -> bool:
        """The source says where a micro-batch ends."""
        return False

    def scanned(self, end: End, files: InputFiles | None) -> tuple[DataFrame, Scan]:
        """Splits."""
        rows = _data_source(f"tracetypes-{self.kind}-{self.name.encode().hex()}", self.source)
        self.spark.dataSource.register(rows)
        return self.spark.readStream.format(rows.name()).load(), ConnectorScan(end, self.source)


def _data_source(format: str, source: ConnectorSource) -> type[DataSource]:
    """The splits of a source, for Spark, which pickles the class with the source."""

    class Rows(DataSource):
        @classmethod
        def name(cls) -> str:
            return format

        def schema(self) -> str:
            return "number bigint, about string"

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            return SplitStreamReader(_SplitsAsText(source))

    return Rows


class _SplitsAsText:
    """Splits whose places are JSON."""

    def __init__(self, source: ConnectorSource) -> None:
        self.source = source

    def begin(self) -> Offset:
        return self.source.begin()

    def end(self, since: Offset) -> Offset:
        return self.source.end(since)

    def splits(self, since: Offset, until: Offset) -> list[tuple[Any, ...]]:
        return [(one.number, json.dumps(one.about)) for one in self.source.splits(since, until)]


class ConnectorScan(Scan):
    """Reads splits. In: the number of each, and where its rows are, as JSON."""

    def __init__(self, end: End, source: ConnectorSource) -> None:
        super().__init__(end)
        self.source = source

    def in_order(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """By their numbers."""
        yield from pa.Table.from_batches(batches).sort_by("number").to_batches()

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[TakenRow | Chunk]]]:
        """Reads the rows of each."""
        rows = self.source.reader(self.leaf, self.verifier)
        for batch in batches:
            for one in batch.to_pylist():
                yield (one["number"], 0, 0), rows(Split(one["number"], json.loads(one["about"])))
