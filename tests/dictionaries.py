"""Columns of text as dictionary arrays that a careless reader would take for others: ``encoded(schema, column, chance)``."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, cast

import pyarrow as pa

from tracetypes.compiler.columns.column import Column, Struct
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.tracing.expr import Input
from tracetypes.records import UNIT, Bytes, Optional, Record, Schema, String, UnitValue

__all__ = ["arrow_inputs", "encoded"]

SPARE = ["", "a", "view", "é", "\U0001f600 ", "zz"]
"""Entries that no row need have."""


def encoded(schema: Schema, column: Any, chance: random.Random) -> Any:
    """The column with its text dictionary encoded, also inside records: entries in any order, some of them twice, some that
    no row has, some null."""
    match schema:
        case Optional(item):
            return encoded(item, column, chance)
        case Record(_, fields) if fields:
            parts = zip(fields, column.flatten(), strict=True)
            made = [encoded(inner, part, chance) for (_, inner), part in parts]
            return pa.StructArray.from_arrays(made, names=[name for name, _ in fields], mask=column.is_null())
        case String() | Bytes():
            spare = SPARE if isinstance(schema, String) else [text.encode() for text in SPARE]
            rows = column.to_pylist()
            known = {row for row in rows if row is not None}
            entries = [*known, *chance.sample(sorted(known), len(known) // 2), *chance.sample(spare, 2)]
            if chance.random() < 0.2:
                entries.append(None)
            chance.shuffle(entries)
            places: dict[Any, list[int]] = {}
            for place, entry in enumerate(entries):
                places.setdefault(entry, []).append(place)
            codes = [None if row is None and None not in places else chance.choice(places[row]) for row in rows]
            width = (
                chance.choice([pa.int8(), pa.uint16(), pa.int32(), pa.int64()]) if len(entries) < 100 else pa.int32()
            )
            return pa.DictionaryArray.from_arrays(pa.array(codes, width), pa.array(entries, column.type))
        case _:
            return column


def arrow_inputs(arguments: Mapping[str, tuple[Schema, Any]]) -> Callable[[Input], Column]:
    """:func:`inputs_of` for Arrow arrays of the schemas of the arguments. Converts only the fields that an expression
    reads."""

    def find(leaf: Input) -> Column:
        schema, array = arguments[cast(str, leaf.path[0])]
        for step in leaf.path[1:]:
            schema = schema.item if isinstance(schema, Optional) else schema
            place = array.type.get_field_index(step) if isinstance(schema, Record) else -1
            if place < 0 or not isinstance(schema, Record):
                raise LookupError(f"the field {step} was not read")
            if isinstance(array, pa.ChunkedArray):
                array = array.combine_chunks()
            schema = dict(schema.fields)[cast(str, step)]
            array = array.flatten()[place] if array.null_count else array.field(place)
        column = from_arrow(schema, array)
        return Column(UnitValue(), UNIT, column.valid) if isinstance(column, Struct) else column

    return find
