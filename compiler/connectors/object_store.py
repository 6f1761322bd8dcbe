"""Objects of a store as files.

A read names the tag (etag) of the object that was listed, so the store itself refuses a range of another content. A part of text
is read in blocks, two of which are on their way while one is parsed.
"""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any, BinaryIO, Final, cast

from tracetypes.compiler.connectors.disk import hidden_file
from tracetypes.compiler.connectors.file_system import BLOCK, FileState
from tracetypes.compiler.connectors.folders import is_hidden
from tracetypes.compiler.connectors.store_address import StoreAddress
from tracetypes.compiler.connectors.store_clients import client, require_client
from tracetypes.compiler.connectors.store_errors import StoreDenied, StoreLost, store_error
from tracetypes.errors import RunError, TraceTypesError

__all__ = ["ObjectFile", "ObjectStore", "threads"]

SMALL: Final = 1 << 20
"""Bytes of an object that comes whole with the first request."""

LEAST: Final = 1 << 16
"""Bytes of a request, at least: the way there takes as long as many bytes do."""

PART: Final = 8 << 20
"""Bytes of a request for one of several parts of a large range."""

AHEAD: Final = 2
"""Blocks of text that are on their way while one is parsed."""

AGAIN: Final = 3
"""How often a listing goes on where it broke off."""

THREADS: Final = 8
"""Requests of a process at once for parts and blocks."""


class ObjectStore:
    """See :class:`FileSystem`. Objects are whole when they can be seen, and nobody appends to one."""

    rest, appends = 1.0, False

    def look_for(self, source: str, path: str) -> None:
        """See :class:`FileSystem`. A folder has objects; one whose address ends with ``/`` may have none yet."""
        require_client()
        address = StoreAddress.of(path)
        if address.is_web and (not address.key or address.key.endswith("/")):
            fix = "give the address of one file: a web server lists none"
            raise RunError("TT208", f"source {source!r}: {path} is no file", fix=fix)
        first = next(self.walk(path), None)
        name = address.key.rpartition("/")[2]
        if first is not None and first[0] == path and is_hidden(name, folder=False):
            raise hidden_file(source, name)
        if first is None and (address.is_web or not path.endswith("/")):
            fix = f"give an existing object or folder: --input {source}={address.scheme}://..."
            raise RunError("TT208", f"source {source!r}: {path} does not exist", fix=fix)

    def walk(self, path: str) -> Iterator[tuple[str, FileState]]:
        """See :class:`FileSystem`. Objects of 0 bytes have no rows; some programs write them as folders."""
        address = StoreAddress.listed(path)
        if address.key and not address.key.endswith("/"):
            state = self.state(path)
            if state is not None:
                yield path, state
                return
        if address.is_web:
            return
        folder = address.key.rstrip("/")
        for about in _listed(path, address, folder):
            *above, name = about["path"].removeprefix(folder).lstrip("/").split("/")
            hidden = is_hidden(name, folder=False) or any(is_hidden(one, folder=True) for one in above)
            if about["size"] and not hidden:
                yield address.beside(about["path"]), _state(about)

    def state(self, path: str) -> FileState | None:
        """See :class:`FileSystem`."""
        address = StoreAddress.listed(path)
        import obstore

        try:
            return _state(obstore.head(client(address), address.name))
        except FileNotFoundError:
            return None
        except TraceTypesError:
            raise
        except Exception as error:  # its text may have secrets, so it is no cause
            failure = store_error(error)
        raise _said(path, address, failure)

    def open(self, path: str, state: FileState | None) -> BinaryIO:
        """See :class:`FileSystem`. Raises :class:`OSError` if there is no such object."""
        state = state or self.state(path)
        if state is None:
            raise FileNotFoundError(f"{path} does not exist")
        return cast(BinaryIO, ObjectFile(_reader(path, state), state.size))

    def blocks(self, path: str, start: int, end: int, state: FileState | None) -> Iterator[bytes]:
        """See :class:`FileSystem`."""
        read = _reader(path, state)
        places = ((at, min(at + BLOCK, end)) for at in range(start, end, BLOCK))
        if end - start <= BLOCK:
            yield from (bytes(read(*place)) for place in places)
            return
        coming = deque[Future[Any]]()
        try:
            for place in places:
                coming.append(threads(os.getpid()).submit(read, *place))
                if len(coming) > AHEAD:
                    yield bytes(coming.popleft().result())
            while coming:
                yield bytes(coming.popleft().result())
        finally:
            for one in coming:
                one.cancel()


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
            until = self._size if whole else min(self._size, max(end, start + LEAST))
            self._held = memoryview(_in_parts(self._get, self._start, until))
        self._at = end
        return self._held[start - self._start : end - self._start]


def _in_parts(get: Callable[[int, int], Any], start: int, end: int) -> Any:
    """A range, a large one by several requests at once."""
    if end - start < 2 * PART:
        return get(start, end)
    whole = bytearray(end - start)
    places = [(at, min(at + PART, end)) for at in range(start, end, PART)]
    for (at, until), part in zip(places, threads(os.getpid()).map(lambda place: get(*place), places), strict=True):
        whole[at - start : until - start] = part
    return whole


def _reader(path: str, state: FileState | None) -> Callable[[int, int], Any]:
    """What gets ranges of an object, from a first byte to the one behind the last. Raises :class:`OSError`, :class:`EOFError`."""
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


def _listed(path: str, address: StoreAddress, folder: str) -> Iterator[Any]:
    """What a store says of all objects below a folder. A page that breaks off is asked for again: the client does so only with
    objects."""
    import obstore

    last, left = None, AGAIN
    while True:
        try:
            for some in obstore.list(client(address), prefix=f"{folder}/" if folder else None, offset=last, chunk_size=1000):
                for about in some:
                    last = about["path"]
                    yield about
            return
        except TraceTypesError:
            raise
        except Exception as error:  # its text may have secrets, so it is no cause
            failure = store_error(error)
        if not left or not isinstance(failure, StoreLost):
            raise _said(path, address, failure)
        left -= 1


def _state(about: Any) -> FileState:
    tag = about["e_tag"] or ""
    modified = round(about["last_modified"].timestamp() * 1e6) * 1000
    return FileState(about["size"], modified, "" if tag.startswith("W/") else tag)  # a weak one is never the same


@lru_cache(maxsize=1)
def threads(process: int) -> ThreadPoolExecutor:
    """Those of this process: none of them survives a fork."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix="tracetypes objects")


def _said(path: str, address: StoreAddress, failure: OSError) -> RunError:
    """The error ``TT208`` for what the store has answered."""
    fix = "see the cause, then run again to go on"
    if isinstance(failure, FileNotFoundError):
        fix = f"name a bucket that exists: {address.scheme}://..."
    elif isinstance(failure, StoreDenied):
        fix = f"give credentials that may read it: {address.variables}"
    return RunError("TT208", f"{path} cannot be read: {failure}", fix=fix)
