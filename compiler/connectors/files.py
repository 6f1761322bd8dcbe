"""The files of a source."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePath
from stat import S_ISREG
from typing import Any, Final, Literal, TypeAlias, get_args

from tracetypes.compiler.connectors.folders import is_hidden
from tracetypes.errors import RunError
from tracetypes.records import is_utf8

__all__ = ["ORDERS", "Order", "by_name", "files_of", "is_there", "readable_name", "stat_of", "walk"]

Order: TypeAlias = Literal["name", "modified", "time"]
"""In which order files are read that are found together: by name, modification time, or the least event time in them."""

ORDERS: Final[tuple[Order, ...]] = get_args(Order)


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


def readable_name(path: str) -> str:
    """The path itself. Raises :class:`RunError` ``TT208`` if it is not UTF-8: it could not be written down."""
    if is_utf8(path):
        return path
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")
    raise RunError("TT208", f"{shown} cannot be read: its name is not UTF-8", fix="rename it")


def is_there(source: str, path: str) -> None:
    """Raises :class:`RunError` ``TT208`` if a source has no such file or directory."""
    local = Path(path)
    if not local.exists():
        raise RunError(
            "TT208",
            f"source {source!r}: {path} does not exist",
            fix=f"give an existing file or directory: --input {source}=PATH",
        )
    if local.is_file():
        if is_hidden(local.name, folder=False):
            raise RunError(
                "TT208",
                f"source {source!r}: no file is read whose name begins with '_' or '.', as that of {local.name!r}",
                fix="rename it: no leading '_' or '.'",
            )
        if not os.access(local, os.R_OK):
            raise RunError("TT208", f"{path} cannot be read", fix="change its permissions")


def files_of(source: str, path: str) -> list[str]:
    """The local files of a source, sorted by time. Raises :class:`RunError` ``TT208`` if there is no such place."""
    if "://" in path:
        return [path]
    is_there(source, path)
    found = sorted((stat.st_mtime_ns, name) for name, stat in walk(path))
    return [name for _, name in found]


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
