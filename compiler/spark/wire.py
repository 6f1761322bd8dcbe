"""The traffic between Spark and its Python workers: messages as rows, errors as text."""

from __future__ import annotations

import gc
import hashlib
import io
import pickle
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import Broadcast, TaskContext

from tracetypes.compiler.analysis.pickles import ShippingPickler, shipped
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.spark.java import running_context
from tracetypes.compiler.spark.prints import print_to_driver
from tracetypes.compiler.wire.messages import MessageRow, encode
from tracetypes.compiler.wire.plans import conceal_operators
from tracetypes.errors import CodedError, envelope
from tracetypes.redaction import redact

__all__ = [
    "BEFORE",
    "MESSAGES",
    "SentError",
    "ShippedPlan",
    "Task",
    "as_rows",
    "iterator_of",
    "no_collector",
    "result_of",
    "settle",
]

MESSAGES = "group int, kind tinyint, header binary, payload binary"
_ARROW = pa.schema([("group", pa.int32()), ("kind", pa.int8()), ("header", pa.binary()), ("payload", pa.binary())])
BEFORE = "tracetypes.before"
"""Local property with the newest event time of each source before the coming micro-batch, and before single pieces."""

LARGE = 1 << 18
"""Bytes of a pickled plan from which on it is sent as a broadcast."""

FLUSH = 8 << 20
"""Bytes of payload of one Arrow batch of messages, about."""


@contextmanager
def no_collector() -> Iterator[None]:
    """Turn off Python's cycle collector, which would walk all the millions of records of a step again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


T = TypeVar("T")


class ShippedPlan:
    """A plan on its way to the workers: pickled once, for all tasks of a query. A worker that Spark uses again keeps
    it. Each worker gets a large plan, such as one with tables, once, as a broadcast. ``embedded``: it goes with each
    task, for Spark's worker beside the driver, which prepares ``transformWithState`` and cannot read broadcasts."""

    def __init__(self, plan: Plan, *, embedded: bool = False) -> None:
        self.plan, self.embedded = plan, embedded
        self.parts = _parts(plan)
        self.names = {id(part): name for name, part in self.parts.items()}
        self.digest = ""
        self.data: bytes | Broadcast[bytes] = b""

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.digest:
            data = shipped(self.plan)
            context = running_context()
            broadcast = not self.embedded and len(data) > LARGE and context is not None
            self.data = context.broadcast(data) if broadcast and context is not None else data
            self.digest = hashlib.sha256(data).hexdigest()
        return _unpacked, (self.digest, self.data)

    def close(self) -> None:
        """Remove the broadcast, if there is one."""
        if isinstance(self.data, Broadcast):
            with suppress(Py4JError, ConnectionError):  # there may be no JVM any more
                self.data.destroy()
            self.digest, self.data = "", b""


def _parts(plan: Plan) -> dict[Any, Any]:
    """What tasks hold of a plan, by a name that can be pickled."""
    parts: dict[Any, Any] = {(): plan}
    for stage in plan.stages:
        parts[stage.number,] = stage
        parts.update({(stage.number, at): one for at, one in enumerate(stage.region.nodes)})
    return parts


def _unpacked(digest: str, data: bytes | Broadcast[bytes]) -> tuple[str, dict[Any, Any]]:
    def make() -> dict[Any, Any]:
        plan = pickle.loads(data.value if isinstance(data, Broadcast) else data)
        conceal_operators(plan)
        return _parts(plan)

    return digest, _kept(digest, make)


class Task:
    """What Spark sends to its workers with every micro-batch. A worker that Spark uses again keeps it, with its
    kernels, instead of making it anew each time. ``parcel``: its plan, if that travels by itself."""

    parcel: ShippedPlan | None = None

    def packed(self, parcel: ShippedPlan) -> Self:
        """The task, without the plan inside."""
        self.parcel = parcel
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        parcel = self.parcel
        data = vars(self).get("_sent")
        if data is None:
            inside = {name: value for name, value in vars(self).items() if name != "parcel"}
            file = io.BytesIO()
            _Pickler(file, {} if parcel is None else parcel.names).dump((type(self), inside))
            data = self.__dict__["_sent"] = file.getvalue()
        return _received, (data, parcel)


class _Pickler(ShippingPickler):
    """Names the parts of a plan instead of pickling them."""

    def __init__(self, file: io.BytesIO, names: dict[int, Any]) -> None:
        super().__init__(file, protocol=5)
        self.names = names

    def persistent_id(self, part: Any) -> Any:
        return self.names.get(id(part))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, parts: dict[Any, Any]) -> None:
        super().__init__(file)
        self.parts = parts

    def persistent_load(self, name: Any) -> Any:
        return self.parts[name]


_KEPT: OrderedDict[str, Any] = OrderedDict()


def _received(data: bytes, parcel: tuple[str, dict[Any, Any]] | None) -> Any:
    digest, parts = parcel or ("", {})

    def make() -> Any:
        cls, inside = _Unpickler(io.BytesIO(data), parts).load()
        instance = object.__new__(cls)
        instance.__dict__.update(inside)
        return instance

    return _kept(digest + hashlib.sha256(data).hexdigest(), make)


def _kept(digest: str, make: Callable[[], T]) -> T:
    if digest not in _KEPT:
        _KEPT[digest] = make()
        _settled.clear()
        while len(_KEPT) > 24:
            _KEPT.popitem(last=False)
    _KEPT.move_to_end(digest)
    value: T = _KEPT[digest]
    return value


_settled = threading.Event()
"""Is all that this worker keeps out of the collector's sight?"""


def settle() -> None:
    """Hide all current objects from Python's cycle collector. Spark calls the collector between any two tasks of a
    worker. It would walk all modules, tables and kernels, which stay: 34 ms for the modules alone, as much as a
    small task takes."""
    if not _settled.is_set() and TaskContext.get() is not None:
        gc.unfreeze()  # what it no longer keeps
        gc.collect()
        gc.freeze()
        _settled.set()


class SentError(Exception):
    """Carries an error of tracetypes, or a request to read again, through Spark as text."""


def iterator_of(call: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """The iterator of a call. Errors of tracetypes on the way are sent as text, and what the call prints goes to the
    driver."""
    printed = print_to_driver()
    try:
        yield from call()
        settle()
    except CodedError as error:
        raise _sent_as_text(error) from None
    finally:
        if printed is not None:
            printed.end()


def _sent_as_text(error: CodedError) -> SentError:
    """An error with where it comes from: what follows is for logs, which shall hold no secrets."""
    return SentError(f"{envelope(error)}\n{redact(''.join(traceback.format_exception(error)))}")


def result_of(call: Callable[[], T]) -> T:
    """The result of a call. Errors of tracetypes are sent as text."""
    try:
        return call()
    except CodedError as error:
        raise _sent_as_text(error) from None


def as_rows(messages: Iterable[Message], ids: list[int]) -> Iterator[pa.RecordBatch]:
    """Messages as rows. ``ids``: Spark's number for each key group."""
    rows: list[MessageRow] = []
    size = 0
    for message in messages:
        row = encode(message)
        rows.append(row)
        size += len(row.payload) + 64
        if size > FLUSH:
            yield _batch(rows, ids)
            rows, size = [], 0
    if rows:
        yield _batch(rows, ids)


def _batch(rows: list[MessageRow], ids: list[int]) -> pa.RecordBatch:
    columns = [
        pa.array([ids[row.group] for row in rows], pa.int32()),
        pa.array([row.kind for row in rows], pa.int8()),
        pa.array([row.header for row in rows], pa.binary()),
        pa.array([row.payload for row in rows], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)
