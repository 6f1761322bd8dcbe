"""Messages as rows ``(group, kind, header, payload)``: the header is JSON, the payload Arrow, text or a pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

import attrs
import pyarrow as pa

from tracetypes.compiler.analysis.pickled import dumps, loads
from tracetypes.compiler.columns.arrow import to_bytes
from tracetypes.compiler.runtime.messages import (
    Aggregates,
    Aside,
    Body,
    Closed,
    Drain,
    File,
    Holds,
    Items,
    Late,
    Markers,
    Message,
    Metrics,
    Partials,
    Piece,
    Reject,
    Report,
    Rows,
    StageProgress,
    TakenSplit,
    Verified,
)
from tracetypes.silence import ranges_of, read_ranges, shown_ranges

__all__ = ["Encoded", "Kind", "decode", "encode", "from_line", "shown_line", "text_of", "to_line"]


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


_HOLDS: Final[dict[Holds, Kind]] = {"rows": Kind.ROWS, "late": Kind.LATE, "rejects": Kind.REJECT}


class Encoded(NamedTuple):
    """A message as a row."""

    group: int
    kind: int
    header: bytes = b""
    payload: bytes = b""


def _json(fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


@lru_cache(maxsize=64)
def _place(link: int, piece: Piece | None) -> bytes:
    """The same for the messages to all key groups, as the next one."""
    return _json({"link": link, "piece": piece})


@lru_cache(maxsize=64)
def _report(report: Report) -> bytes:
    return _json(attrs.asdict(report))


def encode(message: Message) -> Encoded:
    """A message as a row."""
    return Encoded(message.group, *_encoded(message.body))


def _encoded(body: Body) -> tuple[Kind, bytes, bytes]:
    match body:
        case Items(link, piece, batch):
            return Kind.ITEMS, _place(link, piece), to_bytes(batch)
        case Aggregates(link, piece, batch):
            return Kind.AGGREGATES, _place(link, piece), to_bytes(batch)
        case Partials(link, piece, keys, aggs, ends):
            return Kind.PARTIALS, _place(link, piece), dumps((keys, aggs, ends))
        case Report():
            return Kind.REPORT, _report(body), b""
        case Markers():
            return Kind.MARKERS, _json(_shown(body)), b""
        case Drain():
            return Kind.DRAIN, b"", b""
        case Late(source, reason):
            why = {"reason": reason} if isinstance(reason, str) else attrs.asdict(reason)
            return Kind.LATE, _json({"source": source, **why}), text_of(body).encode()
        case Reject(source, reason, row):
            return Kind.REJECT, _json({"source": source, "reason": reason}), row.encode("utf-8", "surrogatepass")
        case Rows(batch):
            return Kind.ROWS, b"", to_bytes(batch)
        case File(holds, source, name, count):
            fields = {"kind": int(_HOLDS[holds]), "source": source, "name": name, "count": count}
            return Kind.FILE, _json(fields), b""
        case StageProgress():
            return Kind.PROGRESS, _json(_shown(body)), b""
        case Metrics():
            return Kind.METRICS, _json(attrs.asdict(body)), b""
        case Verified():
            return Kind.VERIFIED, _json(attrs.asdict(body)), b""
        case TakenSplit(reading, hash, split):
            return Kind.TAKEN, _json({"reading": reading, "hash": hash, **split}), b""


def _shown(body: Markers | StageProgress) -> dict[str, Any]:
    """The fields of a message that has markers: runs of them, and silences, as three numbers each."""
    runs = shown_ranges(ranges_of(body.markers))
    return attrs.asdict(body, recurse=False) | {"markers": runs, "silence": shown_ranges(body.silence)}


def _read(head: dict[str, Any]) -> dict[str, Any]:
    markers = [marker for one in read_ranges(head["markers"]) for marker in one]
    return head | {"markers": markers, "silence": read_ranges(head["silence"])}


def decode(group: int, kind: int, header: bytes, payload: bytes) -> Message:
    """The message of a row."""
    return Message(group, _decoded(Kind(kind), header, payload))


def _decoded(kind: Kind, header: bytes, payload: bytes) -> Body:
    head: dict[str, Any] = json.loads(header) if header else {}
    match kind:
        case Kind.ITEMS:
            return Items(head["link"], _piece(head["piece"]), _batch(payload))
        case Kind.AGGREGATES:
            return Aggregates(head["link"], _piece(head["piece"]), _batch(payload))
        case Kind.PARTIALS:
            return Partials(head["link"], _piece(head["piece"]), *loads(payload))
        case Kind.REPORT:
            jump = head["jump"]
            tuples = {name: tuple(head[name]) for name in ("piece", "markers", "counts")}
            return Report(**{**head, **tuples, "jump": None if jump is None else tuple(jump)})
        case Kind.MARKERS:
            return Markers(**_read(head))
        case Kind.DRAIN:
            return Drain()
        case Kind.LATE:
            source = head.pop("source")
            reason = head["reason"] if "reason" in head else Closed(**{**head, "piece": tuple(head["piece"])})
            return Late(source, reason, json.loads(payload))
        case Kind.REJECT:
            return Reject(head["source"], head["reason"], payload.decode("utf-8", "backslashreplace"))
        case Kind.ROWS:
            return Rows(_batch(payload))
        case Kind.FILE:
            (holds,) = [name for name, number in _HOLDS.items() if number == head["kind"]]
            return File(holds, head["source"], head["name"], head["count"])
        case Kind.PROGRESS:
            return StageProgress(**_read(head))
        case Kind.METRICS:
            return Metrics(**head)
        case Kind.VERIFIED:
            return Verified(**head)
        case Kind.TAKEN:
            return TakenSplit(head.pop("reading"), head.pop("hash"), head)


def _piece(found: list[int] | None) -> Piece | None:
    if found is None:
        return None
    time, file, offset = found
    return time, file, offset


def _batch(payload: bytes) -> Any:
    return pa.ipc.open_stream(payload).read_next_batch()


# ------------------------------------------------------------------------------------------------- rows aside


def text_of(aside: Aside) -> str:
    """A late item as JSON, a rejected row as it came."""
    match aside:
        case Late(row=row):
            return json.dumps(row, ensure_ascii=False)
        case Reject(row=row):
            return row


def shown_line(aside: Aside, frontiers: Mapping[tuple[int, Piece], int]) -> str:
    """A row aside as the line that its output gets. ``frontiers``: the last marker before each piece of a link."""
    reason = aside.reason if isinstance(aside.reason, str) else aside.reason.shown(frontiers)
    return json.dumps({"reason": reason, "row": aside.row}, ensure_ascii=False) + "\n"


def to_line(aside: Aside) -> str:
    """A late or rejected row as a line of a file: why a row is late may be known to the driver only."""
    kind, header, payload = _encoded(aside)
    return json.dumps([int(kind), header.decode(), payload.decode("utf-8", "backslashreplace")]) + "\n"


def from_line(line: str) -> Aside:
    """The inverse of :func:`to_line`."""
    kind, header, text = json.loads(line)
    found = _decoded(Kind(kind), header.encode(), text.encode())
    if isinstance(found, Aside):
        return found
    raise ValueError(f"{type(found).__name__} is no row aside")
