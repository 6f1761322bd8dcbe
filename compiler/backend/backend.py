"""The interface of a backend, which runs segments of a program, one at a time or many at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import attrs

from tracetypes.compiler.backend.channel_retention import ChannelReader
from tracetypes.compiler.backend.control import Bell
from tracetypes.compiler.backend.open_segment import OpenSegment
from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.files import Order
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.store.channel import Channel
from tracetypes.compiler.store.input_files import InputFiles
from tracetypes.compiler.store.inspection import Blobs, StateLog
from tracetypes.compiler.store.locks import Locks
from tracetypes.compiler.store.metrics import Batch
from tracetypes.compiler.store.places import Place
from tracetypes.errors import UsageError

__all__ = ["Backend", "BackendLog", "Engine", "OpenInput", "Opening", "Running", "refuse_unsupported"]


class BackendLog(StateLog, Protocol):
    """A backend's record of the epochs of a segment, as a run needs it."""

    def clean(self) -> None:
        """Remove what a start left that was killed before its first epoch had begun."""

    def moved(self, before: Place, after: Place, /) -> None:
        """The checkpoint is a copy. What lay in the directory ``before`` lies in ``after`` now."""

    @property
    def listed(self) -> Sequence[Place]:
        """The files of listings that epochs have taken."""

    def took_from(self, directory: Place, epoch: int, /) -> bool:
        """Whether an epoch, or one before it, has taken the end of the sources, which is a file of a directory."""


@attrs.frozen
class Opening:
    """The circumstances in which the input of a source is opened. ``address``: a path, an address, or rows of the program.
    ``scratch``: a directory of the run. ``order``: of files. ``bounded``: later rows are not read. ``readings``: how often the
    source is read."""

    leaf: FromSource
    address: Any
    scratch: str
    files_per_step: int | None
    order: Order
    bounded: bool
    readings: int


class OpenInput(Protocol):
    """The input of a source, opened by a backend."""

    @property
    def identity(self) -> EndpointIdentity:
        """The identity, by which a run notices another input."""

    @property
    def warning(self) -> str | None:
        """What a run says once about it."""

    def files(self, checkpoint: Place, label: str, *, tasks: int, appended: bool, follows: bool) -> InputFiles | None:
        """The files of a reading that the driver lists; None if there are none. Options are those of
        :class:`InputFiles`."""


class Running(Protocol):
    """A segment that has been started."""

    def drain(self) -> None:
        """Follow its inputs no longer, end its sources, and answer all open blocks. May be called again."""

    def stop(self) -> None:
        """End soon, and leave open blocks open. May be called again."""

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is over, or for this many seconds. Returns whether it is over."""

    def catch_up(self, seconds: float | None = None) -> bool:
        """Wait until all that is there now is answered and committed, or it is over, or for this many seconds. Returns whether
        it is answered."""

    def listen(self, bell: Bell) -> None:
        """Ring a bell when it is over."""

    @property
    def failure(self) -> BaseException | None:
        """The error that ended it, if it is over."""

    @property
    def processor_seconds(self) -> float:
        """What it has used of a processor, as far as that is known."""

    @property
    def metrics(self) -> Batch | None:
        """The metrics of its last epoch."""


class Backend(Protocol):
    """Runs segments. It opens inputs and channels in its own way."""

    @property
    def tasks(self) -> int:
        """How many splits are read at once."""

    def log(self, checkpoint: Place, /) -> BackendLog:
        """Its record of a segment. Writes nothing."""

    def prepare(self, width: int, locks: Locks) -> None:
        """Called once before anything starts. ``width``: of the widest plan that is known."""

    def reach(self, checkpoint: Place) -> None:
        """See that it can keep its record in a checkpoint there. Raises :class:`UsageError`."""

    def open(self, opening: Opening, /) -> OpenInput:
        """The input of a source."""

    def channel_reader(self, channel: Channel, /) -> ChannelReader:
        """A reader of a channel."""

    def start(self, opened: OpenSegment, /) -> Running:
        """Start a segment, after those that it reads from."""

    def states(self) -> Blobs:
        """What reads the states of stages from a checkpoint."""


class Engine(Protocol):
    """Starts a backend. ``name``: for people. ``backend``: as an option names it."""

    name: str
    backend: str

    @property
    def fuses(self) -> bool:
        """Whether chains of keyed operators are one stage."""

    def unsupported(self, inputs: Mapping[str, object], /) -> Sequence[str]:
        """What the backend cannot do with these inputs, with reasons. Called before anything runs."""

    def log(self, checkpoint: Place, /) -> BackendLog:
        """As of :class:`Backend`."""

    def states(self) -> Blobs:
        """As of :class:`Backend`. It may have to start something."""

    def data_frame(self, table: Any, /) -> Any:
        """An Arrow table as a DataFrame of its own. Raises :class:`UsageError` ``TT402`` if it has none."""

    def hint(self) -> str | None:
        """What a person may do to make the next run start faster, if anything."""

    def started(self, width: int, show: Callable[[str], None]) -> AbstractContextManager[Backend]:
        """A context in which the backend is there. ``width``: of the widest plan. ``show``: is called with what operators
        print."""


def refuse_unsupported(name: str, reasons: Sequence[str]) -> None:
    """Raise :class:`UsageError` ``TT402`` if a backend has reasons why it cannot run a program or flow of this name."""
    if reasons:
        raise UsageError(
            "TT402",
            "\n    ".join([f"this backend cannot run {name}:", *reasons]),
            fix="choose another backend, or do without that",
        )
