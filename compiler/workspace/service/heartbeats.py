"""Notices that a worker process does nothing any more: an operator keeps Python's lock, in a loop in C that does not end.

A worker says once a second that it goes on. If nothing comes for as long as a call may take, one thread has the lock, and all
others wait. It is the one that uses a processor. The system knows the threads of segments by the names of these.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

__all__ = ["Heartbeats"]

LOOK: Final = 0.5
"""Seconds for which threads are watched."""


class Heartbeats:
    """Of one worker process. ``seconds``: without a word, after which it counts as frozen."""

    def __init__(self, pid: int, seconds: float) -> None:
        self.pid, self.seconds = pid, seconds
        self._last: float | None = None

    def heard(self) -> None:
        """It goes on."""
        self._last = time.monotonic()

    @property
    def is_frozen(self) -> bool:
        """Whether it has said nothing for too long. It may say nothing before its first word."""
        return self._last is not None and time.monotonic() > self._last + self.seconds

    def busiest(self) -> str:
        """The name of the thread that uses the most of a processor, as the system has it. Empty if it has none."""
        before = self._ticks()
        time.sleep(LOOK)
        used = {thread: ticks - before.get(thread, 0) for thread, ticks in self._ticks().items()}
        return max(used, key=lambda thread: used[thread], default=("", ""))[1]

    def _ticks(self) -> dict[tuple[str, str], int]:
        """What each thread has used of a processor, by its number and name."""
        ticks: dict[tuple[str, str], int] = {}
        try:
            for thread in Path(f"/proc/{self.pid}/task").iterdir():
                words = (thread / "stat").read_text().rpartition(")")[2].split()
                ticks[thread.name, (thread / "comm").read_text().strip()] = int(words[11]) + int(words[12])
        except (OSError, IndexError):  # it ends just now, or the system has no such files
            pass
        return ticks
