"""Rows that come as bags: the micro-batches of a query that is not ours (:mod:`tracetypes.compiler.spark.transform`).

The rows of a bag have no order, so none of them is late by another: a row is late if *earlier* bags closed its block. Who reads a
part of a bag does not know that. So items go out with the blocks in which they are, and reports with what they have of each block
(:class:`BagSource`). Behind the exchange a key group knows what was closed before (:mod:`.bag_frontier`), and takes late items
out (:class:`Sieve`).

The definition is the interpreter: of the rows of all bags that are not late, by source, in the order of their times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.compiler.columns.runs import NumberRuns, array_of_numbers
from tracetypes.compiler.plan.plan import Plan, Stage
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.bag_frontier import BagFrontier, Memory
from tracetypes.compiler.runtime.chunks import Chunk, LateRows, PlacedChunk, placed_in_bag
from tracetypes.compiler.runtime.messages import (
    Aggregates,
    Items,
    Message,
    Partials,
    Piece,
    Report,
    SideRows,
)
from tracetypes.compiler.runtime.partial_aggregation import ArrowRows
from tracetypes.compiler.runtime.progress import later
from tracetypes.compiler.runtime.side_rows import SideBuffer, late_rows
from tracetypes.compiler.runtime.source import SourceKernel, TakenRow
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.runtime.verification import verified
from tracetypes.marker_runs import NO_MARKERS, runs_of
from tracetypes.markers import EventTime

__all__ = ["BagSource", "Sieve", "late_rows_of_bag", "renumbered"]

WIDE: Final = 4
"""Blocks for each row from which on they are sorted instead of counted."""


# ------------------------------------------------------------------------------------------------------ in front


@final
class BagSource(SourceKernel):
    """The beginning of a link that reads a part of a bag. The source has event time, and gives its items.

    ``counts``: whether rows may be late, so that reports say which blocks there are. ``shows``: whether a late row is wanted as
    text; then each row goes to a key group as text too, because nobody knows here which ones are late. ``reports_only``: another
    reading sends the items; the stage must know how far the source has come.
    """

    counts = True
    shows = False
    reports_only = False
    now: int | None = None
    """When the micro-batch was planned, for sources that may be idle."""
    turn = 0
    """The key group that gets the next rows as text."""

    def bag(self, piece: Piece, rows: Iterable[TakenRow | Chunk], part: int = 0) -> Iterator[Message]:
        """The messages of some rows. ``part``: of the source, if it is the merge of several."""
        how = self.leaf.source.markers
        assert isinstance(how, EventTime)
        self.part = part
        self.partitioner.joined = None  # a row in a window that is open may be late all the same
        if self.verifier is not None:
            self.verifier.start(*piece, part)
        yield from self._in_bag(how, piece, rows)
        yield from verified(self.verifier)

    def _in_bag(self, how: EventTime, piece: Piece, rows: Iterable[TakenRow | Chunk]) -> Iterator[Message]:
        newest: int | None = None
        count, rejects = 0, 0
        sizes: dict[int, int] = {}
        aside = SideBuffer(self.name, self.link.number, piece, self.late_schema)
        put = _passed_over if self.reports_only else self.path.put
        for one in rows:
            if isinstance(one, Chunk):
                if len(one):
                    placed = placed_in_bag(how, one)
                    self._count(how, placed, sizes)
                    newest = later(newest, placed.newest)
                    if self.shows:
                        yield from self._as_text(piece, one, placed)
                    if not self.reports_only:
                        yield from self._chunk(piece, placed, count)
                count += len(one)
                continue
            row = one.row
            count += 1
            if row.kind == "reject":
                rejects += 1
                if self.aloud:
                    aside.add_reject(one.show(), row.reason)
                    if aside.full:
                        yield from self._spread(aside.messages())
                continue
            end = how.block(row.time)
            if self.shows and self.aloud:
                aside.add_late(row.key, row.value, end, end, own=False)
                if aside.full:
                    yield from self._spread(aside.messages())
            newest = later(newest, row.time)
            sizes[end] = sizes.get(end, 0) + 1
            put(row.key, row.value, end, count)
            if count % limits.FLUSH == 0:
                yield from self.partitioner.messages(piece)
        yield from self._collected(piece)
        yield from self._spread(aside.messages())
        if count:
            yield from self._reports(piece, newest, count, rejects, sizes)

    def _as_text(self, piece: Piece, chunk: Chunk, placed: PlacedChunk) -> Iterator[Message]:
        """The rows of a chunk as text."""
        if self.aloud:
            rows, ends = np.arange(len(chunk)), array_of_numbers(placed.ends)
            maybe = LateRows(rows, ends, ends, np.zeros(len(rows), np.bool_), placed.newest)
            yield from self._spread(late_rows(self.name, self.link.number, piece, self.late_schema, chunk, maybe))

    def _spread(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Each message to the next key group; any of them knows what is late."""
        for message in messages:
            yield Message(self.turn, message.body)
            self.turn = (self.turn + 1) % self.key_groups

    def _count(self, how: EventTime, placed: PlacedChunk, sizes: dict[int, int]) -> None:
        """Count the rows of each block."""
        if isinstance(placed.ends, NumberRuns):
            counts = np.diff(placed.ends.starts, append=placed.ends.count)
            pairs = zip(placed.ends.values.tolist(), counts.tolist(), strict=True)
        else:
            pairs = zip(*_counted(array_of_numbers(placed.ends), how.period), strict=True)
        for end, some in pairs:
            if some:
                sizes[end] = sizes.get(end, 0) + some

    def _reports(
        self, piece: Piece, newest: int | None, count: int, rejects: int, sizes: Mapping[int, int]
    ) -> Iterator[Message]:
        """What each key group must know. One of them counts late rows."""
        ends = sorted(sizes)
        report = Report(
            link=self.link.number,
            piece=piece,
            part=self.part,
            rows=count,
            newest=newest,
            first=ends[0] if ends else None,
            last=ends[-1] if ends else None,
            rejects=rejects,
            clocked=True,
            seen=newest,
            blocks=runs_of(ends) if self.counts else NO_MARKERS,
            now=self.now,
        )
        for group in range(self.key_groups):
            loud = self.counts and group == 0 and not self.shows and self.aloud
            yield Message(group, attrs.evolve(report, sizes=tuple(sizes[end] for end in ends)) if loud else report)


