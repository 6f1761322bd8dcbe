"""Records and their schemas: the types that a key or a value may have, and four functions for each.

A :class:`Schema` is derived from annotations alone, never from data. For each schema there are

* :func:`.conformer`: whether a value fits. It converts ``int`` to ``float``, the one widening that Python allows
  silently;
* :func:`.canonical`: a total order, which distinguishes NaN and ``-0.0``, for normal forms and for ties in ``sort``;
* :func:`.stable_hash`: a hash that is the same in every process and run, and equal for equal keys;
* :func:`.to_plain` / :func:`.from_plain`: JSON-like values, for text formats and messages.

Integers have 64 bits, floats are IEEE doubles, times are aware ``datetime`` with microseconds.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import types
import typing
from typing import Any, Final, NewType, TypeAlias, TypeVar, get_args, get_origin

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
    "schema_of",
    "show_type",
]

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1


class Unit(enum.Enum):
    """The type with one value: the key of a stream without keys (the paper's ``Ut``)."""

    UNIT = "unit"

    def __repr__(self) -> str:
        return "UNIT"


UNIT: Final = Unit.UNIT


class Mismatch(ValueError):
    """A value does not fit a schema. ``path``: where in the value, for example ``.reading.watts``."""

    def __init__(self, path: str, found: object, expected: str) -> None:
        self.path, self.found, self.expected = path, found, expected
        super().__init__(f"{path or 'value'} is {show(found)}, expected {expected}")

    def __reduce__(self) -> tuple[object, ...]:
        return Mismatch, (self.path, self.found, self.expected)


def show(value: object, limit: int = 120) -> str:
    """A short repr. Of a function, its name: nobody looks for its address."""
    try:
        is_function = isinstance(value, types.FunctionType | types.BuiltinFunctionType)
        text = f"the function {value.__qualname__}" if is_function else repr(value)  # type: ignore[attr-defined]
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
    """An aware ``datetime``, kept in UTC with microseconds. ``zone``: the zone of texts without one. None: such texts
    do not fit."""

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
    """``list[T]``, or ``tuple[T, ...]`` if ``frozen``."""

    item: Schema
    frozen: bool


@attrs.frozen
class Record:
    """A frozen attrs class, a frozen dataclass or a ``NamedTuple`` with annotated fields. ``fields`` of a generic class
    have its type arguments filled in."""

    cls: type[Any]
    fields: tuple[tuple[str, Schema], ...]


@attrs.frozen
class OneOf:
    """A union of records, which the class of a value tells apart. The key type of a merge of streams with different
    keys."""

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

    Raises :class:`DataError` ``TT106``, which names the field, for a type without a schema. Types are declared, never
    inferred: ``Any``, ``dict``, sets, bare ``list``, unions of scalars and mutable classes have no schema.
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
