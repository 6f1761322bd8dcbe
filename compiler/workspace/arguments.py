"""The arguments of calls of a workspace: what is refused before anything starts, and addresses as the process sees them."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tracetypes.compiler.connectors.registry import connector_of
from tracetypes.compiler.store.overlap import refuse_overlaps
from tracetypes.compiler.workspace.new_flows import Start
from tracetypes.errors import UsageError

__all__ = [
    "addresses_of",
    "delete_outputs",
    "is_no_output",
    "need_all",
    "need_name",
    "need_space",
    "refuse_overlapping",
    "start_of",
    "time_of",
]

EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def need_name(name: Any) -> None:
    """Raises :class:`UsageError` ``TT402`` for what is no name of a flow."""
    is_plain = isinstance(name, str) and name and all(c.isalnum() or c in "-_." for c in name)
    if not is_plain:
        raise UsageError("TT402", f"the name of a flow is {name!r}", fix="give letters, digits, '-', '_' and '.'")


def start_of(start: Any) -> Start:
    """Where a flow begins, from what a user writes."""
    if start in ("now", "earliest"):
        begins: Start = start
        return begins
    if not isinstance(start, dt.datetime) or start.tzinfo is None:
        raise UsageError("TT402", f"start is {start!r}", fix="give 'now', 'earliest', or a datetime with a time zone")
    return (start - EPOCH) // dt.timedelta(microseconds=1)


def time_of(marker: int) -> dt.datetime:
    """A marker (microseconds) as a time."""
    return EPOCH + dt.timedelta(microseconds=marker)


def addresses_of(what: str, addresses: Mapping[str, Any]) -> dict[str, str]:
    """Absolute addresses. ``what``: source or sink. Refuses lists and the terminal."""
    absolute: dict[str, str] = {}
    for name, one in addresses.items():
        if not isinstance(one, str | os.PathLike) or one == "-":
            raise UsageError(
                "TT402", f"{what} {name!r} has {one!r:.60}, which ends with this process", fix="give a path or an address"
            )
        address = os.fspath(one)
        absolute[name] = connector_of(address).absolute(address)
    return absolute


def need_all(what: str, there: set[str], addresses: Mapping[str, str], word: str) -> None:
    """Each source or sink has an address, and each address one of these. ``word``: of the parameter."""
    for name in sorted(addresses.keys() - there):
        raise UsageError("TT402", f"there is no {what} {name!r}", fix=f"the {what}s are {', '.join(sorted(there))}")
    for name in sorted(there - addresses.keys()):
        raise UsageError("TT402", f"{what} {name!r} has no address", fix=f'give {word}={{"{name}": ...}}')


def need_space(path: Path, floor: int) -> None:
    """Raises :class:`UsageError` ``TT402`` if the disk has too little room. ``path``: of the workspace; ``floor``: in bytes."""
    if (free := shutil.disk_usage(path).free) < floor:
        raise UsageError(
            "TT402",
            f"the disk of the workspace has {free:,} bytes left, and no flow is taken below {floor:,}",
            fix="make room, remove flows, or give a smaller floor",
        )


def refuse_overlapping(inputs: Mapping[str, str], outputs: Mapping[str, str], path: Path) -> None:
    """Nothing that is written is read; inputs that should be there are. ``path``: of the workspace."""
    written = {f"the output of sink {name!r}": one for name, one in outputs.items() if one != "noop:"}
    refuse_overlaps(inputs, {**written, "the workspace": str(path)})
    for source, address in inputs.items():
        connector_of(address).look_for(source, address)


def is_no_output(address: str) -> bool:
    """Whether an address is that of a directory in which nothing is."""
    return connector_of(address).is_directory and not (os.path.isdir(address) and os.listdir(address))


def delete_outputs(paths: Iterable[str], *, but: Collection[str] = ()) -> None:
    """Delete those that are directories. ``but``: those that somebody writes."""
    for path in paths:
        if path not in but and connector_of(path).is_directory:
            shutil.rmtree(path, ignore_errors=True)
