"""How a segment waits for news: it sleeps until somebody wakes it, and looks by itself now and then where nobody would."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["Wakeup"]

SHORTEST: Final = 0.005
LONGEST: Final = 0.1
"""Seconds between two looks at what wakes nobody: a tenth of the time without news, between these two."""

ASLEEP: Final = 5.0
"""Seconds between two looks where everything new wakes the segment, in case that it was not woken: at most half of the time
without news, because a segment that has nothing to do gives memory back soon."""


class Wakeup:
    """Of one segment. ``news``: set when something may be new."""

    def __init__(self, news: threading.Event, clock: Callable[[], float] = time.monotonic) -> None:
        self._news, self._clock = news, clock
        self._worked = clock()

    def look(self) -> None:
        """The segment looks for news now: what comes from here on ends the next wait."""
        self._news.clear()

    def worked(self) -> None:
        """An epoch has ended."""
        self._worked = self._clock()

    def wait(self, *, is_woken: bool, rest: float = 0.0) -> None:
        """Wait for news. ``is_woken``: whether all that may be new wakes the segment. ``rest``: in how many seconds it has to
        look again, if above 0."""
        idle = self._clock() - self._worked
        seconds = max(SHORTEST, min(idle / 2, ASLEEP) if is_woken else min(idle / 10, LONGEST))
        self._news.wait(min(seconds, rest) if rest > 0 else seconds)
