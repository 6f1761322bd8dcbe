"""Jumps of event time over very many markers, of which a run warns: nearly always a unit is wrong, or one row has a wild time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

import numpy as np

from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.messages import Jump
from tracetypes.markers import EventTime

__all__ = ["WIDE", "Jumps"]

WIDE: Final = 1_000_000
"""Markers. A run warns of a row that is further ahead of the newest one before it."""


@final
class Jumps:
    """Looks for the first jump in a split. ``wide``: how far it has to be, in microseconds."""

    def __init__(self, how: EventTime) -> None:
        self.wide = WIDE * how.period
        self.first: Jump | None = None

    def row(self, newest: int | None, time: int, text: Callable[[], str]) -> None:
        """A row that is newer than those before it."""
        if self.first is None and newest is not None and time - newest > self.wide:
            self.first = newest, time, text()

    def chunk(self, newest: int | None, chunk: Chunk, text: Callable[[int], str]) -> None:
        """Rows as columns. ``text``: of a row, by its number."""
        if self.first is not None or not len(chunk):
            return
        before = int(chunk.stamps[0]) * chunk.unit if newest is None else newest
        if chunk.newest - before <= self.wide:
            return
        times = chunk.times
        tops = np.maximum.accumulate(np.concatenate(([before], times)))
        wide = np.flatnonzero(tops[1:] - tops[:-1] > self.wide)
        if len(wide):
            row = int(wide[0])
            self.first = int(tops[row]), int(times[row]), text(row)
