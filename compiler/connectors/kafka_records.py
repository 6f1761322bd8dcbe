"""Reads the records of a range of offsets of a partition. ``tracetypes.sources.record_reader`` says what item a record
is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from tracetypes.compiler.connectors import kafka
from tracetypes.compiler.connectors.kafka import Address
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
    from confluent_kafka import Consumer, Message

__all__ = ["RecordReader", "records"]

POLLED = 10_000
"""Records that a worker takes from the client at once."""

_CONSUMERS: dict[str, Consumer] = {}
"""What this process keeps for the next range of the same broker, with its connections."""


def records(address: Address, partition: int, start: int, until: int) -> Iterator[Message]:
    """The committed records of a range of offsets."""
    from confluent_kafka import KafkaError, TopicPartition

    final = (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._AUTHENTICATION,
    )
    with address.trouble(), _consumer(address) as consumer:
        consumer.assign([TopicPartition(address.topic, partition, start)])
        following, silent, trouble = start, 0.0, ""
        while following < until:
            # The client waits until it has that many: never for more than there are, unless offsets are missing.
            before = time.monotonic()
            messages = consumer.consume(min(POLLED, until - following), timeout=0.25)
            silent += time.monotonic() - before
            for message in messages:
                error, offset = message.error(), message.offset()
                if error is None or error.code() == KafkaError._PARTITION_EOF:
                    if message.partition() != partition or offset < following:
                        continue
                    silent = 0.0
                    following = offset if error is not None else offset + 1
                    if error is None and offset < until:
                        yield message
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    raise address.changed(f"the records of partition {partition} from {following} are gone")
                elif error.fatal() or error.code() in final:
                    raise address.unreadable(error.str())
                else:
                    trouble = f": {error.str()}"  # the client tries again by itself
            if silent > kafka.PATIENCE:
                raise address.unreadable(f"no answer for {kafka.PATIENCE:.0f} seconds{trouble}")


@contextmanager
def _consumer(address: Address) -> Iterator[Consumer]:
    """A client without partitions. It is kept, unless something went wrong inside."""
    from confluent_kafka import Consumer

    settings = json.dumps(address.settings(), sort_keys=True)
    consumer: Consumer = _CONSUMERS.pop(settings, None) or address.client(
        Consumer,
        {
            "group.id": "tracetypes",  # nobody joins it: partitions are assigned by hand
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        },
    )
    try:
        yield consumer
        consumer.unassign()
    except BaseException:
        consumer.close()
        raise
    if settings in _CONSUMERS:
        consumer.close()
    else:
        _CONSUMERS[settings] = consumer


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
        self, leaf: FromSource, address: Any, verifier: Verifier | None = None, reject_text: Callable[[Any], str] | None = None
    ) -> None:
        """``reject_text``: a record for the reject output, if it is not of Kafka."""
        self.leaf, self.address, self.reject_text = leaf, address, reject_text or _reject_text
        self.format = leaf.source.format if isinstance(leaf.source.format, Kafka) else Kafka()
        self.row_of = record_reader(leaf.source, leaf.layout)
        self.together = self._together(verifier)

    def read(self, partition: int, start: int, until: int) -> Iterator[TakenRow | Chunk]:
        """Those of a range of offsets."""
        buffer: list[Message] = []
        marker, together = self.format.marker, self.together
        for message in records(self.address, partition, start, until):
            if any(name == marker for name, _ in message.headers() or ()):
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
        if not isinstance(layout.value, Record) or not layout.opened or self.format.headers:
            return lambda messages: map(self.one, messages)
        names = [name for name, _ in layout.value.fields]
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