def renumbered(messages: Iterable[Message], places: Any) -> Iterator[Message]:
    """The messages of :meth:`BagSource.bag`, in which the position of an item is the place of its row. ``places``: those of the
    rows (an Arrow array of int64), in their order."""
    for message in messages:
        match message.body:
            case Items(link, piece, batch) if (at := batch.schema.get_field_index("position")) >= 0:
                mine = places.take(pc.subtract(batch.column(at), 1))
                yield Message(message.group, Items(link, piece, batch.set_column(at, "position", mine)))
            case _:
                yield message


def _passed_over(key: Any, value: Any, end: int, position: int) -> None:
    """An item that another reading sends."""


def _counted(ends: Any, period: int) -> tuple[list[int], list[int]]:
    """The ends of blocks, and how often each occurs."""
    first, last = int(ends.min()), int(ends.max())
    if (last - first) // period > WIDE * len(ends):
        values, counts = np.unique(ends, return_counts=True)
    else:
        counts = np.bincount((ends - first) // period)
        values = np.arange(len(counts)) * period + first
    return values.tolist(), counts.tolist()


# -------------------------------------------------------------------------------------------------------- behind


_LATE: Final = pa.schema([("row", pa.string()), ("block", pa.int64()), ("closed", pa.int64()), ("count", pa.int64())])


def late_rows_of_bag(source: str, rows: Any, blocks: Any, closed: Any, counts: Any) -> SideRows:
    """Late rows of a bag. A row without text stands for several of its block."""
    return SideRows("late", source, None, (0, 0, 0), pa.record_batch([rows, blocks, closed, counts], schema=_LATE))


@final
class Sieve:
    """Takes out of the messages of a bag, for a key group of a stage, what earlier bags made late."""

    def __init__(self, plan: Plan, stage: Stage, idle: Mapping[str, int] | None = None) -> None:
        """``idle`` as of :class:`BagFrontier`."""
        self.frontier = BagFrontier(plan, stage, idle)
        self.restores = stage.restores

    def messages(
        self, state: StageState, memory: Memory, group: int, messages: Iterable[Message]
    ) -> Iterator[Message]:
        """The messages that the kernel of the stage gets: items in time, a report for each part of a source, and side rows.
        The frontier behind the bag is in the memory then."""
        came: dict[tuple[int, int], list[Report]] = {}
        others: list[Message] = []
        for message in messages:
            match message.body:
                case Report(link=link, part=part) as report:
                    came.setdefault((link, part), []).append(report)
                case _:
                    others.append(message)
        before = self.frontier.closed(memory)
        reports, counts = self.frontier.advance(state, memory, came)
        for source, late in counts:
            yield Message(0, self._counted(source, late, before))
        for report in reports:
            yield Message(group, report)
        for message in others:
            match message.body:
                case Items(link=link) | Aggregates(link=link) | Partials(link=link) as body if link in self.frontier.readers:
                    if (left := self._in_time(body, before)) is not None:
                        yield Message(group, self._placed(left, memory))
                case SideRows(holds="late", link=int()) as rows:
                    if (shown := self._late(rows, before)) is not None:
                        yield Message(0, shown)
                case SideRows(link=int()) as rows:
                    yield Message(0, attrs.evolve(rows, link=None))
                case _:
                    yield message

    @staticmethod
    def _counted(source: str, late: Mapping[int, int], closed: int | None) -> SideRows:
        """Late rows of which only the number in each block is known."""
        ends = sorted(late)
        counts = [late[end] for end in ends]
        return late_rows_of_bag(source, [None] * len(ends), ends, [closed] * len(ends), counts)

    @staticmethod
    def _late(rows: SideRows, closed: int | None) -> SideRows | None:
        """The late ones of rows that came as text; None if there is none."""
        if closed is None:
            return None
        batch = rows.batch.filter(pc.less_equal(rows.batch.column("block"), closed))
        texts, blocks, count = batch.column("row"), batch.column("block"), batch.num_rows
        return late_rows_of_bag(rows.source, texts, blocks, [closed] * count, [1] * count) if count else None

    def _placed(self, body: Items | Aggregates | Partials, memory: Memory) -> Items | Aggregates | Partials:
        """Items of which the order matters come with the part of their source, which has the rows of a key alone."""
        if not (self.restores and isinstance(body, Items) and body.piece is not None):
            return body
        return attrs.evolve(body, piece=(0, memory[f"parts {body.link}"].index(body.piece[1]), 0))

    def _in_time(self, body: Items | Aggregates | Partials, closed: int | None) -> Items | Aggregates | Partials | None:
        """The items that are not late; None if there is none."""
        match body:
            case Items(link, piece, batch):
                left = self._rows(batch, closed)
                return Items(link, piece, left) if left.num_rows else None
            case Aggregates(link, _, rows):
                left = self._rows(rows.to_arrow(), closed)
                return Aggregates(link, (0, 0, 0), ArrowRows(left)) if left.num_rows else None
            case Partials(link, _, keys, aggs, ends):
                kept = [at for at, end in enumerate(ends) if closed is None or end > closed]
                mine = Partials(link, (0, 0, 0), *([column[at] for at in kept] for column in (keys, aggs, ends)))
                return mine if kept else None

    def _rows(self, batch: Any, closed: int | None) -> Any:
        """The rows of a batch in blocks that are open."""
        at = batch.schema.get_field_index("end")
        if closed is not None and pc.min(batch.column(at)).as_py() <= closed:
            batch = batch.filter(pc.greater(batch.column(at), closed))
        return batch
