"""Tables as literals of a Spark query."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, final

import attrs
from pyspark.sql import Column
from pyspark.sql import functions as F

from tracetypes.compiler.columns.lookup_tables import table_entries
from tracetypes.compiler.spark.catalyst_operations import NotNative, Term, long, same
from tracetypes.compiler.tracing.expr import Kind
from tracetypes.records import Boolean, Date, Float, Integer, String, Timestamp

__all__ = ["entries_of", "place_of"]


def place_of(keys: Mapping[Any, int], key: Term) -> Column:
    """The place of a key, an int. Null if the table does not have it, or if the key is null."""
    if not keys:
        return F.lit(None).cast("int")
    value = key.value.cast("int").cast("bigint") if isinstance(key.kind, Boolean) else key.value
    if not isinstance(key.kind, String):
        low, high = min(keys), max(keys)
        if high - low <= 4 * len(keys) + 1024:
            dense = [keys.get(k) for k in range(low, high + 1)]
            inside = (value >= long(low)) & (value <= long(high))
            at = F.when(inside, (F.when(inside, value).otherwise(long(low)) - long(low)).cast("int"))
            return F.get(_literal(dense, "array<int>"), at)
    number = len(keys)
    buckets: list[dict[str, int]] = [{} for _ in range(number)]
    for k, place in keys.items():
        buckets[zlib.crc32(str(k).encode()) % number][str(k)] = place
    text = value.cast("string")
    bucket = F.get(
        _literal(buckets, "array<map<string,int>>"), (F.crc32(text.cast("binary")) % long(number)).cast("int")
    )
    return F.try_element_at(bucket, text)


def _literal(value: Any, kind: str) -> Column:
    """A large literal: read from JSON once, when the query is planned."""
    return F.from_json(F.lit(json.dumps(value)), kind)


@final
@attrs.frozen(eq=False)
class Entries:
    """Values by place, of an array of the JSON of these values."""

    values: Column
    finish: Callable[[Column], Column]
    optional: bool

    def of(self, place: Column) -> Column:
        return self.finish(F.get(self.values, place))


def entries_of(table: Mapping[Any, Any], path: tuple[str | int, ...], kind: Kind | None) -> Entries:
    columns = table_entries(table, path, kind)
    optional = any(entry is not None and entry.kind is None for entry in columns)
    if optional and None in columns:
        raise NotNative("a table of values of several types")
    values = [None if entry is None or entry.kind is None else entry.values for entry in columns]
    match kind:
        case Boolean():
            return Entries(_literal(values, "array<boolean>"), same, optional)
        case Integer():
            return Entries(_literal(values, "array<bigint>"), same, optional)
        case String():
            return Entries(_literal(values, "array<string>"), same, optional)
        case Float():
            texts = [v if v is None or v - v == 0 else _NAMES[repr(v)] for v in values]
            return Entries(_literal(texts, "array<double>"), same, optional)
        case Timestamp():
            return Entries(_literal(values, "array<bigint>"), F.timestamp_micros, optional)
        case Date():
            return Entries(_literal(values, "array<int>"), F.date_from_unix_date, optional)
        case _:
            raise NotNative(f"a table of {type(kind).__name__}")


_NAMES: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
