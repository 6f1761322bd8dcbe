"""This process as a backend: a segment is a thread, and has N more for its work if the parallelism N is above 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import pyarrow as pa

from tracetypes.compiler.backend.backend import Opening
from tracetypes.compiler.backend.open_segment import OpenSegment
from tracetypes.compiler.connectors.registry import connector_of
from tracetypes.compiler.local.channels import LocalChannelReader
from tracetypes.compiler.local.connector_input import ConnectorInput
from tracetypes.compiler.local.heap import limit_heaps
from tracetypes.compiler.local.input_interface import LocalInput
from tracetypes.compiler.local.inputs import OPENINGS
from tracetypes.compiler.local.log import LocalLog, stage_states
from tracetypes.compiler.local.options import LocalOptions
from tracetypes.compiler.local.placement import has_gil
from tracetypes.compiler.local.prints import show_prints
from tracetypes.compiler.local.segment import LocalSegment
from tracetypes.compiler.store.channel import Channel
from tracetypes.compiler.store.inspection import Blobs
from tracetypes.compiler.store.locks import Locks
from tracetypes.compiler.store.places import Place
from tracetypes.errors import UsageError

__all__ = ["LocalBackend", "LocalEngine"]


@attrs.define(eq=False)
class LocalBackend:
    """Runs each segment on a thread of its own. ``width``: how many workers a segment has. One worker is that thread; more are
    threads besides."""

    width: int = 1
    options: LocalOptions = attrs.field(factory=LocalOptions)

    @property
    def tasks(self) -> int:
        """For how many tasks inputs are cut."""
        return self.options.tasks(self.width)

    @staticmethod
    def log(checkpoint: Place) -> LocalLog:
        """Our own log."""
        return LocalLog(checkpoint)

    @staticmethod
    def states() -> Blobs:
        """Those of the log."""
        return stage_states

    def prepare(self, width: int, locks: Locks) -> None:
        """Before inputs are opened: their threads would have heaps of their own. And before threads work: with the first column
        that it converts, Arrow imports pandas, and without Python's lock two threads that do so at once never end."""
        limit_heaps()
        if not has_gil():
            pa.array([0]).to_numpy()

    @staticmethod
    def reach(checkpoint: Place) -> None:
        """It lies on a disk: a run sees to that before it starts."""

    @staticmethod
    def open(opening: Opening) -> LocalInput:
        """The input of a source."""
        connector = connector_of(opening.address)
        if connector.opens is not None:
            return ConnectorInput(opening, connector.kind, connector.opens)
        return OPENINGS[connector.kind](opening)

    def channel_reader(self, channel: Channel) -> LocalChannelReader:
        """A reader of a channel."""
        return LocalChannelReader(channel, self.tasks)

    def start(self, opened: OpenSegment) -> LocalSegment:
        """Start a segment."""
        assert isinstance(opened.store.log, LocalLog)
        return LocalSegment(opened, opened.store.log, self.options).begin()


def _no_input(address: object) -> str | None:
    """Why nothing is read from an address."""
    connector = connector_of(address)
    if not connector.reads(OPENINGS):
        return "no input"
    is_remote = isinstance(address, str) and connector.kind == "files" and not connector.is_listed(address)
    return "not on this machine's disks" if is_remote else None


@attrs.frozen
class LocalEngine:
    """Needs no start."""

    options: LocalOptions = attrs.field(factory=LocalOptions)
    name = "the local backend"
    backend = "local"

    @property
    def fuses(self) -> bool:
        """As the run says."""
        return self.options.fuse

    @staticmethod
    def unsupported(inputs: Mapping[str, object]) -> Sequence[str]:
        """Every plan can run. Files have to lie on this machine, and one source may read standard input."""
        standard = [repr(name) for name, one in inputs.items() if connector_of(one).kind == "terminal"]
        return [
            f"source {name!r} reads {one}, which is {why}"
            for name, one in inputs.items()
            if (why := _no_input(one)) is not None
        ] + ([f"sources {' and '.join(standard)} read the same standard input"] if len(standard) > 1 else [])

    @staticmethod
    def log(checkpoint: Place) -> LocalLog:
        """Our own log."""
        return LocalLog(checkpoint)

    @staticmethod
    def states() -> Blobs:
        """Those of the log."""
        return stage_states

    @staticmethod
    def data_frame(table: Any) -> Any:
        """None."""
        raise UsageError("TT402", "the local backend has no DataFrames", fix="take an Arrow table")

    @staticmethod
    def hint() -> str | None:
        """Nothing."""
        return None

    @contextmanager
    def started(self, width: int, show: Callable[[str], None]) -> Iterator[LocalBackend]:
        """A context in which what operators print is shown."""
        with show_prints(show):
            yield LocalBackend(width, self.options)
