"""The inputs and outputs of a run: one registry, with a connector for each kind of address or object.

A connector that ``opens`` its addresses by the protocols of :mod:`tracetypes.connectors` needs nothing else: those of other
packages, which entry points name, and some of ours. A backend opens the other inputs by the kind of their connector, and the run
store opens outputs so. Everything else that differs between kinds, such as the words of ``explain`` and whether it lies on a
disk, is a method of the connector.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from typing import ClassVar

from tracetypes.compiler.connectors import delta
from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.files import is_there
from tracetypes.compiler.connectors.installed import FILE_SYSTEMS, installed, installed_schemes, scheme_of
from tracetypes.compiler.connectors.kafka import SCHEME
from tracetypes.compiler.connectors.mqtt import MQTT
from tracetypes.compiler.connectors.postgres_address import SCHEMES
from tracetypes.compiler.connectors.program_rows import LazyRows, is_arrow, is_lazy
from tracetypes.compiler.connectors.socket_address import CONNECTS, LISTENS
from tracetypes.compiler.connectors.store_address import STORES, StoreAddress, is_store
from tracetypes.connectors import Connector as OwnConnector
from tracetypes.connectors import Sink as OwnSink
from tracetypes.connectors import SinkRequest
from tracetypes.errors import UsageError
from tracetypes.formats import Avro, Csv, JsonLines, Kafka, Parquet, TextLines
from tracetypes.nodes import Sink, Source

__all__ = [
    "Connector",
    "connector_of",
    "connector_of_kind",
    "difference",
    "known_schemes",
    "reading",
    "refuse_file_name",
    "register",
    "writing",
]

PIECES = "in pieces (the pieces are the RR split: no data moves)"


class Connector:
    """A kind of input or output. ``scheme``: the beginning of its addresses. ``display_name``: how messages show it,
    by its name. ``by_name``: whether another name means another one; otherwise it is known by its place and may be moved.
    ``is_directory``: whether, as an output, it is a directory of the run. ``remote``: whether it is not on a disk.
    ``format``: a format that only this kind has. ``opens``: opens its addresses, if it keeps to the public protocols."""

    kind: str
    scheme: str
    display_name: str
    by_name: ClassVar[bool] = False
    is_directory: ClassVar[bool] = False
    remote: ClassVar[bool] = False
    format: ClassVar[type[object] | None] = None
    opens: OwnConnector | None = None

    def has(self, address: object) -> bool:
        """Whether an input or output is of this kind."""
        return isinstance(address, str) and address.startswith(self.scheme)

    def path(self, address: str) -> str | None:
        """The local file or directory of an address, or None."""
        return None

    def absolute(self, address: str) -> str:
        """The address as it means the same in every working directory."""
        return address

    def reads(self, kinds: Container[str]) -> bool:
        """Whether a backend reads its addresses. ``kinds``: those that the backend opens itself."""
        return self.kind in kinds if self.opens is None else self.opens.source is not None

    def is_listed(self, address: str) -> bool:
        """Whether the driver lists files there, and the workers read them."""
        return False

    def takes_rows(self, address: str) -> bool:
        """Whether a sink may write to an address with ``://``."""
        return self.remote

    def look_for(self, source: str, address: str) -> None:
        """Check that an input exists, as far as that is possible at once. Raises :class:`RunError` ``TT208``."""

    def reading(self, source: Source, files: str) -> Iterator[tuple[str, str]]:
        """Who finds the rows of a source, and who reads them. ``files``: who finds files, which the backend decides."""
        raise NotImplementedError

    def writing(self) -> Iterator[tuple[str, str]]:
        """Who writes the rows of a sink."""
        yield "Arrow", "write rows where they are; files are moved into place with the commit"


