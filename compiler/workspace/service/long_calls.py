"""Stops calls of operators that do not end: an exception is raised within them, so their flows fail alone."""

from __future__ import annotations

import ctypes
import sys
import threading
from functools import lru_cache
from types import FrameType
from typing import Final

from tracetypes.errors import is_own

__all__ = ["CallTooLong", "LongCalls"]

PAUSE: Final = 1.0
"""Seconds between two looks at what threads do."""

is_of_operators = lru_cache(4096)(is_own)
"""Whether a file has code of operators, and not of tracetypes, Python or a library."""


class CallTooLong(Exception):
    """A call of an operator took longer than the service allows."""

    def __init__(self) -> None:
        super().__init__("one call of it took longer than the service allows (limits.seconds)")


class LongCalls:
    """Looks at all threads of this process, again and again. ``seconds``: for which one call of an operator may last."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._since: dict[int, tuple[FrameType, float]] = {}
        """The call that each thread is in, and for how long. A frame that is kept is that of no other call."""
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

    def _look(self, pause: float) -> None:
        calls = {thread: frame for thread, top in sys._current_frames().items() if (frame := _call_of(top)) is not None}
        known, self._since = self._since, {}
        for thread, frame in calls.items():
            before, seconds = known.get(thread, (frame, 0.0))
            seconds = seconds + pause if before is frame else 0.0
            if seconds > self.seconds:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(CallTooLong))
                seconds = self.seconds / 2  # it may catch it: then once more
            self._since[thread] = frame, seconds


def _call_of(top: FrameType) -> FrameType | None:
    """The outermost frame of a thread that is code of an operator."""
    found: FrameType | None = None
    frame: FrameType | None = top
    while frame is not None:
        if is_of_operators(frame.f_code.co_filename):
            found = frame
        frame = frame.f_back
    return found
