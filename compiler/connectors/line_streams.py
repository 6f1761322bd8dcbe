"""Lines that come once: standard input, and sockets.

``-`` is standard input. ``tcp://127.0.0.1:9999`` connects to a server that sends lines, and ``tcp-listen://``
accepts one client after the other: the end of one is no end of the source. A source holds the lines until they are
committed (:class:`Arrivals`), and reads no more from the socket when it holds too many: then the sender waits.
"""

from __future__ import annotations

import ipaddress
import os
import select
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import ClassVar
from urllib.parse import parse_qsl

import attrs

from tracetypes.compiler.connectors.arrivals import BYTES, ROWS, Arrivals, Part, reason
from tracetypes.compiler.connectors.endpoint_identity import parts_of_address
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.errors import RunError, UsageError
from tracetypes.formats import Csv, Format, JsonLines, Kafka, Parquet
from tracetypes.parsing import header_problem, is_blank, split_header

__all__ = ["CONNECTS", "LISTENS", "LineSource", "Lines", "SocketAddress", "line_format", "read_lines", "socket_lines"]

CONNECTS, LISTENS = "tcp://", "tcp-listen://"

BLOCK = 1 << 20
"""Bytes that are read at once at most."""

PATIENCE = 10.0
"""Seconds for a connection."""

PAUSE = 0.2
"""Seconds after which a silent source looks whether it is still needed."""

MARK = b"\xef\xbb\xbf"


