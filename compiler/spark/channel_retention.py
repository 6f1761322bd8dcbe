"""Retention of channels: a channel keeps everything that a reader has not committed yet."""

from __future__ import annotations

import attrs

from tracetypes.compiler.spark.channels import ChannelReader
from tracetypes.compiler.spark.log import SparkLog

__all__ = ["ChannelRetention"]


@attrs.define(eq=False)
class ChannelRetention:
    """A channel between queries. ``sender``: Spark's log of the query that sends, whose places are the numbers of its
    micro-batches. ``readers``: logs of the queries that read it, and how often each does."""

    reader: ChannelReader
    sender: SparkLog | None = None
    readers: list[tuple[SparkLog, int]] = attrs.Factory(list)

    def clean(self) -> None:
        """Remove what all readers have committed."""
        first: list[int] = []
        for log, readings in self.readers:
            places = self.reader.taken(log)
            first.append(min(places) if len(places) == readings else 0)
        if self.sender is not None:  # a manifest tells whether a micro-batch that is not committed was sent
            first.append(self.sender.ended + 1)
        self.reader.channel.remove(min(first))
