"""Landlock: what a process, and all that it starts, may do with files, ports and other processes. Linux 6.12 and newer.

A process that has restricted itself cannot take that back. It opens no other files than those below some folders, connects to no
other ports, signals no process outside, and reads nothing of one, such as ``/proc/PID/environ``. Of its threads only those that
start later are restricted, so it has to be called first.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

__all__ = ["AVAILABLE", "all_but", "folders_of_python", "restrict"]

CREATE, ADD, RESTRICT = 444, 445, 446
"""The numbers of the system calls, the same on all processors."""

LIST: Final = 1 << 3

READ: Final = 0b1101
"""Run and read files, list folders."""

WRITE: Final = READ | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 13 | 1 << 14
"""Also write, truncate, make, rename and remove files, folders and sockets; no symbolic links, no devices."""

ALL: Final = (1 << 16) - 1
OF_FILES: Final = 0b111 | 1 << 14 | 1 << 15
"""What can be allowed for a file that is no folder."""

PORTS: Final = 0b11
"""Bind and connect, over TCP."""

SCOPES: Final = 0b11
"""Abstract sockets and signals stay among the processes that are restricted together."""

LEAST: Final = 6
"""The version of Landlock that knows all of this."""

_LIBC = ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    result: int = _LIBC.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def _version() -> int:
    if sys.platform != "linux":
        return 0
    try:
        return _call(CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    except OSError:
        return 0


AVAILABLE: Final = _version() >= LEAST
"""Whether this kernel has it."""


def restrict(listed: Iterable[str], read: Iterable[str], write: Iterable[str], ports: Collection[int]) -> None:
    """Restrict this process for good: to the names of files below some folders, reading below others, writing below others, and
    connecting to some ports. Paths that are not there are left out."""
    attributes = ctypes.create_string_buffer(struct.pack("QQQ", ALL, PORTS, SCOPES))
    rules = _call(CREATE, attributes, ctypes.c_size_t(24), ctypes.c_uint32(0))
    try:
        for paths, allowed in ((listed, LIST), (read, READ), (write, WRITE)):
            for path in paths:
                _allow_path(rules, path, allowed)
        for port in ports:
            rule = ctypes.create_string_buffer(struct.pack("QQ", 2, port))
            _call(ADD, ctypes.c_int(rules), ctypes.c_int(2), rule, ctypes.c_uint32(0))
        if _LIBC.prctl(38, 1, 0, 0, 0):  # no new privileges
            raise OSError(ctypes.get_errno(), "prctl")
        _call(RESTRICT, ctypes.c_int(rules), ctypes.c_uint32(0))
    finally:
        os.close(rules)


def _allow_path(rules: int, path: str, allowed: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
        rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed if is_folder else allowed & OF_FILES, place))
        _call(ADD, ctypes.c_int(rules), ctypes.c_int(1), rule, ctypes.c_uint32(0))
    finally:
        os.close(place)


def all_but(path: Path, hidden: Collection[Path]) -> Iterator[Path]:
    """Paths that together are everything below one, but what is hidden. All are real paths."""
    path = path.resolve()
    if not any(one == path or path in one.parents for one in hidden):
        yield path
    elif path not in hidden and path.is_dir():
        for below in path.iterdir():
            if not below.is_symlink():
                yield from all_but(below, hidden)


def folders_of_python(hidden: Collection[Path]) -> list[Path]:
    """What Python and its packages read, and what every program does."""
    package = Path(__file__).resolve().parents[3]
    own = [package / one for one in ("tracetypes", "compiler", "stdlib")]
    system = ["/usr", "/lib", "/lib64", "/bin", "/sys/devices/system", "/sys/fs/cgroup", "/dev/urandom", "/dev/random"]
    system += [f"/proc/{one}" for one in ("self", "sys", "meminfo", "cpuinfo", "stat", "loadavg", "filesystems")]
    files = ("localtime", "hosts", "resolv.conf", "nsswitch.conf", "ssl", "ld.so.cache", "mime.types")
    system += [f"/etc/{one}" for one in files]
    given = [Path(one) for one in (sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), *sys.path) if one]
    searched = [part for one in [*own, *given] if one.exists() for part in all_but(one, hidden)]
    return [*map(Path, system), *searched]
