"""Signals to end a run from outside."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import attrs

__all__ = ["Bell", "Control"]


class Bell:
    """Wakes the threads that wait. It may be rung in a signal handler while this thread is anywhere in :meth:`wait`: a lock would
    not allow that, and an event has one. Each thread has a queue of its own, because a wait for a queue that others take from
    may last for ever, whatever its timeout (CPython 3.11 to 3.13)."""

    def __init__(self) -> None:
        self._waiting: list[queue.SimpleQueue[None]] = []
        self._is_rung = False

    def ring(self) -> None:
        """Let all who wait go on; if nobody waits, the next one does not."""
        self._is_rung = True
        for one in tuple(self._waiting):
            one.put(None)

    def wait(self, seconds: float) -> None:
        """Wait until it is rung, for at most some seconds."""
        mine: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._waiting.append(mine)
        try:
            if not self._is_rung:
                with suppress(queue.Empty):
                    mine.get(timeout=seconds)
        finally:
            self._waiting.remove(mine)
        self._is_rung = False


class _Request(threading.Event):
    """An event that rings a bell."""

    def __init__(self, news: Bell) -> None:
        super().__init__()
        self._news = news

    def set(self) -> None:
        """Set it, and ring."""
        super().set()
        self._news.ring()


@attrs.define(eq=False)
class Control:
    """``stop``: end soon, and leave open blocks open. ``drain``: follow no longer, end the sources, and answer all open
    blocks. ``news``: rung by both, and by segments that are over. ``starts``: nothing runs yet, so that a signal ends the process
    at once (SIGTERM by its default)."""

    news: Bell = attrs.field(init=False, factory=Bell)
    stop: threading.Event = attrs.field(init=False, default=attrs.Factory(lambda self: _Request(self.news), takes_self=True))
    drain: threading.Event = attrs.field(init=False, default=attrs.Factory(lambda self: _Request(self.news), takes_self=True))
    starts: bool = attrs.field(default=False, kw_only=True)

    @contextmanager
    def of_signals(self) -> Iterator[None]:
        """A context in which SIGINT and SIGTERM stop the run. It works only in the main thread. Python may swallow the
        KeyboardInterrupt, for example inside a finaliser; then the run stops when it begins."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def heard(*_: object) -> None:
            self.stop.set()
            if self.starts:
                raise KeyboardInterrupt

        numbers = (signal.SIGINT,) if self.starts else (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, heard) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
