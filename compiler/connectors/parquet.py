"""Columns of Parquet files: which of their types fit a schema. The first file of a source and later ones follow the same rules.

A column may be narrower than the schema, or wider: 32 bits, unsigned integers, decimals, integers for floats, nanoseconds,
categories, lists of one length, nothing but nulls. Which values of it fit is said elsewhere (:mod:`.fitted_columns`). The fields
of a struct match by name, as those of a JSON object do. Times without a zone need a zone that the source declares. INT96 has
instants in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tracetypes.compiler.connectors.file_system import FileState
from tracetypes.compiler.connectors.files import state_of
from tracetypes.compiler.connectors.object_ranges import Ranges
from tracetypes.compiler.connectors.store_address import is_store
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

__all__ = ["check_columns", "check_file", "has_int96", "misfit", "open_parquet", "parts_of", "ranges_of", "zone_of"]


def open_parquet(path: str, ranges: Ranges | None = None, **options: Any) -> pq.ParquetFile:
    """A file. ``ranges``: of an object, if somebody has them. Raises ``OSError`` and :class:`pyarrow.ArrowException`."""
    ranges = ranges or ranges_of(path)
    file = path if ranges is None else ranges.file()  # Arrow reads a disk without Python
    return pq.ParquetFile(file, **{"coerce_int96_timestamp_unit": "us", **options})


def ranges_of(path: str, state: FileState | None = None) -> Ranges | None:
    """The ranges of an object, None for a file on a disk. ``state``: as it must be, if that is known. Raises ``OSError``."""
    if not is_store(path):
        return None
    state = state or state_of(path)
    if state is None:
        raise FileNotFoundError(f"{path} does not exist")
    return Ranges(path, state)


def check_columns(
    layout: Layout, columns: Any, zone_of: Callable[[str], str | None], where: str, besides: Collection[str] = ()
) -> None:
    """Check that columns (a ``pyarrow.Schema``) are all that a layout needs, of types that fit. ``zone_of``: the zone of the
    times in a column for which the file has none. ``besides``: columns that come from elsewhere. Raises :class:`RunError`
    ``TT203``."""
    for name, schema in layout.columns:
        count = columns.names.count(name)
        if isinstance(schema, UnitValue) or (not count and (isinstance(schema, Optional) or name in besides)):
            continue
        if count != 1:
            has = f"{count} columns {name!r}" if count else f"no column {name!r}"
            raise RunError(
                "TT203",
                f"{where} has {has}; it has {', '.join(map(repr, columns.names)) or 'no columns'}",
                fix=f"name one column {name!r}, or rename the field",
            )
        if problem := misfit(columns.field(name).type, schema, zone_of(name)):
            raise RunError("TT203", f"{where}: the column {name!r} is {problem[0]}", fix=problem[1])


def check_file(
    layout: Layout, format: Format | Kafka | None, file: pq.ParquetFile, where: str, besides: Collection[str] = ()
) -> None:
    """:func:`check_columns` of a file."""
    check_columns(layout, file.schema_arrow, lambda name: zone_of(file, name, format), where, besides)


def has_int96(file: pq.ParquetFile, name: str) -> bool:
    """Whether a column is of times of the old kind, or has some inside."""
    columns = map(file.schema.column, range(len(file.schema)))
    return any(c.physical_type == "INT96" and c.path.split(".")[0] == name for c in columns)


def zone_of(file: pq.ParquetFile, name: str, format: Format | Kafka | None) -> str | None:
    """The zone of times in a column for which the file has none. INT96 is in UTC whatever the source declares."""
    if has_int96(file, name):
        return "UTC"
    return format.zone if isinstance(format, Parquet) else None


def misfit(actual: Any, schema: Schema, zone: str | None) -> tuple[str, str] | None:
    """Why a column of an Arrow type cannot have values of a schema, and what to do. None if it can."""
    if (bare := _bare(actual)) != actual:
        return misfit(bare, schema, zone)
    if pa.types.is_null(actual):
        return None  # where something must be, each row is a reject
    fits, inner = False, list[tuple[Any, Schema]]()
    match schema:
        case Optional(item):
            return misfit(actual, item, zone)
        case Boolean():
            fits = pa.types.is_boolean(actual)
        case Integer() | Unsigned():
            fits = pa.types.is_integer(actual) or pa.types.is_decimal(actual)
        case DecimalOf():
            fits = pa.types.is_decimal(actual)
        case LiteralOf(item, _) | EnumOf(_, item):
            return misfit(actual, item, zone)
        case Float():
            fits = pa.types.is_floating(actual) or pa.types.is_integer(actual)
        case String():
            fits = pa.types.is_string(actual) or pa.types.is_large_string(actual) or pa.types.is_string_view(actual)
        case Bytes():
            fits = any(is_one(actual) for is_one in _BYTES)
        case Timestamp():
            fits = pa.types.is_timestamp(actual)
            if fits and actual.tz is None and zone is None:
                return f"{actual}, times without a zone", 'declare theirs at the source: format=parquet(zone="UTC")'
        case Date():
            fits = pa.types.is_date(actual)
        case UnitValue():
            return None
        case ListOf(item):
            fits = any(is_one(actual) for is_one in _LISTS)
            inner = [(actual.value_type, item)] if fits else []
        case Record() | OneOf():
            if pa.types.is_struct(actual):
                return _misfit_of_struct(actual, schema, zone)
    if not fits:
        return (
            f"{actual}, expected {name_of(schema)}",
            "change the field's type, or give the column the type of the field",
        )
    return next((problem for type, one in inner if (problem := misfit(type, one, zone))), None)


_BYTES = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)

_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


def _bare(actual: Any) -> Any:
    """An Arrow type without its encoding, or without what an extension says of it."""
    if pa.types.is_dictionary(actual) or pa.types.is_run_end_encoded(actual):
        return actual.value_type
    return actual.storage_type if isinstance(actual, pa.BaseExtensionType) else actual


def parts_of(schema: Record | OneOf) -> Sequence[tuple[str, Schema]]:
    """The fields of a struct in a file. A union has an optional one for each member."""
    return schema.columns if isinstance(schema, Record) else [(one.cls.__name__, Optional(one)) for one in schema.members]


def _misfit_of_struct(actual: Any, schema: Record | OneOf, zone: str | None) -> tuple[str, str] | None:
    """:func:`misfit` of a struct, whose fields match by name."""
    names = [part.name for part in actual]
    parts = parts_of(schema)
    for name, inner in parts:
        count = names.count(name)
        if count > 1 or (not count and not isinstance(inner, Optional | UnitValue)):
            has = f"{count} fields {name!r}" if count else f"no field {name!r}"
            return f"{actual}, which has {has} of {name_of(schema)}", "write the file with one field of each name"
        if count and (problem := misfit(actual.field(name).type, inner, zone)):
            return f"{actual}, whose field {name!r} is {problem[0]}", problem[1]
    if isinstance(schema, OneOf) and not {name for name, _ in parts} & set(names):
        return f"{actual}, expected {name_of(schema)}", "write the file with a field for each class of the union"
    return None
