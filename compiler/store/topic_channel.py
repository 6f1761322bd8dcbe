"""Channels as Kafka topics. An epoch of the sender is a transaction, and the readers read whole transactions.

::

    PREFIX-RUN-CHANNEL, one partition:    rows  rows  markers |  rows  markers |  markers | ...
                                          a transaction       |                |

A record has rows in Arrow, as stages send them, or the markers that the epoch has closed, as JSON; a header says which.
The driver sends them as :mod:`~tracetypes.compiler.connectors.kafka_sink` sends rows of a sink. The readable part of a
partition ends between two transactions, so that readers get rows together with the markers that close their blocks.
Tasks share the offsets of an epoch, because its order does not matter.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

import attrs
import pyarrow as pa

from tracetypes.compiler.columns.batches import to_bytes
from tracetypes.compiler.connectors.endpoint_identity import parts_of_address
from tracetypes.compiler.connectors.kafka import SCHEME, Address, require_client
from tracetypes.compiler.connectors.kafka_records import records
from tracetypes.compiler.connectors.kafka_sink import Transactions
from tracetypes.compiler.connectors.kafka_splits import Place, TopicSplits
from tracetypes.compiler.connectors.kafka_topic import Watch
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.store import places
from tracetypes.compiler.store.channel import Channel, Contents, Entry, markers_of
from tracetypes.compiler.store.output_interface import Frontiers, Output, SideOutputs, latest, rows_of
from tracetypes.compiler.store.small_files import read_json, write_json
from tracetypes.compiler.store.staging import SEND
from tracetypes.errors import RunError, UsageError
from tracetypes.fencing import Starts

__all__ = ["KIND", "ChannelSplits", "TopicChannel", "Topics"]

KIND = "tracetypes-channel"
"""The header that says what a record is: ``ROWS`` or ``MARKERS``."""

ROWS, MARKERS = b"rows", b"markers"

RECORD = 900_000
"""Bytes of rows in a record at most, as long as it is more than one row: brokers take a million if not told otherwise."""

SHARE = 16
"""Offsets for which another task is asked."""

LASTING = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Of the topics: the broker is to remove nothing by itself."""


@attrs.frozen
class Topics:
    """``kafka://host:port[/prefix]``: the place of channels that are topics. ``config``: as in :class:`.kafka.Address`."""

    servers: str
    prefix: str
    config: str | None = None

    @classmethod
    def of(cls, text: str) -> Topics:
        """From text. Raises :class:`UsageError` ``TT402``, and ``TT401`` if the client is not installed."""
        parts = parts_of_address(text)
        prefix, options = unquote(parts.path.strip("/")), dict(parse_qsl(parts.query, keep_blank_values=True))
        config = options.pop("config", None)
        if (
            f"{parts.scheme}://" != SCHEME
            or not parts.netloc
            or options
            or not re.fullmatch(r"[\w.-]{0,100}", prefix, re.A)
        ):
            raise UsageError(
                "TT402",
                f"{text} is no place for channels",
                fix="write kafka://HOST:PORT or kafka://HOST:PORT/PREFIX, with ?config=FILE behind it if need be",
            )
        require_client()
        return cls(parts.netloc, prefix or "tracetypes", config)

    def address(self, run: str, channel: str) -> Address:
        """The topic of a channel."""
        topic = f"{self.prefix}-{run}-{re.sub(r'[^0-9A-Za-z._-]', '-', channel)[:100]}"
        return Address(f"{SCHEME}{self.servers}/{topic}", self.servers, topic, self.config)


class TopicChannel(Channel):
    """A topic. ``path``: a directory of the checkpoint, with the id of the topic."""

    def __init__(self, name: str, address: Address, path: places.Place) -> None:
        self.name, self.address, self.watch = name, address, Watch(address, writing=True)
        self.directory, self.contents = path.name, Records(address)
        self.removed = 0
        self.open(path / "topic.json")

    def open(self, note: places.Place) -> None:
        """Make the topic when the run begins, and afterwards check that it is still the same."""
        about = self.watch.described()
        if (known := read_json(note)) is not None:
            if about is None:
                raise self.address.changed("it is gone")
            if about.id != known["id"]:
                raise self.address.changed("it was removed and made anew")
        else:
            if about is None:
                self.watch.create(LASTING)
            elif len(about.partitions) == 1 and self.watch.offsets([0])[0]:
                raise self.address.changed("it holds records that are not of this run")
            until = time.monotonic() + 10
            while about is None and time.monotonic() < until:  # the broker tells of it a moment later
                about = self.watch.described()
            if about is None:
                raise self.address.unwritable("the broker has made it and does not tell of it")
            write_json(note, {"topic": self.address.topic, "id": about.id})
        if len(about.partitions) != 1:
            raise self.address.changed(f"it has {len(about.partitions)} partitions, and a channel has one")
        self.id = about.id

    def output(self, plan: Plan, run: str, side_outputs: SideOutputs) -> Output:
        """The output that appends to the channel."""
        return ChannelSink(plan, Transactions(self.address, f"tracetypes-{run}-{self.name}", 0), side_outputs)

    def remove(self, before: int) -> None:
        """Remove records."""
        if before > self.removed:
            self.watch.remove(before)
            self.removed = before

    def discard(self) -> None:
        """Remove the topic, if we have the right: nobody needs its content."""
        with suppress(RunError):
            self.watch.delete()


