"""The look-up join with a database: SQLite, which comes with Python, or PostgreSQL through psycopg 3.

Each process opens its own connection at the first query, and keeps it. Open connections are never sent.

The table should not change while a run goes on: the answer for an item depends on the moment of the query, and a step
that failed runs again. Each process caches rows, also missing ones.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, Literal, TypeVar, overload

import attrs

from tracetypes.errors import OperatorFailed, UsageError
from tracetypes.lookup_table import LookupTable
from tracetypes.records import Mismatch, Record, show
from tracetypes.schemas import show_type
from tracetypes.stdlib.annotations import returned
from tracetypes.stdlib.databases import Database, Sqlite
from tracetypes.stdlib.open_aggregates import settled
from tracetypes.stdlib.postgres import Postgres
from tracetypes.stdlib.signatures import UnorderedOperator
from tracetypes.stdlib.stateless import how_of, joined_row
from tracetypes.templates import Emit, OpStateless

__all__ = ["Database", "LookupJoin", "Postgres", "Sqlite", "lookup_join"]

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")
R = TypeVar("R")

MOST_QUESTIONS: Final = 500
"""So many keys are asked for in one statement at most."""

MOST_SESSIONS: Final = 64
"""So many connections a thread keeps open, for plans that are run one after the other; the oldest is closed first."""

# ------------------------------------------------------------------------------------------------- sessions


class Session:
    """A connection and its cache, of one process and thread. ``size``: the largest number of keys in the cache."""

    def __init__(self, database: Database[Any], size: int) -> None:
        self.database, self.size = database, size
        self.connection: Any = None
        self.cache: OrderedDict[Any, Any] = OrderedDict()

    def row(self, key: Any) -> Any:
        """The row of a key, or None."""
        if key in self.cache:
            self.cache.move_to_end(key)
            return self.cache[key]
        row = self.fetch([key]).get(key)
        self.remember(key, row)
        return row

    def prefetch(self, keys: Iterable[Any]) -> None:
        """Fetch the rows of as many keys as fit into the cache together."""
        distinct = list(dict.fromkeys(keys))[: self.size]
        for key in distinct:
            if key in self.cache:
                self.cache.move_to_end(key)
        unknown = [key for key in distinct if key not in self.cache]
        for at in range(0, len(unknown), MOST_QUESTIONS):
            some = unknown[at : at + MOST_QUESTIONS]
            rows = self.fetch(some)
            for key in some:
                self.remember(key, rows.get(key))

    def rows(self, keys: Sequence[Any]) -> dict[Any, Any]:
        """The rows of those keys that have a row, even if they do not all fit into the cache."""
        rows: dict[Any, Any] = {}
        for at in range(0, len(keys), self.size):
            some = keys[at : at + self.size]
            self.prefetch(some)
            rows.update((key, row) for key in some if (row := self.cache[key]) is not None)
        return rows

    def remember(self, key: Any, row: Any) -> None:
        """Put a row into the cache, in place of the least recently used one."""
        self.cache[key] = row
        if len(self.cache) > self.size:
            self.cache.popitem(last=False)

    def fetch(self, keys: Sequence[Any]) -> dict[Any, Any]:
        """The rows of the database. If a connection is lost that was open before, it is opened again, once."""
        was_open = self.connection is not None
        try:
            rows = self._ask(keys)
        except self.database.errors() as error:
            self.close()
            if not was_open:
                raise self._failed(error) from error
            try:
                rows = self._ask(keys)
            except self.database.errors() as again:
                self.close()
                raise self._failed(again) from again
        key_set, answers = set(keys), dict[Any, Any]()
        for key, *columns in rows:
            if key in answers:
                raise OperatorFailed(
                    "TT215",
                    f"{self.database.named()} has several rows with {self.database.key} = {show(key)}",
                    fix="ask by a column whose values are unique",
                )
            if key not in key_set:
                raise OperatorFailed(
                    "TT215",
                    f"{self.database.named()} has found the row {self.database.key} = {show(key)}, and by= returned none that "
                    f"is equal to that: {show(keys)}",
                    fix="let by= return values of the column's type, and ask a column that compares texts as they are",
                )
            try:
                answers[key] = self.database.record(columns)
            except Mismatch as error:
                raise OperatorFailed(
                    "TT215",
                    f"{self.database.named()}, row {self.database.key} = {show(key)}: {error}",
                    fix=f"correct the row, or the types of {show_type(self.database.row)}",
                ) from error
        return answers

    def close(self) -> None:
        """Close the connection. The next query opens a new one."""
        if self.connection is not None:
            with suppress(Exception):  # it is of no use any more
                self.connection.close()
            self.connection = None

    def _ask(self, keys: Sequence[Any]) -> list[Sequence[Any]]:
        if self.connection is None:
            self.connection = self.database.connect()
        # NaN is equal to nothing, and some texts and numbers cannot be in a table: they have no row.
        able = [key for key in keys if key == key and self.database.may_have(self.connection, key)]
        return list(self.database.ask(self.connection, able)) if able else []

    def _failed(self, error: Exception) -> OperatorFailed:
        return OperatorFailed(
            "TT215",
            f"{self.database.named()} cannot be asked: {type(error).__name__}: {str(error).strip()}",
            fix="see to the database and run again: nothing of this step was kept, the run goes on where it was",
        )


class _Sessions(threading.local):
    """The sessions of a thread. Those of the process that this one was forked from are not ours to use or to close."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.open: dict[tuple[int, int], Session] = {}
        """By the identity of the database, which the session keeps alive."""
        self.inherited: list[dict[tuple[int, int], Session]] = []

    def of(self, database: Database[Any], size: int) -> Session:
        """The session of a database."""
        if self.process != os.getpid():
            self.inherited.append(self.open)
            self.process, self.open = os.getpid(), {}
        session = self.open.get((id(database), size))
        if session is None:
            session = self.open[id(database), size] = Session(database, size)
            if len(self.open) > MOST_SESSIONS:
                self.open.pop(next(iter(self.open))).close()
        return session

    def close(self) -> None:
        """Close all connections and forget what is cached."""
        for session in self.open.values():
            session.close()
        self.open = {}


