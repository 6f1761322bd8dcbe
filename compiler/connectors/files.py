"""The files of a source."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePath
from typing import Any, Final, Literal, TypeAlias, get_args

from tracetypes.compiler.connectors.folders import is_hidden
from tracetypes.errors import RunError
from tracetypes.records import is_utf8

__all__ = ["ORDERS", "Order", "by_name", "files_of", "readable_name"]

Order: TypeAlias = Literal["name", "modified", "time"]
"""In which order files are read that are found together: by name, modification time, or the least event time in them."""

ORDERS: Final[tuple[Order, ...]] = get_args(Order)


def by_name(path: str) -> Any:
    """What sorts paths as people do: a directory after the other, and numbers in names as numbers (``part-2``, ``part-10``)."""
    parts = (re.findall("[0-9]+|[^0-9]", part) for part in PurePath(path).parts)
    return [[(ord("0"), int(some)) if some[0] in "0123456789" else (ord(some), 0) for some in part] for part in parts], path


def readable_name(path: str) -> str:
    """The path itself. Raises :class:`RunError` ``TT208`` if it is not UTF-8: it could not be written down."""
    if is_utf8(path):
        return path
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")
    raise RunError("TT208", f"{shown} cannot be read: its name is not UTF-8", fix="rename it")


def files_of(source: str, path: str) -> list[str]:
    """The local files of a source, sorted by time. Raises :class:`RunError` ``TT208`` if there are none."""
    if "://" in path:
        return [path]
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
        return [str(local)]
    files = [
        p
        for p in local.rglob("*")
        if p.is_file() and not is_hidden(p.name, folder=False) and not _lies_hidden(p.relative_to(local))
    ]
    return [readable_name(str(p)) for p in sorted(files, key=lambda p: (p.stat().st_mtime_ns, str(p)))]


def _lies_hidden(path: Path) -> bool:
    return any(is_hidden(folder, folder=True) for folder in path.parts[:-1])
