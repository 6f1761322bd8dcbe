"""Rows in files: how a line of text or a row of columns becomes a value, and why it does not.

Text formats are parsed here, by the same code wherever a flow runs, so that a row that does not fit is rejected with the
same reason everywhere. Parquet rows come as plain dicts from whoever reads the file.
"""

from __future__ import annotations

import csv as csv_module
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, TypeAlias, cast

import attrs

from tracetypes.errors import RunError, UsageError
from tracetypes.records import (
    UNIT,
    Mismatch,
    Optional,
    Record,
    Schema,
    UnitValue,
    from_plain,
    from_text,
    key_problem,
    name_of,
    show,
    to_plain,
)

__all__ = ["Csv", "Format", "JsonLines", "Layout", "Parquet", "Row", "csv", "format_of", "json_lines", "parquet"]


@attrs.frozen
class Csv:
    """Delimited text, a row a line. ``separator`` None: runs of white space. ``columns`` None: the first line names them."""

    separator: str | None = ","
    columns: tuple[str, ...] | None = None
    extension: Literal["csv"] = "csv"


@attrs.frozen
class JsonLines:
    """A JSON object a line."""

    extension: Literal["jsonl"] = "jsonl"


@attrs.frozen
class Parquet:
    """Apache Parquet."""

    extension: Literal["parquet"] = "parquet"


Format: TypeAlias = Csv | JsonLines | Parquet


def csv(*, separator: str | None = ",", columns: Sequence[str] | None = None) -> Csv:
    """CSV (RFC 4180 quoting within a line). ``separator=None`` splits at runs of white space, without quoting.

    ``columns`` names the columns of files that have no header line.
    """
    if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
        raise UsageError(
            "TT115",
            f"the separator is {show(separator)}",
            fix="use one character that is no quote and ends no line, or None for white space",
        )
    return Csv(separator, None if columns is None else tuple(columns))


def json_lines() -> JsonLines:
    """JSON lines."""
    return JsonLines()


def parquet() -> Parquet:
    """Parquet."""
    return Parquet()


_BY_NAME: dict[str, Format] = {
    "csv": Csv(),
    "tsv": Csv(separator="\t"),
    "json": JsonLines(),
    "jsonl": JsonLines(),
    "ndjson": JsonLines(),
    "parquet": Parquet(),
}


def format_of(name: str, declared: Format | None, default: Format | None = None) -> Format:
    """The declared format, or the one that a file's name tells. Raises :class:`RunError` ``TT207``."""
    if declared is not None:
        return declared
    suffixes = [s.lstrip(".").lower() for s in PurePath(name).suffixes if s.lower() not in (".gz", ".bz2", ".zst")]
    found = _BY_NAME.get(suffixes[-1]) if suffixes else None
    if found is not None:
        return found
    if default is not None:
        return default
    raise RunError(
        "TT207",
        f"the format of {name!r} is unknown",
        fix=f"name it *.{{{','.join(_BY_NAME)}}} or declare format=csv(...) at the source",
    )


# ------------------------------------------------------------------------------------------------- layout


@attrs.frozen
class Layout:
    """How a pair ``(key, value)`` lies in columns: a column ``key`` unless it is ``Unit``, then the fields of a record
    value, or a column ``value``. A record with a field that is called ``key`` is not opened when there is a key column."""

    key: Schema
    value: Schema
    reserved: tuple[str, ...] = ()

    @property
    def keyed(self) -> bool:
        """Is there a key column?"""
        return not isinstance(self.key, UnitValue)

    @property
    def opened(self) -> bool:
        """Are the fields of the value columns?"""
        taken = {*(("key",) if self.keyed else ()), *self.reserved}
        return isinstance(self.value, Record) and not any(name in taken for name, _ in self.value.fields)

    @property
    def columns(self) -> tuple[tuple[str, Schema], ...]:
        """Names and schemas of the columns, in order."""
        key: tuple[tuple[str, Schema], ...] = (("key", self.key),) if self.keyed else ()
        if self.opened and isinstance(self.value, Record):
            return key + self.value.fields
        return (*key, ("value", self.value))

    def pair(self, plain: Mapping[str, Any]) -> tuple[Any, Any]:
        """The pair of a row of JSON-like values. Raises :class:`Mismatch`."""
        key = from_plain(self.key, _column(plain, "key", self.key), ".key") if self.keyed else UNIT
        if self.opened:
            return key, from_plain(self.value, plain)
        return key, from_plain(self.value, _column(plain, "value", self.value), ".value")

    def plain(self, key: Any, value: Any) -> dict[str, Any]:
        """The inverse of :meth:`pair`."""
        row: dict[str, Any] = {"key": to_plain(self.key, key)} if self.keyed else {}
        plain = to_plain(self.value, value)
        row.update(plain if self.opened else {"value": plain})
        return row


