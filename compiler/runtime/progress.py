"""How far the parts of a source have come, and which markers are due."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import reduce
from operator import or_
from typing import final

import attrs

from tracetypes.compiler.runtime.messages import Piece, Reached
from tracetypes.marker_runs import NO_MARKERS, MarkerRuns, runs_of
from tracetypes.markers import EventTime, InBand
from tracetypes.silence import NO_SILENCE, Silence

__all__ = ["Coming", "Progress", "due", "later", "reached"]


@final
class Coming:
    """The markers that are due. ``sent``: by link; ``passing``: by link that has ended, those of its silence."""

    def __init__(self, sent: Mapping[int, MarkerRuns], passing: Mapping[int, MarkerRuns]) -> None:
        self.sent, self.passing = sent, passing
        self.markers = reduce(or_, (*sent.values(), *passing.values()), NO_MARKERS)

    def only(self, markers: MarkerRuns) -> Coming:
        """Some of these markers."""
        some = copy(self)
        some.markers = markers
        return some

    def links(self, marker: int) -> tuple[set[int], set[int]]:
        """The links that have sent a marker, and those that have it in their silence."""
        present, passing = ({at for at, runs in of.items() if marker in runs} for of in (self.sent, self.passing))
        return present, passing


@attrs.define
class Progress:
    """How far a link has come, or one part of a source in parts. All times in microseconds.

    ``sent``: the last marker of this link that the stage has closed. ``waiting``: its markers that are known but not
    closed yet (of event-time sources they follow from ``first``, the first block, ``newest`` and ``end``, the last block).
    """

    newest: int | None = None
    first: int | None = None
    end: int | None = None
    sent: int | None = None
    waiting: MarkerRuns = attrs.field(default=NO_MARKERS, converter=runs_of)
    last: int | None = None
    open: bool = False
    complete: bool = False
    aside: int | None = None
    """Where late items or rejects of a source with event time are sent: the last block of any of them."""
    silence: Silence = NO_SILENCE
    """Of a link that is complete, in its first part: the silence behind it, as far as it was not passed on yet."""
    clock: str | None = None
    """Of a part of a source with a clock: that of its last report."""
    seen: int | None = None
    """The newest time of a row: ``newest`` may be later, if a clock of the machine said so."""
    piece: Piece | None = None
    """The last piece with rows."""

    @property
    def come(self) -> Reached:
        """What the next split must know of those before it."""
        return self.newest if self.clock is None else {"newest": self.newest, "clock": self.clock}


def later(one: int | None, other: int | None) -> int | None:
    """The later of two times; None is before all."""
    return other if one is None else one if other is None else max(one, other)


def reached(how: EventTime | InBand | None, progress: Progress, drained: bool) -> int | None:
    """The last marker of a link that may be closed as far as this link is concerned; None when it has sent none."""
    if isinstance(how, EventTime):
        if progress.first is None or progress.end is None:
            return None
        if drained:
            return progress.end
        return top if progress.newest is not None and (top := how.frontier(progress.newest)) >= progress.first else None
    return progress.last


def due(how: EventTime | InBand | None, progress: Progress, limit: int | None, drained: bool) -> MarkerRuns:
    """The markers of a link up to ``limit`` (None: no limit) that are not closed yet."""
    if not isinstance(how, EventTime):
        return progress.waiting if limit is None else progress.waiting.up_to(limit)
    top = reached(how, progress, drained)
    if progress.first is None or top is None:
        return NO_MARKERS
    top = top if limit is None else min(top, limit // how.period * how.period)
    start = progress.first if progress.sent is None else progress.sent + how.period
    return MarkerRuns((range(start, top + 1, how.period),))
