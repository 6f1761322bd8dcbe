"""The least event time in a file of a source, by which files can be put in order before they are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.connectors.avro_file_rows import AvroFileReader
from tracetypes.compiler.connectors.file_splits import Reading
from tracetypes.compiler.connectors.parquet import open_parquet
from tracetypes.compiler.connectors.parquet_row_groups import tables
from tracetypes.compiler.connectors.source_rows import taker
from tracetypes.compiler.connectors.text_reader import SplitNotes, TextReader
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.tracing.expr import Input, Leaf
from tracetypes.formats import Avro, Format, Parquet
from tracetypes.markers import MICROS, EventTime
from tracetypes.records import Record
from tracetypes.sources import reader

__all__ = ["least_time"]

NANOS = {"milliseconds": 1_000_000, "microseconds": 1_000, "nanoseconds": 1}
"""Of the units that Parquet has for times."""


def least_time(leaf: FromSource, format: Format, header: Sequence[str] | None, path: str) -> int | None:
    """In microseconds; None where no row has a time. The statistics of a Parquet file tell it where the time is a column; any
    other file is read. Raises what reading it raises."""
    if isinstance(format, Parquet):
        try:
            with open_parquet(path) as file:
                time = _by_statistics(leaf, file)
        except (OSError, pa.ArrowException):
            time = None  # who reads it says what is wrong
        return time if time is not None else _least(_rows_of_parquet(leaf, path))
    read = reader(leaf.source).read
    if isinstance(format, Avro):
        return _least(AvroFileReader(leaf, read).rows(path))
    try:
        whole = Reading.of_file(path)
    except FileNotFoundError:
        return None  # as above
    return _least(TextReader(leaf, format, header, read).of_splits([(whole, SplitNotes())]))


def _rows_of_parquet(leaf: FromSource, path: str) -> Iterator[TakenRow | Chunk]:
    take = taker(leaf, reader(leaf.source).read)
    for table in tables(leaf, path):
        yield from take(table)


def _least(rows: Iterable[TakenRow | Chunk]) -> int | None:
    least: int | None = None
    for one in rows:
        if isinstance(one, Chunk):
            time = int(one.times.min()) if len(one) else None
        else:
            time = None if one.row.kind == "reject" else one.row.time
        if time is not None and (least is None or time < least):
            least = time
    return least


def _by_statistics(leaf: FromSource, file: pq.ParquetFile) -> int | None:
    """None where they do not tell."""
    how, tree = leaf.source.markers, leaf.traced_time
    assert isinstance(how, EventTime)
    if isinstance(tree, Opaque) or not isinstance(tree, Leaf) or not isinstance(tree.result, Input):
        return None
    argument, *fields = tree.result.path
    if argument != "value" or len(fields) != 1 or not isinstance(leaf.layout.value, Record):
        return None
    name = leaf.layout.value.renamed.get(str(fields[0]), str(fields[0]))
    at = [number for number in range(len(file.schema)) if file.schema.column(number).path == name]
    if len(at) != 1:
        return None
    times: list[int] = []
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        statistics = group.column(at[0]).statistics
        if group.num_rows and (statistics is None or not statistics.has_min_max):
            return None
        if group.num_rows:
            times.append(statistics.min_raw)
    if not times:
        return None
    if pa.types.is_signed_integer(file.schema_arrow.field(name).type):
        return min(times) * MICROS[how.unit]
    kind = json.loads(file.schema.column(at[0]).logical_type.to_json())
    if kind.get("isAdjustedToUTC") and kind.get("timeUnit") in NANOS:
        return min(times) * NANOS[kind["timeUnit"]] // 1_000
    return None
