"""Delta tables on local or mounted disks as sources.

The log of a table has the order of its files, by version and within a version by the order of its actions.
That is the source order. Spark only keeps the place in the log (a Python data source whose rows are names of files),
and the workers read the files like any Parquet. A version that removes rows has no place in a stream, and is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain as chained
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from tracetypes.compiler.connectors.delta import Log
from tracetypes.compiler.connectors.delta_splits import TableSource, TableSplits
from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.source_rows import taker
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.messages import Piece
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.spark.data_source import SplitStreamReader
from tracetypes.compiler.spark.input_interface import Input
from tracetypes.compiler.spark.scan import End, ParquetScan, Scan
from tracetypes.compiler.store.input_files import InputFiles
from tracetypes.parsing import Row

__all__ = ["TableInput", "TableScan"]

FILES = "path string, version bigint, number bigint, partition string"


class TableInput(Input):
    """A table as the input of a source. ``bounded``: up to the version that is the last one now."""

    def __init__(
        self, spark: SparkSession, leaf: FromSource, address: str, files_per_step: int | None, *, bounded: bool
    ) -> None:
        self.spark, self.source = spark, TableSource.of(leaf, address, files_per_step, bounded=bounded)

    @property
    def identity(self) -> EndpointIdentity:
        """The identity of the table."""
        return self.source.identity

    @property
    def at_once(self) -> bool:
        """Whether one micro-batch takes all rows."""
        return self.source.most is None

    def frame(self) -> DataFrame:
        """A row for each file."""
        self.spark.dataSource.register(Table)
        source = self.source
        about = {"path": str(source.path), "table": source.id, "until": source.until, "most": source.most}
        return self.spark.readStream.format(Table.name()).option("about", json.dumps(about)).load()


    def scanned(self, end: End, files: InputFiles | None) -> tuple[DataFrame, Scan]:
        """The files of versions."""
        return self.frame(), TableScan(end)


class Table(DataSource):
    """The files of a table, for Spark."""

    @classmethod
    def name(cls) -> str:
        """The name in Spark."""
        return "tracetypes-table"

    def schema(self) -> str:
        """The schema of its rows."""
        return FILES

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Called by Spark."""
        about = json.loads(self.options["about"])
        return SplitStreamReader(TableSplits(Log(Path(about["path"])), about["table"], about["until"], about["most"]))


class TableScan(ParquetScan):
    """Files of a table. In: ``path``, ``version``, ``number`` within it, and the values of partition columns as JSON."""

    def in_order(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Files, by version and number."""
        yield from pa.Table.from_batches(batches).sort_by([("version", "ascending"), ("number", "ascending")]).to_batches()

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[TakenRow | Chunk]]]:
        """Reads the files."""
        take = taker(self.leaf, read, self.verifier)
        for batch in batches:
            for row in batch.to_pylist():
                tables = self.tables(row["path"], 0, 1, json.loads(row["partition"]))
                yield (row["version"], row["number"], 0), chained.from_iterable(map(take, tables))
