"""Many records of Avro as columns: the bytes of all of them are read together, one field after the other.

The records lie one behind the other in one buffer, and an array has the place where each of them goes on. A field is read for
all records at once by numpy: numbers of variable length from the eight bytes at each place, texts by the places where they
begin and end, which Arrow then gathers. A record that is not surely what fastavro makes of it is named
(:attr:`DecodedRecords.bad`), and read by itself (:mod:`.avro_records`). Values that Arrow cannot have make no columns at all.

Arrays, maps, decimals and unions of several types have no columns here: their records are read by fastavro.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, Final, TypeAlias, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.columns.arrow import array, arrow_type
from tracetypes.compiler.columns.column import EPOCH_DAY
from tracetypes.compiler.connectors.avro_records import FieldMatch, Matching, nanos_of
from tracetypes.compiler.connectors.avro_schemas import AvroType
from tracetypes.conformance import micros_of
from tracetypes.plain_data import from_plain
from tracetypes.records import Date, Float, Mismatch, OneOf, Optional, Record, Schema, Timestamp, Unsigned, contains

__all__ = ["ColumnDecoder", "DecodedRecords"]

_PADDING: Final = 64
"""Bytes behind the last record, so that reading behind its end needs no check."""

_LARGEST: Final = 2**31 - 2 * _PADDING
"""Bytes of records that are read together: Arrow counts them with 32 bits."""

_STOPS: Final = np.uint64(0x8080808080808080)
_ONE: Final = np.uint64(1)

_FIRST: Final = micros_of(dt.datetime.min.replace(tzinfo=dt.UTC))
_LAST: Final = micros_of(dt.datetime.max.replace(tzinfo=dt.UTC))

Build: TypeAlias = Callable[[Any, Any], Any]
"""An Arrow array of the rows that were read. Parameters: the numbers of the good rows (None: all are), and which rows have a
value (None: all have)."""


@attrs.frozen(eq=False)
class DecodedRecords:
    """``bad``: the numbers of records that have to be read by themselves. ``columns``: of the others."""

    columns: tuple[Any, ...]
    bad: Sequence[int]


@final
class _Cursor:
    """The place in each record."""

    def __init__(self, raws: Sequence[bytes], skipped: int) -> None:
        count = len(raws)
        lengths = np.fromiter(map(len, raws), np.int64, count)
        self.text = b"".join((*raws, bytes(_PADDING)))
        self.octets = np.frombuffer(self.text, np.uint8)
        self.words: Any = np.ndarray((len(self.text) - 7,), "<u8", self.text, 0, (1,))
        self.ends = np.cumsum(lengths)
        self.at = self.ends - lengths + skipped
        self.last = len(self.text) - _PADDING + 1
        """Behind the end of all records, where none may be."""
        self.bad = np.zeros(count, bool)
        self.unread: list[Build] = []
        """Texts that nobody needs. They must be UTF-8 all the same."""
        np.minimum(self.at, self.last, out=self.at)

    def places(self, rows: Any) -> Any:
        return self.at if rows is None else self.at[rows]

    def advance(self, rows: Any, by: Any) -> None:
        if rows is None:
            self.at = np.minimum(self.at + by, self.last)
        else:
            self.at[rows] = np.minimum(self.at[rows] + by, self.last)

    def refuse(self, rows: Any, mask: Any) -> None:
        """Some of the rows are bad."""
        if mask.any():
            self.bad[np.flatnonzero(mask) if rows is None else rows[mask]] = True

    def numbers(self, rows: Any) -> Any:
        """Numbers of variable length (int64)."""
        at = self.places(rows)
        first = self.octets[at]
        if int(first.max(initial=0)) < 0x80:
            self.advance(rows, 1)
            zigzag = first.astype(np.int64)
            return (zigzag >> 1) ^ -(zigzag & 1)
        word = self.words[at]
        stop = ~word & _STOPS
        below = (stop & (~stop + _ONE)) - _ONE  # the bits of the number, and those of bytes that go on
        size = (np.bitwise_count(below) >> 3).astype(np.int64) + 1
        bits = _squeezed(word & below)
        long = np.flatnonzero(stop == 0)
        if len(long):
            self._take_long(rows, at, long, bits, size)
        self.advance(rows, size)
        return (bits >> _ONE).view(np.int64) ^ -(bits & _ONE).view(np.int64)

    def _take_long(self, rows: Any, at: Any, long: Any, bits: Any, size: Any) -> None:
        """Numbers of nine and ten bytes."""
        ninth, tenth = (self.octets[at[long] + behind] for behind in (8, 9))
        goes_on = ninth >= 0x80
        bits[long] |= (ninth & 0x7F).astype(np.uint64) << np.uint64(56)
        bits[long] |= np.where(goes_on, tenth, 0).astype(np.uint64) << np.uint64(63)
        size[long] += goes_on
        wrong = np.zeros(len(at), bool)
        wrong[long[goes_on & (tenth > 1)]] = True
        self.refuse(rows, wrong)

    def octet(self, rows: Any) -> Any:
        """A byte."""
        values = self.octets[self.places(rows)]
        self.advance(rows, 1)
        return values

    def word(self, rows: Any, size: int) -> Any:
        """Bytes as a number of 64 bits."""
        values = self.words[self.places(rows)]
        self.advance(rows, size)
        return values

    def stretches(self, rows: Any, lengths: Any) -> tuple[Any, Any]:
        """Where texts of these lengths begin, and their lengths."""
        at = self.places(rows)
        wrong = (lengths < 0) | (lengths > (self.ends if rows is None else self.ends[rows]) - at)
        if wrong.any():
            self.refuse(rows, wrong)
            lengths = np.where(wrong, 0, lengths)
        self.advance(rows, lengths)
        return at, lengths

    def all_rows(self, rows: Any, values: Any, filling: Any = 0) -> Any:
        """Values of some rows, for all rows."""
        if rows is None:
            return values
        whole = np.full(len(self.at), filling, values.dtype)
        whole[rows] = values
        return whole


def _squeezed(word: Any) -> Any:
    """The seven lower bits of each byte, one behind the other."""
    word = word & np.uint64(0x7F7F7F7F7F7F7F7F)
    word = (word & np.uint64(0x007F007F007F007F)) | ((word & np.uint64(0x7F007F007F007F00)) >> _ONE)
    word = (word & np.uint64(0x00003FFF00003FFF)) | ((word & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
    return (word & np.uint64(0x0FFFFFFF)) | ((word & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))


def _in_columns(actual: AvroType, above: tuple[AvroType, ...] = ()) -> bool:
    """Whether values of a type can be read together."""
    match actual.kind:
        case "union":
            return len(actual.inner) <= 2 and len(actual.branches) == 1 and _in_columns(actual.branches[0], above)
        case "record":
            return actual not in above and all(_in_columns(one.type, (*above, actual)) for one in actual.fields)
        case "array" | "map":
            return False
        case _:
            return actual.logical != "decimal"


@final
class ColumnDecoder:
    """Decodes values of one schema to columns: of the fields of a record of ours, or one column of a value that is no record."""

    def __init__(self, actual: AvroType, schemas: Sequence[Schema], matches: Sequence[FieldMatch] | None) -> None:
        self.actual, self.schemas, self.matches = actual, schemas, matches

    @classmethod
    def of(cls, actual: AvroType, schemas: Sequence[Schema], matches: Sequence[FieldMatch] | None) -> ColumnDecoder | None:
        """None if values of the type have to be read one by one. ``schemas``: of the columns. ``matches``: of the fields of
        ours, if the columns are these."""
        if not _in_columns(actual) or _is_local(actual) or any(contains(one, OneOf) for one in schemas):
            return None
        return cls(actual, schemas, matches)

    def decode(self, raws: Sequence[bytes], skipped: int) -> DecodedRecords | None:
        """``skipped``: bytes in front of each value. None if that is not possible."""
        if sum(map(len, raws)) > _LARGEST:
            return None
        cursor = _Cursor(raws, skipped)
        try:
            if self.matches is None:
                builds: Sequence[Build] = [_read(cursor, self.actual, self.schemas[0], None, None)]
            else:
                builds = _read_fields(cursor, self.actual, self.matches, None)
            cursor.bad |= cursor.at != cursor.ends
            bad = np.flatnonzero(cursor.bad)
            good = np.flatnonzero(~cursor.bad) if len(bad) else None
            for build in cursor.unread:
                build(good, None)
            return DecodedRecords(tuple(build(good, None) for build in builds), bad.tolist())
        except (pa.ArrowException, OverflowError, UnicodeError, Mismatch):
            return None


def _is_local(actual: AvroType) -> bool:
    """Whether there are times without a zone inside."""
    time = nanos_of(actual.logical)
    return (time is not None and time[1]) or any(map(_is_local, (*actual.inner, *(one.type for one in actual.fields))))


def _bare(schema: Schema | None) -> Schema | None:
    return schema.item if isinstance(schema, Optional) else schema


def _read_fields(cursor: _Cursor, actual: AvroType, matches: Sequence[FieldMatch], rows: Any) -> list[Build]:
    """Reads the fields of a record in their order; the columns of ours in theirs."""
    wanted = {id(one.field): one for one in matches if one.field is not None}
    if len(wanted) < sum(one.field is not None for one in matches):
        raise Mismatch("", [one.column for one in matches], "a field of the writer's schema for each column")  # one has two names
    builds: dict[int, Build] = {}
    for field in actual.fields:
        match = wanted.get(id(field))
        if match is None:
            _read(cursor, field.type, None, None, rows)
        else:
            builds[id(match)] = _read(cursor, field.type, match.schema, match.latest, rows)
    return [builds[id(one)] if one.field is not None else _constant(cursor, one.schema, one.constant) for one in matches]


def _constant(cursor: _Cursor, schema: Schema, plain: Any) -> Build:
    value = from_plain(schema, plain)

    def build(good: Any, valid: Any) -> Any:
        count = len(cursor.at) if good is None else len(good)
        return array(schema, list(repeat(value, count)))

    return build


def _read(cursor: _Cursor, actual: AvroType, schema: Schema | None, latest: AvroType | None, rows: Any) -> Build:
    """Reads a field of ``rows`` (None: of all). ``schema``: of the column, None if nobody needs it. ``latest``: the type of the
    field in the latest schema."""
    kind, bare = actual.kind, _bare(schema)
    match kind:
        case "union":
            return _read_union(cursor, actual, schema, latest, rows)
        case "record":
            return _read_record(cursor, actual, bare, latest, rows)
        case "null":
            return lambda good, valid: pa.nulls(len(cursor.at) if good is None else len(good), arrow_type(schema) if schema else
            None)
        case "boolean":
            values = cursor.octet(rows)
            cursor.refuse(rows, values > 1)
            return _numbers(cursor, cursor.all_rows(rows, values).astype(bool), pa.bool_())
        case "int" | "long":
            return _read_number(cursor, actual, bare, rows)
        case "float":
            floats = cursor.word(rows, 4).astype(np.uint32).view(np.float32).astype(np.float64)
            return _numbers(cursor, cursor.all_rows(rows, floats), pa.float64())
        case "double":
            floats = cursor.word(rows, 8).view(np.float64)
            return _numbers(cursor, cursor.all_rows(rows, floats), pa.float64())
        case "enum":
            codes = cursor.numbers(rows)
            wrong = (codes < 0) | (codes >= len(actual.symbols))
            cursor.refuse(rows, wrong)
            return _symbols(cursor.all_rows(rows, np.where(wrong, 0, codes)), actual.symbols)
        case _:
            at = cursor.places(rows)
            lengths = np.full(len(at), actual.size, np.int64) if kind == "fixed" else cursor.numbers(rows)
            build = _texts(cursor, rows, *cursor.stretches(rows, lengths), text=kind == "string")
            if schema is None and kind == "string":
                cursor.unread.append(build)
            return build


def _read_union(cursor: _Cursor, actual: AvroType, schema: Schema | None, latest: AvroType | None, rows: Any) -> Build:
    index = cursor.numbers(rows)
    (branch,) = actual.branches
    there = index == actual.inner.index(branch)
    cursor.refuse(rows, (index < 0) | (index >= len(actual.inner)))
    if there.all():
        return _read(cursor, branch, schema, latest, rows)
    some = np.flatnonzero(there) if rows is None else rows[there]
    build, valid = _read(cursor, branch, schema, latest, some), np.zeros(len(cursor.at), bool)
    valid[some] = True
    return lambda good, above: build(good, valid if above is None else valid & above)


def _read_record(cursor: _Cursor, actual: AvroType, schema: Schema | None, latest: AvroType | None, rows: Any) -> Build:
    matches = Matching().fields(actual, schema, latest, "") if isinstance(schema, Record) else []
    builds = _read_fields(cursor, actual, matches, rows)
    if not isinstance(schema, Record):
        return lambda good, valid: None

    def build(good: Any, valid: Any) -> Any:
        mask = None if valid is None else pa.array(~(valid if good is None else valid[good]))
        return pa.StructArray.from_arrays([one(good, valid) for one in builds], fields=list(arrow_type(schema)), mask=mask)

    return build


def _read_number(cursor: _Cursor, actual: AvroType, schema: Schema | None, rows: Any) -> Build:
    values = cursor.numbers(rows)
    match schema:
        case Timestamp():
            nanos, _ = nanos_of(actual.logical) or (1_000, False)
            if nanos == 1:
                micros, rest = np.divmod(values, 1_000)
                if not schema.truncated:
                    cursor.refuse(rows, rest != 0)
            else:
                factor = nanos // 1_000
                wrong = (values < _FIRST // factor) | (values > _LAST // factor)
                cursor.refuse(rows, wrong)
                micros = np.where(wrong, 0, values) * factor
            return _numbers(cursor, cursor.all_rows(rows, micros), arrow_type(schema))
        case Date():
            wrong = (values < dt.date.min.toordinal() - EPOCH_DAY) | (values > dt.date.max.toordinal() - EPOCH_DAY)
            cursor.refuse(rows, wrong)
            return _numbers(cursor, cursor.all_rows(rows, np.where(wrong, 0, values).astype(np.int32)), pa.date32())
        case Float():
            return _numbers(cursor, cursor.all_rows(rows, values.astype(np.float64)), pa.float64())
        case Unsigned():
            cursor.refuse(rows, values < 0)
            return _numbers(cursor, cursor.all_rows(rows, values).view(np.uint64), pa.uint64())
        case _:
            return _numbers(cursor, cursor.all_rows(rows, values), pa.int64())


def _numbers(cursor: _Cursor, values: Any, kind: Any) -> Build:
    def build(good: Any, valid: Any) -> Any:
        some = values if good is None else values[good]
        mask = None if valid is None else ~(valid if good is None else valid[good])
        plain = pa.array(some, mask=mask)
        return plain if plain.type == kind else plain.cast(kind)

    return build


def _symbols(codes: Any, symbols: Sequence[str]) -> Build:
    names = pa.array(list(symbols), pa.string())

    def build(good: Any, valid: Any) -> Any:
        some = codes if good is None else codes[good]
        mask = None if valid is None else ~(valid if good is None else valid[good])
        return names.take(pa.array(some, mask=mask))

    return build


def _texts(cursor: _Cursor, rows: Any, at: Any, lengths: Any, *, text: bool) -> Build:
    """Texts, as every second item of an array of all that lies between their beginnings and ends."""
    if rows is None:
        starts, ends = at, at + lengths
    else:
        starts = cursor.at.copy()
        ends = starts.copy()
        starts[rows], ends[rows] = at, at + lengths

    def build(good: Any, valid: Any) -> Any:
        first, behind = (starts, ends) if good is None else (starts[good], ends[good])
        count = len(first)
        if not count:
            return pa.array([], pa.string() if text else pa.binary())
        bounds = np.empty(2 * count, np.int32)
        bounds[0::2], bounds[1::2] = first, behind
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(cursor.text)]
        pieces = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
        mask = None if valid is None else ~(valid if good is None else valid[good])
        array = pieces.take(pa.array(np.arange(0, 2 * count, 2), mask=mask))
        return array.cast(pa.string()) if text else array

    return build
