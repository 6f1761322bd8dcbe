"""Ranges of objects: what is read at any place, large ranges by several requests, and ranges that are asked for ahead.

A store answers after tens of milliseconds, however few the bytes. So what somebody will surely read is on its way before he asks.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Final

from tracetypes.compiler.connectors.file_system import FileState
from tracetypes.compiler.connectors.store_address import StoreAddress
from tracetypes.compiler.connectors.store_clients import client
from tracetypes.compiler.connectors.store_errors import store_error
from tracetypes.errors import TraceTypesError

__all__ = ["EXPECTED", "ObjectFile", "Ranges", "reader", "threads"]

SMALL: Final = 1 << 20
"""Bytes of an object that comes whole with the first request."""

LEAST: Final = 1 << 16
"""Bytes of a request, at least: the way there takes as long as many bytes do."""

PART: Final = 8 << 20
"""Bytes of a request for one of several parts of a large range."""

MOST: Final = 64
"""Small objects that are expected at once."""

THREADS: Final = 8
"""Requests of a process at once for parts and blocks."""


class ExpectedObjects:
    """Small objects that come before somebody reads them."""

    def __init__(self) -> None:
        self._coming: dict[tuple[int, str, FileState], Future[Any]] = {}
        self._lock = threading.Lock()

    def expect(self, path: str, state: FileState) -> None:
        """Ask for an object, if it is small and has a version."""
        if not state.version or not 0 < state.size <= SMALL:
            return
        with self._lock:
            while len(self._coming) >= MOST:  # of readers that have stopped
                self._coming.pop(next(iter(self._coming))).cancel()
            key = os.getpid(), path, state
            if key not in self._coming:
                self._coming[key] = threads(os.getpid()).submit(_getter(path, state), 0, state.size)

    def take(self, path: str, state: FileState) -> Future[Any] | None:
        """What comes of an object, once; None if nobody expected it."""
        if not self._coming:
            return None
        with self._lock:
            return self._coming.pop((os.getpid(), path, state), None)


EXPECTED: Final = ExpectedObjects()
"""Those of this process."""


class Ranges:
    """Gets ranges of an object, from a first byte to the one behind the last, and those first that it was told of."""

    def __init__(self, path: str, state: FileState) -> None:
        self._get, self._size = reader(path, state), state.size
        self._coming: dict[tuple[int, int], Future[Any]] = {}
        self._lock = threading.Lock()

    def file(self) -> ObjectFile:
        """The object as a file. Several files share what comes."""
        return ObjectFile(self, self._size)

    def expect(self, places: Iterable[tuple[int, int]]) -> None:
        """Ask for ranges that somebody will read. A small object comes whole anyway."""
        if self._size <= SMALL:
            return
        with self._lock:
            for start, end in places:
                place = start, least_end(start, end, self._size)
                if place not in self._coming:
                    self._coming[place] = threads(os.getpid()).submit(self._get, *place)

    def __call__(self, start: int, end: int) -> Any:
        """Raises :class:`OSError`, :class:`EOFError`."""
        with self._lock:
            coming = self._coming.pop((start, end), None)
        return in_parts(self._get, start, end) if coming is None else coming.result()


def least_end(start: int, end: int, size: int) -> int:
    """Up to where a range goes that is no smaller than a request should be."""
    return min(size, max(end, start + LEAST))


class ObjectFile(io.RawIOBase):
    """An object that is read at any place. Each read is a request, if its bytes did not come with the one before."""

    def __init__(self, get: Callable[[int, int], Any], size: int) -> None:
        super().__init__()
        self._get, self._size, self._at = get, size, 0
        self._start, self._held = 0, memoryview(b"")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._at = max(0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence])
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self._size - self._at)
        return bytes(self._some(left if size is None or size < 0 else min(size, left)))

    def readinto(self, buffer: Any, /) -> int:
        some = self._some(min(len(buffer), max(0, self._size - self._at)))
        buffer[: len(some)] = some
        return len(some)

    def _some(self, count: int) -> memoryview:
        """The next bytes."""
        start, end = self._at, self._at + count
        if count and not self._start <= start < end <= self._start + len(self._held):
            whole = self._size <= SMALL
            self._start = 0 if whole else start
            until = self._size if whole else least_end(start, end, self._size)
            self._held = memoryview(self._get(self._start, until))
        self._at = end
        return self._held[start - self._start : end - self._start]


def in_parts(get: Callable[[int, int], Any], start: int, end: int) -> Any:
    """A range, a large one by several requests at once."""
    if end - start < 2 * PART:
        return get(start, end)
    whole = bytearray(end - start)
    places = [(at, min(at + PART, end)) for at in range(start, end, PART)]
    for (at, until), part in zip(places, threads(os.getpid()).map(lambda place: get(*place), places), strict=True):
        whole[at - start : until - start] = part
    return whole


def reader(path: str, state: FileState | None) -> Callable[[int, int], Any]:
    """What gets ranges of an object, from a first byte to the one behind the last. Raises :class:`OSError`, :class:`EOFError`."""
    whole = None if state is None else EXPECTED.take(path, state)
    return _getter(path, state) if whole is None else lambda start, end: whole.result()[start:end]


def _getter(path: str, state: FileState | None) -> Callable[[int, int], Any]:
    import obstore

    address = StoreAddress.listed(path)
    tagged = {"if_match": state.version} if state is not None and state.version else {}

    def get(start: int, end: int) -> memoryview:
        failure: OSError | None = None
        try:
            options: Any = {"range": (start, end), **tagged}
            some = memoryview(obstore.get(client(address), address.name, options=options).bytes())
        except TraceTypesError:
            raise
        except Exception as error:  # its text may have secrets, so it is no cause
            failure = store_error(error)
        if failure is not None:
            raise failure
        if len(some) != end - start:
            raise EOFError(f"it ends at byte {start + len(some):,}, and {end:,} are expected")
        return some

    return get


@lru_cache(maxsize=1)
def threads(process: int) -> ThreadPoolExecutor:
    """Those of this process: none of them survives a fork."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix="tracetypes objects")
