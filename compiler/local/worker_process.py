"""A worker process, as seen by the run that has started it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tracetypes.compiler.local.fork_server import ForkedProcess, forks
from tracetypes.compiler.local.frames import Connection, Frame, Kind, error_of
from tracetypes.compiler.local.prints import show_line
from tracetypes.errors import RunError

__all__ = ["WorkerDied", "WorkerProcess", "close_all"]

_PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from tracetypes.compiler.local.worker_main import main; main(int(sys.argv[2]), int(sys.argv[3]))"
)

WAIT: Final = 2.0
"""Seconds that a process may take to end."""


class WorkerDied(Exception):
    """A worker process has ended while the run needed it. ``status``: as :class:`subprocess.Popen` has it."""

    def __init__(self, pid: int, status: int | None) -> None:
        self.pid, self.status = pid, status
        how = "ended" if status is None else f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        super().__init__(f"worker process {pid} {how}" if pid > 0 else f"a worker process {how} before it began")


def _start() -> tuple[socket.socket, int, ForkedProcess | subprocess.Popen[bytes]]:
    """A new process, with our end of the socket and its lifeline."""
    ours, theirs = socket.socketpair()
    read_end, lifeline = os.pipe()
    try:
        process = (ForkedProcess if forks() else _new_python)(theirs.fileno(), read_end)
    except OSError:
        ours.close()
        os.close(lifeline)
        raise
    finally:
        theirs.close()
        os.close(read_end)
    return ours, lifeline, process


def _new_python(end: int, lifeline: int) -> subprocess.Popen[bytes]:
    """A process that imports all by itself."""
    optimized = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
    numbers = end, lifeline
    program = [sys.executable, *optimized, "-c", _PROGRAM, json.dumps([str(one) for one in sys.path]), *map(str, numbers)]
    # A session of its own: Ctrl-C is for the run.
    return subprocess.Popen(program, stdin=subprocess.DEVNULL, pass_fds=numbers, start_new_session=True)


class WorkerProcess:
    """One worker process. One thread at a time uses it: the one that holds its ``lock``, or that has it from
    :meth:`WorkerPool.reader`."""

    def __init__(self) -> None:
        try:
            ours, self.lifeline, self.process = _start()
        except OSError as error:
            raise RunError(
                "TT223",
                f"a worker process cannot be started: {error}",
                fix="--processes never runs operators in the process of the run",
            ) from error
        self.connection, self.lock = Connection(ours), threading.Lock()
        self.setup: object = None
        """The :class:`ProcessRunner` whose plan it has."""
        self.busy = False
        """It has not answered all of the last request."""

    def ask(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """Send a request; the frames of the answer. Raises the error of an answer, and :class:`WorkerDied`."""
        self.busy = True
        try:
            self.connection.send(frames)
        except OSError:
            raise self._died() from None
        while True:
            try:
                frame = self.connection.receive()
            except OSError:
                frame = None
            if frame is None:
                raise self._died()
            match frame.kind:
                case Kind.PRINT:
                    show_line(bytes(frame.payload).decode("utf-8", "replace"))
                case Kind.END:
                    self.busy = False
                    return
                case Kind.ERROR:
                    self.busy = False
                    raise error_of(frame.payload)
                case _:
                    yield frame

    def tell(self, frames: Iterable[Frame]) -> None:
        """Send a request that has no answer of its own, before one that has. Raises :class:`WorkerDied`."""
        try:
            self.connection.send(frames)
        except OSError:
            raise self._died() from None

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def _died(self) -> WorkerDied:
        try:
            status: int | None = self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            status = None
        return WorkerDied(self.process.pid, status)

    def _close(self) -> None:
        if self.busy:
            self.process.kill()
        os.close(self.lifeline)
        self.connection.close()

    def _wait(self) -> None:
        try:
            self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def close_all(some: Sequence[WorkerProcess]) -> None:
    """End processes, and wait until they have ended. One that is in the middle of an answer is killed."""
    for one in some:
        one._close()
    for one in some:
        one._wait()
