"""Memory of columns stays with the process while a run goes on.

glibc maps each large block of memory anew and gives it back when it is freed, so the kernel fills each page of each
temporary column with zeros: a quarter of the processor time of simple queries. While a run goes on, blocks up to ``LARGEST``
come from the heap, and up to ``KEPT`` bytes at its end stay there.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any, Final

__all__ = ["KEPT_MEMORY", "KeptMemory"]

LARGEST: Final = 1 << 30
"""Bytes of a block from which on it is mapped by itself."""

KEPT: Final = 256 << 20
"""Free bytes at the end of the heap that are not given back."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # <malloc.h>

_USUAL: Final = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 64 << 20}
"""What glibc comes to by itself in a process with large blocks."""


def _glibc() -> Any:
    """The C library, if it is glibc and its thresholds are not those of the user."""
    if any(name in os.environ for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")):
        return None
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    return library if hasattr(library, "gnu_get_libc_version") else None


class KeptMemory:
    """A context in which the process keeps its memory. Any number of segments may be inside; the last one that leaves gives it
    back."""

    def __init__(self, library: Callable[[], Any] = _glibc) -> None:
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
