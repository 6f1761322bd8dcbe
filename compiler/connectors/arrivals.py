"""Rows of sources that cannot be read again, such as sockets: held in memory from their arrival until an epoch with them is out.

A source puts parts in, in their order. Each reading of the source takes them with its epochs, and may take those of an epoch
again until the epoch is committed. What all readings have committed is let go. The rows that are held have a budget: beyond it
the source waits, and reads no more from whoever sends.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from tracetypes.errors import RunError, TraceTypesError

__all__ = ["BYTES", "ROWS", "Arrivals", "Part", "reason"]

ROWS = 1_000_000
"""Rows that a source holds at most, unless its address says otherwise."""

BYTES = 128 << 20
"""Bytes that a source holds at most."""

_ALL = 1 << 62
"""Behind every part."""


@attrs.frozen
class Part:
    """Rows that came together. ``body``: what their reader knows. ``size``: approximately how many bytes they are."""

    body: Any
    rows: int
    size: int


def _unreadable(error: BaseException) -> RunError:
    return RunError("TT208", f"a source cannot be read: {reason(error)}", fix="see the cause; run again to go on")


def reason(error: BaseException) -> str:
    """What the system says of an error; of any other one its type, too."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class Arrivals:
    """The parts of a source, numbered from 0. ``readings``: how many take them. ``rows``: that are held at most; a part that is
    larger is held alone. ``unreadable``: from what a source fails of to the error of the run. Threads share it."""

    def __init__(
        self, readings: int = 1, rows: int = ROWS, unreadable: Callable[[BaseException], RunError] = _unreadable
    ) -> None:
        self.readings, self.rows, self.unreadable = readings, rows, unreadable
        self.id = uuid.uuid4().hex
        """Of this object: the numbers of parts mean nothing in another process."""
        self.first = 0
        self.failure: BaseException | None = None
        self.ended = self.closed = False
        self.on_release: Callable[[Sequence[Part]], None] = lambda parts: None
        """Called with parts that all readings have committed."""
        self.on_resume: Callable[[Sequence[Sequence[Part]]], None] = lambda parts: None
        """Called when all readings go on, with the parts of each that an earlier process has taken, as far as they are kept."""
        self._resumed: dict[str, Sequence[Part]] = {}
        self.more: Callable[[], Part | None] = lambda: None
        """Called for rows that are there and no part yet."""
        self._parts: deque[Part] = deque()
        self._buffer_rows = self._buffer_bytes = 0
        self._commits: dict[str, int] = {}
        self._departures: set[str] = set()
        self._condition = threading.Condition()
        self._alarms: list[threading.Event] = []

    # ------------------------------------------------------------------------------------------- for the source

    def put(self, part: Part) -> bool:
        """Add a part, when there is room. Returns whether anybody still reads."""
        with self._condition:
            while not self.closed and self._parts and self._is_full(part):
                self._condition.wait()
            if self.closed:
                return False
            self._add(part)
        self.ring()
        return True

    def _add(self, part: Part) -> None:
        self._parts.append(part)
        self._buffer_rows += part.rows
        self._buffer_bytes += part.size

    def _is_full(self, part: Part) -> bool:
        return self._buffer_rows + part.rows > self.rows or self._buffer_bytes + part.size > BYTES

    def start(self, name: str, body: Callable[[], None]) -> None:
        """Run the source in a thread of its own. Its end is the end of the source, and its error that of the run."""

        def guarded() -> None:
            with self.failing():
                body()
                self.end()

        threading.Thread(target=guarded, name=name, daemon=True).start()

    @contextmanager
    def failing(self) -> Iterator[None]:
        """A context of another thread: whatever is raised inside ends the source, and the run with that error. Nobody would
        see it otherwise, and the run would wait for ever."""
        try:
            yield
        except TraceTypesError as error:
            self.end(error)
        except BaseException as error:
            failure = self.unreadable(error)
            failure.__cause__ = error
            self.end(failure)

    def end(self, failure: BaseException | None = None) -> None:
        """No part comes any more. ``failure``: why, if that is no end."""
        with self._condition:
            self.failure, self.ended = failure, True
        self.ring()

    # ---------------------------------------------------------------------------------------------- for readings

    def alarm(self, event: threading.Event) -> None:
        """Set an event whenever something comes."""
        self._alarms.append(event)
        event.set()

    def ring(self) -> None:
        """Something has come."""
        for event in self._alarms:
            event.set()

    def resume(self, reading: str, parts: Sequence[Part]) -> None:
        """A reading goes on. ``parts``: that it took in an earlier process, as far as they are kept."""
        with self._condition:
            self._resumed[reading] = parts
            self._begin()

    def _begin(self) -> None:
        if len(self._resumed.keys() | self._departures) == self.readings and self._resumed:
            self.on_resume(list(self._resumed.values()))

    def end_of_epoch(self, since: int) -> int:
        """The number behind the parts of an epoch: all that are there, but at most half of what may be held, so that the source
        goes on during the epoch. Raises the failure of the source behind its last part."""
        with self._condition:
            more = self.more()
            if more is not None:
                self._add(more)
            behind = self.first + len(self._parts)
            if since == behind and self.failure is not None:
                raise self.failure
            rows = size = 0
            for at in range(since, behind):
                part = self._parts[at - self.first]
                rows, size = rows + part.rows, size + part.size
                if at > since and (2 * rows > self.rows or 2 * size > BYTES):
                    return at
            return behind

    def is_over(self, at: int) -> bool:
        """Whether nothing comes from a number on."""
        with self._condition:
            return self.ended and self.failure is None and at >= self.first + len(self._parts)

    def between(self, since: int, until: int) -> Sequence[Part]:
        """The parts of an epoch, the same ones each time."""
        with self._condition:
            return [self._parts[at - self.first] for at in range(since, until)]

    def commit(self, reading: str, number: int) -> None:
        """A reading needs the parts before a number no more."""
        with self._condition:
            self._commits[reading] = number
            self._release()

    def leave(self, reading: str, *, finished: bool) -> None:
        """A reading takes no more parts. ``finished``: it needs none of them. When all have left, the source may end."""
        with self._condition:
            if reading not in self._resumed:
                self._departures.add(reading)
                self._begin()
            self._departures.add(reading)
            self.closed = len(self._departures) >= self.readings
            if finished:
                self._commits[reading] = _ALL
            self._release()

    def _release(self) -> None:
        if len(self._commits) >= self.readings:
            number = min(self.first + len(self._parts), *self._commits.values())
            parts = [self._parts.popleft() for _ in range(number - self.first)]
            self._buffer_rows -= sum(part.rows for part in parts)
            self._buffer_bytes -= sum(part.size for part in parts)
            self.first = number
            self.on_release(parts)
        self._condition.notify_all()
