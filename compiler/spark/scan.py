"""How workers read sources: rows of text that Spark has read, columns that Spark has read, or Parquet files themselves.

Parquet on local disks is read by the workers with Arrow, column by column as columns are asked for: Spark only says which
files there are. That takes less than half of the processor time of Spark's scan and saves the copy of its rows to Python, and
a row that turns out to be late can still be shown whole, though the query reads two of its columns.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain as chained
from itertools import groupby, pairwise
from typing import Any, Protocol, TypeVar

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext

from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.columns.arrow import arrow_type, builder, from_array, has_gaps, never_refuses
from tracetypes.compiler.columns.column import Column
from tracetypes.compiler.columns.conversion import from_arrow, to_arrow, to_coded_arrow
from tracetypes.compiler.columns.evaluation import run
from tracetypes.compiler.connectors.parquet import converted, misfit, open_parquet, zone_of
from tracetypes.compiler.connectors.splits import Reading, Split
from tracetypes.compiler.connectors.text import (
    AT_ONCE,
    Dialect,
    Fit,
    chunks_of,
    columns_of_csv,
    columns_of_json,
    decoded,
    fit_of_csv,
    fit_of_json,
)
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.plan import FromSource, Link, Plan, Stage
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.chunks import Chunk, inside
from tracetypes.compiler.runtime.messages import Message, Piece
from tracetypes.compiler.runtime.partial_aggregation import fit_key, read_by
from tracetypes.compiler.runtime.source import SourceKernel, Taken
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.compiler.spark.wire import BEFORE, Task, guarded, no_collector, sent
from tracetypes.compiler.store.staging import Delivery, deliver
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.errors import RunError
from tracetypes.formats import Csv, JsonLines, Row, cell_splitter, is_blank, split_header, text_parser
from tracetypes.markers import MICROS, EventTime
from tracetypes.records import (
    UNIT,
    Boolean,
    Bytes,
    Float,
    Integer,
    Mismatch,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    UnitValue,
    name_of,
)
from tracetypes.sources import reader

__all__ = ["ColumnScan", "End", "LinesScan", "ParquetScan", "Scan", "TextScan", "in_columns", "runs"]

R = TypeVar("R")


@attrs.frozen
class End:
    """The source end of a link. ``ids``: Spark's number for each key group; ``delivery``: of rows that go straight to the
    sink."""

    plan: Plan
    stage: Stage
    link: Link
    ids: list[int]
    delivery: Delivery


class Scan(Task):
    """``mapInArrow`` of a source: what Spark gives in, messages out."""

    def __init__(self, end: End) -> None:
        self.plan, self.stage, self.link, self.ids = end.plan, end.stage, end.link, end.ids
        self.straight = end.plan.layout if is_straight(end.plan) else None
        self.delivery, self.width = end.delivery, end.plan.width

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return guarded(lambda: self.run(batches))

    @cached_property
    def verifier(self) -> Verifier | None:
        """Made once in each worker."""
        return Verifier.of(self.plan)

    @property
    def leaf(self) -> FromSource:
        """The source."""
        assert isinstance(self.link.leaf, FromSource)
        return self.link.leaf

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All pieces of a task."""
        with no_collector():
            yield from sent(deliver(self.delivery, self.messages(batches), self.width), self.ids)

    def messages(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Message]:
        """What the pieces of a task say."""
        read = reader(self.leaf.source).read
        before = _Before(self.leaf.label)
        for piece, taken in self.pieces(batches, read):
            kernel = SourceKernel(self.stage, self.link, self.plan.key_groups, self.straight, self.verifier)
            part, parts, idle = self.part_of(piece)
            yield from kernel.piece(piece, taken, before.of(piece, part), part, parts, idle)
            yield from self.noted()

    def noted(self) -> Iterator[Message]:
        """What there is to say of the piece that was read last."""
        yield from ()

    def part_of(self, piece: Piece) -> tuple[int, int, bool]:
        """Which part of the source a piece belongs to, how many there are, and whether nobody waits for it: files are one part
        together."""
        return 0, 1, False

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[Taken | Chunk]]]:
        """The pieces with their rows, each to be read to its end before the next."""
        raise NotImplementedError


