"""Channels as the local backend reads them: entries between two places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from tracetypes.compiler.local.log import LocalLog
from tracetypes.compiler.store.channel import Channel
from tracetypes.compiler.store.file_channel import FileChannel, entries_of, manifest_lines, manifest_number
from tracetypes.compiler.store.gate_channel import GateChannel
from tracetypes.compiler.store.topic_channel import ChannelSplits, TopicChannel
from tracetypes.connectors import Offset, Splits

__all__ = ["LocalChannelReader"]

MOST: Final = 64
"""Manifests of one epoch at most."""


class ManifestSplits:
    """The lines of manifests. An offset ``{"next": 4}`` is the first manifest that is not taken. One with an ``end`` is the end
    of the channel for a reader that leaves it, and has the entry that says so."""

    def __init__(self, channel: FileChannel) -> None:
        self.channel = channel

    def begin(self) -> Offset:
        """Before the first manifest."""
        return {"next": 0}

    def end(self, since: Offset) -> Offset:
        """Behind the manifests that are there."""
        if "end" in since:
            return since
        numbers = sorted(manifest_number(one.name) for one in self.channel.manifests.iterdir())
        following = [number for number in numbers if number >= since["next"]][:MOST]
        return {"next": following[-1] + 1} if following else since

    def splits(self, since: Offset, until: Offset) -> list[tuple[str]]:
        """Their lines, in order."""
        numbered = sorted((manifest_number(path.name), path) for path in self.channel.manifests.iterdir())
        within = (path for number, path in numbered if since["next"] <= number < until["next"])
        run = self.channel.contents.run
        lines = [line for path in within for line in entries_of(path, run)]
        if "end" in until and "end" not in since:
            lines += manifest_lines([until["end"]], run)
        return [(line,) for line in lines]


_SPLITS: Final[Mapping[type[Channel], Callable[[Any, int], Splits]]] = {
    FileChannel: lambda channel, tasks: ManifestSplits(channel),
    GateChannel: lambda channel, tasks: ManifestSplits(channel),
    TopicChannel: lambda channel, tasks: ChannelSplits(channel.name, channel.address, tasks, channel.id),
}


@attrs.frozen(eq=False)
class LocalChannelReader:
    """Reads a channel. ``tasks``: how many read at once."""

    channel: Channel
    tasks: int

    def splits(self) -> Splits:
        """Finds the entries."""
        return _SPLITS[type(self.channel)](self.channel, self.tasks)

    def places(self, log: LocalLog) -> list[int]:
        """For each time that a segment reads the channel, the place before which it needs nothing any more."""
        takes = log.takes(log.ended)
        return [] if takes is None else [until["next"] for name, _, until in takes.channels if name == self.channel.directory]
