"""Memory that epochs have freed goes back to the system."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from typing import Final

__all__ = ["FreedMemory", "give_back"]

PERIOD: Final = 10.0
"""Seconds between two times at which memory is given back. A short run gives none back."""


class FreedMemory:
    """Of a segment or a worker process. The C library keeps what a large epoch has freed, for each thread, in pieces between what
    is still in use. So the largest epochs so far would decide how much memory a long run takes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._due, self._used = clock, clock() + PERIOD, False

    def used(self) -> None:
        """Work was done, so there may be something to give back."""
        self._used = True

    def look(self) -> None:
        """Give it back, if it is time and work was done since the last time."""
        if self._used and self._clock() >= self._due:
            give_back()
            self._due, self._used = self._clock() + PERIOD, False


def give_back() -> None:
    """Give back all pages of the C library's heaps in which nothing is in use, if it is glibc. Takes 1 to 7 ms. The allocators of
    Python and Arrow give back what they can by themselves."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
