"""Records and their schemas: what a key or a value may be, and the four things that every stage needs to know of it.

A :class:`Schema` is derived from annotations alone, never from data. For each schema there are

* :func:`conformer`: does a value fit (and the one widening that Python allows silently, ``int`` to ``float``);
* :func:`canonical`: a total order, with NaN and ``-0.0`` told apart, for normal forms and for ties in ``sort``;
* :func:`stable_hash`: a hash that is the same in every process and run, and equal for equal keys;
* :func:`to_plain` / :func:`from_plain`: JSON-like values, for text formats and messages.

Integers are 64 bit, floats are IEEE doubles, times are aware ``datetime`` with microseconds.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import hashlib
import math
import struct
import types
import typing
import zlib
import zoneinfo
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NewType, TypeAlias, TypeVar, assert_never, get_args, get_origin

import attrs

from tracetypes.errors import DataError

__all__ = [
    "UNIT",
    "Boolean",
    "Bytes",
    "Date",
    "Float",
    "Integer",
    "ListOf",
    "Mismatch",
    "OneOf",
    "Optional",
    "Record",
    "Schema",
    "String",
    "Timestamp",
    "Unit",
    "UnitValue",
    "canonical",
    "conformer",
    "from_plain",
    "from_text",
    "key_conformer",
    "key_problem",
    "schema_of",
    "show_type",
    "stable_hash",
    "to_plain",
    "zone_named",
    "zoned",
]

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND: Final = dt.timedelta(microseconds=1)


class Unit(enum.Enum):
    """The type with one value: the key of a stream that has no key (the paper's ``Ut``)."""

    UNIT = "unit"

    def __repr__(self) -> str:
        return "UNIT"


UNIT: Final = Unit.UNIT


class Mismatch(ValueError):
    """A value does not fit a schema. ``path`` says where in the value, e.g. ``.reading.watts``."""

    def __init__(self, path: str, found: object, expected: str) -> None:
        self.path, self.found, self.expected = path, found, expected
        super().__init__(f"{path or 'value'} is {show(found)}, expected {expected}")

    def __reduce__(self) -> tuple[object, ...]:
        return Mismatch, (self.path, self.found, self.expected)


def show(value: object, limit: int = 120) -> str:
    """A short repr."""
    try:
        text = repr(value)
    except Exception:  # the author's own, or an integer of thousands of digits
        return f"<{type(value).__name__} that has no repr>"
    if len(text) > limit:
        text = text[: limit - 3] + "..."
    return text


# ------------------------------------------------------------------------------------------------ schemas


@attrs.frozen
class Boolean:
    """``bool``."""


@attrs.frozen
class Integer:
    """``int``, 64 bit."""


@attrs.frozen
class Float:
    """``float``, IEEE double."""


@attrs.frozen
class String:
    """``str``."""


@attrs.frozen
class Bytes:
    """``bytes``."""


@attrs.frozen
class Timestamp:
    """An aware ``datetime``, kept in UTC with microseconds. ``zone``: the zone of texts without one; None: there are none."""

    zone: str | None = None


@attrs.frozen
class Date:
    """``date``."""


@attrs.frozen
class UnitValue:
    """:class:`Unit`."""


@attrs.frozen
class Optional:
    """``T | None``."""

    item: Schema


@attrs.frozen
class ListOf:
    """``list[T]`` or ``tuple[T, ...]``; ``frozen`` says which."""

    item: Schema
    frozen: bool


@attrs.frozen
class Record:
    """A frozen attrs class, a frozen dataclass or a ``NamedTuple`` with annotated fields; of a generic class, ``fields``
    are those with its type arguments filled in."""

    cls: type[Any]
    fields: tuple[tuple[str, Schema], ...]


@attrs.frozen
class OneOf:
    """A union of records: the class of the value tells which. The key type of a merge of differently keyed streams."""

    members: tuple[Record, ...]


Schema: TypeAlias = (
    Boolean | Integer | Float | String | Bytes | Timestamp | Date | UnitValue | Optional | ListOf | Record | OneOf
)

_SCALARS: Final[dict[Any, Schema]] = {
    bool: Boolean(),
    int: Integer(),
    float: Float(),
    str: String(),
    bytes: Bytes(),
    dt.datetime: Timestamp(),
    dt.date: Date(),
    Unit: UnitValue(),
}


def show_type(annotation: Any) -> str:
    """The annotation as its author would write it."""
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, TypeVar | NewType):
        return annotation.__name__
    if isinstance(annotation, types.UnionType) or get_origin(annotation) is typing.Union:
        return " | ".join(show_type(arg) for arg in get_args(annotation))
    if args := get_args(annotation):
        inner = ", ".join("..." if arg is ... else show_type(arg) for arg in args)
        return f"{show_type(get_origin(annotation))}[{inner}]"
    return getattr(annotation, "__name__", None) or str(annotation)


