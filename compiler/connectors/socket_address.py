"""Addresses of sockets."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from typing import ClassVar
from urllib.parse import parse_qsl

import attrs

from tracetypes.compiler.connectors.arrivals import ROWS
from tracetypes.compiler.connectors.endpoint_identity import parts_of_address
from tracetypes.errors import RunError, UsageError

__all__ = ["CONNECTS", "LISTENS", "SocketAddress", "is_loopback"]

CONNECTS, LISTENS = "tcp://", "tcp-listen://"

PATIENCE = 10.0
"""Seconds for a connection."""


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
        if remote == "no" and not is_loopback(parts.hostname):
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


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
