"""Parsers of rows: lines of text and records of a topic to keys and values, and records back to bytes."""

from __future__ import annotations

import datetime as dt
import enum
import json
import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

import attrs

from tracetypes.conformance import conform, construct, key_problem, name_of
from tracetypes.csv_records import BOUND, RecordCutter
from tracetypes.debezium import change_of, envelope_of, payload_of
from tracetypes.errors import RunError, UsageError
from tracetypes.formats import Absent, Csv, JsonLines, Kafka, Layout, ProgramLines, TextLines
from tracetypes.plain_data import from_plain, from_text, json_decoder, made_again, to_plain
from tracetypes.records import (
    UNIT,
    Boolean,
    Bytes,
    Date,
    DecimalOf,
    EnumOf,
    Float,
    Integer,
    LiteralOf,
    Mismatch,
    OneOf,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    UnitValue,
    Unsigned,
    show,
)

__all__ = [
    "NOTHING",
    "PLAIN",
    "Decoders",
    "Headers",
    "Row",
    "cell_splitter",
    "checked_key",
    "header_problem",
    "is_blank",
    "line_of_dict",
    "may_be_none",
    "of_bytes",
    "plain_values",
    "record_parser",
    "record_writer",
    "rows_of_text",
    "split_header",
    "text_of_json",
    "text_parser",
    "to_bytes",
    "value_of_cell",
]


NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@attrs.frozen
class Row:
    """A parsed row of a source. ``kind``: ``item`` (key, value, time), ``marker`` (time) or ``reject`` (reason).
    ``time`` is in microseconds; it is 0 for items of sources with markers in band. ``text``: the original text of a
    reject, empty if the reader of the row knows it. ``device``: who sent an item, if the source tells senders apart."""

    kind: Literal["item", "marker", "reject"]
    key: Any = None
    value: Any = None
    time: int = 0
    reason: str = ""
    text: str = ""
    device: Hashable = None


def text_parser(
    format: Csv | JsonLines | TextLines,
    layout: Layout,
    header: Sequence[str] | None,
    outside: Mapping[str, Any] = NOTHING,
) -> Callable[[str], tuple[Any, Any]]:
    """A function from a line to a pair; it raises :class:`Mismatch`. ``header``: the columns of the current file. ``outside``:
    the values of columns that come from elsewhere if a row lacks them."""
    layout = layout.zoned(format.zone)
    if isinstance(format, JsonLines):
        decoder = json_decoder(schema for _, schema in layout.columns)
        if isinstance(format, ProgramLines):
            return lambda line: _pair_of_program(layout, line, decoder)
        if outside:
            defaults = plain_values(layout, outside)
            return lambda line: layout.pair(defaults | _object(line, decoder))
        return lambda line: layout.pair(_object(line, decoder))
    if isinstance(format, TextLines):
        ((name, _),) = layout.columns
        return lambda line: layout.pair({name: line})
    cells_of, build = cell_splitter(format, layout, header, outside), _builder(layout)
    given = {name: outside[name] for name in set(outside) - set(_names(format, layout, header))}
    columns = layout.columns

    def parse(line: str) -> tuple[Any, Any]:
        cells = zip(columns, cells_of(line), strict=True)
        return build(
            [
                conform(schema, given[name], f".{name}") if name in given else value_of_cell(schema, cell, f".{name}")
                for (name, schema), cell in cells
            ]
        )

    return parse


def plain_values(layout: Layout, outside: Mapping[str, Any]) -> dict[str, Any]:
    """Values of columns as JSON has them. None is null."""
    schemas = dict(layout.columns)
    return {name: None if value is None else to_plain(schemas[name], value) for name, value in outside.items()}


def _names(format: Csv, layout: Layout, header: Sequence[str] | None) -> Sequence[str]:
    """The columns of a file."""
    return header if header is not None else format.columns or [name for name, _ in layout.columns]