class Files(Connector):
    """A file, or a directory with all files below it."""

    kind, scheme, display_name, is_directory = "files", "", "files", True

    def path(self, address: str) -> str | None:
        """The address, unless it is on another file system."""
        path = address.removeprefix("file://")
        return None if "://" in path else path

    def absolute(self, address: str) -> str:
        """A path from the root."""
        path = self.path(address)
        return address if path is None else os.path.abspath(path)

    def is_listed(self, address: str) -> bool:
        """Those of other file systems are read by Spark."""
        return self.path(address) is not None

    def look_for(self, source: str, address: str) -> None:
        """Check that it exists."""
        if "://" not in address:
            is_there(source, address)

    def reading(self, source: Source, files: str) -> Iterator[tuple[str, str]]:
        """By the format, if it is declared."""
        yield files, f"find files, {PIECES}"
        match source.format:
            case Csv() | JsonLines() | TextLines():
                columns = "columns of text that Python parses"
            case Parquet():
                columns = "columns of Parquet"
            case Avro():
                columns = "columns of records that fastavro reads"
            case _:
                columns = "columns of Parquet, or of text that Python parses"
        yield "Arrow", f"{columns}; key, time, block"


class Objects(Files):
    """An object of a store, or all objects below an address."""

    kind, display_name, is_directory, remote = "objects", "objects of a store", False, True

    def has(self, address: object) -> bool:
        """Of one of the stores."""
        return isinstance(address, str) and is_store(address)

    def path(self, address: str) -> str | None:
        """It has none."""
        return None

    def absolute(self, address: str) -> str:
        """Raises :class:`UsageError` ``TT402`` for an address with credentials."""
        StoreAddress.of(address)
        return address

    def is_listed(self, address: str) -> bool:
        """All of them."""
        return True

    def takes_rows(self, address: str) -> bool:
        """A web server takes none."""
        return not StoreAddress.of(address).is_web

    def look_for(self, source: str, address: str) -> None:
        """Check that it exists."""
        is_there(source, address)

    def writing(self) -> Iterator[tuple[str, str]]:
        """As for files."""
        yield "Arrow", "write rows as objects with hidden names; they are copied into place with the commit"


class Topics(Connector):
    """A topic of Kafka."""

    kind, scheme, display_name, by_name, remote, format = "topic", SCHEME, "topic {}", True, True, Kafka

    def reading(self, source: Source, files: str) -> Iterator[tuple[str, str]]:
        """By offsets."""
        yield "Kafka", "find new offsets, a range for each partition (the ranges are the RR split: no data moves)"
        yield "Arrow", "columns of records, which Python parses; key, time, block"

    def writing(self) -> Iterator[tuple[str, str]]:
        """In transactions."""
        yield "Kafka", "send rows in a transaction, once with the commit"


class Tables(Connector):
    """A Delta table."""

    kind, scheme, display_name = "table", delta.SCHEME, "the table in {}"

    def path(self, address: str) -> str | None:
        """Its directory."""
        path = address.removeprefix(self.scheme)
        return None if "://" in path else path

    def absolute(self, address: str) -> str:
        """With its directory from the root."""
        path = self.path(address)
        return self.scheme + os.path.abspath(path) if path else address

    def takes_rows(self, address: str) -> bool:
        """A table may lie on S3."""
        return is_store(address.removeprefix(self.scheme))

    def look_for(self, source: str, address: str) -> None:
        """Check that its log is readable."""
        delta.open_table(delta.path_of(address))

    def reading(self, source: Source, files: str) -> Iterator[tuple[str, str]]:
        """By versions."""
        yield "Delta", f"find the files that new versions of the table have added, {PIECES}"
        yield "Arrow", "columns of Parquet; key, time, block"


def _postgres_sink(request: SinkRequest) -> OwnSink:
    from tracetypes.compiler.connectors.postgres_sink import PostgresSink  # it needs pyarrow

    return PostgresSink(request)


class PostgresTables(Connector):
    """A table of PostgreSQL, as an output."""

    kind, scheme, display_name, remote = "postgres", SCHEMES[0], "table {}", True
    opens = OwnConnector(sink=_postgres_sink)

    def has(self, address: object) -> bool:
        """By both names of the scheme."""
        return isinstance(address, str) and address.startswith(SCHEMES)

    def writing(self) -> Iterator[tuple[str, str]]:
        """In transactions."""
        yield "PostgreSQL", "copy rows in a transaction, with the number of the micro-batch"


