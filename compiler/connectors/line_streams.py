"""Lines that come once: standard input, and sockets.

``-`` is standard input. ``tcp://127.0.0.1:9999`` connects to a server that sends lines, and ``tcp-listen://``
accepts one client after the other: the end of one is no end of the source. A source holds the lines until they are
committed (:class:`Arrivals`), and reads no more from the socket when it holds too many: then the sender waits.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import Callable, Iterator

import attrs

from tracetypes.compiler.connectors.arrivals import BYTES, Arrivals, Part, reason
from tracetypes.compiler.connectors.csv_header import read_header
from tracetypes.compiler.connectors.encodings import as_utf8, without_mark
from tracetypes.compiler.connectors.file_splits import whole_lines
from tracetypes.compiler.connectors.record_blocks import RecordBlocks
from tracetypes.compiler.connectors.socket_address import SocketAddress
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.csv_records import RecordCutter
from tracetypes.errors import RunError
from tracetypes.formats import Csv, Format, JsonLines, Kafka, Parquet
from tracetypes.parsing import header_problem, is_blank

__all__ = ["LineSource", "Lines", "line_format", "read_lines", "socket_lines"]

BLOCK = 1 << 20
"""Bytes that are read at once at most."""

PAUSE = 0.2
"""Seconds after which a silent source looks whether it is still needed."""


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
    """Whole rows of text. ``header``: the columns of CSV, if a row before them said so. ``sender``: the number of who sent
    them. ``doubtful``: how many bytes at their beginning lie within the bound behind a rejected line
    (:mod:`tracetypes.csv_records`)."""

    header: tuple[str, ...] | None
    text: bytes
    sender: int = 0
    doubtful: int = 0


class LineSource:
    """Cuts bytes into whole rows, and puts them into ``arrivals``. ``where``: the source, for errors."""

    def __init__(self, leaf: FromSource, arrivals: Arrivals, where: str) -> None:
        self.leaf, self.arrivals, self.where = leaf, arrivals, where
        self.format, self.sender = line_format(leaf), 0

    def take(self, blocks: Iterator[bytes]) -> bool:
        """Take the bytes of one sender, to their end. Returns whether anybody still reads."""
        self.sender += 1
        some = self._records(blocks, self.format) if isinstance(self.format, Csv) else self._lines(blocks)
        return all(self.arrivals.put(Part(one, one.text.count(b"\n") + 1, len(one.text))) for one in some)

    def _lines(self, blocks: Iterator[bytes]) -> Iterator[Lines]:
        for text in whole_lines(without_mark(self._in_bounds(blocks))):
            yield Lines(None, text, self.sender)

    def _records(self, blocks: Iterator[bytes], format: Csv) -> Iterator[Lines]:
        header: tuple[str, ...] | None = None
        headed = format.columns is not None
        utf8 = as_utf8(self._in_bounds(blocks), format.encoding)
        for some in RecordBlocks(RecordCutter(format.separator)).of(utf8):
            text = some.text
            if not headed:
                header, text = self._header(text, format)
                headed = header is not None
            if text:
                yield Lines(header, text, self.sender, some.doubtful)

    def _in_bounds(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """The blocks, as long as there are line ends in them."""
        length = 0
        for block in blocks:
            behind = len(block) - block.rfind(b"\n") - 1
            length = behind if behind < len(block) else length + behind
            if length > BYTES // 2:
                raise RunError(
                    "TT208", f"{self.where} has a line of more than {length:,} bytes", fix="end each row with a line end"
                )
            yield block

    def _header(self, text: bytes, format: Csv) -> tuple[tuple[str, ...] | None, bytes]:
        """The columns in the first record that is not blank, and what is behind it."""
        cutter, at = RecordCutter(format.separator), 0
        while one := cutter.cut(text, at, last=True):
            if one.end == at:
                break
            row, at = text[at : one.stop], one.end
            if not is_blank(format, row):
                return tuple(read_header(format, self.leaf, row, self.where)), text[at:]
        return None, b""


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
