"""Topics of MQTT: ``mqtt://HOST:PORT/TOPIC/FILTER?client=NAME``.

A source has a session that the broker keeps (MQTT 3.1.1, quality of service 1). It acknowledges a message when the epoch with it
is committed, so a crash loses none: the broker sends it again, with its packet identifier and marked as a duplicate. It is
dropped if an epoch has taken it, which the checkpoint says of the last two epochs. Sent otherwise, it comes twice.
"""

from __future__ import annotations

import importlib.util
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

import attrs

from tracetypes.compiler.connectors.arrivals import Arrivals, Part, reason
from tracetypes.compiler.connectors.endpoint_identity import parts_of_address
from tracetypes.errors import RunError, UsageError
from tracetypes.formats import Kafka
from tracetypes.redaction import conceal
from tracetypes.sources import record_reader

if TYPE_CHECKING:
    from paho.mqtt.client import Client

    from tracetypes.compiler.plan.plan import FromSource
    from tracetypes.compiler.runtime.chunks import Chunk
    from tracetypes.compiler.runtime.source import TakenRow
    from tracetypes.compiler.runtime.verification import Verifier

__all__ = ["MQTT", "MqttAddress", "MqttRecord", "Publisher", "messages_reader", "mqtt_messages"]

MQTT = "mqtt://"

PATIENCE = 10.0
"""Seconds for a connection at the start."""

AWAY = 60.0
"""Seconds without a connection after which a sink gives up."""

TOGETHER = 10_000
"""Messages that are one part at most."""


@attrs.frozen
class MqttAddress:
    """``mqtt://USER:PASSWORD@HOST:PORT/TOPIC?client=NAME``. ``client``: the name of the session that the broker keeps."""

    text: str
    host: str
    port: int
    topic: str
    client: str
    user: str | None = None
    password: str | None = attrs.field(default=None, repr=False)

    @classmethod
    def of(cls, text: str, *, reads: bool = True) -> MqttAddress:
        """An address from text; of a source it must have a client. Raises :class:`UsageError` ``TT402``, and ``TT401`` if
        paho-mqtt is not installed."""
        parts, port = parts_of_address(text), None
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        client, qos, topic = options.pop("client", ""), options.pop("qos", "1"), unquote(parts.path.removeprefix("/"))
        if parts.password:
            conceal(text)
        with suppress(ValueError):
            port = parts.port or 1883
        if not parts.hostname or port is None or not topic or options or qos != "1" or parts.fragment or (reads and not client):
            raise UsageError(
                "TT402",
                f"{text} is no address of an MQTT topic",
                fix="write mqtt://HOST:PORT/TOPIC?client=NAME, with a name that no other client has; # is %23 there",
            )
        if importlib.util.find_spec("paho") is None:
            raise UsageError("TT401", "paho-mqtt is not installed", fix="pip install 'tracetypes[mqtt]'")
        return cls(text, parts.hostname, port, topic, client, parts.username, parts.password)

    @property
    def display_name(self) -> str:
        """Without the password."""
        return f"{MQTT}{self.host}:{self.port}/{self.topic}"

    def unreadable(self, why: object) -> RunError:
        """The error for a broker that cannot be read."""
        return RunError("TT208", f"{self.display_name} cannot be read: {why}", fix="see whether the broker runs, then run again")

    def unwritable(self, why: object) -> RunError:
        """The error for a broker that cannot be written."""
        return RunError("TT209", f"{self.display_name} cannot be written: {why}", fix="see the cause; run again to go on")

    def connect(self, failure: Callable[[object], RunError], prepare: Callable[[Client], None] = lambda client: None) -> Client:
        """A client with a thread of its own, which connects again by itself."""
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        client = Client(CallbackAPIVersion.VERSION2, self.client, clean_session=not self.client, manual_ack=True)
        if self.user is not None:
            client.username_pw_set(self.user, self.password)
        answer, refusals = threading.Event(), list[object]()

        def on_connect(client: Client, data: Any, flags: Any, reason: Any, properties: Any) -> None:
            if reason.is_failure:
                refusals.append(reason)
            else:
                refusals.clear()
                prepare(client)  # raises nothing: it would end the client's thread
            answer.set()

        client.on_connect = on_connect
        try:
            client.connect(self.host, self.port)
        except OSError as error:
            raise failure(error.strerror or error) from error
        client.loop_start()
        if not answer.wait(PATIENCE) or refusals:
            client.loop_stop()
            raise failure(refusals[0] if refusals else f"no answer for {PATIENCE:.0f} seconds")
        return client


@attrs.frozen
class MqttRecord:
    """A message. Its methods are those of a record of Kafka."""

    number: int
    place: str
    payload: bytes

    def key(self) -> bytes:
        """The topic."""
        return self.place.encode()

    def value(self) -> bytes:
        """The payload."""
        return self.payload

    def headers(self) -> None:
        """There are none."""


