"""Conversion of columns from and to Arrow, and to Python values."""

from __future__ import annotations

import datetime as dt
import math
from collections import deque
from itertools import accumulate, pairwise
from typing import Any, Final, assert_never

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.algebra import ExactSum
from tracetypes.compiler.columns.arrow import all_within, arrow_type, from_array, in_one_piece
from tracetypes.compiler.columns.column import EPOCH_DAY, Column, Columns, Struct, bare_kind, full_values, take
from tracetypes.compiler.columns.dictionary import DictionaryEncoded
from tracetypes.compiler.columns.exact_sums import ExactSums
from tracetypes.compiler.columns.lists import Lists
from tracetypes.compiler.tracing.expr import PASSED_ON, Exact, Undefined
from tracetypes.compiler.tracing.kinds import Empty, Level, Queue
from tracetypes.conformance import datetime_of
from tracetypes.record_copies import builder, made_of
from tracetypes.records import (
    INT_MIN,
    UNIT,
    Boolean,
    Bytes,
    Date,
    DecimalOf,
    EnumOf,
    Float,
    Integer,
    ListOf,
    LiteralOf,
    OneOf,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    UnitValue,
    Unsigned,
)

__all__ = ["column_from_arrow", "from_arrow", "python_values", "to_arrow", "values_of"]


def from_arrow(schema: Schema, array: Any) -> Columns:
    """An Arrow array of ``columns.arrow_type(schema)`` as columns. Fields that the struct lacks become missing parts;
    nulls become missing rows, even if the schema has no optional."""
    if type(array) is _AS_IT_IS.get(type(schema)) and not array.null_count:
        return Column(schema, array.to_numpy())
    match schema:
        case Optional(item):
            return from_arrow(item, array)
        case Record(cls, fields):
            array, valid = _plain(schema, array)
            arrays = {array.type.field(n).name: part for n, part in enumerate(array.flatten())}
            parts = tuple(from_arrow(inner, arrays[str(name)]) if str(name) in arrays else None for name, inner in fields)
            return Struct(cls, tuple(name for name, _ in fields), parts, valid)
        case _:
            return column_from_arrow(schema, array)


def column_from_arrow(schema: Schema, array: Any) -> Column:
    """:func:`from_arrow` for a schema that is not a record."""
    array, valid = _plain(schema, array)
    match schema:
        case Optional(item):
            return column_from_arrow(item, array)
        case Record():
            raise TypeError(f"{schema} takes several columns")
        case UnitValue():
            return Column(schema, UNIT)
        case Boolean():
            values = (array if valid is None else pc.fill_null(array, False)).to_numpy(zero_copy_only=False)
        case Float():
            values = array.to_numpy() if valid is None else _filled(array, valid, np.float64)
        case Integer() | Timestamp() | Date():
            if isinstance(schema, Date):
                array = array.cast(pa.int32())
            elif isinstance(schema, Timestamp):
                array = _as(array, _TIMESTAMP)
            array = _as(array, _INTEGER)
            values = array.to_numpy() if valid is None else _filled(array, valid, np.int64)
        case String() | Bytes():
            if pa.types.is_dictionary(array.type) and array.type.value_type == arrow_type(schema):
                return Column(schema, DictionaryEncoded.from_arrow(array), valid)
            array = _as(array, arrow_type(schema))
            values = array if valid is None else pc.fill_null(array, "" if isinstance(schema, String) else b"")
        case LiteralOf(item, _):
            return column_from_arrow(item, array)
        case ListOf() | OneOf() | Unsigned() | DecimalOf() | EnumOf():
            values = array
        case _:
            assert_never(schema)
    return Column(schema, values, valid)


def _plain(schema: Schema, array: Any) -> tuple[Any, Any]:
    """The array in one piece, dictionary-encoded only where that is kept; and which rows are there, None for all."""
    if isinstance(array, pa.ChunkedArray):
        array = in_one_piece(array)
    if pa.types.is_dictionary(array.type) and (array.dictionary.null_count or not isinstance(bare_kind(schema), _TEXT)):
        array = array.dictionary_decode()
    if array.null_count and not isinstance(schema, UnitValue):
        return array, array.is_valid().to_numpy(zero_copy_only=False)
    return array, None


def _filled(array: Any, valid: Any, dtype: Any) -> Any:
    """Numbers of 64 bits, 0 where one is missing. Arrow fills more slowly than numpy."""
    numbers = np.frombuffer(array.buffers()[1], dtype, len(array), 8 * array.offset)
    return np.where(valid, numbers, dtype(0))


_TEXT: Final = (String, Bytes)

_NUMBERS: Final = (Boolean, Integer, Float, Timestamp, Date)


_AS_IT_IS: Final[dict[type[Schema], type[Any]]] = {Integer: pa.Int64Array, Float: pa.DoubleArray}
"""Schemas whose values numpy reads where Arrow has them."""

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_INTEGER: Final = pa.int64()


def _as(array: Any, type_: Any) -> Any:
    """The array as one of a type. Arrow takes ten microseconds to find that there is nothing to do."""
    return array if array.type == type_ else array.cast(type_)


