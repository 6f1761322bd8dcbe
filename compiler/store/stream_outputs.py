"""Outputs that take each row at least once: lines to a socket, and messages to an MQTT broker. They are sent before the commit,
so those of an epoch that a crash interrupts are sent again."""

from __future__ import annotations

import socket
import tempfile
import weakref
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from tracetypes.compiler.connectors.mqtt import MqttAddress, Publisher
from tracetypes.compiler.connectors.socket_address import SocketAddress
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.store.output_interface import Frontiers, Output, SideOutputs, rows_file
from tracetypes.compiler.store.staging import SEND, Staging
from tracetypes.errors import RunError, UsageError
from tracetypes.fencing import Starts
from tracetypes.formats import Avro, Csv, JsonLines, Parquet

__all__ = ["MqttOutput", "SocketOutput", "StreamOutput"]


class StreamOutput(Output):
    """JSON lines of the rows of each epoch; late and rejected rows go to directories."""

    delivery = SEND
    side_outputs: SideOutputs

    def __init__(self, plan: Plan, address: str, side_outputs: SideOutputs) -> None:
        if isinstance(plan.sink.format, Csv | Parquet | Avro):
            raise RunError(
                "TT207",
                f"sink {plan.sink.name!r}: {address} takes no {type(plan.sink.format).__name__}",
                fix="declare format=json_lines() at the sink, or no format: rows are sent as JSON",
            )
        if isinstance(plan.sink.format, JsonLines) and plan.sink.format.compression is not None:
            fix = "leave compression out"
            raise RunError("TT207", f"sink {plan.sink.name!r}: what is sent to {address} is not compressed", fix=fix)
        self.plan, self.side_outputs = plan, side_outputs
        self.taken: set[int] = set()

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """Send an epoch."""
        if batch in self.taken:
            return
        self.side_outputs.take(messages, batch, frontiers, Path())
        with tempfile.TemporaryDirectory(prefix="tracetypes-") as scratch:
            staging = Staging.of(self.plan.layout, self.plan.sink, JsonLines(), scratch)
            for file in rows_file(self.plan, staging, messages):
                self.send(file.read_bytes())
        self.taken.add(batch)

    @abstractmethod
    def send(self, lines: bytes) -> None:
        """Send whole lines. Raises :class:`RunError` ``TT209``."""


class SocketOutput(StreamOutput):
    """A server that takes lines."""

    def __init__(self, plan: Plan, address: str, run: str, late: str | None, rejects: str | None) -> None:
        self.address = SocketAddress.of(address)
        if late is None or rejects is None or self.address.listens:
            raise UsageError(
                "TT402",
                f"{address} takes no {'connection' if self.address.listens else 'late items and no rejects'}",
                fix="write tcp://HOST:PORT for a sink, and give directories with --late and --rejects",
            )
        super().__init__(plan, address, SideOutputs(Path(late).absolute(), Path(rejects).absolute(), run))

    def begin(self, starts: Starts) -> None:
        """Connect."""
        super().begin(starts)
        try:
            self.connection: socket.socket = self.address.connect()
        except OSError as error:
            raise self.address.unwritable(error.strerror or error) from error
        weakref.finalize(self, self.connection.close)

    def send(self, lines: bytes) -> None:
        """Send them, as fast as they are taken."""
        try:
            self.connection.sendall(lines)
        except OSError as error:
            raise self.address.unwritable(error.strerror or error) from error


class MqttOutput(StreamOutput):
    """A topic of an MQTT broker, which gets a message for each row."""

    def __init__(self, plan: Plan, address: str, run: str, late: str | None, rejects: str | None) -> None:
        self.address = MqttAddress.of(address, reads=False)
        if late is None or rejects is None:
            raise UsageError(
                "TT402", f"{address} takes no late items and no rejects", fix="give directories with --late and --rejects"
            )
        super().__init__(plan, address, SideOutputs(Path(late).absolute(), Path(rejects).absolute(), run))

    def begin(self, starts: Starts) -> None:
        """Connect."""
        super().begin(starts)
        self.publisher = Publisher(self.address)
        weakref.finalize(self, self.publisher.close)

    def send(self, lines: bytes) -> None:
        """Publish them, and wait until the broker has them."""
        self.publisher.publish(lines.splitlines())
