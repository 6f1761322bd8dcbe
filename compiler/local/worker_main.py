"""What a worker process does: it answers the requests of the run that has started it, one after the other, until the run ends."""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import pickle
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from tracetypes.compiler.local.frames import Connection, Frame, Kind, error_bytes, frame_of, message_of
from tracetypes.compiler.local.heap import KEPT_MEMORY, FreedMemory, limit_heaps
from tracetypes.compiler.local.input_interface import SplitReader
from tracetypes.compiler.local.kernels import Kernels, SplitTask
from tracetypes.compiler.local.lateness import KnownTimes
from tracetypes.compiler.local.prints import operators_print, show_prints
from tracetypes.compiler.local.runners import States, ThreadRunner
from tracetypes.compiler.local.section_files import SectionFiles
from tracetypes.compiler.plan.plan import ChannelLink, Plan, SourceLink, links
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.store.channel import Contents
from tracetypes.compiler.store.staging import Delivery, Staging
from tracetypes.compiler.wire.plans import conceal_operators

__all__ = ["Setup", "main"]

GRACE: Final = 1.0
"""Seconds that an operator may go on when the run has ended."""


@attrs.frozen(eq=False)
class Setup:
    """What a worker process needs of a run: what :class:`Kernels` take, and where states lie."""

    plan: Plan
    inputs: Mapping[str, SplitReader]
    contents: Mapping[str, Contents]
    delivery: Delivery
    sections: SectionFiles | None
    budget: int | None


@attrs.frozen
class _Frames:
    """Sends rows to the run before the answer is complete."""

    connection: Connection
    takes_rows: bool

    def take(self, message: Message) -> None:
        self.connection.send([frame_of(message)])

    def look(self) -> None:
        """The run ends its workers."""


class _RunEnded(BaseException):
    """The run has ended in the middle of a request."""


class _Worker:
    """Answers requests."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.parts: list[bytes] = []
        """Those parts of a state that have come so far."""

    def answer(self, request: Frame) -> Iterator[Frame]:
        """The frames of the answer, without the end."""
        match request.kind:
            case Kind.SETUP:
                self._set_up(request)
            case Kind.READ:
                yield from self._read(request)
            case Kind.STEP:
                yield from self._step(request, [self._next() for _ in range(request.count)])
            case Kind.PART:
                self.parts.append(bytes(request.payload))
            case Kind.RESTORE:
                self.states.from_checkpoint[pickle.loads(request.payload)], self.parts = self.parts, []
            case Kind.STATE:
                state = self.runner.state(*pickle.loads(request.payload))
                for part, digest in zip(state.parts, state.digests, strict=True):
                    yield Frame(Kind.PART, header=digest, payload=part)
                for log in state.logs:
                    yield Frame(Kind.LOG, payload=pickle.dumps((log.operator, log.about, log.size)))
                    yield from (Frame(Kind.SECTION, payload=section) for section in log.sections)
            case kind:
                raise AssertionError(f"no request has kind {kind}")

    def _next(self) -> Frame:
        frame = self.connection.receive()
        if frame is None:
            raise _RunEnded
        return frame

    def _set_up(self, request: Frame) -> None:
        with contextlib.redirect_stdout(io.StringIO()):  # modules of the author print when they are imported
            setup: Setup = pickle.loads(request.payload)
        conceal_operators(setup.plan)
        self.links = {
            (stage.number, link.number): (stage, link) for stage in setup.plan.stages for link in links(stage.region)
        }
        self.kernels = Kernels(setup.plan, setup.inputs, setup.contents, setup.delivery)
        files = isinstance(setup.delivery, Staging)
        self.outlets = [_Frames(self.connection, files and stage is setup.plan.stages[-1]) for stage in setup.plan.stages]
        self.states = States({}, setup.sections, setup.budget)
        self.runner = ThreadRunner(lambda: self.kernels, self.states)

    def _read(self, request: Frame) -> Iterator[Frame]:
        at, split, number, one_by_one, times = pickle.loads(request.payload)
        stage, link = self.links[at]
        assert isinstance(link, SourceLink | ChannelLink)
        answer = self.runner.read(SplitTask(stage, link, split, number, one_by_one), KnownTimes(times))
        yield from map(frame_of, answer.messages)

    def _step(self, request: Frame, frames: list[Frame]) -> Iterator[Frame]:
        number, shard = pickle.loads(request.payload)
        messages = [message_of(frame) for frame in frames]
        with operators_print():
            yield from map(frame_of, self.runner.step(number, shard, messages, self.outlets[number]))


def serve(connection: Connection) -> None:
    """Answer requests until the other end is closed."""
    worker = _Worker(connection)

    def answer(request: Frame) -> Iterator[Frame]:
        try:
            yield from worker.answer(request)
        except (_RunEnded, GeneratorExit):
            raise
        except BaseException as error:
            yield Frame(Kind.ERROR, payload=error_bytes(error))
        else:
            if request.kind not in (Kind.PART, Kind.RESTORE):
                yield Frame(Kind.END)

    def show(line: str) -> None:
        connection.send([Frame(Kind.PRINT, payload=line.encode("utf-8", "replace"))])

    freed = FreedMemory()
    with show_prints(show):
        while (request := connection.receive()) is not None:
            connection.send(answer(request))
            freed.used()
            freed.look()


def main(end: int, lifeline: int) -> None:
    """Answer requests until the run ends. ``end``: the file descriptor of the socket. ``lifeline``: that of a pipe to which
    nobody writes; its other end closes when the run ends, in whatever way."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the run ends its workers

    def watch() -> None:
        try:
            os.read(lifeline, 1)
            time.sleep(GRACE)
        finally:
            os._exit(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
    limit_heaps()
    with KEPT_MEMORY, contextlib.suppress(OSError, _RunEnded):
        serve(Connection(socket.socket(fileno=end)))
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # without taking all modules apart
