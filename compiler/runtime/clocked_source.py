"""The kernel of rows that are decided one after the other by a clock (:mod:`tracetypes.clocks`): those of a source with ``per=``,
and of each source where one is very far ahead of those before it.

Splits are then read in the order of the source, each from the clock behind the one before it. A report has the clock behind its
split, if that holds anything, and a commit has that of the epoch.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain as chained
from typing import Any, TypeAlias, final

import attrs

from tracetypes.arrangement import overlapping
from tracetypes.clocks import Clock, Held, OtherSender, Verdict
from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.plan.plan import FromSource, SourceLink, Stage
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.jumps import Jumps
from tracetypes.compiler.runtime.messages import Message, Piece, Reached, Report
from tracetypes.compiler.runtime.progress import later
from tracetypes.compiler.runtime.side_rows import SideBuffer, shown_item
from tracetypes.compiler.runtime.source import FIRST, SourceKernel, TakenRow
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.formats import Layout
from tracetypes.markers import EventTime
from tracetypes.nodes import RowPosition
from tracetypes.parsing import Row
from tracetypes.records import UNIT
from tracetypes.rejects import Rejected

__all__ = ["Released", "source_kernel"]

Placed: TypeAlias = tuple[int, TakenRow]
"""A row with its position in its split; in a clock that is stored, before all rows of the next split."""


def source_kernel(
    stage: Stage, link: SourceLink, key_groups: int, straight: Layout | None = None, verifier: Verifier | None = None
) -> SourceKernel:
    """The kernel of a link. The parameters are those of :class:`SourceKernel`."""
    kernel = ClockedSource if link.leaf.has_clock else SourceKernel
    return kernel(stage, link, key_groups, straight, verifier)


def _clock_of(leaf: FromSource, before: Reached) -> Clock[Placed]:
    """The clock of a part of a source. ``before``: what its last report said, None for none."""
    how, source = leaf.source.markers, leaf.source
    assert isinstance(how, EventTime)
    clock: Clock[Placed] = Clock(how, isinstance(source.ordered_by, RowPosition))
    if isinstance(before, Mapping):
        newest, clock_text = before["newest"], before["clock"]
        names = loads(base64.b64decode(clock_text))
        kept: list[Held[tuple[int, Row]]] = names.pop("held")
        for name, value in names.items():
            setattr(clock, name, value)
        clock.held = [Held(one.time, one.device, (one.row[0], _kept(one.row[1])), one.key) for one in kept]
        clock = clock.settle()
        if newest is not None:
            clock.reach(how.frontier(newest))
    elif before is not None:
        clock.newest, clock.closed = before, how.frontier(before)
    return clock


def _kept(row: Row) -> TakenRow:
    """A row of an earlier split."""
    return TakenRow(row, lambda: row.text)


def _newest(clock: Clock[Any]) -> int | None:
    """The newest time of a part, as far as it closes blocks."""
    return clock.newest if clock.how.per is None or clock.closed is None else clock.closed + clock.how.delay


def _stored(clock: Clock[Placed]) -> str | None:
    """A clock as text, without what its source says; None if the newest time says all."""
    if clock.how.per is None and not clock.held:
        return None
    held = []
    for at, one in enumerate(clock.held):
        row = attrs.evolve(one.row[1].row, text=one.row[1].show())
        held.append(Held(one.time, one.device, (at - len(clock.held), row), one.key))
    names = {"newest": clock.newest, "closed": clock.closed, "devices": clock.devices, "owners": clock.owners, "held": held}
    return base64.b64encode(dumps(names)).decode()


@final
class ClockedSource(SourceKernel):
    """Takes rows one by one."""

    def _by_time(self, how: EventTime, piece: Piece, rows: Iterable[TakenRow | Chunk], before: Reached) -> Iterator[Message]:
        clock = _clock_of(self.leaf, before)
        self.blocks: set[int] = set()
        self.late = self.rejects = count = 0
        self.newest_row: int | None = None
        self.aside, self.jumps = SideBuffer(self.name, self.link.number, piece, self.late_schema), Jumps(how)
        for one in rows:
            assert isinstance(one, TakenRow)
            count += 1
            row = one.row
            verdicts: list[Verdict[Placed]] = []
            if row.kind == "reject":
                yield from self._reject(piece, clock, one.show(), row.reason)
                continue
            reached = clock.newest
            if row.kind == "marker":
                verdicts, end = clock.beat(row.time)
                self.blocks.update(() if end is None else (end,))
                self.newest_row = later(self.newest_row, row.time + how.delay)
            else:
                try:
                    verdicts = clock.take(row.time, row.device, (count, one), row.key)
                except OtherSender as error:
                    raise overlapping(self.leaf.source, error.key, "senders") from None
            for verdict in verdicts:
                yield from self._decided(piece, clock, reached, verdict)
            if count % limits.FLUSH == 0:
                yield from self.partitioner.messages(piece)
        yield from chained(self._collected(piece), self.aside.messages())
        ends = sorted(self.blocks)
        yield from self._to_all(
            Report(
                link=self.link.number,
                piece=piece,
                part=self.part,
                parts=self.parts,
                idle=self.idle,
                rows=count,
                newest=_newest(clock),
                first=ends[0] if ends else None,
                jump=self.jumps.first,
                last=ends[-1] if ends else None,
                open=self.open,
                late=self.late if self.aloud else 0,
                rejects=self.rejects if self.aloud else 0,
                clocked=True,
                clock=_stored(clock),
                seen=self.newest_row,
            )
        )

    def _decided(
        self, piece: Piece, clock: Clock[Placed], reached: int | None, verdict: Verdict[Placed]
    ) -> Iterator[Message]:
        position, taken = verdict.row
        row = taken.row
        if verdict.reason:
            yield from self._reject(piece, clock, taken.show(), verdict.reason)
        elif verdict.closed is not None:
            self.late += 1
            if self.aloud:
                self._late(self.aside, row, verdict.block, verdict.closed, own=True)
                if self.aside.full:
                    yield from self.aside.messages()
            if self.gives_late:
                yield from self._open(piece, row.key, row.value, self.first_open(clock))
        else:
            self.jumps.row(reached, verdict.time, partial(shown_item, self.late_schema, row.key, row.value))
            self.blocks.add(verdict.block)
            self.newest_row = later(self.newest_row, verdict.time)
            if self.gives_items:
                self.path.put(row.key, row.value, verdict.block, position)

    def _reject(self, piece: Piece, clock: Clock[Any], text: str, reason: str) -> Iterator[Message]:
        self.rejects += 1
        if self.aloud:
            self.aside.add_reject(text, reason)
            if self.aside.full:
                yield from self.aside.messages()
        if self.gives_rejects:
            yield from self._open(piece, UNIT, Rejected.of(self.name, text, reason), self.first_open(clock))

    @staticmethod
    def first_open(clock: Clock[Any]) -> int:
        """The end of the first block that is open."""
        return FIRST if clock.closed is None else clock.closed + clock.how.period


@attrs.frozen
class Released:
    """Rows that the clock of a part no longer holds: what each is, the end of the first block that is open, and what the clock
    is then."""

    verdicts: Sequence[Verdict[Row]]
    open: int
    newest: int | None
    clock: str | None

    @classmethod
    def at_end(cls, leaf: FromSource, before: Reached) -> Released:
        """When the input ends."""
        clock = _clock_of(leaf, before)
        return cls._of(clock.end(), clock)

    @classmethod
    def by_heartbeat(cls, leaf: FromSource, before: Reached, time: int) -> Released:
        """When others have reached a time, while the part is idle."""
        clock = _clock_of(leaf, before)
        verdicts, _ = clock.beat(time)
        return cls._of(verdicts, clock)

    @classmethod
    def _of(cls, verdicts: Iterable[Verdict[Placed]], clock: Clock[Placed]) -> Released:
        rows = [Verdict(one.row[1].row, one.time, one.block, one.closed, one.reason) for one in verdicts]
        return cls(rows, ClockedSource.first_open(clock), _newest(clock), _stored(clock))