class Installed(Connector):
    """A scheme that an entry point names."""

    remote = True

    def __init__(self, scheme: str, opens: OwnConnector) -> None:
        self.kind, self.scheme, self.display_name, self.opens = scheme, f"{scheme}://", "{}", opens

    def takes_rows(self, address: str) -> bool:
        """If it has a sink."""
        return self.opens is not None and self.opens.sink is not None

    def reading(self, source: Source, files: str) -> Iterator[tuple[str, str]]:
        """By its splits."""
        yield self.scheme, "find splits (they are the RR split: no data moves)"
        yield self.scheme, "read their rows as columns of Arrow"
        yield "Arrow", "key, time, block"

    def writing(self) -> Iterator[tuple[str, str]]:
        """In transactions."""
        yield self.scheme, "write rows in a transaction, with the number of the micro-batch"


class RowsInMemory(Connector):
    """Rows of the program itself. The run first writes them to files."""

    kind, scheme, display_name = "rows", "", "files"

    def has(self, address: object) -> bool:
        """:class:`Rows`, or any iterable of rows."""
        return address is not None and not isinstance(address, str)

    def reading(self, source: Source, files: str) -> Iterator[tuple[str, str]]:
        """In their order."""
        yield "Python", f"take rows of the program, {PIECES}"
        yield "Arrow", "columns of these rows; key, time, block"


class Iterables(Connector):
    """Rows of the program without a length, such as those of a generator."""

    kind, scheme, display_name = "iterable", "", "files"

    def has(self, address: object) -> bool:
        """:class:`LazyRows`, or what would be."""
        rows = address.rows if isinstance(address, LazyRows) else address
        return is_lazy(rows) and not isinstance(rows, str) and not is_arrow(rows)

    def reading(self, source: Source, files: str) -> Iterator[tuple[str, str]]:
        """As they come."""
        yield from _as_it_comes()


class ColumnsInMemory(Connector):
    """A frame of the program: an Arrow table, or a DataFrame of pandas or Polars."""

    kind, scheme, display_name = "columns", "", "a frame"

    def has(self, address: object) -> bool:
        """:class:`LazyRows` of it, or the data."""
        return is_arrow(address.rows if isinstance(address, LazyRows) else address)

    def reading(self, source: Source, files: str) -> Iterator[tuple[str, str]]:
        """As they are."""
        yield "Arrow", "columns of the program; key, time, block"


class Sockets(Connector):
    """A socket, which sends or takes lines."""

    kind, scheme, display_name, remote = "socket", CONNECTS, "a socket", True

    def has(self, address: object) -> bool:
        """Whether it connects or listens."""
        return isinstance(address, str) and address.startswith((CONNECTS, LISTENS))

    def reading(self, source: Source, files: str) -> Iterator[tuple[str, str]]:
        """As they come."""
        yield from _as_it_comes()

    def writing(self) -> Iterator[tuple[str, str]]:
        """As lines."""
        yield "Python", "send lines before the commit, at least once"


class MqttTopics(Connector):
    """Topics of an MQTT broker."""

    kind, scheme, display_name, by_name, remote = "mqtt", MQTT, "an MQTT broker", False, True

    def reading(self, source: Source, files: str) -> Iterator[tuple[str, str]]:
        """As they come."""
        yield "Python", "take messages, and acknowledge them when they are committed"
        yield "Arrow", "columns of messages, which Python parses; key, time, block"

    def writing(self) -> Iterator[tuple[str, str]]:
        """As messages."""
        yield "Python", "publish a message for each row before the commit, at least once"


def _as_it_comes() -> Iterator[tuple[str, str]]:
    """Who reads what comes once."""
    yield "Python", "take what has come, and keep it until it is committed"
    yield "Arrow", "columns of text that Python parses; key, time, block"


