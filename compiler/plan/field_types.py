"""Types as lines of text, with their fields."""

from __future__ import annotations

import dataclasses
import enum
import typing
from typing import Any, NewType, get_args, get_origin

import attrs

from tracetypes.conformance import name_of
from tracetypes.records import DecimalOf, EnumOf, ListOf, LiteralOf, OneOf, Optional, Record, Schema, Unit, Unsigned
from tracetypes.schemas import show_type

__all__ = ["class_name", "fields_of", "fields_of_type", "types_made"]


def fields_of(schema: Schema, path: str = "") -> dict[str, str]:
    """A schema as lines: its name, and the names of each field of its records, by path."""
    match schema:
        case Record(cls, fields):
            types = {path: class_name(cls)}
            for name, inner in fields:
                types |= fields_of(inner, f"{path}.{name}")
            return types
        case Optional(item):
            types = fields_of(item, path)
            return types | {path: f"{types[path]} | None"}
        case ListOf(item, frozen):
            return {path: "tuple" if frozen else "list"} | fields_of(item, f"{path}[]")
        case OneOf(members):
            types = {path: " | ".join(class_name(member.cls) for member in members)}
            for member in members:
                types |= fields_of(member, f"{path}<{member.cls.__name__}>")
            return types
        case LiteralOf(item, values):
            return {path: f"{name_of(item)} of {', '.join(sorted(map(repr, values)))}"}
        case EnumOf(cls, _):
            return {path: _members(cls)}
        case DecimalOf():
            return {path: str(schema)}
        case _:
            return {path: name_of(schema)}


def _members(cls: type[enum.Enum]) -> str:
    """An enum with the values of its members, whatever their order."""
    return f"{class_name(cls)} of {', '.join(sorted(repr(member.value) for member in cls))}"


def fields_of_type(annotation: Any, path: str = "", above: tuple[Any, ...] = ()) -> dict[str, str]:
    """:func:`fields_of` for the type of a state, which need not have a schema: any class, and any generic type."""
    if isinstance(annotation, NewType):
        return fields_of_type(annotation.__supertype__, path, above)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is typing.Annotated:
        declared = [one for one in args[1:] if isinstance(one, DecimalOf | Unsigned)]
        return {path: str(declared[0])} if declared else fields_of_type(args[0], path, above)
    if origin is typing.Literal:
        return {path: show_type(annotation)}
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum) and annotation is not Unit:
        return {path: _members(annotation)}
    cls = origin if isinstance(origin, type) else annotation
    types = {path: class_name(cls) if isinstance(cls, type) and not args else show_type(annotation)}
    if annotation in above:
        return types
    inner = (*above, annotation)
    for at, arg in enumerate(args):
        if arg is not ... and arg is not type(None):
            types |= fields_of_type(arg, f"{path}[{at}]", inner)
    if isinstance(cls, type) and cls.__module__ not in ("builtins", "typing"):
        for name, field in _annotations(cls).items():
            types |= fields_of_type(field, f"{path}.{name}", inner)
    return types


def _annotations(cls: type[Any]) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except Exception:  # names that only the author's file knows
        hints = getattr(cls, "__annotations__", {})
    return {name: hint for name, hint in hints.items() if get_origin(hint) is not typing.ClassVar}


def class_name(cls: type[Any]) -> str:
    """The name by which a class is pickled."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def types_made(make: Any) -> str:
    """The types in the result of a pure function of the author."""
    try:
        return _types(make(), 6)
    except Exception as error:  # a run will say so
        return f"raises {type(error).__name__}"


def _types(value: object, depth: int) -> str:
    cls: Any = type(value)
    inner: list[str] = []
    if depth and isinstance(value, list | tuple | set | frozenset):
        inner = sorted({_types(one, depth - 1) for one in value})
    elif depth and isinstance(value, dict):
        inner = sorted({f"{_types(key, depth - 1)}: {_types(one, depth - 1)}" for key, one in value.items()})
    elif depth and attrs.has(cls):
        inner = [f"{a.name}: {_types(getattr(value, a.name), depth - 1)}" for a in attrs.fields(cls)]
    elif depth and dataclasses.is_dataclass(value):
        inner = [f"{f.name}: {_types(getattr(value, f.name), depth - 1)}" for f in dataclasses.fields(value)]
    return class_name(cls) + (f"({', '.join(inner)})" if inner else "")
