"""Retention of channels: a channel keeps everything that a reader has not committed yet."""

from __future__ import annotations

from typing import Any, Protocol

import attrs

from tracetypes.compiler.store.channel import Channel
from tracetypes.compiler.store.compatibility import EpochLog
from tracetypes.compiler.store.run_store import RunStore
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
    """A channel between segments. ``sender``: of the segment that sends, whose places are the numbers of its epochs.
    ``readers``: logs of the segments that read it, and how often each does."""

    reader: Any
    sender: RunStore | None = None
    readers: list[tuple[EpochLog, int]] = attrs.Factory(list)

    def check(self) -> None:
        """See at a start that the channel has what is not read yet, and that nobody has read what is still to come. Raises
        :class:`RunError` ``TT225``, ``TT227``."""
        sender, needed = self.sender, self._needed
        if sender is None:
            return
        if (ahead := max(needed, default=0)) > sender.log.begun + 1:
            what = f"it has sent micro-batches up to {sender.log.begun}, and readers of the channel have read up to {ahead - 1}"
            raise apart(sender.path, what, "Rows between would be lost")
        self.reader.channel.check(sender.sent, min(needed, default=0))

    @property
    def _needed(self) -> list[int]:
        """The place from which each reader needs the channel."""
        all_places = [(self.reader.places(log), readings) for log, readings in self.readers]
        return [min(places) if len(places) == readings else 0 for places, readings in all_places]

    def clean(self) -> None:
        """Remove what all readers have committed."""
        # A manifest tells whether an epoch that is not committed was sent.
        own = [] if self.sender is None else [self.sender.log.ended + 1]
        self.reader.channel.remove(min(self._needed + own))
