"""Which values fit a schema, and which values may be keys."""

from __future__ import annotations

import dataclasses
import datetime as dt
import typing
import zoneinfo
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import cache
from typing import Any, Final, assert_never

import attrs

from tracetypes.record_classes import arguments_of, other_attributes, size_of_dictionary
from tracetypes.record_copies import made_of
from tracetypes.records import (
    DIGITS_MAX,
    INT_MAX,
    INT_MIN,
    UINT_MAX,
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
    show,
)

__all__ = [
    "always_a_key",
    "conform",
    "conformer",
    "construct",
    "datetime_of",
    "has_floats",
    "hashable",
    "in_utc",
    "instant_in",
    "key_conformer",
    "key_problem",
    "micros_of",
    "name_of",
    "positive_zeros",
    "zone_named",
    "zoned",
]

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND: Final = dt.timedelta(microseconds=1)


@cache
def zone_named(name: str) -> zoneinfo.ZoneInfo:
    """The time zone of this name. Raises ``ValueError`` for an unknown name."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(str(error)) from error


def zoned(schema: Schema, zone: str | None, *, truncated: bool = False) -> Schema:
    """The schema of texts in which times without a zone are in this zone. ``truncated``: times are cut to microseconds."""

    def within(record: Record) -> Record:
        return attrs.evolve(record, fields=tuple((n, zoned(s, zone, truncated=truncated)) for n, s in record.fields))

    match schema:
        case Timestamp():
            return Timestamp(zone, truncated)
        case Optional(item):
            return Optional(zoned(item, zone, truncated=truncated))
        case ListOf(item, frozen):
            return ListOf(zoned(item, zone, truncated=truncated), frozen)
        case Record():
            return within(schema)
        case OneOf(members):
            return OneOf(tuple(map(within, members)))
        case _:
            return schema


def micros_of(value: dt.datetime) -> int:
    """An aware datetime as microseconds since the epoch."""
    return (value - _EPOCH) // _MICROSECOND


def datetime_of(micros: int) -> dt.datetime:
    """The aware UTC datetime of microseconds since the epoch."""
    return _EPOCH + dt.timedelta(microseconds=micros)


@cache
def conformer(schema: Schema) -> Callable[[Any], Any]:
    """A function that returns its argument if it fits ``schema`` and raises :class:`Mismatch` otherwise.

    An ``int`` becomes a ``float`` if the schema is ``float``: typing allows it, and deployments must not differ by it.
    Datetimes become UTC, decimals get as many digits after the point as the schema says. Nothing else is converted: an
    integer beyond 64 bits is an error, never a wrong number.
    """
    slow = _slow_conformer(schema)
    fast = _fast_test(schema, "v", depth=0)
    if fast is None:
        return slow
    names: dict[str, Any] = {"slow": slow, **fast[1]}
    return typing.cast(Callable[[Any], Any], eval(f"lambda v: v if {fast[0]} else slow(v)", names))


def _fast_test(schema: Schema, expr: str, depth: int) -> tuple[str, dict[str, Any]] | None:
    """An expression that is true only for values that fit as they are; records are opened two levels deep."""
    match schema:
        case Boolean():
            return f"type({expr}) is bool", {}
        case Integer():
            return f"type({expr}) is int and {INT_MIN} <= {expr} <= {INT_MAX}", {}
        case Unsigned():
            return f"type({expr}) is int and 0 <= {expr} <= {UINT_MAX}", {}
        case EnumOf(cls, _):
            name = "class_of_" + expr.replace(".", "_")
            return f"type({expr}) is {name}", {name: cls}
        case Float():
            return f"type({expr}) is float", {}
        case String():
            return f"type({expr}) is str and {expr}.isascii()", {}
        case Record(cls, fields) if depth < 2 and all(name.isidentifier() for name, _ in fields):
            name = "class_of_" + expr.replace(".", "_")
            parts, names = [f"type({expr}) is {name}"], {name: cls}
            if (size := size_of_dictionary(cls)) is not None:
                parts.append(f"len({expr}.__dict__) == {size}")
            for field, inner in fields:
                test = _fast_test(inner, f"{expr}.{field}", depth + 1)
                if test is None:
                    return None
                parts.append(test[0])
                names.update(test[1])
            return " and ".join(parts), names
        case _:
            return None


def _slow_conformer(schema: Schema) -> Callable[[Any], Any]:
    return lambda value: conform(schema, value, "")


def conform(schema: Schema, value: Any, path: str) -> Any:
    match schema:
        case Boolean():
            if type(value) is bool:
                return value
        case Integer():
            if type(value) is int:
                if INT_MIN <= value <= INT_MAX:
                    return value
                raise Mismatch(path, value, "int that fits 64 bits")
            if isinstance(value, int) and not isinstance(value, bool):
                return conform(schema, int(value), path)
        case Unsigned():
            if isinstance(value, int) and not isinstance(value, bool):
                if 0 <= value <= UINT_MAX:
                    return value if type(value) is int else int(value)
                raise Mismatch(path, value, "int from 0 to 2**64 - 1")
        case DecimalOf():
            if isinstance(value, Decimal):
                return _fitted(schema, value, path)
        case LiteralOf(item, values):
            value = conform(item, value, path)
            if value in values:
                return value
        case EnumOf(cls, _):
            if isinstance(value, cls):
                return value
        case Float():
            if type(value) is float:
                return value
            if isinstance(value, float):
                return float(value)
            if isinstance(value, int) and not isinstance(value, bool):
                try:
                    return float(value)
                except OverflowError:
                    raise Mismatch(path, value, "float") from None
        case String():
            if isinstance(value, str):
                if type(value) is not str:
                    value = str.__str__(value)
                try:
                    value.encode()
                except UnicodeEncodeError:
                    raise Mismatch(path, value, "str of valid Unicode (it has a lone surrogate)") from None
                return value
        case Bytes():
            if isinstance(value, bytes):
                return value
        case Timestamp():
            if isinstance(value, dt.datetime):
                if value.tzinfo is None:
                    raise Mismatch(path, value, "datetime with a time zone")
                if hasattr(value, "nanosecond") and value.nanosecond:  # of pandas
                    raise Mismatch(path, value, "datetime of whole microseconds")
                return value if value.tzinfo is dt.UTC else in_utc(value, path)
        case Date():
            if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
                return value
        case UnitValue():
            if value is UNIT:
                return value
        case Optional(item):
            return None if value is None else conform(item, value, path)
        case ListOf(item, frozen):
            if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
                items = [conform(item, one, f"{path}[{at}]") for at, one in enumerate(value)]
                return tuple(items) if frozen else items
        case Record(cls, fields):
            if isinstance(value, cls):
                olds = [getattr(value, name) for name, _ in fields]
                news = [conform(inner, old, f"{path}.{name}") for (name, inner), old in zip(fields, olds, strict=True)]
                if type(value) is cls and all(a is b for a, b in zip(olds, news, strict=True)):
                    if size_of_dictionary(cls) is not None and (others := other_attributes(value)):
                        raise Mismatch(path, value, f"{cls.__name__} without the attribute {others[0]!r}, which is no field")
                    return value
                return made_of(cls, tuple(name for name, _ in fields))(news)
        case OneOf(members):
            if (member := _member_of(members, value)) is not None:
                return conform(member, value, path)
        case _:
            assert_never(schema)
    raise Mismatch(path, value, name_of(schema))


_DIGITS: Final = Context(prec=DIGITS_MAX, Emin=-999_999, Emax=999_999, traps=[Inexact, InvalidOperation])
"""In which a number that has more digits than any schema is an error."""


@cache
def _quantum(scale: int) -> Decimal:
    return Decimal((0, (1,), -scale))


def _fitted(schema: DecimalOf, value: Decimal, path: str) -> Decimal:
    """The number with the digits of the schema: one representation for each number."""
    try:
        rounded = _DIGITS.quantize(value, _quantum(schema.scale))
    except (Inexact, InvalidOperation):
        raise Mismatch(path, value, name_of(schema)) from None
    if not rounded.is_finite() or rounded.adjusted() >= schema.precision - schema.scale:
        raise Mismatch(path, value, name_of(schema))
    if not rounded and rounded.is_signed():
        return rounded.copy_abs()
    return value if type(value) is Decimal and value.as_tuple().exponent == -schema.scale else rounded


def _member_of(members: tuple[Record, ...], value: Any) -> Record | None:
    """The member of a union that a value is of: by its class, or by the nearest class that it inherits from."""
    return next((m for cls in type(value).__mro__ for m in members if m.cls is cls), None)


def instant_in(zone: str, local: dt.datetime) -> dt.datetime | None:
    """The instant that a time without a zone names in a zone. None if it names none or two, because the clocks change. Raises
    ``OverflowError`` beyond the years 1 to 9999."""
    here = local.replace(tzinfo=zone_named(zone))
    first, last = (here.replace(fold=fold).astimezone(dt.UTC) for fold in (0, 1))
    return first if first == last else None


def in_utc(value: dt.datetime, path: str) -> dt.datetime:
    try:
        return value.astimezone(dt.UTC)
    except OverflowError:
        raise Mismatch(path, value, "datetime of the years 1 to 9999 in UTC") from None


def name_of(schema: Schema) -> str:
    """The Python spelling of a schema."""
    match schema:
        case Boolean():
            return "bool"
        case Integer():
            return "int"
        case Unsigned():
            return "uint64"
        case DecimalOf(precision, scale):
            return f"Decimal of {precision} digits, {scale} of them after the point"
        case LiteralOf(_, values):
            return f"Literal[{_listing(values)}]"
        case EnumOf(cls, _):
            return f"{cls.__name__} ({_listing(tuple(member.value for member in cls))})"
        case Float():
            return "float"
        case String():
            return "str"
        case Bytes():
            return "bytes"
        case Timestamp():
            return "datetime"
        case Date():
            return "date"
        case UnitValue():
            return "Unit"
        case Optional(item):
            return f"{name_of(item)} | None"
        case ListOf(item, frozen):
            return f"tuple[{name_of(item)}, ...]" if frozen else f"list[{name_of(item)}]"
        case Record(cls, _):
            return cls.__name__
        case OneOf(members):
            return " | ".join(m.cls.__name__ for m in members)
        case _:
            assert_never(schema)


def _listing(values: tuple[Any, ...], most: int = 12) -> str:
    """Values of a literal or an enum for a message."""
    return ", ".join([*map(show, values[:most]), *(["..."] if len(values) > most else [])])


def key_problem(schema: Schema, key: Any) -> str | None:
    """Why ``key`` cannot be a key: it is None, or contains NaN, which does not equal itself. None if it can."""
    match schema:
        case Float():
            return "the key is NaN, which equals nothing, not even itself" if key != key else None
        case Optional(item):
            return "the key is None" if key is None else key_problem(item, key)
        case ListOf(item, _):
            return next((p for one in key if (p := key_problem(item, one))), None)
        case Record(_, fields):
            for name, inner in fields:
                one = getattr(key, name)
                if one is None and isinstance(inner, Optional):
                    continue
                if problem := key_problem(inner, one):
                    return problem.replace("the key is", f"the key's field {name} is", 1)
            return None
        case OneOf(members):
            return next(key_problem(m, key) for m in members if type(key) is m.cls)
        case _:
            return "the key is None" if key is None else None


@cache
def key_conformer(schema: Schema) -> Callable[[Any], Any]:
    """:func:`conformer` for keys. Equal keys become identical (-0.0 becomes 0.0 anywhere in a key), so that no operator
    can see which of them came first."""
    fit = conformer(schema)
    if not has_floats(schema):
        return fit
    return lambda key: positive_zeros(schema, fit(key))


def positive_zeros(schema: Schema, key: Any) -> Any:
    """The value with 0.0 for every -0.0 in it."""
    match schema:
        case Float():
            return key + 0.0
        case Optional(item):
            return None if key is None else positive_zeros(item, key)
        case ListOf(item, frozen):
            items = [positive_zeros(item, one) for one in key]
            return tuple(items) if frozen else items
        case Record(cls, fields) if has_floats(schema):
            parts = [positive_zeros(inner, getattr(key, name)) for name, inner in fields]
            return made_of(cls, tuple(name for name, _ in fields))(parts)
        case OneOf(members):
            return next(positive_zeros(member, key) for member in members if type(key) is member.cls)
        case _:
            return key


def always_a_key(schema: Schema) -> bool:
    """Whether every value of the schema can be a key, by :func:`key_problem`."""
    return isinstance(
        schema,
        Boolean | Integer | Unsigned | DecimalOf | String | Bytes | Timestamp | Date | LiteralOf | EnumOf | UnitValue,
    )


def has_floats(schema: Schema) -> bool:
    """Whether a value of the schema can contain a float, and so a NaN."""
    return contains(schema, Float)


def hashable(schema: Schema) -> bool:
    """Whether values of the schema can be keys. Lists cannot, tuples can; records can if their equality covers all
    fields."""
    match schema:
        case ListOf(item, frozen):
            return frozen and hashable(item)
        case Optional(item):
            return hashable(item)
        case Record(cls, fields):
            return _equal_by_fields(cls) and all(hashable(inner) for _, inner in fields)
        case OneOf(members):
            tuples = sum(issubclass(m.cls, tuple) for m in members)  # NamedTuples of different types may be equal
            return tuples < 2 and all(map(hashable, members))
        case _:
            return True


def _equal_by_fields(cls: type[Any]) -> bool:
    if getattr(cls, "__hash__", None) in (None, object.__hash__):
        return False
    if attrs.has(cls):
        return all(a.eq and a.hash is not False for a in attrs.fields(cls))
    return not dataclasses.is_dataclass(cls) or all(f.compare for f in dataclasses.fields(cls))


def construct(cls: type[Any], values: dict[str, Any], path: str) -> Any:
    """A record of values from outside, by the constructor of its class. Raises :class:`Mismatch`."""
    arguments = {names.get(name, name): one for name, one in values.items()} if (names := arguments_of(cls)) else values
    try:
        return cls(**arguments)
    except Exception as error:  # the author's own validators
        raise Mismatch(path, values, f"{cls.__name__} ({type(error).__name__}: {error})") from error


