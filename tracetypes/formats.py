"""Formats of rows: how a line of text, a row of columns or a record of Kafka becomes a value, and why it may not fit.

The same code parses text wherever a dataflow runs, so that a row that does not fit is rejected with the same reason
everywhere. Rows of Parquet come as plain dicts from the code that reads the file.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, ClassVar, Final, Literal, TypeAlias

import attrs

from tracetypes.conformance import construct, name_of, zone_named, zoned
from tracetypes.errors import RunError, UsageError
from tracetypes.plain_data import Make, from_plain, to_plain
from tracetypes.records import (
    UNIT,
    Mismatch,
    Optional,
    Record,
    Schema,
    UnitValue,
    show,
)

__all__ = [
    "REGISTERED",
    "Avro",
    "Csv",
    "Format",
    "JsonLines",
    "Kafka",
    "Layout",
    "Parquet",
    "ProgramLines",
    "TextLines",
    "avro",
    "csv",
    "ending_of",
    "format_of",
    "json_lines",
    "kafka",
    "parquet",
    "refuse_unwritten",
    "sink_format",
    "text_lines",
]


@attrs.frozen
class Csv:
    """Delimited text (:mod:`tracetypes.csv_records`). ``separator`` None: runs of white space. ``columns`` None: the first
    record of each file has the names. ``zone``, in this format and the others: the zone of times that name none. ``null``:
    the bare cell that is None in an optional column. ``encoding``: its name in Python. ``compression``, in this format and the
    others: of the files that a sink writes; those of a source have it by their names."""

    separator: str | None = ","
    columns: tuple[str, ...] | None = None
    zone: str | None = None
    null: str = ""
    encoding: str = "utf-8"
    extension: Literal["csv"] = "csv"
    compression: str | None = None


@attrs.frozen
class JsonLines:
    """One JSON object per line."""

    zone: str | None = None
    extension: Literal["jsonl"] = "jsonl"
    compression: str | None = None


@attrs.frozen
class ProgramLines(JsonLines):
    """Rows of the program as a run keeps them: JSON objects. One in a list has records that were made by the program, so no
    constructor sees their values again."""


@attrs.frozen
class Parquet:
    """Apache Parquet."""

    zone: str | None = None
    extension: Literal["parquet"] = "parquet"
    compression: str = "snappy"


@attrs.frozen
class Avro:
    """Object container files of Apache Avro, which are only read."""

    zone: str | None = None
    extension: Literal["avro"] = "avro"


@attrs.frozen
class TextLines:
    """Text, a value per line. It has no times, so no zone."""

    zone: ClassVar[None] = None
    extension: ClassVar[Literal["txt"]] = "txt"


Format: TypeAlias = Csv | JsonLines | Parquet | Avro | TextLines
"""Of files."""

MARKER = "tracetypes-marker"

REGISTERED: Final = ("avro", "protobuf", "json_schema")
"""Formats of keys and values of topics whose schemas are in a registry."""


@attrs.frozen
class Kafka:
    """Records of a topic. ``headers``: fields of the value that come from headers of the same name. ``marker``: the header that
    makes a record a marker, or a heartbeat. ``markers``: whether a sink sends markers. ``key``, ``value``: one of
    :data:`REGISTERED`, None for text, bytes and JSON without a schema. ``envelope``: values are changes of rows of a class of
    this name, as Debezium sends them."""

    headers: tuple[str, ...] = ()
    marker: str = MARKER
    markers: bool = False
    zone: str | None = None
    key: str | None = None
    value: str | None = None
    envelope: str | None = None


def csv(
    *,
    separator: str | None = ",",
    columns: Sequence[str] | None = None,
    zone: str | None = None,
    null: str = "",
    encoding: str = "utf-8",
    compression: Literal["gzip", "zstd"] | None = None,
) -> Csv:
    """CSV, strictly RFC 4180: quotes enclose a whole cell, or are doubled inside such a cell, and a quoted cell may have line
    breaks. Of a record that is not well-formed, or longer than 1 MiB, the first line is a reject, and reading goes on at
    the next line. ``separator=None`` splits at runs of white space, without quoting; sinks do not write that.

    ``columns`` names the columns of files without a header line. ``zone``: the time zone of times that name none, such
    as ``"UTC"`` or ``"Europe/Berlin"``. Without it a row with such a time is a reject. A time is also a reject if it
    names no instant in that zone, or two, because the clocks change.

    ``null``: the text that stands for None in an optional column, where it is not quoted. ``encoding``: that of the
    text, by a name that Python knows, such as ``"cp1252"``. ``compression``: of the files of a sink, which get another ending
    (``.csv.gz``, ``.csv.zst``).
    """
    if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
        raise UsageError(
            "TT115",
            f"the separator is {show(separator)}",
            fix="use one character that is no quote and ends no line, or None for white space",
        )
    if set(null) & {'"', "\r", "\n", separator} or (separator is None and null.split() != [null][: bool(null)]):
        raise UsageError(
            "TT115",
            f"the text for None is {show(null)}",
            fix="use a text without quotes, line ends and separators",
        )
    columns = None if columns is None else tuple(columns)
    packed = _checked_compression(compression, (None, *TEXT_ENDINGS))
    return Csv(separator, columns, _checked_zone(zone), null, _checked_encoding(encoding), compression=packed)


TEXT_ENDINGS: Final = {"gzip": "gz", "zstd": "zst"}
"""The endings of compressed files of text."""


def _checked_compression(compression: Any, known: Sequence[Any]) -> Any:
    if compression not in known:
        raise UsageError("TT115", f"the compression is {show(compression)}", fix=f"give one of {', '.join(map(repr, known))}")
    return compression


def ending_of(format: Format) -> str:
    """The ending of the files that a sink writes."""
    packed = None if isinstance(format, Parquet | Avro | TextLines) else format.compression
    return format.extension if packed is None else f"{format.extension}.{TEXT_ENDINGS[packed]}"


def _checked_encoding(encoding: str) -> str:
    """The name of an encoding of text as Python has it. One that only adds a byte order mark is UTF-8."""
    try:
        " ".encode(encoding).decode(encoding)
        codecs.getincrementaldecoder(encoding)
    except (LookupError, ValueError):
        raise UsageError(
            "TT115",
            f"the encoding {show(encoding)} is unknown",
            fix='name one that Python knows, as "utf-8", "cp1252" or "utf-16"',
        ) from None
    name = codecs.lookup(encoding).name
    return "utf-8" if name == "utf-8-sig" else name


def json_lines(*, zone: str | None = None, compression: Literal["gzip", "zstd"] | None = None) -> JsonLines:
    """JSON lines. ``zone``, ``compression``: as for :func:`csv`."""
    return JsonLines(_checked_zone(zone), compression=_checked_compression(compression, (None, *TEXT_ENDINGS)))


def parquet(
    *, zone: str | None = None, compression: Literal["snappy", "gzip", "zstd", "none"] = "snappy"
) -> Parquet:
    """Parquet. ``zone``: the time zone of columns of times without one. Without it such a file is refused. With it a
    file is refused if a time names no instant in that zone, or two."""
    return Parquet(_checked_zone(zone), compression=_checked_compression(compression, ("snappy", "gzip", "zstd", "none")))


def avro(*, zone: str | None = None) -> Avro:
    """Object container files of Avro, for sources only. ``zone``: the time zone of times without one (``local-timestamp-...``).
    Without it a file with such a column is refused, and with it a time is a reject if it names no instant in that zone, or
    two."""
    return Avro(_checked_zone(zone))


def text_lines() -> TextLines:
    """Lines of text, for sources only: each line of UTF-8 is a value, as it is, without its line end. The source has one
    column of text: ``U[Unit, str]``, or ``U[K, str]`` with ``key=``. A line of nothing but white space is no row, and one
    that is not UTF-8 is a reject."""
    return TextLines()


def _checked_zone(zone: str | None) -> str | None:
    try:
        if zone is not None:
            zone_named(zone)
    except ValueError:
        raise UsageError(
            "TT115",
            f"the zone {show(zone)} is unknown",
            fix='name one of the IANA data base, as "UTC" or "Europe/Berlin"',
        ) from None
    return zone


Registered: TypeAlias = Literal["avro", "protobuf", "json_schema"]


def kafka(
    *,
    headers: Sequence[str] = (),
    marker: str = MARKER,
    markers: bool = False,
    zone: str | None = None,
    key: Registered | None = None,
    value: Registered | None = None,
) -> Kafka:
    """How a source or sink reads or writes records of a Kafka topic, if the defaults do not fit. The format of files
    still follows from their ending.

    The key of a source with a key column is the record's key, and the value is its value: a record (or list) as JSON,
    text as UTF-8, bytes as they are, numbers, truth values and times as text. ``headers``: fields of the value that
    come from headers of the same name, as text. ``marker``: a record with this header is not an item. The header is a
    time in the unit of the source's markers. With markers in band it is a marker of its partition, otherwise a
    heartbeat. ``markers``: whether a sink sends each of its markers to every partition, so that a source with markers
    in band reads the same blocks. ``zone``: as for :func:`csv`.

    ``key``, ``value``: ``"avro"``, ``"protobuf"`` or ``"json_schema"`` if the keys or values are of that format, each with the id
    of its schema in front, and their schemas in a registry.
    """
    for name, one in (("key", key), ("value", value)):
        if one is not None and one not in REGISTERED:
            fix = f"give one of {', '.join(map(repr, REGISTERED))}, or leave it out"
            raise UsageError("TT115", f"{name} is {show(one)}", fix=fix)
    if isinstance(headers, str) or not all(headers):
        raise UsageError("TT115", f"headers is {show(headers)}", fix="give a list of names of fields")
    if not marker or marker in headers:
        raise UsageError("TT115", f"marker is {show(marker)}", fix="give the name of a header that no field comes from")
    return Kafka(tuple(headers), marker, markers, _checked_zone(zone), key, value)


_BY_NAME: dict[str, Format] = {
    "csv": Csv(),
    "tsv": Csv(separator="\t"),
    "json": JsonLines(),
    "jsonl": JsonLines(),
    "ndjson": JsonLines(),
    "parquet": Parquet(),
    "avro": Avro(),
}


def sink_format(name: str, declared: Format | Kafka | None) -> Format:
    """The format of the files of an output: as declared, or by the ending of its name, which may also say its compression."""
    format = format_of(name, declared, JsonLines())
    packed = {f".{ending}": one for one, ending in TEXT_ENDINGS.items()}.get(PurePath(name).suffix.lower())
    if packed is None or format is declared or not isinstance(format, Csv | JsonLines):
        return format
    return attrs.evolve(format, compression=packed)


_UNWRITTEN = frozenset(
    ["arrow", "avro", "db", "duckdb", "feather", "orc", "pickle", "pkl", "sqlite", "sqlite3", "xls", "xlsx", "xml"]
)
"""Endings of formats that are known, and not written."""


def refuse_unwritten(name: str, sink: str) -> None:
    """Refuse an output whose ending names a format that no sink writes. Raises :class:`RunError` ``TT207``."""
    ending = PurePath(name).suffix.lower()
    if ending[1:] in _UNWRITTEN:
        raise RunError(
            "TT207",
            f"sink {sink!r}: no sink writes {ending}, as the output {name} would be",
            fix="write Parquet, CSV or JSON lines: give another name, or declare format=json_lines() at the sink",
        )


def format_of(name: str, declared: Format | Kafka | None, default: Format | None = None) -> Format:
    """The declared format of files, or else the format of the file's ending. Raises :class:`RunError` ``TT207``."""
    if declared is not None and not isinstance(declared, Kafka):
        return declared
    suffixes = [s.lstrip(".").lower() for s in PurePath(name).suffixes if s.lower() not in (".gz", ".bz2", ".zst")]
    by_ending = _BY_NAME.get(suffixes[-1]) if suffixes else None
    if by_ending is not None:
        return by_ending
    if default is not None:
        return default
    raise RunError(
        "TT207",
        f"the format of {name!r} is unknown",
        fix=f"name it *.{{{','.join(_BY_NAME)}}}, with .gz, .bz2 or .zst behind that if it is compressed, "
        "or declare format=csv(...) at the source",
    )


