"""Serves a workspace over HTTP, until it is stopped."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from tracetypes.compiler.backend.compilation import extras
from tracetypes.compiler.store.locks import Locks
from tracetypes.compiler.workspace.service.landlock import AVAILABLE
from tracetypes.compiler.workspace.service.registry import read_registry
from tracetypes.errors import UsageError

__all__ = ["Address", "serve"]

DAYS: Final = 365.0
"""How long the first token is valid."""


@attrs.frozen(kw_only=True)
class Address:
    """Where the service listens. ``port``: 0 for one that is free. ``certificate``, ``private_key``: files of TLS. ``is_plain``:
    an address that others reach may go without them."""

    host: str = "127.0.0.1"
    port: int = 8765
    certificate: Path | None = None
    private_key: Path | None = None
    is_plain: bool = False

    def need_safe(self) -> None:
        """Raises :class:`UsageError` ``TT421`` for an address that others reach without TLS."""
        if self.certificate is None and not self.is_plain and not _is_loopback(self.host):
            raise UsageError(
                "TT421",
                f"others reach {self.host}, and tokens would be read on the way",
                fix="give --certificate and --private-key, or --without-tls behind a proxy that has TLS",
            )


def serve(
    folder: Path, address: Address, *, backend: str = "local", say: Callable[[str], None] = print
) -> None:
    """Serve the workspace in a folder until SIGINT or SIGTERM. ``say``: called with lines for the user. Raises
    :class:`UsageError` ``TT421``, ``TT414``, ``TT402`` for an address that is taken or a backend that cannot be confined, and
    :class:`RunError` ``TT221`` if a service runs there."""
    address.need_safe()
    _need_backend(backend)
    with extras():
        import uvicorn

        from tracetypes.compiler.workspace.service.http_api import application
        from tracetypes.compiler.workspace.service.service import Service
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    registry = read_registry(folder / "registry.toml")
    with Locks() as locks, _listening(address) as listening:
        locks.take(folder / "private", "the service")
        service = Service(folder, registry, backend)
        try:
            _first_token(service, folder, say)
            scheme = "http" if address.certificate is None else "https"
            host, port = listening.getsockname()[:2]
            config = uvicorn.Config(
                application(service, is_secure=address.certificate is not None),
                log_level="warning",
                ssl_certfile=address.certificate,
                ssl_keyfile=address.private_key,
                ssl_version=ssl.PROTOCOL_TLS_SERVER,
                server_header=False,
                timeout_graceful_shutdown=5,
                limit_concurrency=500,
                h11_max_incomplete_event_size=64 << 10,
            )
            say(f"serving {folder} at {scheme}://{f'[{host}]' if ':' in host else host}:{port}")
            server = uvicorn.Server(config)
            for one in (signal.SIGINT, signal.SIGTERM):
                signal.signal(one, lambda *_: setattr(server, "should_exit", True))
            asyncio.run(server.serve(sockets=[listening]))
        finally:
            say("stopping: the flows stay submitted")
            service.close()


def _need_backend(backend: str) -> None:
    """Raises :class:`UsageError` ``TT402`` for Spark where workers are confined. Its Java looks up the Python processes that it
    starts in ``/proc``. Landlock cannot open that for them alone, and the environment of the service and of others lies there."""
    if backend == "spark" and AVAILABLE:
        raise UsageError(
            "TT402",
            "Spark does not run in the confined worker processes of a service: it needs to see all processes",
            fix="serve with --backend local; a program of yours may open Workspace(path, backend='spark')",
        )


def _first_token(service: object, folder: Path, say: Callable[[str], None]) -> None:
    """A token for the administrator, in a file that only the user of the service reads."""
    from tracetypes.compiler.workspace.service.service import Service

    assert isinstance(service, Service)
    if any(one.is_administrator for one in service.accounts.tokens()):
        return
    text, _ = service.accounts.make_token("administrator", "administrator", DAYS)
    path = folder / "private" / "administrator.token"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text + "\n")
    say(f"the token of the administrator is in {path}")


def _listening(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # With the protocol named, asyncio sends each answer at once; else its second part waits 40 ms for the client's ACK.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address.host, address.port))
        listening.listen(100)  # so that clients wait who come early
    except (OSError, OverflowError) as error:
        listening.close()
        fix = "give another --host or --port; port 0 takes one that is free"
        raise UsageError("TT402", f"cannot listen at {address.host}:{address.port}: {error}", fix=fix) from error
    return listening


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
