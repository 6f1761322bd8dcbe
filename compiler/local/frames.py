"""What a run and its worker processes send each other: frames over a socket, each with a kind, a group, a header and a payload.

A request is one frame, or :attr:`Kind.STEP` and as many messages as it says. The answer is messages, lines that operators print,
and parts of a state with what its logs write, up to :attr:`Kind.END` or :attr:`Kind.ERROR`. Only :attr:`Kind.PART` and
:attr:`Kind.RESTORE`, which bring a state, have no answer. The worker has read all of a request before it answers, so that the
two never wait for each other.
"""

from __future__ import annotations

import pickle
import socket
import struct
import traceback
from collections.abc import Iterable
from enum import IntEnum
from io import BufferedReader
from typing import Final, cast

import attrs

from tracetypes.compiler.analysis.pickles import dumps
from tracetypes.compiler.local.states import Part
from tracetypes.compiler.local.units import row_count
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.wire.messages import EncodedBody, decode, encode
from tracetypes.redaction import redact

__all__ = ["Connection", "Frame", "Kind", "WorkerTraceback", "error_bytes", "error_of", "frame_of", "message_of"]


class Kind(IntEnum):
    """What a frame is."""

    SETUP = 1
    READ = 2
    PART = 3
    RESTORE = 4
    STEP = 5
    STATE = 6
    MESSAGE = 7
    PRINT = 8
    END = 9
    ERROR = 10
    LOG = 11
    SECTION = 12


@attrs.frozen(eq=False)
class Frame:
    """``what``: of a message, its kind. ``count``: of a message, how many items it has; of a request, how many frames follow."""

    kind: int
    group: int = 0
    header: bytes = b""
    payload: Part = b""
    what: int = 0
    count: int = 0


_HEAD: Final = struct.Struct("<BBiQIQ")

LARGE: Final = 1 << 16
"""Bytes that are sent by themselves."""

BUFFER: Final = 1 << 20
"""Bytes that may lie between two processes."""


class Connection:
    """One end of a socket. One thread at a time uses it."""

    def __init__(self, end: socket.socket) -> None:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        self.end, self.incoming = end, cast(BufferedReader, end.makefile("rb", buffering=LARGE))

    def send(self, frames: Iterable[Frame]) -> None:
        """Send frames. Raises :class:`OSError` if nobody reads any more."""
        buffer = bytearray()
        for frame in frames:
            size = len(frame.payload)
            buffer += _HEAD.pack(frame.kind, frame.what, frame.group, frame.count, len(frame.header), size)
            buffer += frame.header
            if size < LARGE:
                buffer += frame.payload
            if size >= LARGE or len(buffer) >= LARGE:
                self.end.sendall(buffer)
                buffer = bytearray()
            if size >= LARGE:
                self.end.sendall(frame.payload)
        if buffer:
            self.end.sendall(buffer)

    def receive(self) -> Frame | None:
        """The next frame; None if the other process has ended."""
        head = self.incoming.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        kind, what, group, count, header_size, size = _HEAD.unpack(head)
        header, payload = self.incoming.read(header_size), bytearray(size)
        if len(header) < header_size or (size and self.incoming.readinto(payload) < size):
            return None
        return Frame(kind, group, header, payload, what, count)

    def close(self) -> None:
        """Close this end."""
        self.incoming.close()
        self.end.close()


# --------------------------------------------------------------------------------------------------- messages


def frame_of(message: Message) -> Frame:
    """A message as a frame."""
    row = encode(message)
    return Frame(Kind.MESSAGE, row.group, row.header, row.payload, row.kind, row_count(message.body))


def message_of(frame: Frame, *, as_bytes: bool = False) -> Message:
    """The message of a frame. ``as_bytes``: items stay in bytes, for another worker process."""
    if as_bytes and frame.count:
        body = EncodedBody(frame.what, frame.header, frame.payload, frame.count)
        return Message(frame.group, body)  # type: ignore[arg-type]  # only processes that pass it on have it
    return decode(frame.group, frame.what, frame.header, frame.payload)


# ----------------------------------------------------------------------------------------------------- errors


class WorkerTraceback(Exception):
    """The traceback of an error in a worker process, as text: the cause of that error here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def error_bytes(error: BaseException) -> bytes:
    """An error with its causes, as bytes."""
    chain: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and len(chain) < 10:
        chain.append(at)
        at = at.__cause__
    return pickle.dumps(([_one_error(one) for one in chain], "".join(traceback.format_exception(error))))


def _one_error(error: BaseException) -> bytes:
    try:
        data = dumps(error)
        pickle.loads(data)
        return data
    except Exception:
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))


def error_of(data: Part) -> BaseException:
    """The error of :func:`error_bytes`."""
    errors, text = pickle.loads(data)
    chain: list[BaseException] = [pickle.loads(one) for one in errors]
    for one, cause in zip(chain, [*chain[1:], WorkerTraceback(redact(text))], strict=True):
        one.__cause__ = cause
    return chain[0]
