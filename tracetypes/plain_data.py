"""Conversion between values and plain data, as in JSON and in cells of text."""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Final, TypeAlias

from tracetypes.conformance import conform, construct, in_utc, name_of, zone_named
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

__all__ = ["Make", "decimal_text", "from_plain", "from_text", "made_again", "number_parser", "to_plain"]


def to_plain(schema: Schema, value: Any) -> Any:
    """A value as JSON can express it: records as dicts, times in ISO 8601, bytes in base64, decimals as
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
        case Record(_, fields):
            return {name: to_plain(inner, getattr(value, name)) for name, inner in fields}
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


def number_parser(schemas: Iterable[Schema]) -> Callable[[str], float] | None:
    """``parse_float`` of a decoder of JSON for values of these schemas. Where one of them has decimals, it keeps the
    digits of numbers; else None."""
    return _Number if any(contains(schema, DecimalOf) for schema in schemas) else None


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
            return conform(schema, plain, path)
        case Bytes():
            if isinstance(plain, bytes):
                return plain
            if isinstance(plain, str):
                try:
                    return base64.b64decode(plain, validate=True)
                except ValueError:
                    pass
        case Timestamp(zone):
            if isinstance(plain, dt.datetime):
                return conform(schema, plain, path)
            if isinstance(plain, str):
                return _time_of(plain, path, zone)
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
        case Record(cls, fields):
            if isinstance(plain, dict):
                return _record_from(cls, fields, plain, path, make)
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


def _record_from(
    cls: type[Any], fields: tuple[tuple[str, Schema], ...], plain: dict[str, Any], path: str, make: Make
) -> Any:
    values: dict[str, Any] = {}
    for name, inner in fields:
        if name not in plain and not isinstance(inner, Optional | UnitValue):
            raise Mismatch(f"{path}.{name}", _Missing(), name_of(inner))
        values[name] = from_plain(inner, plain.get(name), f"{path}.{name}", make)
    return make(cls, values, path)


class _Missing:
    def __repr__(self) -> str:
        return "missing"


def _time_of(text: str, path: str, zone: str | None) -> dt.datetime:
    try:
        value = dt.datetime.fromisoformat(text)
    except ValueError:
        raise Mismatch(path, text, "datetime in ISO 8601") from None
    if value.tzinfo is not None:
        return in_utc(value, path)
    if zone is None:
        raise Mismatch(path, text, "datetime with a time zone (e.g. a trailing Z, or zone= of the source's format)")
    here = value.replace(tzinfo=zone_named(zone))
    first, last = (in_utc(here.replace(fold=fold), path) for fold in (0, 1))
    if first != last:
        raise Mismatch(path, text, f"datetime that names one instant in {zone}, where the clocks change then")
    return first


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
                    if math.isfinite(value) or "e" in text.lower():
                        return conform(schema, value, path)
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
