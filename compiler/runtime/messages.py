"""What travels between the pieces of a plan: rows ``(group, kind, header, payload)``, the same on every backend."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

import attrs
import cloudpickle

from tracetypes.markers import Marker

__all__ = ["Difference", "Kind", "Message", "Piece", "Report", "RetryEpoch", "dumps", "loads", "reason_of"]


class Kind(IntEnum):
    """What a message is."""

    ITEMS = 0
    """Items for a key group. Header: link, piece. Payload: an encoded batch."""
    REPORT = 1
    """What a piece of a source held; to every key group. Header: a :class:`Report`."""
    MARKERS = 2
    """Markers that an earlier stage has closed; to every key group. Header: link, markers, complete."""
    DRAIN = 3
    """All sources have ended; to every key group."""
    LATE = 4
    """A late item on its way to the source's late output. Payload: the row as JSON. Header: source and reason; between the
    source and its stage, which knows what earlier pieces closed, source, link, piece, block and closed."""
    REJECT = 5
    """A row on its way to the source's reject output. Header: source and reason. Payload: the row as text."""
    PROGRESS = 6
    """From the last stage to whoever runs the plan. Header: markers closed, newest event time of each part of each reading of a
    source."""
    ROWS = 7
    """Items for the sink. Payload: a batch of the sink's rows."""
    AGGREGATES = 8
    """Items for a key group, combined by block and key as columns. Header: link, piece. Payload: keys, ends, and the parts of
    the aggregates in Arrow."""
    PARTIALS = 9
    """The same with aggregates as pickled objects, where the monoid has no columns."""
    METRICS = 11
    """What a key group of a stage took and holds. Header: stage, group, items that flowed to each operator and out of the last,
    items that were emitted, keys by operator, how many markers were closed and the last so far, bytes of state."""
    VERIFIED = 12
    """How much was compared with plain Python. Header: rows, and seconds of processor time that it took."""
    FILE = 10
    """``ROWS``, ``LATE`` or ``REJECT`` messages that a worker has put into a file. Header: kind, source, name of the file, and
    count of its rows."""
    TAKEN = 13
    """What a task has read of a file, from the source to the driver. Header: the source split, its hash, and which reading of the
    source it is of."""


Piece = tuple[int, int, int]
"""Places a piece of a source in the order of arrival: modification time, file, offset (or any three integers)."""


class Message(NamedTuple):
    """One row between stages. ``header`` is JSON."""

    group: int
    kind: int
    header: bytes
    payload: bytes = b""

    @property
    def head(self) -> dict[str, Any]:
        """The header, parsed."""
        parsed: dict[str, Any] = json.loads(self.header) if self.header else {}
        return parsed


def header(**fields: Any) -> bytes:
    """A header."""
    return json.dumps(fields, separators=(",", ":")).encode()


def reason_of(head: dict[str, Any], frontiers: Mapping[tuple[int, Piece], int]) -> str:
    """Why a row is aside, from its header; ``frontiers``: the last marker before each piece of a link."""
    if "closed" not in head:
        return str(head["reason"])
    closed = max(head["closed"], frontiers.get((head["link"], tuple(head["piece"])), head["closed"]))
    return f"its block ended at {Marker(head['block'])}, and {Marker(closed)} was already sent"


@attrs.frozen(kw_only=True)
class Report:
    """What one piece of a source held, as every key group of the stage behind it must know.

    ``part`` of ``parts``: a source in parts (the partitions of a topic) is the merge of them, each with markers of its own.
    Event time: ``newest`` time of any row, ``first`` block of any item that was not late, ``before``: the newest time
    that was taken to lie before the piece when its late items were told, ``jump``: the widest pair of neighbouring blocks.
    ``late`` and ``rejects``: how many rows went aside. ``last``: the last block of any item or heartbeat. ``open``: where late
    items or rejects are what is sent, the last block of any of them as far as the piece tells. ``idle``: the part has been
    silent for so long that the others do not wait for it.
    Markers in band: ``markers`` in order, and ``counts``: how many items lie before each of them and after the last.
    """

    link: int
    piece: Piece
    rows: int = 0
    newest: int | None = None
    first: int | None = None
    before: int | None = None
    jump: tuple[int, int] | None = None
    markers: tuple[int, ...] = ()
    counts: tuple[int, ...] = (0,)
    late: int = 0
    rejects: int = 0
    last: int | None = None
    open: int | None = None
    part: int = 0
    parts: int = 1
    idle: bool = False

    def to_header(self) -> bytes:
        """For a message."""
        return header(**attrs.asdict(self))

    @classmethod
    def from_head(cls, head: dict[str, Any]) -> Report:
        """From a message."""
        jump = head["jump"]
        return cls(
            **{
                **head,
                "piece": tuple(head["piece"]),
                "jump": None if jump is None else tuple(jump),
                "markers": tuple(head["markers"]),
                "counts": tuple(head["counts"]),
            }
        )


class RetryEpoch(Exception):
    """A step must be done again: a piece held items that earlier pieces of the same step made late.

    ``before``: for each reading of a source the pieces of the step with the newest event time that lies before each.
    """

    MARK = "TRACETYPES-REREAD "

    def __init__(self, before: dict[str, list[tuple[Piece, int | None]]]) -> None:
        self.before = before
        super().__init__(self.MARK + json.dumps(before))

    @classmethod
    def from_text(cls, text: str) -> RetryEpoch | None:
        """The exception that is somewhere in a text, or None."""
        at = text.find(cls.MARK)
        if at < 0:
            return None
        found, _ = json.JSONDecoder().raw_decode(text[at + len(cls.MARK) :])
        return cls({name: [(tuple(piece), newest) for piece, newest in pairs] for name, pairs in found.items()})

    def __reduce__(self) -> tuple[Any, ...]:
        return (RetryEpoch, (self.before,))


class Difference(Exception):
    """An operator answers something else as columns than in Python. The epoch has to be done again, that operator in Python.

    ``operator``: its name in the plan; ``asked``: what for; ``traced`` and ``python``: the two answers, as text.
    """

    MARK = "TRACETYPES-DIFFERENCE "

    def __init__(self, operator: str, method: str, asked: str, traced: str, python: str) -> None:
        self.operator, self.method, self.asked, self.traced, self.python = operator, method, asked, traced, python
        super().__init__(self.MARK + json.dumps(self.parts))

    @property
    def parts(self) -> tuple[str, str, str, str, str]:
        """What it was made of."""
        return self.operator, self.method, self.asked, self.traced, self.python

    @property
    def name(self) -> str:
        """The operator and its method, for a person."""
        return f"{self.operator.partition(' ')[2]}.{self.method}"

    @classmethod
    def from_text(cls, text: str) -> Difference | None:
        """The exception that is somewhere in a text, or None."""
        at = text.find(cls.MARK)
        if at < 0:
            return None
        found, _ = json.JSONDecoder().raw_decode(text[at + len(cls.MARK) :])
        return cls(*found)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Difference, self.parts)


def dumps(value: Any) -> bytes:
    """State for a checkpoint. Classes of importable modules by name, those of scripts and notebooks by value."""
    try:
        data = pickle.dumps(value, protocol=5)
        if b"__main__" not in data:  # by name it would be found in this process only
            return data
    except (pickle.PicklingError, AttributeError, TypeError):
        pass
    return bytes(cloudpickle.dumps(value, protocol=5))


def loads(data: bytes) -> Any:
    """The inverse of :func:`dumps`. Only ever given what we wrote into a checkpoint."""
    return pickle.loads(data)