class ChannelSink(Output):
    """The output that appends to a topic. The rows of an epoch come to the driver, which sends them in one transaction."""

    delivery = SEND
    side_outputs: SideOutputs

    def __init__(self, plan: Plan, transactions: Transactions, side_outputs: SideOutputs) -> None:
        self.plan, self.transactions, self.side_outputs = plan, transactions, side_outputs

    def begin(self, starts: Starts) -> None:
        """Shut out other drivers."""
        super().begin(starts)
        self.transactions.begin(starts)

    def visible(self, batch: int) -> str | None:
        """The topic, if the offset committed with the rows shows that the epoch is in it."""
        return str(self.transactions.address) if self.transactions.holds(batch) else super().visible(batch)

    @property
    def newest(self) -> int | None:
        """By the offset that was committed with the rows."""
        return latest(self.transactions.last()[0], super().newest)

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """Send a micro-batch."""
        self.side_outputs.take(messages, batch, frontiers, Path())
        markers, rows = markers_of(self.plan, messages, batch), rows_of(self.plan, messages)
        if rows or markers["markers"] or markers["complete"]:
            values = [(ROWS, data) for whole in rows for data in _cut(whole)]
            values.append((MARKERS, json.dumps(markers).encode()))
            records = [{"partition": 0, "value": value, "headers": [(KIND, kind)]} for kind, value in values]
            self.transactions.put(batch, records)


def _cut(rows: pa.RecordBatch) -> Iterator[bytes]:
    """Rows as bytes that fit into a record each."""
    data = to_bytes(rows) if rows.nbytes <= 2 * RECORD or len(rows) == 1 else b""
    if data and (len(data) <= RECORD or len(rows) == 1):
        yield data
        return
    half = len(rows) // 2
    yield from _cut(rows.slice(0, half))
    yield from _cut(rows.slice(half))


class Records(Contents):
    """Records of a topic."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def entry(self, line: str) -> Entry:
        """A range of offsets."""
        entry: Entry = json.loads(line)
        return entry

    def read(self, entry: Entry) -> Iterator[Entry | pa.RecordBatch]:
        """The rows and markers of a range of offsets."""
        for record in records(self.address, 0, entry["start"], entry["until"]):
            kind, value = dict(record.headers() or ()).get(KIND), record.value() or b""
            if kind == ROWS:
                with pa.ipc.open_stream(value) as batches:
                    yield from batches
            elif kind == MARKERS:
                yield json.loads(value)
            else:
                raise self.address.changed(f"record {record.offset()} was not sent by this run")


class ChannelSplits:
    """Ranges of the offsets of a channel. Offsets are ``{"channel": "3-Sum", "next": 17}``."""

    def __init__(self, channel: str, address: Address, tasks: int, id: str) -> None:
        self.channel, self.address, self.tasks, self.id = channel, address, tasks, id

    def __reduce__(self) -> tuple[Callable[..., ChannelSplits], tuple[Any, ...]]:  # without the connection
        return ChannelSplits, (self.channel, self.address, self.tasks, self.id)

    @cached_property
    def topic(self) -> TopicSplits:
        """The topic, in the process that plans epochs."""
        return TopicSplits(self.address, None, self.id)

    def begin(self) -> Entry:
        """The first offset that the topic ever had."""
        return {"channel": self.channel, "next": 0}

    def end(self, since: Entry) -> Entry:
        """The end of the next epoch."""
        return {**since, "next": self.topic.after(Place({0: since["next"]})).next[0]}

    def splits(self, since: Entry, until: Entry) -> list[tuple[str]]:
        """Splits for as many tasks as are useful. :class:`Records` reads them."""
        first, last = since["next"], until["next"]
        step = max(SHARE, -(-(last - first) // self.tasks))
        return [(json.dumps({"start": at, "until": min(at + step, last)}),) for at in range(first, last, step)]
