"""What of a channel is kept: everything that a reader has not taken for good."""

from __future__ import annotations

from pathlib import Path

import attrs

from tracetypes.compiler.spark.channels import Channel
from tracetypes.compiler.spark.checkpoint import Checkpoint

__all__ = ["ChannelRetention"]


@attrs.define(eq=False)
class ChannelRetention:
    """A channel between queries. ``sender``: the checkpoint of the query that sends, where places are the numbers of its
    micro-batches; ``readers``: checkpoints of those that read it, and how often each does."""

    channel: Channel
    sender: Checkpoint | None = None
    readers: list[tuple[Checkpoint, int]] = attrs.Factory(list)

    def clean(self) -> None:
        """Remove what all readers have taken for good."""
        found: list[int] = []
        for kept, readings in self.readers:
            places = self.channel.taken(kept.taken, Path(kept.spark, "sources"))
            found.append(min(places) if len(places) == readings else 0)
        if self.sender is not None:  # a manifest tells whether a micro-batch that is not committed was sent
            found.append(self.sender.last("commits") + 1)
        self.channel.remove(min(found))
