"""Object code on disk, in a directory of the user's own.

``TRACETYPES_CACHE`` names the directory; empty, there is none. Else it is ``tracetypes/machine`` below ``XDG_CACHE_HOME`` or
``~/.cache``. It has mode 0700: what another user owns, or could have written, is not read. A file is named by a hash of what it
was made from and for. It is written under another name first, so processes that write at once do no harm. A file that is not
what was written is ignored. When all files together are larger than :data:`SIZE`, those go that were not used for the longest
time. Where there can be no directory, nothing is kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import stat
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, final

from tracetypes.compiler.columns.machine.code import ObjectCode

__all__ = ["CodeCache", "directory"]

SIZE: Final = 256 << 20
"""Bytes of all files."""

_ENDING: Final = ".code"
_VARIABLE: Final = "TRACETYPES_CACHE"


def directory() -> Path | None:
    """Where code is kept. None: nowhere."""
    named = os.environ.get(_VARIABLE)
    if named is not None:
        return Path(named) if named else None
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "tracetypes" / "machine"
    except RuntimeError:  # nobody's home
        return None


@final
class CodeCache:
    """``path``: the directory. ``size``: its bound in bytes."""

    def __init__(self, path: Path | None, size: int = SIZE) -> None:
        self.path, self.size = path, size

    @staticmethod
    def name(parts: Iterable[str]) -> str:
        """The name of what is made from these."""
        return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest() + _ENDING

    def get(self, name: str) -> ObjectCode | None:
        """The code with this name, if there is some."""
        with self._opened() as folder:
            if folder is None:
                return None
            try:
                content = _read(folder, name)
                code = None if content is None else _unpacked(content)
                if code is not None:
                    os.utime(name, dir_fd=folder)
            except OSError:
                return None
            return code

    def put(self, name: str, code: ObjectCode) -> None:
        """Keep code. Nothing happens where that cannot be."""
        with self._opened(create=True) as folder, contextlib.suppress(OSError):
            if folder is None:
                return
            whole = f"{uuid.uuid4().hex}.new"
            try:
                descriptor = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
                with open(descriptor, "wb") as file:
                    file.write(_packed(code))
                os.rename(whole, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(whole, dir_fd=folder)
            self._shrink(folder, name)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """While no other process of the user compiles. Where there is no directory, or no lock, nobody waits."""
        with self._opened(create=True) as folder, contextlib.ExitStack() as stack:
            if folder is not None:
                with contextlib.suppress(OSError):
                    descriptor = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=folder)
                    stack.callback(os.close, descriptor)
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def _opened(self, *, create: bool = False) -> Iterator[int | None]:
        """The directory, if nobody else may write it."""
        folder = None
        try:
            if self.path is not None:
                if create:
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                    self.path.mkdir(mode=0o700, exist_ok=True)
                folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                if not _is_own(os.fstat(folder)):
                    os.close(folder)
                    folder = None
        except OSError:
            folder = None
        try:
            yield folder
        finally:
            if folder is not None:
                os.close(folder)

    def _shrink(self, folder: int, kept: str) -> None:
        """Remove the files that were not used for the longest time, and what was left half written."""
        files = []
        for entry in os.scandir(folder):
            if entry.name.endswith((_ENDING, ".new")):
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    files.append((status.st_mtime, status.st_size, entry.name))
        total = sum(size for _, size, _ in files)
        for _, size, name in sorted(files):
            if total <= self.size:
                return
            if name != kept:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
                total -= size


def _is_own(status: os.stat_result) -> bool:
    """Whether a file or directory is this user's, and nobody else may write it."""
    return status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o022


def _read(folder: int, name: str) -> bytes | None:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        return file.read() if stat.S_ISREG(status.st_mode) and _is_own(status) else None


def _packed(code: ObjectCode) -> bytes:
    """A checksum, a line that says what the code is, the code."""
    content = json.dumps([code.symbol, list(code.needs)]).encode() + b"\n" + code.code
    return hashlib.sha256(content).digest() + content


def _unpacked(content: bytes) -> ObjectCode | None:
    """The inverse. None for anything else."""
    checksum, content = content[:32], content[32:]
    if hashlib.sha256(content).digest() != checksum:
        return None
    head, _, binary = content.partition(b"\n")
    symbol, needs = json.loads(head)
    return ObjectCode(symbol, tuple(needs), binary)
