"""What a run can read and write: a connector for each kind of address or object, in one registry.

A backend opens inputs by the kind of their connector, and the run store outputs. Everything else that differs by kind, such as
what is said of it and whether it lies on a disk, is asked of the connector.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from tracetypes.compiler.connectors import delta
from tracetypes.compiler.connectors.files import existing
from tracetypes.compiler.connectors.identity import Identity
from tracetypes.compiler.connectors.kafka import SCHEME
from tracetypes.formats import Csv, JsonLines, Kafka, Parquet
from tracetypes.nodes import Sink, Source

__all__ = ["Connector", "connector_of", "connector_of_kind", "difference", "reading", "register", "writing"]

PIECES = "in pieces (the pieces are the RR split: no data moves)"


class Connector:
    """A kind of input or output. ``scheme``: with which its addresses begin; ``shown``: it in messages, by its name; ``by_name``:
    one of another name is another one, while what is known by its place may be moved; ``is_directory``: as an output it is a
    directory of the run's own; ``remote``: it lies on no disk; ``format``: one that only this kind
    has."""

    kind: ClassVar[str]
    scheme: ClassVar[str]
    shown: ClassVar[str]
    by_name: ClassVar[bool] = False
    is_directory: ClassVar[bool] = False
    remote: ClassVar[bool] = False
    format: ClassVar[type[object] | None] = None

    def has(self, given: object) -> bool:
        """Is it one of these?"""
        return isinstance(given, str) and given.startswith(self.scheme)

    def path(self, address: str) -> str | None:
        """The local file or directory that an address names; None for none."""
        return None

    def look_for(self, source: str, address: str) -> None:
        """See that an input is there, as far as that can be told at once. Raises :class:`RunError` ``TT208``."""

    def reading(self, source: Source, files: str) -> Iterator[tuple[str, str]]:
        """Who finds rows of a source, and who reads them. ``files``: who finds files, which the backend says."""
        raise NotImplementedError

    def writing(self) -> Iterator[tuple[str, str]]:
        """Who writes rows of a sink."""
        yield "Arrow", "write rows where they are; files are moved into place with the commit"


class Files(Connector):
    """A file, or a directory with all files below it."""

    kind, scheme, shown, is_directory = "files", "", "files", True

    def path(self, address: str) -> str | None:
        """The same, unless it lies elsewhere."""
        path = address.removeprefix("file://")
        return None if "://" in path else path

    def look_for(self, source: str, address: str) -> None:
        """It must exist."""
        existing(source, address)

    def reading(self, source: Source, files: str) -> Iterator[tuple[str, str]]:
        """By the format, where that is declared."""
        yield files, f"find files, {PIECES}"
        match source.format:
            case Csv() | JsonLines():
                columns = "columns of text that Python parses"
            case Parquet():
                columns = "columns of Parquet"
            case _:
                columns = "columns of Parquet, or of text that Python parses"
        yield "Arrow", f"{columns}; key, time, block"


class Topics(Connector):
    """A topic of Kafka."""

    kind, scheme, shown, by_name, remote, format = "topic", SCHEME, "topic {}", True, True, Kafka

    def reading(self, source: Source, files: str) -> Iterator[tuple[str, str]]:
        """By offsets."""
        yield "Kafka", "find new offsets, a range for each partition (the ranges are the RR split: no data moves)"
        yield "Arrow", "columns of records, which Python parses; key, time, block"

    def writing(self) -> Iterator[tuple[str, str]]:
        """In transactions."""
        yield "Kafka", "send rows in a transaction, once with the commit"


class Tables(Connector):
    """A Delta table."""

    kind, scheme, shown = "table", delta.SCHEME, "the table in {}"

    def path(self, address: str) -> str | None:
        """Its directory."""
        path = address.removeprefix(self.scheme)
        return None if "://" in path else path

    def look_for(self, source: str, address: str) -> None:
        """Its log must be readable."""
        delta.opened(delta.path_of(address))

    def reading(self, source: Source, files: str) -> Iterator[tuple[str, str]]:
        """By versions."""
        yield "Delta", f"find the files that new versions of the table have added, {PIECES}"
        yield "Arrow", "columns of Parquet; key, time, block"


class RowsInMemory(Connector):
    """Rows of the program itself. They are written to files before the run."""

    kind, scheme, shown = "rows", "", "files"

    def has(self, given: object) -> bool:
        """:class:`Rows`, or any iterable of rows."""
        return given is not None and not isinstance(given, str)

    def reading(self, source: Source, files: str) -> Iterator[tuple[str, str]]:
        """As they come."""
        yield "Python", f"take rows of the program, {PIECES}"
        yield "Arrow", "columns of these rows; key, time, block"


class Nowhere(Connector):
    """An output that keeps nothing."""

    kind, scheme, shown = "nowhere", "noop:", "nothing"

    def has(self, given: object) -> bool:
        """Of one address."""
        return given == self.scheme


class Terminal(Connector):
    """Standard output."""

    kind, scheme, shown = "terminal", "-", "the terminal"

    def has(self, given: object) -> bool:
        """Of one address."""
        return given == self.scheme


_CONNECTORS: list[Connector] = [Topics(), Tables(), Nowhere(), Terminal(), RowsInMemory(), Files()]
"""The first one that has what is given is its connector."""


def register(connector: Connector) -> None:
    """Make a connector known. It is asked before those that are."""
    _CONNECTORS.insert(0, connector)


def connector_of(given: object, format: object = None) -> Connector:
    """The connector of an input or output: an address, or an object of the program. That of a format that only one has goes
    first. Where nothing is known, files."""
    declared = [one for one in _CONNECTORS if one.format is not None and isinstance(format, one.format)]
    return next((one for one in [*declared, *_CONNECTORS] if one in declared or one.has(given)), _CONNECTORS[-1])


def connector_of_kind(kind: str) -> Connector:
    """The connector by which an identity is known."""
    return next(one for one in _CONNECTORS if one.kind == kind)


def difference(known: Identity, now: Identity) -> str | None:
    """In what an input or output is another one than it was."""
    was, connector = _shown(known), connector_of_kind(known.kind)
    if known.kind != now.kind or (connector.by_name and known.name != now.name):
        return f"it began with {was}, and is given {_shown(now)}"
    if known.id != now.id:
        return f"{was} is another one than it began with: it was removed and made anew, or lies elsewhere"
    return None


def _shown(identity: Identity) -> str:
    return connector_of_kind(identity.kind).shown.format(identity.name)


def reading(source: Source, given: object, *, files: str) -> Iterator[tuple[str, str]]:
    """Who finds the rows of a source and who reads them. ``given``: its input, if it is known."""
    return connector_of(given, source.format).reading(source, files)


def writing(sink: Sink) -> Iterator[tuple[str, str]]:
    """Who writes the rows of a sink."""
    return connector_of(None, sink.format).writing()
