"""What crosses between Spark and its Python workers: messages as rows, errors as text."""

from __future__ import annotations

import gc
import hashlib
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import cloudpickle
import pyarrow as pa

from tracetypes.compiler.messages import Message
from tracetypes.errors import CodedError, envelope

__all__ = ["BEFORE", "MESSAGES", "SentError", "Task", "guarded", "no_collector", "sent", "told"]

MESSAGES = "group int, kind tinyint, header binary, payload binary"
_ARROW = pa.schema([("group", pa.int32()), ("kind", pa.int8()), ("header", pa.binary()), ("payload", pa.binary())])
BEFORE = "tracetypes.before"
"""Local property with the newest event time of each source before the coming micro-batch, and before single pieces."""

FLUSH = 8 << 20
"""Bytes of payload of one Arrow batch of messages, about."""


@contextmanager
def no_collector() -> Iterator[None]:
    """Without Python's cycle collector, which walks all the millions of records of a step again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Task:
    """What Spark sends to its workers with every micro-batch. A worker that is used again keeps it, with the kernels and
    tables inside, instead of reading it anew each time."""

    def __reduce__(self) -> tuple[Any, ...]:
        sent = vars(self).get("_sent")
        if sent is None:
            data = bytes(cloudpickle.dumps((type(self), vars(self)), protocol=5))
            sent = self.__dict__["_sent"] = (hashlib.sha256(data).hexdigest(), data)
        return _received, sent


T = TypeVar("T")

_KEPT: OrderedDict[str, Any] = OrderedDict()


def _received(digest: str, data: bytes) -> Any:
    if digest not in _KEPT:
        cls, inside = pickle.loads(data)
        made = object.__new__(cls)
        made.__dict__.update(inside)
        _KEPT[digest] = made
        while len(_KEPT) > 16:
            _KEPT.popitem(last=False)
    _KEPT.move_to_end(digest)
    return _KEPT[digest]


class SentError(Exception):
    """Carries one of our errors, or a request to read again, through Spark as text."""


def guarded(call: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """The iterator that a call gives; our errors on the way are sent as text."""
    try:
        yield from call()
    except CodedError as error:
        raise SentError(envelope(error)) from error


def told(call: Callable[[], T]) -> T:
    """What a call gives; our errors are sent as text."""
    try:
        return call()
    except CodedError as error:
        raise SentError(envelope(error)) from error


def sent(messages: Iterable[Message], ids: list[int]) -> Iterator[pa.RecordBatch]:
    """Messages as rows. ``ids``: Spark's number for each key group."""
    held: list[Message] = []
    size = 0
    for message in messages:
        held.append(message)
        size += len(message.payload) + 64
        if size > FLUSH:
            yield _batch(held, ids)
            held, size = [], 0
    if held:
        yield _batch(held, ids)


def _batch(messages: list[Message], ids: list[int]) -> pa.RecordBatch:
    columns = [
        pa.array([ids[m.group] for m in messages], pa.int32()),
        pa.array([int(m.kind) for m in messages], pa.int8()),
        pa.array([m.header for m in messages], pa.binary()),
        pa.array([m.payload for m in messages], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)
