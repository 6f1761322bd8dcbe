"""What travels between the pieces of a plan, the same on every backend: a closed union of values.

A :class:`Message` is addressed to a key group; what leaves the last stage or is meant for whoever runs the plan has group 0.
Items travel as Arrow record batches; their aggregates may stay columns within a process. As bytes, for disks and processes,
messages are the business of `wire/`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, final

import attrs

from tracetypes.compiler.columns.coded_arrays import without_dictionaries
from tracetypes.marker_runs import NO_MARKERS, MarkerRuns, runs_of
from tracetypes.silence import NO_SILENCE, Silence

__all__ = [
    "NOWHERE",
    "AggregateRows",
    "Aggregates",
    "Body",
    "Difference",
    "Drain",
    "File",
    "Holds",
    "Items",
    "Jump",
    "Markers",
    "Message",
    "Metrics",
    "Partials",
    "Piece",
    "Reached",
    "Report",
    "RetryEpoch",
    "Rows",
    "SideRows",
    "StageProgress",
    "TakenSplits",
    "TextNotes",
    "Verified",
    "time_of",
]


Piece = tuple[int, int, int]
"""Places a piece of a source in its order: listing, file, offset (or any three integers)."""


NOWHERE: Final[Piece] = (0, 0, 0)
"""Of what comes from no piece."""


Jump: TypeAlias = tuple[int, int, str]
"""The newest time before a row of a source, the row's time, and the row as text."""


Reached: TypeAlias = int | Mapping[str, Any] | None
"""How far a part of a source has come before a split: the newest event time, None for none. Of a source with a clock the time
(``newest``) and the ``clock``, as JSON can hold them."""


def time_of(reached: Reached) -> int | None:
    """The newest event time."""
    return reached["newest"] if isinstance(reached, Mapping) else reached


# -------------------------------------------------------------------------------------------- to a key group


class _Coded:
    """Items as a record batch (``coded``), in which text may be dictionary-encoded."""

    __slots__ = ()

    coded: Any

    @property
    def count(self) -> int:
        """How many they are."""
        return int(self.coded.num_rows)

    @property
    def batch(self) -> Any:
        """The record batch, without dictionaries."""
        return without_dictionaries(self.coded)


@final
@attrs.frozen(eq=False)
class Items(_Coded):
    """Items of a link, from a piece of a source or (None) from elsewhere. ``coded``: a record batch of keys, values, ends of
    blocks, and positions where the stage restores an order; text may be dictionary-encoded."""

    link: int
    piece: Piece | None
    coded: Any


class AggregateRows(Protocol):
    """One row for each block and key."""

    def __len__(self) -> int:
        """How many."""

    def to_arrow(self) -> Any:
        """A record batch of keys, ends of blocks, and the parts of the aggregates."""

    @property
    def ends(self) -> Any:
        """The ends of the blocks (int64)."""


@final
@attrs.frozen(eq=False)
class Aggregates:
    """Items that are combined by block and key, as columns."""

    link: int
    piece: Piece | None
    rows: AggregateRows


@final
@attrs.frozen(eq=False)
class Partials:
    """The same with aggregates as the author's objects, where the monoid has no columns."""

    link: int
    piece: Piece | None
    keys: list[Any]
    aggs: list[Any]
    ends: list[int]


