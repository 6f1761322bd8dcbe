"""JSON lines that look like the line before them, read by machine code.

A :class:`Template` is the shape of a line: the letters around its values, and the field of each value. :class:`TemplateReader`
reads the lines of that shape as columns. All other lines are for the usual reader.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.columns.arrow import arrow_type
from tracetypes.compiler.columns.machine.code import MachineFunction
from tracetypes.compiler.connectors.json_kernel import (
    BOOLEAN,
    DAY,
    FLOAT,
    INTEGER,
    LEAST_POWER,
    MOST_POWER,
    NULLABLE,
    PADDING,
    SKIPPED,
    TEXT,
    TIME,
    ZONED,
)
from tracetypes.formats import Layout
from tracetypes.records import Boolean, Date, EnumOf, Float, Integer, LiteralOf, Optional, Schema, String, Timestamp

__all__ = ["OtherLines", "ParsedLines", "Template", "TemplateReader"]

_OTHERS: Final = 16
"""One line of so many may have another shape. Where more have, the usual reader takes them all."""

_PIECE: Final = 1 << 23
"""Bytes of a text that are read at once."""

_TEXTS: Final = 32
"""Texts in a line that is read at once. Each has an array as large as the piece; what is not written to costs no memory."""

_NAME: Final = re.compile(rb'[ \t]*"([^"\\\x00-\x1f]*)"[ \t]*:[ \t]*')
_VALUE: Final = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null')
_COMMA: Final = re.compile(rb"[ \t]*,")
_CLOSE: Final = re.compile(rb"[ \t]*\}[ \t]*\n")


def _kind(schema: Schema) -> int | None:
    """How the kernel reads values of a schema. None: it does not."""
    match schema:
        case Optional(item):
            kind = _kind(item)
            return None if kind is None else kind | NULLABLE
        case Integer():
            return INTEGER
        case Float():
            return FLOAT
        case Boolean():
            return BOOLEAN
        case String() | LiteralOf(String()) | EnumOf(_, String()):
            return TEXT
        case Timestamp():
            return TIME | (ZONED if schema.zone == "UTC" else 0)
        case Date():
            return DAY
        case _:
            return None


@attrs.frozen
class Template:
    """The shape of a line. ``kinds``: of its values; ``places``: where each goes; ``columns``: the place of each column of the
    layout, None if the line has no such field. ``texts``: how many places are of texts. ``words`` and so on: the letters before
    each value and behind the last one, eight in a word."""

    kinds: Any
    places: Any
    columns: tuple[int | None, ...]
    texts: int
    words: Any
    masks: Any
    sizes: Any
    firsts: Any

    @classmethod
    def of(cls, line: bytes, layout: Layout) -> Template | None:
        """The shape of a line, which ends with its line end. None if it is no object of scalars with the fields of the layout,
        each once."""
        if (found := _fields(line)) is None:
            return None
        letters, names = found
        schemas = dict(layout.columns)
        kinds = [_kind(schemas[name]) if name in schemas else SKIPPED for name in names]
        missing = [schema for name, schema in layout.columns if name not in names and not isinstance(schema, Optional)]
        texts = sum(kind & ~NULLABLE == TEXT for kind in kinds if kind is not None)
        if missing or None in kinds or len(set(names)) < len(names) or texts > _TEXTS:
            return None
        places = _places(kinds)
        at = dict(zip(names, places, strict=True))
        columns = tuple(at.get(name) for name, _ in layout.columns)
        return cls(_int64(kinds), _int64(places), columns, texts, *_words(letters))


def _fields(line: bytes) -> tuple[list[bytes], list[str]] | None:
    """The letters around the values of an object, and the names of these."""
    letters, names = list[bytes](), list[str]()
    before, at = 0, 1
    if line[:1] != b"{":
        return None
    while one := _NAME.match(line, at):
        value = _VALUE.match(line, one.end())
        if value is None:
            return None
        try:
            names.append(one[1].decode())
        except UnicodeDecodeError:
            return None
        letters.append(line[before : value.start()])
        before = value.end()
        comma = _COMMA.match(line, before)
        if comma is None:
            break
        at = comma.end()
    if not names or _CLOSE.fullmatch(line, before) is None:
        return None
    return [*letters, line[before:]], names


def _places(kinds: Sequence[int | None]) -> list[int]:
    """Texts have the first places, behind them is the one of all that is skipped, then numbers follow."""
    texts = [at for at, kind in enumerate(kinds) if kind is not None and kind & ~NULLABLE == TEXT]
    others = [at for at, kind in enumerate(kinds) if kind != SKIPPED and at not in texts]
    numbered = {at: place for place, at in enumerate(texts)} | {at: len(texts) + 1 + n for n, at in enumerate(others)}
    return [numbered.get(at, len(texts)) for at in range(len(kinds))]


def _words(letters: Sequence[bytes]) -> tuple[Any, Any, Any, Any]:
    """Letters as words of eight, the masks and sizes of these, and the number of the first one of each."""
    words, masks, sizes, firsts = list[int](), list[int](), list[int](), [0]
    for some in letters:
        for at in range(0, len(some), 8):
            part = some[at : at + 8]
            words.append(int.from_bytes(part, "little"))
            masks.append((1 << 8 * len(part)) - 1)
            sizes.append(len(part))
        firsts.append(len(words))
    return np.array(words, np.uint64), np.array(masks, np.uint64), _int64(sizes), _int64(firsts)


def _int64(numbers: Sequence[int | None]) -> Any:
    return np.array(numbers, np.int64)


@cache
def _powers() -> tuple[Any, Any]:
    """Powers of ten as floats, and of five as 128 bits, the upper 64 first (Lemire 2021)."""
    fives = list[int]()
    for exponent in range(LEAST_POWER, MOST_POWER + 1):
        power = 5 ** abs(exponent)
        if exponent < 0:
            size = (power - 1).bit_length()
            bits = (1 << (size + 127 if exponent >= -27 else 2 * size + 128)) // power + 1
        else:
            bits = power << 128
        bits >>= max(0, bits.bit_length() - 128)
        fives += [bits >> 64, bits & (1 << 64) - 1]
    return np.array([10.0**n for n in range(23)]), np.array(fives, np.uint64)


@attrs.frozen
class OtherLines:
    """Lines of another shape. ``before``: how many rows of the shape stand before each."""

    lines: list[bytes]
    before: list[int]


@attrs.frozen
class ParsedLines:
    """Lines of the shape as columns of the layout (Arrow arrays), the others, and where the line begins that is next."""

    columns: tuple[Any, ...]
    num_rows: int
    others: OtherLines
    end: int


@final
class TemplateReader:
    """Reads lines with fields of a layout. ``useful``: whether the kernel reads its types."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        names = [name for name, _ in layout.columns]
        kinds = [_kind(schema) for _, schema in layout.columns]
        self.useful = bool(names) and None not in kinds and len(set(names)) == len(names) and sys.byteorder == "little"
        self._template: Template | None = None

    def read(self, kernel: MachineFunction, text: bytes, start: int, most: int) -> ParsedLines | None:
        """At most so many lines of a text of whole lines without CR, from a place on. None if many have another shape than the
        line before."""
        template = self._template  # another thread may set it
        parsed = None if template is None else _read(kernel, template, self.layout, text, start, most)
        if parsed is None:
            line = text[start : text.index(b"\n", start) + 1]
            template = self._template = Template.of(line, self.layout)
            parsed = None if template is None else _read(kernel, template, self.layout, text, start, most)
        return parsed


