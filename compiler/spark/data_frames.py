"""Data frames of the program as sources. Spark plans which rows a micro-batch reads, and the workers read them from a file.

The file lies in the directory of the run, as that of a list does. It has Arrow's own format, so each column keeps its type. Spark
keeps the offsets, which name the frame by its digest.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import chain as chained
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from tracetypes.compiler.backend.backend import Opening
from tracetypes.compiler.connectors.arrivals import Part
from tracetypes.compiler.connectors.data_frames import MOST, DataFrameInput, DataFrameSplits
from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.iterables import Columns, columns_reader
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.messages import Piece
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.spark.data_source import SplitStreamReader
from tracetypes.compiler.spark.input_interface import Input
from tracetypes.compiler.spark.scan import End, Scan
from tracetypes.compiler.store.input_files import InputFiles
from tracetypes.connectors import Offset
from tracetypes.parsing import Row

__all__ = ["FrameInput", "FrameScan"]

RANGE: Final = "number bigint, start bigint, until bigint"

PAUSE: Final = 0.1
"""Seconds to wait where no more rows come, because Spark asks again at once."""


class FrameInput(Input):
    """A frame as the input of a source."""

    def __init__(self, spark: SparkSession, opening: Opening) -> None:
        self.spark, self.frame = spark, DataFrameInput(opening.leaf, opening.address.rows)
        self.path = Path(opening.scratch) / f"{opening.leaf.source.name}.arrow"
        table = self.frame.table.unify_dictionaries()
        with pa.ipc.new_file(str(self.path), table.schema) as file:
            file.write_table(table, MOST)

    @property
    def identity(self) -> EndpointIdentity:
        """Frames have none: the offsets have their digests."""
        return EndpointIdentity("columns")

    @property
    def at_once(self) -> bool:
        """Whether one micro-batch takes all rows."""
        return bool(self.frame.table.num_rows <= MOST)

    def scanned(self, end: End, files: InputFiles | None) -> tuple[DataFrame, Scan]:
        """Ranges of rows."""
        self.spark.dataSource.register(FrameRows)
        splits = self.frame.splits()
        about = {"source": splits.source, "digest": splits.digest, "rows": splits.rows}
        reader = self.spark.readStream.format(FrameRows.name()).option("about", json.dumps(about))
        return reader.load(), FrameScan(end, str(self.path))


class FrameRows(DataSource):
    """Ranges of the rows of a frame, for Spark."""

    @classmethod
    def name(cls) -> str:
        """The name in Spark."""
        return "tracetypes-frame"

    def schema(self) -> str:
        """The schema of its rows."""
        return RANGE

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Called by Spark."""
        return SplitStreamReader(PatientSplits(**json.loads(self.options["about"])))


class PatientSplits(DataFrameSplits):
    """They wait a moment where no more rows come."""

    def end(self, since: Offset) -> Offset:
        """The end of the next micro-batch."""
        until = super().end(since)
        if until == since:
            time.sleep(PAUSE)
        return until


class FrameScan(Scan):
    """Reads rows of a frame. In: the number of the first one in the run, and the ends of the rows in the file."""

    def __init__(self, end: End, path: str) -> None:
        super().__init__(end)
        self.path = path

    def in_order(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Ranges, by the number."""
        yield from pa.Table.from_batches(batches).sort_by("number").to_batches()

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[TakenRow | Chunk]]]:
        """Reads the rows of each range."""
        rows = columns_reader(self.leaf, self.verifier)
        ranges = chained.from_iterable(batch.to_pylist() for batch in batches)
        with pa.memory_map(self.path) as file:
            table = pa.ipc.open_file(file).read_all()
            for one in ranges:
                size = one["until"] - one["start"]
                yield (one["number"], 0, 0), rows([Part(Columns(table.slice(one["start"], size)), size, 0)])
