"""Rows that are very far ahead of those before them. Nearly always a unit is wrong, or one row has a wild time; so a
:class:`~tracetypes.clocks.Clock` has to decide (:mod:`.clocked_source`). A run warns of the ones that it accepts.

Theorem. Of a split for which :func:`needs_clock` is false the clock makes what the kernel without one
(:mod:`tracetypes.compiler.runtime.source`) makes. It holds nothing before the split, and no row of the split is further ahead of
the newest one than its source allows. So each row is accepted, or late, as soon as it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

import numpy as np

from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.messages import Jump, Reached, Report
from tracetypes.markers import MANY, EventTime

__all__ = ["Jumps", "Leaps", "needs_clock"]


def needs_clock(how: EventTime, before: Reached, report: Report) -> bool:
    """Whether a clock must decide the rows of a split that was read without one. ``before``: how far its part had come."""
    if report.clocked or report.elapsed is not None:
        return False
    if isinstance(before, Mapping) or report.leaps:
        return True
    if before is None:
        return report.unsure
    return report.newest is not None and report.newest - before > how.reach


@final
class Leaps:
    """Looks in a split, read without a clock, for rows that need one. ``newest``: the newest time before the split, as far as it
    is known. ``leaps``: a row is too far ahead of those before it. ``unsure``: if nothing came before the split, the first row is
    held: no second one came, or one that is far from it."""

    def __init__(self, how: EventTime, newest: int | None) -> None:
        self.reach = how.reach
        self.leaps = self.unsure = False
        self.alone = newest is None and how.ahead is not None
        """The first row waits for the second one, and that has not come."""
        self.first: int | None = None

    def row(self, newest: int | None, time: int) -> None:
        """A row that is the first or second one, or newer than those before it."""
        if self.alone:
            if self.first is None and newest is None:
                self.first = time
            else:
                self.alone, self.unsure = False, self.first is not None and abs(time - self.first) > self.reach
        if newest is not None and time - newest > self.reach:
            self.leaps = True

    def chunk(self, newest: int | None, chunk: Chunk) -> None:
        """Rows as columns."""
        if self.leaps or not len(chunk):
            return
        start = newest
        for stamp in chunk.stamps[:2] if self.alone else ():
            self.row(start, int(stamp) * chunk.unit)
            start = self.first if start is None else start
        before = int(chunk.stamps[0]) * chunk.unit if newest is None else newest
        if chunk.newest - before <= self.reach:
            return
        tops = np.maximum.accumulate(np.concatenate(([before], chunk.times)))
        self.leaps = bool((np.diff(tops) > self.reach).any())

    def beat(self) -> None:
        """A heartbeat."""
        self.unsure, self.alone = self.unsure or (self.alone and self.first is not None), False

    def end(self) -> None:
        """The split ends."""
        self.unsure = self.unsure or (self.alone and self.first is not None)


@final
class Jumps:
    """Looks for the first row of a split, among those that a clock accepts, that is very many markers ahead."""

    def __init__(self, how: EventTime) -> None:
        self.wide = MANY * how.period
        self.first: Jump | None = None

    def row(self, newest: int | None, time: int, text: Callable[[], str]) -> None:
        """A row that was accepted. ``newest``: the newest time before it."""
        if self.first is None and newest is not None and time - newest > self.wide:
            self.first = newest, time, text()
