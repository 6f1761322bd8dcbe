"""Where the seconds of a run went."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracetypes.compiler.store.metrics import Batch

__all__ = ["Clock"]


class Clock:
    """Divides the time of a run into phases, one behind the other: their seconds add up to all of it.

    ``now``: the seconds of a clock that never goes back. ``began``: when the first phase began, by that clock.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic, began: float | None = None) -> None:
        self.now = now
        self.spent: dict[str, float] = {}
        """Seconds by phase."""
        self._at = now() if began is None else began
        self._lock = threading.Lock()

    @classmethod
    def of_process(cls) -> Clock:
        """It begins with this process."""
        return cls(began=time.monotonic() - _age())

    def lap(self, phase: str, until: float | None = None) -> None:
        """What was done since the last call, ``until`` now or a time before."""
        with self._lock:
            at = max(self._at, self.now() if until is None else until)
            self.spent[phase] = self.spent.get(phase, 0.0) + at - self._at
            self._at = at

    def around(self, on_batch: Callable[[Batch], None]) -> Callable[[Batch], None]:
        """The same, with the phase of epochs: from the beginning of the first one to the end of the last one."""

        def count(batch: Batch) -> None:
            if "micro-batches" not in self.spent:
                self.lap("start of queries", self.now() - batch.seconds)
            self.lap("micro-batches")
            on_batch(batch)

        return count

    def end(self) -> None:
        """The run is over."""
        self.lap("stop" if "micro-batches" in self.spent else "start of queries")


def _age() -> float:
    """The seconds since this process began, with the start of Python."""
    with suppress(OSError, ValueError, AttributeError):
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.process_time()
