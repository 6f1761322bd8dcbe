"""Databases for look-up joins: the queries, and SQLite, which comes with Python.

A database is plain data: its place and what is read from it. Names of tables and columns are checked and quoted; values
are bound, never written into a statement. Nothing is written to a database.
"""

from __future__ import annotations

import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import attrs

from tracetypes.errors import UsageError
from tracetypes.plain_data import from_plain
from tracetypes.records import Boolean, Optional, Record, Schema, show
from tracetypes.schemas import schema_of, show_type

__all__ = ["Database", "Sqlite", "encodes", "identifier"]

R = TypeVar("R")

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def identifier(instance: object, attribute: attrs.Attribute[str], name: object) -> None:
    """The name of a table or column. Raises :class:`UsageError` ``TT121``."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise UsageError(
            "TT121",
            f"{type(instance).__name__} was given the {attribute.name} {show(name)}",
            fix="pass a name of letters, digits and '_' that does not begin with a digit",
        )


def _record(instance: object, attribute: attrs.Attribute[Any], row: Any) -> None:
    schema = schema_of(row)
    if not isinstance(schema, Record):
        raise UsageError(
            "TT121",
            f"{type(instance).__name__} was given the row {show_type(row)}, which is no record",
            fix="pass a frozen record whose fields are named like the columns",
        )
    for name in schema.names:
        identifier(instance, attribute, name)


@attrs.frozen(kw_only=True)
class Database(ABC, Generic[R]):
    """A table that is queried by one column. Operators with the same object share a connection and a cache in each
    process; operators with equal objects do not.

    ``table`` and ``key``: the table, and the column to query, whose values are unique. ``row``: a record type. The columns
    of its fields are those that are read, by name.
    """

    table: str = attrs.field(validator=identifier)
    key: str = attrs.field(validator=identifier)
    row: type[R] = attrs.field(validator=_record)
    columns: Record = attrs.field(init=False, repr=False, eq=False)

    @columns.default
    def _columns(self) -> Schema:
        # Here and not on a worker, where the annotations of a class may not be resolved.
        return schema_of(self.row)

    @abstractmethod
    def connect(self) -> Any:
        """A new connection of the driver."""

    @abstractmethod
    def ask(self, connection: Any, keys: Sequence[Any]) -> Iterable[Sequence[Any]]:
        """The rows of some keys: the key, then the columns."""

    @abstractmethod
    def errors(self) -> tuple[type[Exception], ...]:
        """The exceptions that the driver raises."""

    def may_have(self, connection: Any, key: Any) -> bool:
        """Whether there can be a row with this key. If not, the database is not asked."""
        return True

    def fitted(self, schema: Schema, value: Any) -> Any:
        """A value of the driver in the form that :func:`tracetypes.plain_data.from_plain` takes."""
        return value

    def named(self) -> str:
        """The table in messages, without secrets."""
        return f"table {self.table}"

    @property
    def selected(self) -> str:
        """The key and the columns, quoted."""
        return ", ".join(f'"{name}"' for name in (self.key, *self.columns.names))

    def record(self, row: Sequence[Any]) -> R:
        """The record of a row. Raises :class:`Mismatch`."""
        pairs = zip(self.columns.columns, row, strict=True)
        record: R = from_plain(self.columns, {name: self.fitted(schema, value) for (name, schema), value in pairs})
        return record


@attrs.frozen(kw_only=True)
class Sqlite(Database[R]):
    """A table of an SQLite file, opened for reading only. ``path``: the file, which every machine of a run must have.

    Booleans are read from 0 and 1, times and dates from ISO 8601 texts. The file is opened at the first query:

    >>> @attrs.frozen
    ... class Meter:
    ...     room: str
    >>> Sqlite(path="plant.db", table="meters", key="id", row=Meter).named()
    'table meters of plant.db'
    """

    path: str = attrs.field(converter=str)

    def connect(self) -> Any:
        return sqlite3.connect(f"{Path(self.path).absolute().as_uri()}?mode=ro", uri=True)

    def ask(self, connection: Any, keys: Sequence[Any]) -> Iterable[Sequence[Any]]:
        marks = ", ".join("?" * len(keys))
        rows: list[Sequence[Any]] = connection.execute(
            f'SELECT {self.selected} FROM "{self.table}" WHERE "{self.key}" IN ({marks})', keys
        ).fetchall()
        return rows

    def may_have(self, connection: Any, key: Any) -> bool:
        match key:
            case str():
                return encodes(key, "utf-8")
            case int():
                return -(2**63) <= key < 2**63
            case _:
                return True

    def errors(self) -> tuple[type[Exception], ...]:
        return (sqlite3.Error,)

    def fitted(self, schema: Schema, value: Any) -> Any:
        inner = schema.item if isinstance(schema, Optional) else schema
        return bool(value) if isinstance(inner, Boolean) and value in (0, 1) else value

    def named(self) -> str:
        return f"table {self.table} of {self.path}"


def encodes(text: str, encoding: str) -> bool:
    """Can a text be said in an encoding?"""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
