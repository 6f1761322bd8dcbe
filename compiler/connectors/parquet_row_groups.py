"""Row groups of Parquet files. A column is read when an operator needs it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache, cached_property
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.parquet as pq

from tracetypes.compiler.columns.arrow import array, arrow_type, in_one_piece
from tracetypes.compiler.connectors.file_system import FileState
from tracetypes.compiler.connectors.fitted_columns import (
    Conversion,
    Fitted,
    Misfits,
    always_fits,
    in_range,
    lost_digits,
)
from tracetypes.compiler.connectors.folders import folder_values
from tracetypes.compiler.connectors.object_ranges import Ranges
from tracetypes.compiler.connectors.parquet import check_file, has_int96, open_parquet, ranges_of, zone_of
from tracetypes.compiler.connectors.store_errors import StoreError
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime import limits
from tracetypes.conformance import name_of
from tracetypes.errors import RunError
from tracetypes.formats import Parquet
from tracetypes.records import Bytes, Optional, Schema, String, UnitValue

__all__ = ["RowGroup", "RowGroups", "Table", "tables", "together", "value_in_log", "with_dictionaries"]


class Table(Protocol):
    """Rows as columns of a layout, by their number: a record batch, or columns that are read on demand."""

    num_rows: int

    def column(self, at: int, /) -> Any:
        """An Arrow array of the layout's type."""

    def misfits(self, at: int, /) -> Misfits | None:
        """The rows of a column with values that do not fit the layout, which are null in the array. None for no row."""


def with_dictionaries(path: str, leaf: FromSource, ranges: Ranges | None = None) -> pq.ParquetFile:
    """A file, opened so that columns of text are read as dictionaries."""
    texts = [name for name, schema in leaf.layout.columns if isinstance(_bare(schema), String | Bytes)]
    try:
        return open_parquet(path, ranges, read_dictionary=texts)
    except KeyError:  # it lacks one of them
        with open_parquet(path, ranges) as file:
            paths = {file.schema.column(number).path for number in range(len(file.schema))}
            there = [name for name in texts if name in paths]
            return open_parquet(path, ranges, metadata=file.metadata, read_dictionary=there)


def _bare(schema: Schema) -> Schema:
    return schema.item if isinstance(schema, Optional) else schema