@final
@attrs.frozen(kw_only=True)
class Report:
    """What one piece of a source held, as every key group of the stage behind it must know.

    ``part`` of ``parts``: a source in parts (the partitions of a topic) is the merge of them, each with markers of its own.
    Event time: ``newest`` time of any row, ``first`` block of any item that was not late, ``before``: the newest time
    that was taken to lie before the piece when its late items were told, ``jump``: the first row that is very far ahead and was
    accepted. ``leaps`` and ``unsure``: whether a clock must decide the rows
    (:func:`~tracetypes.compiler.runtime.jumps.needs_clock`).
    ``late`` and ``rejects``: how many rows went aside. ``last``: the last block of any item or heartbeat. ``open``: where late
    items or rejects are what is sent, the last block of any of them as far as the piece tells. ``idle``: the part has been
    silent for so long that the others do not wait for it. ``elapsed``: of a piece without rows, the event time to which
    the source has come with the clock (:mod:`tracetypes.compiler.connectors.closing`). ``clocked``: a clock has decided the rows;
    ``clock``: what it holds behind the piece, if anything; ``seen``: then the newest time of a row that it accepted.
    Of a part of a bag (:mod:`.bags`): the ``blocks`` of its rows and, where that is needed, how many each has (``sizes``);
    ``now``: when its micro-batch was planned.
    Markers in band: ``markers`` in order, and ``counts``: how many items lie before each of them and after the last.
    """

    link: int
    piece: Piece
    rows: int = 0
    newest: int | None = None
    first: int | None = None
    before: int | None = None
    jump: Jump | None = None
    markers: tuple[int, ...] = ()
    counts: tuple[int, ...] = (0,)
    late: int = 0
    rejects: int = 0
    last: int | None = None
    open: int | None = None
    part: int = 0
    parts: int = 1
    idle: bool = False
    leaps: bool = False
    unsure: bool = False
    elapsed: int | None = None
    clocked: bool = False
    clock: str | None = None
    seen: int | None = None
    blocks: MarkerRuns = NO_MARKERS
    sizes: tuple[int, ...] = ()
    now: int | None = None

    @property
    def reached(self) -> Reached:
        """How far the part had come behind the piece, if the clock says so."""
        return self.newest if self.clock is None else {"newest": self.newest, "clock": self.clock}


@final
@attrs.frozen
class Markers:
    """Markers that an earlier stage has closed, or the sender of a channel; to every key group. ``complete``: no more come, but
    those of the ``silence``. ``frontier``: up to there the stage has closed all blocks, also if its last marker lies before."""

    link: int
    markers: MarkerRuns = attrs.field(converter=runs_of)
    complete: bool
    silence: Silence = NO_SILENCE
    frontier: int | None = None


@final
@attrs.frozen
class Drain:
    """All sources have ended; to every key group."""


# ---------------------------------------------------------------------------------------------- rows aside


Holds: TypeAlias = Literal["rows", "late", "rejects"]
"""What rows are: those of the sink, late items, or rejects."""


@final
@attrs.frozen(eq=False)
class SideRows:
    """Late items or rejects of a source, from a piece of it on a link: a record batch of the rows as text (``row``), and of why.

    Of rejects that is the ``reason``. A late item came when its ``block`` had ended: ``closed`` was sent before, as far as its
    piece knows. What earlier pieces of the epoch closed is known to the stage, or to the driver where there is none. ``own``: the
    item would be late by what its own piece held before it. ``link``: None once that was done.
    """

    holds: Holds
    source: str
    link: int | None
    piece: Piece
    batch: Any


# ------------------------------------------------------------------------------------------- to whoever runs


@final
@attrs.frozen(eq=False)
class Rows(_Coded):
    """Items for the sink. ``coded``: a record batch of its rows."""

    coded: Any


@final
@attrs.frozen
class File:
    """Rows, late rows or rejects (of a source) that a worker has put into a file: its name, and how many they are."""

    holds: Holds
    source: str
    name: str
    count: int


@final
@attrs.frozen(kw_only=True)
class StageProgress:
    """What an epoch of a stage did: markers closed, newest event time of each part of each reading of a source, rows read in all
    and by source, late and rejected rows that passed. ``seen``: the newest time of a row of each reading. ``complete``: no more
    will come, but the ``silence``."""

    stage: int
    markers: MarkerRuns = attrs.field(converter=runs_of)
    newest: dict[str, list[Reached]]
    seen: dict[str, int | None]
    rows: int
    read: dict[str, int]
    late: dict[str, int]
    rejects: dict[str, int]
    complete: bool
    silence: Silence = NO_SILENCE
    jumps: tuple[tuple[str, Jump], ...] = ()
    """Rows that are very far ahead of those before them, each with its source."""


