"""Files that are read in parts: row groups of Parquet, blocks of Avro."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tracetypes.compiler.connectors.avro_file_rows import AvroFileReader
from tracetypes.compiler.connectors.file_splits import Reading
from tracetypes.compiler.connectors.parquet_row_groups import tables
from tracetypes.compiler.connectors.source_rows import taker
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.formats import Avro, Parquet
from tracetypes.parsing import Row

__all__ = ["rows_of_parts"]


def rows_of_parts(
    leaf: FromSource, format: Parquet | Avro, read: Callable[[Any, Any], Row], verifier: Verifier | None
) -> Callable[[Reading], Iterator[TakenRow | Chunk]]:
    """Reads parts of files, which must stay as they are meanwhile. ``read``: makes items of rows."""
    take, avro = taker(leaf, read, verifier), AvroFileReader(leaf, read, verifier)

    def rows(reading: Reading) -> Iterator[TakenRow | Chunk]:
        split = reading.split
        with reading.sampled():
            if isinstance(format, Avro):
                yield from avro.rows(split.path, split.start, split.parts, split.state)
            else:
                for table in tables(leaf, split.path, split.start, split.parts, state=split.state):
                    yield from take(table)

    return rows
