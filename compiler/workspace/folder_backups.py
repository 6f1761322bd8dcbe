"""Backups of a folder in which nothing runs: of a workspace, or of a service with its workspaces.

::

    BACKUP/service.json      of a service: its folder, and its workspaces in the order of their backups. It is written last
    BACKUP/private/          tokens, flows with their owners, the audit log
    BACKUP/workspaces/0/     a backup of a workspace (:mod:`.backups`)

What the administrator writes is not in it: the registry, its modules, and inputs.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import attrs

from tracetypes.compiler.store.locks import Locks
from tracetypes.compiler.store.small_files import read_json, write_json
from tracetypes.compiler.workspace.backups import DATABASE, Backup, make_backup, need_empty, writing
from tracetypes.compiler.workspace.database import WorkspaceDatabase
from tracetypes.compiler.workspace.engines import engine_named
from tracetypes.errors import UsageError

__all__ = ["Saved", "back_up_folder", "restore_folder"]

ACCOUNTS: Final = "service.db"
_PRIVATE: Final = "private"
_HOMES: Final = ("shared", "owners")


@attrs.frozen
class Saved:
    """What is in a backup: so many workspaces and directories of outputs."""

    workspaces: int
    outputs: int


def back_up_folder(folder: Path, target: Path) -> Saved:
    """Write a backup of a workspace, or of a service, of which nothing runs. ``target``: a directory that is not there yet.
    Raises :class:`UsageError` ``TT402`` if the folder is neither, :class:`RunError` ``TT221`` if a process has it open, and
    what :func:`make_backup` raises; then nothing is left of the backup."""
    folder, target = Path(os.path.abspath(folder)), Path(os.path.abspath(target))
    with Locks() as locks:
        if (folder / DATABASE).is_file():
            return Saved(1, _back_up_workspace(folder, target, locks))
        if not (folder / _PRIVATE / ACCOUNTS).is_file():
            fix = "give the directory of a workspace, or the folder of a service"
            raise UsageError("TT402", f"{folder} is no workspace and no service", fix=fix)
        need_empty(target, "the backup")
        for inner in (_PRIVATE, *_HOMES):
            if os.path.realpath(target).startswith(os.path.realpath(folder / inner) + os.sep):
                raise UsageError("TT402", f"the backup {target} lies in {folder / inner}", fix="give a directory of its own")
        locks.take(folder / _PRIVATE, "the service")
        paths = [folder / "shared" / "workspace", *sorted((folder / "owners").glob("*/workspace"))]
        paths = [one for one in paths if (one / DATABASE).is_file()]
        outputs = 0
        with writing(target):
            private = target / _PRIVATE
            shutil.copytree(folder / _PRIVATE, private, ignore=shutil.ignore_patterns("_lock", f"{ACCOUNTS}*"))
            copy = sqlite3.connect(private / ACCOUNTS)
            with closing(copy), closing(sqlite3.connect(folder / _PRIVATE / ACCOUNTS)) as accounts:
                accounts.backup(copy)
            for number, path in enumerate(paths):
                outputs += _back_up_workspace(path, target / "workspaces" / str(number), locks)
            about = {"folder": str(folder), "workspaces": [str(one.relative_to(folder)) for one in paths]}
            write_json(target / "service.json", about)
        return Saved(len(paths), outputs)


def restore_folder(backup: Path, folder: Path) -> Saved:
    """Put back what is in a backup. A workspace may lie elsewhere than before. A service lies where it was, because its outputs
    do. Raises :class:`UsageError` ``TT402`` if it is no whole backup, or if something is in the place of what it restores: then
    nothing is changed."""
    backup, folder = Path(os.path.abspath(backup)), Path(os.path.abspath(folder))
    about = read_json(backup / "service.json") if backup.is_dir() else None
    if about is None:
        one = Backup.of(backup)
        one.restore(folder, engine_named)
        return Saved(1, len(one.outputs))
    if about["folder"] != str(folder):
        fix = f"restore it there: tracetypes workspace restore {backup} {about['folder']}"
        raise UsageError("TT402", f"{backup} is a backup of the service in {about['folder']}, where its outputs are", fix=fix)
    for inner in (_PRIVATE, *_HOMES):
        need_empty(folder / inner, "the service")
    saved = {folder / path: Backup.of(backup / "workspaces" / str(number)) for number, path in enumerate(about["workspaces"])}
    for path, one in saved.items():
        one.need_room(path)
    (folder / _PRIVATE).mkdir(mode=0o700, parents=True, exist_ok=True)
    with Locks() as locks:
        locks.take(folder / _PRIVATE, "the service")
        for path, one in saved.items():
            one.restore(path, engine_named)
        shutil.copytree(backup / _PRIVATE, folder / _PRIVATE, dirs_exist_ok=True)
    return Saved(len(saved), sum(len(one.outputs) for one in saved.values()))


def _back_up_workspace(folder: Path, target: Path, locks: Locks) -> int:
    locks.take(folder, "the workspace")
    database = WorkspaceDatabase.of(folder / DATABASE)
    try:
        return make_backup(folder, database, target, database.backend)
    finally:
        database.close()