def cell_splitter(
    format: Csv, layout: Layout, header: Sequence[str] | None, outside: Collection[str] = ()
) -> Callable[[str], list[str | None]]:
    """A function from a record to its cells, in the order of the layout's columns; it raises :class:`Mismatch`. None: a column
    that the file lacks, or nothing (the text for None) in a column that may be None. ``outside``: columns that come from
    elsewhere if the file lacks them."""
    names = list(_names(format, layout, header))
    given = set(outside) - set(names)
    position = {name: at for at, name in enumerate(names)}
    places = [position.get(name) for name, _ in layout.columns]
    absent = [one for one in layout.columns if one[0] not in {*position, *given} and not may_be_none(one[1])]
    nullable = [at for at, (_, schema) in enumerate(layout.columns) if may_be_none(schema)]
    required = [at for at in range(len(places)) if at not in nullable]
    separator, width, null = format.separator, len(names), format.null
    quoted = None if separator is None else _cells(separator, lambda cell: None if cell == null else cell)

    def split(line: str) -> list[str | None]:
        cells: Sequence[str | None]
        is_quoted = False
        if quoted is None or separator is None:
            cells = line.split()
        elif '"' in line or "\n" in line or "\r" in line:
            cells, is_quoted = quoted(line), True
        else:
            cells = line.split(separator)
        if len(cells) != width:
            raise Mismatch("", line, f"{width} columns ({', '.join(names)}), not {len(cells)}")
        if absent:
            raise Mismatch(f".{absent[0][0]}", Absent(), name_of(absent[0][1]))
        row = [cells[at] if at is not None else None for at in places]
        if is_quoted:
            for at in required:
                row[at] = null if row[at] is None else row[at]
        else:
            for at in nullable:
                row[at] = None if row[at] == null else row[at]
        return row

    return split


def may_be_none(schema: Schema) -> bool:
    """Whether a cell may be missing."""
    return isinstance(schema, Optional | UnitValue)


def value_of_cell(schema: Schema, cell: str | None, path: str = "") -> Any:
    """The value of a cell of CSV. An optional text may be empty. Of another type, nothing is still None. Raises
    :class:`Mismatch`."""
    if cell is None:
        return from_plain(schema, None, path)
    if not cell and isinstance(schema, Optional) and isinstance(schema.item, String | Bytes | LiteralOf | EnumOf):
        try:
            return from_text(schema.item, cell, path)
        except Mismatch:
            return None
    return from_text(schema, cell, path)


def _cells(separator: str, bare: Callable[[str], str | None]) -> Callable[[str], list[str | None]]:
    """A function from a record to its cells by RFC 4180, of which those without quotes are what ``bare`` makes of them; it raises
    :class:`Mismatch`."""
    cell = re.compile(f'"((?:[^"]|"")*+)"|([^"\r\n{re.escape(separator)}]*+)').match

    def cells(line: str) -> list[str | None]:
        texts, at = list[str | None](), 0
        while one := cell(line, at):
            quoted, text = one.groups()
            texts.append(bare(text) if quoted is None else quoted.replace('""', '"'))
            if (at := one.end()) == len(line):
                return texts
            if line[at] != separator:
                break
            at += 1
        where = f"character {at + 1} is {line[at]!r}"
        if line[at] == '"' and line[max(0, at - 1) : at] in ("", separator):
            where += ", and the cell that it opens has no end"
        raise Mismatch("", line, f"well-formed CSV (quotes stand around whole cells; {where})")

    return cells


def is_blank(format: Csv | JsonLines | TextLines, line: bytes, width: int | None = None) -> bool:
    """Whether a line is not a row: it is empty, or has only white space that does not separate cells. ``width``: how many columns
    a file of CSV has; if it is one, each line is a row."""
    if not line or line.isspace():
        if not isinstance(format, Csv) or format.separator is None:
            return True
        return width != 1 and format.separator.encode() not in line
    return False


@attrs.frozen
class Decoders:
    """How the bytes of keys and of values become plain data, where their schemas are in a registry; None: by the types of the
    source. A decoder raises :class:`Mismatch`."""

    key: Callable[[bytes], Any] | None = None
    value: Callable[[bytes], Any] | None = None


PLAIN: Final = Decoders()