SESSIONS: Final = _Sessions()


# ------------------------------------------------------------------------------------------------- the operator


@attrs.frozen
class Cached(LookupTable):
    """A table of a database with a cache of ``size`` keys in each process and thread."""

    database: Database[Any]
    size: int

    @property
    def row(self) -> Record:
        return self.database.columns

    def get(self, key: Any, /) -> Any:
        return SESSIONS.of(self.database, self.size).row(key)

    def rows(self, keys: Sequence[Any], /) -> Mapping[Any, Any]:
        return SESSIONS.of(self.database, self.size).rows(keys)

    def prefetch(self, keys: Iterable[Any]) -> None:
        """Learn the rows of as many keys as can be remembered together."""
        SESSIONS.of(self.database, self.size).prefetch(keys)


@attrs.frozen
class LookupJoin(OpStateless[K, V, K, W], Generic[K, V, W]):
    """See :func:`lookup_join`."""

    _word = "lookup_join"

    table: Cached
    by: Callable[[K, V], Any]
    combine: Callable[[V, Any], W]
    how: Literal["inner", "left"]
    to: Any

    def type_arguments(self) -> Mapping[str, Any]:
        return {"W": self.to}

    def prefetch(self, items: Sequence[tuple[K, V]]) -> None:
        names = []
        with suppress(Exception):  # what by raises is told by on_item, for the item that it is
            names = [name for key, value in items if (name := self.by(key, value)) is not None]
        self.table.prefetch(names)

    def on_item(self, key: K, value: V, emit: Emit[K, W]) -> None:
        name = self.by(key, value)
        row = None if name is None else self.table.get(name)
        if row is not None or self.how == "left":
            emit(key, self.combine(value, row))


@overload
def lookup_join(
    database: Database[R],
    *,
    by: Callable[[K, V], Any],
    combine: Callable[[V, R], W],
    how: Literal["inner"] = "inner",
    cache: int = 10_000,
    to: type[W] | None = None,
) -> UnorderedOperator[K, V, K, W]: ...
@overload
def lookup_join(
    database: Database[R],
    *,
    by: Callable[[K, V], Any],
    combine: Callable[[V, R | None], W],
    how: Literal["left"],
    cache: int = 10_000,
    to: type[W] | None = None,
) -> UnorderedOperator[K, V, K, W]: ...
def lookup_join(
    database: Any, *, by: Any, combine: Any, how: Any = "inner", cache: int = 10_000, to: Any = None
) -> Any:
    """``U[K, V] -> U[K, W]``: the look-up join with a database, :class:`Sqlite` or :class:`Postgres`.

    ``by(key, value)`` returns the key of the row, or None. ``combine(value, row)`` returns the new value. Items without
    a row are left out (``inner``), or combined with None (``left``). ``to``: ``W``, where nothing else
    says it. ``cache``: for how many keys each process remembers the row; the least recently used keys
    go first.

    Raises :class:`UsageError` ``TT120``, ``TT121``. If the database cannot be asked, a row does not fit the record, or
    a key has several rows, the run ends with :class:`OperatorFailed` ``TT215``, and nothing is lost.

    >>> import pathlib, sqlite3, tempfile
    >>> @attrs.frozen
    ... class Meter:
    ...     room: str
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "plant.db")
    >>> connection = sqlite3.connect(path)
    >>> _ = connection.executescript("CREATE TABLE meters (id INTEGER, room TEXT); INSERT INTO meters VALUES (7, 'attic')")
    >>> connection.close()
    >>> meters = Sqlite(path=path, table="meters", key="id", row=Meter)
    >>> rooms = lookup_join(meters, by=lambda key, watts: key, combine=lambda watts, meter: meter.room)
    >>> preview(rooms, U[int, int], [(7, 20), (8, 21)])
    [[(7, 'attic')]]
    >>> folder.cleanup()
    """
    if not isinstance(database, Database):
        raise UsageError("TT121", f"lookup_join was given {show(database)}", fix="pass Sqlite(...) or Postgres(...)")
    how_of("lookup_join", how)
    if not callable(by):
        raise UsageError("TT121", f"lookup_join was given {show(by)}, which is no function", fix="pass a function")
    if type(cache) is not int or cache < 1:
        raise UsageError("TT121", f"lookup_join was given cache={show(cache)}", fix="pass a number of keys, from 1")

    def made(key: Any, value: Any) -> Any:
        row = joined_row(database.row, how)
        return LookupJoin(Cached(database, cache), by, combine, how, returned(combine, to, "lookup_join", arguments=(value, row)))

    return settled("lookup_join", made)
