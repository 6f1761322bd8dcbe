"""A real PostgreSQL for tests: a server on loopback, in a folder of its own, for as long as it is needed.

``.ci/run`` installs it. A server does not run as root: for root it runs as the user ``postgres``.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs


class Unavailable(Exception):
    """There is no PostgreSQL to be had here, and why."""


@attrs.frozen
class Server:
    """A PostgreSQL server of our own, on loopback, in a folder of its own."""

    programs: Path
    folder: Path
    port: int

    def control(self, *words: str) -> None:
        """Run pg_ctl, as a user that the server accepts."""
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-s", *words)

    def start(self) -> None:
        """Returns when it accepts connections."""
        options = f"-c listen_addresses=127.0.0.1 -c fsync=off -p {self.port} -k {self.folder}"
        self.control("-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        """At once."""
        self.control("-m", "immediate", "stop")

    def run(self, program: str, *words: str) -> None:
        """Run a program of the server."""
        user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
        made = subprocess.run(
            [str(self.programs / program), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**os.environ, "LC_ALL": "C"},
            **user,  # type: ignore[call-overload]
        )
        assert made.returncode == 0, made.stderr

    @property
    def connection(self) -> str:
        """For libpq."""
        return f"host=127.0.0.1 port={self.port} dbname=postgres user=tracetypes"


def programs() -> Path:
    """The folder with the programs of the server; Debian has it beside the PATH. Raises :class:`Unavailable`."""
    on_path = shutil.which("postgres")
    found = [Path(on_path)] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        raise Unavailable("PostgreSQL is not on this machine (Debian: apt-get install postgresql)")
    return found[-1].resolve().parent


@contextmanager
def running() -> Iterator[Server]:
    """A server. Raises :class:`Unavailable`."""
    if importlib.util.find_spec("psycopg") is None:
        raise Unavailable("psycopg is not installed")
    where = programs()
    if os.getuid() == 0 and subprocess.run(["id", "postgres"], capture_output=True).returncode:
        raise Unavailable("PostgreSQL does not run as root, and there is no user postgres")
    folder = Path(tempfile.mkdtemp(prefix="tracetypes-"))
    try:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            made = Server(where, folder, free.getsockname()[1])
        if os.getuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        made.run("initdb", "-D", str(folder / "data"), "-U", "tracetypes", "-A", "trust", "-E", "UTF8", "--no-sync")
        made.start()
        try:
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(folder)
