"""Columns as JSON: a text for each value, as ``json.dumps`` writes its plain value without escapes for what is not ASCII."""

from __future__ import annotations

import json
from itertools import repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tracetypes.compiler.columns.arrow import from_array
from tracetypes.plain_data import to_plain
from tracetypes.records import Boolean, Float, Integer, Optional, Record, Schema, String, UnitValue

__all__ = ["json_text", "json_texts"]

_dumps: Final = json.JSONEncoder(ensure_ascii=False).encode


def json_text(plain: Any) -> str:
    """A plain value as JSON that is UTF-8 whatever it holds: half a character, which a text may have, stays an escape."""
    text = _dumps(plain)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(plain)
    return text


def json_texts(schema: Schema, column: Any) -> list[str]:
    """Of each value of an Arrow array of a schema. Text in it may be dictionary encoded."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    match schema:
        case UnitValue():
            return ["null"] * len(column)
        case Optional(item):
            if column.null_count == 0:
                return json_texts(item, column)
            present = iter(json_texts(item, column.drop_null()))
            return [next(present) if ok else "null" for ok in column.is_valid().to_pylist()]
        case Integer():
            return list(map(str, column.to_pylist()))
        case Boolean():
            return ["true" if value else "false" for value in column.to_pylist()]
        case String():
            return list(map(_dumps, column.to_pylist()))
        case Float():
            values = column.to_numpy(zero_copy_only=False)
            if np.isfinite(values).all():
                return list(map(repr, values.tolist()))
        case Record(_, fields, columns) if fields:
            parts = [json_texts(inner, part) for (_, inner), part in zip(fields, column.flatten(), strict=True)]
            names = (_dumps(name).replace("%", "%%") for name in columns)
            pattern = "{" + ", ".join(f"{name}: %s" for name in names) + "}"
            return list(map(pattern.__mod__, zip(*parts, strict=True)))
        case _:
            pass
    return list(map(_dumps, map(to_plain, repeat(schema), from_array(schema, column))))
