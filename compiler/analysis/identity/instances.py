"""Descriptions of values that are no functions and no classes: containers, records, operators, constants."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import fractions
import operator
import pathlib
import re
import types
import uuid
import zoneinfo
from typing import Any, Final

import attrs

from tracetypes.compiler.analysis.identity.classes import Member
from tracetypes.compiler.analysis.identity.description import SCALARS, Description, Reads, Unidentified
from tracetypes.compiler.analysis.identity.functions import uses_of
from tracetypes.compiler.analysis.identity.libraries import class_library, module_library, named
from tracetypes.compiler.analysis.identity.uses import ESCAPES, depth_of_change, is_frozen
from tracetypes.compiler.analysis.identity.writer import Context, Writer
from tracetypes.compiler.tracing.cache_keys import parts_of
from tracetypes.lookup_table import LookupTable
from tracetypes.record_classes import fields_of, other_attributes
from tracetypes.redaction import hidden_fields, names_of

__all__ = ["describe_container", "describe_instance"]

_SHOWN: Final = (dt.date, dt.time, dt.timedelta, dt.timezone, decimal.Decimal, fractions.Fraction, uuid.UUID, range, slice)
"""Their ``repr`` says all."""

_GETTERS: Final = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
_CONSTRUCTORS: Final = frozenset([
    "__init__", "__new__", "__post_init__", "__attrs_post_init__", "__setstate__", "__init_subclass__",
])


_HARMLESS: Final = frozenset(["builtins", "abc", "typing", "enum", "collections.abc"])
"""Modules of bases that keep nothing."""


def describe_container(value: Any, context: Context) -> Description:
    """A list, dict or set: by what is in it."""
    writer = Writer(context)
    by = context.changes.changes(value)
    if by is not None:
        raise Unidentified(f"a {type(value).__name__} is changed by {by}")
    held = [*value, *value.values()] if isinstance(value, dict) else value
    if any(isinstance(one, type) for one in held):
        writer.reads |= Reads(types=True)
    match value:
        case list():
            writer.out.append("list")
            writer.value(tuple(value))
        case set():
            writer.unordered("set", value)
        case _:
            word = "ordered dict" if isinstance(value, collections.OrderedDict) else "dict"
            writer.out.append(word)
            if set(map(type, value)) | set(map(type, value.values())) <= set(SCALARS):
                writer.out.append(repr(dict(value)))
            else:
                for key, one in value.items():
                    writer.value(key)
                    writer.out.append(": ")
                    writer.value(one)
    return writer.description()


def describe_instance(value: Any, context: Context) -> Description:
    """Any other object."""
    cls: Any = type(value)
    writer = Writer(context)
    if isinstance(value, enum.Enum):
        writer.out.append(f"member {value.name}")
        writer.named("of", cls)
        return writer.description()
    if isinstance(value, LookupTable):
        raise Unidentified("a table outside of the dataflow may change")
    found = class_library(cls)
    if found is not None and not found.startswith("tracetypes ") and cls.__module__.partition(".")[0] not in ("attr", "attrs"):
        _constant(value, writer)
        return writer.description()
    by = context.changes.changes(value)
    if by is not None:
        raise Unidentified(f"a {cls.__name__} is changed by {by}")
    names = names_of(cls)
    writer.out.append("instance")
    writer.named("of", cls)
    _plain_part(value, writer)
    hidden = hidden_fields(cls)
    if found is not None and attrs.has(cls):
        hidden -= {a.name for a in attrs.fields(cls) if not a.init}  # what the library computes of others is no secret
    if names is None and fields_of(cls) is not None:
        names = fields_of(cls)
    if names is None:
        fields = dict(sorted(parts_of(value).items()))
    else:
        fields = {name: getattr(value, name, None) for name in (*names, *sorted(other_attributes(value)))}
    for name, one in fields.items():
        if name == "__orig_class__":
            continue
        if name in hidden and one is not None and not isinstance(one, bool):
            writer.out.append(f" {name}={context.secret(context.digest(one))}")
        else:
            writer.named(name, one)
            if found is None and isinstance(one, type):
                writer.reads |= Reads(types=True)
    if found is None:
        _refuse_changes(value, fields, context)
    else:
        _refuse_deep(value, fields)
    return writer.description()


def _plain_part(value: Any, writer: Writer) -> None:
    """What an object is if its class extends one of plain values."""
    for base in (int, float, str, bytes):
        if isinstance(value, base):
            writer.out.append(f" {base.__name__} {base.__repr__(value)}")
    if isinstance(value, BaseException) or (isinstance(value, tuple) and fields_of(type(value)) is None):
        raise Unidentified(f"a {type(value).__name__} is opaque")
    if isinstance(value, list | dict | set | frozenset | bytearray):
        raise Unidentified(f"a {type(value).__name__} is opaque")


def _refuse_changes(value: Any, fields: dict[str, Any], context: Context) -> None:
    """Refuse an instance of the author's class whose methods change it, or may."""
    cls = type(value)
    mutable = {name: one for name, one in fields.items() if depth_of_change(one)}
    if not mutable and is_frozen(cls):
        return
    for base in cls.__mro__:
        found = class_library(base)
        if found is not None:
            if not is_frozen(cls) and base.__module__ not in _HARMLESS and not found.startswith("tracetypes "):
                raise Unidentified(f"a {cls.__name__} is also a {base.__name__}, which may change")
            continue
        for name, method in _methods(base):
            if name in _CONSTRUCTORS:
                continue
            uses = uses_of(method, context)
            if uses is None:
                continue
            if uses.sets:
                raise Unidentified(f"a {cls.__name__} changes: {name}() assigns {min(uses.sets)}")
            if mutable and uses.first.least <= ESCAPES:
                raise Unidentified(f"a {cls.__name__} may change: {name}() does more than read with it")
            for field, one in mutable.items():
                if field in uses.of_first and uses.of_first[field].changes(one):
                    raise Unidentified(f"a {cls.__name__} may change: {name}() does more than read with {field}")


