"""Small files of a run, which exist whole or not at all, and writable directories."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tracetypes.compiler.connectors.store_errors import StoreError
from tracetypes.compiler.store.places import Place, probe, replace
from tracetypes.compiler.wire.seals import seal, unseal
from tracetypes.errors import RunError

__all__ = [
    "NO_SPACE",
    "apart",
    "damaged",
    "read_json",
    "read_own",
    "unreachable",
    "unwritable",
    "writable",
    "write_json",
    "write_lines",
]


NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The disk is full, or the user's part of it."""

AGAIN: Final = "put back a copy of the checkpoint and of the output of the same moment, or start anew with another one of each"


def writable(directory: Place) -> None:
    """Make a directory. Raises :class:`RunError` ``TT209`` if it cannot be written."""
    try:
        probe(directory)
    except StoreError as error:
        raise unreachable(directory, error) from None
    except OSError as error:
        parents = (directory, *directory.parents) if isinstance(directory, Path) else ()
        file = next((one for one in parents if one.is_file()), None)
        if file is not None:
            raise RunError(
                "TT209", f"{directory} cannot be written: {file} is a file", fix="give the name of a directory"
            ) from error
        raise unwritable(directory, error) from error


def unwritable(place: Place, error: OSError) -> RunError:
    """The error for a place that cannot be written. A disk that is full is not a place that is wrong."""
    is_full = error.errno in NO_SPACE
    fix = "free some space there, and run again to go on" if is_full else "give a directory you may write to"
    return RunError("TT209", f"{place} cannot be written: {error.strerror or error}", fix=fix)


def unreachable(path: Place, error: OSError) -> RunError:
    """The error for a store that refuses or does not answer."""
    return RunError("TT209", f"{path} cannot be reached: {error}", fix="see the cause, then run again to go on")


def read_json(path: Place) -> dict[str, Any] | None:
    """The content that :func:`write_json` wrote, None if there is no file. Raises :class:`RunError` ``TT225`` for
    anything else."""
    try:
        return unseal(path.read_bytes(), path.name)
    except FileNotFoundError:
        return None
    except StoreError as error:
        raise unreachable(path, error) from None
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error


def read_own(path: Place, run: str) -> dict[str, Any] | None:
    """A content without the name of its run. Raises :class:`RunError` ``TT225``, and ``TT227`` for one of another run."""
    content = read_json(path)
    if content is not None and (found := content.pop("run", None)) != run:
        raise apart(path, f"it is of run {found}, and this is run {run}", "What it says is of other rows")
    return content


def damaged(path: Place | str, why: object, lost: str = "") -> RunError:
    """The error for a record of a checkpoint that is not what the run wrote. ``lost``: what it held."""
    return RunError(
        "TT225",
        f"{path} is not what the run wrote there: {why}" + (f". It holds {lost}" if lost else ""),
        fix=f"{AGAIN}; a damaged checkpoint goes on with nothing",
    )


def apart(path: Place, what: str, lost: str) -> RunError:
    """The error for records that do not belong together. ``lost``: what would be lost or come twice."""
    return RunError("TT227", f"{path} does not belong to the rest of the run: {what}. {lost}", fix=AGAIN)


def write_json(path: Place, content: dict[str, Any]) -> None:
    """Write a small file so that it exists whole or not at all, also after a power cut."""
    replace(path, seal(content, path.name).encode(), above=True)


def write_lines(path: Place, lines: Iterable[str]) -> None:
    """Write lines so that the file exists whole or not at all, also after a power cut."""
    replace(path, "".join(f"{line}\n" for line in lines).encode())