# ------------------------------------------------------------------------------------------------- layout


@attrs.frozen
class Layout:
    """The columns of a pair ``(key, value)``: a column ``key`` unless the key is ``Unit``, then those of the fields of a record
    value, or a column ``value``. If there is a key column, a record with a column ``key`` goes into a column
    ``value`` as a whole."""

    key: Schema
    value: Schema
    reserved: tuple[str, ...] = ()
    truncated: bool = False
    """Whether digits of times behind the microseconds are cut off."""

    @property
    def keyed(self) -> bool:
        """Whether there is a key column."""
        return not isinstance(self.key, UnitValue)

    @property
    def opened(self) -> bool:
        """Whether the fields of the value are columns."""
        names = {*(("key",) if self.keyed else ()), *self.reserved}
        return isinstance(self.value, Record) and names.isdisjoint(self.value.names)

    @property
    def columns(self) -> tuple[tuple[str, Schema], ...]:
        """Names and schemas of the columns, in order."""
        key: tuple[tuple[str, Schema], ...] = (("key", self.key),) if self.keyed else ()
        if self.opened and isinstance(self.value, Record):
            return key + self.value.columns
        return (*key, ("value", self.value))

    @property
    def places(self) -> dict[str, int]:
        """The number of the column of each field of a value that is opened."""
        fields = self.value.fields if isinstance(self.value, Record) else ()
        return {name: at for at, (name, _) in enumerate(fields, int(self.keyed))}

    def pair(self, plain: Mapping[str, Any], make: Make = construct) -> tuple[Any, Any]:
        """The pair of a row of JSON-like values. ``make``: makes records. Raises :class:`Mismatch`."""
        key = from_plain(self.key, _column(plain, "key", self.key), ".key", make) if self.keyed else UNIT
        if self.opened:
            return key, from_plain(self.value, plain, "", make)
        return key, from_plain(self.value, _column(plain, "value", self.value), ".value", make)

    def zoned(self, zone: str | None) -> Layout:
        """The layout of rows in which times without a zone are in this zone."""
        if not zone and not self.truncated:
            return self
        key, value = (zoned(one, zone, truncated=self.truncated) for one in (self.key, self.value))
        return attrs.evolve(self, key=key, value=value)

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
    """Stands for a missing column."""

    def __repr__(self) -> str:
        return "missing"
