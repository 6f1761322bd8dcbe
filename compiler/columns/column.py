"""Columns of numpy and Arrow as expressions are computed over them, and what they are made of and into."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, assert_never, cast, final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.algebra import ExactSum
from tracetypes.compiler.columns.arrow import arrow_type, builder, from_array
from tracetypes.compiler.columns.dictionary import DictionaryEncoded
from tracetypes.compiler.columns.exact import Exacts
from tracetypes.compiler.tracing.expr import Exact, Input, Kind, Undefined
from tracetypes.records import (
    INT_MAX,
    INT_MIN,
    UNIT,
    Boolean,
    Bytes,
    Date,
    Float,
    Integer,
    ListOf,
    OneOf,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    UnitValue,
    datetime_of,
    micros_of,
)

__all__ = [
    "BOOLEAN",
    "INTEGER",
    "PLAIN",
    "ZERO",
    "Column",
    "Columns",
    "Struct",
    "arrow_inputs",
    "bare_kind",
    "concat",
    "constant",
    "either_mask",
    "exacts_of",
    "from_arrow",
    "full_values",
    "has_utf8",
    "inputs_of",
    "merged_columns",
    "python_values",
    "take",
    "take_column",
    "to_arrow",
    "to_coded_arrow",
    "values_of",
]


@final
@attrs.frozen(eq=False)
class Column:
    """A scalar of each row.

    ``kind``: never Optional; None only for a column of None. ``values``, by kind: Boolean a bool array; Integer, Timestamp
    (microseconds) and Date (days since the epoch) int64 arrays; Float a float64 array; String and Bytes an Arrow array
    without nulls; Exact a float64 array, each float standing for the sum of itself, or :class:`Exacts`; any other schema
    its Arrow array, to be passed on. Or one scalar for all rows: a Python bool, int (of Timestamp and Date too), float,
    str, bytes, ``ExactSum``, ``UNIT``, or None.

    ``held``: the values as they are kept, which may be :class:`DictionaryEncoded`; ``values`` are never.

    ``valid``: a bool array, which rows are present; None for all. ``undefined``: a bool array, for which rows the
    expression has no value; None for none. What ``values`` holds where a row is missing or undefined means nothing.
    """

    kind: Kind | None
    held: Any = attrs.field(alias="values")
    valid: Any = None
    undefined: Any = None

    @property
    def values(self) -> Any:
        """The values of the rows, or one for all."""
        return self.held.plain() if isinstance(self.held, DictionaryEncoded) else self.held

    @property
    def coded(self) -> DictionaryEncoded | None:
        """The column by its entries, where computing something of each entry is less than doing it of each row."""
        return self.held if isinstance(self.held, DictionaryEncoded) and self.held.pays else None

    @property
    def scalar(self) -> bool:
        """Is it one value for all rows?"""
        return not isinstance(self.held, _ARRAYS)


_ARRAYS: Final = (np.ndarray, pa.Array, Exacts, DictionaryEncoded)


@final
@attrs.frozen(eq=False)
class Struct:
    """The columns of a record or tuple, as :class:`tracetypes.compiler.tracing.expr.Pack` names them. A part is None when it was
    not read; that is no error until it is used. ``valid`` as in :class:`Column`."""

    cls: type[Any]
    names: tuple[str, ...]
    parts: tuple[Columns | None, ...]
    valid: Any = None


Columns: TypeAlias = Column | Struct


def from_arrow(schema: Schema, array: Any) -> Columns:
    """An Arrow array of ``columns.arrow_type(schema)`` as columns. Fields that the struct does not have become missing
    parts; nulls become missing rows, also where the schema has no optional."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type) and (array.dictionary.null_count or not isinstance(bare_kind(schema), _TEXT)):
        array = array.dictionary_decode()
    valid = None
    if array.null_count and not isinstance(schema, UnitValue):
        valid = array.is_valid().to_numpy(zero_copy_only=False)
    match schema:
        case Optional(item):
            return from_arrow(item, array)
        case Record(cls, fields):
            held = {array.type.field(n).name: part for n, part in enumerate(array.flatten())}
            parts = tuple(from_arrow(inner, held[name]) if name in held else None for name, inner in fields)
            return Struct(cls, tuple(name for name, _ in fields), parts, valid)
        case UnitValue():
            return Column(schema, UNIT)
        case Boolean():
            values = (array if valid is None else pc.fill_null(array, False)).to_numpy(zero_copy_only=False)
        case Float():
            values = (array if valid is None else pc.fill_null(array, 0.0)).to_numpy()
        case Integer() | Timestamp() | Date():
            if isinstance(schema, Date):
                array = array.cast(pa.int32())
            elif isinstance(schema, Timestamp):
                array = array.cast(_TIMESTAMP)
            array = array.cast(pa.int64())
            values = (array if valid is None else pc.fill_null(array, 0)).to_numpy()
        case String() | Bytes():
            if pa.types.is_dictionary(array.type) and array.type.value_type == arrow_type(schema):
                return Column(schema, DictionaryEncoded.from_arrow(array), valid)
            array = array.cast(arrow_type(schema))
            values = array if valid is None else pc.fill_null(array, "" if isinstance(schema, String) else b"")
        case ListOf() | OneOf():
            values = array
        case _:
            assert_never(schema)
    return Column(schema, values, valid)


