"""PostgreSQL, through psycopg 3, as a database for look-up joins.

The server compares a key by the rules of its column: ``'7'`` finds the integer 7, and a case-insensitive collation
equates texts that differ. A join compares as Python does. So a key must be of its column's type, as the server names
it, or it is an error.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import attrs

from tracetypes.conformance import name_of
from tracetypes.errors import OperatorFailed, UsageError
from tracetypes.records import Float, Integer, Optional, String, Timestamp, show
from tracetypes.schemas import show_type
from tracetypes.stdlib.databases import Database, encodes, identifier

__all__ = ["Postgres"]

R = TypeVar("R")

NO_CASE: Final = "in a collation that takes different texts for equal"

READ: Final = {
    (Float, "numeric"): "::float8",
    (String, "numeric"): "::text",
    (String, "uuid"): "::text",
    (String, "json"): "::text",
    (String, "jsonb"): "::text",
}
"""How a column of a type is read where a field is of another."""

REFUSED: Final = {
    (Integer, "numeric"): "declare it as float or str, or read a view that has {name}::bigint AS {name}",
    (Timestamp, "timestamp"): "read a view that says the zone: {name} AT TIME ZONE 'UTC' AS {name}",
}
"""What helps where a column of a type cannot be read as what a field is."""

RIGHT_KEY: Final = {
    **dict.fromkeys(("int2", "int4", "int8"), "let by= return an int"),
    "bool": "let by= return a bool",
    "text": "let by= return a str",
    "varchar": "let by= return a str",
    "float8": "let by= return a float",
    "bytea": "let by= return bytes",
    "date": "let by= return a date",
    "uuid": "let by= return a uuid.UUID",
    "numeric": "let by= return a decimal.Decimal",
    "timestamp": "let by= return a datetime without a zone",
    "timestamptz": "let by= return a datetime with a zone",
    "float4": "ask a view that has {key}::float8 AS {key}",
    f"text {NO_CASE}": 'ask a view that has {key} COLLATE "C" AS {key}',
    f"varchar {NO_CASE}": 'ask a view that has {key} COLLATE "C" AS {key}',
}
"""What helps where a key is not of its column's type; for other columns, a view of texts."""


def columns_of(key: Any) -> tuple[str, ...]:
    """The types of columns that may be the key column: those that the server compares as Python does."""
    match key:
        case bool():
            return ("bool",)
        case int():
            return "int2", "int4", "int8"
        case float():
            return ("float8",)
        case str():
            return "text", "varchar", "name"
        case bytes():
            return ("bytea",)
        case dt.datetime():
            return ("timestamp",) if key.tzinfo is None else ("timestamptz",)
        case dt.date():
            return ("date",)
        case decimal.Decimal():
            return ("numeric",)
        case uuid.UUID():
            return ("uuid",)
        case _:
            return ()


@attrs.frozen
class Opened:
    """A connection, and what the server says of the table. ``key``: the type of the key's column. ``encoding``: of its
    texts."""

    connection: Any
    statement: str
    key: str
    encoding: str

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


@attrs.frozen(kw_only=True)
class Postgres(Database[R]):
    """A table of a PostgreSQL server; needs the extra ``postgres``.

    ``connection``: a connection string of libpq, such as ``host=db dbname=plant user=reader``. Keep the password out of
    it, because it is shipped with the operator. libpq reads ``PGPASSFILE`` or a service file on the worker.

    ``by=`` returns keys of the column's type: :class:`uuid.UUID` for ``uuid``, :class:`decimal.Decimal` for
    ``numeric``. A ``numeric`` column is read as ``float`` (the nearest one) or ``str``, ``uuid`` as ``str``, ``json``
    as ``str`` or as a record. A ``timestamp`` needs a zone. A text that the database cannot hold, such as one with a
    NUL, has no row. The first query opens the connection:

    >>> @attrs.frozen
    ... class Meter:
    ...     room: str
    >>> where = "host=db dbname=plant user=reader"
    >>> Postgres(connection=where, schema="power", table="meters", key="id", row=Meter).named()
    'table power.meters'
    """

    connection: str = attrs.field(repr=False)
    schema: str = attrs.field(default="public", validator=identifier)

    def connect(self) -> Opened:
        try:
            import psycopg
        except ImportError as error:
            raise UsageError(
                "TT401", f"PostgreSQL needs psycopg ({error})", fix="pip install 'tracetypes[postgres]'"
            ) from None
        connection = psycopg.connect(self.connection, autocommit=True, connect_timeout=10)
        try:
            connection.execute("SET default_transaction_read_only = on")
            connection.execute("SELECT set_config('client_encoding', current_setting('server_encoding'), false)")
            return self.described(connection)
        except BaseException:
            connection.close()
            raise

    def described(self, connection: Any) -> Opened:
        """Asks the server for the types of the columns. Raises :class:`OperatorFailed` ``TT215`` for one that is not read."""
        place = f'"{self.schema}"."{self.table}"'
        oids = [
            column.type_code
            for column in connection.execute(f"SELECT {self.selected} FROM {place} LIMIT 0").description
        ]
        names = connection.execute(
            "SELECT oid::int8, typname::text FROM pg_type WHERE oid = ANY(%s)", [oids]
        ).fetchall()
        key, *types = map(dict(names).__getitem__, oids)
        if key in ("text", "varchar") and connection.info.server_version >= 120_000:
            exact = connection.execute(
                "SELECT collisdeterministic FROM pg_attribute JOIN pg_collation ON pg_collation.oid = attcollation "
                "WHERE attrelid = %s::regclass AND attname = %s",
                [place, self.key],
            ).fetchone()
            key = key if exact is None or exact[0] else f"{key} {NO_CASE}"
        columns = [f'"{self.key}"']
        for (name, schema), kind in zip(self.columns.columns, types, strict=True):
            inner = schema.item if isinstance(schema, Optional) else schema
            if (fix := REFUSED.get((type(inner), kind))) is not None:
                raise OperatorFailed(
                    "TT215",
                    f"{self.named()}: column {name} is {kind}, and {show_type(self.row)}.{name} is {name_of(inner)}",
                    fix=fix.format(name=name),
                )
            columns.append(f'"{name}"{READ.get((type(inner), kind), "")}')
        statement = f'SELECT {", ".join(columns)} FROM {place} WHERE "{self.key}" = ANY(%s)'
        return Opened(connection, statement, key, connection.info.encoding)

    def may_have(self, connection: Opened, key: Any) -> bool:
        return not isinstance(key, str) or ("\0" not in key and encodes(key, connection.encoding))

    def ask(self, connection: Opened, keys: Sequence[Any]) -> Iterable[Sequence[Any]]:
        for key in keys:
            if connection.key not in columns_of(key):
                fix = RIGHT_KEY.get(connection.key, "ask a view that has {key}::text AS {key}")
                raise OperatorFailed(
                    "TT215",
                    f"{self.named()}: column {self.key} is {connection.key}, and by= returned {show(key)}",
                    fix=fix.format(key=self.key),
                )
        rows: list[Sequence[Any]] = connection.connection.execute(connection.statement, [list(keys)]).fetchall()
        return rows

    def errors(self) -> tuple[type[Exception], ...]:
        try:
            import psycopg
        except ImportError:  # connect() has more to say about that
            return ()
        return (psycopg.Error,)

    def named(self) -> str:
        return f"table {self.schema}.{self.table}"