def _column(plain: Mapping[str, Any], name: str, schema: Schema) -> Any:
    if name not in plain and not isinstance(schema, Optional | UnitValue):
        raise Mismatch(f".{name}", Absent(), name_of(schema))
    return plain.get(name)


class Absent:
    """Stands for a column that is not there."""

    def __repr__(self) -> str:
        return "missing"


# ------------------------------------------------------------------------------------------------- reading


@attrs.frozen
class Row:
    """What a row of a source turned out to be. ``kind``: ``item`` (key, value, time), ``marker`` (time) or ``reject``
    (reason). ``time`` is in microseconds; for items of sources with markers in band it is 0."""

    kind: Literal["item", "marker", "reject"]
    key: Any = None
    value: Any = None
    time: int = 0
    reason: str = ""


RowReader: TypeAlias = Callable[[Any], Row]


def text_parser(
    format: Csv | JsonLines, layout: Layout, header: Sequence[str] | None
) -> Callable[[str], tuple[Any, Any]]:
    """A function from a line to a pair; it raises :class:`Mismatch`. ``header``: the columns of the file at hand."""
    if isinstance(format, JsonLines):
        return lambda line: layout.pair(_object(line))
    names = list(header if header is not None else format.columns or [name for name, _ in layout.columns])
    position = {name: at for at, name in enumerate(names)}
    wanted = [(name, schema, position.get(name)) for name, schema in layout.columns]
    absent = [one for one in wanted if one[2] is None and not isinstance(one[1], Optional | UnitValue)]
    separator, width = format.separator, len(names)
    build = _builder(layout)

    def parse(line: str) -> tuple[Any, Any]:
        if separator is None:
            cells = line.split()
        elif '"' in line:
            cells = _quoted(line, separator)
        else:
            cells = line.split(separator)
        if len(cells) != width:
            raise Mismatch("", line, f"{width} columns ({', '.join(names)}), not {len(cells)}")
        if absent:
            raise Mismatch(f".{absent[0][0]}", Absent(), name_of(absent[0][1]))
        return build([from_text(s, cells[at] if at is not None else "", f".{name}") for name, s, at in wanted])

    return parse


def _quoted(line: str, separator: str) -> list[str]:
    try:
        rows = list(csv_module.reader(io.StringIO(line), delimiter=separator, strict=True))
    except csv_module.Error as error:
        raise Mismatch("", line, f"well-formed CSV ({error})") from None
    return rows[0] if rows else []


def _object(line: str) -> dict[str, Any]:
    try:
        plain: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Mismatch("", line, f"a JSON object ({error})") from None
    if not isinstance(plain, dict):
        raise Mismatch("", line, "a JSON object")
    return cast("dict[str, Any]", plain)


def _builder(layout: Layout) -> Callable[[list[Any]], tuple[Any, Any]]:
    schema = layout.value
    if not (layout.opened and isinstance(schema, Record)):
        return lambda cells: (cells[0], cells[1]) if layout.keyed else (UNIT, cells[0])
    cls, names = schema.cls, [name for name, _ in schema.fields]

    def build(cells: list[Any]) -> tuple[Any, Any]:
        key, own = (cells[0], cells[1:]) if layout.keyed else (UNIT, cells)
        try:
            return key, cls(**dict(zip(names, own, strict=True)))
        except Exception as error:  # the author's own validators
            raise Mismatch("", own, f"{cls.__name__} ({type(error).__name__}: {error})") from error

    return build


def header_problem(format: Csv, layout: Layout, found: Sequence[str], where: str) -> RunError | None:
    """The error for a file whose header lacks a column that the record needs, or None."""
    for name, schema in layout.columns:
        if name not in found and not isinstance(schema, Optional):
            return RunError(
                "TT203",
                f"{where} has no column {name!r}; it has {', '.join(map(repr, found)) or 'no columns'}",
                fix=f"name the column {name!r}, or rename the field, or declare format=csv(columns=[...])",
            )
    return None


def split_header(format: Csv, line: str) -> list[str]:
    """The names in a header line."""
    line = line.removeprefix("\ufeff")
    if format.separator is None:
        return line.split()
    return [cell.strip() for cell in next(csv_module.reader([line], delimiter=format.separator), [])]


def checked_key(schema: Schema) -> Callable[[Any], Any]:
    """A function that returns a key or raises :class:`Mismatch` when it is None or NaN."""

    def check(key: Any) -> Any:
        if problem := key_problem(schema, key):
            raise Mismatch(".key", key, f"a key ({problem})")
        return key

    return check
