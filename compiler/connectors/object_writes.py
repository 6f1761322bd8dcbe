"""Objects that a run writes: uploads, copies and removals, and puts of which one of several wins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs

from tracetypes.compiler.connectors.object_ranges import threads
from tracetypes.compiler.connectors.store_address import StoreAddress
from tracetypes.compiler.connectors.store_clients import client
from tracetypes.compiler.connectors.store_errors import store_error
from tracetypes.errors import TraceTypesError

__all__ = [
    "Note",
    "children",
    "copy_object",
    "in_parallel",
    "modified_at",
    "object_names",
    "object_sizes",
    "put",
    "put_if",
    "read_note",
    "remove_objects",
    "upload",
]


@attrs.frozen
class Note:
    """The content of a small object, and its version: a tag, and a number where a store counts versions."""

    content: bytes
    version: Mapping[str, str]


@contextmanager
def _at(address: str) -> Iterator[tuple[Any, str]]:
    """The client of an address, and the key there. Raises :class:`OSError` for what the store answers, with the address."""
    place = StoreAddress.listed(address)
    failure: OSError | None = None
    try:
        yield client(place), place.name
    except TraceTypesError:
        raise
    except Exception as error:  # its text may have secrets, so it is no cause
        failure = store_error(error)
    if failure is not None:
        raise type(failure)(f"{address}: {failure}")


def upload(file: Path, address: str) -> None:
    """Put a file, in several parts if it is large. It can be seen when it is whole. Raises :class:`OSError`."""
    import obstore

    with _at(address) as (store, key):
        obstore.put(store, key, file)


def copy_object(before: str, after: str) -> None:
    """Copy an object inside a bucket, without its bytes coming here. Raises :class:`OSError`."""
    import obstore

    with _at(before) as (store, key):
        obstore.copy(store, key, StoreAddress.listed(after).name)


def remove_objects(addresses: Sequence[str]) -> None:
    """Remove objects, if they are there. Raises :class:`OSError`."""
    import obstore

    if not addresses:
        return
    try:
        with _at(addresses[0]) as (store, _):
            obstore.delete(store, [StoreAddress.listed(one).name for one in addresses])
    except FileNotFoundError:  # some stores stop at an object that is not there
        in_parallel(_remove, [(one,) for one in addresses])


def _remove(address: str) -> None:
    """Remove an object, if it is there."""
    import obstore

    with suppress(FileNotFoundError), _at(address) as (store, key):
        obstore.delete(store, key)


def object_names(folder: str) -> list[str]:
    """The addresses of all objects below a folder, hidden ones among them. Raises :class:`OSError`."""
    import obstore

    place = StoreAddress.listed(folder)
    with _at(folder) as (store, key):
        objects = obstore.list(store, prefix=f"{key.rstrip('/')}/").collect()
    return [place.beside(one["path"]) for one in objects]


def children(folder: str) -> set[str]:
    """The names of the objects and folders in a folder. Raises :class:`OSError`."""
    import obstore

    with _at(folder) as (store, key):
        found = obstore.list_with_delimiter(store, prefix=f"{key.rstrip('/')}/")
    paths = [*found["common_prefixes"], *(one["path"] for one in found["objects"])]
    return {path.rstrip("/").rpartition("/")[2] for path in paths if path.rstrip("/") != key.rstrip("/")}


def object_sizes(folder: str) -> Iterator[tuple[str, int, float]]:
    """The name, the size and the time of each object in a folder. Raises :class:`OSError`."""
    import obstore

    with _at(folder) as (store, key):
        found = obstore.list_with_delimiter(store, prefix=f"{key.rstrip('/')}/")["objects"]
    for one in found:
        yield one["path"].rpartition("/")[2], one["size"], one["last_modified"].timestamp()


def modified_at(address: str) -> float:
    """When an object was put, in seconds since 1970 by the clock of the store. Raises :class:`OSError`."""
    import obstore

    with _at(address) as (store, key):
        return float(obstore.head(store, key)["last_modified"].timestamp())


def read_note(address: str) -> Note | None:
    """A small object, None if there is none. Raises :class:`OSError`."""
    import obstore

    try:
        with _at(address) as (store, key):
            answer = obstore.get(store, key)
            about = {"e_tag": answer.meta["e_tag"], "version": answer.meta["version"]}
            return Note(answer.bytes().to_bytes(), {name: text for name, text in about.items() if text is not None})
    except FileNotFoundError:
        return None


def put(address: str, content: bytes) -> None:
    """Put a small object, or put it again. Raises :class:`OSError`."""
    import obstore

    with _at(address) as (store, key):
        obstore.put(store, key, content)


def put_if(address: str, content: bytes, before: Note | None) -> bool:
    """Put a small object if it is still as it was, or if there is still none. Returns whether it is there now: of several who try
    at once, one wins. Raises :class:`OSError`."""
    import obstore

    mode: Any = "create" if before is None else before.version
    lost = False
    with _at(address) as (store, key):
        try:
            obstore.put(store, key, content, mode=mode)
        except Exception as error:
            if type(error).__name__ not in ("AlreadyExistsError", "PreconditionError"):
                raise
            lost = True
    if not lost:
        return True
    there = read_note(address)  # the answer to our own request may have been lost, and it was sent again
    return there is not None and there.content == content


def in_parallel(do: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> None:
    """Do something for each of some arguments, several at once. Raises the first error, when nothing goes on any more."""
    if len(arguments) == 1:
        do(*arguments[0])
        return
    calls = [threads(os.getpid()).submit(do, *one) for one in arguments]
    wait(calls)
    for call in calls:
        call.result()
