"""Late items and rejects on their way to their outputs: rows as text, many at once, and why each of them went aside."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.compiler.columns.json_text import json_text, json_texts
from tracetypes.compiler.runtime.chunks import Chunk, LateRows
from tracetypes.compiler.runtime.messages import Message, Piece, SideRows
from tracetypes.errors import RunError
from tracetypes.markers import Marker
from tracetypes.parsing import Row
from tracetypes.plain_data import to_plain
from tracetypes.records import Schema

__all__ = [
    "ENOUGH",
    "Frontiers",
    "Lateness",
    "SideBuffer",
    "late_rows",
    "lines",
    "other_unit",
    "placed",
    "reasons",
    "rejected_rows",
    "shown_item",
    "shown_row",
    "texts",
]

ROWS, BYTES = 20_000, 1 << 22
"""Rows of a message at most; characters of rows that came one by one."""

ENOUGH: Final = 100
"""Rows at the beginning of a source, after which a run stops if the times of all of them are beyond the years 1 to 9999."""

Frontiers: TypeAlias = Mapping[tuple[int, Piece], int]
"""The last marker before each piece of a link."""


def other_unit(source: str, count: int, row: str, reason: str) -> RunError:
    """The error for a source whose first rows all have times beyond the years 1 to 9999. ``row``: the first one."""
    return RunError(
        "TT226",
        f"source {source!r}: all of the first {count:,} rows have times beyond the years 1 to 9999; the first of them is "
        f"{row[:200]} ({reason})",
        fix='declare the unit of the times, as every(..., unit="ms"), or correct time=; nothing was committed',
    )


@attrs.define
class SideBuffer:
    """Late items and rejects of a piece that come one by one. ``schemas``: of key and value."""

    source: str
    link: int
    piece: Piece
    schemas: tuple[Schema, Schema]
    late: list[tuple[str, int, int, bool]] = attrs.field(init=False, factory=list)
    rejects: list[tuple[str, str]] = attrs.field(init=False, factory=list)
    size: int = attrs.field(init=False, default=0)

    def add_late(self, key: Any, value: Any, block: int, closed: int, *, own: bool) -> None:
        """Take a late item. The other parameters are those of :class:`SideRows`."""
        row = shown_item(self.schemas, key, value)
        self.late.append((row, block, closed, own))
        self.size += len(row)

    def add_reject(self, row: str, reason: str) -> None:
        """Take a reject."""
        self.rejects.append((_utf8_text(row), _utf8_text(reason)))
        self.size += len(row)

    @property
    def full(self) -> bool:
        """Is it time for a message?"""
        return self.size > BYTES or len(self.late) + len(self.rejects) >= ROWS

    def messages(self) -> Iterator[Message]:
        """What has come."""
        if self.late:
            rows, blocks, closed, own = zip(*self.late, strict=True)
            yield _late(self.source, self.link, self.piece, list(rows), blocks, closed, own)
        if self.rejects:
            yield rejected_rows(self.source, self.link, self.piece, self.rejects)
        self.late, self.rejects, self.size = [], [], 0

    def chunk(self, chunk: Chunk, late: LateRows) -> Iterator[Message]:
        """The late rows of a chunk."""
        yield from self.messages()
        yield from late_rows(self.source, self.link, self.piece, self.schemas, chunk, late)


def shown_item(schemas: tuple[Schema, Schema], key: Any, value: Any) -> str:
    """An item as text. ``schemas``: of key and value."""
    key_schema, value_schema = schemas
    return json_text({"key": to_plain(key_schema, key), "value": to_plain(value_schema, value)})


def shown_row(schemas: tuple[Schema, Schema], chunk: Chunk, row: int) -> str:
    """The same of a row of a chunk."""
    (text,) = _shown(schemas, (chunk.column(("key",)), chunk.column(("value",))), pa.array([row]))
    return text


def _shown(schemas: tuple[Schema, Schema], columns: tuple[Any, Any], rows: Any) -> list[str]:
    """Some rows of two columns as text."""
    keys, values = (json_texts(schema, one.take(rows)) for schema, one in zip(schemas, columns, strict=True))
    return [f'{{"key": {key}, "value": {value}}}' for key, value in zip(keys, values, strict=True)]


def late_rows(
    source: str, link: int, piece: Piece, schemas: tuple[Schema, Schema], chunk: Chunk, late: LateRows
) -> Iterator[Message]:
    """The late rows of a chunk of a piece. ``schemas``: of key and value."""
    key, value = (chunk.column((name,)) for name in ("key", "value"))
    for at in range(0, len(late.rows), ROWS):
        some = slice(at, at + ROWS)
        texts = _shown(schemas, (key, value), pa.array(late.rows[some]))
        yield _late(source, link, piece, texts, late.ends[some], late.sent[some], late.own[some])


def _late(source: str, link: int | None, piece: Piece, rows: list[str], blocks: Any, closed: Any, own: Any) -> Message:
    columns = {"row": rows, "block": blocks, "closed": closed, "own": own}
    return Message(0, SideRows("late", source, link, piece, pa.record_batch(columns, _LATE)))


def late_row(source: str, schemas: tuple[Schema, Schema], row: Row, block: int, closed: int) -> Message:
    """A late item that only the stage knows of."""
    return _late(source, None, (0, 0, 0), [shown_item(schemas, row.key, row.value)], [block], [closed], [False])


def rejected_rows(source: str, link: int, piece: Piece, rows: list[tuple[str, str]]) -> Message:
    """Rejects: each as text, with its reason."""
    texts, reasons = zip(*rows, strict=True)
    return Message(0, SideRows("rejects", source, link, piece, pa.record_batch({"row": texts, "reason": reasons}, _REJECTS)))


_LATE: Final = pa.schema([("row", pa.string()), ("block", pa.int64()), ("closed", pa.int64()), ("own", pa.bool_())])
_REJECTS: Final = pa.schema([("row", pa.string()), ("reason", pa.string())])


def _utf8_text(text: str) -> str:
    """Text that is UTF-8: half a character in it is shown by its bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "backslashreplace")
    return text


