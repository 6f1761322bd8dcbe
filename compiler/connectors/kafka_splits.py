"""A topic as source splits: ranges of offsets of each partition."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import Any

import attrs

from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.idle import IdleDetector
from tracetypes.compiler.connectors.kafka import PAUSE, Address
from tracetypes.compiler.connectors.kafka_topic import Watch
from tracetypes.compiler.connectors.registered_records import TopicSchemas
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.errors import UsageError
from tracetypes.markers import InBand
from tracetypes.sources import record_reader

__all__ = ["AtMost", "Place", "TopicSource", "TopicSplits"]


@attrs.frozen
class Place:
    """The next offset of each partition, and the idle partitions. As an offset ``{"0": 17, "1": 4, "idle": [1]}``. It
    records what the clock decided, so that an epoch that runs again has the same idle partitions."""

    next: dict[int, int]
    idle: frozenset[int] = frozenset()

    @classmethod
    def of(cls, offset: Mapping[str, Any]) -> Place:
        """From an offset."""
        return cls({int(p): at for p, at in offset.items() if p != "idle"}, frozenset(offset.get("idle", ())))

    @property
    def offset(self) -> dict[str, Any]:
        """As an offset."""
        offsets = {str(partition): at for partition, at in sorted(self.next.items())}
        return {**offsets, "idle": sorted(self.idle)} if self.idle else offsets


@attrs.frozen
class AtMost:
    """How many offsets of a partition a split has at most, and an epoch."""

    of_split: int
    of_epoch: int


@attrs.frozen
class TopicSource:
    """A topic as the input of a source. ``until``: the end of reading of each partition, None for never. ``id``: of the topic.
    ``schemas``: those of a registry, if keys or values have some."""

    address: Address
    until: dict[int, int] | None
    id: str
    schemas: TopicSchemas | None = None

    @classmethod
    def of(cls, leaf: FromSource, text: str, *, bounded: bool) -> TopicSource:
        """From an address. ``bounded``: up to the current offsets. Raises :class:`UsageError` ``TT402`` for what cannot be
        read so."""
        address = Address.of(text)
        record_reader(leaf.source, leaf.layout)  # raises for formats that records do not have
        if address.idle is not None and isinstance(leaf.source.markers, InBand):
            raise UsageError(
                "TT402",
                f"{text}: source {leaf.source.name!r} has markers in band, which no clock can stand for",
                fix="leave idle= out, and send each marker to every partition",
            )
        schemas = TopicSchemas.of(address, leaf.source.format, leaf.layout, f"source {leaf.source.name!r}")
        watch = Watch(address)
        topic = watch.topic()
        return cls(address, watch.offsets(topic.partitions) if bounded else None, topic.id, schemas)

    @property
    def identity(self) -> EndpointIdentity:
        """The identity of the topic."""
        return EndpointIdentity("topic", self.address.topic, self.id)

    def splits(self, most: AtMost | None = None) -> TopicSplits:
        """The splits of the topic."""
        return TopicSplits(self.address, self.until, self.id, most)


class TopicSplits:
    """Splits of a topic; its offsets are those of :class:`Place`. ``until``: the end of reading, None for never.
    ``id``: of the topic that the run began with. ``most``: None for a split of all that is new in a partition. A split is a
    partition, ``start`` and ``until``, the number of partitions, and whether this one is idle."""

    def __init__(self, address: Address, until: Mapping[int, int] | None, id: str, most: AtMost | None = None) -> None:
        self.address, self.until, self.id, self.most = address, until, id, most
        self.silence = None if address.idle is None else IdleDetector(address.idle)
        self.moved = time.monotonic()
        """When something new was there last."""

    def __reduce__(self) -> tuple[Any, ...]:  # without the connection
        return TopicSplits, (self.address, self.until, self.id, self.most)

    @cached_property
    def watch(self) -> Watch:
        """The connection of the process that plans epochs."""
        return Watch(self.address)

    def begin(self) -> dict[str, Any]:
        """The oldest records of the topic."""
        return Place(self.watch.offsets(self.partitions_of_topic(), first=True)).offset

    def partitions_of_topic(self) -> tuple[int, ...]:
        """The partitions of the topic. Raises :class:`RunError` ``TT218`` if it is another topic."""
        topic = self.watch.described()
        if topic is None:
            raise self.address.changed("it is gone")
        if topic.id != self.id:
            raise self.address.changed("it was removed and made anew")
        return topic.partitions

    def end(self, since: dict[str, Any]) -> dict[str, Any]:
        """The end of the next epoch."""
        return self.after(Place.of(since)).offset

    def after(self, place: Place) -> Place:
        """The end of the next epoch, as places."""
        start = place.next
        if (
            self.until is not None
            and start.keys() == self.until.keys()
            and all(start[p] >= self.until[p] for p in start)
        ):
            return place
        partitions = self.partitions_of_topic()
        for before in (start, start if self.until is None else self.until):
            if set(partitions) != set(before):
                raise self.address.changed(f"it had {len(before)} partitions and has {len(partitions)}")
        first, newest = self.watch.bounds(partitions)
        for partition, at in start.items():
            if not first[partition] <= at <= newest[partition]:
                offsets = f"it holds those from {first[partition]} to {newest[partition]}"
                raise self.address.changed(f"the next record of partition {partition} was {at}, and {offsets}")
        ends = {p: max(at, newest[p] if self.until is None else min(newest[p], self.until[p])) for p, at in start.items()}
        share = None if self.most is None else self.most.of_epoch
        if self.address.records is not None:
            share = max(1, self.address.records // len(ends))
        if share is not None:
            ends = {partition: min(end, start[partition] + share) for partition, end in ends.items()}
        idle: set[int] = set()
        if self.silence is not None:
            # Who was idle is so until it sends something: the clock of an earlier process is not known.
            silent = self.silence.of(newest, start) | place.idle
            idle = {partition for partition in silent if newest[partition] == start[partition]}
        there = Place(ends, frozenset(idle))
        if there == place:
            # A backend may ask again at once. What comes later waits at most a tenth longer than it was waited for.
            time.sleep(min(PAUSE, (time.monotonic() - self.moved) / 10))
        else:
            self.moved = time.monotonic()
        return there

    def splits(self, since: dict[str, Any], until: dict[str, Any]) -> list[tuple[int, int, int, int, bool]]:
        """Splits of each partition that has new records or is idle, a piece of each in turn."""
        before, after = Place.of(since).next, Place.of(until)
        ranges = [
            self._ranges(partition, at, after.next[partition])
            for partition, at in before.items()
            if after.next[partition] > at or partition in after.idle
        ]
        some = [one for turn in zip_longest(*ranges) for one in turn if one is not None]
        return [(partition, start, end, len(before), partition in after.idle) for partition, start, end in some]

    def _ranges(self, partition: int, start: int, end: int) -> Sequence[tuple[int, int, int]]:
        step = max(1, end - start) if self.most is None else self.most.of_split
        return [(partition, at, min(end, at + step)) for at in range(start, max(end, start + 1), step)]
