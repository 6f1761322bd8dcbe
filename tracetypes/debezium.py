"""Changes of rows of a database, as Debezium sends them to topics: its envelope, and the place of a change in the log.

The place is compared as the database defines it, by numbers: never as text, by which ``mysql-bin.1000000`` comes before
``mysql-bin.999999``.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Literal, TypeVar

import attrs

from tracetypes.conformance import datetime_of
from tracetypes.errors import UsageError
from tracetypes.formats import Kafka, Registered, kafka
from tracetypes.plain_data import YEARS
from tracetypes.records import Mismatch, Record, Schema, String
from tracetypes.schemas import schema_of

__all__ = ["Change", "change_of", "debezium", "envelope_of", "is_change_of", "payload_of"]

R = TypeVar("R")


@attrs.frozen
class Change(Generic[R]):
    """A change of a row. ``before`` and ``after``: the row, None where there was none, or where the database does not say it.
    ``position``: in the log of the database; later changes have greater ones. ``at``: when the database made it."""

    operation: Literal["create", "update", "delete", "read", "truncate"]
    before: R | None
    after: R | None
    position: tuple[int, ...]
    at: dt.datetime


@attrs.frozen
class Origin:
    """What the connectors say of the place of a change (``source`` of the envelope)."""

    connector: str
    ts_ms: int | None = None
    ts_us: int | None = None
    lsn: int | None = None
    file: str | None = None
    pos: int | None = None
    row: int | None = None
    commit_lsn: str | None = None
    change_lsn: str | None = None
    event_serial_no: int | None = None
    scn: str | None = None
    ssn: int | None = None
    ord: int | None = None


@attrs.frozen
class Envelope:
    """A change as Debezium sends it."""

    before: Any
    after: Any
    op: str
    source: Origin


def debezium(row: type[Any], *, value: Registered | None = None, key: Registered | None = None) -> Kafka:
    """The format of topics with changes of rows that are records ``row``. The source has values ``Change[row]``. ``value``,
    ``key``: as for :func:`kafka`; without them they are JSON, with or without its schema beside it.

    The key of a source with a key column is that of the record, as JSON. An object with one field may be the key of a source
    whose key is no record.
    """
    if not isinstance(row, type):
        raise UsageError("TT115", f"row is {row!r}", fix="give the class of the rows: debezium(row=Account)")
    return attrs.evolve(kafka(value=value, key=key), envelope=row.__qualname__)


def is_change_of(annotation: Any, row: str) -> bool:
    """Whether a type is ``Change`` of rows of a class with this name."""
    arguments: Any = getattr(annotation, "__args__", ())
    return getattr(annotation, "__origin__", None) is Change and getattr(arguments[0], "__qualname__", None) == row


def envelope_of(change: Schema) -> Record:
    """The schema of the envelope of a change."""
    assert isinstance(change, Record)
    fields = dict(change.fields)
    origin = schema_of(Origin)
    return Record(Envelope, (("before", fields["before"]), ("after", fields["after"]), ("op", String()), ("source", origin)))


def payload_of(plain: Any) -> Any:
    """The payload of JSON that may have its schema beside it."""
    return plain["payload"] if isinstance(plain, dict) and plain.keys() == {"schema", "payload"} else plain


_OPERATIONS: Final[Mapping[str, Any]] = {"c": "create", "u": "update", "d": "delete", "r": "read", "t": "truncate"}


def change_of(envelope: Envelope) -> Change[Any]:
    """The change in an envelope. Raises :class:`Mismatch`."""
    operation = _OPERATIONS.get(envelope.op)
    if operation is None:
        raise Mismatch(".op", envelope.op, f"one of {', '.join(_OPERATIONS)}")
    return Change(operation, envelope.before, envelope.after, _position_of(envelope.source), _time_of(envelope.source))


def _time_of(origin: Origin) -> dt.datetime:
    micros = origin.ts_us if origin.ts_us is not None else _needed(origin, "ts_ms") * 1_000
    try:
        return datetime_of(micros)
    except OverflowError:
        raise Mismatch(".source.ts_ms", origin.ts_ms, YEARS) from None


def _needed(origin: Origin, name: str) -> Any:
    value = getattr(origin, name)
    if value is None:
        raise Mismatch(f".source.{name}", None, f"its place in the log, as the connector {origin.connector} says it")
    return value


def _position_of(origin: Origin) -> tuple[int, ...]:
    """The place in the log. Raises :class:`Mismatch`."""
    place = _PLACES.get(origin.connector)
    if place is None:
        raise Mismatch(".source.connector", origin.connector, f"one of {', '.join(_PLACES)}")
    return place(origin)


def _of_binlog(origin: Origin) -> tuple[int, ...]:
    """The number of the file, the offset in it, and the row of the event there."""
    file = _needed(origin, "file")
    number = re.fullmatch(r".*\.(\d{1,18})", file, re.DOTALL | re.ASCII)
    if number is None:
        raise Mismatch(".source.file", file, "the name of a file of the log, which ends with its number")
    return int(number[1]), _needed(origin, "pos"), origin.row or 0


def _of_lsn_texts(origin: Origin) -> tuple[int, ...]:
    """Of the commit, of the change in it, and the event of that."""
    commit, change = _numbers(origin, "commit_lsn"), _numbers(origin, "change_lsn")
    if not commit:
        raise Mismatch(".source.commit_lsn", origin.commit_lsn, "numbers in hexadecimal digits, with colons between")
    return (*commit, *(change or [0] * len(commit)), origin.event_serial_no or 0)


def _numbers(origin: Origin, name: str) -> list[int]:
    text = getattr(origin, name)
    if text is None or text == "NULL":
        return []
    if not re.fullmatch(r"[0-9a-fA-F]{1,15}(:[0-9a-fA-F]{1,15})*", text):
        raise Mismatch(f".source.{name}", text, "numbers in hexadecimal digits, with colons between")
    return [int(part, 16) for part in text.split(":")]


def _of_scn(origin: Origin) -> tuple[int, ...]:
    scn = _needed(origin, "scn")
    if not re.fullmatch(r"\d{1,18}", scn, re.ASCII):
        raise Mismatch(".source.scn", scn, "a number")
    return int(scn), origin.ssn or 0


_PLACES: Final[Mapping[str, Callable[[Origin], tuple[int, ...]]]] = {
    "postgresql": lambda origin: (_needed(origin, "lsn"),),
    "mysql": _of_binlog,
    "mariadb": _of_binlog,
    "sqlserver": _of_lsn_texts,
    "db2": _of_lsn_texts,
    "oracle": _of_scn,
    "mongodb": lambda origin: (_needed(origin, "ts_ms"), _needed(origin, "ord")),
}
"""How each connector says the place."""
