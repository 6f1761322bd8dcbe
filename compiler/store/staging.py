"""What workers do with rows for an output: few go to the driver with the other messages, many into a file at the worker.

So a micro-batch is one Spark job, and rows never pass through Java on their way to a file. A file lies in a hidden directory of
the output under a name of its own, and a message names it. The driver moves the files that reached it by such a message, and
removes all others: they come from attempts that failed.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Literal, Protocol

import attrs
import pyarrow as pa

from tracetypes.compiler.connectors.row_files import RowFile, Shown, open_rows
from tracetypes.compiler.runtime.messages import Kind, Message, header
from tracetypes.errors import RunError
from tracetypes.formats import Format, Layout
from tracetypes.graph import Sink

__all__ = ["DROP", "SEND", "Delivery", "deliver", "unwritable"]

INLINE = 1 << 20
"""Bytes of rows that all tasks of a micro-batch together send to the driver at most, about."""


class Showing(Protocol):
    """Which columns of rows a file gets."""

    def of(self, batch: Any, /) -> Any:
        """An Arrow record batch of rows as stages send them, as one of the file's."""


@attrs.frozen
class Delivery:
    """What becomes of rows, late rows and rejects: ``send`` them to the driver; ``drop`` them, for benchmarks; or ``stage`` them,
    into files in ``directory`` where there are more than ``inline`` bytes of them in a micro-batch. ``format`` and ``shown``: of
    the files of rows."""

    rows: Literal["send", "drop", "stage"]
    shown: Showing | None = None
    format: Format | None = None
    directory: str = ""
    inline: int = INLINE

    @classmethod
    def staged(cls, layout: Layout, sink: Sink, format: Format, directory: str) -> Delivery:
        """Into files where there are many."""
        return cls("stage", Shown(layout, sink), format, directory)


SEND, DROP = Delivery("send"), Delivery("drop")


def deliver(delivery: Delivery, messages: Iterable[Message], share: int) -> Iterator[Message]:
    """The messages for the driver. ``share``: how many such calls share a micro-batch, about."""
    if delivery.rows == "send":
        yield from messages
        return
    heaps: dict[tuple[int, str], _Heap] = {}
    try:
        for message in messages:
            if message.kind not in (Kind.ROWS, Kind.LATE, Kind.REJECT):
                yield message
            elif delivery.rows == "stage":
                source = "" if message.kind == Kind.ROWS else message.head["source"]
                heap = heaps.get((message.kind, source))
                if heap is None:
                    heap = heaps[message.kind, source] = _Heap(delivery, message.kind, source, delivery.inline // share)
                heap.put(message)
        for heap in heaps.values():
            yield from heap.end()
    except OSError as error:
        raise unwritable(error) from error
    finally:
        for heap in heaps.values():
            heap.abandon()


def unwritable(error: OSError) -> RunError:
    """What the system says of a place of an output, as an error of ours."""
    place = f"{error.filename}: " if error.filename else ""
    return RunError(
        "TT209",
        f"the output cannot be written: {place}{error.strerror or error}",
        fix="see the cause; run again to go on",
    )


class _Heap:
    """Messages of one kind, about one source."""

    def __init__(self, delivery: Delivery, kind: int, source: str, inline: int) -> None:
        self.delivery, self.kind, self.source, self.inline = delivery, kind, source, inline
        self.held: list[Message] = []
        self.size = self.count = 0
        self.file: RowFile | None = None
        self.name = ""

    def put(self, message: Message) -> None:
        if self.file is not None:
            self.write(message)
            return
        self.held.append(message)
        self.size += len(message.payload)
        if self.size > self.inline:
            self.name = f"{Kind(self.kind).name.lower()}-{uuid.uuid4().hex}"
            os.makedirs(self.delivery.directory, exist_ok=True)
            self.file = self.open(os.path.join(self.delivery.directory, self.name))
            for one in self.held:
                self.write(one)
            self.held = []

    def open(self, path: str) -> RowFile:
        if self.kind == Kind.ROWS:
            assert self.delivery.format is not None
            return open_rows(self.delivery.format, path)
        return _AsideFile(path)

    def write(self, message: Message) -> None:
        assert self.file is not None
        if self.kind == Kind.ROWS:
            assert self.delivery.shown is not None
            with pa.ipc.open_stream(message.payload) as batches:
                for batch in batches:
                    self.count += batch.num_rows
                    self.file.write(self.delivery.shown.of(batch))
        else:
            self.count += 1
            self.file.write(message)

    def end(self) -> Iterator[Message]:
        if self.file is None:
            yield from self.held
        else:
            self.file.close()
            self.file = None
            yield Message(
                0, Kind.FILE, header(kind=int(self.kind), source=self.source, name=self.name, count=self.count)
            )

    def abandon(self) -> None:
        """Remove what is not whole."""
        if self.file is not None:
            with suppress(Exception):
                self.file.close()
            with suppress(OSError):
                os.unlink(os.path.join(self.delivery.directory, self.name))


class _AsideFile:
    """Late or rejected rows as they were sent: why a row is late may be known to the driver only. A line each: header, row."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "w", encoding="utf-8")  # noqa: SIM115  it is closed by close()

    def write(self, message: Any) -> None:
        text = message.payload.decode("utf-8", "backslashreplace")
        self.file.write(json.dumps([message.head, text]) + "\n")

    def close(self) -> None:
        self.file.close()
