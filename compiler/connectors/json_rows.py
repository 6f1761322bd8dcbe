"""Rows as lines of JSON, a column at a time."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.plain_data import decimal_text, to_plain
from tracetypes.records import Float

__all__ = ["json_lines", "json_texts", "plain_values"]

_ESCAPED: Final = bytes(range(0x20)) + b'"\\'
"""What JSON does not have as it is in a text."""

_SMALL, _LARGE = 1e-4, 1e9
"""Between these Arrow writes the digits of a float as Python does, but without ``.0``."""

_NOTHING: Final = pa.scalar("", pa.large_string())

_dumps: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def json_lines(batch: Any) -> memoryview:
    """The rows of an Arrow record batch as lines of JSON (UTF-8), each an object with the columns as fields."""
    if not batch.num_columns or not batch.num_rows:
        return memoryview(b"{}\n" * batch.num_rows)
    parts: list[Any] = []
    before = "{"
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        parts += [f"{before}{_dumps(name)}:", json_texts(column)]
        before = ","
    lines = _joined(*parts, "}\n")
    _, offsets, data = lines.buffers()
    if lines.offset or data is None:  # Arrow has no promise about it
        lines = pa.concat_arrays([lines, pa.array([""], lines.type)])
        _, offsets, data = lines.buffers()
    ends = memoryview(offsets).cast("q")
    return memoryview(data)[ends[0] : ends[batch.num_rows]]


def json_texts(column: Any) -> Any:
    """The values of a column as JSON, in an Arrow array of large strings without nulls."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        texts = column.cast(pa.large_string())
    elif pa.types.is_float64(kind):
        texts = _floats(column)
    elif pa.types.is_timestamp(kind):
        texts = _quoted(_times(column))
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        texts = _strings(column.cast(pa.large_string()))
    else:
        return pa.array(map(_dumps, plain_values(column)), pa.large_string())
    return texts.fill_null("null") if texts.null_count else texts


def _times(column: Any) -> Any:
    """Times in UTC, as ISO 8601 has them. Arrow writes a time with a zone thirty times as slowly as one without."""
    texts = column.cast(pa.timestamp(column.type.unit)).cast(pa.large_string())
    return _joined(pc.binary_replace_slice(texts, 10, 11, "T"), "Z")


def _quoted(texts: Any) -> Any:
    return _joined('"', texts, '"')


def _joined(*parts: Any) -> Any:
    """Texts, and columns of texts, one behind the other."""
    kind = pa.large_string()
    return pc.binary_join_element_wise(*[pa.scalar(one, kind) if isinstance(one, str) else one for one in parts], _NOTHING)


def _strings(texts: Any) -> Any:
    """Texts in quotes, those that have to be escaped one by one."""
    _, offsets, data = texts.buffers()
    ends = memoryview(offsets).cast("q")
    content = b"" if data is None else memoryview(data)[ends[texts.offset] : ends[texts.offset + len(texts)]].tobytes()
    if len(content.translate(None, _ESCAPED)) == len(content):
        return _quoted(texts)
    special = pc.match_substring_regex(texts, r'[\x00-\x1f"\\]')
    return pc.replace_with_mask(
        _quoted(texts), special.fill_null(False), pa.array(map(_dumps, texts.filter(special).to_pylist()), pa.large_string())
    )


def _floats(column: Any) -> Any:
    """Floats with the digits of Python's ``repr``; NaN and infinities as texts."""
    size = pc.abs(column)
    usual = pc.or_(pc.and_(pc.greater_equal(size, _SMALL), pc.less(size, _LARGE)), pc.equal(size, 0.0)).fill_null(True)
    odd = pc.invert(usual)
    count = pc.sum(odd).as_py() or 0
    if count * 2 > len(column):
        return pa.array([None if x is None else _dumps(to_plain(Float(), x)) for x in column.to_pylist()], pa.large_string())
    texts = column.cast(pa.large_string())
    whole = pc.equal(pc.floor(column), column)
    texts = pc.if_else(whole, _joined(texts, ".0"), texts)
    if count:
        others = [_dumps(to_plain(Float(), x)) for x in column.filter(odd).to_pylist()]
        texts = pc.replace_with_mask(texts, odd, pa.array(others, pa.large_string()))
    return texts


def plain_values(column: Any) -> list[Any]:
    """A column as values that JSON can hold, as ``records.to_plain`` has it: a list as long as the column."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return list(_times(column).to_pylist())
    if pa.types.is_date(kind):
        return [None if day is None else day.isoformat() for day in column.to_pylist()]
    if pa.types.is_decimal(kind):
        return _each(column, decimal_text)
    if pa.types.is_floating(kind):
        finite = pc.all(pc.is_finite(column)).as_py() is not False
        return list(column.to_pylist()) if finite else _each(column, lambda x: to_plain(Float(), x))
    if pa.types.is_binary(kind):
        return _each(column, lambda data: base64.b64encode(data).decode())
    if pa.types.is_struct(kind):
        inner = [(field.name, plain_values(child)) for field, child in zip(kind, column.flatten(), strict=True)]
        there = column.is_valid().to_pylist()
        return [{name: cells[at] for name, cells in inner} if there[at] else None for at in range(len(column))]
    if pa.types.is_list(kind):
        cells = plain_values(column.flatten())
        lengths: Sequence[int | None] = pc.list_value_length(column).to_pylist()
        values: list[Any] = []
        start = 0
        for length in lengths:
            values.append(None if length is None else cells[start : start + length])
            start += length or 0
        return values
    return list(column.to_pylist())


def _each(column: Any, change: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else change(value) for value in column.to_pylist()]
