"""The interface of an input, as this process and its workers read it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs

from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.messages import Message, Piece
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.compiler.store.input_files import InputFiles
from tracetypes.compiler.store.places import Place
from tracetypes.connectors import Splits

__all__ = ["LocalInput", "SplitReader", "SplitRows"]


@attrs.frozen
class SplitRows:
    """The rows of a split. ``part`` of ``parts`` of the source, and whether it is idle. ``notes``: the messages when all rows
    are read. ``check``: raises why the split could not be read, if that is known."""

    piece: Piece
    rows: Iterator[TakenRow | Chunk]
    part: int = 0
    parts: int = 1
    idle: bool = False
    notes: Callable[[], Sequence[Message]] = tuple
    check: Callable[[], None] = lambda: None


class SplitReader(Protocol):
    """Reads the splits of a source, in any process."""

    def reader(self, leaf: FromSource, verifier: Verifier | None) -> Callable[[Any], SplitRows]:
        """Reads splits, in one thread."""


class LocalInput(ABC):
    """The input of a source."""

    identity: EndpointIdentity

    def files(self, checkpoint: Place, label: str, *, tasks: int, appended: bool, follows: bool) -> InputFiles | None:
        """The files of a reading; None if there are none."""
        return None

    warning: str | None = None
    """What a run says once about it."""

    @abstractmethod
    def splits(self, files: InputFiles | None, place: Path) -> Splits:
        """Finds what there is to read. ``files``: of the reading. ``place``: what its directory would be in the checkpoint."""

    def leave(self, place: Path, *, finished: bool) -> None:  # noqa: B027
        """A reading is over. ``finished``: it needs nothing more."""

    @abstractmethod
    def reader(self, leaf: FromSource, verifier: Verifier | None) -> Callable[[Any], SplitRows]:
        """Reads splits, in one thread."""

    def for_worker(self) -> SplitReader:
        """What a worker process needs of it, which only reads splits."""
        return self
