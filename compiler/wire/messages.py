"""Messages as rows ``(group, kind, header, payload)``: the header is JSON, the payload Arrow or a pickle."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

import attrs
import pyarrow as pa

from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.columns.batches import to_bytes
from tracetypes.compiler.runtime.messages import (
    Aggregates,
    Body,
    Drain,
    File,
    Holds,
    Items,
    Markers,
    Message,
    Metrics,
    Partials,
    Piece,
    Report,
    Rows,
    SideRows,
    StageProgress,
    TakenSplits,
    TextNotes,
    Verified,
)
from tracetypes.compiler.runtime.partial_aggregation import ArrowRows
from tracetypes.marker_runs import MarkerRuns
from tracetypes.silence import read_ranges, shown_ranges

__all__ = ["EncodedBody", "Kind", "MessageRow", "decode", "encode", "from_frames", "to_frame"]


class Kind(IntEnum):
    """What a message is, in a row."""

    ITEMS = 0
    REPORT = 1
    MARKERS = 2
    DRAIN = 3
    LATE = 4
    REJECT = 5
    PROGRESS = 6
    ROWS = 7
    AGGREGATES = 8
    PARTIALS = 9
    FILE = 10
    METRICS = 11
    VERIFIED = 12
    TAKEN = 13
    NOTES = 14


_HOLDS: Final[dict[Holds, Kind]] = {"rows": Kind.ROWS, "late": Kind.LATE, "rejects": Kind.REJECT}


Payload: TypeAlias = bytes | bytearray | memoryview


class MessageRow(NamedTuple):
    """A message as a row."""

    group: int
    kind: int
    header: bytes = b""
    payload: Payload = b""


@attrs.frozen(eq=False)
class EncodedBody:
    """The body of a message that stays in bytes, in a process that only passes it on. ``count``: how many items it has, or
    aggregates of them."""

    kind: int
    header: bytes
    payload: Payload
    count: int


def _json(fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


@lru_cache(maxsize=64)
def _place(link: int, piece: Piece | None) -> bytes:
    """The same for the messages to all key groups, as the next one."""
    return _json({"link": link, "piece": piece})


@lru_cache(maxsize=64)
def _report(report: Report) -> bytes:
    fields = attrs.asdict(report)
    return _json(fields | {"blocks": shown_ranges(report.blocks.ranges)} if report.blocks else _without(fields, "blocks"))


def _without(fields: dict[str, Any], name: str) -> dict[str, Any]:
    del fields[name]
    return fields


def encode(message: Message) -> MessageRow:
    """A message as a row."""
    body: Any = message.body
    if isinstance(body, EncodedBody):
        return MessageRow(message.group, body.kind, body.header, body.payload)
    return MessageRow(message.group, *_encoded(body))


def _encoded(body: Body) -> tuple[Kind, bytes, bytes]:
    match body:
        case Items(link, piece) as items:
            return Kind.ITEMS, _place(link, piece), to_bytes(items.batch)
        case Aggregates(link, piece, rows):
            return Kind.AGGREGATES, _place(link, piece), to_bytes(rows.to_arrow())
        case Partials(link, piece, keys, aggs, ends):
            return Kind.PARTIALS, _place(link, piece), dumps((keys, aggs, ends))
        case Report():
            return Kind.REPORT, _report(body), b""
        case Markers():
            return Kind.MARKERS, _json(_shown(body)), b""
        case Drain():
            return Kind.DRAIN, b"", b""
        case SideRows(holds, source, link, piece, batch):
            return _HOLDS[holds], _json({"source": source, "link": link, "piece": piece}), to_bytes(batch)
        case Rows() as rows:
            return Kind.ROWS, b"", to_bytes(rows.batch)
        case File(holds, source, name, count):
            fields = {"kind": int(_HOLDS[holds]), "source": source, "name": name, "count": count}
            return Kind.FILE, _json(fields), b""
        case StageProgress():
            return Kind.PROGRESS, _json(_shown(body)), b""
        case Metrics():
            return Kind.METRICS, _json(attrs.asdict(body)), b""
        case Verified():
            return Kind.VERIFIED, _json(attrs.asdict(body)), b""
        case TakenSplits(reading, splits):
            return Kind.TAKEN, _json({"reading": reading, "splits": splits}), b""
        case TextNotes():
            return Kind.NOTES, _json(attrs.asdict(body)), b""


def _shown(body: Markers | StageProgress) -> dict[str, Any]:
    """The fields of a message that has markers: runs of them, and silences, as three numbers each."""
    shown = {"markers": shown_ranges(body.markers.ranges), "silence": shown_ranges(body.silence)}
    return attrs.asdict(body, recurse=False) | shown


def _read(head: dict[str, Any]) -> dict[str, Any]:
    return head | {"markers": MarkerRuns(read_ranges(head["markers"])), "silence": read_ranges(head["silence"])}


def decode(group: int, kind: int, header: bytes, payload: Payload) -> Message:
    """The message of a row."""
    return Message(group, _body_of(Kind(kind), header, payload))


def _body_of(kind: Kind, header: bytes, payload: Payload) -> Body:
    head: dict[str, Any] = json.loads(header) if header else {}
    match kind:
        case Kind.ITEMS:
            return Items(head["link"], _piece(head["piece"]), _batch(payload))
        case Kind.AGGREGATES:
            return Aggregates(head["link"], _piece(head["piece"]), ArrowRows(_batch(payload)))
        case Kind.PARTIALS:
            return Partials(head["link"], _piece(head["piece"]), *loads(payload))
        case Kind.REPORT:
            jump = head["jump"]
            tuples = {name: tuple(head[name]) for name in ("piece", "markers", "counts", "sizes") if name in head}
            others = {"blocks": MarkerRuns(read_ranges(head.get("blocks", ()))), "jump": None if jump is None else tuple(jump)}
            return Report(**(head | tuples | others))
        case Kind.MARKERS:
            return Markers(**_read(head))
        case Kind.DRAIN:
            return Drain()
        case Kind.LATE | Kind.REJECT:
            return SideRows(_holds(kind), head["source"], head["link"], tuple(head["piece"]), _batch(payload))
        case Kind.ROWS:
            return Rows(_batch(payload))
        case Kind.FILE:
            return File(_holds(head["kind"]), head["source"], head["name"], head["count"])
        case Kind.PROGRESS:
            jumps = tuple((source, tuple(jump)) for source, jump in head["jumps"])
            return StageProgress(**_read(head) | {"jumps": jumps})
        case Kind.METRICS:
            return Metrics(**head)
        case Kind.VERIFIED:
            return Verified(**head)
        case Kind.TAKEN:
            return TakenSplits(**head)
        case Kind.NOTES:
            has, before = head["optional"] or (None, None)
            optional = None if has is None or before is None else (tuple(has), tuple(before))
            return TextNotes(**{**head, "piece": tuple(head["piece"]), "optional": optional})


def _holds(kind: int) -> Holds:
    (holds,) = [name for name, number in _HOLDS.items() if number == kind]
    return holds


def _piece(places: list[int] | None) -> Piece | None:
    if places is None:
        return None
    time, file, offset = places
    return time, file, offset


def _batch(payload: Payload) -> Any:
    return pa.ipc.open_stream(payload).read_next_batch()


# ------------------------------------------------------------------------------------------------------- files

_SIZES = struct.Struct("<BII")


def to_frame(message: Message) -> bytes:
    """A message as bytes of a file, one after the other."""
    row = encode(message)
    return _SIZES.pack(row.kind, len(row.header), len(row.payload)) + row.header + row.payload


def from_frames(file: BinaryIO, group: int = 0) -> Iterator[Message]:
    """The messages of a file, for a key group."""
    while sizes := file.read(_SIZES.size):
        kind, header, payload = _SIZES.unpack(sizes)
        yield decode(group, kind, file.read(header), file.read(payload))