_TEXT: Final = (String, Bytes)

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


def to_arrow(schema: Schema, columns: Columns, count: int) -> Any:
    """The Arrow array of ``columns.arrow_type(schema)``, ``count`` rows. Integers become floats where the schema says so,
    as values do that conform. Raises ``Undefined`` when a value does not fit the schema."""
    optional = isinstance(schema, Optional)
    if isinstance(schema, Optional):
        schema = schema.item
    if not optional and columns.valid is not None and not columns.valid.all():
        raise Undefined(int(np.argmin(columns.valid)))
    missing = None if columns.valid is None else pa.array(~columns.valid)
    if isinstance(columns, Struct):
        return _struct_to_arrow(schema, columns, count, missing)
    if columns.undefined is not None and columns.undefined.any():
        raise Undefined(int(np.argmax(columns.undefined)))
    if columns.kind is None:
        if count and not optional:
            raise Undefined(0)
        return pa.nulls(count, arrow_type(schema))
    if type(columns.kind) is Integer and isinstance(schema, Float):
        columns = Column(schema, full_values(columns, count).astype(np.float64))
    if columns.kind != schema:
        raise Undefined(0)
    values = full_values(columns, count)
    match schema:
        case UnitValue():
            return pa.nulls(count)
        case Boolean() | Integer() | Float():
            made = pa.array(values)
        case Timestamp():
            made = pa.array(values).cast(_TIMESTAMP)
        case Date():
            made = pa.array(values.astype(np.int32)).cast(pa.date32())
        case _:
            made = values
    return made if missing is None or not len(made) else pc.if_else(missing, pa.scalar(None, made.type), made)


def to_coded_arrow(schema: Schema, columns: Columns, count: int) -> Any:
    """The same, but text that is held by its entries becomes a dictionary array."""
    if isinstance(columns, Struct) or not isinstance(columns.held, DictionaryEncoded) or not isinstance(schema, _TEXT):
        return to_arrow(schema, columns, count)
    plain = columns.valid is None and columns.undefined is None and columns.kind == schema
    return columns.held.to_arrow() if plain else to_arrow(schema, columns, count)


