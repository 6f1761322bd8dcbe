"""What a run needs of a file system: of a disk, or of an object store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Protocol

__all__ = ["BLOCK", "FileState", "FileSystem"]

BLOCK = 1 << 22
"""Bytes of text that are read at once."""


class FileState(NamedTuple):
    """What tells a file from the same file with other content, without reading it.

    ``modified``: nanoseconds since 1970. ``version``: the tag (etag) that a store gives to each content of an object; empty on a
    disk, and where a store gives none."""

    size: int
    modified: int
    version: str = ""


class FileSystem(Protocol):
    """Files by their whole paths or addresses. Reading raises :class:`OSError` or :class:`EOFError`, all else
    :class:`tracetypes.errors.RunError` ``TT208``."""

    @property
    def rest(self) -> float:
        """Seconds between two looks for new files, at least."""

    @property
    def appends(self) -> bool:
        """Whether somebody may append lines to a file."""

    def look_for(self, source: str, path: str) -> None:
        """Check that a source has such a file or directory."""

    def walk(self, path: str) -> Iterator[tuple[str, FileState]]:
        """A file, or all files below a directory, each once, without those with hidden names."""

    def state(self, path: str) -> FileState | None:
        """The state of a file, None if there is no such file."""

    def expect(self, path: str, state: FileState) -> None:
        """Somebody will soon read a file. ``state``: as it must be."""

    def open(self, path: str, state: FileState | None) -> BinaryIO:
        """A file, which may be read at any place. ``state``: as it must be, if that is known."""

    def blocks(self, path: str, start: int, end: int, state: FileState | None) -> Iterator[bytes]:
        """The bytes of a part of a file, in blocks."""