class RowGroup:
    """A row group of a Parquet file, of which columns are read on demand. ``coded``: the file, whose columns of text come as
    dictionaries. ``plain``: opens it so that they do not; ``precise``: so that INT96 has nanoseconds. ``constants``: columns of
    one value each (a ``pyarrow.Scalar``), which do not come from the file. ``ranges``: of an object of a store."""

    def __init__(
        self,
        path: str,
        coded: pq.ParquetFile,
        group: int,
        leaf: FromSource,
        plain: Callable[[], pq.ParquetFile],
        precise: Callable[[], pq.ParquetFile],
        constants: Mapping[str, Any],
        ranges: Ranges | None,
    ) -> None:
        self.ranges, self.asked = ranges, set[str]()
        self.constants, self.path, self.format = constants, path, leaf.source.format
        self.coded, self.group, self.columns = coded, group, leaf.layout.columns
        self.plain, self.precise = plain, precise
        about = coded.metadata.row_group(group)
        self.num_rows: int = about.num_rows
        self.bytes: int = about.total_byte_size
        self.types = {field.name: field.type for field in coded.schema_arrow}
        self.truncated = leaf.layout.truncated
        self.read: dict[int, Any] = {}
        self.unfit: dict[int, Misfits] = {}

    def column(self, at: int) -> Any:
        """A column of the layout. A column that the file lacks is null. Text may be dictionary-encoded."""
        if at not in self.read:
            name, schema = self.columns[at]
            self.asked.add(name)
            if name in self.constants:
                self.read[at] = pa.repeat(self.constants[name], self.num_rows)
            elif name in self.types and not isinstance(schema, UnitValue):
                self.read[at] = self.cast(at)
            else:
                self.read[at] = pa.nulls(self.num_rows, arrow_type(schema))
        return self.read[at]

    def expect(self, names: Iterable[str]) -> None:
        """Columns of these names will be read: those of an object are on their way from now on."""
        if self.ranges is not None:
            columns = [column for name in names if name not in self.constants and (column := self.about(name)) is not None]
            self.ranges.expect(map(_place, columns))

    def misfits(self, at: int) -> Misfits | None:
        """The rows of a column with values that do not fit the layout. Statistics may show that there are none."""
        name, schema = self.columns[at]
        if name in self.constants or name not in self.types or self.surely_fits(name, schema):
            return None
        if at not in self.read:
            self.column(at)
        return self.unfit.get(at)

    def surely_fits(self, name: str, schema: Schema) -> bool:
        """Whether the type of a column, or its statistics, show that all values fit."""
        actual = self.types[name]
        if always_fits(actual, schema):
            return True
        column = self.about(name)
        if column is None or column.physical_type not in ("INT32", "INT64"):
            return False
        statistics = column.statistics
        if statistics is None or not statistics.has_min_max:
            return False
        return in_range(actual, schema, statistics.min_raw, statistics.max_raw)

    def cast(self, at: int) -> Any:
        """A column in the Arrow type of the layout. Values that do not fit are noted."""
        name, schema = self.columns[at]
        where = f"{self.path}: the column {name!r}"
        try:
            file = self.coded if self.repeats(name) else self.plain()
            whole = in_one_piece(file.read_row_group(self.group, columns=[name], use_threads=False).column(name))
            target = arrow_type(schema)
            if whole.type == pa.dictionary(pa.int32(), target):
                return whole
            conversion = Conversion(zone_of(file, name, self.format), self.truncated)
            fitted = conversion.of(whole, schema)
            if not self.truncated and has_int96(file, name):
                fitted = self.with_digits(name, whole, fitted)
            if fitted.unfit is not None:
                self.unfit[at] = Misfits(name, whole, schema, conversion, fitted.unfit)
            return fitted.array
        except StoreError as error:
            raise _unreadable(self.path, error) from error
        except (OSError, pa.ArrowException) as error:
            raise RunError(
                "TT203",
                f"{where} cannot be read as {name_of(schema)}: {error}",
                fix="write the file with values of the field's type, then run again to go on",
            ) from error

    def with_digits(self, name: str, coarse: Any, fitted: Fitted) -> Fitted:
        """A column of INT96 as microseconds, with the rows that have digits behind them."""
        with self.precise() as file:
            fine = in_one_piece(file.read_row_group(self.group, columns=[name], use_threads=False).column(name))
        lost = lost_digits(coarse, fine)
        if lost is None or not lost.any():
            return fitted
        return Fitted(fitted.array, lost if fitted.unfit is None else lost | fitted.unfit)

    def is_whole(self, at: int) -> bool:
        """Whether the statistics of the file show that a column, not read yet, has no null."""
        name, _ = self.columns[at]
        column = self.about(name)
        statistics = None if column is None else column.statistics
        return statistics is not None and statistics.has_null_count and statistics.null_count == 0

    def repeats(self, name: str) -> bool:
        """Whether the metadata of the file suggest that a column repeats few values, so that its dictionary is useful.

        If a dictionary would grow too large, Parquet writes the rest of the values plain, and Arrow would have to find
        equal ones itself. Plain text takes four bytes a value for its length alone.
        """
        column = self.about(name)
        if column is None or not {"PLAIN_DICTIONARY", "RLE_DICTIONARY"} & set(column.encodings):
            return False
        return bool(column.total_uncompressed_size < 4 * column.num_values)

    def about(self, name: str) -> Any:
        """The file's metadata of a column that is not a struct or list. None if there are none."""
        return self._by_path.get(name)

    @cached_property
    def _by_path(self) -> Mapping[str, Any]:
        """The file's metadata of each column. Arrow makes an object for each time that it is asked."""
        group = self.coded.metadata.row_group(self.group)
        columns = [group.column(number) for number in range(group.num_columns)]
        return {column.path_in_schema: column for column in reversed(columns)}


class RowGroups:
    """Adjacent row groups as one table."""

    def __init__(self, parts: Sequence[RowGroup]) -> None:
        self.parts = parts
        self.num_rows = sum(part.num_rows for part in parts)
        self.read: dict[int, Any] = {}

    def column(self, at: int) -> Any:
        """A column of the layout, as in :class:`RowGroup`."""
        if at not in self.read:
            self.expect([self.parts[0].columns[at][0]])
            columns = [part.column(at) for part in self.parts]
            for part in self.parts:
                part.read.pop(at)
            if len({column.type for column in columns}) > 1:  # not all of them repeat few values
                columns = [one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for one in columns]
            self.read[at] = pa.concat_arrays(columns)
        return self.read[at]

    @property
    def asked(self) -> set[str]:
        """The names of the columns that somebody has read."""
        return self.parts[0].asked

    def expect(self, names: Collection[str]) -> None:
        """As in :class:`RowGroup`."""
        for part in self.parts:
            part.expect(names)

    def misfits(self, at: int) -> Misfits | None:
        """Those of the first row group with any."""
        return next((found for part in self.parts if (found := part.misfits(at)) is not None), None)

    def is_whole(self, at: int) -> bool:
        """As in :class:`RowGroup`."""
        return all(part.is_whole(at) for part in self.parts)


