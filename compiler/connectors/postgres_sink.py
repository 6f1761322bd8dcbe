"""Tables of PostgreSQL as sinks.

The driver copies the rows of an epoch in one transaction, which also writes the number of the epoch into a table beside them. An
epoch whose transaction went through is not written again, even if our own record is lost. ::

    tracetypes_epochs (run, sink, epoch, start)    the last epoch of each run, and the start of the run that wrote it

With ``mode=upsert`` the table keeps one row of each key: that of the newest marker, then of the largest position, then the
largest by all its columns. That is a maximum, so it depends on the rows alone, and not on how they were cut into epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from io import BytesIO
from math import inf
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tracetypes.compiler.columns.coded_arrays import plain_array
from tracetypes.compiler.connectors.json_rows import json_texts
from tracetypes.compiler.connectors.postgres_address import LONGEST, PostgresAddress
from tracetypes.connectors import SinkRequest
from tracetypes.errors import UsageError
from tracetypes.fencing import Starts, another_driver, another_one

__all__ = ["PostgresSink"]

T = TypeVar("T")

EPOCHS: Final = "tracetypes_epochs"

ACCEPTED: Final = {
    "bigint": ("bigint", "integer", "smallint", "numeric"),
    "text": ("text", "character varying", "uuid"),
    "jsonb": ("jsonb", "json"),
    "double precision": ("double precision", "numeric"),
}
"""The types that a column of a table may have; elsewhere only the type itself. Each keeps a value or refuses it. Not among them
are ``character`` and ``name``, which pad and cut texts."""


class PostgresSink:
    """A table into which the rows of a sink go, each epoch once."""

    def __init__(self, request: SinkRequest) -> None:
        self.address, self.request, self.run = PostgresAddress.of(request.address), request, request.run
        self.columns = {field.name: _type_of(field.type) for field in request.schema}
        self.digits = {field.name: _digits_of(field.type) for field in request.schema}
        self.required = {field.name for field in request.schema if not field.nullable}
        self.key = self.address.key or (("key",) if self.address.mode == "upsert" and request.keyed else ())
        self._check_names()
        self.starts: Starts | None = None
        """The starts of the run. Which one writes is beside the number of the epoch."""
        self.number: str | None = None
        """The number that the server has given to the table, since :meth:`begin`."""

    def _check_names(self) -> None:
        name = f"sink {self.request.sink!r}"
        for column in self.columns:
            if len(column.encode()) > LONGEST or "\0" in column:
                raise UsageError("TT402", f"{name}: PostgreSQL has no column {column!r}", fix="give the field a shorter name")
        if self.address.mode == "append":
            return
        if not self.key:
            raise UsageError("TT402", f"{name} has no key, by which rows of a table are known", fix="write key=COLUMN")
        for column in self.key:
            if column not in self.required:
                why = "may be None there" if column in self.columns else "has no such column"
                fix = f"name some of {', '.join(sorted(self.required))}"
                raise UsageError("TT402", f"key={column}: {name} {why}", fix=fix)
        if self.request.marker is None:
            fix = 'declare sink(..., marker="at")'
            raise UsageError("TT402", f"{name} has no marker= column, which says the newest row of a key", fix=fix)

    @cached_property
    def place(self) -> Any:
        """The table, quoted."""
        from psycopg import sql

        return sql.Identifier(self.address.schema, self.address.table)

    @cached_property
    def epochs(self) -> Any:
        """The table of epochs, quoted."""
        from psycopg import sql

        return sql.Identifier(self.address.schema, EPOCHS)

    @cached_property
    def connection(self) -> Any:
        """The connection, until it is lost."""
        return self.address.connect()

    def close(self) -> None:
        """Close the connection."""
        connection = self.__dict__.pop("connection", None)
        if connection is not None:
            with suppress(Exception):
                connection.close()

    @property
    def identity(self) -> str:
        """The number that the server gives the table; without one if there is none."""
        with self._trouble():
            return self._again(self._number) or ""

    def _number(self) -> str | None:
        row = self.connection.execute(
            "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname = %s AND relname = %s",
            [self.address.schema, self.address.table],
        ).fetchone()
        return None if row is None else str(row[0])

    def begin(self, starts: Starts) -> None:
        """Make the tables if there are none, shut out other writers of this run, and check that this checkpoint knows what was
        written. Raises :class:`RunError` ``TT209``."""
        with self._trouble():
            self._again(self._make)
            self.number = self._again(self._number)
        number, writer = self.last()
        starts.check(self.address.shown, writer, number)
        with self._trouble():
            self._again(lambda: self._note(-1, starts.mine))
        self.starts = starts
        number, _ = self.last()
        starts.check(self.address.shown, starts.mine, number)

    def _make(self) -> None:
        from psycopg import errors, sql

        with suppress(errors.UniqueViolation, errors.DuplicateTable):  # another run has made it at the same moment
            self._execute(
                "CREATE TABLE IF NOT EXISTS {epochs} (run text, sink text, epoch bigint NOT NULL, start bigint NOT NULL, "
                "PRIMARY KEY (run, sink))"
            )
        if self._number() is None:
            lines = [
                sql.SQL("{} {}{}").format(
                    sql.Identifier(name), sql.SQL(kind), sql.SQL(" NOT NULL" if name in self.required else "")
                )
                for name, kind in self.columns.items()
            ]
            if self.key:
                lines.append(sql.SQL("PRIMARY KEY ({})").format(_names(self.key)))
            with suppress(errors.UniqueViolation, errors.DuplicateTable):
                self._execute("CREATE TABLE IF NOT EXISTS {place} ({lines})", lines=sql.SQL(", ").join(lines))
        self._check_table()
        if self.key:
            # a table without a unique key refuses this before any row is written
            self._execute(
                "INSERT INTO {place} ({columns}) SELECT {columns} FROM {place} WHERE false ON CONFLICT ({key}) DO NOTHING"
            )

    def _check_table(self) -> None:
        """Compare the columns of the table with those of the sink. Raises :class:`RunError` ``TT209``."""
        rows = self.connection.execute(
            "SELECT a.attname, format_type(a.atttypid, NULL), format_type(a.atttypid, a.atttypmod), a.atttypmod, "
            "a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND a.attgenerated = '' FROM pg_attribute a "
            "WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            [int(self._number() or 0)],
        ).fetchall()
        kinds = {name: kind for name, kind, *_ in rows}
        has = ", ".join(f"{name} {whole}" for name, _, whole, *_ in rows)
        fix = "name another table: it is made when there is none"
        if [name for name, kind in self.columns.items() if kinds.get(name) not in ACCEPTED.get(kind, (kind,))]:
            wants = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
            raise self.address.trouble(f"it has {has}; the sink has {wants}", fix)
        for name, kind, whole, modifier, _ in rows:
            if name in self.columns and modifier >= 0 and _rounds(kind, modifier, self.digits[name]):
                raise self.address.trouble(f"its column {name} is {whole}, which rounds values of the sink", fix)
        if without := [name for name, *_, must in rows if must and name not in self.required]:
            raise self.address.trouble(f"it has {has}; {', '.join(without)} must have a value", fix)

    def last(self) -> tuple[int, int | None]:
        """The number of the last epoch that was written, and the start that wrote it."""
        with self._trouble():
            from psycopg import errors

            try:
                return self._again(self._last)
            except (errors.UndefinedTable, errors.InvalidSchemaName):  # nothing was written yet
                return -1, None

    def write(self, epoch: int, rows: Any) -> None:
        """Write an epoch, unless it was written before."""
        with self._trouble():
            self._again(lambda: self._write(epoch, rows))

    # ------------------------------------------------------------------------------------------- with the server

    def _write(self, epoch: int, rows: Any) -> None:
        with self.connection.transaction():
            number, writer = self._last(" FOR UPDATE")
            self._check_writer(writer)
            if number >= epoch:
                return
            if self.number not in (None, self._number()):
                raise another_one(self.address.shown, "it was made anew, without the rows that the run has written")
            if self.key:
                self._execute("CREATE TEMP TABLE tracetypes_rows ON COMMIT DROP AS SELECT {columns} FROM {place} WHERE false")
                self._copy("COPY tracetypes_rows ({columns}) FROM STDIN (FORMAT csv)", rows)
                self._execute(UPSERT, **self._comparison())
            else:
                self._copy("COPY {place} ({columns}) FROM STDIN (FORMAT csv)", rows)
            self._note(epoch, 0 if self.starts is None else self.starts.mine)

    def _copy(self, text: str, rows: Any) -> None:
        with self.connection.cursor() as cursor, cursor.copy(self._sql(text)) as copy:
            for one in rows.to_batches():
                copy.write(_csv(one))

    def _comparison(self) -> dict[str, Any]:
        """Parts of :data:`UPSERT`."""
        from psycopg import sql

        assert self.request.marker is not None
        first = [name for name in (self.request.marker, self.request.position) if name is not None]
        rest = [name for name in self.columns if name not in (*first, *self.key)]

        def of(row: str) -> list[Any]:
            columns = [sql.SQL("{}.{}").format(sql.Identifier(row), sql.Identifier(name)) for name in (*first, *rest)]
            return [*columns[: len(first)], sql.SQL("to_jsonb(ROW({}))").format(sql.SQL(", ").join(columns[len(first) :]))]

        others = [name for name in self.columns if name not in self.key] or self.key
        sets = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in others]
        return {
            "largest": sql.SQL(", ").join(sql.SQL("{} DESC").format(one) for one in of("tracetypes_rows")),
            "sets": sql.SQL(", ").join(sets),
            "old": sql.SQL(", ").join(of("tracetypes_old")),
            "new": sql.SQL(", ").join(of("excluded")),
        }

    def _last(self, lock: str = "") -> tuple[int, int | None]:
        names = [self.run, self.request.sink]
        row = self._execute("SELECT epoch, start FROM {epochs} WHERE run = %s AND sink = %s" + lock, names).fetchone()
        return (-1, None) if row is None else (int(row[0]), int(row[1]) or None)

    def _note(self, batch: int, start: int) -> None:
        self._execute(
            "INSERT INTO {epochs} AS e VALUES (%s, %s, %s, %s) ON CONFLICT (run, sink) "
            "DO UPDATE SET epoch = greatest(e.epoch, excluded.epoch), start = excluded.start",
            [self.run, self.request.sink, batch, start],
        )

    def _check_writer(self, writer: int | None) -> None:
        if self.starts is not None and writer != self.starts.mine:
            raise another_driver(self.address.shown, "it has started since, and has shut this one out")

    def _execute(self, text: str, values: Sequence[Any] | None = None, **parts: Any) -> Any:
        return self.connection.execute(self._sql(text, **parts), values)

    def _sql(self, text: str, **parts: Any) -> Any:
        from psycopg import sql

        names = {"place": self.place, "epochs": self.epochs, "columns": _names([*self.columns]), "key": _names(self.key)}
        return sql.SQL(text).format(**names, **parts)

    def _again(self, ask: Callable[[], T]) -> T:
        """Ask, and once more with a new connection if the server has closed the old one."""
        from psycopg import OperationalError

        is_old = "connection" in self.__dict__
        try:
            return ask()
        except OperationalError:
            if not is_old or not self.connection.closed:
                raise
            self.close()
            return ask()

    @contextmanager
    def _trouble(self) -> Iterator[None]:
        """A context that turns exceptions of the package into errors of tracetypes."""
        try:
            import psycopg
        except ImportError:
            self.address.connect()  # it says what is missing
            raise
        try:
            yield
        except psycopg.Error as error:
            self.close()
            raise self.address.trouble(error) from error


UPSERT: Final = (
    "INSERT INTO {place} AS tracetypes_old ({columns}) "
    "SELECT DISTINCT ON ({key}) {columns} FROM tracetypes_rows ORDER BY {key}, {largest} "
    "ON CONFLICT ({key}) DO UPDATE SET {sets} WHERE (({old}) < ({new})) IS NOT FALSE"
)
"""A row of somebody else without a marker is replaced, because nothing says that it is newer."""


def _names(names: Sequence[str]) -> Any:
    from psycopg import sql

    return sql.SQL(", ").join(map(sql.Identifier, names))


def _type_of(kind: Any) -> str:
    """The type of a column for an Arrow type that a sink shows."""
    if pa.types.is_dictionary(kind):
        return _type_of(kind.value_type)
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_uint64(kind) or pa.types.is_decimal(kind):
        return "numeric"
    if pa.types.is_integer(kind):
        return "bigint"
    if pa.types.is_floating(kind):
        return "double precision"
    if pa.types.is_timestamp(kind):
        return "timestamp with time zone"
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "bytea"
    return "jsonb" if pa.types.is_nested(kind) else "text"


def _rounds(kind: str, modifier: int, digits: float) -> bool:
    """Whether a type with a modifier (the server's number for what stands in brackets) rounds values."""
    if kind == "numeric":
        return ((modifier - 4 & 2047) ^ 1024) - 1024 < digits
    return kind == "timestamp with time zone" and modifier < digits


def _digits_of(kind: Any) -> float:
    """How many digits behind the point of a number or of a second a column needs, so that no value is rounded."""
    if pa.types.is_dictionary(kind):
        return _digits_of(kind.value_type)
    if pa.types.is_floating(kind):
        return inf
    return kind.scale if pa.types.is_decimal(kind) else 6 if pa.types.is_timestamp(kind) else 0


def _csv(batch: Any) -> Any:
    """Rows as CSV, in which an empty cell without quotes is a null."""
    texts = pa.RecordBatch.from_arrays([_cells(plain_array(column)) for column in batch.columns], batch.schema.names)
    text = BytesIO()
    pyarrow.csv.write_csv(texts, text, pyarrow.csv.WriteOptions(include_header=False))
    return text.getbuffer()


def _cells(column: Any) -> Any:
    kind = column.type
    if pa.types.is_nested(kind):
        return pc.if_else(column.is_valid(), json_texts(column), pa.scalar(None, pa.large_string()))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([None if data is None else f"\\x{data.hex()}" for data in column.to_pylist()], pa.string())
    return column.cast(pa.string())
