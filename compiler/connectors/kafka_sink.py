"""Topics as sinks.

The driver sends the rows of an epoch in one transaction, which also commits the number of the epoch as an offset of a
group of the run. An epoch whose transaction went through is not sent again, even if our own record is lost. An epoch without rows
has no transaction: then the offset is that of an earlier one, and to do the epoch again sends nothing again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tracetypes.compiler.connectors import kafka
from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.kafka import Address, patiently
from tracetypes.compiler.connectors.kafka_topic import Watch
from tracetypes.compiler.connectors.registered_values import registered_writer
from tracetypes.compiler.plan.plan import Plan
from tracetypes.errors import RunError, UsageError
from tracetypes.fencing import Starts
from tracetypes.formats import Avro, Csv, Kafka, Parquet, TextLines
from tracetypes.marker_runs import MarkerRuns, runs_of
from tracetypes.markers import Marker
from tracetypes.parsing import record_writer

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer

__all__ = ["TopicSink", "Transactions", "produce", "wait_for_delivery", "without_pauses"]


PAUSE = 1_000
"""Markers over empty blocks, one after the other: of so many or more the first and the last one are sent."""


def without_pauses(markers: MarkerRuns, occupied: Iterable[int]) -> Iterator[int]:
    """The markers that are sent: of a long pause the first and the last one. ``occupied``: the ends of blocks with records, in
    order."""
    rest = markers
    for end in (*occupied, None):
        pause = rest if end is None else rest.up_to(end - 1)
        yield from pause if len(pause) < PAUSE else (pause[0], pause[-1])
        if end is not None:
            yield from rest.between(end, end)
            rest = rest.after(end)


class TopicSink:
    """A topic to which the rows of a sink go, each micro-batch once."""

    def __init__(self, plan: Plan, text: str, run: str) -> None:
        self.plan, self.address, self.run = plan, Address.of(text), run
        if isinstance(plan.sink.format, Csv | Parquet | Avro | TextLines):
            raise RunError(
                "TT207",
                f"sink {plan.sink.name!r}: records of a topic are not {type(plan.sink.format).__name__}",
                fix="declare format=kafka(...) or no format: records are JSON",
            )
        if isinstance(plan.sink.format, Kafka) and plan.sink.format.envelope is not None:
            raise RunError("TT207", f"sink {plan.sink.name!r}: changes of Debezium are only read", fix="leave format out")
        if plan.sink.flat:
            what = f"sink {plan.sink.name!r} has flat=True, and a record of a topic has a key and a value, no columns"
            raise UsageError("TT402", what, fix="leave flat out, or map to a flat record")
        self.format = plan.sink.format if isinstance(plan.sink.format, Kafka) else Kafka()
        registered = registered_writer(plan.sink.format, plan.layout, self.address, plan.sink.name)
        self.write = registered or record_writer(self.format, plan.layout)
        self.watch = Watch(self.address, writing=True)
        topic = self.watch.topic()
        self.partitions, self.identity = topic.partitions, EndpointIdentity("topic", self.address.topic, topic.id)
        self.transactions = Transactions(self.address, f"tracetypes-{run}-{plan.sink.name}", self.partitions[0])

    def put(self, batch: int, items: Iterable[tuple[int, int, Any, Any]], markers: Sequence[int]) -> None:
        """Send a micro-batch, unless it was sent before. ``items``: end of block, position, key and value of each.
        Raises :class:`RunError` ``TT218`` if the topic was made anew since the run began, and ``TT209``."""
        records = [(end, position, *self.write(key, value)) for end, position, key, value in items]
        ends = markers if self.format.markers else ()
        if not records and not ends:
            return  # a transaction would take as long as all the rest of a small micro-batch
        if self.watch.topic().id != self.identity.id:
            raise self.address.changed("it was removed and made anew")
        # The same order whenever the batch is sent, so that a record's number means the same.
        records.sort(key=lambda one: (one[0], one[1], one[2] or b"", one[3] or b"", one[4]))
        self.transactions.once(batch, lambda producer: self.send(producer, batch, records, ends))

    def send(self, producer: Producer, batch: int, records: Sequence[Any], markers: Sequence[int]) -> None:
        """Send records, and each marker after its block."""
        sink, later = self.plan.sink, deque(without_pauses(runs_of(markers), dict.fromkeys(record[0] for record in records)))
        # Without keys the order of an ordered stream is that of one partition.
        alone = {"partition": self.partitions[0]} if self.plan.edge.ordered and not self.plan.layout.keyed else {}
        for number, (end, position, key, value, headers) in enumerate(records):
            while later and later[0] < end:
                self.mark(producer, later.popleft())
            all_headers = [*headers, ("tracetypes-id", f"{self.run}/{batch}/{number}".encode())]
            if sink.marker is not None:
                all_headers.append((sink.marker, _instant(end)))
            if sink.position is not None:
                all_headers.append((sink.position, str(position).encode()))
            self.produce(producer, value=value, key=key, headers=all_headers, **alone)
        for marker in later:
            self.mark(producer, marker)

    def mark(self, producer: Producer, marker: int) -> None:
        """Send a marker to every partition."""
        for partition in self.partitions:
            self.produce(producer, partition=partition, headers=[(self.format.marker, _instant(marker))])

    def produce(self, producer: Producer, **record: Any) -> None:
        """Send a record."""
        produce(producer, self.address.topic, **record)


class Transactions:
    """Sends the micro-batches of a run to a topic, each once. ``name``: the transactional id of the run, and the group
    whose offset in ``partition`` is the number of the next micro-batch."""

    def __init__(self, address: Address, name: str, partition: int) -> None:
        self.address, self.partition = address, partition
        self.name = name.encode("ascii", "backslashreplace").decode()  # the client takes no others
        self.starts: Starts | None = None
        """The starts of the run. Which one sends is committed with the number of the micro-batch."""
        self.sent: int | None = None
        """The last micro-batch that this producer has sent. None: ask the broker."""

    @cached_property
    def producer(self) -> Producer:
        """The only producer of this run: it shuts out an earlier one that still lives, and aborts its transaction."""
        from confluent_kafka import Producer

        settings = {
            "transactional.id": self.name,
            "transaction.timeout.ms": 600_000,
            "partitioner": "murmur2_random",  # as of Java's clients: a key goes where they would send it
        }
        producer = self.address.client(Producer, settings)
        patiently(producer.init_transactions)
        return producer

    @cached_property
    def group(self) -> Consumer:
        """The group whose offset is the number of the next micro-batch. It never reads."""
        from confluent_kafka import Consumer

        settings = {"group.id": self.name, "enable.auto.commit": False, "isolation.level": "read_committed"}
        return self.address.client(Consumer, settings)

    def begin(self, starts: Starts) -> None:
        """Shut out other senders of this run, and check that this checkpoint knows what was sent. Raises
        :class:`RunError` ``TT209``."""
        with self.address.trouble(writing=True):
            _ = self.producer
        number, writer = self.last()
        starts.check(self.address.text, writer, number)
        self.starts = starts

    def once(self, batch: int, send: Callable[[Producer], None]) -> None:
        """Send a micro-batch, unless it was sent before. Raises :class:`RunError` ``TT209``, also if the broker has not
        answered for :data:`.kafka.PATIENCE` and :data:`.kafka.PARTING`. The next attempt finds out whether the
        transaction went through."""
        from confluent_kafka import KafkaException, TopicPartition

        with self.address.trouble(writing=True):
            producer = self.producer
            # A producer that was shut out since cannot commit; and so soon after a commit the broker answers in 100 ms.
            if (self.sent is None or batch <= self.sent) and self.holds(batch):
                return
            self.sent = None
            mine = {} if self.starts is None else {"metadata": str(self.starts.mine)}
            place = TopicPartition(self.address.topic, self.partition, batch + 1, **mine)
            producer.begin_transaction()
            try:
                send(producer)
                wait_for_delivery(producer)
                group = self.group.consumer_group_metadata()
                patiently(lambda remaining: producer.send_offsets_to_transaction([place], group, remaining))
                patiently(producer.commit_transaction)
                self.sent = batch
            except KafkaException:
                with suppress(KafkaException):  # the first error says more
                    producer.abort_transaction(kafka.PARTING)
                raise

    def holds(self, batch: int) -> bool:
        """Whether a micro-batch was sent. Raises :class:`RunError` ``TT209``."""
        number, writer = self.last()
        if self.starts is not None and number >= batch:
            self.starts.check_writer(self.address.text, writer)
        return number >= batch

    def last(self) -> tuple[int, int | None]:
        """The number of the last micro-batch that was sent, and the start that sent it. Raises :class:`RunError`
        ``TT209``."""
        from confluent_kafka import TopicPartition

        with self.address.trouble(writing=True):
            place = TopicPartition(self.address.topic, self.partition)
            (offset,) = patiently(lambda remaining: self.group.committed([place], remaining))
            return max(offset.offset, 0) - 1, int(offset.metadata) if offset.metadata else None

    def put(self, batch: int, records: Iterable[Mapping[str, Any]]) -> None:
        """Send records as a micro-batch, unless it was sent before."""

        def send(producer: Producer) -> None:
            for record in records:
                produce(producer, self.address.topic, **record)

        self.once(batch, send)


def produce(producer: Producer, topic: str, **record: Any) -> None:
    """Send a record, as soon as there is room for it."""
    while True:
        try:
            producer.produce(topic, **record)
        except BufferError:
            wait_for_delivery(producer, some=True)
        else:
            return


def wait_for_delivery(producer: Producer, *, some: bool = False) -> None:
    """Wait until all records are delivered, or ``some``. Raises KafkaException if none was for :data:`.kafka.PATIENCE`."""
    from confluent_kafka import KafkaError, KafkaException

    remaining, until = len(producer), time.monotonic() + kafka.PATIENCE
    while remaining:
        if some:
            producer.poll(kafka.PAUSE)
        else:
            producer.flush(kafka.PAUSE)
        after = len(producer)
        if after < remaining:
            if some:
                return
            until = time.monotonic() + kafka.PATIENCE
        elif time.monotonic() > until:
            raise KafkaException(
                KafkaError(KafkaError._TIMED_OUT, f"the broker took no record for {kafka.PATIENCE:.0f} seconds")
            )
        remaining = after


def _instant(micros: int) -> bytes:
    return Marker(micros).datetime.isoformat().encode()
