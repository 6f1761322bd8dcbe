"""How others end a run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

__all__ = ["Control"]


@attrs.frozen(eq=False)
class Control:
    """``stop``: end soon, and leave open blocks open; ``drain``: follow no longer, end the sources, and answer what is open."""

    stop: threading.Event = attrs.field(factory=threading.Event)
    drain: threading.Event = attrs.field(factory=threading.Event)

    @contextmanager
    def of_signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM stop the run meanwhile. Only the main thread can see to that."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, lambda *_: self.stop.set()) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
