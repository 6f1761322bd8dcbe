"""Freezes what a program has loaded (``gc.freeze``) while a dataflow runs, so that Python's cycle collector does not walk it."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["SETTLED", "Settling"]

SETTLING: Final = 5.0
"""Seconds after which what a run has loaded since its start is frozen too."""

QUIET: Final = 1.0
"""Seconds without a row after which a pause of 0.1 s delays nothing."""


class _SettledObjects:
    """The collector walks all modules, plans and kernels again and again. That takes 40 to 70 ms, and an epoch waits for it; of
    operators in Python it was a third of the time. So what is there is frozen when a segment starts, and what came since when
    it has run for a while. Any number of segments may be inside; the last one that leaves gives all frozen objects of the process
    back. What the program has frozen itself stays so for as long as no segment settles."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._segments = 0
        self._frozen = False
        self.quiet = 0.0
        """When no epoch of any segment has ended for ``QUIET`` seconds."""

    def __enter__(self) -> None:
        with self._lock:
            self._segments += 1
            if not gc.get_freeze_count():
                gc.freeze()
                self._frozen = True

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._segments -= 1
            if not self._segments and self._frozen:
                gc.unfreeze()
                self._frozen = False

    def settle(self) -> None:
        """Freeze what came since the start, without garbage. Takes some milliseconds."""
        with self._lock:
            gc.collect()
            gc.freeze()
            self._frozen = True

    def settle_all(self) -> None:
        """Freeze what is there. Garbage is collected first, that from before the start too. Takes 50 to 100 ms."""
        with self._lock:
            if self._frozen:
                gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._frozen = True


SETTLED: Final = _SettledObjects()


class Settling:
    """Of a segment: when it settles. First behind an epoch, some time after its start; then, once, when nothing came for a while
    to any segment of the process, for that is a longer pause."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._due = clock, clock() + SETTLING
        self._settled = self._settled_all = False

    def worked(self) -> None:
        """An epoch has ended."""
        SETTLED.quiet = self._clock() + QUIET
        if not self._settled and self._clock() >= self._due:
            SETTLED.settle()
            self._settled = True

    def look(self) -> None:
        """Nothing has come."""
        if self._settled and not self._settled_all and self._clock() >= SETTLED.quiet:
            SETTLED.settle_all()
            self._settled_all = True