def _read(
    kernel: MachineFunction, template: Template, layout: Layout, text: bytes, start: int, most: int
) -> ParsedLines | None:
    letters, stop = np.frombuffer(text, np.uint8), text.rfind(b"\n", start, start + _PIECE) + 1
    if not stop:
        return None
    size, shortest = stop - start, int(template.sizes.sum()) + len(template.kinds)
    capacity = min(most, size // shortest + size // (_OTHERS * 2) + 1)
    width = size + 2 * PADDING
    count = len(template.kinds) + 1
    numbers, valid = np.empty(count * capacity, np.int64), np.empty(count * capacity, np.uint8)
    offsets = np.empty(max(1, template.texts) * (capacity + 1), np.int32)
    offsets[:: capacity + 1] = 0
    data = np.empty((template.texts + 1) * width, np.uint8)
    most_others = capacity // _OTHERS
    others = np.empty(3 * most_others + 3, np.int64)
    answer = np.array([start, 0, 0], np.int64)

    def run(some: Any, end: int, base: int) -> int:
        return kernel(
            *(some, end, len(some) - 8, base, len(template.kinds), capacity, most_others, width),
            *(template.words, template.masks, template.sizes, template.firsts, template.kinds, template.places),
            *(numbers, numbers.view(np.float64), valid, offsets, data, *_powers(), others, answer),
        )

    status, end = run(letters, stop, 0), int(answer[0])
    if status == 1:
        tail = np.frombuffer(text[end:stop] + bytes(PADDING), np.uint8)
        answer[0] = 0
        status = run(tail, stop - end, end)
        end += int(answer[0])
    if status:
        return None
    rows = int(answer[1])
    output = _Output(template, capacity, width, rows, numbers, valid, offsets, data)
    columns = tuple(
        pa.nulls(rows, arrow_type(schema)) if place is None else output.column(place, schema)
        for place, (_, schema) in zip(template.columns, layout.columns, strict=True)
    )
    places = others[: 3 * int(answer[2])].reshape(-1, 3).tolist()
    lines = [(text[a:b], before) for a, b, before in places]
    lines = [(line[:-1], before) for line, before in lines if line.strip()]
    return ParsedLines(columns, rows, OtherLines([line for line, _ in lines], [before for _, before in lines]), end)


@attrs.frozen
class _Output:
    """What the kernel wrote."""

    template: Template
    capacity: int
    width: int
    rows: int
    numbers: Any
    valid: Any
    offsets: Any
    data: Any

    def column(self, place: int, schema: Schema) -> Any:
        """The column of a place."""
        first, rows, kind = place * self.capacity, self.rows, arrow_type(schema)
        bitmap = None
        if isinstance(schema, Optional) and not (valid := self.valid[first : first + rows]).all():
            bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
        if place < self.template.texts:
            offsets = self.offsets[first + place : first + place + rows + 1]
            data = self.data[place * self.width : place * self.width + int(offsets[-1])]
            return pa.Array.from_buffers(kind, rows, [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)])
        values = self.numbers[first : first + rows]
        if pa.types.is_boolean(kind):
            values = np.packbits(values.astype(np.uint8), bitorder="little")
        elif pa.types.is_date32(kind):
            values = values.astype(np.int32)
        return pa.Array.from_buffers(kind, rows, [bitmap, pa.py_buffer(values)])
