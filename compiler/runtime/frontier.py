"""How far the links of a stage have come in an epoch: reports and markers in, the markers that are due out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, Protocol, TypeAlias, final

import attrs
import numpy as np

from tracetypes.arrangement import first_open
from tracetypes.canonical import stable_hash
from tracetypes.compiler.columns.batches import Batch
from tracetypes.compiler.plan.plan import FromSource, Link, Stage, links
from tracetypes.compiler.runtime.clocked_source import Released
from tracetypes.compiler.runtime.epoch import Epoch
from tracetypes.compiler.runtime.jumps import needs_clock
from tracetypes.compiler.runtime.messages import NOWHERE, Markers, Piece, Reached, Report, RetryEpoch
from tracetypes.compiler.runtime.partitioner import ends_of_windows
from tracetypes.compiler.runtime.progress import Coming, Progress, due, later, reached
from tracetypes.compiler.runtime.side_rows import late_row, rejected_rows
from tracetypes.compiler.runtime.state import OPEN
from tracetypes.compiler.runtime.stateless import ItemPath
from tracetypes.errors import RunError, counted
from tracetypes.marker_runs import NO_MARKERS, MarkerRuns, runs_of
from tracetypes.markers import EventTime, InBand, Marker
from tracetypes.nodes import title
from tracetypes.records import UNIT, Schema
from tracetypes.rejects import Rejected
from tracetypes.silence import NO_SILENCE, Silence, markers_in, split_at
from tracetypes.trace import Item

__all__ = ["NEVER", "Frontier", "KeyGroups", "Open"]

NEVER: Final = -(2**63)
"""The last marker of a link that has sent none."""

LAST: Final = 2**62
"""Where a piece begins that is sent behind all others."""


@final
class KeyGroups:
    """Which key group a key belongs to."""

    def __init__(self, key: Schema, count: int) -> None:
        self.hash, self.count = stable_hash(key), count

    def own(self, group: int, pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """The pairs whose keys belong to a group."""
        return [(key, value) for key, value in pairs if self.hash(key) % self.count == group]


class Open(Protocol):
    """The open blocks of a stage, as far as markers and rejects change them."""

    def join(self, pending: int, marker: int) -> None:
        """The marker of a block that is held under ``pending`` has come."""

    def hold(self, link: int, piece: Piece, batch: Batch) -> None:
        """Hold items whose blocks are known."""


@final
@attrs.frozen(eq=False)
class EventTimes:
    """A link of a source with event time. ``aside``: it sends late items or rejects."""

    link: Link
    leaf: FromSource
    how: EventTime
    aside: bool

    def silence(self, parts: Sequence[Progress]) -> Silence:
        """The silence behind its last marker, as long as what reads the source needs it."""
        last = max((end for part in parts if (end := reached(self.how, part, True)) is not None), default=None)
        if last is None or not self.leaf.silence:
            return NO_SILENCE
        period = self.how.period
        return (range(last + period, last + (self.leaf.silence + 1) * period, period),)


@final
@attrs.frozen(eq=False)
class InBandMarkers:
    """A link of a source with markers in band."""

    link: Link
    leaf: FromSource
    how: InBand


@final
@attrs.frozen(eq=False)
class SentMarkers:
    """A link whose markers an earlier stage or a channel sends."""

    link: Link
    how: None = None


Reader: TypeAlias = EventTimes | InBandMarkers


def _of(link: Link) -> Reader | SentMarkers:
    match link.leaf:
        case FromSource() as leaf:
            match leaf.source.markers:
                case EventTime() as how:
                    return EventTimes(link, leaf, how, not leaf.gives_items)
                case InBand() as how:
                    return InBandMarkers(link, leaf, how)
        case _:
            return SentMarkers(link)


def _schemas(leaf: FromSource) -> tuple[Schema, Schema]:
    return leaf.items.key, leaf.items.value


@final
class Frontier:
    """The links of a stage. What it keeps of them lies in a list: of each link, the progress of each part of its source."""

    def __init__(self, stage: Stage, groups: KeyGroups, *, bags: bool = False) -> None:
        """``bags``: items come with the ends of their blocks, also where the stage joins blocks."""
        self.groups, self.joined, self.bags = groups, stage.joined, bags
        self.all = [_of(link) for link in links(stage.region)]
        self.readers = {at: one for at, one in enumerate(self.all) if not isinstance(one, SentMarkers)}
        self.timed = {at: one for at, one in self.readers.items() if isinstance(one, EventTimes)}

    def fresh(self) -> list[list[Progress]]:
        """Progress before the first epoch."""
        return [[Progress()] for _ in self.all]

    def way(self, link: int, part: int) -> int:
        """A number for a part of the source of a link."""
        return part * len(self.all) + link

    def newest(self, progress: list[list[Progress]]) -> dict[str, list[Reached]]:
        """How far each part of each reading of a source has come."""
        return {one.leaf.label: [part.come for part in progress[at]] for at, one in self.readers.items()}

    def seen(self, progress: list[list[Progress]]) -> dict[str, int | None]:
        """The newest time of a row of each reading of a source."""
        return {one.leaf.label: reduce(later, [part.seen for part in progress[at]]) for at, one in self.timed.items()}

    # ------------------------------------------------------------------------------------------ what comes

    def markers(self, parts: list[Progress], message: Markers) -> None:
        """Take markers that an earlier stage or a channel sends."""
        (progress,) = parts
        progress.waiting |= message.markers  # a channel may send several
        progress.last = progress.waiting[-1] if progress.waiting else progress.last
        progress.last = later(progress.last, message.frontier)
        if message.complete and not progress.complete:
            progress.complete, progress.silence = True, message.silence

    def advance(self, progress: list[list[Progress]], epoch: Epoch, reports: Sequence[Report], blocks: Open) -> None:
        """Take the reports in the order of their pieces. Raises :class:`RetryEpoch` when a piece held items that earlier ones
        made late, or rows that a clock must decide."""
        again: dict[str, list[tuple[Piece, int | None]]] = {}
        one_by_one: set[str] = set()
        late = False
        for report in sorted(reports, key=lambda r: (r.link, r.piece)) if len(reports) > 1 else reports:
            one, parts = self.readers[report.link], progress[report.link]
            if report.parts > len(parts):
                parts.extend(Progress(complete=parts[0].complete) for _ in range(report.parts - len(parts)))
            part = parts[report.part]
            epoch.part_of[report.link, report.piece] = report.part
            self._count(one, part, epoch, report)
            match one:
                case EventTimes() if report.elapsed is not None:
                    pass  # when all rows are taken
                case EventTimes():
                    if needs_clock(one.how, part.come, report):
                        one_by_one.add(one.leaf.label)
                    late |= self._timed(one, part, epoch, report, again)
                case InBandMarkers():
                    epoch.starts[report.link, report.piece] = self._marked(one, part, epoch, report, blocks)
        if late or one_by_one:
            raise RetryEpoch(again, sorted(one_by_one))
        for link in sorted({report.link for report in reports if report.idle}):
            idle = {report.part: report.piece for report in reports if report.link == link and report.idle}
            self.pass_over(self.timed[link], progress[link], idle, epoch, blocks)
        for report in reports:
            if report.elapsed is not None:
                self.elapse(self.timed[report.link], progress[report.link], report.elapsed, epoch, blocks)

    @staticmethod
    def _count(one: Reader, part: Progress, epoch: Epoch, report: Report) -> None:
        source = one.leaf.source
        epoch.rows += 0 if one.leaf.quiet else report.rows
        epoch.read[source.name] = epoch.read.get(source.name, 0) + report.rows
        if part.complete and report.rows:
            raise RunError(
                "TT212",
                f"{title(source)}: {counted(report.rows, 'row')} came after the sources were drained",
                fix="take them out of the input, or run them with another checkpoint and output",
            )

    @staticmethod
    def _timed(
        one: EventTimes, part: Progress, epoch: Epoch, report: Report, again: dict[str, list[tuple[Piece, int | None]]]
    ) -> bool:
        """Advance by the event time of a piece. Did it hold items that are late by earlier pieces?"""
        how, leaf, before, late = one.how, one.leaf, part.newest, False
        if report.open is not None:
            part.aside = later(later(part.aside, first_open(how, before)), report.open)
        if before is not None:
            closed = epoch.frontiers[report.link, report.piece] = how.frontier(before)
            again.setdefault(leaf.label, []).append((report.piece, before))
            if report.first is not None and report.first <= closed and not report.clocked:
                late = True
        if report.jump is not None and not leaf.quiet:
            epoch.jumps.append((leaf.source.name, report.jump))
        part.newest = later(before, report.newest)
        part.seen, part.piece = later(part.seen, report.seen if report.clocked else report.newest), report.piece
        part.clock = report.clock
        part.end = later(part.end, report.last)
        if report.first is not None and part.sent is None:
            part.first = report.first if part.first is None else min(report.first, part.first)
        return late

    def _marked(self, one: InBandMarkers, part: Progress, epoch: Epoch, report: Report, blocks: Open) -> list[int]:
        """Accept the markers of a piece in band; the end of the block of the items before each, and after the last."""
        pending = OPEN + self.way(report.link, report.part)
        ends: list[int] = []
        accepted: list[int] = []
        for at, marker in enumerate(report.markers):
            part.open = part.open or report.counts[at] > 0
            if part.last is not None and marker <= part.last:
                reason = f"marker {Marker(marker)} does not lie after {Marker(part.last)}"
                rejected = Rejected.of(one.leaf.source.name, str(marker), reason)
                if one.leaf.source.output == "rejects":
                    self.send(one, epoch, report, blocks, rejected)
                    part.open = True
                if epoch.group == 0 and not one.leaf.quiet:
                    row = str(marker), reason
                    epoch.aside.append(rejected_rows(rejected.source, report.link, report.piece, [row]))
                continue
            ends.extend([marker] * (at + 1 - len(ends)))
            self._join(epoch, blocks, pending, marker)
            part.last, part.open = marker, False
            accepted.append(marker)
        part.waiting |= runs_of(accepted)
        part.open = part.open or report.counts[-1] > 0
        ends.extend([pending] * (len(report.counts) - len(ends)))
        return ends

    def send(self, one: InBandMarkers, epoch: Epoch, report: Report, blocks: Open, rejected: Rejected) -> None:
        """Send a marker that was rejected through its link; only the stage knows of it. Each key group keeps its own keys."""
        end = OPEN + self.way(report.link, report.part)
        self._pass(one.link, report.piece, Item(UNIT, rejected), end, epoch, blocks)

    def _pass(self, link: Link, piece: Piece, item: Item, end: int, epoch: Epoch, blocks: Open) -> None:
        """Send an item of which only the stage knows through its link. Each key group keeps its own keys."""
        end = end if self.joined is None else ends_of_windows(end, *self.joined)
        pairs: list[tuple[Any, Any]] = []
        path = ItemPath(link.path, lambda key, value, end, position: pairs.append((key, value)))
        path.put(item.key, item.value, end, 0)
        path.flush()
        own = self.groups.own(epoch.group, pairs)
        if own:
            keys, values = [key for key, _ in own], [value for _, value in own]
            blocks.hold(link.number, piece, Batch(keys, values, [end] * len(own)))

    def pass_over(
        self, one: EventTimes, parts: list[Progress], idle: Mapping[int, Piece], epoch: Epoch, blocks: Open
    ) -> None:
        """Parts that are idle send a heartbeat as it were: of the last marker that all other parts have reached."""
        how = one.how
        others = [reached(how, progress, False) for part, progress in enumerate(parts) if part not in idle]
        ends = [marker for marker in others if marker is not None]
        if not ends or len(ends) < len(others):
            return
        beat = min(ends)
        for part, piece in idle.items():
            progress = parts[part]
            if progress.newest is None or beat > how.frontier(progress.newest):
                self._beat(one, progress, piece, beat, epoch, blocks)

    def elapse(self, one: EventTimes, parts: list[Progress], time: int, epoch: Epoch, blocks: Open) -> None:
        """All rows are taken, and event time has come to this time with the clock: all parts send a heartbeat as it were. Before
        the first block nothing closes."""
        how = one.how
        first = min((part.first for part in parts if part.first is not None), default=None)
        for number, part in enumerate(parts):
            if first is None or how.frontier(time) < max(first, NEVER if part.newest is None else how.frontier(part.newest) + 1):
                continue
            listing, file, _ = part.piece or NOWHERE
            behind = listing, file, LAST
            epoch.part_of[one.link.number, behind] = number
            self._beat(one, part, behind, time - how.delay, epoch, blocks)

    def _beat(self, one: EventTimes, part: Progress, piece: Piece, time: int, epoch: Epoch, blocks: Open) -> None:
        """A part of a source sends a heartbeat as it were."""
        if part.clock is not None:
            self._release(one, part, piece, Released.by_heartbeat(one.leaf, part.come, time), epoch, blocks)
        end = one.how.heartbeat(time)
        part.newest, part.end = later(part.newest, time + one.how.delay), later(part.end, end)
        if part.sent is None:
            part.first = end if part.first is None else min(part.first, end)

    @staticmethod
    def _join(epoch: Epoch, blocks: Open, pending: int, marker: int) -> None:
        """The marker of an open block of a link has come: of a link in band, or the first marker of late items or rejects."""
        for ends in epoch.starts.values():
            ends[:] = [marker if end == pending else end for end in ends]
        blocks.join(pending, marker)

    # ------------------------------------------------------------------------------------ what follows of it

    def placing(self, progress: list[list[Progress]], epoch: Epoch, link: int, piece: Piece) -> Callable[[Any], Any]:
        """A function from the ends that a piece gave its items, as a column, to those of their blocks.

        Sources with markers in band number their blocks by piece. Of late items and rejects the piece knew a lower bound only:
        a block that earlier pieces have closed is not open any more, and blocks before the first of the source are none. Which
        that is may not be known yet.
        """
        match self.all[link]:
            case InBandMarkers():
                return np.array(epoch.starts[link, piece], np.int64).__getitem__
            case EventTimes(how=how, aside=True):
                part = epoch.part_of[link, piece]
                closed, first = epoch.frontiers.get((link, piece)), progress[link][part].first
                pending = OPEN + self.way(link, part)

                def bounded(ends: Any) -> Any:
                    if closed is not None:
                        ends = np.maximum(ends, closed + how.period)
                    return np.full(len(ends), pending) if first is None else np.where(ends < first, pending, ends)

                return bounded
            case EventTimes() if self.bags and (joined := self.joined) is not None:
                return lambda ends: ends_of_windows(ends, *joined)
            case _:
                return lambda ends: ends

    def drain(self, progress: list[list[Progress]], epoch: Epoch, blocks: Open) -> None:
        """All sources have ended: what is open has a marker too, and silence lies behind it."""
        for at, one in self.readers.items():
            ended = all(part.complete for part in progress[at])
            for number, part in enumerate(progress[at]):
                part.complete = True
                if isinstance(one, EventTimes) and part.clock is not None:
                    ended_by = Released.at_end(one.leaf, part.come)
                    piece = LAST, number, 0
                    epoch.part_of[at, piece] = number
                    self._release(one, part, piece, attrs.evolve(ended_by, newest=None, clock=None), epoch, blocks)
                match one:
                    case InBandMarkers() if part.open:
                        final = 0 if part.last is None else part.last + 1
                        self._join(epoch, blocks, OPEN + self.way(at, number), final)
                        part.waiting |= runs_of((final,))
                        part.last, part.open = final, False
                    case EventTimes() if part.aside is not None:
                        part.first = 0 if part.first is None else part.first
                        part.end = max(part.first if part.end is None else part.end, part.aside)
                    case _:
                        pass
            if isinstance(one, EventTimes) and not ended:
                progress[at][0].silence = one.silence(progress[at])

    def _release(self, one: EventTimes, part: Progress, piece: Piece, rows: Released, epoch: Epoch, blocks: Open) -> None:
        """Send rows through the link of a source that its clock no longer holds. Late ones go aside."""
        loud = epoch.group == 0 and not one.leaf.quiet
        for verdict in rows.verdicts:
            row, end = verdict.row, verdict.block
            if verdict.closed is not None:
                if loud:
                    epoch.aside.append(late_row(one.leaf.source.name, _schemas(one.leaf), row, end, verdict.closed))
                if one.leaf.source.output == "late":
                    part.aside = later(part.aside, rows.open)
                    self._pass(one.link, piece, Item(row.key, row.value), rows.open, epoch, blocks)
                continue
            if part.newest is not None and loud:
                epoch.jumps.append((one.leaf.source.name, (part.newest, row.time, row.text)))
            part.end = later(part.end, end)
            if part.sent is None:
                part.first = end if part.first is None else min(part.first, end)
            if not one.aside:
                self._pass(one.link, piece, Item(row.key, row.value), end, epoch, blocks)
        part.newest, part.clock = later(part.newest, rows.newest), rows.clock

    def due(self, progress: list[list[Progress]], epoch: Epoch, blocks: Open) -> Coming:
        """The markers that are due. Nothing is due up to a link that lags behind.

        A link that is complete goes on with its silence while others are not: those are ``passing``. Where all are complete, what
        is left of their silence is that of the stage: ``epoch.silence``."""
        limit = epoch.limit
        ended = False
        for at, one in enumerate(self.all):
            for part in progress[at]:
                if part.complete:
                    ended = True
                    continue
                top = reached(one.how, part, False)
                if top is None:
                    return Coming({}, {})
                limit = top if limit is None else min(limit, top)
        sent: dict[int, MarkerRuns] = {}
        for at, one in enumerate(self.all):
            for number, part in enumerate(progress[at]):
                ready = due(one.how, part, limit, part.complete)
                if not ready:
                    continue
                sent[at] = sent.get(at, NO_MARKERS) | ready
                match one:
                    case EventTimes(aside=True) if part.sent is None:
                        self._join(epoch, blocks, OPEN + self.way(at, number), ready[0])
                    case _:
                        pass
                part.sent = ready[-1]
                part.waiting = part.waiting.after(ready[-1])
        epoch.frontier = limit if self.bags else None
        epoch.ends = [None] * len(self.all)
        passing = self._silence(progress, epoch, limit) if ended else {}
        return Coming(sent, passing)

    def _silence(self, progress: list[list[Progress]], epoch: Epoch, limit: int | None) -> dict[int, MarkerRuns]:
        """What is due of the silence of links that are complete, by link."""
        epoch.ends = [self._end(one, parts) for one, parts in zip(self.all, progress, strict=True)]
        complete = limit is None
        if limit is None:
            limit = max((end for end in epoch.ends if end is not None), default=NEVER)
        left: dict[range, None] = {}
        passing: dict[int, MarkerRuns] = {}
        for at, parts in enumerate(progress):
            first = parts[0]
            passed, rest = split_at(first.silence, limit)
            if passed:
                passing[at] = markers_in(passed)
            first.silence = NO_SILENCE if complete else rest
            left.update(dict.fromkeys(rest))
        epoch.silence = tuple(left) if complete else NO_SILENCE
        return passing

    @staticmethod
    def _end(one: Reader | SentMarkers, parts: Sequence[Progress]) -> int | None:
        """The last marker of a link before its silence; None while it goes on."""
        if not all(part.complete for part in parts):
            return None
        return max((end for part in parts if (end := reached(one.how, part, True)) is not None), default=NEVER)