def schema_of(annotation: Any) -> Schema:
    """The schema of a type annotation.

    Raises :class:`DataError` ``TT106`` that names the field when a type has no schema. Types are declared, never
    inferred: ``Any``, ``dict``, sets, bare ``list``, unions of scalars and mutable classes are refused.
    """
    return _schema(annotation, show_type(annotation), ())


def _refuse(path: str, annotation: Any, why: str, fix: str) -> DataError:
    return DataError("TT106", f"{path}: {show_type(annotation)} has no schema: {why}", fix=fix)


def _schema(annotation: Any, path: str, above: tuple[Any, ...]) -> Schema:
    if isinstance(annotation, NewType):
        return _schema(annotation.__supertype__, path, above)
    try:
        if annotation in _SCALARS:
            return _SCALARS[annotation]
    except TypeError:
        pass
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is typing.Annotated:
        return _schema(args[0], path, above)
    if origin is typing.Union or isinstance(annotation, types.UnionType):
        return _union(annotation, args, path, above)
    if origin is list and len(args) == 1:
        return ListOf(_schema(args[0], f"{path}[]", above), frozen=False)
    if origin is tuple and len(args) == 2 and args[1] is ...:
        return ListOf(_schema(args[0], f"{path}[]", above), frozen=True)
    cls = origin if args else annotation
    if isinstance(cls, type):
        if annotation in above or len(above) > _DEEPEST:
            raise _refuse(path, annotation, "it contains itself", "flatten the recursion into a list of records")
        fields = _fields(cls, path)
        if fields is not None:
            bound = dict(zip(getattr(cls, "__parameters__", ()), args, strict=False))
            inner = (*above, annotation)
            return Record(cls, tuple((name, _schema(_filled(t, bound), f"{path}.{name}", inner)) for name, t in fields))
    if isinstance(annotation, TypeVar):
        raise _refuse(path, annotation, "the type parameter is not known here", "give the operator concrete types")
    raise _refuse(
        path,
        annotation,
        "it is neither a scalar, a list, an optional nor a record",
        "use bool, int, float, str, bytes, datetime, date, Unit, T | None, list[T], or a frozen record of these",
    )


_DEEPEST: Final = 50
"""A generic record that contains itself with ever other arguments would go on for ever."""


def _filled(annotation: Any, bound: dict[Any, Any]) -> Any:
    """The annotation of a field of a generic record with the record's type parameters replaced."""
    if isinstance(annotation, TypeVar):
        return bound.get(annotation, annotation)
    if parameters := getattr(annotation, "__parameters__", ()) if get_args(annotation) else ():
        return annotation[tuple(bound.get(p, p) for p in parameters)]
    return annotation


