"""Worker processes that are forked from a process which has imported what they need.

To import numpy, Arrow and this package takes most of a second of a core. The fork server of Python
(:mod:`multiprocessing.forkserver`) does so once for all worker processes that a process starts; each of them is there some
milliseconds later. The server may be older than its first run: a worker process gets the environment, the folder, the output and
the ``sys.path`` that the run has at that moment.
"""

from __future__ import annotations

import errno
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import connection, forkserver, resource_tracker
from typing import Final, final

import attrs

from tracetypes.compiler.local.worker_main import main

__all__ = ["ForkedProcess", "forks"]

_PRELOAD: Final = [__name__, "tracetypes.stdlib", "pandas"]
"""Arrow imports pandas, where that is installed, with its first array of Python objects."""

_server: list[forkserver.ForkServer] = []
"""At most one."""

_lock: Final = threading.Lock()


def forks() -> bool:
    """Whether worker processes can be forked here. On macOS some system libraries do not work behind a fork."""
    return sys.platform == "linux"


def _ask(*numbers: int) -> tuple[int, int]:
    """Ask for a process that gets these file descriptors, and those of standard output and standard error; do not wait for it.
    Two file descriptors: from one come its process number and, when it has ended, its status; to the other go its orders.
    Raises :class:`OSError`."""
    with _lock:
        for delay in (0.01, 0.1, 1.0):
            if not _server:
                _server.append(forkserver.ForkServer())
                _server[0].set_forkserver_preload(_PRELOAD)
            try:
                with _no_interrupts():
                    return _server[0].connect_to_new_process([*numbers, 1, 2])
            except ChildProcessError:  # that of the parent, if this process was forked; or somebody else has waited for its end
                _server.clear()
            except ConnectionError:  # it is about to end
                time.sleep(delay)
    raise ConnectionRefusedError(errno.ECONNREFUSED, "the server of worker processes ends")


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """What is started inside ignores Ctrl-C from its first moment on. It reaches the run a little later."""
    resource_tracker.ensure_running()  # it lets interrupts come again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@attrs.frozen
class _Orders:
    """What a forked process does. ``environment``: its variables."""

    environment: Mapping[str, str]

    def _bootstrap(self, parent: int) -> int:
        """What the server calls in the forked process. It has the file descriptors of :func:`_ask`."""
        gc.freeze()
        os.setsid()  # Ctrl-C is for the run
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        end, lifeline, output, errors = forkserver.get_inherited_fds() or []
        null = os.open(os.devnull, os.O_RDONLY)
        for number, one in enumerate((null, output, errors)):
            os.dup2(one, number)
            os.close(one)
        os.environ.clear()
        os.environ.update(self.environment)
        time.tzset()
        if "numpy.random" in sys.modules:
            sys.modules["numpy.random"].seed()  # otherwise all processes would draw the same numbers
        main(end, lifeline)
        return 0


@final
class ForkedProcess:
    """A worker process that is forked, with the part of :class:`subprocess.Popen` that a run uses. One thread at a time has
    it."""

    def __init__(self, end: int, lifeline: int) -> None:
        """``end``, ``lifeline``: file descriptors for :func:`~tracetypes.compiler.local.worker_main.main`. Raises
        :class:`OSError`."""
        preparation: dict[str, object] = {"sys_path": [str(one) for one in sys.path]}
        with suppress(FileNotFoundError):  # the folder is gone
            preparation["dir"] = os.getcwd()
        self._news, orders = _ask(end, lifeline)
        with suppress(BrokenPipeError), open(orders, "wb") as pipe:  # a server that has died is seen by ``poll``
            pipe.write(pickle.dumps(preparation) + pickle.dumps(_Orders(dict(os.environ))))
        self._pid: int | None = None
        self.returncode: int | None = None

    @property
    def pid(self) -> int:
        """Its number, -1 if the server has died before. Waits until it is forked."""
        if self._pid is None:
            self._pid = self._next() or -1
        return self._pid

    def poll(self) -> int | None:
        """Its status if it has ended, a signal as a negative number."""
        return self._ended_in(0)

    def wait(self, timeout: float | None = None) -> int:
        """Its status when it has ended. Raises :class:`subprocess.TimeoutExpired` after so many seconds."""
        status = self._ended_in(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("a worker process", timeout or 0.0)
        return status

    def kill(self) -> None:
        """Kill it, if it has not ended."""
        if self.returncode is None:
            _kill(self.pid)

    def _ended_in(self, timeout: float | None) -> int | None:
        """Its status, if it ends in so many seconds from when it is forked."""
        if self.returncode is not None or (self._pid is None and not self._comes_in(timeout)):
            return self.returncode
        pid = self.pid
        if self._comes_in(timeout):
            self.returncode = self._next()
            if self.returncode is None:  # without its server nobody sees how it ends
                self.returncode = -signal.SIGKILL
                _kill(pid)
            os.close(self._news)
        return self.returncode

    def _comes_in(self, timeout: float | None) -> bool:
        return bool(connection.wait([self._news], timeout))

    def _next(self) -> int | None:
        """The next number from the server, if it lives."""
        try:
            return int(forkserver.read_signed(self._news))
        except (EOFError, OSError):
            return None


def _kill(pid: int) -> None:
    if pid > 0:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
