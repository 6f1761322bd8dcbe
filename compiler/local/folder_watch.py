"""Hears of changes in folders, from Linux (inotify), so that a segment that follows files may sleep until one comes."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

__all__ = ["FOLDERS", "FolderWatch"]

LOCAL: Final = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "f2fs", "jfs", "bcachefs", "vfat", "exfat", "ntfs3"}
)
"""File systems that only this machine writes to. Linux does not say what another machine writes to a mounted one."""


_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


class FolderWatch:
    """Watches folders for any number of segments, on one thread of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inotify: Any = None
        self._folders: dict[int, str] = {}
        """Folders by the number of their watch."""
        self._bells: dict[int, set[threading.Event]] = {}
        """Who hears of a change, by watch."""
        self._deaf: set[threading.Event] = set()
        """Whose changes are not all heard."""

    def watch(self, path: str, bell: threading.Event) -> None:
        """Set an event whenever something changes at a path or below it."""
        with self._lock:
            if "://" in path or not self._start():
                self._deaf.add(bell)
                return
            folder = path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))
            self._add(folder, bell, below=folder == path)

    def hears(self, bell: threading.Event) -> bool:
        """Whether an event is set at every change of what it watches."""
        with self._lock:
            return bell not in self._deaf

    def leave(self, bell: threading.Event) -> None:
        """Watch nothing any more for an event."""
        with self._lock:
            self._deaf.discard(bell)
            for watch in [watch for watch, bells in self._bells.items() if bell in bells]:
                self._bells[watch].discard(bell)
                if not self._bells[watch]:
                    self._forget(watch)
                    with suppress(OSError):  # the folder is gone
                        self._inotify.rm_watch(watch)

    def _start(self) -> bool:
        """Start the thread, if that has not been done. Returns whether it runs."""
        if self._inotify is None:
            try:
                from inotify_simple import INotify

                self._inotify = INotify()
            except (ImportError, OSError, AttributeError):  # not Linux, or without the package, or too many are open
                return False
            threading.Thread(target=self._listen, name="tracetypes folders", daemon=True).start()
        return True

    def _add(self, folder: str, bell: threading.Event, *, below: bool) -> None:
        """Watch a folder, and all below it. With a link to a file, changes of the file are not heard."""
        from inotify_simple import flags

        mask = flags.CREATE | flags.MODIFY | flags.CLOSE_WRITE | flags.MOVED_TO | flags.ATTRIB | flags.ONLYDIR
        devices = set[int]()
        for directory in _folders(folder) if below else iter((folder,)):
            try:
                device = os.stat(directory).st_dev
                if device not in devices and not _is_local(directory):
                    self._deaf.add(bell)
                devices.add(device)
                watch = self._inotify.add_watch(directory, mask)
            except OSError:  # gone again, not readable, or there are more folders than the system watches
                self._deaf.add(bell)
                continue
            self._folders[watch] = directory
            self._bells.setdefault(watch, set()).add(bell)
            if _has_links(directory):
                self._deaf.add(bell)

    def _forget(self, watch: int) -> set[threading.Event]:
        self._folders.pop(watch, None)
        return self._bells.pop(watch, set())

    def _listen(self) -> None:
        """Set the events of what changes. If that is no longer possible, nobody hears anything."""
        try:
            self._hear()
        except Exception:
            with self._lock:
                bells = set().union(*self._bells.values())
                self._deaf |= bells
                self._folders.clear()
                self._bells.clear()
                self._inotify = None
            for bell in bells:
                bell.set()

    def _hear(self) -> None:
        from inotify_simple import flags

        while True:
            for event in self._inotify.read():
                with self._lock:
                    if event.mask & flags.Q_OVERFLOW:
                        bells = set().union(*self._bells.values())
                    elif event.mask & flags.IGNORED:
                        bells = self._forget(event.wd)
                        self._deaf |= bells
                    else:
                        bells = set(self._bells.get(event.wd, ()))
                        self._entered(event, bells, is_folder=bool(event.mask & flags.ISDIR))
                for bell in bells:
                    bell.set()

    def _entered(self, event: Any, bells: set[threading.Event], *, is_folder: bool) -> None:
        """Something is new in a folder: another folder is watched too."""
        path = os.path.join(self._folders.get(event.wd, ""), event.name)
        if is_folder:
            for bell in bells:
                self._add(path, bell, below=True)
        elif os.path.islink(path):
            self._deaf |= bells


def _folders(root: str) -> Iterator[str]:
    """A folder and all below it, each once, as files are looked for."""
    entered: set[tuple[int, int]] = set()
    for directory, below, _ in os.walk(root, followlinks=True):
        try:
            at = os.stat(directory)
        except OSError:
            continue
        if (at.st_dev, at.st_ino) in entered:
            below.clear()
            continue
        entered.add((at.st_dev, at.st_ino))
        yield directory


def _has_links(folder: str) -> bool:
    """Whether a folder has a link to a file, which may change elsewhere. A large input has a million files in its folder, so
    nothing else is asked of them."""
    try:
        with os.scandir(folder) as entries:
            return any(entry.is_symlink() and entry.is_file() for entry in entries)
    except OSError:
        return True


def _is_local(path: str) -> bool:
    """Whether only this machine writes to the file system of a path."""
    real, longest, kind = os.path.realpath(path), "", ""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
            lines = [line.split(" ") for line in mounts]
    except OSError:
        return False
    for _, mount, name, *_ in lines:
        place = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), mount)  # of a space, for example
        if (real == place or real.startswith(place.rstrip("/") + "/")) and len(place) >= len(longest):
            longest, kind = place, name
    return kind in LOCAL


FOLDERS: Final = FolderWatch()
"""That of this process."""