def _struct_to_arrow(schema: Schema, columns: Struct, count: int, missing: Any) -> Any:
    kind = arrow_type(schema)
    match schema:
        case OneOf(members):
            if columns.cls not in [member.cls for member in members]:
                raise Undefined(0)
            parts = [
                to_arrow(m, columns, count) if m.cls is columns.cls else pa.nulls(count, arrow_type(m)) for m in members
            ]
        case Record(cls, fields):
            if columns.cls is not cls:
                raise Undefined(0)
            given = dict(zip(columns.names, columns.parts, strict=True))
            parts = []
            for name, inner in fields:
                part = given[name]
                if part is None:
                    raise LookupError(f"the field {name} was not read")
                if columns.valid is not None:
                    # A row that is missing as a whole may be missing in its fields.
                    inner = inner if isinstance(inner, Optional | UnitValue) else Optional(inner)
                parts.append(to_arrow(inner, part, count))
        case _:
            raise Undefined(0)
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=missing)


def values_of(columns: Columns, count: int) -> list[Any]:
    """As Python values, None where missing. Raises LookupError for a part that was not read."""
    if columns.valid is not None:
        present = np.flatnonzero(columns.valid)
        some = take(columns, present)
        made: list[Any] = [None] * count
        for row, value in zip(present.tolist(), values_of(attrs.evolve(some, valid=None), len(present)), strict=True):
            made[row] = value
        return made
    if isinstance(columns, Column):
        return python_values(columns, count)
    if any(part is None for part in columns.parts):
        raise LookupError("a field was not read")
    parts = [values_of(part, count) for part in columns.parts if part is not None]
    if not parts:
        return [columns.cls() for _ in range(count)]
    if columns.cls is tuple:
        return list(zip(*parts, strict=True))
    return builder(columns.cls, columns.names)(parts)


def python_values(column: Column, count: int) -> list[Any]:
    """As Python values; none is missing."""
    if isinstance(column.kind, _TEXT) and column.coded is not None:
        known = column.coded.entries.tolist()
        return [known[code] for code in column.coded.codes.tolist()]
    values = column.values
    if column.scalar:
        held = [values] * count
    elif isinstance(values, Exacts):
        return values.sums()
    elif isinstance(column.kind, ListOf | OneOf):
        return from_array(column.kind, values)
    else:
        held = values.tolist()
    match column.kind:
        case Timestamp():
            return [datetime_of(micros) for micros in held]
        case Date():
            return [dt.date.fromordinal(days + EPOCH_DAY) for days in held]
        case Exact() if not column.scalar:
            return list(map(ExactSum.of, held))
        case _:
            return held


EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()


def inputs_of(arguments: Mapping[str, Columns]) -> Callable[[Input], Column]:
    """What :func:`evaluate` and :func:`run` ask for inputs, from columns by the names of arguments.

    Raises LookupError for a part that was not read.
    """

    def find(given: Input) -> Column:
        found: Columns = arguments[cast(str, given.path[0])]
        valid = found.valid
        for step in given.path[1:]:
            if not isinstance(found, Struct):
                raise LookupError(f"no columns below {given.path}")
            part = found.parts[step if isinstance(step, int) else found.names.index(step)]
            if part is None:
                raise LookupError(f"the field {step} was not read")
            found = part
            valid = _both(valid, found.valid)
        if isinstance(found, Struct):
            return Column(UnitValue(), UNIT, valid)
        return found if valid is found.valid else Column(found.kind, found.held, valid, found.undefined)

    return find


def arrow_inputs(arguments: Mapping[str, tuple[Schema, Any]]) -> Callable[[Input], Column]:
    """The same from Arrow arrays of the schemas of the arguments; only the fields that are asked for are converted."""

    def find(given: Input) -> Column:
        schema, array = arguments[cast(str, given.path[0])]
        for step in given.path[1:]:
            schema = schema.item if isinstance(schema, Optional) else schema
            place = array.type.get_field_index(step) if isinstance(schema, Record) else -1
            if place < 0 or not isinstance(schema, Record):
                raise LookupError(f"the field {step} was not read")
            if isinstance(array, pa.ChunkedArray):
                array = array.combine_chunks()
            schema = dict(schema.fields)[cast(str, step)]
            array = array.flatten()[place] if array.null_count else array.field(place)
        found = from_arrow(schema, array)
        return Column(UnitValue(), UNIT, found.valid) if isinstance(found, Struct) else found

    return find


