"""The frontier of a flow over bags: up to where its blocks close, and so which rows of later bags are late.

The frontier of a source is its newest event time less the delay, rounded down to the period. The frontier of the flow is the
smallest of those of its sources. All stages that read a source close blocks up to the same frontier, and a row is late for all of
them if earlier bags closed its block. So a stage gets reports of the sources that it does not read, too
(:func:`other_sources`).

What is kept between bags lies in a ``memory``, which belongs to the state of a key group. All key groups keep the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final, TypeAlias, final

import attrs

from tracetypes.compiler.plan.plan import FromSource, Plan, SourceLink, Stage, links
from tracetypes.compiler.runtime.messages import Report
from tracetypes.compiler.runtime.progress import Progress, later, reached
from tracetypes.compiler.runtime.state import StageState
from tracetypes.marker_runs import MarkerRuns
from tracetypes.markers import EventTime

__all__ = ["NOTHING_CLOSES", "BagFrontier", "Memory", "other_sources"]

Memory: TypeAlias = dict[str, Any]
"""What a :class:`BagFrontier` keeps between bags."""

NOTHING_CLOSES: Final = -(2**62)
"""A frontier before all markers."""

Place: TypeAlias = tuple[int, int]
"""A link, and the place of a part of its source in the progress of the link."""


def readings(stage: Stage) -> Iterator[SourceLink]:
    """The links of a stage that read sources."""
    return (link for link in links(stage.region) if isinstance(link, SourceLink))


def other_sources(plan: Plan, stage: Stage) -> list[tuple[Stage, SourceLink]]:
    """The sources of a plan of which a stage needs reports only: a reading of each, and the stage to which it belongs. The
    numbers of their links are negative. Empty for a stage that reads no source."""
    mine = {link.leaf.source.name for link in readings(stage)}
    if not mine:
        return []
    first: dict[str, tuple[Stage, SourceLink]] = {}
    for one in plan.stages:
        for link in readings(one):
            first.setdefault(link.leaf.source.name, (one, link))
    others = [pair for name, pair in first.items() if name not in mine]
    return [
        (one, attrs.evolve(link, number=-at, path=(), leaf=attrs.evolve(link.leaf, quiet=True)))
        for at, (one, link) in enumerate(others, 1)
    ]


@final
class BagFrontier:
    """How far the sources of a flow have come, as a key group of a stage knows it.

    A part of a source comes with a number of its own. Which number is which part of the progress is in the memory."""

    def __init__(self, plan: Plan, stage: Stage, idle: Mapping[str, int] | None = None) -> None:
        """``idle``: by source, after how many microseconds without a row the others do not wait for a part."""
        self.idle = idle or {}
        self.readers: dict[int, FromSource] = {link.number: link.leaf for link in readings(stage)}
        """By link, what the stage reads."""
        self.others: dict[int, FromSource] = {link.number: link.leaf for _, link in other_sources(plan, stage)}
        """By link, what it gets reports of."""
        self.all = {**self.readers, **self.others}

    def closed(self, memory: Memory) -> int | None:
        """The frontier before a bag: the end of the last block that is closed."""
        closed: int | None = memory.get("frontier")
        return closed

    def limit(self, memory: Memory) -> int | None:
        """Up to which marker the stage may close blocks behind a bag. None: as far as what it reads allows."""
        if not self.readers:
            return None
        closed = self.closed(memory)
        return NOTHING_CLOSES if closed is None else closed

    def advance(
        self, state: StageState, memory: Memory, came: Mapping[Place, Sequence[Report]]
    ) -> tuple[list[Report], list[tuple[str, dict[int, int]]]]:
        """Take the reports of a bag, by link and number of the part. Returns a report for each part of what the stage reads, and
        for sources the late rows of each block, as far as reports have counted them."""
        before = self.closed(memory)
        places = {place: self._place(state, memory, *place) for place in sorted(came)}
        reports: dict[Place, Report] = {}
        counts: list[tuple[str, dict[int, int]]] = []
        for (link, part), at in places.items():
            parts = len(self._parts(state, memory, link))
            reports[link, at], late = _whole(link, at, parts, came[link, part], before)
            if late and not self.all[link].quiet:
                counts.append((self.all[link].source.name, late))
        reports.update(self._beats(state, memory, reports))
        ends = [
            self._comes_to(link, progress, reports.get((link, at)))
            for link in self.all
            for at, progress in enumerate(self._parts(state, memory, link))
        ]
        known = [end for end in ends if end is not None]
        if known and len(known) == len(ends):
            memory["frontier"] = later(before, min(known))
        for (link, at), report in reports.items():
            if link in self.others:
                _advance(self._parts(state, memory, link)[at], report)
        return [report for (link, _), report in reports.items() if link in self.readers], counts

    def _how(self, link: int) -> EventTime[Any]:
        how = self.all[link].source.markers
        assert isinstance(how, EventTime)
        return how

    def _parts(self, state: StageState, memory: Memory, link: int) -> list[Progress]:
        """The progress of each part of a source."""
        if link in self.readers:
            return state.progress[link]
        parts: list[Progress] = memory.setdefault(f"source {link}", [Progress()])
        return parts

    def _place(self, state: StageState, memory: Memory, link: int, part: int) -> int:
        """The place of a part in the progress of its link. One that is new begins where the others have come to, as if it had
        sent their last marker."""
        known: list[int] = memory.setdefault(f"parts {link}", [])
        if part not in known:
            parts = self._parts(state, memory, link)
            if known:
                how = self._how(link)
                tops = [reached(how, one, False) for one in parts]
                ends = [top for top in tops if top is not None]
                if len(ends) < len(tops):
                    parts.append(Progress())
                else:
                    end, sent = min(ends), reduce(later, (one.sent for one in parts))
                    parts.append(Progress(newest=end + how.delay, first=end, end=end, sent=sent))
            known.append(part)
        return known.index(part)

    def _beats(self, state: StageState, memory: Memory, came: Mapping[Place, Report]) -> dict[Place, Report]:
        """Parts that are idle send a heartbeat as it were: of the last marker that all others have reached."""
        now = max((report.now for report in came.values() if report.now is not None), default=None)
        if now is None or not self.idle:
            return {}
        silent: list[Place] = []
        ends: list[int | None] = []
        for link, leaf in self.all.items():
            allowed = self.idle.get(leaf.source.name)
            for at, progress in enumerate(self._parts(state, memory, link)):
                if (link, at) in came:
                    memory[f"row {link} {at}"] = now
                since = now - memory.setdefault(f"row {link} {at}", now)
                if allowed is not None and since >= allowed and (link, at) not in came:
                    silent.append((link, at))
                else:
                    ends.append(self._comes_to(link, progress, came.get((link, at))))
        known = [end for end in ends if end is not None]
        if not silent or not known or len(known) < len(ends):
            return {}
        beats: dict[Place, Report] = {}
        for link, at in silent:
            parts, how = self._parts(state, memory, link), self._how(link)
            progress, end = parts[at], how.heartbeat(min(known))
            if progress.newest is None or end > how.frontier(progress.newest):
                beats[link, at] = Report(
                    link=link,
                    piece=(0, at, 0),
                    part=at,
                    parts=len(parts),
                    newest=end + how.delay,
                    seen=progress.seen,
                    first=end,
                    last=end,
                    clocked=True,
                )
        return beats

    def _comes_to(self, link: int, progress: Progress, report: Report | None) -> int | None:
        """The last marker that a part may send behind a report."""
        if report is not None:
            progress = attrs.evolve(progress)
            _advance(progress, report)
        return reached(self._how(link), progress, False)


def _advance(progress: Progress, report: Report) -> None:
    """Take a report of a part."""
    firsts = [first for first in (progress.first, report.first) if first is not None]
    progress.newest, progress.end = later(progress.newest, report.newest), later(progress.end, report.last)
    progress.first = min(firsts, default=None)


def _whole(link: int, at: int, parts: int, reports: Iterable[Report], closed: int | None) -> tuple[Report, dict[int, int]]:
    """One report for all that were read of a part of a source, and its late rows by block."""
    newest, first, last, now = None, None, None, None
    rows, rejects = 0, 0
    late: dict[int, int] = {}
    for one in reports:
        newest, now = later(newest, one.newest), later(now, one.now)
        rows, rejects = rows + one.rows, rejects + one.rejects
        if closed is None or one.first is None or one.first > closed:
            first = one.first if first is None else first if one.first is None else min(first, one.first)
            last = later(last, one.last)
            continue
        on_time: MarkerRuns = one.blocks.after(closed)
        if on_time:
            first = on_time[0] if first is None else min(first, on_time[0])
            last = later(last, on_time[-1])
        for end, count in zip(one.blocks.up_to(closed), one.sizes, strict=False):
            late[end] = late.get(end, 0) + count
    whole = Report(
        link=link,
        piece=(0, at, 0),
        part=at,
        parts=parts,
        rows=rows,
        newest=newest,
        seen=newest,
        first=first,
        last=last,
        rejects=rejects,
        clocked=True,
        now=now,
    )
    return whole, late
