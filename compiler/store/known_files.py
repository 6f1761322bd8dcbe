"""Files as a run has read them, and as they are now."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from stat import S_ISREG
from typing import Any, Final

import attrs

from tracetypes.compiler.connectors.file_splits import Split, proof, size_and_time
from tracetypes.compiler.connectors.files import readable_name
from tracetypes.compiler.connectors.folders import is_hidden
from tracetypes.errors import RunError

__all__ = ["KnownFile", "coverage", "looks", "lost_input", "stat_of", "walk"]


@attrs.define
class KnownFile:
    """A file that was read, with its size and time then. ``parts`` as in a split. ``splits``: start, end and hash of
    each."""

    size: int
    time: int
    parts: int
    splits: list[tuple[int, int, str]]

    def is_in(self, path: str, most: int | None = None) -> bool:
        """Whether a file still has what was read. ``most``: compare only this many of the last splits."""
        some = self.splits[:1] if self.parts else self.splits if most is None else self.splits[-most:]
        try:
            return all(proof(path, self.parts, start, end) == hash for start, end, hash in some)
        except (OSError, EOFError):
            return False

    def begins(self, path: str, *, proved: bool) -> bool:
        """Whether a longer file begins with what was read. A run compares all of it once, and once that is ``proved``
        only the last splits. It joins splits of equal size, so that few are kept, and reads a growing file again
        only as often as the logarithm of its size."""
        sizes = [end - start for start, end, _ in self.splits]
        most = 1
        while most < len(sizes) and sizes[-most - 1] <= sum(sizes[-most:]):
            most += 1
        if not self.is_in(path, most if proved else None):
            return False
        if most > 1:
            start, end = self.splits[-most][0], self.splits[-1][1]
            self.splits[-most:] = [(start, end, proof(path, 0, start, end))]
        return True


def lost_input(split: Split, stat: os.stat_result | None, path: str) -> RunError:
    """The error for visible rows that cannot be computed again."""
    now = "is gone" if stat is None else f"has changed: it is {size_and_time(stat.st_size, stat.st_mtime_ns)}"
    return RunError(
        "TT231",
        f"a micro-batch ended before it was committed, and cannot be computed again: {path}, and its input {split.path}, "
        f"{size_and_time(split.size, split.changed)}, {now}. Nothing was taken back",
        fix="put the file back as it was, with its time, and run again; or start anew with another --checkpoint and output",
    )


def walk(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """A file, or all files below a directory, each once: with its place and the system's data about it."""
    root = os.path.abspath(path)
    if not os.path.isdir(root):
        stat = stat_of(root)
        if stat is not None:
            yield root, stat
        return
    entered: set[tuple[int, int]] = set()
    for directory, below, files in os.walk(root, followlinks=True):
        place = stat_of(directory)
        if place is None or (place.st_dev, place.st_ino) in entered:
            below.clear()
            continue
        entered.add((place.st_dev, place.st_ino))
        below[:] = sorted(name for name in below if not is_hidden(name, folder=True))
        for name in sorted(files):
            stat = None if is_hidden(name, folder=False) else stat_of(os.path.join(directory, name))
            if stat is not None and S_ISREG(stat.st_mode):
                yield readable_name(os.path.join(directory, name)), stat


def stat_of(path: str) -> os.stat_result | None:
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


def looks(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_size, stat.st_mtime_ns


def coverage(splits: Sequence[Split]) -> tuple[Any, ...]:
    """The part of a file that some splits of it read."""
    return {(one.size, one.changed, one.grows) for one in splits}, max((one.end for one in splits), default=0)

