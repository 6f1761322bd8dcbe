"""The heap of the C library: what a run keeps of it, and what goes back to the system. Where the library is not glibc, nothing is
done. The allocators of Python and Arrow give back what they can by themselves."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final

__all__ = ["KEPT_MEMORY", "FreedMemory", "KeptMemory", "give_back", "limit_heaps"]

PERIOD: Final = 10.0
"""Seconds between two times at which memory is given back during a run. When the last run ends :class:`KeptMemory` does it."""

LARGEST: Final = 1 << 30
"""Bytes of a block from which on it is mapped by itself."""

KEPT: Final = 256 << 20
"""Free bytes at the end of the heap that are not given back."""

ARENAS: Final = 4
"""Heaps of the process at most. By itself glibc has one for each thread, up to eight a core, and what one has freed is of no use
to the others: with the threads of a Kafka client these are 15, of which each keeps what its largest epoch needed."""

BY_USER: Final = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES")
"""Variables by which the user chooses."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # <malloc.h>

_USUAL: Final = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 64 << 20}
"""What glibc comes to by itself in a process with large blocks."""


def _glibc() -> Any:
    """The C library if it is glibc."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    return library if hasattr(library, "gnu_get_libc_version") else None


def _adjustable() -> Any:
    """The C library, if its thresholds are not those of the user."""
    return None if any(name in os.environ for name in BY_USER) else _glibc()


def limit_heaps(library: Callable[[], Any] = _adjustable) -> None:
    """Have at most ``ARENAS`` heaps, for good. For the start of a run, before its inputs are opened: a client of Kafka has so
    many threads that there would be more heaps, and glibc finds out once how many there may be."""
    if (one := library()) is not None:
        one.mallopt(_ARENA_MAX, ARENAS)


class KeptMemory:
    """A context in which the heap keeps the memory of columns. Any number of segments may be inside; the last one that
    leaves gives it back.

    glibc maps each large block anew and gives it back when it is freed, so the kernel fills each page of each temporary column
    with zeros: a quarter of the processor time of simple queries. Inside, blocks up to ``LARGEST`` come from the heap, and up
    to ``KEPT`` bytes at its end stay there.
    """

    def __init__(self, library: Callable[[], Any] = _adjustable) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._library = library

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1 and (library := self._library()) is not None:
                library.mallopt(_MMAP_THRESHOLD, LARGEST)
                library.mallopt(_TRIM_THRESHOLD, KEPT)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and (library := self._library()) is not None:
                for parameter, value in _USUAL.items():
                    library.mallopt(parameter, value)
                library.malloc_trim(0)


KEPT_MEMORY: Final = KeptMemory()


class FreedMemory:
    """Of a segment or a worker process. The C library keeps what a large epoch has freed, for each thread, in pieces between what
    is still in use. So the largest epochs so far would decide how much memory a long run takes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._due, self._used = clock, clock() + PERIOD, False

    def used(self) -> None:
        """Work was done, so there may be something to give back."""
        self._used = True

    def look(self) -> None:
        """Give it back, if it is time and work was done since the last time."""
        if self._used and self._clock() >= self._due:
            give_back()
            self._due, self._used = self._clock() + PERIOD, False


def give_back() -> None:
    """Give back all pages of the heaps in which nothing is in use. Takes 1 to 7 ms."""
    if (library := _glibc()) is not None:
        library.malloc_trim(0)