# ---------------------------------------------------------------------------------------------- what is told of them


def placed(rows: SideRows, frontiers: Frontiers) -> SideRows:
    """With what earlier pieces of the epoch closed, as far as it is known."""
    if rows.link is None:
        return rows
    closed = frontiers.get((rows.link, rows.piece))
    rows = attrs.evolve(rows, link=None)  # a later stage has other links
    if rows.holds != "late" or closed is None:
        return rows
    at = rows.batch.schema.get_field_index("closed")
    later = pc.max_element_wise(rows.batch.column(at), pa.scalar(closed, pa.int64()))
    return attrs.evolve(rows, batch=rows.batch.set_column(at, "closed", later))


@attrs.define
class Lateness:
    """What is known of late rows. ``own``: how many would be late by their own piece; ``behind``: the most microseconds from the
    end of a block to the marker that was sent before its row."""

    rows: int = 0
    own: int = 0
    behind: int = 0

    def add(self, rows: SideRows) -> None:
        """Take late rows that are :func:`placed`."""
        columns = [rows.batch.column(name) for name in ("closed", "block")]
        self.rows += rows.batch.num_rows
        self.own += pc.sum(rows.batch.column("own")).as_py() or 0
        self.behind = max(self.behind, pc.max(pc.subtract(*columns)).as_py() or 0)


def reasons(rows: SideRows) -> list[str]:
    """Why each of the rows went aside."""
    batch = rows.batch
    if rows.holds != "late":
        return list(batch.column("reason").to_pylist())
    pairs = np.stack([batch.column(name).to_numpy() for name in ("block", "closed")])
    distinct, number = np.unique(pairs, axis=1, return_inverse=True)
    texts = [
        f"its block ended at {Marker(block)}, and {Marker(closed)} was already sent"
        for block, closed in distinct.T.tolist()
    ]
    return [texts[at] for at in number.reshape(-1).tolist()]


def texts(rows: SideRows) -> list[str]:
    """Late items as JSON, rejected rows as they came."""
    return list(rows.batch.column("row").to_pylist())


def lines(rows: SideRows) -> Iterator[str]:
    """The lines that their output gets."""
    as_text = texts(rows) if rows.holds == "late" else map(_dumps, texts(rows))
    for reason, row in zip(map(_dumps, reasons(rows)), as_text, strict=True):
        yield f'{{"reason": {reason}, "row": {row}}}\n'


_dumps: Final = json.JSONEncoder(ensure_ascii=False).encode