@final
@attrs.frozen(kw_only=True)
class Metrics:
    """What a key group of a stage took and holds: items that flowed to each operator and out of the last, items that were
    emitted, keys by operator, how many markers were closed and the last so far, bytes of state."""

    stage: int
    group: int
    flowed: list[int]
    emitted: int
    keys: list[int]
    markers: int
    marker: int | None
    bytes: int


@final
@attrs.frozen
class Verified:
    """How much was compared with plain Python: rows, and seconds of processor time that it took."""

    rows: int
    seconds: float


@final
@attrs.frozen
class TakenSplits:
    """What a task has read of files, for which reading of a source: of each split a hash, and what distinguishes it, as plain
    values."""

    reading: str
    splits: list[dict[str, Any]]


@final
@attrs.frozen
class TextNotes:
    """What was noticed in a source split of CSV, of a source and a file. ``doubtful``: how many rows lie within the bound behind
    a rejected line. ``optional``: columns that may be missing, if it is the beginning of the file: those that this file has, and
    those of the first file of the source. None if each has all of them."""

    source: str
    piece: Piece
    file: str
    doubtful: int
    optional: tuple[tuple[str, ...], tuple[str, ...]] | None


# --------------------------------------------------------------------------------------------------- messages


Body: TypeAlias = (
    Items
    | Aggregates
    | Partials
    | Report
    | Markers
    | Drain
    | SideRows
    | Rows
    | File
    | StageProgress
    | Metrics
    | Verified
    | TakenSplits
    | TextNotes
)


class Message(NamedTuple):
    """Something on its way to a key group."""

    group: int
    body: Body


# ------------------------------------------------------------------------------------- an epoch that is done again


class RetryEpoch(Exception):
    """A step must be done again: a piece held items that earlier pieces of the same step made late, or rows that a clock must
    decide.

    ``before``: for each reading of a source the pieces of the step with the newest event time that lies before each.
    ``one_by_one``: the readings that need a clock.
    """

    MARK = "TRACETYPES-REREAD "

    def __init__(self, before: dict[str, list[tuple[Piece, int | None]]], one_by_one: Sequence[str] = ()) -> None:
        self.before, self.one_by_one = before, frozenset(one_by_one)
        super().__init__(self.MARK + json.dumps([before, sorted(one_by_one)]))

    @classmethod
    def from_text(cls, text: str) -> RetryEpoch | None:
        """The exception that is somewhere in a text, or None."""
        at = text.find(cls.MARK)
        if at < 0:
            return None
        (before, one_by_one), _ = json.JSONDecoder().raw_decode(text[at + len(cls.MARK) :])
        pieces = {name: [(tuple(piece), newest) for piece, newest in pairs] for name, pairs in before.items()}
        return cls(pieces, one_by_one)

    def __reduce__(self) -> tuple[Any, ...]:
        return (RetryEpoch, (self.before, sorted(self.one_by_one)))


class Difference(Exception):
    """An operator answers something else as columns than in Python. The epoch has to be done again, that operator in Python.

    ``operator``: its name in the plan; ``arguments``: what for; ``traced`` and ``python``: the two answers, as text.
    """

    MARK = "TRACETYPES-DIFFERENCE "

    def __init__(self, operator: str, method: str, arguments: str, traced: str, python: str) -> None:
        self.operator, self.method, self.arguments, self.traced, self.python = operator, method, arguments, traced, python
        super().__init__(self.MARK + json.dumps(self.parts))

    @property
    def parts(self) -> tuple[str, str, str, str, str]:
        """What it was made of."""
        return self.operator, self.method, self.arguments, self.traced, self.python

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
        fields, _ = json.JSONDecoder().raw_decode(text[at + len(cls.MARK) :])
        return cls(*fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Difference, self.parts)