def record_parser(
    format: Kafka, layout: Layout, decoders: Decoders = PLAIN
) -> Callable[[bytes | None, bytes | None, Headers], tuple[Any, Any]]:
    """A function from a record's key, value and headers to a pair; it raises :class:`Mismatch`.

    Raises :class:`UsageError` ``TT402`` if ``headers`` names something that is not a field.
    """
    layout = layout.zoned(format.zone)
    columns = _columns(format, layout)
    decoder = json_decoder([layout.value])

    def parsed(schema: Schema, raw: bytes | None, path: str, decode: Callable[[bytes], Any] | None) -> Any:
        if decode is None or raw is None:
            return of_bytes(schema, raw, path)
        return from_plain(schema, decode(raw), path)

    if format.envelope is not None:
        return _parser_of_changes(layout, decoders)

    def parse(key: bytes | None, value: bytes | None, headers: Headers) -> tuple[Any, Any]:
        pair_key = parsed(layout.key, key, ".key", decoders.key) if layout.keyed else UNIT
        if not format.headers or value is None:
            return pair_key, parsed(layout.value, value, "", decoders.value)
        plain = _object(_utf8(value, ""), decoder) if decoders.value is None else _fields(decoders.value(value))
        values = dict(headers)  # the last one of a name counts
        for name in format.headers:
            plain.pop(name, None)
            if (raw := values.get(name)) is not None:
                (_, schema), path = columns[name], f".{name}"
                plain[name] = to_plain(schema, of_bytes(schema, raw, path))
        return pair_key, from_plain(layout.value, plain)

    return parse


def _parser_of_changes(
    layout: Layout, decoders: Decoders
) -> Callable[[bytes | None, bytes | None, Headers], tuple[Any, Any]]:
    """:func:`record_parser` for envelopes of Debezium."""
    envelope, decode_key = envelope_of(layout.value), decoders.key or text_of_json(layout.key)
    decode = decoders.value or text_of_json(envelope)

    def parse(key: bytes | None, value: bytes | None, headers: Headers) -> tuple[Any, Any]:
        pair_key: Any = UNIT
        if layout.keyed:
            plain = None if key is None else payload_of(decode_key(key))
            if isinstance(plain, dict) and len(plain) == 1 and not isinstance(layout.key, Record | OneOf):
                (plain,) = plain.values()
            pair_key = from_plain(layout.key, plain, ".key")
        if value is None:
            raise Mismatch("", Absent(), "a change (a connector with tombstones.on.delete=false sends no such records)")
        return pair_key, change_of(from_plain(envelope, payload_of(decode(value))))

    return parse


