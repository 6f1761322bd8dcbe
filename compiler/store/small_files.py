"""Small files of a run, which exist whole or not at all, and writable directories."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tracetypes.compiler.wire.seals import seal, unseal
from tracetypes.errors import RunError

__all__ = ["apart", "damaged", "read_json", "read_own", "replace_file", "writable", "write_json", "write_lines", "write_synced"]


AGAIN: Final = "put back a copy of the checkpoint and of the output of the same moment, or start anew with another one of each"


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


def read_json(path: Path) -> dict[str, Any] | None:
    """The content that :func:`write_json` wrote, None if there is no file. Raises :class:`RunError` ``TT225`` for
    anything else."""
    try:
        return unseal(path.read_bytes(), path.name)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error


def read_own(path: Path, run: str) -> dict[str, Any] | None:
    """A content without the name of its run. Raises :class:`RunError` ``TT225``, and ``TT227`` for one of another run."""
    content = read_json(path)
    if content is not None and (found := content.pop("run", None)) != run:
        raise apart(path, f"it is of run {found}, and this is run {run}", "What it says is of other rows")
    return content


def damaged(path: Path | str, why: object, lost: str = "") -> RunError:
    """The error for a record of a checkpoint that is not what the run wrote. ``lost``: what it held."""
    return RunError(
        "TT225",
        f"{path} is not what the run wrote there: {why}" + (f". It holds {lost}" if lost else ""),
        fix=f"{AGAIN}; a damaged checkpoint goes on with nothing",
    )


def apart(path: Path, what: str, lost: str) -> RunError:
    """The error for records that do not belong together. ``lost``: what would be lost or come twice."""
    return RunError("TT227", f"{path} does not belong to the rest of the run: {what}. {lost}", fix=AGAIN)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a small file so that it exists whole or not at all, also after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, seal(content, path.name))


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
