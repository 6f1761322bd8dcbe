"""Conversion between values and plain data, as in JSON and in cells of text."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
import sys
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Final, TypeAlias

from tracetypes.conformance import conform, construct, in_utc, instant_in, name_of
from tracetypes.record_copies import made_of
from tracetypes.records import (
    UNIT,
    Boolean,
    Bytes,
    Date,
    DecimalOf,
    EnumOf,
    Float,
    Integer,
    ListOf,
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
    contains,
    members_of,
)

__all__ = [
    "WHOLE_MICROS",
    "YEARS",
    "Make",
    "decimal_text",
    "from_plain",
    "from_text",
    "in_whole_micros",
    "json_decoder",
    "made_again",
    "one_instant",
    "to_plain",
]


def to_plain(schema: Schema, value: Any) -> Any:
    """A value as JSON can express it: records as dicts of their columns, times in ISO 8601, bytes in base64, decimals as
    text, members of enums by their values, NaN and infinities as text."""
    match schema:
        case Float():
            return value if math.isfinite(value) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case Bytes():
            return base64.b64encode(value).decode()
        case Timestamp():
            return value.astimezone(dt.UTC).isoformat()
        case Date():
            return value.isoformat()
        case DecimalOf():
            return decimal_text(value)
        case EnumOf():
            return value.value
        case UnitValue():
            return None
        case Optional(item):
            return None if value is None else to_plain(item, value)
        case ListOf(item, _):
            return [to_plain(item, one) for one in value]
        case Record(_, fields, names):
            return {name: to_plain(inner, getattr(value, field)) for name, (field, inner) in zip(names, fields, strict=True)}
        case OneOf(members):
            member = next(m for m in members if type(value) is m.cls)
            return {member.cls.__name__: to_plain(member, value)}
        case _:
            return value


def decimal_text(value: Decimal) -> str:
    """A number by its digits, without an exponent."""
    return f"{value:f}"


class _Number(float):
    """A number of JSON that is no integer, with its digits: floats do not keep those of a decimal."""

    text: str

    def __new__(cls, text: str) -> _Number:
        instance = super().__new__(cls, text)
        instance.text = text
        return instance


class _Constant(float):
    """NaN or an infinity that stands in JSON by its name. An infinity of another class is a numeral that is too large."""


class _Twice:
    """Stands for the value of a field that an object of JSON has more than once. No type has it."""

    def __repr__(self) -> str:
        return "there twice"


_TWICE: Final = _Twice()


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Of a field that is there twice nobody knows which value counts."""
    plain = dict(pairs)
    if len(plain) < len(pairs):
        names = [name for name, _ in pairs]
        plain.update((name, _TWICE) for name in plain if names.count(name) > 1)
    return plain


def _has_all_colons(text: str, plain: dict[str, Any]) -> bool:
    """Whether the colons of a text are those of the fields of an object and of its texts. False if that is not known."""
    if "\\" in text:
        return False
    colons = len(plain)
    for name, value in plain.items():
        colons += name.count(":")
        if type(value) is str:
            colons += value.count(":")
    return text.count(":") == colons


_CONSTANTS: Final = {name: _Constant(name) for name in ("NaN", "Infinity", "-Infinity")}
_DECODER_OF_OBJECTS: Final = json.JSONDecoder(parse_constant=_CONSTANTS.__getitem__, object_pairs_hook=_object_of)
_DECODER: Final = json.JSONDecoder(parse_constant=_CONSTANTS.__getitem__)


def _look_for_twice(quick: Any, careful: Any) -> Any:
    """A scan that looks for fields that are there twice only if there may be some, which costs a quarter of to look always. Each
    field of an object has a colon."""

    def scan(text: str, at: int) -> tuple[Any, int]:
        plain, end = quick(text, at)
        if type(plain) is dict and text.count(":", at, end) != len(plain) and not _has_all_colons(text[at:end], plain):
            return careful(text, at)  # type: ignore[no-any-return]
        return plain, end

    return scan


vars(_DECODER)["scan_once"] = _look_for_twice(vars(_DECODER)["scan_once"], vars(_DECODER_OF_OBJECTS)["scan_once"])
_DECODER_WITH_DIGITS: Final = json.JSONDecoder(
    parse_constant=_CONSTANTS.__getitem__, parse_float=_Number, object_pairs_hook=_object_of
)


