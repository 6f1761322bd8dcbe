"""Schemas from type annotations, and annotations as their author would write them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal as decimal_module
import enum
import types
import typing
from typing import Any, Final, Literal, NewType, TypeVar, get_args, get_origin
from weakref import WeakKeyDictionary

import attrs

from tracetypes.errors import DataError
from tracetypes.record_classes import other_data
from tracetypes.records import (
    INT_MAX,
    INT_MIN,
    Boolean,
    Bytes,
    ColumnName,
    Date,
    DecimalOf,
    EnumOf,
    Float,
    Integer,
    ListOf,
    LiteralOf,
    OneOf,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    Unit,
    UnitValue,
    Unsigned,
    is_utf8,
    members_of,
)

__all__ = ["schema_of", "show_type", "without_column"]

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
    if get_origin(annotation) is Literal:
        return f"Literal[{', '.join(map(repr, get_args(annotation)))}]"
    if isinstance(annotation, Unsigned | DecimalOf | ColumnName):
        return str(annotation)
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
        return _annotated(annotation, args, path, above)
    if origin is Literal:
        return _literal(annotation, args, path)
    if annotation is decimal_module.Decimal:
        fix = "declare Annotated[Decimal, decimal(18, 2)], with decimal of tracetypes"
        raise _refuse(path, annotation, "it does not say how many digits it has", fix)
    if origin is typing.Union or isinstance(annotation, types.UnionType):
        return _union(annotation, args, path, above)
    if origin is list and len(args) == 1:
        return ListOf(_schema(args[0], f"{path}[]", above), frozen=False)
    if origin is tuple and len(args) == 2 and args[1] is ...:
        return ListOf(_schema(args[0], f"{path}[]", above), frozen=True)
    cls = origin if args else annotation
    if isinstance(cls, type):
        if issubclass(cls, enum.Enum):
            return _enum(cls, path)
        if annotation in above or len(above) > _DEEPEST:
            raise _refuse(path, annotation, "it contains itself", "flatten the recursion into a list of records")
        fields = _KNOWN.get(cls)
        if fields is None and (fields := _fields(cls, path)) is not None:
            _KNOWN[cls] = fields
        if fields is not None:
            bound = dict(zip(getattr(cls, "__parameters__", ()), args, strict=False))
            filled = [(name, _filled(hint, bound)) for name, hint in fields]
            return _record(cls, filled, path, (*above, annotation))
    if isinstance(annotation, TypeVar):
        raise _refuse(path, annotation, "the type parameter is not known here", "give the operator concrete types")
    raise _refuse(
        path,
        annotation,
        "it is neither a scalar, a list, an optional nor a record",
        "use bool, int, UInt64, float, Annotated[Decimal, decimal(18, 2)], str, bytes, datetime, date, an Enum, Literal, Unit, "
        "T | None, list[T], or a frozen record of these",
    )


def _record(cls: type[Any], fields: list[tuple[str, Any]], path: str, above: tuple[Any, ...]) -> Record:
    """The schema of a class with these fields. What an annotation says of the column is taken off here, so it is one of a field
    and nothing else."""
    schemas, names = list[tuple[str, Schema]](), list[str]()
    for field, hint in fields:
        bare, columns = without_column(hint)
        if len(columns) > 1:
            raise _refuse(f"{path}.{field}", hint, "it has several columns", "name one column")
        name = columns[0].name if columns else field
        if name in names:
            why = f"the fields {fields[names.index(name)][0]!r} and {field!r} both have the column {name!r}"
            raise _refuse(path, cls, why, "give each field a column of its own")
        names.append(name)
        schemas.append((field, _schema(bare, f"{path}.{field}", above)))
    return Record(cls, tuple(schemas), tuple(names))


def without_column(hint: Any) -> tuple[Any, list[ColumnName]]:
    """The annotation of a field without its columns. They stand around the whole type, or around that of an optional."""
    if get_origin(hint) is typing.Annotated:
        carrier, *about = get_args(hint)
        columns = [one for one in about if isinstance(one, ColumnName)]
        others = tuple(one for one in about if not isinstance(one, ColumnName))
        return (typing.Annotated[(carrier, *others)] if others else carrier), columns
    if isinstance(hint, types.UnionType) or get_origin(hint) is typing.Union:
        some = [arg for arg in get_args(hint) if arg is not type(None)]
        if len(some) == 1:
            bare, columns = without_column(some[0])
            return bare | None, columns
    return hint, []


_CARRIERS: Final[dict[type[Any], Any]] = {Unsigned: int, DecimalOf: decimal_module.Decimal}


def _annotated(annotation: Any, args: tuple[Any, ...], path: str, above: tuple[Any, ...]) -> Schema:
    if named := next((one for one in args[1:] if isinstance(one, ColumnName)), None):
        fix = f'write it at the field of a record: name: Annotated[str, column("{named.name}")]'
        raise _refuse(path, annotation, f"{named} is said of something that is no field", fix)
    declared = [one for one in args[1:] if isinstance(one, Unsigned | DecimalOf)]
    if not declared:
        return _schema(args[0], path, above)
    carrier = _CARRIERS[type(declared[0])]
    if len(declared) > 1 or args[0] is not carrier:
        fix = f"declare Annotated[{carrier.__name__}, {declared[0]}], and Annotated[...] | None where there may be none"
        raise _refuse(path, annotation, f"{declared[0]} is said of {carrier.__name__}, once", fix)
    return declared[0]


def _literal(annotation: Any, args: tuple[Any, ...], path: str) -> Schema:
    some = tuple(dict.fromkeys(arg for arg in args if arg is not None))
    item = _item_of(some)
    if item is None:
        raise _refuse(path, annotation, "its values are not all texts, and not all integers of 64 bits", _VALUES_FIX)
    schema = LiteralOf(item, some)
    return schema if len(some) == len(set(args)) else Optional(schema)


def _enum(cls: type[enum.Enum], path: str) -> Schema:
    if issubclass(cls, enum.Flag):
        raise _refuse(path, cls, "flags stand for any number of members", "use int, or a list of the members of an Enum")
    item = _item_of(tuple(member.value for member in cls))
    if item is None:
        raise _refuse(path, cls, "the values of its members are not all texts, and not all integers of 64 bits", _VALUES_FIX)
    if len(members_of(cls)) < len(cls):
        raise _refuse(path, cls, "two members have one value", "let value be what the class gives each member")
    return EnumOf(cls, item)


_VALUES_FIX: Final = 'give it values that are all texts, or all integers: "a", "b" or 1, 2'


def _item_of(values: tuple[Any, ...]) -> Integer | String | None:
    """The schema of values that are all texts or all integers, and at least one."""
    types = set(map(type, values))
    if types == {int} and all(INT_MIN <= value <= INT_MAX for value in values):
        return Integer()
    if types == {str} and all(is_utf8(value) for value in values):
        return String()
    return None


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


_KNOWN: Final = WeakKeyDictionary[type[Any], list[tuple[str, Any]]]()
"""The fields of classes of records. A class that is refused is asked again: a name that it needs may be there then."""


def _fields(cls: type[Any], path: str) -> list[tuple[str, Any]] | None:
    """Names and annotations of a record class in the order of its constructor, or None when it is no record."""
    fix = "declare every field with a type, all of them arguments of __init__"
    if attrs.has(cls):
        decorated = next(base for base in cls.__mro__ if "__attrs_attrs__" in vars(base))
        if not attrs.inspect(decorated).is_frozen:
            raise _refuse(path, cls, "it is mutable", "decorate it with @attrs.frozen")
        for a in attrs.fields(cls):
            if not a.init:
                raise _refuse(f"{path}.{a.name}", cls, "the field is not an argument of __init__", fix)
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
    except Exception as error:  # the author's own code, such as a call of the module decimal
        raise _refuse(path, cls, f"an annotation cannot be resolved ({error})", "write a type that can be evaluated") from error
    missing = [name for name in names if name not in hints]
    if missing:
        raise _refuse(f"{path}.{missing[0]}", cls, "the field has no annotation", fix)
    if not names:
        raise _refuse(path, cls, "it has no fields", "use Unit for a stream without a key")
    if why := other_data(cls):
        raise _refuse(path, cls, f"it {why}", "let records hold their fields only, and compute the rest in properties")
    return [(name, hints[name]) for name in names]
