"""Starts the segments of flows that were accepted already, one after the other, in a thread of its own.

To accept a flow takes a decision and its transaction. To plan its operators and to write their first files takes several times
as long, and nobody needs to wait for it: a kill meanwhile changes nothing, because what shall run is in the database. So that it
does not take the processor from flows that come just now, a start waits for a pause between them, but not for long.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tracetypes.compiler.workspace.segment_host import SegmentHost

__all__ = ["SegmentStarts"]


PAUSE: Final = 0.05
"""Seconds without a call that accepts or removes a flow, for which a start waits."""

LONGEST: Final = 1.0
"""Seconds for which it waits at most."""


class SegmentStarts:
    """The flows whose segments still have to start. ``watch``: called with the name of a flow before its segments start, and with
    None when they have."""

    def __init__(self, host: SegmentHost) -> None:
        self.host = host
        self.watch: Callable[[str | None], None] = lambda flow: None
        self._flows: queue.SimpleQueue[tuple[str, Sequence[str]] | None] = queue.SimpleQueue()
        self._is_closed = False
        self._lock = threading.Lock()
        self._calls, self._last_call = 0, 0.0
        self._thread = threading.Thread(target=self._run, name="tracetypes starts", daemon=True)
        self._thread.start()

    def add(self, flow: str, segments: Sequence[str]) -> None:
        """A flow was accepted. ``segments``: that start for it, each behind those that it reads from."""
        self._flows.put((flow, segments))

    @contextmanager
    def accepting(self) -> Iterator[None]:
        """A context in which a call accepts or removes a flow."""
        with self._lock:
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1
                self._last_call = time.monotonic()

    def close(self) -> None:
        """Start nothing more. What is being opened is finished first."""
        self._is_closed = True
        self._flows.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (one := self._flows.get()) is not None:
            flow, segments = one
            self._wait_for_pause()
            self.watch(flow)
            for name in segments:
                if not self._is_closed:
                    self.host.open(name)
            self.watch(None)

    def _wait_for_pause(self) -> None:
        until = time.monotonic() + LONGEST
        while (now := time.monotonic()) < until and not self._is_closed:
            left = PAUSE if self._calls else self._last_call + PAUSE - now
            if left <= 0:
                return
            time.sleep(min(left, until - now))
