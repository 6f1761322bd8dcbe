"""Values as Arrow columns.

Columns of a schema: bool, int64, uint64, double, decimal128, string, binary, timestamp[us, UTC], date32, null (Unit), list,
struct (record; a tuple in a list, whose fields are its places; a union of records is a struct with one nullable field for each
member). A literal or an enum has the columns of its values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.conformance import datetime_of
from tracetypes.record_copies import Builder, builder
from tracetypes.records import (
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
    contains,
    members_of,
)

__all__ = [
    "all_within",
    "array",
    "arrow_type",
    "from_array",
    "has_choices",
    "has_gaps",
    "in_one_piece",
    "signed",
    "type_in_files",
]


@cache
def arrow_type(schema: Schema) -> Any:
    """The ``pyarrow.DataType`` of a schema. The fields of structs are those of the records."""
    match schema:
        case Boolean():
            return pa.bool_()
        case Integer():
            return pa.int64()
        case Unsigned():
            return pa.uint64()
        case DecimalOf(precision, scale):
            return pa.decimal128(precision, scale)
        case Float():
            return pa.float64()
        case String():
            return pa.string()
        case Bytes():
            return pa.binary()
        case Timestamp():
            return pa.timestamp("us", tz="UTC")
        case Date():
            return pa.date32()
        case UnitValue():
            return pa.null()
        case Optional(item) | LiteralOf(item, _) | EnumOf(_, item):
            return arrow_type(item)
        case ListOf(item, _):
            return pa.list_(arrow_type(item))
        case Record(_, fields):
            return pa.struct([pa.field(str(name), arrow_type(inner)) for name, inner in fields])
        case OneOf(members):
            return pa.struct([pa.field(m.cls.__name__, arrow_type(m)) for m in members])
        case _:
            assert_never(schema)


@cache
def type_in_files(schema: Schema) -> Any:
    """:func:`arrow_type` as files have it: the fields of structs are the columns of the records."""
    match schema:
        case Optional(item):
            return type_in_files(item)
        case ListOf(item, _):
            return pa.list_(type_in_files(item))
        case Record():
            return pa.struct([pa.field(name, type_in_files(inner)) for name, inner in schema.columns])
        case OneOf(members):
            return pa.struct([pa.field(m.cls.__name__, type_in_files(m)) for m in members])
        case _:
            return arrow_type(schema)


def signed(kind: Any) -> Any:
    """The ``pyarrow.DataType`` with decimals of 20 digits for unsigned integers, which Spark and Delta do not have."""
    if pa.types.is_uint64(kind):
        return pa.decimal128(20, 0)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, signed(part.type)) for part in kind])
    return pa.list_(signed(kind.value_type)) if pa.types.is_list(kind) else kind


def in_one_piece(column: Any) -> Any:
    """A ``pyarrow.ChunkedArray`` as an array. (``combine_chunks`` copies a single chunk, too.)"""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def array(schema: Schema, values: Sequence[Any]) -> Any:
    """Values as a ``pyarrow.Array`` of :func:`arrow_type`. None stands for a missing optional at any level."""
    match schema:
        case UnitValue():
            return pa.nulls(len(values))
        case Optional(item):
            return array(item, values)
        case EnumOf():
            return pa.array([None if value is None else value.value for value in values], arrow_type(schema))
        case Record(cls, fields):
            missing = _missing(values)
            getters: Any = [itemgetter(name) if cls is tuple else attrgetter(name) for name, _ in fields]
            if missing is None:
                parts = [list(map(get, values)) for get in getters]
            else:
                parts = [[None if v is None else get(v) for v in values] for get in getters]
            columns = [array(inner, part) for (_, inner), part in zip(fields, parts, strict=True)]
            return pa.StructArray.from_arrays(columns, fields=list(arrow_type(schema)), mask=missing)
        case OneOf(members):
            columns = [array(m, [v if isinstance(v, m.cls) else None for v in values]) for m in members]
            return pa.StructArray.from_arrays(columns, fields=list(arrow_type(schema)), mask=_missing(values))
        case ListOf(item, _):
            offsets: list[int] = [0]
            flat: list[Any] = []
            for value in values:
                flat.extend(value or ())
                offsets.append(len(flat))
            mask = _missing(values)
            return pa.ListArray.from_arrays(
                pa.array(offsets, pa.int32()), array(item, flat), type=arrow_type(schema), mask=mask
            )
        case _:
            return pa.array(values, arrow_type(schema))


def _missing(values: Sequence[Any]) -> Any:
    """Which values are None, as a ``pyarrow.BooleanArray``; None for none of them."""
    if _NOTHING not in set(map(type, values)):
        return None
    return pa.array([value is None for value in values], pa.bool_())


_NOTHING = type(None)


Builders: TypeAlias = Callable[[type[Any], tuple[str, ...]], Builder]
"""What makes records of a class from columns of these fields."""


def from_array(schema: Schema, column: Any, builders: Builders = builder) -> list[Any]:
    """The inverse of :func:`array`; text may be dictionary encoded. ``builders``: for records."""
    match schema:
        case UnitValue():
            return [UNIT] * len(column)
        case Optional(item):
            if column.null_count == 0:
                return from_array(item, column, builders)
            if column.null_count == len(column):
                return [None] * len(column)
            valid = column.is_valid().to_pylist()
            present = iter(from_array(item, column.drop_null(), builders))
            return [next(present) if ok else None for ok in valid]
        case Integer() | Unsigned() | Float():
            return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
        case LiteralOf(item, _):
            return from_array(item, column)
        case EnumOf(cls, item):
            members = members_of(cls)
            return [members[value] for value in from_array(item, column)]
        case Timestamp():
            micros = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
            return [datetime_of(m) for m in micros.to_pylist()]
        case ListOf(item, frozen):
            flat = from_array(item, column.flatten(), builders)
            out, at = [], 0
            for length in column.value_lengths().to_pylist():
                part = flat[at : at + length]
                out.append(tuple(part) if frozen else part)
                at += length
            return out
        case Record(cls, fields):
            parts = zip(fields, column.flatten(), strict=True)
            return builders(cls, tuple(name for name, _ in fields))([from_array(s, part, builders) for (_, s), part in parts])
        case OneOf(members):
            values: list[Any] = [None] * len(column)
            for member, part in zip(members, column.flatten(), strict=True):
                for at, value in enumerate(from_array(Optional(member), part, builders)):
                    if value is not None:
                        values[at] = value
            return values
        case _ if pa.types.is_dictionary(column.type):
            dictionary = column.dictionary.to_pylist()
            return [None if code is None else dictionary[code] for code in column.indices.to_pylist()]
        case _:
            return column.to_pylist()  # type: ignore[no-any-return]


def has_gaps(schema: Schema, column: Any) -> bool:
    """Whether there is a null, at any level, where the schema has no optional, or a value that no literal or enum has.
    :func:`array` makes no such column, so its rows must be checked one by one."""
    match schema:
        case UnitValue():
            return False
        case Optional(item):
            return has_gaps(item, column.drop_null())
        case LiteralOf() | EnumOf():
            return column.null_count > 0 or not all_within(schema, column)
        case ListOf(item, _):
            return column.null_count > 0 or has_gaps(item, column.flatten())
        case Record(_, fields):
            parts = zip(fields, column.flatten(), strict=True)
            return column.null_count > 0 or any(has_gaps(inner, part) for (_, inner), part in parts)
        case OneOf(members):
            columns = column.flatten()
            present = zip(*[part.is_valid().to_pylist() for part in columns], strict=True)
            alone = all(sum(row) == 1 for row in present)
            inside = (has_gaps(Optional(m), part) for m, part in zip(members, columns, strict=True))
            return not alone or any(inside)
        case _:
            return bool(column.null_count > 0)


def all_within(schema: LiteralOf | EnumOf, column: Any) -> bool:
    """Whether the values of a column are values of a literal or an enum, or null."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary
    within = pc.is_in(column, value_set=_values_of(schema))
    return bool(pc.all(pc.or_(within, column.is_null())).as_py() is not False)


@cache
def has_choices(schema: Schema) -> bool:
    """Whether a value of the schema can hold a literal or an enum, which not every value of its column is."""
    return contains(schema, LiteralOf, EnumOf)


@cache
def _values_of(schema: LiteralOf | EnumOf) -> Any:
    values = schema.values if isinstance(schema, LiteralOf) else members_of(schema.cls)
    return pa.array(list(values), arrow_type(schema))