def _both(a: Any, b: Any) -> Any:
    """Masks: where both, None being everywhere."""
    return b if a is None else a if b is None else a & b


def either_mask(a: Any, b: Any) -> Any:
    """Masks: where one or the other, None being nowhere."""
    return b if a is None else a if b is None else a | b


def take(columns: Columns, rows: Any) -> Columns:
    """The rows of these numbers (an int64 array). A scalar stays one."""
    if isinstance(columns, Struct):
        parts = tuple(None if part is None else take(part, rows) for part in columns.parts)
        return Struct(columns.cls, columns.names, parts, None if columns.valid is None else columns.valid[rows])
    return take_column(columns, rows)


def take_column(column: Column, rows: Any) -> Column:
    values, valid, undefined = column.held, column.valid, column.undefined
    if isinstance(values, np.ndarray):
        values = values[rows]
    elif isinstance(values, pa.Array):
        values = values.take(pa.array(rows))
    elif isinstance(values, Exacts | DictionaryEncoded):
        values = values.take(rows)
    return Column(
        column.kind,
        values,
        None if valid is None else valid[rows],
        None if undefined is None else undefined[rows],
    )


def full_values(column: Column, count: int) -> Any:
    """The values as an array, however they are held."""
    values = column.values
    if isinstance(values, _ARRAYS):
        return values
    match column.kind:
        case Boolean():
            return np.full(count, values, np.bool_)
        case Integer() | Timestamp() | Date():
            return np.full(count, values, np.int64)
        case Float():
            return np.full(count, values, np.float64)
        case String() | Bytes() as schema:
            return pa.repeat(pa.scalar(values, arrow_type(schema)), count)
        case Exact():
            return Exacts.from_sums([values]).take(np.zeros(count, np.int64))
        case _:
            return values


def concat(parts: Sequence[tuple[Columns, int]]) -> Columns:
    """Columns behind one another, each with its number of rows. Raises ``Undefined`` when they are not of one shape."""
    starts = np.cumsum([0, *[count for _, count in parts]])
    placed = [(columns, np.arange(a, b)) for (columns, _), a, b in zip(parts, starts[:-1], starts[1:], strict=True)]
    return merged_columns(placed, int(starts[-1]))


def merged_columns(parts: Sequence[tuple[Columns, Any]], count: int) -> Columns:
    """One column from several, each with the rows that it is for."""
    structs = [(columns, rows) for columns, rows in parts if isinstance(columns, Struct)]
    scalars = [(columns, rows) for columns, rows in parts if isinstance(columns, Column)]
    if structs:
        first = structs[0][0]
        same = all(s.cls is first.cls and len(s.parts) == len(first.parts) for s, _ in structs)
        if not same or any(column.kind is not None for column, _ in scalars):
            raise Undefined(0)
        made = []
        for at in range(len(first.parts)):
            pieces = [(s.parts[at], rows) for s, rows in structs]
            known = [(piece, rows) for piece, rows in pieces if piece is not None]
            made.append(merged_columns(known, count) if len(known) == len(pieces) else None)
        return Struct(first.cls, first.names, tuple(made), _merge_valid(parts, count))
    kinds = {column.kind for column, _ in scalars if column.kind is not None}
    if not kinds:
        return Column(None, None)
    if len(kinds) > 1:
        raise Undefined(0)
    kind = kinds.pop()
    present = [(column, rows) for column, rows in scalars if column.kind is not None]
    values: Any
    if isinstance(kind, UnitValue):
        values = UNIT
    elif isinstance(kind, Exact):
        exacts = Exacts.concat([exacts_of(column, len(rows)) for column, rows in present] + [Exacts.zero(1)])
        values = exacts.take(_places([len(rows) for _, rows in present], [rows for _, rows in present], count))
    elif isinstance(kind, Boolean | Integer | Float | Timestamp | Date):
        dtype = np.bool_ if isinstance(kind, Boolean) else np.float64 if isinstance(kind, Float) else np.int64
        values = np.zeros(count, dtype)
        for column, rows in present:
            values[rows] = column.values
    else:
        arrays = [column.values if not column.scalar else full_values(column, 1) for column, _ in present]
        filler = pa.nulls(1, arrays[0].type) if not isinstance(kind, String | Bytes) else full_values(_empty(kind), 1)
        places = _places([len(a) for a in arrays], [rows for _, rows in present], count)
        values = pa.concat_arrays([*arrays, filler]).take(pa.array(places))
    undefined = None
    if any(column.undefined is not None for column, _ in present):
        undefined = np.zeros(count, np.bool_)
        for column, rows in present:
            if column.undefined is not None:
                undefined[rows] = column.undefined
    return Column(kind, values, _merge_valid(parts, count), undefined)


