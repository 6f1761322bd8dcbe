"""Retention of channels: a channel keeps everything that a reader has not committed yet."""

from __future__ import annotations

from typing import Any, Protocol

import attrs

from tracetypes.compiler.store.channel import Channel
from tracetypes.compiler.store.compatibility import EpochLog

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
    """A channel between segments. ``sender``: the log of the segment that sends, whose places are the numbers of its epochs.
    ``readers``: logs of the segments that read it, and how often each does."""

    reader: Any
    sender: EpochLog | None = None
    readers: list[tuple[EpochLog, int]] = attrs.Factory(list)

    def clean(self) -> None:
        """Remove what all readers have committed."""
        needed: list[int] = []
        for log, readings in self.readers:
            places = self.reader.places(log)
            needed.append(min(places) if len(places) == readings else 0)
        if self.sender is not None:  # a manifest tells whether an epoch that is not committed was sent
            needed.append(self.sender.ended + 1)
        self.reader.channel.remove(min(needed))
