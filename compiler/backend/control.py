"""Signals to end a run from outside."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

__all__ = ["Control"]


@attrs.define(eq=False)
class Control:
    """``stop``: end soon, and leave open blocks open. ``drain``: follow no longer, end the sources, and answer all open
    blocks. ``starts``: nothing runs yet, so that a signal ends the process at once (SIGTERM by its default)."""

    stop: threading.Event = attrs.field(factory=threading.Event)
    drain: threading.Event = attrs.field(factory=threading.Event)
    starts: bool = False

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