def _union(annotation: Any, args: tuple[Any, ...], path: str, above: tuple[Any, ...]) -> Schema:
    some = [arg for arg in args if arg is not type(None)]
    if len(some) == 1:
        item = _schema(some[0], path, above)
        if isinstance(item, UnitValue):
            raise _refuse(path, annotation, "a missing Unit looks like a Unit", "use bool")
        return Optional(item)
    members = [_schema(arg, path, above) for arg in some]
    records = tuple(m for m in members if isinstance(m, Record))
    if len(records) != len(members):
        raise _refuse(path, annotation, "only a union of records can be told apart", "wrap each member in a record")
    if len({record.cls for record in records}) < len(records):
        raise _refuse(path, annotation, "two members are of one class", "wrap each member in a record of its own")
    one = OneOf(tuple(sorted(records, key=lambda r: (r.cls.__module__, r.cls.__qualname__))))
    return one if len(some) == len(args) else Optional(one)


def _fields(cls: type[Any], path: str) -> list[tuple[str, Any]] | None:
    """Names and annotations of a record class in the order of its constructor, or None when it is no record."""
    fix = "declare every field with a type, all of them arguments of __init__"
    if attrs.has(cls):
        if not attrs.inspect(cls).is_frozen:
            raise _refuse(path, cls, "it is mutable", "decorate it with @attrs.frozen")
        for a in attrs.fields(cls):
            if not a.init or a.alias != a.name:
                raise _refuse(f"{path}.{a.name}", cls, "the field is not an argument of __init__ by its name", fix)
        names = [a.name for a in attrs.fields(cls)]
    elif dataclasses.is_dataclass(cls):
        if not cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            raise _refuse(path, cls, "it is mutable", "decorate it with @dataclass(frozen=True)")
        names = [f.name for f in dataclasses.fields(cls)]
        if any(not f.init for f in dataclasses.fields(cls)):
            raise _refuse(path, cls, "a field is not an argument of __init__", fix)
    elif issubclass(cls, tuple) and hasattr(cls, "_fields"):
        names = list(cls._fields)
    else:
        return None
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise _refuse(
            path, cls, f"an annotation cannot be resolved ({error})", "define the name at module level"
        ) from error
    missing = [name for name in names if name not in hints]
    if missing:
        raise _refuse(f"{path}.{missing[0]}", cls, "the field has no annotation", fix)
    if not names:
        raise _refuse(path, cls, "it has no fields", "use Unit for a stream without a key")
    return [(name, hints[name]) for name in names]


# ------------------------------------------------------------------------------------------- conformance


@cache
def zone_named(name: str) -> zoneinfo.ZoneInfo:
    """A time zone. Raises ``ValueError`` when there is none of that name."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(str(error)) from error


def zoned(schema: Schema, zone: str) -> Schema:
    """The schema of texts whose times without a zone are of that one."""
    match schema:
        case Timestamp():
            return Timestamp(zone)
        case Optional(item):
            return Optional(zoned(item, zone))
        case ListOf(item, frozen):
            return ListOf(zoned(item, zone), frozen)
        case Record(cls, fields):
            return Record(cls, tuple((name, zoned(inner, zone)) for name, inner in fields))
        case OneOf(members):
            return OneOf(tuple(Record(m.cls, tuple((n, zoned(s, zone)) for n, s in m.fields)) for m in members))
        case _:
            return schema


def micros_of(value: dt.datetime) -> int:
    """Microseconds since the epoch of an aware datetime."""
    return (value - _EPOCH) // _MICROSECOND


def datetime_of(micros: int) -> dt.datetime:
    """The aware UTC datetime of microseconds since the epoch."""
    return _EPOCH + dt.timedelta(microseconds=micros)


@cache
def conformer(schema: Schema) -> Callable[[Any], Any]:
    """A function that returns its argument when it fits ``schema`` and raises :class:`Mismatch` when it does not.

    An ``int`` where a ``float`` is declared becomes a ``float`` (typing allows it, and deployments must not differ
    by it); datetimes become UTC. Nothing else is converted: an integer beyond 64 bits is an error, never a wrong number.
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
        case Float():
            return f"type({expr}) is float", {}
        case String():
            return f"type({expr}) is str and {expr}.isascii()", {}
        case Record(cls, fields) if depth < 2 and all(name.isidentifier() for name, _ in fields):
            name = "class_of_" + expr.replace(".", "_")
            parts, names = [f"type({expr}) is {name}"], {name: cls}
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
    return lambda value: _conform(schema, value, "")


