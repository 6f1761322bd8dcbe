"""Many lines of JSON at once, by Arrow's parser, where it surely gives what a line by itself gives.

Arrow reads JSON a little differently: a line may hold several values, large numbers become infinite, lists may be as deep as
they like. :meth:`JsonBlock.columns` returns columns only if none of that can have happened: every line is one object, all
columns are scalars whose text means the same to both, and no number needs a second look. In all other cases the caller reads
the lines one by one, which also says what is wrong with them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from tracetypes.compiler.columns.arrow import arrow_type
from tracetypes.formats import Layout
from tracetypes.records import Boolean, Float, Integer, Optional, Schema, String

__all__ = ["JsonBlock"]

_BLOCK: Final = 1 << 20
"""Bytes that Arrow parses together: they stay in a processor's cache."""

_LONGEST: Final = 4_000
"""Bytes of a line. Python refuses integers of more digits."""

_DEEPEST: Final = 200
"""Objects and lists in a line, more than Python ever refuses to nest."""

_END, _OPENS, _CLOSES = b"\n{}"

_BEHIND: Final = re.compile(rb"\}[ \t\r]*[^ \t\r\n,\]}]")
"""What may follow a whole object: Arrow would take it for another row, and fails at some values."""

_INFINITE: Final = re.compile(rb"Inf(?!inity)")
"""What only Arrow takes for a number."""


def _is_plain(schema: Schema) -> bool:
    bare = schema.item if isinstance(schema, Optional) else schema
    return isinstance(bare, Integer | Float | Boolean | String)


@final
class JsonBlock:
    """Lines of objects with the fields of a layout, as columns. ``plain``: whether its types allow that."""

    def __init__(self, layout: Layout) -> None:
        columns = layout.columns
        names = [name for name, _ in columns]
        self.plain = bool(columns) and len(set(names)) == len(names) and all(_is_plain(schema) for _, schema in columns)
        if self.plain:
            schema = pa.schema([pa.field(name, arrow_type(one)) for name, one in columns])
            self.floats = [at for at, field in enumerate(schema) if pa.types.is_floating(field.type)]
            self.options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
            self.reading = pj.ReadOptions(use_threads=False, block_size=_BLOCK)

    def sure(self, lines: Sequence[bytes]) -> list[bool] | None:
        """Which lines are objects by themselves, or nothing that Arrow would take for one. None if all are."""
        text = b"\n".join((b"", *lines, b""))
        letters = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero(letters == _END)
        if len(ends) != len(lines) + 1:  # a line with a line end
            return [self._is_sure(line) for line in lines]
        shapes = (letters[ends[:-1] + 1] == _OPENS) & (letters[ends[1:] - 1] == _CLOSES)
        nested = np.count_nonzero(letters == _OPENS) - np.count_nonzero(shapes) + text.count(b"[")
        closes = np.flatnonzero(letters == _CLOSES)
        alone = bool((letters[closes + 1] == _END).all())
        whole = bool(shapes.all())
        if nested <= _DEEPEST and int(np.diff(ends).max()) <= _LONGEST and self._is_sound(text, alone=alone):
            return None if whole else shapes.tolist()
        return [self._is_sure(line) for line in lines]

    @staticmethod
    def _is_sound(text: bytes, *, alone: bool = False) -> bool:
        """Whether nothing lies behind a whole object, and no number or letter is one that Arrow knows alone. ``alone``: each
        brace that closes is the end of its line."""
        if b"\0" in text or (not alone and _BEHIND.search(text) is not None):
            return False
        return b"Inf" not in text or _INFINITE.search(text) is None

    def _is_sure(self, line: bytes) -> bool:
        if line[:1] != b"{" or line[-1:] != b"}" or len(line) > _LONGEST or b"\n" in line or not self._is_sound(line):
            return False
        return line.count(b"{") + line.count(b"[") <= _DEEPEST

    def columns(self, lines: Sequence[bytes]) -> tuple[Any, ...] | None:
        """The columns of lines that are all sure. None if they have to be read one by one."""
        text = b"\n".join((*lines, b""))
        try:
            if not text.isascii():
                text.decode()
            table = pj.read_json(pa.BufferReader(text), read_options=self.reading, parse_options=self.options)
        except (pa.ArrowException, UnicodeDecodeError):
            return None
        if table.num_rows != len(lines):
            return None
        arrays = tuple(column.combine_chunks() for column in table.columns)
        return arrays if all(self._is_settled(arrays[at]) for at in self.floats) else None

    @staticmethod
    def _is_settled(array: Any) -> bool:
        """Whether no float is infinite or NaN, or the negative zero that is an integer to Python."""
        values = (array.fill_null(0.0) if array.null_count else array).to_numpy()
        return bool(np.isfinite(values).all()) and not bool((values.view(np.int64) == np.iinfo(np.int64).min).any())
