"""Addresses of tables of PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal
from urllib.parse import parse_qsl, unquote

import attrs

from tracetypes.compiler.connectors.endpoint_identity import parts_of_address
from tracetypes.compiler.connectors.socket_address import is_loopback
from tracetypes.errors import RunError, UsageError
from tracetypes.redaction import conceal

__all__ = ["SCHEMES", "PostgresAddress"]

SCHEMES: Final = ("postgres://", "postgresql://")

FOR_LIBPQ: Final = (
    *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile", "service"),
    *("application_name", "channel_binding", "connect_timeout", "options", "target_session_attrs"),
)
"""What stands in an address for the client library."""

LONGEST: Final = 63
"""Bytes of a name. The server cuts longer ones."""


@attrs.frozen
class PostgresAddress:
    """``postgres://USER@HOST:PORT/DATABASE?table=SCHEMA.TABLE``. ``mode``: rows are added, or one of each key is kept. ``key``:
    the columns of the key. ``settings``: of the client library."""

    EXAMPLE: ClassVar[str] = "postgres://USER@HOST/DATABASE?table=TABLE"

    text: str
    schema: str
    table: str
    mode: Literal["append", "upsert"]
    key: tuple[str, ...]
    settings: Mapping[str, str]

    @classmethod
    def of(cls, text: str) -> PostgresAddress:
        """An address from text. Raises :class:`UsageError` ``TT402``."""
        conceal(text)
        parts = parts_of_address(text)
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        options = dict(pairs)
        if parts.password is not None or "password" in options:
            raise _wrong(
                text,
                "has a password, which would stand in logs and checkpoints",
                "leave it out, and let PGPASSFILE (or passfile= in the address) name a file that has it, or PGPASSWORD",
            )
        if len(pairs) > len(options):
            raise _wrong(text, "has a setting twice", "write each once")
        name, mode, key = options.pop("table", ""), options.pop("mode", "append"), options.pop("key", "")
        schema, _, table = name.rpartition(".")
        schema, keys = schema or "public", tuple(filter(None, key.split(",")))
        if not table:
            raise _wrong(text, "names no table", f"write {cls.EXAMPLE}")
        if mode not in ("append", "upsert") or (keys and mode == "append"):
            what = "has a key, and adds rows" if mode == "append" else f"has the mode {mode!r}"
            raise _wrong(text, what, "write mode=append, or mode=upsert with key=COLUMN,COLUMN")
        for one in (schema, table):
            if len(one.encode()) > LONGEST or "\0" in one:
                raise _wrong(text, f"has a name of more than {LONGEST} bytes", "give a shorter one")
        for one in options:
            if one not in FOR_LIBPQ:
                allowed = ", ".join(("table", "mode", "key", *FOR_LIBPQ))
                raise _wrong(text, f"has {one}=, which is no setting", f"the settings are {allowed}")
        try:
            port = parts.port
        except ValueError:
            raise _wrong(text, "has a port that is no number up to 65535", f"write {cls.EXAMPLE}") from None
        host, database = parts.hostname, unquote(parts.path.strip("/"))
        named = {"host": host, "port": port, "dbname": database, "user": unquote(parts.username or "")}
        settings = {name: str(value) for name, value in named.items() if value}
        return cls(text, schema, table, "upsert" if mode == "upsert" else "append", keys, {**settings, **options})

    @property
    def shown(self) -> str:
        """The table in messages."""
        where = self.settings.get("host", "") + (f":{self.settings['port']}" if "port" in self.settings else "")
        return f"{self.schema}.{self.table} of {SCHEMES[0]}{where}/{self.settings.get('dbname', '')}"

    def trouble(self, why: object, fix: str = "see the cause; run again to go on") -> RunError:
        """The error for a table that cannot be written."""
        return RunError("TT209", f"table {self.shown} cannot be written: {str(why).strip()}", fix=fix)

    def connect(self) -> Any:
        """A connection of psycopg. Raises ``psycopg.Error``, and :class:`UsageError` ``TT401`` without psycopg."""
        try:
            import psycopg
        except ImportError as error:
            fix = "pip install 'tracetypes[postgres]'"
            raise UsageError("TT401", f"PostgreSQL needs psycopg ({error})", fix=fix) from None
        settings = {"connect_timeout": "10", "application_name": "tracetypes", **self.settings}
        host = settings.get("host", None if "service" in settings else os.environ.get("PGHOST"))
        is_remote = host is not None and not host.startswith("/") and not is_loopback(host)
        if is_remote and "sslmode" not in settings and "PGSSLMODE" not in os.environ:
            settings["sslmode"] = "verify-full"
            if "sslrootcert" not in settings and "PGSSLROOTCERT" not in os.environ and psycopg.pq.version() >= 160_000:
                settings["sslrootcert"] = "system"
        connection = psycopg.connect(**settings)  # type: ignore[arg-type]
        connection.autocommit = True
        connection.execute("SELECT set_config('TimeZone', 'UTC', false), set_config('client_encoding', 'UTF8', false)")
        return connection


def _wrong(text: str, what: str, fix: str) -> UsageError:
    return UsageError("TT402", f"{text} {what}", fix=fix)