def json_decoder(schemas: Iterable[Schema]) -> json.JSONDecoder:
    """The decoder of JSON for objects with fields of these schemas, or for values of one. Where one of them has decimals, it
    keeps the digits of numbers. A field that is there twice has a value that no type has."""
    known = list(schemas)
    if any(contains(schema, DecimalOf) for schema in known):
        return _DECODER_WITH_DIGITS
    match known:
        case [Record(_, fields)]:
            known = [inner for _, inner in fields]
        case _:
            pass
    return _DECODER_OF_OBJECTS if any(contains(one, Record, OneOf) for one in known) else _DECODER


_DECIMAL: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)


def _decimal_of(schema: DecimalOf, plain: object, path: str) -> Decimal:
    """The number that a text, an integer or a number of JSON is. A float is none: its digits are lost."""
    if isinstance(plain, Decimal):
        return conform(schema, plain, path)  # type: ignore[no-any-return]
    text = plain.text if isinstance(plain, _Number) else str(plain) if type(plain) is int else plain
    if isinstance(text, str) and len(text) <= _LONGEST and _DECIMAL.fullmatch(text):
        return conform(schema, Decimal(text), path)  # type: ignore[no-any-return]
    raise Mismatch(path, plain, name_of(schema))


_LONGEST: Final = 1000


WHOLE_MICROS: Final = 'datetime of whole microseconds (times="truncate" of the source cuts off what is behind them)'
YEARS: Final = "datetime of the years 1 to 9999 in UTC"


def one_instant(zone: str) -> str:
    """What a time without a zone must be."""
    return f"datetime that names one instant in {zone}, where the clocks change then"


_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


Make: TypeAlias = Callable[[type[Any], dict[str, Any], str], Any]
"""Makes a record of a class, of its fields by name. The text is where it stands."""


def from_plain(schema: Schema, plain: Any, path: str = "", make: Make = construct) -> Any:
    """The inverse of :func:`to_plain`. Raises :class:`Mismatch`. Ignores fields that the schema does not name. ``make``: makes
    records; values from outside pass their constructor."""
    match schema:
        case Float():
            if isinstance(plain, str) and plain in _SPECIAL:
                return _SPECIAL[plain]
            if isinstance(plain, int) and not isinstance(plain, bool):
                return _nearest(plain, path)
            if isinstance(plain, float) and math.isinf(plain) and not isinstance(plain, _Constant):
                raise Mismatch(path, plain, f"float up to {sys.float_info.max:g}, or the text \"Infinity\"")
            return conform(schema, plain, path)
        case Bytes():
            if isinstance(plain, bytes):
                return plain
            if isinstance(plain, str):
                try:
                    return base64.b64decode(plain, validate=True)
                except ValueError:
                    pass
        case Timestamp():
            if isinstance(plain, dt.datetime):
                return conform(schema, plain, path)
            if isinstance(plain, str):
                return _time_of(schema, plain, path)
        case Date():
            if isinstance(plain, dt.date):
                return conform(schema, plain, path)
            if isinstance(plain, str):
                try:
                    return dt.date.fromisoformat(plain)
                except ValueError:
                    pass
        case DecimalOf():
            return _decimal_of(schema, plain, path)
        case EnumOf(cls, item):
            if type(plain) is (int if isinstance(item, Integer) else str) and plain in (members := members_of(cls)):
                return members[plain]
        case UnitValue():
            if plain is None:
                return UNIT
        case Optional(item):
            return None if plain is None else from_plain(item, plain, path, make)
        case ListOf(item, frozen):
            if isinstance(plain, list | tuple):
                items = [from_plain(item, one, f"{path}[{at}]", make) for at, one in enumerate(plain)]
                return tuple(items) if frozen else items
        case Record():
            if isinstance(plain, dict):
                return _record_from(schema, plain, path, make)
        case OneOf(members):
            if isinstance(plain, dict):
                for member in members:
                    if plain.get(member.cls.__name__) is not None:
                        return from_plain(member, plain[member.cls.__name__], f"{path}.{member.cls.__name__}", make)
        case _:
            return conform(schema, plain, path)
    raise Mismatch(path, plain, name_of(schema))


