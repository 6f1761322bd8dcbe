"""Connectors of one's own: the protocols of a source and of a sink, and what an entry point names.

A package registers a connector for a scheme, in its ``pyproject.toml``::

    [project.entry-points."tracetypes.connectors"]
    shelf = "shelves:connector"

Then ``shelf://...`` is an address of inputs and outputs. ``docs/connectors.md`` has a whole example, and
:func:`tracetypes.testing.check_connector` kills a connector and sees whether it keeps what it promises here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import attrs

from tracetypes.fencing import Starts, another_driver

__all__ = [
    "Connector",
    "Offset",
    "Sink",
    "SinkRequest",
    "Source",
    "SourceRequest",
    "Split",
    "Splits",
    "Starts",
    "Transaction",
    "another_driver",
]

Offset: TypeAlias = dict[str, Any]
"""Up to where a source is read: plain data, as JSON has it. A backend keeps it with each epoch."""


class Splits(Protocol):
    """Finds what there is to read."""

    def begin(self) -> Offset:
        """The offset at which a new run begins."""

    def end(self, since: Offset) -> Offset:
        """The end of an epoch that begins at an offset. It returns the same offset, after a moment, if nothing is new."""

    def splits(self, since: Offset, until: Offset) -> Sequence[tuple[Any, ...]]:
        """The splits between two offsets, the same ones each time. Workers read them."""


class Split(NamedTuple):
    """A part of the rows between two offsets. ``number``: rises along the whole source, by at least one from split to split.
    ``about``: where its rows are, as plain data of JSON."""

    number: int
    about: Any


class Source(Splits, Protocol):
    """A source: splits, and how their rows are read.

    A run keeps the offsets of an epoch before it reads them. After a crash it asks for the same two offsets again, in another
    process, and needs the same rows in the same order. A source is pickled and sent to the processes that read, so it opens what
    cannot be pickled when it needs it.
    """

    @property
    def identity(self) -> str:
        """What changes when the data are removed and made anew. A run does not go on with another one."""

    def splits(self, since: Offset, until: Offset) -> Sequence[Split]:
        """The splits between two offsets, the same ones each time."""

    def read(self, split: Split) -> Iterable[Any]:
        """The rows of a split, in order: Arrow tables or record batches, with a column for each field of the source's record."""


class Transaction(Protocol):
    """What a sink knows by itself of the epochs that it has."""

    def begin(self, starts: Starts) -> None:
        """Prepare for the run. From now on no earlier start of it may write, and one that this run does not know may not have
        written: see :meth:`.Starts.check`."""

    def last(self) -> tuple[int, int | None]:
        """The number of the last epoch of the run that was written, -1 if there is none; and the start that wrote it, None if
        there is none."""


class Sink(Transaction, Protocol):
    """A sink that takes each epoch once: its rows and its number are written in one transaction."""

    @property
    def identity(self) -> str:
        """What changes when the data are removed and made anew; "" if there are none yet. A run does not go on with another
        one."""

    def write(self, epoch: int, rows: Any) -> None:
        """Write the rows of an epoch, an Arrow table, and its number and start, unless :meth:`last` is that epoch or a later one.
        Raises :class:`.RunError` if another start has begun since (:func:`another_driver`)."""

    def close(self) -> None:
        """The run is over. May be called again."""


@attrs.frozen(kw_only=True)
class SourceRequest:
    """What a run asks of a source. ``source``: its name in the flow. ``columns``: which it needs. ``bounded``: what comes later
    than now is not read, so the run ends."""

    address: str
    source: str
    columns: tuple[str, ...]
    bounded: bool


@attrs.frozen(kw_only=True)
class SinkRequest:
    """What a run asks of a sink. ``run`` and ``sink``: whose epochs are numbered; several runs may write to one place.
    ``schema``: of the rows (a ``pyarrow.Schema``), in which a field is nullable if its value may be None. ``keyed``: whether the
    column ``key`` is the key of the rows. ``marker`` and ``position``: the columns that have them, if there are some."""

    address: str
    run: str
    sink: str
    schema: Any
    keyed: bool = False
    marker: str | None = None
    position: str | None = None


@attrs.frozen(kw_only=True)
class Connector:
    """What an entry point of the group ``tracetypes.connectors`` names. ``source``, ``sink``: open an address; None if there is
    nothing to read there, or to write."""

    source: Callable[[SourceRequest], Source] | None = None
    sink: Callable[[SinkRequest], Sink] | None = None