def _reject_text(record: MqttRecord) -> str:
    """A message for the reject output."""
    return json.dumps({"topic": record.place, "value": record.payload.decode("utf-8", "backslashreplace")}, ensure_ascii=False)


class _Session:
    """The session of a source."""

    def __init__(self, address: MqttAddress, arrivals: Arrivals) -> None:
        self.address, self.arrivals = address, arrivals
        self.lock = threading.Lock()
        self.queue: list[MqttRecord] = []
        self.open: set[MqttRecord] = set()
        """Taken, and not acknowledged."""
        self.earlier: set[MqttRecord] = set()
        """Taken by an earlier process."""
        self.client: Client | None = None

    def begin(self, readings: Sequence[Sequence[Part]]) -> None:
        """Connect."""
        by_reading = [{one for part in parts for one in part.body} for parts in readings]
        self.earlier = set.intersection(*by_reading)
        self.arrivals.start(f"tracetypes {self.address.display_name}", self.body)

    def body(self) -> None:
        """Subscribe, and wait until nobody reads any more."""

        def take(client: Client, data: Any, message: Any) -> None:
            with self.arrivals.failing():
                self.take(client, data, message)

        def prepare(client: Client) -> None:
            client.on_message = take
            with self.arrivals.failing():
                client.subscribe(self.address.topic, qos=1)

        self.client = self.address.connect(self.address.unreadable, prepare)
        while not self.arrivals.closed:
            time.sleep(0.05)
        self.client.disconnect()
        self.client.loop_stop()

    def take(self, client: Client, data: Any, message: Any) -> None:
        """A message came."""
        one = MqttRecord(message.mid, message.topic, message.payload)
        if message.dup and one in self.earlier:
            self.earlier.discard(one)
            client.ack(message.mid, message.qos)
            return
        with self.lock:
            if message.dup and one in self.open:
                return
            if message.qos:
                self.open.add(one)
            self.queue.append(one)
            count = len(self.queue)
        if count == 1:
            self.arrivals.ring()
        if count >= TOGETHER:
            part = self.part()
            if part is not None:
                self.arrivals.put(part)

    def part(self) -> Part | None:
        """What came since the last time."""
        with self.lock:
            some, self.queue = self.queue, []
        return Part(some, len(some), sum(len(one.payload) + 64 for one in some)) if some else None

    def release(self, parts: Sequence[Part]) -> None:
        """Acknowledge messages."""
        for part in parts:
            for one in part.body:
                with self.lock:
                    is_open = one in self.open
                    self.open.discard(one)
                if is_open and self.client is not None:
                    self.client.ack(one.number, 1)


def mqtt_messages(leaf: FromSource, address: MqttAddress, readings: int) -> Arrivals:
    """The messages of a subscription. They come when all readings go on."""
    record_reader(leaf.source, leaf.layout)  # raises for formats that records do not have
    if isinstance(leaf.source.format, Kafka) and leaf.source.format.value is not None:
        raise UsageError(
            "TT402",
            f"source {leaf.source.name!r}: messages of MQTT have no schemas in a registry",
            fix="leave value= of its format out",
        )
    arrivals = Arrivals(readings, unreadable=lambda error: address.unreadable(reason(error)))
    session = _Session(address, arrivals)
    arrivals.more, arrivals.on_release, arrivals.on_resume = session.part, session.release, session.begin
    return arrivals


def messages_reader(leaf: FromSource, verifier: Verifier | None) -> Callable[[Sequence[Part]], Iterator[TakenRow | Chunk]]:
    """Reads parts that are messages: by the rules of records of Kafka, with the topic as the key."""
    from tracetypes.compiler.connectors.kafka_records import RecordReader  # it needs numpy

    records = RecordReader(leaf, None, verifier, _reject_text)

    def rows(parts: Sequence[Part]) -> Iterator[TakenRow | Chunk]:
        yield from records.together([one for part in parts for one in part.body])

    return rows


class Publisher:
    """Publishes messages, each until the broker has acknowledged it."""

    def __init__(self, address: MqttAddress) -> None:
        self.address = address
        self.client = address.connect(address.unwritable)

    def publish(self, payloads: Sequence[bytes]) -> None:
        """Publish all of them. Raises :class:`RunError` ``TT209``."""
        publications = [self.client.publish(self.address.topic, one, qos=1) for one in payloads]
        until = time.monotonic() + AWAY
        for one in publications:
            one.wait_for_publish(max(0.0, until - time.monotonic()))
            if not one.is_published():
                raise self.address.unwritable(f"no answer for {AWAY:.0f} seconds")

    def close(self) -> None:
        """End the connection."""
        self.client.disconnect()
        self.client.loop_stop()