def _conform(schema: Schema, value: Any, path: str) -> Any:
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
                return _conform(schema, int(value), path)
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
                return value if value.tzinfo is dt.UTC else _in_utc(value, path)
        case Date():
            if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
                return value
        case UnitValue():
            if value is UNIT:
                return value
        case Optional(item):
            return None if value is None else _conform(item, value, path)
        case ListOf(item, frozen):
            if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
                made = [_conform(item, one, f"{path}[{at}]") for at, one in enumerate(value)]
                return tuple(made) if frozen else made
        case Record(cls, fields):
            if isinstance(value, cls):
                olds = [getattr(value, name) for name, _ in fields]
                news = [_conform(inner, old, f"{path}.{name}") for (name, inner), old in zip(fields, olds, strict=True)]
                if type(value) is cls and all(a is b for a, b in zip(olds, news, strict=True)):
                    return value
                return _construct(cls, dict(zip((n for n, _ in fields), news, strict=True)), path)
        case OneOf(members):
            if (member := _member_of(members, value)) is not None:
                return _conform(member, value, path)
        case _:
            assert_never(schema)
    raise Mismatch(path, value, name_of(schema))


def _member_of(members: tuple[Record, ...], value: Any) -> Record | None:
    """The member of a union that a value is of: by its class, or by the nearest class that it inherits from."""
    return next((m for cls in type(value).__mro__ for m in members if m.cls is cls), None)


def _in_utc(value: dt.datetime, path: str) -> dt.datetime:
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


def key_problem(schema: Schema, key: Any) -> str | None:
    """Why ``key`` cannot be a key (None, or NaN anywhere inside: NaN is not equal to itself), or None."""
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
    """:func:`conformer` for keys: keys that are equal become identical (0.0 and -0.0, wherever they lie in a key), so
    that no operator can see which of them came first."""
    fit = conformer(schema)
    if not has_floats(schema):
        return fit
    return lambda key: positive_zeros(schema, fit(key))


def positive_zeros(schema: Schema, key: Any) -> Any:
    """A value that fits, with 0.0 for every -0.0 in it."""
    match schema:
        case Float():
            return key + 0.0
        case Optional(item):
            return None if key is None else positive_zeros(item, key)
        case ListOf(item, frozen):
            made = [positive_zeros(item, one) for one in key]
            return tuple(made) if frozen else made
        case Record(cls, fields) if has_floats(schema):
            return _construct(cls, {name: positive_zeros(inner, getattr(key, name)) for name, inner in fields}, "")
        case OneOf(members):
            return next(positive_zeros(member, key) for member in members if type(key) is member.cls)
        case _:
            return key


def always_a_key(schema: Schema) -> bool:
    """Can no value of the schema be refused by :func:`key_problem`?"""
    return isinstance(schema, Boolean | Integer | String | Bytes | Timestamp | Date | UnitValue)


def has_floats(schema: Schema) -> bool:
    """Can a value of the schema hold a float (and so a NaN)?"""
    match schema:
        case Float():
            return True
        case Optional(item) | ListOf(item, _):
            return has_floats(item)
        case Record(_, fields):
            return any(has_floats(inner) for _, inner in fields)
        case OneOf(members):
            return any(map(has_floats, members))
        case _:
            return False


def hashable(schema: Schema) -> bool:
    """Can a value of the schema be a key? Lists cannot, tuples can; records can when they are equal by all their fields."""
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


