"""Retention of channels: a channel keeps everything that a reader has not committed yet."""

from __future__ import annotations

import threading
from typing import Any, Protocol

import attrs

from tracetypes.compiler.store.channel import Channel, Kept
from tracetypes.compiler.store.compatibility import EpochLog
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.compiler.store.sent_blocks import BEGINNING, SentBlocks
from tracetypes.compiler.store.small_files import apart

__all__ = ["ChannelReader", "ChannelRetention"]


class ChannelReader(Protocol):
    """Reads a channel, in the way of a backend."""

    @property
    def channel(self) -> Channel:
        """The channel."""

    def places(self, log: Any, /) -> list[int]:
        """For each time that a segment reads the channel, the place before which it needs nothing any more. ``log``: the
        backend's, of the segment."""


@attrs.define(eq=False)
class ChannelRetention:
    """A channel between segments, whose readers come and go while it is in use. ``sender``: of the segment that sends, whose
    places are the numbers of its epochs."""

    reader: Any
    sender: RunStore | None = None
    complete: threading.Event = attrs.field(factory=threading.Event)
    """Set when the segment that sends is over and has sent all: a reader that has read all entries is over too."""
    bells: set[threading.Event] = attrs.field(factory=set)
    """Set when something comes, or no more comes."""
    _readers: dict[str, tuple[EpochLog, int]] = attrs.field(init=False, factory=dict)
    _pins: dict[str, int] = attrs.field(init=False, factory=dict)
    _lock: threading.RLock = attrs.field(init=False, factory=threading.RLock)
    """Several readers commit at once."""

    def ring(self) -> None:
        """Something has come."""
        for bell in list(self.bells):
            bell.set()

    def end(self) -> None:
        """No more comes."""
        self.complete.set()
        self.ring()

    def join(self, segment: str, log: EpochLog, readings: int = 1) -> None:
        """A segment reads the channel from now on, ``readings`` times. ``log``: its own, which says what it has committed. From
        the first commit on the log says what it needs, and its pin no longer counts."""
        with self._lock:
            self._readers[segment] = log, readings

    def leave(self, segment: str) -> None:
        """A segment reads the channel no more, and needs nothing of it."""
        with self._lock:
            self._readers.pop(segment, None)
            self._pins.pop(segment, None)

    def pin(self, name: str, place: int) -> None:
        """Keep the entries from a place on, for a reader that has not joined yet."""
        with self._lock:
            self._pins[name] = place

    @property
    def sent(self) -> tuple[int, SentBlocks]:
        """The place behind the last epoch that was sent and committed, and which blocks have been sent up to there."""
        if self.sender is None:
            return 0, SentBlocks()
        place = self.sender.log.ended + 1
        return place, SentBlocks.of(self.sender.before(place))

    @property
    def kept_from(self) -> int:
        """The place of the first entry that is kept, or behind all that was sent."""
        place, first = self.sent[0], self.reader.channel.first
        return place if first is None else min(first, place)

    @property
    def earliest(self) -> tuple[int, int]:
        """The first place that is kept, and the marker behind which everything lies there or later."""
        place, sent = self.sent
        first = self.reader.channel.first
        if self.sender is None or first is None or first >= place:
            return place, sent.behind
        if first == 0:
            return 0, BEGINNING
        before = self.sender.committed(first - 1)
        return (place, sent.behind) if before is None else (first, SentBlocks.of(before).behind)

    @property
    def readers(self) -> tuple[str, ...]:
        """The names of the segments that read the channel."""
        with self._lock:
            return tuple(self._readers)

    def check(self) -> None:
        """See at a start that the channel has what is not read yet, and that nobody has read what is still to come. Raises
        :class:`RunError` ``TT225``, ``TT227``."""
        with self._lock:
            sender, places = self.sender, self._needed
            if sender is None:
                return
            if (ahead := max(places, default=0)) > sender.log.begun + 1:
                newest, last = sender.log.begun, ahead - 1
                what = f"it has sent micro-batches up to {newest}, and readers of the channel have read up to {last}"
                raise apart(sender.path, what, "Rows between would be lost")
            self.reader.channel.check(sender.sent, min(places, default=0))

    @property
    def _places(self) -> dict[str, int]:
        """The place from which each reader needs the channel, and each pin."""
        all_places = {name: (self.reader.places(log), readings) for name, (log, readings) in self._readers.items()}
        needed = {
            name: min(places) if len(places) == readings else self._pins.get(name, 0)
            for name, (places, readings) in all_places.items()
        }
        return {**self._pins, **needed}

    @property
    def _needed(self) -> list[int]:
        return list(self._places.values())

    def kept_for(self) -> dict[str, Kept]:
        """What the channel keeps for each reader and each pin, where that is known. A reader that has failed, or is slow, keeps
        more and more. Readers go on while the files are looked at."""
        with self._lock:
            places = self._places
        kept = {name: self.reader.channel.kept(place) for name, place in places.items()}
        return {name: one for name, one in kept.items() if one is not None}

    def clean(self) -> None:
        """Remove what all readers have committed, and nobody has pinned."""
        with self._lock:
            # A manifest tells whether an epoch that is not committed was sent.
            own = [] if self.sender is None else [self.sender.log.ended + 1]
            if places := self._needed + own:
                self.reader.channel.remove(min(places))
