"""Rows of a sink as files: Parquet, CSV, JSON lines. Workers and the driver use the same code."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tracetypes.compiler.columns.arrow import arrow_type, signed, type_in_files
from tracetypes.compiler.columns.batches import END, POSITION
from tracetypes.compiler.columns.coded_arrays import plain_array, without_dictionaries
from tracetypes.compiler.connectors.json_rows import json_lines, plain_values
from tracetypes.conformance import micros_of
from tracetypes.csv_records import BOUND
from tracetypes.errors import RunError
from tracetypes.flat_columns import record_in, sink_columns
from tracetypes.formats import Avro, Csv, Format, JsonLines, Layout, Parquet, TextLines
from tracetypes.nodes import Sink
from tracetypes.records import Schema

__all__ = ["SinkFile", "VisibleColumns", "open_sink_file", "plain_cells", "shown_instant"]

DICTIONARY: Final = 1 << 20
"""Bytes of a dictionary that Parquet keeps."""


class SinkFile(Protocol):
    """A file for rows. ``codes``: whether columns may be dictionary-encoded."""

    codes: bool

    def write(self, batch: Any) -> None:
        """Add the rows of an Arrow record batch, as of :class:`VisibleColumns`."""

    def close(self) -> None:
        """Write the end of the file."""


class VisibleColumns:
    """The columns of a sink that a reader sees: those of the layout, then marker and position if the sink has them. The fields
    of structs get the names of their columns.

    Unit becomes a missing text, because no format has Unit. ``unsigned``: whether the format has unsigned integers.
    """

    def __init__(self, layout: Layout, sink: Sink, *, unsigned: bool = True) -> None:
        self.columns, self.unsigned = sink_columns(layout, sink), unsigned
        self.names = [name for name, _ in self.columns]
        self.nested = [schema for _, schema in layout.columns] if sink.flat else []
        types = [(arrow_type(schema), type_in_files(schema)) for _, schema in layout.columns]
        self.renamed = {at: shown for at, (own, shown) in enumerate(types) if shown != own}
        self.count = len(types)
        self.marker, self.position = sink.marker, sink.position

    def of(self, batch: Any) -> Any:
        """The visible columns of rows as stages send them (an Arrow record batch)."""
        names, columns = list(self.names), [batch.column(at) for at in range(self.count)]
        for at, shown in self.renamed.items():
            columns[at] = plain_array(columns[at]).view(shown)
        for schema in self.nested:
            columns += _flat(schema, columns.pop(0))
        columns = list(map(_without_void, columns))
        if not self.unsigned:
            columns = [column.cast(signed(column.type)) for column in columns]
        if self.marker is not None:
            names.append(self.marker)
            columns.append(_as_times(self.marker, batch.column(END)))
        if self.position is not None:
            names.append(self.position)
            columns.append(batch.column(POSITION))
        return pa.RecordBatch.from_arrays(columns, names=names)


def _flat(schema: Schema, column: Any) -> list[Any]:
    """The columns of the fields of a record, as of :func:`.flat_columns`."""
    record = record_in(schema)
    if record is None:
        return [column]
    parts = zip(record.columns, column.flatten(), strict=True)
    return [one for (_, inner), part in parts for one in _flat(inner, part)]


_YEARS: Final = tuple(map(micros_of, (dt.datetime.min.replace(tzinfo=dt.UTC), dt.datetime.max.replace(tzinfo=dt.UTC))))


def _as_times(name: str, ends: Any) -> Any:
    """A column of markers. Raises :class:`RunError` ``TT209`` for a marker that no format has as a time."""
    bounds = pc.min_max(ends).as_py()
    for micros in bounds.values():
        if micros is not None and not _YEARS[0] <= micros <= _YEARS[1]:
            raise RunError(
                "TT209",
                f"the column {name!r} cannot hold a marker {micros} us after 1970: it lies outside the years 1 to 9999",
                fix='leave marker= out, or see whether the times have another unit: every(..., unit="ms")',
            )
    return ends.cast(pa.timestamp("us", "UTC"))


def open_sink_file(format: Format, path: str) -> SinkFile:
    """A new file of a format."""
    match format:
        case Parquet(compression=compression):
            return _ParquetFile(path, compression)
        case Csv(separator=str(separator)):
            return _CsvFile(path, format, separator)
        case JsonLines(compression=compression):
            return _JsonFile(_opened(path, compression))
        case TextLines() | Csv() | Avro():
            raise RunError("TT207", "Avro and lines of text are only read", fix="write JSON lines: format=json_lines()")


def _opened(path: str, compression: str | None) -> BinaryIO:
    """A new file of bytes. The same bytes give the same file: no name and no time is in it."""
    match compression:
        case None:
            return open(path, "wb")
        case "gzip":
            return cast(BinaryIO, _Gzip(path))
        case _:
            return cast(BinaryIO, pa.CompressedOutputStream(path, compression))


class _Gzip(gzip.GzipFile):
    """Closes the file below it, too."""

    def __init__(self, path: str) -> None:
        self.below = open(path, "wb")  # noqa: SIM115  it is closed by close()
        super().__init__("", "wb", 6, self.below, 0)

    def close(self) -> None:
        super().close()
        self.below.close()


class _ParquetFile:
    codes = True

    def __init__(self, path: str, compression: str) -> None:
        self.path, self.compression = path, compression
        self.writer: Any = None

    def write(self, batch: Any) -> None:
        if self.writer is None:
            self.schema = _with_dictionaries(batch)
            coded = any(map(_has_codes, self.schema.types))  # readers shall find the types without dictionaries
            self.writer = pq.ParquetWriter(self.path, self.schema, store_schema=not coded, **self._options())
        if batch.schema != self.schema:
            columns = [_as_coded(column, field.type) for column, field in zip(batch.columns, self.schema, strict=True)]
            batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        self.writer.write_batch(_with_unique_entries(batch))

    def _options(self) -> dict[str, Any]:
        return {"compression": self.compression, **_encodings(self.schema)}

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def _with_dictionaries(batch: Any) -> pa.Schema:
    """The schema of a batch, without dictionaries that are so large that Parquet would not keep them. Beside lists there is none:
    the types of these are only in the schema that Arrow stores."""
    if any(map(_has_lists, batch.schema.types)):
        return without_dictionaries(batch.slice(0, 0)).schema
    return pa.schema([field.with_type(_kept(column)) for column, field in zip(batch.columns, batch.schema, strict=True)])


def _kept(column: Any) -> Any:
    """The type that a column has in a file."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return kind if column.dictionary.nbytes <= DICTIONARY else kind.value_type
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_kept(column.field(at))) for at, part in enumerate(kind)])
    return kind


