"""The files of a source, on a disk or on an object store."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import PurePath
from typing import Any, BinaryIO, Final, Literal, TypeAlias, get_args

from tracetypes.compiler.connectors.disk import Disk
from tracetypes.compiler.connectors.file_system import FileState, FileSystem
from tracetypes.compiler.connectors.object_store import ObjectStore
from tracetypes.compiler.connectors.store_address import is_store

__all__ = [
    "ORDERS",
    "Order",
    "by_name",
    "expect_file",
    "file_system",
    "files_of",
    "is_there",
    "open_file",
    "range_of",
    "state_of",
    "walk",
]

Order: TypeAlias = Literal["name", "modified", "time"]
"""In which order files are read that are found together: by name, modification time, or the least event time in them."""

ORDERS: Final[tuple[Order, ...]] = get_args(Order)

_DISK: Final = Disk()
_STORE: Final = ObjectStore()


def file_system(path: str) -> FileSystem:
    """The file system of a path or an address."""
    return _STORE if is_store(path) else _DISK


def by_name(path: str) -> Any:
    """What sorts paths as people do: a directory after the other, and numbers in names as numbers (``part-2``, ``part-10``)."""
    folder, name = os.path.split(path)
    return (*_parts(folder), _part(name)), path


@lru_cache(maxsize=16)
def _parts(folder: str) -> tuple[tuple[str | int, ...], ...]:
    return tuple(map(_part, PurePath(folder).parts))


def _part(name: str) -> tuple[str | int, ...]:
    """Texts and numbers in turn. The text before a number ends with a digit, as the name does there."""
    texts = _NUMBER.split(name)
    return *(some for at in range(0, len(texts) - 1, 2) for some in (f"{texts[at]}0", int(texts[at + 1]))), texts[-1]


_NUMBER: Final = re.compile("([0-9]+)")


def is_there(source: str, path: str) -> None:
    """Raises :class:`RunError` ``TT208`` if a source has no such file or directory."""
    file_system(path).look_for(source, path)


def files_of(source: str, path: str) -> list[str]:
    """The files of a source, sorted by time. Raises :class:`RunError` ``TT208`` if there is no such place. Those that Spark
    lists are the address alone."""
    if "://" in path and not is_store(path):
        return [path]
    is_there(source, path)
    found = sorted((state.modified, name) for name, state in walk(path))
    return [name for _, name in found]


def walk(path: str) -> Iterator[tuple[str, FileState]]:
    """A file, or all files below a directory, each once: with its place and its state."""
    return file_system(path).walk(path)


def state_of(path: str) -> FileState | None:
    """The state of a file, None if there is none. Raises :class:`RunError` ``TT208``."""
    return file_system(path).state(path)


def expect_file(path: str, state: FileState) -> None:
    """Somebody will soon read a file: what is small and far away is on its way from now on. ``state``: as it must be."""
    file_system(path).expect(path, state)


def open_file(path: str, state: FileState | None = None) -> BinaryIO:
    """A file of bytes, without a buffer. ``state``: as it must be, if that is known. Raises :class:`OSError`."""
    return file_system(path).open(path, state)


def range_of(path: str, start: int, end: int, state: FileState | None = None) -> Iterator[bytes]:
    """The bytes of a part of a file, in blocks. Raises :class:`OSError` or :class:`EOFError`."""
    return file_system(path).blocks(path, start, end, state)
