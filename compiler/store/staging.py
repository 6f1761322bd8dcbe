"""Workers stage rows for an output: few rows go to the driver with the other messages, many go into a file that the
worker writes.

So a micro-batch is one Spark job, and rows never pass through Java on their way to a file. A file lies in a hidden
directory of the output under a name of its own, and a message has the name. The driver moves the files whose names
reached it, and removes all others, which come from failed attempts.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, final

import attrs

from tracetypes.compiler.connectors.partitioned_files import PartitionedFiles
from tracetypes.compiler.connectors.sink_files import SinkFile, VisibleColumns, open_sink_file
from tracetypes.compiler.connectors.store_address import is_store
from tracetypes.compiler.runtime.messages import Body, File, Holds, Message, Rows, SideRows
from tracetypes.compiler.store.uploads import Upload
from tracetypes.compiler.wire.messages import to_frame
from tracetypes.errors import RunError
from tracetypes.formats import Format, Layout
from tracetypes.nodes import Sink

__all__ = ["DROP", "SEND", "Delivery", "Dispatch", "Staging", "deliver", "unwritable"]

INLINE = 1 << 20
"""Bytes of rows that all tasks of a micro-batch together send to the driver at most, about."""


class ColumnChoice(Protocol):
    """The columns of rows that a file gets."""

    def of(self, batch: Any, /) -> Any:
        """The file's record batch of rows, from an Arrow record batch as stages send it."""


@final
@attrs.frozen
class Send:
    """Rows, late rows and rejects go to the driver."""


@final
@attrs.frozen
class Drop:
    """They go nowhere: for benchmarks."""


@final
@attrs.frozen
class Staging:
    """They go into files in ``directory``, or into objects if that is an address of a store, if they have more than ``inline``
    bytes in a micro-batch. ``format`` and ``shown``: of the files of rows. ``partition_by``: the columns for which these lie in
    folders."""

    shown: ColumnChoice
    format: Format
    directory: str
    inline: int = INLINE
    partition_by: tuple[str, ...] = ()

    @classmethod
    def of(cls, layout: Layout, sink: Sink, format: Format, directory: str, *, unsigned: bool = True) -> Staging:
        """Into files of a sink. ``unsigned`` as in :class:`VisibleColumns`."""
        shown = VisibleColumns(layout, sink, unsigned=unsigned)
        return cls(shown, format, directory, partition_by=sink.partition_by)

    def at(self, directory: str) -> Staging:
        """The same in another directory."""
        return attrs.evolve(self, directory=directory)

    def open(self, path: str) -> SinkFile:
        """A new file of rows, or a directory of files in folders."""
        if self.partition_by:
            return PartitionedFiles(self.format, path, self.partition_by)
        return open_sink_file(self.format, path)


Delivery: TypeAlias = Send | Drop | Staging
"""The way of rows, late rows and rejects out of the last stage."""

SEND, DROP = Send(), Drop()


def deliver(delivery: Delivery, messages: Iterable[Message], share: int) -> Iterator[Message]:
    """The messages for the driver. ``share``: about how many such calls share a micro-batch."""
    dispatch = Dispatch(delivery, share)
    try:
        yield from dispatch.passed(messages)
        yield from dispatch.end()
    finally:
        dispatch.abandon()


