"""The inputs of a run, opened in this process: what there is to read, and how it is read."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import chain as chained
from itertools import takewhile
from pathlib import Path
from typing import Final, TypeAlias

import attrs

from tracetypes.compiler.backend.backend import Opening
from tracetypes.compiler.connectors.arrivals import Arrivals, Part
from tracetypes.compiler.connectors.delta_splits import TableSource
from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.file_parts import rows_of_parts
from tracetypes.compiler.connectors.file_splits import Reading, taken_splits
from tracetypes.compiler.connectors.files import Order
from tracetypes.compiler.connectors.iterables import iterable_rows
from tracetypes.compiler.connectors.kafka_clients import RANGE_CLIENTS
from tracetypes.compiler.connectors.kafka_records import RecordReader
from tracetypes.compiler.connectors.kafka_splits import AtMost, TopicSource
from tracetypes.compiler.connectors.line_streams import read_lines, socket_lines
from tracetypes.compiler.connectors.mqtt import MqttAddress, messages_reader, mqtt_messages
from tracetypes.compiler.connectors.packs import Pack, packs
from tracetypes.compiler.connectors.parquet_row_groups import tables
from tracetypes.compiler.connectors.program_rows import as_program_lines, has_length, write_rows
from tracetypes.compiler.connectors.registry import connector_of
from tracetypes.compiler.connectors.socket_address import SocketAddress
from tracetypes.compiler.connectors.source_rows import taker
from tracetypes.compiler.connectors.text_reader import SplitNotes, TextReader
from tracetypes.compiler.local.data_frames import LocalDataFrame
from tracetypes.compiler.local.input_interface import LocalInput, SplitReader, SplitRows
from tracetypes.compiler.local.streams import PartsOf, StreamSplits, lines_reader, parts_reader
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.compiler.store.input_files import InputFiles
from tracetypes.compiler.store.places import Place
from tracetypes.compiler.store.source_files import SourceFiles
from tracetypes.connectors import Offset, Splits
from tracetypes.formats import Avro, Parquet
from tracetypes.sources import reader

__all__ = ["OPENINGS", "FileSplits"]

RECORDS: Final = AtMost(of_split=100_000, of_epoch=5_000_000)
"""Of a topic, however many are waiting there: the first bounds the memory of a run, the second what a crash may cost."""

ONCE: Final = "{} cannot be read again; rows that no micro-batch has taken when the run ends are lost, unless they are sent again"

GIVEN: Final = (
    "its rows are not in the checkpoint; a run that goes on takes what the program gives then, and cannot go on if it was killed "
    "while rows of a micro-batch were visible"
)

AGAIN: Final = "{} sends messages again that no micro-batch has committed, so none is lost; each counts {}"


class FileSplits:
    """The splits of listings. An offset ``{"listing": 3}`` is the last listing that was taken. ``bytes``: how much an epoch takes
    at most, if it takes several."""

    def __init__(self, files: InputFiles) -> None:
        self.files, self.bytes = files, 0

    def begin(self) -> Offset:
        """Before the first listing."""
        return {"listing": 0}

    def end(self, since: Offset) -> Offset:
        """The next listing, or one behind it. If the user says how many files an epoch has, a listing has as many."""
        last, size = since["listing"], 0
        for number in self._after(since):
            size += self.files.weight(number)
            if last != since["listing"] and (size > self.bytes or self.files.at_once):
                break
            last = number
        return {"listing": last}

    def size(self, since: Offset, until: Offset) -> int:
        """Bytes between two offsets, as far as they are known."""
        return sum(self.files.weights.get(number, 0) for number in range(since["listing"] + 1, until["listing"] + 1))

    def splits(self, since: Offset, until: Offset) -> Sequence[Pack]:
        """Packs of splits, in the order of the source."""
        taken = takewhile(lambda number: number <= until["listing"], self._after(since))
        listed = (sorted(self.files.listings.splits(number), key=lambda one: one.piece) for number in taken)
        return [pack for splits in listed for pack in packs(splits, self.files.tasks)]

    def _after(self, since: Offset) -> Iterator[int]:
        return self.files.listings.numbers(max(since["listing"], self.files.done))


class LocalFiles(LocalInput):
    """Files on a local or mounted disk, or objects of a store."""

    def __init__(self, leaf: FromSource, path: str, files_per_step: int | None, order: Order = "modified") -> None:
        self.identity, self.at_once = EndpointIdentity(connector_of(path).kind), files_per_step
        self.source_files = SourceFiles(leaf, path, order)
        self.source_files.check_first()

    def files(self, checkpoint: Place, label: str, *, tasks: int, appended: bool, follows: bool) -> InputFiles:
        """All of them."""
        options = {"tasks": tasks, "at_once": self.at_once, "appended": appended, "follows": follows}
        return self.source_files.input_files(checkpoint, label, **options)

    def splits(self, files: InputFiles | None, place: Path) -> Splits:
        """Of the listings."""
        assert files is not None
        return FileSplits(files)

    def reader(self, leaf: FromSource, verifier: Verifier | None) -> Callable[[Pack], SplitRows]:
        """Lines, or row groups."""
        read, format = reader(leaf.source).read, self.source_files.format
        if isinstance(format, Parquet | Avro):
            rows_of = rows_of_parts(leaf, format, read, verifier)

            def parts_of(pack: Pack) -> SplitRows:
                readings = Reading.of_splits(pack)
                return _of_files(leaf, readings, chained.from_iterable(map(rows_of, readings)))

            return parts_of
        header = self.source_files.header
        rows = TextReader(leaf, format, header, read, verifier)

        def text_of(pack: Pack) -> SplitRows:
            readings = [(reading, SplitNotes()) for reading in Reading.of_splits(pack)]

            def noticed() -> Iterator[Message]:
                for reading, some in readings:
                    yield from some.messages(leaf, reading.split.piece, reading.split.path, header)

            return _of_files(leaf, [reading for reading, _ in readings], rows.of_splits(readings), noticed)

        return text_of


def _of_files(
    leaf: FromSource,
    readings: Sequence[Reading],
    rows: Iterator[TakenRow | Chunk],
    noticed: Callable[[], Iterable[Message]] = tuple,
) -> SplitRows:
    """The rows of a pack. ``noticed``: what there is to say of it when they are read."""

    def check() -> None:
        for reading in readings:
            reading.check()

    return SplitRows(
        readings[0].split.piece, rows, notes=lambda: [taken_splits(leaf.label, readings), *noticed()], check=check
    )


class LocalTopic(LocalInput):
    """A topic of Kafka."""

    def __init__(self, leaf: FromSource, text: str, *, bounded: bool) -> None:
        self.source = TopicSource.of(leaf, text, bounded=bounded)
        self.stays = True
        """Whether all ranges are read in this process, so that clients may stay behind them."""
        self.identity = self.source.identity

    def splits(self, files: InputFiles | None, place: Path) -> Splits:
        """Ranges of offsets."""
        return self.source.splits(RECORDS)

    def reader(self, leaf: FromSource, verifier: Verifier | None) -> Callable[[tuple[int, int, int, int, bool]], SplitRows]:
        """Records."""
        records = RecordReader(leaf, self.source.address, verifier, stays=self.stays, schemas=self.source.schemas)

        def read(split: tuple[int, int, int, int, bool]) -> SplitRows:
            partition, start, until, parts, idle = split
            rows = iter(()) if idle else records.read(partition, start, until)
            return SplitRows((partition, start, 0), rows, partition, parts, idle)

        return read

    def leave(self, place: Path, *, finished: bool) -> None:
        """No client waits for more."""
        RANGE_CLIENTS.leave(self.source.address)

    def for_worker(self) -> SplitReader:
        """One of several processes that read the topic."""
        one = copy(self)
        one.stays = False
        return one


class LocalTable(LocalInput):
    """A Delta table."""

    def __init__(self, leaf: FromSource, address: str, files_per_step: int | None, *, bounded: bool) -> None:
        self.source = TableSource.of(leaf, address, files_per_step, bounded=bounded)
        self.identity = self.source.identity

    def splits(self, files: InputFiles | None, place: Path) -> Splits:
        """Files of versions."""
        return self.source.splits()

    def reader(self, leaf: FromSource, verifier: Verifier | None) -> Callable[[tuple[str, int, int, str]], SplitRows]:
        """Row groups."""
        take = taker(leaf, reader(leaf.source).read, verifier)

        def read(split: tuple[str, int, int, str]) -> SplitRows:
            path, version, number, constants = split
            rows = chained.from_iterable(map(take, tables(leaf, path, 0, 1, json.loads(constants))))
            return SplitRows((version, number, 0), rows)

        return read


PartsReader: TypeAlias = Callable[[FromSource, Verifier | None], PartsOf]
"""Reads parts of rows that come once."""


@attrs.frozen
class StreamReader:
    """Reads the splits of a :class:`LocalStream`."""

    parts: PartsReader

    def reader(self, leaf: FromSource, verifier: Verifier | None) -> Callable[[tuple[int, Sequence[Part]]], SplitRows]:
        """Parts."""
        rows = self.parts(leaf, verifier)

        def read(split: tuple[int, Sequence[Part]]) -> SplitRows:
            piece, noticed = (split[0], 0, 0), SplitNotes()
            return SplitRows(piece, rows(split[1], noticed), notes=lambda: noticed.messages(leaf, piece, "", None))

        return read


class LocalStream(LocalInput):
    """Rows that come once, to the source of a name. ``parts``: reads parts of them. ``durable``: whether those of an epoch lie
    in the checkpoint."""

    def __init__(
        self,
        name: str,
        arrivals: Arrivals,
        identity: EndpointIdentity,
        parts: PartsReader,
        *,
        durable: bool = True,
    ) -> None:
        self.name, self.arrivals, self.identity, self.durable = name, arrivals, identity, durable
        self.splits_reader = StreamReader(parts)

    def for_worker(self) -> StreamReader:
        """Without what has arrived."""
        return self.splits_reader

    def splits(self, files: InputFiles | None, place: Path) -> StreamSplits:
        """What has arrived."""
        return StreamSplits(self.arrivals, str(place), place if self.durable else None, self.name)

    def leave(self, place: Path, *, finished: bool) -> None:
        """When all readings are over, the source ends."""
        self.arrivals.leave(str(place), finished=finished)
        if finished:
            shutil.rmtree(place, ignore_errors=True)

    def reader(self, leaf: FromSource, verifier: Verifier | None) -> Callable[[tuple[int, Sequence[Part]]], SplitRows]:
        """Parts."""
        return self.splits_reader.reader(leaf, verifier)


# ------------------------------------------------------------------------------------------------------ opening


def _files(opening: Opening) -> LocalInput:
    return LocalFiles(opening.leaf, opening.address, opening.files_per_step, opening.order)


def _topic(opening: Opening) -> LocalInput:
    return LocalTopic(opening.leaf, opening.address, bounded=opening.bounded)


def _table(opening: Opening) -> LocalInput:
    return LocalTable(opening.leaf, opening.address, opening.files_per_step, bounded=opening.bounded)


def _rows(opening: Opening) -> LocalInput:
    """As files."""
    directory, rows = os.path.join(opening.scratch, opening.leaf.source.name), opening.address
    write_rows(opening.leaf, rows, Path(directory))
    leaf = opening.leaf if rows.text else as_program_lines(opening.leaf)
    return LocalFiles(leaf, directory, rows.files_per_step or opening.files_per_step)


def _iterable(opening: Opening) -> LocalInput:
    arrivals = iterable_rows(opening.leaf, opening.address, opening.readings)
    stream = LocalStream(opening.leaf.source.name, arrivals, EndpointIdentity("files"), parts_reader, durable=False)
    return _promising(opening, stream, GIVEN)


def _columns(opening: Opening) -> LocalInput:
    """A frame, or Arrow data without a length, as they come."""
    return LocalDataFrame(opening.leaf, opening.address.rows) if has_length(opening.address.rows) else _iterable(opening)


def _lines(opening: Opening) -> LocalInput:
    """Of standard input."""
    name, arrivals = opening.leaf.source.name, read_lines(opening.leaf, opening.readings)
    stream = LocalStream(name, arrivals, EndpointIdentity("terminal"), lines_reader)
    return _promising(opening, stream, ONCE.format("standard input"))


def _socket(opening: Opening) -> LocalInput:
    address = SocketAddress.of(opening.address)
    arrivals = socket_lines(opening.leaf, address, opening.readings)
    stream = LocalStream(opening.leaf.source.name, arrivals, EndpointIdentity("socket"), lines_reader)
    return _promising(opening, stream, ONCE.format(address.text))


def _mqtt(opening: Opening) -> LocalInput:
    address = MqttAddress.of(opening.address)
    arrivals = mqtt_messages(opening.leaf, address, opening.readings)
    stream = LocalStream(opening.leaf.source.name, arrivals, EndpointIdentity("mqtt"), _messages_reader)
    often = "once if the broker marks such messages as duplicates, and at least once otherwise"
    if opening.readings > 1:
        often = f"at least once, because the source is read {opening.readings} times"
    return _promising(opening, stream, AGAIN.format(address.display_name, often))


def _messages_reader(leaf: FromSource, verifier: Verifier | None) -> PartsOf:
    rows = messages_reader(leaf, verifier)
    return lambda parts, notes: rows(parts)


def _promising(opening: Opening, stream: LocalStream, promise: str) -> LocalStream:
    """Rows that come once, of which the run says what is promised (docs/sources.md)."""
    stream.warning = f"source {opening.leaf.source.name!r}: {promise}"
    return stream


OPENINGS: Final[Mapping[str, Callable[[Opening], LocalInput]]] = {
    "files": _files,
    "objects": _files,
    "topic": _topic,
    "table": _table,
    "rows": _rows,
    "iterable": _iterable,
    "columns": _columns,
    "terminal": _lines,
    "socket": _socket,
    "mqtt": _mqtt,
}
"""By the kind of the connector."""