def _has_codes(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_codes(part.type) for part in kind)
    return bool(pa.types.is_dictionary(kind))


def _has_lists(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_lists(part.type) for part in kind)
    return bool(pa.types.is_nested(kind))


def _as_coded(column: Any, kind: Any) -> Any:
    """A column with dictionaries or without, as a file has it."""
    if column.type == kind:
        return column
    if pa.types.is_struct(kind):
        parts = [_as_coded(column.field(at), part.type) for at, part in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null() if column.null_count else None)
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return plain.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else plain


def _with_unique_entries(batch: Any) -> Any:
    """A batch in whose dictionaries no text is twice. With others Parquet writes text by text, which takes twice as long."""
    columns = list(map(_unique, batch.columns))
    if all(one is other for one, other in zip(columns, batch.columns, strict=True)):
        return batch
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _unique(column: Any) -> Any:
    """A column in whose dictionaries no entry is twice."""
    if pa.types.is_struct(column.type) and _has_codes(column.type):
        parts = [column.field(at) for at in range(column.type.num_fields)]
        columns = list(map(_unique, parts))
        if all(one is other for one, other in zip(columns, parts, strict=True)):
            return column
        return pa.StructArray.from_arrays(columns, fields=list(column.type), mask=column.is_null() if column.null_count else None)
    if not pa.types.is_dictionary(column.type):
        return column
    entries = column.dictionary.unique()
    if len(entries) == len(column.dictionary):
        return column
    return pa.DictionaryArray.from_arrays(pc.index_in(column.dictionary, entries).take(column.indices), entries)


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Floats as they are, since most are different, and times by their differences: a dictionary would cost half of the time of a
    file, and make it larger. Columns with codes have no least and greatest text: to find which entries a page has takes as long
    as to write the codes, and pages that hold few of them are rare."""
    if any(map(_has_lists, schema.types)):
        return {}  # their columns have other names
    leaves = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
    times = [name for name, kind in leaves if pa.types.is_timestamp(kind)]
    coded = [name for name, kind in leaves if name not in times and not pa.types.is_floating(kind)]
    plain = [name for name, kind in leaves if not pa.types.is_dictionary(kind)]
    return {
        "use_dictionary": coded or False,
        "column_encoding": dict.fromkeys(times, "DELTA_BINARY_PACKED") or None,
        "write_statistics": True if len(plain) == len(leaves) else plain or False,
    }


def _leaves(name: str, kind: Any) -> Iterator[tuple[str, Any]]:
    """The columns that Parquet makes of one, with their names and types."""
    if not pa.types.is_struct(kind):
        yield name, kind
        return
    for part in kind:
        yield from _leaves(f"{name}.{part.name}", part.type)


class _CsvFile:
    """RFC 4180, as a source with the same format reads it. A cell has quotes if it needs them, or is the text that stands for
    None."""

    codes = False

    def __init__(self, path: str, format: Csv, separator: str) -> None:
        self.path, self.separator, self.null = path, separator, format.null
        self.file = io.TextIOWrapper(_opened(path, format.compression), encoding=format.encoding, newline="")
        self.special = re.compile(f'["\r\n{re.escape(separator)}]').search
        self.headed = False

    def write(self, batch: Any) -> None:
        if not self.headed:
            self.headed = True
            names = batch.schema.names
            names = [self._quoted(name) if name in (self.null, "") or _is_trimmed(name) else self._cell(name) for name in names]
            self._put([self.separator.join(names)])
        self._put(list(map(self.separator.join, zip(*map(self._cells, batch.columns), strict=True))))

    def _put(self, records: list[str]) -> None:
        for record in records if max(map(len, records), default=0) > BOUND // 4 else ():
            if len(record.encode()) > BOUND:
                raise self._unwritable(f"a row of {len(record.encode()):,} bytes is longer than a record of CSV ({BOUND:,})")
        try:
            self.file.writelines(record + "\n" for record in records)
        except UnicodeEncodeError as error:
            raise self._unwritable(f"{error.object[error.start : error.end]!r} is not in {self.file.encoding}") from error

    def _unwritable(self, why: str) -> RunError:
        return RunError("TT209", f"{self.path}: {why}", fix="write JSON lines or Parquet")

    def _cells(self, column: Any) -> list[str]:
        """The cells of a column, with quotes where they need them."""
        cells = plain_cells(column)
        if self.null in cells or self.special("".join(filter(None, cells))) is not None:
            return [self.null if cell is None else self._cell(cell) for cell in cells]
        return [self.null if cell is None else cell for cell in cells] if None in cells else cells

    def _cell(self, cell: str) -> str:
        return self._quoted(cell) if cell == self.null or self.special(cell) is not None else cell

    @staticmethod
    def _quoted(cell: str) -> str:
        return '"' + cell.replace('"', '""') + '"'

    def close(self) -> None:
        self.file.close()


class _JsonFile:
    codes = False

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def write(self, batch: Any) -> None:
        self.file.write(json_lines(batch))

    def close(self) -> None:
        self.file.close()


def _is_trimmed(name: str) -> bool:
    """Whether who reads a name of a header without quotes takes something off: white space, or a byte order mark."""
    return name != name.strip() or name.startswith("\ufeff")


def plain_cells(column: Any) -> list[Any]:
    """The values of a column as texts; None where there is none."""
    cells = plain_values(column)
    if pa.types.is_boolean(column.type):
        return [None if cell is None else "true" if cell else "false" for cell in cells]
    return cells if pa.types.is_string(column.type) else [None if cell is None else str(cell) for cell in cells]


def shown_instant(name: str, micros: int) -> str:
    """The time of a marker as a column of this name in files of text has it. Raises :class:`RunError` ``TT209``."""
    (text,) = plain_values(_as_times(name, pa.array([micros], pa.int64())))
    return str(text)


def _without_void(column: Any) -> Any:
    """The column with text for null types."""
    kind = column.type
    if not _has_void(kind):
        return column
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    if pa.types.is_struct(kind):
        children = [_without_void(child) for child in column.flatten()]
        names = [field.name for field in kind]
        return pa.StructArray.from_arrays(children, names=names, mask=column.is_null())
    inner = _without_void(column.flatten())
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    return pa.ListArray.from_arrays(offsets, inner, mask=column.is_null())


def _has_void(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_void(field.type) for field in kind)
    return bool(pa.types.is_null(kind)) or (pa.types.is_list(kind) and _has_void(kind.value_type))
