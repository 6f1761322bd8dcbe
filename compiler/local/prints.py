"""Shows what operators print where the run was started, and keeps it out of rows that go to standard output."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tracetypes.redaction import redact

__all__ = ["operators_print", "show_line", "show_prints"]

_inside: Final = threading.local()

_SHOWS: Final[list[Callable[[str], None]]] = []
"""Who shows lines: the first one shows all of them."""


@contextmanager
def operators_print() -> Iterator[None]:
    """A context in which what this thread prints was printed by operators."""
    _inside.buffer = ""
    try:
        yield
    finally:
        buffer, _inside.buffer = _inside.buffer, None
        if buffer and _SHOWS:
            _SHOWS[0](redact(buffer))


def show_line(line: str) -> None:
    """Show a line that an operator has printed in another process."""
    if not _SHOWS:
        print(line)
        return
    _inside.buffer, rest = None, getattr(_inside, "buffer", None)
    try:
        _SHOWS[0](redact(line))
    finally:
        _inside.buffer = rest


class _Tee(io.TextIOBase):
    """Standard output or error: lines of operators are shown, all else goes where it went."""

    def __init__(self, other: Any) -> None:
        self.other = other

    def __getattr__(self, name: str) -> Any:
        return getattr(self.other, name)

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, text: str) -> int:
        """Write, or show whole lines."""
        buffer: str | None = getattr(_inside, "buffer", None)
        if buffer is None or not _SHOWS:
            self.other.write(text)
            return len(text)
        *lines, _inside.buffer = (buffer + text).split("\n")
        for line in lines:
            _inside.buffer, rest = None, _inside.buffer
            _SHOWS[0](redact(line))
            _inside.buffer = rest
        return len(text)

    def flush(self) -> None:
        """Flush what goes on. The collector does so too, when the stream below may be closed."""
        if not getattr(self.other, "closed", False):
            self.other.flush()


@contextmanager
def show_prints(show: Callable[[str], None]) -> Iterator[None]:
    """A context in which ``show`` is called with each line that operators print."""
    _SHOWS.append(show)
    first = len(_SHOWS) == 1
    if first:
        sys.stdout, sys.stderr = _Tee(sys.stdout), _Tee(sys.stderr)
    try:
        yield
    finally:
        _SHOWS.remove(show)
        if not _SHOWS:
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                if isinstance(stream, _Tee):
                    setattr(sys, name, stream.other)
