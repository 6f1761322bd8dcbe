"""Columns of Parquet files as columns of a schema: which types fit, and how they are converted. The first file of a
source and later ones follow the same rules.

A column may be narrower than the schema, or wider if no value is lost: 32 bits, unsigned integers, nanoseconds that are
whole microseconds, categories, nothing but nulls. Times without a zone need a zone that the source declares. INT96 has
instants in UTC.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tracetypes.compiler.columns.arrow import arrow_type
from tracetypes.conformance import name_of
from tracetypes.errors import RunError
from tracetypes.formats import Format, Kafka, Layout, Parquet
from tracetypes.records import (
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

__all__ = ["check_columns", "converted", "misfit", "open_parquet", "zone_of"]


def open_parquet(path: str, **options: Any) -> pq.ParquetFile:
    """A file. Raises ``OSError`` and :class:`pyarrow.ArrowException`."""
    return pq.ParquetFile(path, coerce_int96_timestamp_unit="us", **options)


def check_columns(layout: Layout, format: Format | Kafka | None, file: pq.ParquetFile, where: str) -> None:
    """Check that a file has all columns of a layout, with types that fit. Raises :class:`RunError` ``TT203``."""
    columns = file.schema_arrow
    for name, schema in layout.columns:
        if isinstance(schema, UnitValue):
            continue
        count = columns.names.count(name)
        if not count and isinstance(schema, Optional):
            continue
        if count != 1:
            has = f"{count} columns {name!r}" if count else f"no column {name!r}"
            raise RunError(
                "TT203",
                f"{where} has {has}; it has {', '.join(map(repr, columns.names)) or 'no columns'}",
                fix=f"name one column {name!r}, or rename the field",
            )
        if problem := misfit(columns.field(name).type, schema, zone_of(file, name, format)):
            raise RunError("TT203", f"{where}: the column {name!r} is {problem[0]}", fix=problem[1])


def zone_of(file: pq.ParquetFile, name: str, format: Format | Kafka | None) -> str | None:
    """The zone of times in a column for which the file has none. INT96 is in UTC whatever the source declares."""
    columns = map(file.schema.column, range(len(file.schema)))
    if any(c.physical_type == "INT96" and c.path.split(".")[0] == name for c in columns):
        return "UTC"
    return format.zone if isinstance(format, Parquet) else None


def misfit(actual: Any, schema: Schema, zone: str | None) -> tuple[str, str] | None:
    """Why a column of an Arrow type cannot have values of a schema, and what to do. None if it can."""
    if pa.types.is_dictionary(actual):
        return misfit(actual.value_type, schema, zone)
    if pa.types.is_null(actual):
        return None  # where something must be, each row is a reject
    fits, inner = False, list[tuple[Any, Schema]]()
    match schema:
        case Optional(item):
            return misfit(actual, item, zone)
        case Boolean():
            fits = pa.types.is_boolean(actual)
        case Integer():
            fits = pa.types.is_integer(actual)
        case Unsigned():
            fits = pa.types.is_integer(actual) or (pa.types.is_decimal(actual) and actual.scale == 0)
        case DecimalOf():
            fits = pa.types.is_decimal(actual)
        case LiteralOf(item, _) | EnumOf(_, item):
            return misfit(actual, item, zone)
        case Float():
            fits = pa.types.is_floating(actual)
        case String():
            fits = pa.types.is_string(actual) or pa.types.is_large_string(actual) or pa.types.is_string_view(actual)
        case Bytes():
            fits = pa.types.is_binary(actual) or pa.types.is_large_binary(actual) or pa.types.is_fixed_size_binary(actual)
        case Timestamp():
            fits = pa.types.is_timestamp(actual)
            if fits and actual.tz is None and zone is None:
                return f"{actual}, times without a zone", 'declare theirs at the source: format=parquet(zone="UTC")'
        case Date():
            fits = pa.types.is_date(actual)
        case UnitValue():
            return None
        case ListOf(item):
            fits = pa.types.is_list(actual) or pa.types.is_large_list(actual)
            inner = [(actual.value_type, item)] if fits else []
        case Record() | OneOf():
            parts = schema.fields if isinstance(schema, Record) else [(m.cls.__name__, m) for m in schema.members]
            fits = pa.types.is_struct(actual) and [part.name for part in actual] == [name for name, _ in parts]
            inner = [(part.type, one) for part, (_, one) in zip(actual, parts, strict=True)] if fits else []
    if not fits:
        return (
            f"{actual}, expected {name_of(schema)}",
            "change the field's type, or write the file with the type of the field",
        )
    return next((problem for type, one in inner if (problem := misfit(type, one, zone))), None)


def converted(column: Any, schema: Schema, zone: str | None) -> Any:
    """A column without :func:`misfit` as an array of the schema's type. Raises :class:`pyarrow.ArrowException` if a
    value would change."""
    target, actual = arrow_type(schema), column.type
    match schema:
        case _ if actual == target:
            return column
        case _ if pa.types.is_null(actual):
            return pa.nulls(len(column), target)
        case _ if pa.types.is_dictionary(actual):
            return converted(column.dictionary_decode(), schema, zone)
        case Optional(item):
            return converted(column, item, zone)
        case Timestamp() if pa.types.is_timestamp(actual) and actual.tz is None:
            if zone is None:
                raise pa.ArrowInvalid("times without a zone")
            return pc.assume_timezone(column.cast(pa.timestamp("us")), zone).cast(target)
        case ListOf(item):
            lengths = column.value_lengths().fill_null(0).cast(pa.int32())
            offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
            values = converted(column.flatten(), item, zone)
            return pa.ListArray.from_arrays(offsets, values, type=target, mask=column.is_null())
        case Record(fields=fields):
            return _struct(column, [one for _, one in fields], target, zone)
        case OneOf(members):
            return _struct(column, members, target, zone)
        case _:
            return column.cast(target)


def _struct(column: Any, schemas: Any, type_: Any, zone: str | None) -> Any:
    parts = [converted(part, one, zone) for part, one in zip(column.flatten(), schemas, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=list(type_), mask=column.is_null())