@attrs.frozen
class SocketAddress:
    """``tcp://HOST:PORT`` or ``tcp-listen://HOST:PORT``. ``rows``: that are held at most. ``remote``: whether another machine
    may be meant."""

    EXAMPLE: ClassVar[str] = "tcp://127.0.0.1:9999"

    text: str
    host: str
    port: int
    listens: bool
    rows: int = ROWS

    @classmethod
    def of(cls, text: str) -> SocketAddress:
        """An address from text. Raises :class:`UsageError` ``TT402``."""
        parts, port = parts_of_address(text), None
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        rows, remote = options.pop("rows", str(ROWS)), options.pop("remote", "no")
        with suppress(ValueError):
            port = parts.port
        is_count = rows.isascii() and rows.isdigit() and int(rows) > 0
        if not parts.hostname or port is None or parts.path.strip("/") or options or not is_count or remote not in ("yes", "no"):
            raise UsageError(
                "TT402",
                f"{text} is no address of a socket",
                fix="write tcp://HOST:PORT, or tcp-listen://HOST:PORT, with ?rows=N or ?remote=yes behind it if need be",
            )
        if remote == "no" and not _is_loopback(parts.hostname):
            more = f"{'&' if parts.query else '?'}remote=yes"
            raise UsageError(
                "TT402",
                f"{text} is not on this machine: whoever is on the way can read and change the rows",
                fix=f"give an address of this machine (127.0.0.1), or write {text}{more}",
            )
        return cls(text, parts.hostname, port, text.startswith(LISTENS), int(rows))

    def unreadable(self, error: object) -> RunError:
        """The error for a socket that cannot be read."""
        who = "somebody else listens there" if self.listens else "a server listens there"
        return RunError("TT208", f"{self.text} cannot be read: {error}", fix=f"see whether {who}, then run again")

    def unwritable(self, error: object) -> RunError:
        """The error for a socket that cannot be written."""
        return RunError("TT209", f"{self.text} cannot be written: {error}", fix="see the cause; run again to go on")

    def connect(self) -> socket.socket:
        """A connection. Raises :class:`OSError`."""
        connection = socket.create_connection((self.host, self.port), PATIENCE)
        connection.settimeout(None)
        return connection

    def listen(self) -> socket.socket:
        """A socket that accepts clients. Raises :class:`OSError`."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        return socket.create_server((self.host, self.port), family=family)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# ------------------------------------------------------------------------------------------------------ formats


def line_format(leaf: FromSource) -> Csv | JsonLines | Format:
    """The declared format of a source of lines, else JSON lines. Raises :class:`RunError` ``TT207``, ``TT203``."""
    format = leaf.source.format
    if isinstance(format, Parquet):
        raise RunError(
            "TT207",
            f"source {leaf.source.name!r}: lines are not Parquet",
            fix="declare format=csv(...), json_lines() or text_lines(), or no format: lines are JSON",
        )
    if format is None or isinstance(format, Kafka):
        return JsonLines()
    if isinstance(format, Csv) and format.columns is not None:
        problem = header_problem(format, leaf.layout, format.columns, "format=csv(columns=...)")
        if problem is not None:
            raise problem
    return format


@attrs.frozen
class Lines:
    """Whole lines. ``header``: the columns of CSV, if lines before them said so."""

    header: tuple[str, ...] | None
    text: bytes


class LineSource:
    """Cuts bytes into whole lines, and puts them into ``arrivals``. ``where``: the source, for errors."""

    def __init__(self, leaf: FromSource, arrivals: Arrivals, where: str) -> None:
        self.leaf, self.arrivals, self.where = leaf, arrivals, where
        self.format = line_format(leaf)

    def take(self, blocks: Iterator[bytes]) -> bool:
        """Take the bytes of one sender, to their end. Returns whether anybody still reads."""
        headed = not isinstance(self.format, Csv) or self.format.columns is not None
        header: tuple[str, ...] | None = None
        rest: list[bytes] = []
        first, length = True, 0
        for block in blocks:
            at = block.rfind(b"\n") + 1
            if not at:
                rest.append(block)
                length += len(block)
                if length > BYTES // 2:
                    raise RunError(
                        "TT208", f"{self.where} has a line of more than {length:,} bytes", fix="end each row with a line end"
                    )
                continue
            text = b"".join([*rest, block[:at]])
            rest, length = [block[at:]], len(block) - at
            if first:
                text, first = text.removeprefix(MARK), False
            if not headed:
                header, text = self._header(text)
                headed = header is not None
            if text and not self._put(header, text):
                return False
        text = b"".join(rest)
        if first:
            text = text.removeprefix(MARK)
        if text and not headed:
            header, text = self._header(text)
        return not text or self._put(header, text)

    def _header(self, text: bytes) -> tuple[tuple[str, ...] | None, bytes]:
        """The columns in the first line that is not blank, and what is behind it."""
        assert isinstance(self.format, Csv)
        while text:
            line, _, text = text.partition(b"\n")
            line = line.rstrip(b"\r")
            if not is_blank(self.format, line):
                columns = split_header(self.format, line.decode("utf-8", "replace"))
                problem = header_problem(self.format, self.leaf.layout, columns, self.where)
                if problem is not None:
                    raise problem
                return tuple(columns), text
        return None, b""

    def _put(self, header: tuple[str, ...] | None, text: bytes) -> bool:
        return self.arrivals.put(Part(Lines(header, text), text.count(b"\n") + 1, len(text)))


def _blocks(number: int, read: Callable[[], bytes], arrivals: Arrivals) -> Iterator[bytes]:
    """What a file descriptor gives, until its end, or until nobody reads it any more."""
    poll = select.poll()
    poll.register(number, select.POLLIN)
    while not arrivals.closed:
        if poll.poll(PAUSE * 1000):
            block = read()
            if not block:
                return
            yield block


def read_lines(leaf: FromSource, readings: int, number: int | None = None) -> Arrivals:
    """The lines of standard input, or of another file descriptor."""

    def unreadable(error: object) -> RunError:
        return RunError("TT208", f"standard input cannot be read: {error}", fix="give it lines: COMMAND | tracetypes run ...")

    arrivals = Arrivals(readings, unreadable=lambda error: unreadable(reason(error)))
    source = LineSource(leaf, arrivals, "standard input")
    try:
        descriptor = sys.stdin.fileno() if number is None else number
    except (OSError, AttributeError) as error:
        raise unreadable("it is closed") from error

    def body() -> None:
        source.take(_blocks(descriptor, lambda: os.read(descriptor, BLOCK), arrivals))

    arrivals.start("tracetypes standard input", body)
    return arrivals


def socket_lines(leaf: FromSource, address: SocketAddress, readings: int) -> Arrivals:
    """The lines of a socket. Raises :class:`RunError` ``TT208`` if there is no connection."""
    arrivals = Arrivals(readings, address.rows, lambda error: address.unreadable(reason(error)))
    source = LineSource(leaf, arrivals, address.text)
    try:
        endpoint = address.listen() if address.listens else address.connect()
    except OSError as error:
        raise address.unreadable(error.strerror or error) from error

    def take(connection: socket.socket) -> bool:
        with connection:
            return source.take(_blocks(connection.fileno(), lambda: connection.recv(BLOCK), arrivals))

    def clients() -> None:
        with endpoint:
            endpoint.settimeout(PAUSE)
            while not arrivals.closed:
                try:
                    connection, _ = endpoint.accept()
                except TimeoutError:
                    continue
                connection.settimeout(None)
                take(connection)

    def one() -> None:
        take(endpoint)

    arrivals.start(f"tracetypes {address.text}", clients if address.listens else one)
    return arrivals
