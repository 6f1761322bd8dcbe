"""Sources whose last blocks close by the clock: ``every(..., closes_after=SECONDS)``.

A source that has been without a row for so long gets a split without rows, :class:`ClockSplit`. It says how far event time has
gone on with the clock (:meth:`tracetypes.compiler.runtime.frontier.Frontier.elapse`). A backend records the split with the epoch,
so an epoch that runs again has the same one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import final

import attrs

from tracetypes.markers import EventTime

__all__ = ["ClockSplit", "ClosingClock"]


@final
@attrs.frozen
class ClockSplit:
    """A split without rows: event time has come to this ``time`` (microseconds) with the clock."""

    time: int


@final
class ClosingClock:
    """Decides how far event time has gone on since the last row of a source. ``seconds``: a clock.

    The first decision is made when the source has been without a row for long enough, the next ones when one more block may
    close. Each is at least a tenth later than the one before it, so that a pause of days has some hundred decisions, however
    short the blocks are.
    """

    def __init__(self, how: EventTime, seconds: Callable[[], float] = time.monotonic) -> None:
        assert how.closes_after is not None
        self.how, self.patience, self.seconds = how, how.closes_after, seconds
        self.since, self.elapsed = seconds(), 0
        """When the last row came, and how many microseconds behind it the last decision was made."""

    def resume(self, elapsed: int) -> None:
        """Go on where an earlier process had decided that so much time had passed."""
        self.since, self.elapsed = self.seconds() - elapsed / 1_000_000, elapsed

    def came(self) -> None:
        """A row has come."""
        self.since, self.elapsed = self.seconds(), 0

    def look(self, seen: int) -> ClockSplit | None:
        """How far event time has come, as decided now or before; None if the last row is too new. ``seen``: the newest time of a
        row."""
        passed = round((self.seconds() - self.since) * 1_000_000)
        if passed >= (self._next(seen + self.elapsed) if self.elapsed else self.patience):
            self.elapsed = passed
        return ClockSplit(seen + self.elapsed) if self.elapsed else None

    def _next(self, newest: int) -> int:
        """When the next decision is made."""
        how = self.how
        to_next = how.frontier(newest) + how.period + how.delay - newest
        return self.elapsed + max(to_next, self.elapsed // 10)