# --------------------------------------------------------------------------------------- canonical order


def float_order(value: float) -> int:
    """An integer that orders doubles totally: -inf < ... < -0.0 < 0.0 < ... < inf < NaN (all NaNs alike)."""
    if value != value:
        return 2**63
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits if bits >= 0 else -(bits & INT_MAX) - 1


@cache
def canonical(schema: Schema) -> Callable[[Any], Any]:
    """A function from values to comparable keys: equal keys exactly for identical values, a total order."""
    match schema:
        case Float():
            return float_order
        case UnitValue():
            return lambda value: 0
        case Timestamp():
            return micros_of
        case Optional(item):
            some = canonical(item)
            return lambda value: (0,) if value is None else (1, some(value))
        case ListOf(item, _):
            one = canonical(item)
            return lambda value: tuple([one(v) for v in value])
        case Record(_, fields):
            parts = tuple((name, canonical(inner)) for name, inner in fields)
            return lambda value: tuple([order(getattr(value, name)) for name, order in parts])
        case OneOf(members):
            orders = {m.cls: (at, canonical(m)) for at, m in enumerate(members)}

            def of_member(value: Any) -> Any:
                at, order = orders[type(value)]
                return (at, order(value))

            return of_member
        case _:
            return lambda value: value


# -------------------------------------------------------------------------------------------------- hash

_MASK: Final = 2**64 - 1


def mix(x: int) -> int:
    """The finaliser of splitmix64: a bijection of 64-bit integers that spreads neighbours. Vectorised in ``columns``."""
    x &= _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


@cache
def stable_hash(schema: Schema) -> Callable[[Any], int]:
    """A 64-bit hash that depends on the value alone: no process salt, equal for keys that are equal (0.0 and -0.0)."""
    match schema:
        case Integer() | Boolean():
            return mix
        case String():
            return lambda value: mix(zlib.crc32(value.encode()))
        case UnitValue():
            return lambda value: 0
        case _:

            def by_bytes(value: Any) -> int:
                digest = hashlib.blake2b(_encode(schema, value), digest_size=8).digest()
                return int.from_bytes(digest, "little")

            return by_bytes


def _encode(schema: Schema, value: Any) -> bytes:
    match schema:
        case Boolean() | Integer():
            return struct.pack("<q", value)
        case Float():
            return struct.pack("<d", value + 0.0)
        case String():
            raw: bytes = value.encode()
            return struct.pack("<q", len(raw)) + raw
        case Bytes():
            octets: bytes = value
            return struct.pack("<q", len(octets)) + octets
        case Timestamp():
            return struct.pack("<q", micros_of(value))
        case Date():
            return struct.pack("<q", value.toordinal())
        case UnitValue():
            return b""
        case Optional(item):
            return b"\0" if value is None else b"\1" + _encode(item, value)
        case ListOf(item, _):
            return struct.pack("<q", len(value)) + b"".join(_encode(item, one) for one in value)
        case Record(_, fields):
            return b"".join(_encode(inner, getattr(value, name)) for name, inner in fields)
        case OneOf(members):
            at, member = next((i, m) for i, m in enumerate(members) if type(value) is m.cls)
            return struct.pack("<q", at) + _encode(member, value)
        case _:
            assert_never(schema)


# --------------------------------------------------------------------------------------- plain values


def to_plain(schema: Schema, value: Any) -> Any:
    """A value as JSON can hold it: records as dicts, times in ISO 8601, bytes in base64, NaN and infinities as text."""
    match schema:
        case Float():
            return value if math.isfinite(value) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case Bytes():
            return base64.b64encode(value).decode()
        case Timestamp():
            return value.astimezone(dt.UTC).isoformat()
        case Date():
            return value.isoformat()
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