def together(groups: Iterable[RowGroup]) -> Iterator[RowGroup | RowGroups]:
    """Row groups without the empty ones, with small ones joined, so that the same keys are not sent once for each."""
    small: list[RowGroup] = []
    size = 0
    for group in groups:
        if not group.num_rows:
            continue
        if small and size + group.bytes > limits.TOGETHER:
            yield RowGroups(small) if len(small) > 1 else small[0]
            small, size = [], 0
        small.append(group)
        size += group.bytes
    if small:
        yield RowGroups(small) if len(small) > 1 else small[0]


def tables(
    leaf: FromSource,
    path: str,
    part: int = 0,
    parts: int = 1,
    constants: Mapping[str, str | None] | None = None,
    state: FileState | None = None,
) -> Iterator[RowGroup | RowGroups]:
    """The row groups of a part of a file, small ones together. ``constants``: columns that the file lacks and their one value,
    as text in the log of a table; without a log the folders above the file have them. ``state``: as the file must be."""
    try:
        with ExitStack() as opened:
            coded = opened.enter_context(with_dictionaries(path, leaf, ranges := ranges_of(path, state)))
            outside = _of_folders(leaf, path, coded) if constants is None else _of_log(leaf, constants)
            check_file(leaf.layout, leaf.source.format, coded, path, outside)

            @cache
            def plain() -> pq.ParquetFile:
                return opened.enter_context(open_parquet(path, ranges, metadata=coded.metadata))

            def precise() -> pq.ParquetFile:
                return open_parquet(path, ranges, coerce_int96_timestamp_unit="ns")

            count = coded.num_row_groups
            numbers = range(count * part // parts, count * (part + 1) // parts)
            groups = (RowGroup(path, coded, group, leaf, plain, precise, outside, ranges) for group in numbers)
            yield from together(groups) if ranges is None else _ahead(leaf, list(together(groups)))
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error


_ASKED: Final[WeakKeyDictionary[FromSource, set[str]]] = WeakKeyDictionary()
"""The columns that were read of the last row groups of a source: likely those of the next ones."""


def _ahead(leaf: FromSource, tables: Sequence[RowGroup | RowGroups]) -> Iterator[RowGroup | RowGroups]:
    """Row groups of an object. Their columns are on their way one table ahead."""
    for at, table in enumerate(tables):
        for one in tables[at : at + 2]:
            one.expect(_ASKED.get(leaf, ()))
        yield table
        if table.asked:
            _ASKED[leaf] = table.asked


def _place(column: Any) -> tuple[int, int]:
    """Where a column of a row group lies in its file."""
    start: int = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset is not None:
        start = min(start, column.dictionary_page_offset)
    return start, start + column.total_compressed_size


def _unreadable(path: str, error: Exception) -> RunError:
    return RunError("TT208", f"{path} cannot be read: {error}", fix="see whether the file is whole, then run again to go on")


def _of_folders(leaf: FromSource, path: str, file: pq.ParquetFile) -> Mapping[str, Any]:
    """The columns that a file lacks, and the folders above it have."""
    format, layout = leaf.source.format, leaf.layout
    zone = format.zone if isinstance(format, Parquet) else None
    values = folder_values(path, layout, zone, file.schema_arrow.names, leaf.source.file_name)
    return {name: array(schema, [values[name]])[0] for name, schema in layout.columns if name in values}


def _of_log(leaf: FromSource, texts: Mapping[str, str | None]) -> Mapping[str, Any]:
    """The columns that the log of a table has."""
    columns = [(name, schema) for name, schema in leaf.layout.columns if name in texts and not isinstance(schema, UnitValue)]
    return {name: value_in_log(texts[name], arrow_type(schema)) for name, schema in columns}


def value_in_log(text: str | None, kind: Any) -> Any:
    """The ``pyarrow.Scalar`` of a text in the log of a table: the empty text is null, and an instant without a zone is in UTC.
    Raises :class:`RunError` ``TT203`` if there is no such value."""
    try:
        if text and pa.types.is_timestamp(kind):
            instant = dt.datetime.fromisoformat(text)
            return pa.scalar(instant if instant.tzinfo else instant.replace(tzinfo=dt.UTC), kind)
        return pa.scalar(text or None, pa.string()).cast(kind)
    except (pa.ArrowException, ValueError) as error:
        raise RunError(
            "TT203", f"the partition value {text!r} is no {kind}: {error}", fix="change the type of the field"
        ) from error
