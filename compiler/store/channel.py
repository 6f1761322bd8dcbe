"""What a channel between segments is: entries at places that grow, appended by one segment and read by others.

Each backend reads a channel in its own way, as it notes itself what it has taken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import Message, StageProgress
from tracetypes.compiler.store.output import Output, SideOutputs
from tracetypes.silence import shown_ranges

__all__ = ["Channel", "Contents", "Entry", "markers_of"]

Entry: TypeAlias = dict[str, Any]
"""A line of a channel: ``{"batch": 3, "markers": [...], "complete": false, "silence": [...]}``, or where rows lie."""


class Contents(ABC):
    """Reads what the lines of a channel name, in workers."""

    @abstractmethod
    def read(self, entry: Entry) -> Iterator[Entry | pa.RecordBatch]:
        """The rows and markers that an entry names. Raises :class:`RunError` where they cannot be read."""


class Channel(ABC):
    """Where a channel lies. Its entries have places, which grow from one epoch of the sender to the next."""

    contents: Contents

    @abstractmethod
    def output(self, plan: Plan, run: str, side_outputs: SideOutputs) -> Output:
        """The near end, which appends. ``run``: the name of the sender's run; ``side_outputs``: where its late and rejected rows
        go."""

    @abstractmethod
    def remove(self, before: int) -> None:
        """Remove the entries before a place."""

    def discard(self) -> None:  # noqa: B027
        """The run is finished: nobody will send or read any more."""


def markers_of(plan: Plan, messages: Sequence[Message], batch: int) -> Entry:
    """What an epoch of the sender has closed."""
    entry: Entry = {"batch": batch, "markers": [], "complete": False, "silence": []}
    for progress in [message.body for message in messages if isinstance(message.body, StageProgress)]:
        if progress.stage == plan.stages[-1].number:
            silence = shown_ranges(progress.silence)
            entry |= {"markers": progress.markers, "complete": progress.complete, "silence": silence}
    return entry
