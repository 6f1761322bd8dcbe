"""Backups of a workspace: all that it needs to go on, and the outputs that belong to it.

::

    BACKUP/backup.json     the backend, where the workspace was, and the addresses of the outputs, in the order of their copies.
                           It is written last
    BACKUP/workspace/      the directory of the workspace
    BACKUP/outputs/0/      an output directory

The states of a workspace and its outputs belong together: with states that are older than an output, rows would come twice. So
both are in a backup, and both are restored. Files of an output are never changed in their place, so a backup on the same disk
shares them with it, and costs no space until it is the only one that has them. Topics and tables are not copied.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs

from tracetypes.compiler.backend.backend import Engine
from tracetypes.compiler.connectors.registry import connector_of
from tracetypes.compiler.store.locks import Locks
from tracetypes.compiler.store.small_files import read_json, write_json
from tracetypes.compiler.workspace.database import WorkspaceDatabase
from tracetypes.compiler.workspace.drain_copies import drained_outputs
from tracetypes.errors import RunError, UsageError

__all__ = ["DATABASE", "Backup", "make_backup", "need_empty", "writing"]

DATABASE: Final = "workspace.db"
LOCKS: Final = "_lock"
_ENDS: Final = ("inputs", "outputs")


def make_backup(folder: Path, database: WorkspaceDatabase, target: Path, backend: str) -> int:
    """Copy a workspace of which nothing runs. ``backend``: its name. ``target``: a directory that is not there yet, or is empty.
    Returns how many outputs are in the backup. Raises :class:`UsageError` ``TT402``, and :class:`RunError` ``TT209`` if it
    cannot be written: then nothing is left of it."""
    need_empty(target, "the backup")
    addresses = {one for each in database.submissions().values() for what in _ENDS for one in each.plain[what].values()}
    for place in sorted({str(folder)} | {one for one in addresses if connector_of(one).is_directory}):
        if os.path.realpath(target).startswith(os.path.realpath(place) + os.sep):
            raise UsageError("TT402", f"the backup {target} lies in {place}", fix="give a directory of its own")
    outputs = {one for each in database.submissions().values() for one in each.plain["outputs"].values()}
    outputs |= {one for each in drained_outputs(folder) for one in each.values()}
    copies = sorted(one for one in outputs if connector_of(one).is_directory)
    with writing(target):
        (target / "outputs").mkdir(parents=True)
        shutil.copytree(folder, target / "workspace", ignore=shutil.ignore_patterns(LOCKS, f"{DATABASE}*"))
        database.back_up(target / "workspace" / DATABASE)
        for copy in folder.glob(f"draining/*/{DATABASE}"):
            inner = WorkspaceDatabase(copy, backend)
            try:
                inner.back_up(target / "workspace" / copy.relative_to(folder))
            finally:
                inner.close()
        for number, output in enumerate(copies):
            _copy_output(Path(output), target / "outputs" / str(number))
        write_json(target / "backup.json", {"backend": backend, "folder": str(folder), "outputs": copies})
    return len(copies)


@attrs.frozen
class Backup:
    """A backup of a workspace that is there. ``about``: what its ``backup.json`` says."""

    path: Path
    about: Mapping[str, Any]

    @classmethod
    def of(cls, path: Path) -> Backup:
        """The backup in a directory. Raises :class:`UsageError` ``TT402`` if there is none, or only a part of one."""
        about = read_json(path / "backup.json") if path.is_dir() else None
        if about is None:
            fix = "give a directory that backup has written"
            raise UsageError("TT402", f"{path} is no whole backup of a workspace", fix=fix)
        return cls(path, about)

    @property
    def outputs(self) -> list[Path]:
        """The directories of the outputs that are in it."""
        return [Path(one) for one in self.about["outputs"]]

    def need_room(self, folder: Path) -> None:
        """Raises :class:`UsageError` ``TT402`` if something is in the place of what it restores."""
        for what, place in [("the workspace", folder), *(("the output", one) for one in self.outputs)]:
            need_empty(place, what)

    def restore(self, folder: Path, engine: Callable[[str], Engine]) -> None:
        """Put a workspace and its outputs back, so that it can be opened. ``folder``: of the workspace, which may be another one
        than before. The outputs have the addresses that they had. ``engine``: of a backend, by its name. Raises
        :class:`UsageError` ``TT402`` if something is in the place of what it restores: then nothing is changed."""
        self.need_room(folder)
        with Locks() as locks:
            locks.take(folder, "the workspace")
            for number, output in enumerate(self.outputs):
                if (copy := self.path / "outputs" / str(number)).is_dir():
                    _copy_output(copy, output)
            saved = self.path / "workspace"
            shutil.copytree(saved, folder, ignore=_ignore_database_of(saved), dirs_exist_ok=True)
            backend = engine(self.about["backend"])
            for checkpoint in [*folder.glob("segments/*"), *folder.glob("draining/*/segments/*")]:
                backend.log(checkpoint).moved(Path(self.about["folder"]), folder)
            shutil.copy2(saved / DATABASE, folder / DATABASE)  # last: without it nothing runs


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """While a backup is written. If that fails, nothing is left of it, and an error of the system is ``TT209``."""
    try:
        yield
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        raise RunError(
            "TT209", f"the backup {target} cannot be written: {error}", fix="make room there, or give another directory"
        ) from error
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def need_empty(place: Path, what: str) -> None:
    """Raises :class:`UsageError` ``TT402`` if something is there. ``what``: for people."""
    if place.exists() and (not place.is_dir() or any(one.name != LOCKS for one in place.iterdir())):
        raise UsageError("TT402", f"{what} {place} is there already", fix="move it away, or give another directory")


def _ignore_database_of(workspace: Path) -> Callable[[str, list[str]], list[str]]:
    return lambda place, names: [DATABASE] if Path(place) == workspace and DATABASE in names else []


def _copy_output(output: Path, target: Path) -> None:
    if output.is_dir():
        shutil.copytree(
            output, target, copy_function=_linked, ignore=shutil.ignore_patterns(LOCKS), symlinks=True, dirs_exist_ok=True
        )


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)
