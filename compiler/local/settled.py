"""What a program has loaded leaves the sight of Python's cycle collector while it runs a dataflow."""

from __future__ import annotations

import gc
import threading
from typing import Final

__all__ = ["SETTLED"]


class _SettledObjects:
    """The collector walks all modules, plans and kernels again and again. That takes 40 to 70 ms, and an epoch waits for it; of
    operators in Python it was a third of the time. So what is there is frozen when a segment starts, and again, without
    garbage, when it has run for a while. Any number of segments may be inside; the last one that leaves gives all frozen
    objects of the process back. What the program has frozen itself stays so for as long as no segment settles."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._segments = 0
        self._frozen = False

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
        """Freeze what is there. Garbage is collected first, that from before the start too."""
        with self._lock:
            if self._frozen:
                gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._frozen = True


SETTLED: Final = _SettledObjects()