class SplitScan(Scan):
    """Local files, which the workers read themselves. In: lines of listings, a source split each."""

    now: Reading | None = None
    """What is being read."""

    def messages(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Message]:
        """What the splits of a task say, and behind each what was taken. A file that has changed is to blame if one fails."""
        try:
            yield from super().messages(batches)
        except Exception:
            if self.now is not None:
                self.now.check()
            raise
        finally:
            self.now = None

    def noted(self) -> Iterator[Message]:
        """What was taken last."""
        if self.now is not None:
            yield self.now.note(self.leaf.label)
        self.now = None

    def readings(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Reading]:
        """The splits of a task."""
        for batch in batches:
            for line in filter(None, batch.column(0).to_pylist()):
                self.now = Reading(Split.of(line))
                yield self.now


class TextScan(Scan):
    """Lines. In: ``raw`` (bytes of a line), then ``_time``, ``_file``, ``_start``: the piece that the row belongs to. Rows of
    a piece are adjacent and in order."""

    def __init__(self, end: End, format: Csv | JsonLines, header: list[str] | None) -> None:
        super().__init__(end)
        self.format, self.header = format, header

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[Taken | Chunk]]]:
        """Takes the lines as they come."""
        take = self.parser(read)

        def lines(parts: Iterator[tuple[Piece, pa.RecordBatch]]) -> Iterator[list[bytes]]:
            return (batch.column(0).to_pylist() for _, batch in parts)

        for piece, parts in groupby(runs(batches), key=lambda run: run[0]):
            yield piece, take(piece, lines(parts))

    def parser(
        self, read: Callable[[Any, Any], Row]
    ) -> Callable[[Piece, Iterator[list[bytes]]], Iterator[Taken | Chunk]]:
        """Parses the lines of a piece."""
        parse = text_parser(self.format, self.leaf.layout, self.header)

        def one(raw: bytes) -> Taken:
            return Taken(_parsed(raw, parse, read), partial(raw.decode, "utf-8", "backslashreplace"))

        together = in_columns(self.leaf, read, Dialect(self.cells(), self.fits(), one), self.verifier)

        def take(piece: Piece, lines: Iterator[list[bytes]]) -> Iterator[Taken | Chunk]:
            headed = self.header is None or piece[2] != 0
            for some in lines:
                rows = [raw for raw in some if not is_blank(self.format, raw)]
                if not headed and rows:
                    headed = True
                    self.check_header(rows.pop(0))
                for at in range(0, len(rows), AT_ONCE):
                    yield from together(rows[at : at + AT_ONCE])

        return take

    def cells(self) -> Callable[[Sequence[bytes]], tuple[list[int], list[list[Any]]]]:
        """Takes lines apart."""
        layout = self.leaf.layout
        names = [name for name, _ in layout.columns]
        if isinstance(self.format, JsonLines):
            return lambda rows: columns_of_json(list(map(decoded, rows)), names)
        split = cell_splitter(self.format, layout, self.header)
        return lambda rows: columns_of_csv(list(map(decoded, rows)), split, len(names))

    def fits(self) -> list[Fit]:
        """Of the columns."""
        fit = fit_of_json if isinstance(self.format, JsonLines) else fit_of_csv
        return [fit(schema) for _, schema in self.leaf.layout.zoned(self.format.zone).columns]

    def check_header(self, raw: bytes) -> None:
        """Every file must have the header of the first."""
        assert isinstance(self.format, Csv)
        found = split_header(self.format, raw.decode("utf-8", "replace"))
        if found != self.header:
            raise RunError(
                "TT203",
                f"source {self.leaf.source.name!r}: a file has the columns {', '.join(found)}; "
                f"the first file has {', '.join(self.header or [])}",
                fix="give all files of a source the same columns in the same order",
            )


class LinesScan(SplitScan, TextScan):
    """Lines of local files."""

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[Taken | Chunk]]]:
        """Reads the files."""
        take = self.parser(read)
        for reading in self.readings(batches):
            yield reading.split.piece, take(reading.split.piece, reading.lines())


class Table(Protocol):
    """Rows as columns of a layout, by their number: a record batch, or what has yet to be read."""

    num_rows: int

    def column(self, at: int, /) -> Any:
        """An Arrow array of the layout's type."""


class ColumnScan(Scan):
    """Columns that Spark has read. In: the columns of the layout; with ``native`` the pairs that the first operator emits and
    whether Python has to say instead; then ``_time``, ``_file``, ``_start`` as for text."""

    def __init__(self, end: End, native: bool) -> None:
        super().__init__(end)
        self.native = native

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[Taken | Chunk]]]:
        """Takes the batches as they come."""
        take = taker(self.leaf, read, self.verifier)

        def taken(batch: pa.RecordBatch) -> Iterator[Taken | Chunk]:
            for one in take(batch):
                if self.native and isinstance(one, Chunk):
                    emitted, undefined = batch.column("_emitted"), batch.column("_undefined")
                    if not pc.any(undefined).as_py():
                        one.emitted = emitted
                yield one

        for piece, parts in groupby(runs(batches), key=lambda run: run[0]):
            yield piece, chained.from_iterable(taken(batch) for _, batch in parts)


