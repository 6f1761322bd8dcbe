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

from tracetypes.compiler.columns.arrow import arrow_type, in_one_piece
from tracetypes.compiler.connectors.line_block import LineBlock
from tracetypes.formats import Layout
from tracetypes.records import Boolean, Float, Integer, Optional, Schema, String

__all__ = ["JsonBlock"]

_BLOCK: Final = 1 << 16
"""Bytes that Arrow parses together at least. All of a block make one chunk of each column."""

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

    def sure(self, lines: Sequence[bytes]) -> tuple[LineBlock, Sequence[bytes]]:
        """The lines that are objects by themselves, or nothing that Arrow would take for one; and the others."""
        block = lines if isinstance(lines, LineBlock) else LineBlock(b"".join(line + b"\n" for line in lines))
        mask = self._mask(block)
        return block.where(mask), [block[at] for at in np.flatnonzero(~mask).tolist()]

    def _mask(self, lines: LineBlock) -> Any:
        text, letters = lines.text, lines.letters
        shapes = (letters[lines.starts] == _OPENS) & (letters[lines.ends - 1] == _CLOSES)
        whole = np.count_nonzero(shapes)
        opens, closes = letters == _OPENS, letters == _CLOSES
        nested = np.count_nonzero(opens) - whole + (text.count(b"[") if b"[" in text else 0)
        # A brace that opens and one that closes, first and last letters of each line that may be an object: no others.
        alone = nested == 0 and np.count_nonzero(closes) == whole
        alone = alone or bool((letters[np.flatnonzero(closes) + 1] == _END).all())
        longest = int((lines.ends - lines.starts).max(initial=0))
        if nested <= _DEEPEST and longest <= _LONGEST and self._is_sound(text, alone=alone):
            return shapes
        return np.fromiter(map(self._is_sure, lines), bool, len(lines))

    @staticmethod
    def _is_sound(text: bytes, *, alone: bool = False) -> bool:
        """Whether nothing lies behind a whole object, and no number or letter is one that Arrow knows alone. ``alone``: each
        brace that closes is the end of its line."""
        if b"\0" in text or (not alone and _BEHIND.search(text) is not None):
            return False
        return b"I" not in text or b"Inf" not in text or _INFINITE.search(text) is None

    def _is_sure(self, line: bytes) -> bool:
        if line[:1] != b"{" or line[-1:] != b"}" or len(line) > _LONGEST or not self._is_sound(line):
            return False
        return line.count(b"{") + line.count(b"[") <= _DEEPEST

    def columns(self, lines: Sequence[bytes]) -> tuple[Any, ...] | None:
        """The columns of lines that are all sure. None if they have to be read one by one."""
        text = lines.text if isinstance(lines, LineBlock) else b"".join(line + b"\n" for line in lines)
        reading = pj.ReadOptions(use_threads=False, block_size=max(len(text), _BLOCK))
        try:
            if not text.isascii():
                text.decode()
            table = pj.read_json(pa.BufferReader(text), read_options=reading, parse_options=self.options)
        except (pa.ArrowException, UnicodeDecodeError):
            return None
        if table.num_rows != len(lines):
            return None
        arrays = tuple(map(in_one_piece, table.columns))
        return arrays if all(self._is_settled(arrays[at]) for at in self.floats) else None

    @staticmethod
    def _is_settled(array: Any) -> bool:
        """Whether no float is infinite or NaN, or the negative zero that is an integer to Python."""
        values = (array.fill_null(0.0) if array.null_count else array).to_numpy()
        return bool(np.isfinite(values).all()) and not bool((values.view(np.int64) == np.iinfo(np.int64).min).any())
