"""Questions to a broker about a topic."""

from __future__ import annotations

import ctypes
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import attrs

from tracetypes.compiler.connectors import kafka
from tracetypes.compiler.connectors.kafka import Address, patiently, why_of

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

__all__ = ["PLAINTEXT", "TopicDescription", "Watch", "free_id"]

PLAINTEXT = re.compile(r"connecting to a PLAINTEXT broker|supported mechanisms: *(\(|$)")
"""What librdkafka says of a broker that speaks neither TLS nor SASL, asked for it."""

HANDSHAKE = re.compile(r"closed by peer .*SSL_HANDSHAKE")
"""What it says now and then of the same broker, and of others that break off."""

KEEPS_IDS: Final = "2.16.1"
"""The newest client that is known to never free the id of a topic that it has described."""


@attrs.frozen
class TopicDescription:
    """A broker's description of a topic. ``id``: the broker's id, which changes if the topic is made anew."""

    id: str
    partitions: tuple[int, ...]


class Watch:
    """Asks a broker about a topic, over one connection. ``writing``: for a sink."""

    def __init__(self, address: Address, *, writing: bool = False) -> None:
        from confluent_kafka.admin import AdminClient

        self.address, self.writing = address, writing
        self.errors: deque[str] = deque(maxlen=1)
        self.admin = address.client(AdminClient, {"error_cb": self._note})

    def _note(self, error: KafkaError) -> None:
        is_plain = bool(self.errors) and PLAINTEXT.search(self.errors[-1])  # a later error says less
        if error.code() != error._ALL_BROKERS_DOWN and not is_plain:
            self.errors.append(error.str())

    @contextmanager
    def trouble(self) -> Iterator[None]:
        """A context that turns exceptions of the client into errors of tracetypes, with the last message about the
        broker."""
        from confluent_kafka import KafkaException

        self.errors.clear()
        try:
            yield
        except KafkaException as error:
            self.admin.poll(0)
            why = ": ".join([why_of(error), *self.errors])
            if PLAINTEXT.search(why):
                why += ". The broker speaks plaintext there, and security.protocol asks for another protocol"
            elif HANDSHAKE.search(why):
                why += ". The broker may speak plaintext there, and security.protocol asks for another protocol"
            raise (self.address.unwritable if self.writing else self.address.unreadable)(why) from error

    def offsets(self, partitions: Sequence[int], *, first: bool = False) -> dict[int, int]:
        """The end of each partition, after its last committed record; or its beginning with ``first``."""
        with self.trouble():
            return patiently(lambda remaining: self._asked(partitions, remaining, first=first)())

    def bounds(self, partitions: Sequence[int]) -> tuple[dict[int, int], dict[int, int]]:
        """The beginning of each partition, and its end."""

        def ask(remaining: float) -> tuple[dict[int, int], dict[int, int]]:
            beginnings, ends = (self._asked(partitions, remaining, first=first) for first in (True, False))
            return beginnings(), ends()

        with self.trouble():
            return patiently(ask)

    def _asked(self, partitions: Sequence[int], remaining: float, *, first: bool) -> Callable[[], dict[int, int]]:
        """Waits for the answer."""
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        spec = OffsetSpec.earliest() if first else OffsetSpec.latest()
        answers = self.admin.list_offsets(
            {TopicPartition(self.address.topic, partition): spec for partition in partitions},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=min(remaining, kafka.PATIENCE / 2),
        )
        return lambda: {place.partition: answer.result(kafka.PATIENCE).offset for place, answer in answers.items()}

    def topic(self) -> TopicDescription:
        """The topic. Raises :class:`RunError` ``TT208`` or ``TT209`` if there is no such topic."""
        topic = self.described()
        if topic is None:
            why = "the broker knows no such topic"
            raise self.address.unwritable(why) if self.writing else self.address.unreadable(why)
        return topic

    def described(self) -> TopicDescription | None:
        """The topic, or None."""
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        def ask(remaining: float) -> TopicDescription | None:
            topics = TopicCollection([self.address.topic])
            answer = self.admin.describe_topics(topics, request_timeout=min(remaining, kafka.PATIENCE / 2))[self.address.topic]
            try:
                about = answer.result(kafka.PATIENCE)
            except KafkaException as error:
                if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
                    return None
                raise
            description = TopicDescription(str(about.topic_id), tuple(sorted(one.id for one in about.partitions)))
            free_id(about)
            return description

        with self.trouble():
            return patiently(ask)

    def create(self, settings: dict[str, str]) -> None:
        """Make the topic, with one partition. Raises :class:`RunError` ``TT209``."""
        from confluent_kafka.admin import NewTopic

        topic = NewTopic(self.address.topic, 1, config=settings)
        with self.trouble():
            self.admin.create_topics([topic], request_timeout=kafka.PATIENCE / 2)[self.address.topic].result(kafka.PATIENCE)

    def remove(self, before: int) -> None:
        """Remove the records of the only partition before an offset. If the broker is busy or away, the next call
        removes them."""
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        place = TopicPartition(self.address.topic, 0, before)
        with self.trouble():
            try:
                for answer in self.admin.delete_records([place], request_timeout=kafka.PATIENCE / 2).values():
                    answer.result(kafka.PATIENCE)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise

    def delete(self) -> None:
        """Remove the topic."""
        with self.trouble():
            self.admin.delete_topics([self.address.topic], request_timeout=kafka.PATIENCE / 2)[self.address.topic].result(
                kafka.PATIENCE
            )


def free_id(about: Any) -> None:
    """Give back the reference to the id of a topic that the client forgets (``Admin_c_TopicDescription_to_py``). ``about``: its
    description of the topic. Otherwise each question leaves 100 bytes, and a run asks twice in an epoch."""
    from confluent_kafka import Uuid, version

    alone = SimpleNamespace(topic_id=Uuid(0, 0))
    forgotten = sys.getrefcount(about.topic_id) > sys.getrefcount(alone.topic_id)
    if forgotten and _numbers(version()) <= _numbers(KEEPS_IDS):
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(about.topic_id))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))
