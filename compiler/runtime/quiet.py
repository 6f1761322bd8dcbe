"""Drops what a thread prints while an operator is called once more for a check."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

__all__ = ["quiet"]

_here: Final = threading.local()
_lock: Final = threading.Lock()
_inside: Final[list[None]] = []
"""One for each thread that is in a quiet context."""
_muted: Final[dict[str, _Muted]] = {}
"""The last stream in the place of standard output and of standard error. It must not die while another thread prints: up to
Python 3.13, print() has a stream without counting that it has it."""


class _Muted(io.TextIOBase):
    """Standard output or error. What quiet threads print is dropped, all else goes on."""

    def __init__(self, other: Any) -> None:
        self.other = other

    def __getattr__(self, name: str) -> Any:
        return getattr(self.other, name)

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, text: str) -> int:
        """Write, or drop."""
        if not getattr(_here, "quiet", False):
            self.other.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush what goes on."""
        self.other.flush()

    def close(self) -> None:
        """Nothing: the stream below is another's, and may be closed when Python ends."""


@contextmanager
def quiet() -> Iterator[None]:
    """A context in which what this thread prints is dropped."""
    with _lock:
        if not _inside:
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                if name not in _muted or _muted[name].other is not stream:
                    _muted[name] = _Muted(stream)
                setattr(sys, name, _muted[name])
        _inside.append(None)
    _here.quiet = True
    try:
        yield
    finally:
        _here.quiet = False
        with _lock:
            _inside.pop()
            if not _inside:
                for name in ("stdout", "stderr"):
                    stream = getattr(sys, name)
                    if isinstance(stream, _Muted):
                        setattr(sys, name, stream.other)
