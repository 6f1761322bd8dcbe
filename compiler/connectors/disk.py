"""Files on a local or mounted disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, Final

from tracetypes.compiler.connectors.file_system import BLOCK, FileState
from tracetypes.compiler.connectors.folders import is_hidden
from tracetypes.errors import RunError
from tracetypes.records import is_utf8

__all__ = ["BLOCK", "Disk", "hidden_file", "readable_name"]


class Disk:
    """See :class:`FileSystem`."""

    rest, appends = 0.0, True

    def look_for(self, source: str, path: str) -> None:
        """See :class:`FileSystem`."""
        local = Path(path)
        if not local.exists():
            raise RunError(
                "TT208",
                f"source {source!r}: {path} does not exist",
                fix=f"give an existing file or directory: --input {source}=PATH",
            )
        if local.is_file():
            if is_hidden(local.name, folder=False):
                raise hidden_file(source, local.name)
            if not os.access(local, os.R_OK):
                raise RunError("TT208", f"{path} cannot be read", fix="change its permissions")

    def walk(self, path: str) -> Iterator[tuple[str, FileState]]:
        """See :class:`FileSystem`."""
        root = os.path.abspath(path)
        if not os.path.isdir(root):
            if (state := self.state(root)) is not None:
                yield root, state
            return
        entered: set[tuple[int, int]] = set()
        for directory, below, files in os.walk(root, followlinks=True):
            place = _stat(directory)
            if place is None or (place.st_dev, place.st_ino) in entered:
                below.clear()
                continue
            entered.add((place.st_dev, place.st_ino))
            below[:] = sorted(name for name in below if not is_hidden(name, folder=True))
            for name in sorted(files):
                stat = None if is_hidden(name, folder=False) else _stat(os.path.join(directory, name))
                if stat is not None and S_ISREG(stat.st_mode):
                    yield readable_name(os.path.join(directory, name)), FileState(stat.st_size, stat.st_mtime_ns)

    def state(self, path: str) -> FileState | None:
        """See :class:`FileSystem`."""
        stat = _stat(path)
        return None if stat is None else FileState(stat.st_size, stat.st_mtime_ns)

    def expect(self, path: str, state: FileState) -> None:
        """The system reads ahead by itself."""

    def open(self, path: str, state: FileState | None) -> BinaryIO:
        """See :class:`FileSystem`."""
        return open(path, "rb", buffering=0)

    def blocks(self, path: str, start: int, end: int, state: FileState | None) -> Iterator[bytes]:
        """See :class:`FileSystem`."""
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while start < end:
                block = os.pread(file, min(BLOCK, end - start), start)
                if not block:
                    raise EOFError(f"it ends at byte {start:,}, and {end:,} are expected")
                start += len(block)
                yield block
        finally:
            os.close(file)


def readable_name(path: str) -> str:
    """The path itself. Raises :class:`RunError` ``TT208`` if it is not UTF-8: it could not be written down."""
    if is_utf8(path):
        return path
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")
    raise RunError("TT208", f"{shown} cannot be read: its name is not UTF-8", fix="rename it")


def hidden_file(source: str, name: str) -> RunError:
    """The error for an input that is a file with a hidden name."""
    return RunError(
        "TT208",
        f"source {source!r}: no file is read whose name begins with '_' or '.', as that of {name!r}",
        fix="rename it: no leading '_' or '.'",
    )


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        fix = _FIXES.get(error.errno or 0, "see the cause")
        raise RunError("TT208", f"{path} cannot be read: {error.strerror}", fix=fix) from error


_FIXES: Final = {
    errno.EACCES: "change its permissions",
    errno.EPERM: "change its permissions",
    errno.ELOOP: "remove the symbolic link, which leads to itself",
}
