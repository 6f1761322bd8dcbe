"""Reads the records of a range of offsets of a partition. ``tracetypes.sources.record_reader`` says what item a record
is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tracetypes.compiler.connectors import kafka
from tracetypes.compiler.connectors.kafka import Address
from tracetypes.compiler.connectors.kafka_clients import RANGE_CLIENTS
from tracetypes.compiler.connectors.registered_records import TopicSchemas
from tracetypes.compiler.connectors.registered_rows import registered_rows
from tracetypes.compiler.connectors.source_rows import in_columns
from tracetypes.compiler.connectors.text import AT_ONCE, Dialect, Fit, columns_of_json, decoded, fit_of_json, json_scan
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.formats import Kafka
from tracetypes.parsing import of_bytes
from tracetypes.records import Record
from tracetypes.sources import record_reader

if TYPE_CHECKING:
    from confluent_kafka import Message

__all__ = ["RecordReader", "records"]

POLLED = 10_000
"""Records that a worker takes from the client at once."""

SOON = 0.02
"""Seconds after which a client that has stayed should have the records; it is assigned anew if it has not."""


def records(address: Address, partition: int, start: int, until: int, *, stays: bool = False) -> Iterator[Message]:
    """The committed records of a range of offsets. ``stays``: the next range of the partition will probably be read here, so the
    client may wait for it."""
    from confluent_kafka import KafkaError

    final = (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._AUTHENTICATION,
    )
    with address.trouble(), RANGE_CLIENTS.lent(address, partition, start) as client:
        following, silent, trouble, newest = start, 0.0, "", start - 1
        while following < until:
            # The client waits until it has that many: never for more than there are, unless offsets are missing.
            before = time.monotonic()
            asked = min(POLLED, until - following)
            messages = client.consumer.consume(asked, timeout=SOON if client.stayed else 0.25)
            silent += time.monotonic() - before
            for message in messages:
                error, offset = message.error(), message.offset()
                if error is None or error.code() == KafkaError._PARTITION_EOF:
                    if message.partition() != partition or offset < following:
                        continue
                    silent = 0.0
                    following = offset if error is not None else offset + 1
                    if error is None:
                        newest = offset
                        if offset < until:
                            yield message
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    raise address.changed(f"the records of partition {partition} from {following} are gone")
                elif error.fatal() or error.code() in final:
                    raise address.unreadable(error.str())
                else:
                    trouble = f": {error.str()}"  # the client tries again by itself
            if client.stayed and len(messages) < asked and following < until:
                client.assign(address.topic, partition, following)
            if silent > kafka.PATIENCE:
                raise address.unreadable(f"no answer for {kafka.PATIENCE:.0f} seconds{trouble}")
        # Behind a long range it would fetch what others read meanwhile. And where offsets are missing at the end, as those of the
        # ends of transactions, it would be told so late.
        if stays and newest == until - 1 and until - start <= POLLED:
            client.at = address.topic, partition, until


def _reject_text(message: Message) -> str:
    """A record for the reject output."""
    text = {name: None if raw is None else raw.decode("utf-8", "backslashreplace") for name, raw in _raw(message)}
    place = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
    return json.dumps({**place, **text}, ensure_ascii=False)


def _raw(message: Message) -> list[tuple[str, bytes | None]]:
    return [("key", message.key()), ("value", message.value())]


class RecordReader:
    """Records of a topic as rows of a source."""

    def __init__(
        self,
        leaf: FromSource,
        address: Any,
        verifier: Verifier | None = None,
        reject_text: Callable[[Any], str] | None = None,
        *,
        stays: bool = False,
        schemas: TopicSchemas | None = None,
    ) -> None:
        """``reject_text``: a record for the reject output, if it is not of Kafka. ``stays``: all ranges are read here.
        ``schemas``: those of the registry, if keys or values have some."""
        self.leaf, self.address, self.reject_text, self.stays = leaf, address, reject_text or _reject_text, stays
        self.format = leaf.source.format if isinstance(leaf.source.format, Kafka) else Kafka()
        self.parts = {} if schemas is None else schemas.parts(leaf.layout)
        self.row_of = record_reader(leaf.source, leaf.layout, TopicSchemas.decoders(self.parts))
        self.together = self._together(verifier)

    def read(self, partition: int, start: int, until: int) -> Iterator[TakenRow | Chunk]:
        """Those of a range of offsets."""
        buffer: list[Message] = []
        marker, together = self.format.marker, self.together
        for message in records(self.address, partition, start, until, stays=self.stays):
            headers = message.headers()
            if headers and any(name == marker for name, _ in headers):
                yield from together(buffer)
                yield self.one(message)
                buffer = []
            else:
                buffer.append(message)
                if len(buffer) == AT_ONCE:
                    yield from together(buffer)
                    buffer = []
        yield from together(buffer)

    def one(self, message: Message) -> TakenRow:
        """A record by itself."""
        row = self.row_of(message.key(), message.value(), message.headers() or ())
        return TakenRow(row, partial(self.reject_text, message))

    def _together(self, verifier: Verifier | None) -> Callable[[Sequence[Message]], Iterator[TakenRow | Chunk]]:
        """Takes records that are not markers."""
        layout = self.leaf.layout.zoned(self.format.zone)
        if self.format.envelope is not None or not isinstance(layout.value, Record) or not layout.opened or self.format.headers:
            return lambda messages: map(self.one, messages)
        if self.parts:
            return registered_rows(self.leaf, layout, self.parts, self.one, verifier)
        names = layout.value.names
        fits = [fit_of_json(schema) for _, schema in layout.value.fields]
        scan = json_scan([layout.value])
        if layout.keyed:
            fits = [Fit(lambda cells: None, lambda raw: of_bytes(layout.key, raw, ".key")), *fits]

        def cells(messages: Sequence[Message]) -> tuple[list[int], list[list[Any]]]:
            places, columns = columns_of_json([decoded(message.value()) for message in messages], names, scan)
            if layout.keyed:
                columns = [[messages[at].key() for at in places], *columns]
            return places, columns

        return in_columns(self.leaf, Dialect(cells, fits, self.one), verifier)
