"""Clients that read ranges of offsets. A process keeps them for the next ranges.

To make a client costs a connection, and to assign it to a partition a few milliseconds until records come. So a client that has
read a short range may stay behind it (:attr:`RangeClient.at`): it fetches what comes there, and whoever reads the next range of
this partition has it at once. Only where the ranges of a topic are all read in this process, or others fetch for nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias, final

import attrs

from tracetypes.compiler.connectors.kafka import Address

if TYPE_CHECKING:
    from confluent_kafka import Consumer

__all__ = ["RANGE_CLIENTS", "STAYING", "RangeClient", "RangeClients"]

STAYING: Final = 8
"""Clients of the same settings that stay behind their ranges, at most. Each has some threads, and up to 64 MB of records."""

WAIT: Final = 20
"""Milliseconds that the broker waits for records, if there are none. Until then it answers no other request of the connection: a
client that is assigned to the next partition would wait too, by default half a second."""

Place: TypeAlias = tuple[str, int, int]
"""Topic, partition, offset."""


@final
@attrs.define(eq=False)
class RangeClient:
    """``at``: where it stays, and what it gives next; None: it is assigned to nothing when it is not in use. ``stayed``: it
    has not been assigned anew for the range that it reads now."""

    consumer: Consumer
    at: Place | None = None
    stayed: bool = False

    def assign(self, topic: str, partition: int, start: int) -> None:
        """Read from there."""
        from confluent_kafka import TopicPartition

        self.consumer.assign([TopicPartition(topic, partition, start)])
        self.stayed = False


@final
class RangeClients:
    """The clients of a process that nobody uses now. Threads share them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[str, list[RangeClient]] = {}

    @contextmanager
    def lent(self, address: Address, partition: int, start: int) -> Iterator[RangeClient]:
        """A client that gives the records from ``start`` on. It is kept, unless something went wrong inside. It stays where the
        user says by :attr:`RangeClient.at`."""
        settings, place = json.dumps(address.settings(), sort_keys=True), (address.topic, partition, start)
        client = self._taken(settings, place) or _made(address)
        try:
            client.stayed = client.at == place
            if not client.stayed:
                client.assign(*place)
            client.at = None
            yield client
            if not self._stays(client, settings):
                client.consumer.unassign()
                client.at = None
                with self._lock:
                    self._idle[settings].append(client)
        except BaseException:
            client.consumer.close()
            raise

    def _taken(self, settings: str, place: Place) -> RangeClient | None:
        """One that stays there, or one that stays nowhere. (One that stays elsewhere may have got an error there, which it would
        give here.)"""
        with self._lock:
            idle = self._idle.setdefault(settings, [])
            some = [one for one in idle if one.at == place] or [one for one in idle if one.at is None]
            if not some:
                return None
            idle.remove(some[0])
            return some[0]

    def _stays(self, client: RangeClient, settings: str) -> bool:
        """Whether it stays behind its range. Then it is among the idle ones now."""
        with self._lock:
            idle = self._idle[settings]
            stays = client.at is not None and sum(one.at is not None for one in idle) < STAYING
            if stays:
                idle.append(client)
            return stays

    def leave(self, address: Address) -> None:
        """The topic is not read any more: clients that stay there are closed."""
        settings = json.dumps(address.settings(), sort_keys=True)
        with self._lock:
            idle = self._idle.get(settings, [])
            left = [one for one in idle if one.at is not None and one.at[0] == address.topic]
            self._idle[settings] = [one for one in idle if one not in left]
        for one in left:
            one.consumer.close()

    @property
    def idle(self) -> list[RangeClient]:
        """All of them."""
        with self._lock:
            return [one for some in self._idle.values() for one in some]


def _made(address: Address) -> RangeClient:
    from confluent_kafka import Consumer

    settings = {
        "group.id": "tracetypes",  # nobody joins it: partitions are assigned by hand
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": WAIT,
    }
    return RangeClient(address.client(Consumer, settings))


RANGE_CLIENTS: Final = RangeClients()
