"""Rows of a source as input of a kernel: as columns if possible, otherwise one by one."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain as chained
from typing import Any, Final, TypeVar

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.columns.arrow import from_array, has_choices, has_gaps
from tracetypes.compiler.columns.column import Column, take
from tracetypes.compiler.columns.column import Columns as KeyColumns
from tracetypes.compiler.columns.conversion import from_arrow, to_arrow
from tracetypes.compiler.columns.evaluation import return_values, values_of_others
from tracetypes.compiler.columns.pending_take import array_of
from tracetypes.compiler.connectors.fitted_columns import Conversion, Misfits
from tracetypes.compiler.connectors.parquet_row_groups import RowGroup, RowGroups, Table
from tracetypes.compiler.connectors.text import Dialect, ParsedRows, chunks_of
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk, in_order, inside
from tracetypes.compiler.runtime.flows import Inputs, fit_key, read_by
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.compiler.tracing.expr import Tree, Undefined
from tracetypes.conformance import construct, name_of
from tracetypes.errors import RunError
from tracetypes.formats import Layout
from tracetypes.markers import MICROS, EventTime
from tracetypes.parsing import Row
from tracetypes.record_classes import stores_only
from tracetypes.record_copies import Builder, builder, never_refuses
from tracetypes.records import (
    UNIT,
    Boolean,
    Bytes,
    Date,
    DecimalOf,
    Float,
    Integer,
    ListOf,
    Mismatch,
    OneOf,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    UnitValue,
    Unsigned,
)

__all__ = ["Columns", "R", "fitted_rows", "in_columns", "parsed_row", "row_taker", "taker"]


R = TypeVar("R")

MOST_ASIDE: Final = 0.1
"""Of the rows of a block, how many may be taken one by one while the others stay columns."""


def in_columns(
    leaf: FromSource, dialect: Dialect[R], verifier: Verifier | None = None
) -> Callable[[Sequence[R]], Iterator[TakenRow | Chunk]]:
    """Takes rows of a dialect, as columns if possible, otherwise one by one."""
    columnar = Columns.of(leaf, verifier)
    if columnar is None:
        return lambda rows: map(dialect.row_of, rows)
    in_order = leaf.source.output == "rejects"
    return partial(chunks_of, leaf.layout, dialect, columnar, in_order)


def taker(
    leaf: FromSource, read: Callable[[Any, Any], Row], verifier: Verifier | None = None
) -> Callable[[Table], Iterator[TakenRow | Chunk]]:
    """Takes rows that come as columns of the layout: as columns if none of them can be a reject, otherwise one by one."""
    columnar = Columns.of(leaf, verifier)

    def take(table: Table) -> Iterator[TakenRow | Chunk]:
        chunk = columnar.chunk(table) if columnar is not None else None
        if chunk is not None:
            yield chunk
        elif isinstance(table, RowGroups):
            yield from chained.from_iterable(map(take, table.parts))
        else:
            yield from by_rows(table)

    by_rows = row_taker(leaf, read)
    return take


def fitted_rows(layout: Layout, columns: Sequence[Any], conversion: Conversion, where: str) -> ParsedRows:
    """Arrow arrays whose types have no ``misfit``, as columns of a layout. Raises :class:`RunError` ``TT203``."""
    arrays, unfit = [], {}
    for at, ((name, schema), column) in enumerate(zip(layout.columns, columns, strict=True)):
        try:
            fitted = conversion.of(column, schema)
        except pa.ArrowException as error:
            raise RunError(
                "TT203",
                f"{where}: the column {name!r} cannot be read as {name_of(schema)}: {error}",
                fix="give values of the field's type",
            ) from error
        arrays.append(fitted.array)
        if fitted.unfit is not None:
            unfit[at] = Misfits(name, column, schema, conversion, fitted.unfit)
    return ParsedRows(tuple(arrays), len(columns[0]), unfit)


def row_taker(leaf: FromSource, read: Callable[[Any, Any], Row]) -> Callable[[Table], Iterator[TakenRow]]:
    """Takes rows one by one."""
    layout = leaf.layout
    schemas = [schema for _, schema in layout.columns]
    names = [name for name, _ in layout.columns]
    value = layout.value
    make: Callable[[list[list[Any]]], list[Any]] = lambda columns: columns[0]  # noqa: E731
    if layout.opened and isinstance(value, Record):
        make = constructed(value.cls, tuple(name for name, _ in value.fields))

    def pairs(columns: list[Any]) -> tuple[list[Any], list[Any]]:
        whole = [from_array(schema, column, constructed) for schema, column in zip(schemas, columns, strict=True)]
        values = make(whole[1:] if layout.keyed else whole)
        return (whole[0] if layout.keyed else [UNIT] * len(values)), values

    def take(table: Table) -> Iterator[TakenRow]:
        count = table.num_rows
        columns = [table.column(at) for at in range(len(schemas))]
        misfits = {names[at]: found for at in range(len(schemas)) if (found := table.misfits(at)) is not None}

        def show(row: int) -> str:
            cells = {name: column[row].as_py() for name, column in zip(names, columns, strict=True)}
            cells.update((name, found.shown(row)) for name, found in misfits.items() if found.unfit[row])
            return json.dumps(cells, ensure_ascii=False, default=str)

        bad: dict[int, str] = {}
        for found in misfits.values():
            for row in found.rows:
                bad.setdefault(row, found.reason(row))
        for name, schema, column in zip(names, schemas, columns, strict=True):
            for row in range(count) if has_gaps(schema, column) else ():
                if row not in bad and has_gaps(schema, column.slice(row, 1)):
                    bad[row] = str(Mismatch(f".{name}", column[row].as_py(), name_of(schema)))
        good = pa.array([row for row in range(count) if row not in bad], pa.int64())
        try:
            keys, values = pairs([column.take(good) for column in columns] if bad else columns)
        except Mismatch:  # of the author's own validators: find the rows
            keys, values = [], []
            for row in good.to_pylist():
                try:
                    key, value = pairs([column.slice(row, 1) for column in columns])
                except Mismatch as error:
                    bad[row] = str(error)
                else:
                    keys += key
                    values += value
        rest = zip(keys, values, strict=True)
        for row in range(count):
            if row in bad:
                yield TakenRow(Row("reject", reason=bad[row]), partial(show, row))
            else:
                yield TakenRow(read(*next(rest)), partial(show, row))

    return take


def constructed(cls: type[Any], names: tuple[str, ...]) -> Builder:
    """Makes records of columns from outside: by the constructor, if it does more than to store its arguments."""
    if stores_only(cls):
        return builder(cls, names)
    return lambda columns: [construct(cls, dict(zip(names, row, strict=True)), "") for row in zip(*columns, strict=True)]


@attrs.frozen
class Columns:
    """Makes a :class:`Chunk` from columns of the layout. This is possible only if the functions for key and event time
    are traced, and every value that fits the columns' types fits the records. ``key``: the function for the key with
    its tree, if the source has one."""

    leaf: FromSource
    value: Schema
    how: EventTime
    time: Tree
    key: tuple[Callable[[Any], Any], Tree] | None
    numbers: dict[str, int]
    """Of the columns, by the fields of the value."""
    whole: tuple[int, ...]
    """Columns that have a value in each row if they have no null."""
    others: tuple[tuple[int, Schema], ...]
    """Other columns that may lack a value."""
    verifier: Verifier | None = None

    @classmethod
    def of(cls, leaf: FromSource, verifier: Verifier | None = None) -> Columns | None:
        """None if rows must be checked one by one."""
        how, layout, source = leaf.source.markers, leaf.layout, leaf.source
        value, time, key = layout.value, leaf.traced_time, None
        if not never_refuses(value) or not never_refuses(layout.key):
            return None
        if not isinstance(how, EventTime) or leaf.has_clock:
            return None
        if isinstance(source.ordered_by, Callable):  # type: ignore[arg-type]
            return None
        if isinstance(time, Opaque) or not (layout.opened or isinstance(value, String)):
            return None
        if source.key is not None:
            if isinstance(leaf.traced_key, Opaque):
                return None
            key = source.key, leaf.traced_key
        schemas = [(at, schema) for at, (_, schema) in enumerate(layout.columns) if not _is_never_missing(schema)]
        whole = tuple(at for at, schema in schemas if isinstance(schema, _WHOLE))
        others = tuple((at, schema) for at, schema in schemas if not isinstance(schema, _WHOLE))
        return cls(leaf, value, how, time, key, layout.places, whole, others, verifier)

    def chunk(self, table: Table, times: KeyColumns | None = None) -> Chunk | None:
        """The chunk of columns. None if a row of them might be rejected. ``times``: the event times, if there are any yet."""
        try:
            return self.chunk_of_all(table, times)
        except Undefined:
            return None

    def chunk_of_most(self, table: ParsedRows) -> tuple[Chunk | None, Any]:
        """The chunk of the rows for which the functions for time and key have a value, and the numbers of the other rows (int64,
        ascending; None if there are none), if these are few. No chunk if they are not known, or many."""
        count, times = table.num_rows, None
        try:
            return self.chunk_of_all(table), None
        except Undefined as error:
            aside = error.rows
            if aside is None or len(aside) > count * MOST_ASIDE:
                return None, None
            if self.key is None and (columns := values_of_others(error, count)) is not None:
                times = take(columns, np.delete(np.arange(count), aside))
        if isinstance(times, Column) and times.valid is not None and times.valid.all():
            times = Column(times.kind, times.storage)
        return self.chunk(table.without(aside), times), aside

    def chunk_of_all(self, table: Table, times: KeyColumns | None = None) -> Chunk | None:
        """The chunk of columns. None if one lacks a value, or has one that does not fit. Raises :class:`Undefined`."""
        if not self.fits(table):
            return None

        def load(path: tuple[str | int, ...]) -> Any:
            return inside(keys(), path[1:]) if path[0] == "key" else self.loaded(table, path)

        inputs = read_by(load)
        stamps, ordered, unit = self.stamps(table, inputs, times)
        columns = None if self.key is None else self.computed_keys(self.key, table.num_rows, inputs)
        keys = self.keys(table, columns)
        chunk = Chunk(stamps, load, ordered, unit)
        chunk.keys = columns
        return chunk

    def fits(self, table: Table) -> bool:
        """Whether each column has a value of its type in each row."""
        if any(table.misfits(at) is not None for at in range(len(self.leaf.layout.columns))):
            return False
        in_file = table if isinstance(table, RowGroup | RowGroups) else None
        for at in self.whole:
            if not (in_file is not None and in_file.is_whole(at)) and table.column(at).null_count:
                return False
        return not any(_has_gaps(table, at, schema) for at, schema in self.others)

    def loaded(self, table: Table, path: tuple[str | int, ...]) -> Any:
        """The Arrow array of a part of the values."""
        if len(path) > 1:
            return inside(table.column(self.numbers[str(path[1])]), path[2:])
        if not isinstance(self.value, Record):
            return table.column(int(self.leaf.layout.keyed))
        columns = [table.column(self.numbers[name]) for name, _ in self.value.fields]
        return pa.StructArray.from_arrays(columns, names=[name for name, _ in self.value.fields])

    def keys(self, table: Table, columns: KeyColumns | None) -> Callable[[], Any]:
        """The Arrow array of the keys, which were computed as ``columns``. Raises :class:`Undefined` if one of them might not be
        a key."""
        schema, count = self.leaf.items.key, table.num_rows
        if columns is not None:
            if isinstance(columns, Column) and type(array_of(columns.storage)) is np.ndarray:
                return lambda: to_arrow(schema, columns, count)
            array = to_arrow(schema, columns, count, keep_codes=True)
            return lambda: array
        column = table.column(0) if self.leaf.layout.keyed else pa.nulls(count)
        if not isinstance(schema, Integer | Boolean | String | Timestamp | UnitValue):
            column = to_arrow(schema, fit_key(schema, from_arrow(schema, column)), count)
        return lambda: column

    def computed_keys(self, key: tuple[Callable[[Any], Any], Tree], count: int, inputs: Inputs) -> KeyColumns:
        """The keys by the function of the source. Raises :class:`Undefined` if one of them might not be a key."""
        schema, (function, tree) = self.leaf.items.key, key
        columns = fit_key(schema, return_values(tree, inputs, count))
        if self.verifier is not None:
            self.verifier.key(self.leaf, function, tree, inputs, columns, count)
        return columns

    def stamps(self, table: Table, inputs: Inputs, times: KeyColumns | None) -> tuple[Any, bool, int]:
        """The event times in their own unit (int64), whether they are in order, and how many microseconds the unit has. Raises
        :class:`Undefined` if one of them is out of bounds, or is not a time."""
        column = return_values(self.time, inputs, table.num_rows) if times is None else times
        if not isinstance(column, Column) or column.scalar or column.valid is not None:
            raise Undefined(0)
        if self.verifier is not None:
            self.verifier.function(self.leaf, "time", self.instant, self.time, inputs, column, table.num_rows)
        factor = MICROS[self.how.unit]
        values = column.values
        match column.kind:
            case Timestamp():
                ordered = in_order(values)
                self.need_blocks(values, ordered)
                return values, ordered, 1
            case Integer():
                ordered = in_order(values)
                self.need_blocks(values, ordered, factor)
                return values, ordered, factor
            case Float():
                if not np.isfinite(values).all():
                    raise Undefined(0)
                rounded = np.rint(values * factor)
                if len(rounded) and np.abs(rounded).max() > 2**61:
                    raise Undefined(0)
                micros = rounded.astype(np.int64)
                ordered = in_order(micros)
                self.need_blocks(micros, ordered)
                return micros, ordered, 1
            case _:
                raise Undefined(0)

    def instant(self, value: Any) -> Any:
        """The event time of a value, in UTC if it is a time."""
        time = self.how.time(value)
        return time.astimezone(dt.UTC) if isinstance(time, dt.datetime) and time.tzinfo is not None else time

    def need_blocks(self, values: Any, ordered: bool, factor: int = 1) -> None:
        """Raises :class:`Undefined` if a time has no block, so that its row is a reject. ``factor``: microseconds in a unit."""
        if len(values):
            least, most = (values[0], values[-1]) if ordered else (values.min(), values.max())
            if not self.how.has_block(int(least) * factor, int(most) * factor):
                raise Undefined(0)


_NESTED = (Record, ListOf, OneOf)

_WHOLE = (Boolean, Integer, Float, String, Bytes, Timestamp, Date, Unsigned, DecimalOf)
"""Schemas all of whose values are in their columns, and no others but nulls."""


def _is_never_missing(schema: Schema) -> bool:
    """Whether a row never lacks a value of a schema."""
    return (
        not has_choices(schema)
        and isinstance(schema, Optional | UnitValue)
        and not isinstance(getattr(schema, "item", None), _NESTED)
    )


def _has_gaps(table: Table, at: int, schema: Schema) -> bool:
    if isinstance(table, RowGroup | RowGroups) and not has_choices(schema) and table.is_whole(at):
        return False
    return has_gaps(schema, table.column(at))


def parsed_row(
    raw: bytes, parse: Callable[[str], tuple[Any, Any]], read: Callable[[Any, Any], Row], encoding: str = "utf-8"
) -> Row:
    """A row of text. ``encoding``: that of its file, of which ``raw`` was made."""
    try:
        key, value = parse(raw.decode())
    except UnicodeDecodeError as error:
        reason = f"not UTF-8: {error.reason} at byte {error.start}" if encoding == "utf-8" else f"not {encoding}"
        return Row("reject", reason=reason)
    except Mismatch as error:
        return Row("reject", reason=str(error))
    return read(key, value)
