"""Stops calls of operators that do not end: an exception is raised within them, so their flows fail alone.

It reaches a call when that runs Python again. One that catches it every time, or is within a library of C that has given back
Python's lock, goes on: then the process has to end.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from functools import lru_cache
from types import FrameType
from typing import Final

from tracetypes.compiler.tracing.syntax import PREFIX
from tracetypes.errors import is_own

__all__ = ["CallTooLong", "LongCalls", "is_of_operators"]

PAUSE: Final = 1.0
"""Seconds between two looks at what threads do."""

TRIES: Final = 3
"""Exceptions in a call that does not end, before the process has to."""


@lru_cache(4096)
def is_of_operators(file: str) -> bool:
    """Whether a file has code of operators, and not of tracetypes, Python or a library."""
    return is_own(file.removeprefix(PREFIX))


class CallTooLong(Exception):
    """A call of an operator took longer than the service allows."""

    def __init__(self) -> None:
        super().__init__("one call of it took longer than the service allows (limits.seconds)")


class LongCalls:
    """Looks at all threads of this process, again and again. ``seconds``: for which one call of an operator may last. ``looked``:
    called after each look; ``stuck``: called with the number of a thread whose call goes on after :data:`TRIES` exceptions."""

    def __init__(
        self, seconds: float, looked: Callable[[], None] = lambda: None, stuck: Callable[[int], None] = lambda thread: None
    ) -> None:
        self.seconds, self.looked, self.stuck = seconds, looked, stuck
        self._since: dict[int, tuple[FrameType, float, int]] = {}
        """The call that each thread is in, for how long, and how many exceptions were raised in it. A frame that is kept is that
        of no other call."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tracetypes long calls", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        pause = min(PAUSE, self.seconds / 4)
        while not self._ended.wait(pause):
            self._look(pause)
            self.looked()

    def _look(self, pause: float) -> None:
        calls = {thread: frame for thread, top in sys._current_frames().items() if (frame := _call_of(top)) is not None}
        known, self._since = self._since, {}
        for thread, frame in calls.items():
            before, seconds, tries = known.get(thread, (frame, 0.0, 0))
            seconds, tries = (seconds + pause, tries) if before is frame else (0.0, 0)
            if seconds > self.seconds and tries == TRIES:
                self.stuck(thread)
            elif seconds > self.seconds:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(CallTooLong))
                seconds, tries = self.seconds / 2, tries + 1  # it may catch it: then once more
            self._since[thread] = frame, seconds, tries


def _call_of(top: FrameType) -> FrameType | None:
    """The outermost frame of a thread that is code of an operator."""
    found: FrameType | None = None
    frame: FrameType | None = top
    while frame is not None:
        if is_of_operators(frame.f_code.co_filename):
            found = frame
        frame = frame.f_back
    return found