class Nowhere(Connector):
    """An output that keeps nothing."""

    kind, scheme, display_name = "nowhere", "noop:", "nothing"

    def has(self, address: object) -> bool:
        """Whether it is the one address of this kind."""
        return isinstance(address, str) and address == self.scheme


class Terminal(Nowhere):
    """Standard input, or standard output."""

    kind, scheme, display_name = "terminal", "-", "standard input"

    def reading(self, source: Source, files: str) -> Iterator[tuple[str, str]]:
        """As it comes."""
        yield from _as_it_comes()


_CONNECTORS: list[Connector] = [
    Objects(),
    Topics(),
    Tables(),
    PostgresTables(),
    Sockets(),
    MqttTopics(),
    Nowhere(),
    Terminal(),
    ColumnsInMemory(),
    Iterables(),
    RowsInMemory(),
    Files(),
]
"""The first one that has what is given is its connector."""


def register(connector: Connector) -> None:
    """Add a connector. It takes precedence over the earlier ones."""
    _CONNECTORS.insert(0, connector)


def connector_of(address: object, format: object = None) -> Connector:
    """The connector of an input or output, which is an address or an object of the program. A connector with a format
    of its own comes first. Addresses without a scheme are files. Raises :class:`UsageError` ``TT402`` for a scheme that nothing
    has."""
    declared = [one for one in _CONNECTORS if one.format is not None and isinstance(format, one.format)]
    built_in = next((one for one in [*declared, *_CONNECTORS] if one in declared or one.has(address)), _CONNECTORS[-1])
    scheme = scheme_of(address) if type(built_in) is Files else None
    if scheme is None or scheme in FILE_SYSTEMS:
        return built_in
    opens = installed(scheme)
    if opens is None:
        raise UsageError(
            "TT402",
            f"{address}: there is no connector for {scheme}://",
            fix=f"write one of {', '.join(known_schemes())}, or install a package that has a connector for {scheme}://",
        )
    return Installed(scheme, opens)


def known_schemes() -> list[str]:
    """The schemes of all addresses that a run can read or write, besides those of file systems that Spark reads."""
    ours = {*(f"{one}://" for one in STORES), *SCHEMES, LISTENS}
    ours.update(one.scheme for one in _CONNECTORS if one.scheme.endswith(":") or one.scheme.endswith("://"))
    return sorted(ours | {f"{one}://" for one in installed_schemes()})


def connector_of_kind(kind: str) -> Connector:
    """The connector of an identity. One that is not installed any more has no way to open anything."""
    return next((one for one in _CONNECTORS if one.kind == kind), Installed(kind, OwnConnector()))


def difference(before: EndpointIdentity, now: EndpointIdentity) -> str | None:
    """How an input or output differs from what it was."""
    was, connector = _display(before), connector_of_kind(before.kind)
    if before.kind != now.kind or (connector.by_name and before.name != now.name):
        return f"it began with {was}, and is given {_display(now)}"
    if before.id != now.id:
        return f"{was} is another one than it began with: it was removed and made anew, or lies elsewhere"
    return None


def _display(identity: EndpointIdentity) -> str:
    return connector_of_kind(identity.kind).display_name.format(identity.name)


def refuse_file_name(source: Source, address: object) -> None:
    """Raises :class:`UsageError` ``TT402`` if a source wants the names of files, and its input is none of files."""
    if source.file_name is not None and not isinstance(connector_of(address), Files):
        raise UsageError(
            "TT402",
            f"source {source.name!r} has file_name={source.file_name!r}, and its input has no files",
            fix="give it files, or leave file_name out",
        )


def reading(source: Source, address: object, *, files: str) -> Iterator[tuple[str, str]]:
    """Who finds the rows of a source, and who reads them. ``address``: its input, if it is known."""
    return connector_of(address, source.format).reading(source, files)


def writing(sink: Sink) -> Iterator[tuple[str, str]]:
    """Who writes the rows of a sink."""
    return connector_of(None, sink.format).writing()