def made_again(cls: type[Any], values: dict[str, Any], _: str) -> Any:
    """``make`` of :func:`from_plain` for plain values of records that were made: no constructor sees them again."""
    return made_of(cls, tuple(values))(values.values())


def _record_from(schema: Record, plain: dict[str, Any], path: str, make: Make) -> Any:
    values: dict[str, Any] = {}
    for name, (field, inner) in zip(schema.names, schema.fields, strict=True):
        if name not in plain and not isinstance(inner, Optional | UnitValue):
            raise Mismatch(f"{path}.{name}", _Missing(), name_of(inner))
        values[field] = from_plain(inner, plain.get(name), f"{path}.{name}", make)
    return make(schema.cls, values, path)


class _Missing:
    def __repr__(self) -> str:
        return "missing"


def _nearest(number: int, path: str) -> float:
    """The float that a numeral without a point stands for."""
    try:
        return float(number)
    except OverflowError:
        raise Mismatch(path, number, "float") from None


_FINER: Final = re.compile(r"[.,]\d{6}\d*[1-9]", re.ASCII)
_FINER_OFFSET: Final = re.compile(r"[+-]\d\d:?\d\d:?\d\d[.,]\d{6}\d*[1-9]", re.ASCII)


def in_whole_micros(text: str, *, truncated: bool = False) -> bool:
    """Whether a time in ISO 8601 has no digit behind the microseconds but zeros. ``truncated``: or whether the digits can be cut
    off, which moves the time towards the past."""
    return len(text) < _FINEST or (_FINER_OFFSET if truncated else _FINER).search(text) is None


_FINEST: Final = len("20180101T000000.0000000")


def _time_of(schema: Timestamp, text: str, path: str) -> dt.datetime:
    zone = schema.zone
    try:
        value = dt.datetime.fromisoformat(text)
    except ValueError:
        raise Mismatch(path, text, "datetime in ISO 8601") from None
    if not in_whole_micros(text, truncated=schema.truncated):
        raise Mismatch(path, text, WHOLE_MICROS)
    if value.tzinfo is not None:
        return in_utc(value, path)
    if zone is None:
        raise Mismatch(path, text, "datetime with a time zone (e.g. a trailing Z, or zone= of the source's format)")
    try:
        instant = instant_in(zone, value)
    except OverflowError:
        raise Mismatch(path, text, YEARS) from None
    if instant is None:
        raise Mismatch(path, text, one_instant(zone))
    return instant


def from_text(schema: Schema, text: str, path: str = "") -> Any:
    """The value of a CSV field. Strict: ``1_000``, `` 5`` or ``0x1`` are not integers, ``yes`` is not a boolean.

    An empty field is None if the field is optional, the empty string if it is text, otherwise a mismatch.
    """
    match schema:
        case String():
            return conform(schema, text, path)
        case Optional(item):
            return None if text == "" else from_text(item, text, path)
        case LiteralOf(item, _) | EnumOf(_, item):
            try:
                plain = from_text(item, text, path)
            except Mismatch:
                raise Mismatch(path, text, name_of(schema)) from None
            return from_plain(schema, plain, path)
        case Integer() | Unsigned():
            digits = text[1:] if text[:1] in ("-", "+") else text
            if digits.isascii() and digits.isdigit() and len(digits) <= 64:
                return conform(schema, int(text), path)
        case Float():
            if text in _SPECIAL:
                return _SPECIAL[text]
            if text.isascii() and not text[:1].isspace() and not text[-1:].isspace() and "_" not in text:
                try:
                    value = float(text)
                except ValueError:
                    pass
                else:
                    if math.isfinite(value):
                        return value
        case Boolean():
            if text in ("true", "True"):
                return True
            if text in ("false", "False"):
                return False
        case UnitValue():
            if text == "":
                return UNIT
        case Bytes() | Timestamp() | Date() | DecimalOf():
            return from_plain(schema, text, path)
        case _:
            pass
    raise Mismatch(path, text, name_of(schema))