def _methods(cls: type[Any]) -> list[tuple[str, Any]]:
    """The functions of a class, also behind properties."""
    methods: list[tuple[str, Any]] = []
    for name, one in vars(cls).items():
        for function in (one.fget, one.fset, one.fdel) if isinstance(one, property) else (one,):
            if isinstance(function, types.FunctionType | classmethod):
                methods.append((name, function))
    return methods


def _refuse_deep(value: Any, fields: dict[str, Any]) -> None:
    """Refuse what an operator of the library would hand to the author's functions, which may change it: lists in a table."""
    for name, one in fields.items():
        if isinstance(one, list | dict | set) and depth_of_change(one) > 1:
            raise Unidentified(f"{type(value).__name__} holds things in its {name} that can change")


def _constant(value: Any, writer: Writer) -> None:
    """An object of Python or of another package: one that is a constant, or opaque."""
    cls = type(value)
    kind = f"{cls.__module__}.{cls.__qualname__}"
    if isinstance(value, _SHOWN):
        writer.out.append(f"{kind} {value!r}")
        if isinstance(value, dt.datetime | dt.time) and value.tzinfo is not None:
            writer.named("in", value.tzinfo)
    elif isinstance(value, re.Pattern):
        writer.out.append(f"pattern {value.pattern!r} {value.flags}")
    elif isinstance(value, zoneinfo.ZoneInfo) and value.key is not None:
        writer.out.append(f"zone {value.key}")
    elif isinstance(value, pathlib.PurePath):
        writer.out.append(f"path {value.as_posix()!r}")
    elif cls in _GETTERS:
        _, arguments = value.__reduce__()[:2]
        writer.out.append(kind)
        writer.value(tuple(arguments))
        names = {part for one in arguments if isinstance(one, str) for part in one.split(".")}
        writer.reads |= Reads(frozenset(names), names=any(name.startswith("__") for name in names))
    elif kind == "numpy.ndarray" and value.dtype.kind not in "OV":
        writer.out.append(f"array {value.dtype.str} {value.shape} {value.tobytes().hex()}")
    elif cls.__module__ == "numpy" and hasattr(value, "dtype") and value.dtype.kind not in "OV" and value.shape == ():
        writer.out.append(f"number {value.dtype.str} {value.tobytes().hex()}")
    elif isinstance(value, types.MappingProxyType):
        writer.out.append("view")
        writer.named("of", dict(value))
    elif isinstance(value, property | staticmethod | classmethod):
        parts: tuple[Any, ...] = (value.fget, value.fset) if isinstance(value, property) else (value.__func__,)
        writer.part(Member(cls.__name__, parts))
    else:
        _global(value, writer, kind)


def _global(value: Any, writer: Writer, kind: str) -> None:
    """An object that its module has under a name, such as a function of numpy."""
    try:
        name = value.__reduce_ex__(4)
    except Exception:  # it is not ours
        name = None
    module, found = getattr(value, "__module__", None) or type(value).__module__, None
    if isinstance(name, str) and isinstance(module, str):
        found = module_library(module) if named(module, name) is value else None
    if found is None or not isinstance(module, str) or not isinstance(name, str):
        raise Unidentified(f"a {kind} is opaque")
    writer.library_object(found, module, name)
