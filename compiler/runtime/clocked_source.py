"""The kernel of a source whose rows are decided one after the other: one with ``ahead=`` or ``per=`` (:mod:`tracetypes.clocks`).

Its splits are read in the order of the source, each from the clock behind the one before it. A report has the clock behind its
split, and a commit has that of the epoch.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain as chained
from typing import Any, TypeAlias, final

import attrs

from tracetypes.clocks import Clock, OtherSender, Verdict
from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.plan.plan import FromSource, SourceLink, Stage
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.jumps import Jumps
from tracetypes.compiler.runtime.messages import Message, Piece, Reached, Report
from tracetypes.compiler.runtime.side_rows import SideBuffer, shown_item
from tracetypes.compiler.runtime.source import FIRST, SourceKernel, TakenRow, passed_over
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.formats import Layout
from tracetypes.interpreter import overlapping
from tracetypes.markers import EventTime
from tracetypes.nodes import RowPosition
from tracetypes.parsing import Row
from tracetypes.records import UNIT
from tracetypes.rejects import Rejected

__all__ = ["has_clock", "released", "source_kernel"]

Placed: TypeAlias = tuple[int, Row]
"""A row with its position in its split; in a clock that is stored, before all rows of the next split."""


def has_clock(leaf: FromSource) -> bool:
    """Whether the splits of a source must be read one after the other."""
    how = leaf.source.markers
    return isinstance(how, EventTime) and how.has_clock


def source_kernel(
    stage: Stage, link: SourceLink, key_groups: int, straight: Layout | None = None, verifier: Verifier | None = None
) -> SourceKernel:
    """The kernel of a link. The parameters are those of :class:`SourceKernel`."""
    kernel = ClockedSource if has_clock(link.leaf) else SourceKernel
    return kernel(stage, link, key_groups, straight, verifier)


def _clock_of(leaf: FromSource, before: Reached) -> Clock[Placed]:
    """The clock of a part of a source. ``before``: what its last report said, None for none."""
    how, source = leaf.source.markers, leaf.source
    assert isinstance(how, EventTime)
    clock: Clock[Placed] = Clock(how, isinstance(source.ordered_by, RowPosition))
    if isinstance(before, Mapping):
        newest, clock_text = before["newest"], before["clock"]
        for name, value in loads(base64.b64decode(clock_text)).items():
            setattr(clock, name, value)
        clock = clock.settle()
        if newest is not None:
            clock.reach(how.frontier(newest))
    return clock


def _stored(clock: Clock[Placed]) -> str:
    """A clock as text, without what its source says."""
    held = [attrs.evolve(one, row=(at - len(clock.held), one.row[1])) for at, one in enumerate(clock.held)]
    names = {"newest": clock.newest, "closed": clock.closed, "devices": clock.devices, "owners": clock.owners, "held": held}
    return base64.b64encode(dumps(names)).decode()


@final
class ClockedSource(SourceKernel):
    """Takes rows one by one."""

    def _by_time(self, how: EventTime, piece: Piece, rows: Iterable[TakenRow | Chunk], before: Reached) -> Iterator[Message]:
        clock = _clock_of(self.leaf, before)
        self.blocks: set[int] = set()
        self.late = self.rejects = count = 0
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
            else:
                shown = attrs.evolve(row, text=one.show()) if how.ahead is not None else row
                try:
                    verdicts = clock.take(row.time, row.device, (count, shown), row.key)
                except OtherSender as error:
                    raise overlapping(self.leaf.source, error.key, "senders") from None
            for verdict in verdicts:
                yield from self._decided(piece, clock, reached, verdict)
            if count % limits.FLUSH == 0:
                yield from self.partitioner.messages(piece)
        yield from chained(self._collected(piece), self.aside.messages())
        ends = sorted(self.blocks)
        newest = clock.newest if how.per is None or clock.closed is None else clock.closed + how.delay
        yield from self._to_all(
            Report(
                link=self.link.number,
                piece=piece,
                part=self.part,
                parts=self.parts,
                idle=self.idle,
                rows=count,
                newest=newest,
                first=ends[0] if ends else None,
                jump=self.jumps.first,
                last=ends[-1] if ends else None,
                open=self.open,
                late=self.late if self.aloud else 0,
                rejects=self.rejects if self.aloud else 0,
                clock=_stored(clock),
            )
        )

    def _decided(
        self, piece: Piece, clock: Clock[Placed], reached: int | None, verdict: Verdict[Placed]
    ) -> Iterator[Message]:
        position, row = verdict.row
        if verdict.reason:
            yield from self._reject(piece, clock, row.text, verdict.reason)
        elif verdict.closed is not None:
            self.late += 1
            if self.aloud:
                self._late(self.aside, row, verdict.block, verdict.closed, own=True)
                if self.aside.full:
                    yield from self.aside.messages()
            if self.gives_late:
                yield from self._open(piece, row.key, row.value, self._first_open(clock))
        else:
            self.jumps.row(reached, verdict.time, partial(shown_item, self.late_schema, row.key, row.value))
            self.blocks.add(verdict.block)
            self.end, self.position = verdict.block, position
            (self.push if self.gives_items else passed_over)(row.key, row.value)

    def _reject(self, piece: Piece, clock: Clock[Any], text: str, reason: str) -> Iterator[Message]:
        self.rejects += 1
        if self.aloud:
            self.aside.add_reject(text, reason)
            if self.aside.full:
                yield from self.aside.messages()
        if self.gives_rejects:
            yield from self._open(piece, UNIT, Rejected.of(self.name, text, reason), self._first_open(clock))

    @staticmethod
    def _first_open(clock: Clock[Any]) -> int:
        return FIRST if clock.closed is None else clock.closed + clock.how.period


def released(leaf: FromSource, before: Reached) -> list[tuple[Row, int]]:
    """The rows that the clock of a part holds when the input ends, with the ends of their blocks."""
    return [(verdict.row[1], verdict.block) for verdict in _clock_of(leaf, before).end() if verdict.is_item]

