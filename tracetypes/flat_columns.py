"""Columns of a sink with the fields of records in place of these: ``sink(..., flat=True)``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tracetypes.formats import Layout
from tracetypes.nodes import Sink
from tracetypes.records import Optional, Record, Schema, UnitValue

__all__ = ["flat_columns", "flat_row", "record_in", "sink_columns"]


def record_in(schema: Schema) -> Record | None:
    """The record that a column has in each row, or in some."""
    bare = schema.item if isinstance(schema, Optional) else schema
    return bare if isinstance(bare, Record) else None


def flat_columns(columns: Sequence[tuple[str, Schema]]) -> Iterator[tuple[str, Schema]]:
    """The columns, with the fields of a record in its place, by their own names. Fields of a record that may be missing may be
    missing. Lists and unions stay as they are."""
    for name, schema in columns:
        record = record_in(schema)
        if record is None:
            yield name, schema
            continue
        for inner, kind in flat_columns(record.columns):
            may_miss = isinstance(schema, Optional) and not isinstance(kind, Optional | UnitValue)
            yield inner, Optional(kind) if may_miss else kind


def sink_columns(layout: Layout, sink: Sink) -> tuple[tuple[str, Schema], ...]:
    """The columns of the key and the value in the rows of a sink."""
    return tuple(flat_columns(layout.columns)) if sink.flat else layout.columns


def flat_row(columns: Sequence[tuple[str, Schema]], row: Mapping[str, Any] | None) -> dict[str, Any]:
    """A row of plain values by columns, with these in place of records."""
    flat: dict[str, Any] = {}
    for name, schema in columns:
        value, record = None if row is None else row[name], record_in(schema)
        flat |= {name: value} if record is None else flat_row(record.columns, value)
    return flat