_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def from_plain(schema: Schema, plain: Any, path: str = "") -> Any:
    """The inverse of :func:`to_plain`. Raises :class:`Mismatch`. Fields that the schema does not name are ignored."""
    match schema:
        case Float():
            if isinstance(plain, str) and plain in _SPECIAL:
                return _SPECIAL[plain]
            return _conform(schema, plain, path)
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
                return _conform(schema, plain, path)
            if isinstance(plain, str):
                return _time_of(plain, path, zone)
        case Date():
            if isinstance(plain, dt.date):
                return _conform(schema, plain, path)
            if isinstance(plain, str):
                try:
                    return dt.date.fromisoformat(plain)
                except ValueError:
                    pass
        case UnitValue():
            if plain is None:
                return UNIT
        case Optional(item):
            return None if plain is None else from_plain(item, plain, path)
        case ListOf(item, frozen):
            if isinstance(plain, list | tuple):
                made = [from_plain(item, one, f"{path}[{at}]") for at, one in enumerate(plain)]
                return tuple(made) if frozen else made
        case Record(cls, fields):
            if isinstance(plain, dict):
                return _record_from(cls, fields, plain, path)
        case OneOf(members):
            if isinstance(plain, dict):
                for member in members:
                    if plain.get(member.cls.__name__) is not None:
                        return from_plain(member, plain[member.cls.__name__], f"{path}.{member.cls.__name__}")
        case _:
            return _conform(schema, plain, path)
    raise Mismatch(path, plain, name_of(schema))


def _record_from(cls: type[Any], fields: tuple[tuple[str, Schema], ...], plain: dict[str, Any], path: str) -> Any:
    made: dict[str, Any] = {}
    for name, inner in fields:
        if name not in plain and not isinstance(inner, Optional | UnitValue):
            raise Mismatch(f"{path}.{name}", _Missing(), name_of(inner))
        made[name] = from_plain(inner, plain.get(name), f"{path}.{name}")
    return _construct(cls, made, path)


def _construct(cls: type[Any], made: dict[str, Any], path: str) -> Any:
    try:
        return cls(**made)
    except Exception as error:  # the author's own validators
        raise Mismatch(path, made, f"{cls.__name__} ({type(error).__name__}: {error})") from error


class _Missing:
    def __repr__(self) -> str:
        return "missing"


def _time_of(text: str, path: str, zone: str | None) -> dt.datetime:
    try:
        value = dt.datetime.fromisoformat(text)
    except ValueError:
        raise Mismatch(path, text, "datetime in ISO 8601") from None
    if value.tzinfo is not None:
        return _in_utc(value, path)
    if zone is None:
        raise Mismatch(path, text, "datetime with a time zone (e.g. a trailing Z, or zone= of the source's format)")
    here = value.replace(tzinfo=zone_named(zone))
    first, last = (_in_utc(here.replace(fold=fold), path) for fold in (0, 1))
    if first != last:
        raise Mismatch(path, text, f"datetime that names one instant in {zone}, where the clocks change then")
    return first


def from_text(schema: Schema, text: str, path: str = "") -> Any:
    """One CSV field. Strict: ``1_000``, `` 5`` or ``0x1`` are not integers, ``yes`` is not a boolean.

    An empty field is None where the field is optional, the empty string where it is text, otherwise a mismatch.
    """
    match schema:
        case String():
            return _conform(schema, text, path)
        case Optional(item):
            return None if text == "" else from_text(item, text, path)
        case Integer():
            digits = text[1:] if text[:1] in ("-", "+") else text
            if digits.isascii() and digits.isdigit() and len(digits) <= 64:
                return _conform(schema, int(text), path)
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
                        return _conform(schema, value, path)
        case Boolean():
            if text in ("true", "True"):
                return True
            if text in ("false", "False"):
                return False
        case UnitValue():
            if text == "":
                return UNIT
        case Bytes() | Timestamp() | Date():
            return from_plain(schema, text, path)
        case _:
            pass
    raise Mismatch(path, text, name_of(schema))