def record_writer(
    format: Kafka, layout: Layout
) -> Callable[[Any, Any], tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    """The inverse of :func:`record_parser`: from key and value to a record's key, value and headers."""
    columns = _columns(format, layout)

    def write(key: Any, value: Any) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
        raw_key = to_bytes(layout.key, key) if layout.keyed else None
        if not format.headers or value is None:
            return raw_key, to_bytes(layout.value, value), []
        plain = to_plain(layout.value, value)
        headers: list[tuple[str, bytes | None]] = []
        for name in format.headers:
            del plain[name]
            field, schema = columns[name]
            if (raw := to_bytes(schema, getattr(value, field))) is not None:
                headers.append((name, raw))
        return raw_key, json.dumps(plain, ensure_ascii=False).encode(), headers

    return write


def _columns(format: Kafka, layout: Layout) -> dict[str, tuple[str, Schema]]:
    """The fields of the value by their columns, among which the headers must be."""
    value = layout.value
    columns = dict(zip(value.names, value.fields, strict=True)) if isinstance(value, Record) else {}
    for name in format.headers:
        if name not in columns:
            raise UsageError(
                "TT402",
                f"kafka(headers=...) names {name!r}, which is no column of {name_of(layout.value)}",
                fix=f"its columns are {', '.join(columns) or 'none'}",
            )
    return columns


def of_bytes(schema: Schema, raw: bytes | None, path: str) -> Any:
    """A key, value or header."""
    if raw is None:
        if isinstance(schema, Optional | UnitValue):
            return from_plain(schema, None, path)
        raise Mismatch(path, Absent(), name_of(schema))
    bare = schema.item if isinstance(schema, Optional) else schema
    match bare:
        case Bytes():
            return raw
        case String() | LiteralOf() | EnumOf():
            return from_text(bare, _utf8(raw, path), path)
        case Integer() | Unsigned() | Float() | DecimalOf() | Boolean() | Timestamp() | Date() | UnitValue():
            return from_text(schema, _utf8(raw, path), path)
        case _:
            return from_plain(schema, _json(_utf8(raw, path), path, json_decoder([schema])), path)


def to_bytes(schema: Schema, value: Any) -> bytes | None:
    """The inverse of how keys and values of records are read. None if a type has no inverse."""
    if value is None or isinstance(schema, UnitValue):
        return None
    bare = schema.item if isinstance(schema, Optional) else schema
    if isinstance(bare, Bytes):
        return bytes(value)
    plain = to_plain(schema, value)
    bare_text = isinstance(plain, str) and isinstance(bare, String | Float | DecimalOf | Timestamp | Date | LiteralOf | EnumOf)
    return (plain if bare_text else json.dumps(plain, ensure_ascii=False)).encode()


def _utf8(raw: bytes, path: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise Mismatch(path, raw, f"UTF-8 ({error.reason} at byte {error.start})") from None


def _json(text: str, path: str, decoder: json.JSONDecoder) -> Any:
    try:
        return decoder.decode(text)
    except (ValueError, RecursionError) as error:
        raise Mismatch(path, text, f"JSON ({error})") from None


def text_of_json(schema: Schema) -> Callable[[bytes], Any]:
    """A function from a text of JSON to plain data; it raises :class:`Mismatch`."""
    decoder = json_decoder([schema])
    return lambda raw: _json(_utf8(raw, ""), "", decoder)


def _pair_of_program(layout: Layout, line: str, decoder: json.JSONDecoder) -> tuple[Any, Any]:
    """The pair of one of :class:`ProgramLines`."""
    if line.startswith("["):
        (plain,) = decoder.decode(line)
        return layout.pair(plain, made_again)
    return layout.pair(_object(line, decoder))


def line_of_dict(layout: Layout, row: Any) -> str | None:
    """A row of the program that is a dict of a record's fields, as a line of JSON. None for any other row.

    With a key column the dict has the key beside the fields, or is the value of a pair. Raises :class:`TypeError` for a value
    that JSON has not."""
    if not isinstance(layout.value, Record):
        return None
    if layout.keyed and isinstance(row, tuple | list) and len(row) == 2 and isinstance(row[1], Mapping):
        return json.dumps({"key": row[0], **row[1]}, default=_plain_of_program)
    return json.dumps(dict(row), default=_plain_of_program) if isinstance(row, Mapping) else None


def _plain_of_program(value: Any) -> Any:
    """A value of a dict as JSON has it."""
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    raise TypeError(f"{show(value)} is no value of JSON")


def _fields(plain: Any) -> dict[str, Any]:
    """A copy of the fields of a value."""
    if not isinstance(plain, dict):
        raise Mismatch("", plain, "an object")
    return dict(plain)


def _object(line: str, decoder: json.JSONDecoder) -> dict[str, Any]:
    try:
        plain: object = decoder.decode(line)
    except (ValueError, RecursionError) as error:
        raise Mismatch("", line, f"a JSON object{_of_array(line) or f' ({error})'}") from None
    if not isinstance(plain, dict):
        raise Mismatch("", line, f"a JSON object{_of_array(line)}")
    return cast("dict[str, Any]", plain)


def _of_array(line: str) -> str:
    """What to do if a line looks like a part of a JSON array."""
    text = line.strip()
    if not text.startswith(("[", "]")) and not text.endswith(","):
        return ""
    return " in each line; this looks like a JSON array: write each of its objects on a line of its own, as jq -c '.[]' does"


def _builder(layout: Layout) -> Callable[[list[Any]], tuple[Any, Any]]:
    schema = layout.value
    if not (layout.opened and isinstance(schema, Record)):
        return lambda cells: (cells[0], cells[1]) if layout.keyed else (UNIT, cells[0])
    cls, names = schema.cls, [name for name, _ in schema.fields]

    def build(cells: list[Any]) -> tuple[Any, Any]:
        key, own = (cells[0], cells[1:]) if layout.keyed else (UNIT, cells)
        return key, construct(cls, dict(zip(names, own, strict=True)), "")

    return build


def header_problem(
    format: Csv, layout: Layout, header: Sequence[str], where: str, outside: Collection[str] = ()
) -> RunError | None:
    """The error for a file whose header lacks a column of the record, or None. ``outside``: columns that come from elsewhere."""
    for name, schema in layout.columns:
        if name not in header and name not in outside and not isinstance(schema, Optional):
            has = ", ".join(map(repr, header)) or "no columns"
            return RunError(
                "TT203",
                f"{where} has no column {name!r}; it has {has if len(has) <= 1000 else has[:100] + ' ...'}",
                fix=_header_fix(format, header, name, where),
            )
        if header.count(name) > 1:
            return RunError(
                "TT203",
                f"{where} has {header.count(name)} columns {name!r}",
                fix="give each column a name of its own, or declare format=csv(columns=[...])",
            )
    return None


def _header_fix(format: Csv, header: Sequence[str], name: str, where: str) -> str:
    """What to do about a header without a column of the record."""
    if any(not (character.isprintable() or character == "\t") for cell in header for character in cell):
        return "give a file of text; a compressed one has the ending .gz, .bz2 or .zst behind its own: rows.csv.gz"
    separator = next((one for one in ",;\t|" if len(header) == 1 and name in map(str.strip, header[0].split(one))), None)
    if separator is not None and format.separator != separator:
        return f"declare format=csv(separator={separator!r}) at the source"
    ending = PurePath(where).suffix
    if ending.lower() in (".py", ".toml", ".md"):
        return f"move {PurePath(where).name} away, which is no file of rows, or name the files that are"
    near = get_close_matches(name, header, n=1)
    if near:
        return f"rename the column {near[0]!r} or the field {name!r}, or declare format=csv(columns=[...])"
    return f"name the column {name!r}, or rename the field, or declare format=csv(columns=[...])"


def split_header(format: Csv, record: str) -> list[str]:
    """The names in a header. White space around one counts if it is quoted. Raises :class:`RunError` ``TT203``."""
    record = record.removeprefix("\ufeff")
    if format.separator is None or not record:
        return record.split()
    try:
        return [name or "" for name in _cells(format.separator, str.strip)(record)]
    except Mismatch as error:
        raise RunError("TT203", f"the header of a file: {error}", fix="quote whole names, or none") from None


def rows_of_text(
    format: Csv | JsonLines | TextLines, layout: Layout, text: bytes, outside: Mapping[str, Any] = NOTHING
) -> Iterator[tuple[Any, Any] | Mismatch]:
    """The pair of each row of a whole file of text, or why it is none. ``outside`` as of :func:`text_parser`. Raises
    :class:`RunError` ``TT203``."""
    header: Sequence[str] | None = None
    text = text.removeprefix("\ufeff".encode())
    if not isinstance(format, Csv):
        records: Iterator[tuple[bytes, bool]] = ((line, True) for line in text.splitlines())
    else:
        if format.encoding != "utf-8":
            text = text.decode(format.encoding, "replace").encode()
        records = RecordCutter(format.separator).records(text)
        header = format.columns or next(
            (split_header(format, raw.decode("utf-8", "replace")) for raw, _ in records if not is_blank(format, raw)), []
        )
    parse = text_parser(format, layout, header, outside)
    for raw, is_sound in records:
        if is_blank(format, raw, None if header is None else len(header)):
            continue
        try:
            if not is_sound:
                raise Mismatch("", raw.decode("utf-8", "replace"), f"well-formed CSV of at most {BOUND:,} bytes")
            yield parse(_utf8(raw, ""))
        except Mismatch as error:
            yield error


def checked_key(schema: Schema) -> Callable[[Any], Any]:
    """A function that returns a key, or raises :class:`Mismatch` if it is None or NaN."""

    def check(key: Any) -> Any:
        if problem := key_problem(schema, key):
            raise Mismatch(".key", key, f"a key ({problem})")
        return key

    return check


Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
