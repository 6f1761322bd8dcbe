"""Small files of a run, which exist whole or not at all, and writable directories."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tracetypes.errors import RunError

__all__ = ["read_json", "replace_file", "writable", "write_json", "write_lines", "write_synced"]


def writable(directory: Path) -> None:
    """Make a directory. Raises :class:`RunError` ``TT209`` if it cannot be written."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / f"._tracetypes-{uuid.uuid4().hex}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        file = next((one for one in (directory, *directory.parents) if one.is_file()), None)
        if file is not None:
            raise RunError(
                "TT209", f"{directory} cannot be written: {file} is a file", fix="give the name of a directory"
            ) from error
        raise RunError(
            "TT209",
            f"{directory} cannot be written: {error.strerror or error}",
            fix="give a directory you may write to",
        ) from error


def read_json(path: Path) -> Any:
    """The content that :func:`write_json` wrote, None if there is no file. Raises :class:`RunError` ``TT225`` for
    anything else."""
    try:
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict):
            raise ValueError("it holds no object")
        return content
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RunError(
            "TT225",
            f"{path} is not what the run wrote there: {error}",
            fix="restore the checkpoint from a copy, or start anew with another --checkpoint and output",
        ) from error


def write_json(path: Path, content: Any) -> None:
    """Write a small file so that it exists whole or not at all, also after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, json.dumps(content))


def replace_file(path: Path, text: str) -> None:
    """Write a small file likewise, into a directory that is there."""
    temporary = os.path.join(path.parent, f".{path.name}.{uuid.uuid4().hex}")
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines so that the file exists whole or not at all, also after a power cut."""
    hidden = path.with_name(f".{path.name}")
    write_synced(hidden, lines)
    os.replace(hidden, path)


def write_synced(path: Path, lines: Iterable[str]) -> None:
    """Write lines, and return when they are on the disk."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())
