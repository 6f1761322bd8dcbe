"""What a long run has loaded leaves the sight of Python's cycle collector."""

from __future__ import annotations

import gc
import threading
from typing import Final

__all__ = ["SETTLED"]


class _SettledObjects:
    """The collector walks all modules, plans and kernels again and again. That takes 40 ms, and an epoch waits for it. So they
    are frozen when a segment has run for a while. Any number of segments may be inside; the last one that leaves gives all
    frozen objects of the process back, those that the program has frozen itself too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._segments = 0
        self._frozen = False

    def __enter__(self) -> None:
        with self._lock:
            self._segments += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._segments -= 1
            if not self._segments and self._frozen:
                gc.unfreeze()
                self._frozen = False

    def settle(self) -> None:
        """Freeze what is there. Garbage is collected first."""
        with self._lock:
            gc.collect()
            gc.freeze()
            self._frozen = True


SETTLED: Final = _SettledObjects()
