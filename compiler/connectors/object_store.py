"""Objects of a store as files.

A read names the tag (etag) of the object that was listed, so the store itself refuses a range of another content. A part of text
is read in blocks, two of which are on their way while one is parsed.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, BinaryIO, Final, cast

from tracetypes.compiler.connectors.disk import hidden_file
from tracetypes.compiler.connectors.file_system import BLOCK, FileState
from tracetypes.compiler.connectors.folders import is_hidden
from tracetypes.compiler.connectors.object_ranges import EXPECTED, Ranges, reader, threads
from tracetypes.compiler.connectors.store_address import StoreAddress
from tracetypes.compiler.connectors.store_clients import client, require_client
from tracetypes.compiler.connectors.store_errors import StoreDenied, StoreLost, store_error
from tracetypes.errors import RunError, TraceTypesError

__all__ = ["ObjectStore"]

AHEAD: Final = 2
"""Blocks of text that are on their way while one is parsed."""

AGAIN: Final = 3
"""How often a listing goes on where it broke off."""


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

    def expect(self, path: str, state: FileState) -> None:
        """A small object is on its way from now on."""
        EXPECTED.expect(path, state)

    def open(self, path: str, state: FileState | None) -> BinaryIO:
        """See :class:`FileSystem`. Raises :class:`OSError` if there is no such object."""
        state = state or self.state(path)
        if state is None:
            raise FileNotFoundError(f"{path} does not exist")
        return cast(BinaryIO, Ranges(path, state).file())

    def blocks(self, path: str, start: int, end: int, state: FileState | None) -> Iterator[bytes]:
        """See :class:`FileSystem`."""
        read = reader(path, state)
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


def _said(path: str, address: StoreAddress, failure: OSError) -> RunError:
    """The error ``TT208`` for what the store has answered."""
    fix = "see the cause, then run again to go on"
    if isinstance(failure, FileNotFoundError):
        fix = f"name a bucket that exists: {address.scheme}://..."
    elif isinstance(failure, StoreDenied):
        fix = f"give credentials that may read it: {address.variables}"
    return RunError("TT208", f"{path} cannot be read: {failure}", fix=fix)