def _empty(kind: String | Bytes) -> Column:
    return Column(kind, "" if isinstance(kind, String) else b"")


def _places(lengths: list[int], rows: list[Any], count: int) -> Any:
    """Where each row lies in the concatenation of arrays; those of no array at its end. An array of length one may serve
    many rows."""
    places = np.full(count, sum(lengths), np.int64)
    start = 0
    for length, which in zip(lengths, rows, strict=True):
        places[which] = start if length == 1 else np.arange(start, start + length)
        start += length
    return places


def _merge_valid(parts: Sequence[tuple[Columns, Any]], count: int) -> Any:
    if all(columns.valid is None and not _is_none(columns) for columns, _ in parts):
        covered = sum(len(rows) for _, rows in parts)
        if covered == count:
            return None
    valid = np.zeros(count, np.bool_)
    for columns, rows in parts:
        valid[rows] = False if _is_none(columns) else True if columns.valid is None else columns.valid
    return valid


def _is_none(columns: Columns) -> bool:
    return isinstance(columns, Column) and columns.kind is None


def exacts_of(column: Column, count: int) -> Exacts:
    values = column.values
    if isinstance(values, Exacts):
        return values
    return Exacts.of(values) if isinstance(values, np.ndarray) else cast(Exacts, full_values(column, count))


def bare_kind(kind: Kind | None) -> Kind | None:
    return kind.item if isinstance(kind, Optional) else kind


BOOLEAN: Final = Boolean()

PLAIN: Final = (Timestamp, Date)
"""Kinds whose columns hold integers."""

INTEGER: Final = Integer()

ZERO: Final[dict[Any, Any]] = {
    type(None): None,
    Boolean: False,
    Integer: 0,
    Float: 0.0,
    String: "",
    Bytes: b"",
    Timestamp: 0,
    Date: 0,
    UnitValue: UNIT,
    Exact: ExactSum(),
    # Values of these are passed on, and never computed.
    ListOf: None,
    OneOf: None,
    Record: None,
}


def constant(value: Any, kind: Kind | None) -> Column | None:
    """A column of one value; None when the value is not of the kind or does not fit its column."""
    if value is None:
        return Column(None, None)
    match kind:
        case Boolean() if type(value) is bool:
            return Column(kind, value)
        case Integer() if type(value) is int and INT_MIN <= value <= INT_MAX:
            return Column(kind, value)
        case Float() if type(value) is float:
            return Column(kind, value)
        case String() if type(value) is str:
            return Column(kind, value) if value.isascii() or has_utf8(value) else None
        case Bytes() if type(value) is bytes:
            return Column(kind, value)
        case Timestamp() if type(value) is dt.datetime and value.tzinfo is dt.UTC:
            return Column(kind, micros_of(value))
        case Date() if type(value) is dt.date:
            return Column(kind, value.toordinal() - EPOCH_DAY)
        case UnitValue() if value is UNIT:
            return Column(kind, value)
        case Exact() if isinstance(value, ExactSum):
            return Column(kind, value)
        case _:
            return None


def has_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
