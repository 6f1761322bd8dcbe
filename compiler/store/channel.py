"""A channel between segments: entries at growing places. One segment appends them, and others read them.

Each backend reads a channel in its own way, because it records itself what it has read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import attrs
import pyarrow as pa

from tracetypes.compiler.columns.batches import schema_of_rows
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.channel import ChannelKernel
from tracetypes.compiler.runtime.messages import Message, StageProgress
from tracetypes.compiler.store.output_interface import Output, SideOutputs
from tracetypes.marker_runs import MarkerRuns
from tracetypes.silence import read_ranges, shown_ranges

__all__ = ["Channel", "Contents", "Entry", "Kept", "entry_messages", "markers_of", "runs_in"]

Entry: TypeAlias = dict[str, Any]
"""A line of a channel: ``{"batch": 3, "markers": [...], "complete": false, "silence": [...]}``, markers as
ranges, or where rows lie."""


class Contents(ABC):
    """Reads the rows that the lines of a channel name, in workers."""

    @abstractmethod
    def entry(self, line: str) -> Entry:
        """The entry of a line. Raises :class:`RunError` ``TT225``."""

    @abstractmethod
    def read(self, entry: Entry) -> Iterator[Entry | pa.RecordBatch]:
        """The rows and markers of an entry. Raises :class:`RunError` if they cannot be read."""


@attrs.frozen
class Kept:
    """What a channel keeps from a place on. ``size``: bytes; ``since``: when its oldest entry came, in seconds since 1970."""

    size: int
    since: float | None


class Channel(ABC):
    """The place of a channel. The places of its entries grow from one epoch of the sender to the next."""

    directory: str
    """The name of its directory in the checkpoint, which stays if the graph names the channel otherwise."""
    contents: Contents

    @abstractmethod
    def output(self, plan: Plan, run: str, side_outputs: SideOutputs) -> Output:
        """The output that appends to the channel. ``run``: the name of the sender's run. ``side_outputs``: the outputs
        of its late and rejected rows."""

    def check(self, sent: Sequence[int], since: int) -> None:  # noqa: B027
        """See at a start that what epochs ``sent`` is there, from a place on. Raises :class:`RunError` ``TT225``."""

    @abstractmethod
    def remove(self, before: int) -> None:
        """Remove the entries before a place."""

    def kept(self, since: int) -> Kept | None:
        """What lies in the channel from a place on; None if that is not known."""
        return None

    @property
    def first(self) -> int | None:
        """The place of the first entry that is kept; None if there is none, or if that is not known."""
        return None

    def discard(self) -> None:  # noqa: B027
        """Remove what nobody needs when the run is finished."""


def markers_of(plan: Plan, messages: Sequence[Message], batch: int) -> Entry:
    """The markers that an epoch of the sender has closed."""
    entry: Entry = {"batch": batch, "markers": [], "complete": False, "silence": []}
    for progress in [message.body for message in messages if isinstance(message.body, StageProgress)]:
        if progress.stage == plan.stages[-1].number:
            silence = shown_ranges(progress.silence)
            markers = shown_ranges(progress.markers.ranges)
            entry |= {"markers": markers, "complete": progress.complete, "silence": silence}
    return entry


def runs_in(entry: Entry) -> MarkerRuns:
    """The markers of an entry."""
    return MarkerRuns(read_ranges(entry["markers"]))


def entry_messages(contents: Contents, line: str, kernel: ChannelKernel) -> Iterator[Message]:
    """The messages of a line to the key groups of a stage."""
    schema = schema_of_rows(kernel.leaf.layout)
    for part in contents.read(contents.entry(line)):
        if isinstance(part, pa.RecordBatch):
            columns = [c.cast(f.type) for c, f in zip(part.columns, schema, strict=True)]
            yield from kernel.rows(pa.RecordBatch.from_arrays(columns, schema=schema))
        else:
            yield from kernel.markers(runs_in(part), part["complete"], read_ranges(part["silence"]))