class ParquetScan(SplitScan):
    """Parquet files on local disks."""

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[Taken | Chunk]]]:
        """Reads the files."""
        take = taker(self.leaf, read, self.verifier)

        def rows(reading: Reading) -> Iterator[Taken | Chunk]:
            split = reading.split
            with reading.sampled():
                for table in self.tables(split.path, split.start, split.parts):
                    yield from take(table)

        for reading in self.readings(batches):
            yield reading.split.piece, rows(reading)

    def tables(
        self, path: str, part: int, parts: int, constants: Mapping[str, str | None] | None = None
    ) -> Iterator[Table]:
        """The row groups of a part of a file, small ones together. ``constants``: columns that the file lacks and their one
        value, as text."""
        try:
            with open_parquet(path) as file, _coded(path, file, self.leaf) as coded:
                count = file.num_row_groups
                chosen = range(count * part // parts, count * (part + 1) // parts)
                groups = (RowGroup(path, file, group, self.leaf, coded, constants or {}) for group in chosen)
                yield from together(groups)
        except (OSError, pa.ArrowException) as error:
            raise RunError(
                "TT208", f"{path} cannot be read: {error}", fix="see whether the file is whole, then run again to go on"
            ) from error


def _coded(path: str, file: pq.ParquetFile, leaf: FromSource) -> pq.ParquetFile:
    """The file again, whose columns of text are read as dictionaries."""
    held = {file.schema.column(number).path for number in range(len(file.schema))}
    texts = [n for n, schema in leaf.layout.columns if n in held and isinstance(_bare(schema), String | Bytes)]
    return open_parquet(path, metadata=file.metadata, read_dictionary=texts)


def _bare(schema: Schema) -> Schema:
    return schema.item if isinstance(schema, Optional) else schema


class RowGroup:
    """A row group of a Parquet file, of which a column is read when it is asked for. ``coded``: the same file, whose columns
    of text come as dictionaries. ``constants``: columns of one value each, as text, which lie outside the file."""

    def __init__(
        self,
        path: str,
        file: pq.ParquetFile,
        group: int,
        leaf: FromSource,
        coded: pq.ParquetFile,
        constants: Mapping[str, str | None],
    ) -> None:
        self.constants, self.path, self.format = constants, path, leaf.source.format
        self.file, self.group, self.columns, self.coded = file, group, leaf.layout.columns, coded
        about = file.metadata.row_group(group)
        self.num_rows: int = about.num_rows
        self.bytes: int = about.total_byte_size
        self.names = set(file.schema_arrow.names)
        self.read: dict[int, Any] = {}

    def column(self, at: int) -> Any:
        """A column of the layout; one that the file lacks is null. Text may be dictionary encoded."""
        if at not in self.read:
            name, schema = self.columns[at]
            if name in self.constants and not isinstance(schema, UnitValue):
                self.read[at] = repeated(self.constants[name], arrow_type(schema), self.num_rows)
            elif name in self.names and not isinstance(schema, UnitValue):
                self.read[at] = self.cast(name, schema)
            else:
                self.read[at] = pa.nulls(self.num_rows, arrow_type(schema))
        return self.read[at]

    def cast(self, name: str, schema: Schema) -> Any:
        """A column as Arrow has it for the layout. A file may differ from the first one, which was looked at before the run."""
        where = f"{self.path}: the column {name!r}"
        try:
            file = self.coded if self.repeats(name) else self.file
            whole = file.read_row_group(self.group, columns=[name], use_threads=False).column(name).combine_chunks()
            zone = zone_of(self.file, name, self.format)
            if problem := misfit(whole.type, schema, zone):
                raise RunError("TT203", f"{where} is {problem[0]}", fix=problem[1])
            if whole.type == pa.dictionary(pa.int32(), arrow_type(schema)):
                return whole
            return converted(whole, schema, zone)
        except (OSError, KeyError, pa.ArrowException) as error:  # KeyError: there are two of that name
            raise RunError(
                "TT203",
                f"{where} cannot be read as {name_of(schema)}: {error}",
                fix="write the file with values of the field's type, then run again to go on",
            ) from error

    def is_whole(self, at: int) -> bool:
        """Is a column that has not been read known to hold no null, by the statistics of the file?"""
        name, _ = self.columns[at]
        column = self.about(name)
        statistics = None if column is None else column.statistics
        return statistics is not None and statistics.has_null_count and statistics.null_count == 0

    def repeats(self, name: str) -> bool:
        """Does a column repeat few values, as far as the metadata of the file tell, so that it is worth its dictionary?

        Where a dictionary would grow too large the rest of the values are written plain, and Arrow would have to find equal
        ones itself. Plain text takes four bytes a value for its length alone.
        """
        column = self.about(name)
        if column is None or not {"PLAIN_DICTIONARY", "RLE_DICTIONARY"} & set(column.encodings):
            return False
        return bool(column.total_uncompressed_size < 4 * column.num_values)

    def about(self, name: str) -> Any:
        """What the metadata of the file say of a column that is no struct or list; None where there is none."""
        group = self.file.metadata.row_group(self.group)
        for number in range(group.num_columns):
            column = group.column(number)
            if column.path_in_schema == name:
                return column
        return None


class RowGroups:
    """Adjacent row groups as one table."""

    def __init__(self, parts: Sequence[RowGroup]) -> None:
        self.parts = parts
        self.num_rows = sum(part.num_rows for part in parts)
        self.read: dict[int, Any] = {}

    def column(self, at: int) -> Any:
        """A column of the layout, as in :class:`RowGroup`."""
        if at not in self.read:
            found = [part.column(at) for part in self.parts]
            for part in self.parts:
                part.read.pop(at)
            if len({column.type for column in found}) > 1:  # not all of them repeat few values
                found = [one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for one in found]
            self.read[at] = pa.concat_arrays(found)
        return self.read[at]

    def is_whole(self, at: int) -> bool:
        """As in :class:`RowGroup`."""
        return all(part.is_whole(at) for part in self.parts)


def together(groups: Iterable[RowGroup]) -> Iterator[RowGroup | RowGroups]:
    """Row groups without the empty ones, small ones joined: the same keys are not sent once for each."""
    held: list[RowGroup] = []
    size = 0
    for group in groups:
        if not group.num_rows:
            continue
        if held and size + group.bytes > limits.TOGETHER:
            yield RowGroups(held) if len(held) > 1 else held[0]
            held, size = [], 0
        held.append(group)
        size += group.bytes
    if held:
        yield RowGroups(held) if len(held) > 1 else held[0]


def in_columns(
    leaf: FromSource, read: Callable[[Any, Any], Row], dialect: Dialect[R], verifier: Verifier | None = None
) -> Callable[[Sequence[R]], Iterator[Taken | Chunk]]:
    """Takes rows of a dialect: as columns where that can be, else one by one."""
    columnar = Columns.of(leaf, verifier)
    if columnar is None:
        return lambda rows: map(dialect.taken, rows)
    in_order = leaf.source.output == "rejects"
    return partial(chunks_of, leaf.layout, dialect, lambda table: columnar.chunk(table, read), in_order)


def repeated(text: str | None, kind: Any, count: int) -> Any:
    """A column of one value that is given as text, as the log of a table has it: the empty text is null, and an instant without
    a zone is in UTC. Raises :class:`RunError` ``TT203`` where there is no such value."""
    try:
        if text and pa.types.is_timestamp(kind):
            instant = dt.datetime.fromisoformat(text)
            one = pa.array([instant if instant.tzinfo else instant.replace(tzinfo=dt.UTC)], kind)
        else:
            one = pa.array([text or None], pa.string()).cast(kind)
    except (pa.ArrowException, ValueError) as error:
        raise RunError(
            "TT203", f"the partition value {text!r} is no {kind}: {error}", fix="change the type of the field"
        ) from error
    return pa.repeat(one[0], count)


def taker(
    leaf: FromSource, read: Callable[[Any, Any], Row], verifier: Verifier | None = None
) -> Callable[[Table], Iterator[Taken | Chunk]]:
    """Takes rows that come as columns of the layout: as columns where no row of them can be a reject, else one by one."""
    columnar = Columns.of(leaf, verifier)

    def take(table: Table) -> Iterator[Taken | Chunk]:
        chunk = columnar.chunk(table, read) if columnar is not None else None
        if chunk is not None:
            yield chunk
        elif isinstance(table, RowGroups):
            yield from chained.from_iterable(map(take, table.parts))
        else:
            yield from by_rows(table)

    by_rows = row_taker(leaf, read)
    return take


def row_taker(leaf: FromSource, read: Callable[[Any, Any], Row]) -> Callable[[Table], Iterator[Taken]]:
    """Takes rows one by one."""
    layout = leaf.layout
    schemas = [schema for _, schema in layout.columns]
    names = [name for name, _ in layout.columns]
    value = layout.value
    make: Callable[[list[list[Any]]], list[Any]] = lambda columns: columns[0]  # noqa: E731
    if layout.opened and isinstance(value, Record):
        make = builder(value.cls, tuple(name for name, _ in value.fields))

    def pairs(columns: list[Any]) -> tuple[list[Any], list[Any]]:
        whole = [from_array(schema, column) for schema, column in zip(schemas, columns, strict=True)]
        values = make(whole[1:] if layout.keyed else whole)
        return (whole[0] if layout.keyed else [UNIT] * len(values)), values

    def take(table: Table) -> Iterator[Taken]:
        count = table.num_rows
        columns = [table.column(at) for at in range(len(schemas))]

        def show(row: int) -> str:
            cells = {name: column[row].as_py() for name, column in zip(names, columns, strict=True)}
            return json.dumps(cells, ensure_ascii=False, default=str)

        bad: dict[int, str] = {}
        for name, schema, column in zip(names, schemas, columns, strict=True):
            for row in range(count) if has_gaps(schema, column) else ():
                if row not in bad and has_gaps(schema, column.slice(row, 1)):
                    bad[row] = str(Mismatch(f".{name}", column[row].as_py(), name_of(schema)))
        kept = pa.array([row for row in range(count) if row not in bad], pa.int64())
        try:
            keys, values = pairs([column.take(kept) for column in columns] if bad else columns)
        except Exception:  # the author's own validators: find the rows
            keys, values = [], []
            for row in kept.to_pylist():
                try:
                    key, value = pairs([column.slice(row, 1) for column in columns])
                except Exception as error:
                    bad[row] = f"{type(error).__name__}: {error}"
                else:
                    keys += key
                    values += value
        rest = zip(keys, values, strict=True)
        for row in range(count):
            if row in bad:
                yield Taken(Row("reject", reason=bad[row]), partial(show, row))
            else:
                yield Taken(read(*next(rest)), partial(show, row))

    return take


@attrs.frozen
class Columns:
    """How to take a :class:`Chunk` from columns of the layout: only when the functions that give key and event time could be
    traced, and every value that fits the columns' types fits the records."""

    leaf: FromSource
    numbers: dict[str, int]
    verifier: Verifier | None = None

    @classmethod
    def of(cls, leaf: FromSource, verifier: Verifier | None = None) -> Columns | None:
        """None where rows must be looked at one by one."""
        how, layout, source = leaf.source.markers, leaf.layout, leaf.source
        if not never_refuses(layout.value) or not never_refuses(layout.key):
            return None
        if not isinstance(how, EventTime) or not layout.opened or isinstance(source.ordered_by, Callable):  # type: ignore[arg-type]
            return None
        if isinstance(leaf.traced_time, Opaque) or (source.key is not None and isinstance(leaf.traced_key, Opaque)):
            return None
        return cls(leaf, {name: at for at, (name, _) in enumerate(layout.columns)}, verifier)

    def chunk(self, table: Table, read: Callable[[Any, Any], Row]) -> Chunk | None:
        """The chunk of columns, or None when a row of them might be rejected."""
        layout, value = self.leaf.layout, self.leaf.layout.value
        assert isinstance(value, Record)
        if any(_has_gaps(table, at, schema) for at, (_, schema) in enumerate(layout.columns)):
            return None

        def load(path: tuple[str | int, ...]) -> Any:
            if path[0] == "key":
                return inside(keys, path[1:])
            if len(path) > 1:
                return inside(table.column(self.numbers[str(path[1])]), path[2:])
            columns = [table.column(self.numbers[name]) for name, _ in value.fields]
            return pa.StructArray.from_arrays(columns, names=[name for name, _ in value.fields])

        def row(at: int) -> Row:
            fields = [
                from_array(schema, table.column(self.numbers[name]).slice(at, 1)) for name, schema in value.fields
            ]
            key = from_array(layout.key, table.column(0).slice(at, 1))[0] if layout.keyed else UNIT
            return read(key, builder(value.cls, tuple(name for name, _ in value.fields))(fields)[0])

        try:
            times, keys = self.times(table, load), self.keys(table, load)
        except Undefined:
            return None
        return Chunk(times, load, row)

    def keys(self, table: Table, load: Callable[[tuple[str | int, ...]], Any]) -> Any:
        """The keys. Raises :class:`Undefined` when one of them might be none."""
        schema, count = self.leaf.items.key, table.num_rows
        if self.leaf.source.key is None:
            found = table.column(0) if self.leaf.layout.keyed else pa.nulls(count)
            if isinstance(schema, Integer | Boolean | String | Timestamp | UnitValue):
                return found
            return to_arrow(schema, fit_key(schema, from_arrow(schema, found)), count)
        assert not isinstance(self.leaf.traced_key, Opaque)
        inputs = read_by(load)
        made = run(self.leaf.traced_key, inputs, count).result
        if made is None:
            raise Undefined(0)
        key = fit_key(schema, made)
        if self.verifier is not None:
            self.verifier.key(self.leaf, inputs, key, count)
        return to_coded_arrow(schema, key, count)

    def times(self, table: Table, load: Callable[[tuple[str | int, ...]], Any]) -> Any:
        """The event times in microseconds. Raises :class:`Undefined` when one of them is beyond all bounds, or is none."""
        how = self.leaf.source.markers
        assert isinstance(how, EventTime)
        assert not isinstance(self.leaf.traced_time, Opaque)
        inputs = read_by(load)
        made = run(self.leaf.traced_time, inputs, table.num_rows).result
        if not isinstance(made, Column) or made.scalar or made.valid is not None:
            raise Undefined(0)
        if self.verifier is not None:
            self.verifier.time(self.leaf, inputs, made, table.num_rows)
        factor, bound = MICROS[how.unit], 2**61
        match made.kind:
            case Timestamp():
                return made.values
            case Integer():
                if len(made.values) and max(-int(made.values.min()), int(made.values.max())) > bound // factor:
                    raise Undefined(0)
                return made.values * factor
            case Float():
                if not np.isfinite(made.values).all():
                    raise Undefined(0)
                times = np.rint(made.values * factor)
                if len(times) and np.abs(times).max() > bound:
                    raise Undefined(0)
                return times.astype(np.int64)
            case _:
                raise Undefined(0)


def _has_gaps(table: Table, at: int, schema: Schema) -> bool:
    if isinstance(schema, Optional | UnitValue) and not isinstance(getattr(schema, "item", None), Record):
        return False
    if isinstance(table, RowGroup | RowGroups) and table.is_whole(at):
        return False
    return has_gaps(schema, table.column(at))


def _parsed(raw: bytes, parse: Callable[[str], tuple[Any, Any]], read: Callable[[Any, Any], Row]) -> Row:
    try:
        key, value = parse(raw.decode())
    except UnicodeDecodeError as error:
        return Row("reject", reason=f"not UTF-8: {error.reason} at byte {error.start}")
    except Mismatch as error:
        return Row("reject", reason=str(error))
    return read(key, value)


def runs(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Piece, pa.RecordBatch]]:
    """Batches cut where the piece changes."""
    for batch in _larger(batches):
        count = batch.num_rows
        if count == 0:
            continue
        places = [batch.column(batch.num_columns - 3 + at).to_numpy(zero_copy_only=False) for at in range(3)]
        changes = np.zeros(count, bool)
        for place in places:
            changes[1:] |= place[1:] != place[:-1]
        starts = [0, *np.nonzero(changes)[0].tolist(), count]
        for start, end in pairwise(starts):
            piece = (int(places[0][start]), int(places[1][start]), int(places[2][start]))
            yield piece, batch.slice(start, end - start)


def _larger(batches: Iterator[pa.RecordBatch], rows: int = 100_000) -> Iterator[pa.RecordBatch]:
    """Batches joined to about ``rows`` rows: what is done once a batch is done less often."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held, count = [], 0
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


class _Before:
    """What the driver knows of a reading of a source before this micro-batch."""

    def __init__(self, reading: str) -> None:
        context = TaskContext.get()
        told = context.getLocalProperty(BEFORE) if context is not None else None
        known = json.loads(told) if told else {}
        batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
        current = str(known.get("batch")) == str(batch)
        self.newest: list[int | None] = known.get("newest", {}).get(reading, []) if current else []
        self.pieces = {tuple(piece): newest for piece, newest in known.get("pieces", {}).get(reading, [])}

    def of(self, piece: Piece, part: int) -> int | None:
        """The newest event time before a piece in its part of the source, as far as is known."""
        return self.pieces.get(piece, self.newest[part] if part < len(self.newest) else None)
