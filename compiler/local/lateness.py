"""The newest event time before each split of an epoch, which decides what is late in it.

A split is read while those before it are still being read. So it is read with a guess of the newest time: that of the splits
before it that are done. Behind the reordering buffer the splits come in the order of the source, and the newest time is known.

Theorem. A split that :meth:`Lateness.settle` accepts has the items, late items and blocks of the sequential run. The guess is not
later than the newest time, so what was late by the guess is late. Nothing else is late if the first block of its items ends
after the frontier of the newest time. A split for which that does not hold is read again, with the newest time itself. So no
epoch is repeated because of late items, however many workers there are. A split of the next epoch is read early
(:mod:`.split_source`) with the newest time that is settled, and is settled in its epoch like any other. Where a clock must decide
the rows of a split (:mod:`tracetypes.compiler.runtime.jumps`), it is read when it is settled, from the clock before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from tracetypes.compiler.connectors.closing import ClockSplit
from tracetypes.compiler.local.kernels import SplitAnswer, SplitTask
from tracetypes.compiler.plan.plan import SourceLink
from tracetypes.compiler.runtime.jumps import needs_clock
from tracetypes.compiler.runtime.messages import Reached, time_of
from tracetypes.compiler.runtime.progress import later
from tracetypes.markers import EventTime

__all__ = ["KnownTimes", "Lateness", "Newest"]

Newest: TypeAlias = dict[str, Any]
"""The newest event time of each partition of each reading of a source, by label."""

@attrs.frozen
class KnownTimes:
    """The newest event time before a split, by partition of its source; None if nothing came before it."""

    times: Mapping[int, Reached]

    def __call__(self, part: int) -> Reached:
        return self.times.get(part)


Read: TypeAlias = Callable[[SplitTask, KnownTimes], SplitAnswer]


class Lateness:
    """``newest``: before the epoch. ``read``: reads a split, with the newest event time before it in each partition of its
    source. All stages share it. Any number of workers read. One worker at a time settles the splits of a stage; each stage has
    readings of its own.
    """

    def __init__(self, newest: Newest, read: Read) -> None:
        self._read = read
        self.newest: dict[str, dict[int, Reached]] = {label: dict(enumerate(times)) for label, times in newest.items()}
        self.done: dict[str, dict[int, tuple[int, int | None]]] = {}
        """The splits of this epoch that are done and not settled, by reading and number: their partitions and newest times. Any
        worker adds some. They are few, however many splits an epoch has: those that wait for an earlier one."""

    def read(self, task: SplitTask) -> SplitAnswer:
        """Read a split, with a guess, unless a clock decides its rows."""
        if self._waits(task):
            return SplitAnswer(task, [])
        return self.add(self._read(task, KnownTimes(self._guesses(task))))

    def read_early(self, task: SplitTask) -> SplitAnswer:
        """Read a split of the next epoch, with a guess: splits that have been settled come before it."""
        if self._waits(task):
            return SplitAnswer(task, [])
        return self._read(task, KnownTimes(self._settled(_label(task))))

    def _waits(self, task: SplitTask) -> bool:
        """Whether a split is read when it is settled: a clock will decide its rows."""
        if not isinstance(task.link, SourceLink) or isinstance(task.split, ClockSplit):
            return False
        return task.link.leaf.has_clock or any(isinstance(one, Mapping) for one in self._settled(_label(task)).values())

    def add(self, answer: SplitAnswer) -> SplitAnswer:
        """An answer, by which later splits of this epoch are guessed."""
        if answer.report is not None:
            done = self.done.setdefault(_label(answer.task), {})
            done[answer.task.number] = answer.report.part, answer.report.newest
        return answer

    def _settled(self, label: str) -> dict[int, Reached]:
        """The newest time of what is settled, by partition."""
        return self.newest.get(label, {}).copy()

    def _guesses(self, task: SplitTask) -> dict[int, Reached]:
        """The newest time of the splits before one, as far as they are done, by partition."""
        label = _label(task)
        newest = self._settled(label)
        for number, (part, time) in self.done.get(label, {}).copy().items():
            if number < task.number:
                newest[part] = later(time_of(newest.get(part)), time)
        return newest

    def settle(self, answer: SplitAnswer) -> SplitAnswer:
        """The answer of the next split of a link."""
        link, report = answer.task.link, answer.report
        if not isinstance(link, SourceLink) or isinstance(answer.task.split, ClockSplit):
            return answer
        if report is None:
            return self._next(answer.task)
        how = link.leaf.source.markers
        label = link.leaf.label
        times = self.newest.setdefault(label, {})
        if isinstance(how, EventTime) and needs_clock(how, times.get(report.part), report):
            return self._next(answer.task)
        newest = time_of(times.get(report.part))
        if isinstance(how, EventTime) and newest is not None and newest != answer.before:
            closed = how.frontier(newest)
            if report.first is not None and report.first <= closed:
                answer = self._read(answer.task, KnownTimes({report.part: newest}))
                assert answer.report is not None
                report = answer.report
        times[report.part] = later(newest, report.newest)
        self.done.get(label, {}).pop(answer.task.number, None)  # behind the line before it: else a guess would miss the split
        return answer

    def _next(self, task: SplitTask) -> SplitAnswer:
        """Read the next split by its clock."""
        label = _label(task)
        answer = self._read(attrs.evolve(task, one_by_one=True), KnownTimes(self._settled(label)))
        report = answer.report
        assert report is not None
        times = self.newest.setdefault(label, {})
        times[report.part] = report.reached if report.clock is not None else later(time_of(times.get(report.part)), report.newest)
        self.done.get(label, {}).pop(task.number, None)
        return answer


def _label(task: SplitTask) -> str:
    return task.link.leaf.label if isinstance(task.link, SourceLink) else ""