@final
class Dispatch:
    """Rows, late rows and rejects on their way to the driver, until :meth:`end`. ``share`` as of :func:`deliver`."""

    def __init__(self, delivery: Delivery, share: int) -> None:
        self.delivery, self.share = delivery, share
        self.heaps: dict[tuple[Holds, str], _Heap] = {}

    def passed(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Take messages; gives those that need not wait for the end."""
        match self.delivery:
            case Send():
                yield from messages
            case Drop():
                yield from (message for message in messages if _place_of(message.body) is None)
            case Staging() as staging:
                yield from self._staged(staging, messages)

    def _staged(self, delivery: Staging, messages: Iterable[Message]) -> Iterator[Message]:
        for message in messages:
            place = _place_of(message.body)
            if place is None:
                yield message
                continue
            if place not in self.heaps:
                self.heaps[place] = _Heap(delivery, *place, delivery.inline // self.share)
            try:
                self.heaps[place].put(message)
            except OSError as error:
                raise unwritable(error) from error

    def end(self) -> Iterator[Message]:
        """What is left: few rows, and the names of files of many."""
        try:
            for heap in self.heaps.values():
                yield from heap.end()
        except OSError as error:
            raise unwritable(error) from error

    def abandon(self) -> None:
        """Remove unfinished files."""
        for heap in self.heaps.values():
            heap.abandon()


def unwritable(error: OSError) -> RunError:
    """The error for a place of an output that cannot be written, with the system's reason."""
    place = f"{error.filename}: " if error.filename else ""
    return RunError(
        "TT209",
        f"the output cannot be written: {place}{error.strerror or error}",
        fix="see the cause; run again to go on",
    )


def _place_of(body: Body) -> tuple[Holds, str] | None:
    """Where rows belong: what they are, and of which source. None for what is no rows."""
    match body:
        case Rows():
            return "rows", ""
        case SideRows(holds, source):
            return holds, source
        case _:
            return None


def _size(body: Body) -> int:
    """Bytes, about."""
    match body:
        case Rows(batch) | SideRows(batch=batch):
            return int(batch.nbytes)
        case _:
            return 0


class _Heap:
    """Rows, or late or rejected rows of one source."""

    def __init__(self, delivery: Staging, holds: Holds, source: str, inline: int) -> None:
        self.delivery, self.holds, self.source, self.inline = delivery, holds, source, inline
        self.waiting: list[Message] = []
        self.size = self.count = 0
        self.file: SinkFile | None = None
        self.name = ""

    def put(self, message: Message) -> None:
        if self.file is not None:
            self.write(self.file, message)
            return
        self.waiting.append(message)
        self.size += _size(message.body)
        if self.size > self.inline:
            self.name = f"{self.holds}-{uuid.uuid4().hex}"
            directory = self.delivery.directory
            if is_store(directory):
                self.file = Upload(f"{directory}/{self.name}", self.open)
            else:
                os.makedirs(directory, exist_ok=True)
                self.file = self.open(os.path.join(directory, self.name))
            for one in self.waiting:
                self.write(self.file, one)
            self.waiting = []

    def open(self, path: str) -> SinkFile:
        return self.delivery.open(path) if self.holds == "rows" else _AsideFile(path)

    def write(self, file: SinkFile, message: Message) -> None:
        match message.body:
            case Rows() as rows:
                self.count += rows.count
                file.write(self.delivery.shown.of(rows.coded if file.codes else rows.batch))
            case SideRows(batch=batch):
                self.count += batch.num_rows
                file.write(message)
            case body:
                raise AssertionError(f"unexpected message {type(body).__name__}")

    def end(self) -> Iterator[Message]:
        if self.file is None:
            yield from self.waiting
        else:
            self.file.close()
            self.file = None
            yield Message(0, File(self.holds, self.source, self.name, self.count))

    def abandon(self) -> None:
        """Remove an unfinished file."""
        if isinstance(self.file, Upload):
            with suppress(Exception):
                self.file.abandon()
        elif self.file is not None:
            with suppress(Exception):
                self.file.close()
            with suppress(OSError):
                os.unlink(os.path.join(self.delivery.directory, self.name))


class _AsideFile:
    """Late or rejected rows as they were sent: why a row is late may be known to the driver only."""

    codes = False

    def __init__(self, path: str) -> None:
        self.file = open(path, "wb")  # noqa: SIM115  it is closed by close()

    def write(self, message: Any) -> None:
        self.file.write(to_frame(message))

    def close(self) -> None:
        self.file.close()
