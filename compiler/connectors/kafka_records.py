"""Reads the records of a range of offsets of a partition. ``tracetypes.sources.record_reader`` says what item a record
is."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tracetypes.compiler.connectors import kafka
from tracetypes.compiler.connectors.kafka import Address

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

__all__ = ["records", "shown"]

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
            asked = time.monotonic()
            messages = consumer.consume(min(POLLED, until - following), timeout=0.25)
            silent += time.monotonic() - asked
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

    known = json.dumps(address.settings(), sort_keys=True)
    consumer: Consumer = _CONSUMERS.pop(known, None) or address.client(
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
    if known in _CONSUMERS:
        consumer.close()
    else:
        _CONSUMERS[known] = consumer


def shown(message: Message) -> str:
    """A record for the reject output."""
    text = {name: None if raw is None else raw.decode("utf-8", "backslashreplace") for name, raw in _raw(message)}
    place = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
    return json.dumps({**place, **text}, ensure_ascii=False)


def _raw(message: Message) -> list[tuple[str, bytes | None]]:
    return [("key", message.key()), ("value", message.value())]
