"""One run at a time on a checkpoint and on an output directory: locks of the operating system, which end with their process.

::

    DIRECTORY/_lock/run      locked by the driver (``flock``); says who holds it: host, process, Java process
    DIRECTORY/_lock/java     locked by the driver's Java process (``fcntl``), while its queries may write

A driver that is killed loses its lock at once. Its Java process may live on for a moment and write what was under way, so it
holds a lock of its own, and the next run waits until that is gone. The files stay: to remove them would let two runs lock two
files of one name.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeAlias

import attrs

from tracetypes.compiler.store.places import Place
from tracetypes.compiler.store.small_files import unwritable, writable
from tracetypes.errors import RunError

__all__ = ["JavaLock", "Locks"]

PATIENCE = 20.0
"""Seconds for the Java process of a killed run to end."""

JavaLock: TypeAlias = Callable[[Path], Callable[[], None] | None]
"""Locks a file in the Java process and returns what releases it; None when another process has locked it."""


@attrs.define
class _Lock:
    what: str
    home: Path
    file: IO[str]
    release: Callable[[], None] | None = None


class Locks:
    """The locks of a run; they are released when the run ends, and by the system when its processes end."""

    def __init__(self) -> None:
        self.locks: dict[Path, _Lock] = {}
        self.java: tuple[JavaLock, int | None] | None = None

    def __enter__(self) -> Locks:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for lock in self.locks.values():
            if lock.release is not None:
                lock.release()
            with suppress(OSError):  # the disk was full when the run said who it is
                lock.file.close()
        self.locks.clear()

    def take(self, directory: Place, what: str) -> None:
        """Lock a directory, which is made if need be, unless this run has it. On a store there are no locks: a start takes over.
        Raises :class:`RunError` ``TT221`` when another run has it, ``TT209`` where it cannot be locked."""
        if not isinstance(directory, Path):
            return
        place = directory.resolve()
        if place in self.locks:
            return
        writable(place)
        home = place / "_lock"
        writable(home)
        file = (home / "run").open("a+")
        try:
            _flock(file, what, place)
            _wait_for_java(home, what)
        except BaseException:
            file.close()
            raise
        lock = self.locks[place] = _Lock(what, home, file)
        _describe(lock, None)
        if self.java is not None:
            _share(lock, *self.java)

    def release(self, directory: Place) -> None:
        """Release the lock of a directory, if this run has it."""
        if not isinstance(directory, Path):
            return
        lock = self.locks.pop(directory.resolve(), None)
        if lock is not None:
            if lock.release is not None:
                lock.release()
            lock.file.close()

    def share(self, java: JavaLock, process: int | None) -> None:
        """Have the Java process hold all locks too, those that are to come as well. Raises :class:`RunError` ``TT221``."""
        self.java = java, process
        for lock in self.locks.values():
            if lock.release is None:
                _share(lock, java, process)


def _flock(file: IO[str], what: str, place: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _in_use(what, place, _holder(place / "_lock")) from error
    except OSError as error:
        raise RunError(
            "TT209",
            f"{what} {place} cannot be locked: {error.strerror or error}",
            fix="give a directory on a file system with locks: a local disk, or NFS with its lock service",
        ) from error


def _wait_for_java(home: Path, what: str) -> None:
    """Wait until no Java process of a killed run holds the directory; nobody else asks, for the driver's lock is ours."""
    until = time.monotonic() + PATIENCE
    with (home / "java").open("a+") as file:
        while True:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError) as error:
                if time.monotonic() > until:
                    raise _in_use(what, home.parent, _holder(home), orphan=True) from error
                time.sleep(0.1)
            else:
                return


def _share(lock: _Lock, java: JavaLock, process: int | None) -> None:
    lock.release = java(lock.home / "java")
    if lock.release is None:
        raise _in_use(lock.what, lock.home.parent, {})
    _describe(lock, process)


def _describe(lock: _Lock, java: int | None) -> None:
    try:
        lock.file.truncate(0)
        lock.file.write(json.dumps({"host": socket.gethostname(), "process": os.getpid(), "java": java}) + "\n")
        lock.file.flush()
    except OSError as error:
        raise unwritable(lock.home, error) from error


def _holder(home: Path) -> dict[str, Any]:
    """Who holds a lock. It says so right after it has it."""
    for _ in range(20):
        with suppress(OSError, ValueError):
            about: dict[str, Any] = json.loads((home / "run").read_text())
            return about
        time.sleep(0.05)
    return {}


def _in_use(what: str, place: Path, holder: dict[str, Any], *, orphan: bool = False) -> RunError:
    process, host = holder.get("process", "of unknown number"), holder.get("host", "an unknown host")
    if orphan:
        java = holder.get("java") or "of unknown number"
        return RunError(
            "TT221",
            f"{what} {place} is still in use by Java process {java} on {host}, whose run, process {process}, has ended",
            fix=f"wait until it has ended, or kill process {java}",
        )
    return RunError(
        "TT221",
        f"{what} {place} is in use by another run, process {process} on {host}",
        fix="wait until that run has ended or stop it; two runs need a checkpoint and an output each",
    )