def to_arrow(schema: Schema, columns: Columns, count: int, *, keep_codes: bool = False) -> Any:
    """The Arrow array of ``columns.arrow_type(schema)``, ``count`` rows. Integers become floats if the schema is float,
    as in ``conformer``. ``keep_codes``: text that is dictionary-encoded stays so, in records, too. Raises ``Undefined`` if a
    value does not fit the schema."""
    optional = isinstance(schema, Optional)
    if isinstance(schema, Optional):
        schema = schema.item
    if not optional and columns.valid is not None and not columns.valid.all():
        raise Undefined(int(np.argmin(columns.valid)))
    missing = None if columns.valid is None else pa.array(~columns.valid)
    if isinstance(columns, Struct):
        return _struct_to_arrow(schema, columns, count, missing, keep_codes)
    if columns.undefined is not None and columns.undefined.any():
        raise Undefined(int(np.argmax(columns.undefined)))
    if columns.kind is None:
        if count and not optional:
            raise Undefined(0)
        return pa.nulls(count, arrow_type(schema))
    if type(columns.kind) is Integer and isinstance(schema, Float):
        columns = Column(schema, full_values(columns, count).astype(np.float64))
    if isinstance(schema, LiteralOf):
        items = to_arrow(schema.item, attrs.evolve(columns, valid=None), count)
        if missing is not None and len(items):
            items = pc.if_else(missing, pa.scalar(None, items.type), items)
        if not all_within(schema, items):
            raise Undefined(0)
        return items
    if columns.kind != schema:
        raise Undefined(0)
    # Numbers and times that were computed of text entry by entry have codes, too.
    if keep_codes and isinstance(columns.storage, DictionaryEncoded) and not isinstance(schema, _NUMBERS):
        return columns.storage.to_arrow(columns.valid)
    values = full_values(columns, count)
    match schema:
        case UnitValue():
            return pa.nulls(count)
        case Boolean() | Integer() | Float():
            array = pa.array(values)
        case Timestamp():
            array = pa.array(values).cast(_TIMESTAMP)
        case Date():
            array = pa.array(values.astype(np.int32)).cast(pa.date32())
        case _:
            array = values
    return array if missing is None or not len(array) else pc.if_else(missing, pa.scalar(None, array.type), array)


def _struct_to_arrow(schema: Schema, columns: Struct, count: int, missing: Any, keep_codes: bool) -> Any:
    kind = arrow_type(schema)
    match schema:
        case OneOf(members):
            if columns.cls not in [member.cls for member in members]:
                raise Undefined(0)
            parts = [
                to_arrow(m, columns, count, keep_codes=keep_codes) if m.cls is columns.cls else pa.nulls(count, arrow_type(m))
                for m in members
            ]
        case Record(cls, fields):
            if columns.cls is not cls:
                raise Undefined(0)
            by_name = dict(zip(columns.names or [name for name, _ in fields], columns.parts, strict=True))
            parts = []
            for name, inner in fields:
                part = by_name[name]
                if part is None:
                    raise LookupError(f"the field {name} was not read")
                if columns.valid is not None:
                    # A row that is missing as a whole may be missing in its fields.
                    inner = inner if isinstance(inner, Optional | UnitValue) else Optional(inner)
                parts.append(to_arrow(inner, part, count, keep_codes=keep_codes))
        case _:
            raise Undefined(0)
    typed = [field.with_type(part.type) for field, part in zip(kind, parts, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=typed, mask=missing)


def values_of(columns: Columns, count: int) -> list[Any]:
    """The rows as Python values, None where missing. Raises LookupError for a part that was not read."""
    if columns.valid is not None:
        present = np.flatnonzero(columns.valid)
        some = take(columns, present)
        values: list[Any] = [None] * count
        for row, value in zip(present.tolist(), values_of(attrs.evolve(some, valid=None), len(present)), strict=True):
            values[row] = value
        return values
    if isinstance(columns, Column):
        return python_values(columns, count)
    if any(part is None for part in columns.parts):
        raise LookupError("a field was not read")
    parts = [values_of(part, count) for part in columns.parts if part is not None]
    if not parts:
        return [made_of(columns.cls, ())(()) for _ in range(count)]
    if columns.cls is tuple:
        return list(zip(*parts, strict=True))
    return builder(columns.cls, columns.names)(parts)


def python_values(column: Column, count: int) -> list[Any]:
    """The rows as Python values, if none is missing."""
    if isinstance(column.kind, _TEXT) and column.encoding is not None:
        distinct = column.encoding.dictionary.tolist()
        return [distinct[code] for code in column.encoding.codes.tolist()]
    kind: Any = column.kind
    values = column.values
    if column.scalar:
        repeated = [values] * count
    elif isinstance(values, ExactSums):
        return values.sums()
    elif isinstance(values, Lists):
        return _dicts(values)
    elif isinstance(kind, Queue):
        return list(map(deque, from_array(ListOf(kind.item, False), values)))
    elif isinstance(kind, ListOf | OneOf | PASSED_ON):
        return from_array(kind, values)
    else:
        repeated = values.tolist()
    match kind:
        case Timestamp():
            return [datetime_of(micros) for micros in repeated]
        case Date():
            return [dt.date.fromordinal(days + EPOCH_DAY) for days in repeated]
        case Exact() if not column.scalar:
            return list(map(ExactSum.of, repeated))
        case Empty():
            return [[] for _ in repeated]
        case Level():
            return [-math.inf if number == INT_MIN else number for number in repeated]
        case _:
            return repeated


def _dicts(lists: Lists) -> list[dict[Any, Any]]:
    """Lists of pairs as dicts."""
    pairs = values_of(lists.items, lists.count)
    return [dict(pairs[first:behind]) for first, behind in pairwise(accumulate(lists.lengths.tolist(), initial=0))]
