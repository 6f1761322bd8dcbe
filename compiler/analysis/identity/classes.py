"""Descriptions of classes of the author: records by their fields, enums by their members, all by the methods that code reaches.

Names of modules and classes do not count unless code reads them.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from tracetypes.compiler.analysis.identity.description import Description, Reads, Unidentified
from tracetypes.compiler.analysis.identity.functions import is_library_function, uses_of
from tracetypes.compiler.analysis.identity.libraries import class_library
from tracetypes.compiler.analysis.identity.uses import depth_of_change
from tracetypes.compiler.analysis.identity.writer import Context, Writer
from tracetypes.record_classes import fields_of, is_generated
from tracetypes.redaction import hidden_fields
from tracetypes.self_description import SelfDescribing

__all__ = ["Member", "describe_class", "describe_member"]

_SKIPPED: Final = frozenset(
    [
        "__module__", "__qualname__", "__name__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__annotate__",
        "__annotate_func__", "__annotations_cache__", "__firstlineno__", "__static_attributes__", "__abstractmethods__",
        "_abc_impl", "__parameters__", "__orig_bases__", "__attrs_attrs__", "__attrs_props__", "__attrs_own_setattr__",
        "__attrs_base_of_slotted__", "__dataclass_fields__", "__dataclass_params__", "__type_params__", "__slots__",
        "__match_args__", "__conditional_annotations__", "__classdictcell__", "__classcell__", "__protocol_attrs__",
        "_is_protocol", "__non_callable_proto_members__", "_is_runtime_protocol", "_fields", "_field_defaults",
        "__subclasshook__",
    ]
)
"""What Python and the makers of classes put there."""
_PLAIN_METACLASSES: Final = (type, abc.ABCMeta)
_SLOTS: Final = (types.MemberDescriptorType, types.GetSetDescriptorType)
_ATTRS_OPTIONS: Final = (
    "is_frozen", "is_slotted", "added_init", "added_repr", "added_eq", "added_ordering", "added_str", "is_exception",
)
_DATACLASS_OPTIONS: Final = ("init", "repr", "eq", "order", "unsafe_hash", "frozen")


@attrs.frozen(eq=False)
class Member:
    """What a class has under a name: ``how`` it is bound, the functions that it is made of."""

    how: str
    parts: tuple[Any, ...]


def describe_class(cls: type[Any], context: Context) -> Description:
    """A class of the author."""
    by = context.changes.changes(cls)
    if by is not None:
        raise Unidentified(f"the class {cls.__name__} is changed by {by}")
    writer = Writer(context)
    writer.out.append("class")
    library_bases = [base for base in cls.__mro__ if base is not object and class_library(base) is not None]
    for base in cls.__bases__:
        writer.named("base", base)
    _type_arguments(cls, writer, library_bases)
    if type(cls) not in _PLAIN_METACLASSES and not issubclass(type(cls), enum.EnumMeta):
        writer.named("metaclass", type(cls))
    try:
        if issubclass(cls, enum.Enum):
            members = dict(_enum(cls, writer))
        else:
            _fields(cls, writer)
            members = dict(_members(cls))
    except Unidentified as error:
        raise Unidentified(f"the class {cls.__name__} {error}" if not str(error).startswith("the ") else str(error)) from None
    known = {name for base in library_bases for name in vars(base)}
    always = frozenset(name for name in members if name in known or (name.startswith("__") and name.endswith("__")))
    match_args = vars(cls).get("__match_args__", ())
    values = {name: one.parts[0] for name, one in members.items() if one.how == "value"}
    constants = {name: one for name, one in values.items() if not callable(one) and not hasattr(type(one), "__get__")}
    writer.reads |= Reads(frozenset(one for one in match_args if isinstance(one, str)) - set(fields_of(cls) or ()))
    return writer.description(
        members=members,
        always=always | {"keys"} & set(members),
        class_name=cls.__qualname__,
        name=cls.__module__,
        docs=str(cls.__doc__),
        constants=constants | _shared_values(cls),
    )


def _shared_values(cls: Any) -> dict[str, Any]:
    """Values that all instances share: defaults of fields, values of enums."""
    if issubclass(cls, enum.Enum):
        return dict.fromkeys(("value", "_value_"), tuple(member._value_ for member in cls))
    if attrs.has(cls):
        given = {a.name: a.default for a in attrs.fields(cls)}
    elif dataclasses.is_dataclass(cls):
        given = {f.name: f.default for f in dataclasses.fields(cls)}
    else:
        given = dict(getattr(cls, "_field_defaults", {}))
    # A number is copied into each instance; a list is not.
    return {name: value for name, value in given.items() if depth_of_change(value)}


def _type_arguments(cls: type[Any], writer: Writer, library_bases: list[type[Any]]) -> None:
    """What a class says of types: its parameters, and those of the keys and states of an operator."""
    if parameters := getattr(cls, "__parameters__", ()):
        writer.named("parameters", tuple(parameters))
    if any(issubclass(base, SelfDescribing) for base in library_bases):
        for base in vars(cls).get("__orig_bases__", ()):
            writer.named("types", base)


def _fields(cls: type[Any], writer: Writer) -> None:
    """The fields of a record, or of another class that attrs or dataclasses made."""
    if attrs.has(cls):
        writer.out.append(" attrs")
        props = getattr(cls, "__attrs_props__", None)
        for option in _ATTRS_OPTIONS:
            writer.named(option, getattr(props, option, None))
        writer.out.append(f" {getattr(getattr(props, 'hashability', None), 'name', None)}")
        if callable(hook := getattr(props, "on_setattr_hook", None)):
            writer.named("set", hook)
        hidden, hints = hidden_fields(cls), _hints(cls)
        for a in attrs.fields(cls):
            options = (a.alias, a.init, a.repr is not False, a.hash, a.kw_only, a.order, a.eq)
            writer.out.append(f" field {a.name} {options}")
            _field_type(a.name, a.type, hints, writer)
            for label, one in (("converter", a.converter), ("validator", a.validator), ("set", a.on_setattr)):
                if one is not None:
                    writer.named(label, one)
            for label, key in (("repr", a.repr), ("eq_key", a.eq_key), ("order_key", a.order_key)):
                if key is not None and not isinstance(key, bool):
                    writer.named(label, key)
            if a.metadata:
                writer.named("metadata", dict(a.metadata))
            if isinstance(a.default, attrs.Factory):  # type: ignore[arg-type]
                writer.named(f"factory {a.default.takes_self}", a.default.factory)
            elif a.default is not attrs.NOTHING:
                _default(a.default, a.name in hidden, writer)
    elif dataclasses.is_dataclass(cls):
        writer.out.append(" dataclass")
        params = vars(cls).get("__dataclass_params__") or cls.__dataclass_params__  # type: ignore[attr-defined]
        for option in _DATACLASS_OPTIONS:
            writer.named(option, getattr(params, option))
        hints = _hints(cls)
        # All of them: one that only the constructor takes has its default here.
        every: dict[str, Any] = cls.__dataclass_fields__
        for f in every.values():
            writer.out.append(f" field {f.name} {f.init} {f.repr} {f.hash} {f.compare} {f.kw_only} {f._field_type.name}")
            _field_type(f.name, f.type, hints, writer)
            if f.metadata:
                writer.named("metadata", dict(f.metadata))
            if f.default_factory is not dataclasses.MISSING:
                writer.named("factory", f.default_factory)
            elif f.default is not dataclasses.MISSING:
                _default(f.default, not f.repr, writer)
    elif fields_of(cls) is not None and "_fields" in vars(cls):
        writer.out.append(" namedtuple")
        hints = _hints(cls)
        for name in vars(cls)["_fields"]:
            writer.out.append(f" field {name}")
            _field_type(name, None, hints, writer)
            if name in cls._field_defaults:
                _default(cls._field_defaults[name], False, writer)
    slots = vars(cls).get("__slots__", ())
    writer.out.append(f" {sorted((slots,) if isinstance(slots, str) else slots) if fields_of(cls) is None else ''}")


def _default(value: Any, hidden: bool, writer: Writer) -> None:
    if hidden and value is not None and not isinstance(value, bool):
        writer.out.append(f" default={writer.context.secret(writer.context.digest(value))}")
    else:
        writer.named("default", value)


def _hints(cls: Any) -> Mapping[str, Any]:
    """The types of fields. Empty if they cannot be resolved; then the class is no type of a stream."""
    if issubclass(cls, SelfDescribing):
        return {}
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception:  # the author's own code
        return {}


def _field_type(name: str, declared: Any, hints: Mapping[str, Any], writer: Writer) -> None:
    writer.out.append(":")
    if name in hints:
        writer.type(hints[name])
    elif isinstance(declared, str):
        writer.out.append(repr(declared))


def _enum(cls: Any, writer: Writer) -> Iterator[tuple[str, Member]]:
    """An enum: its members in order, and its methods."""
    writer.out.append(" enum")
    for name, member in cls.__members__.items():
        writer.out.append(f" {name}")
        writer.named(member.name, member._value_)
    for name, value in vars(cls).items():
        bound = isinstance(value, types.FunctionType | property | staticmethod | classmethod)
        own = not is_library_function(value) if bound else not (name.startswith("_") and name.endswith("_"))
        if own and name not in {*cls.__members__, *_SKIPPED}:
            yield _unmangled(cls, name), _member(value)


def _members(cls: type[Any]) -> Iterator[tuple[str, Member]]:
    """What counts of a class by name: methods, properties, constants."""
    fields = fields_of(cls) or ()
    for name, value in vars(cls).items():
        if name in _SKIPPED or (name in fields and not isinstance(value, property)):
            continue
        if isinstance(value, _SLOTS) or type(value).__name__ == "_tuplegetter":
            continue
        function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if isinstance(function, types.FunctionType) and (is_generated(function) or _is_made(function)):
            if name == "__getattr__":
                yield from _cached_properties(function)
            continue
        yield _unmangled(cls, name), _member(value)


def _is_made(function: types.FunctionType) -> bool:
    """Whether the makers of record classes have given a function to the class."""
    return function.__globals__.get("__name__") in ("dataclasses", "collections", "attr._make", "typing", "reprlib")


def _cached_properties(generated: types.FunctionType) -> Iterator[tuple[str, Member]]:
    """The cached properties of a class with slots, which attrs keeps in a function that it writes."""
    for one in (*(generated.__defaults__ or ()), *generated.__globals__.values()):
        if isinstance(one, dict) and one and all(isinstance(function, types.FunctionType) for function in one.values()):
            for name, function in one.items():
                yield name, Member("cached property", (function,))


def _unmangled(cls: type[Any], name: str) -> str:
    """The name as code has it: ``__name`` for ``_Class__name``."""
    prefix = f"_{cls.__name__.lstrip('_')}__"
    return f"__{name.removeprefix(prefix)}" if name.startswith(prefix) and not name.endswith("__") else name


def _member(value: Any) -> Member:
    match value:
        case staticmethod() | classmethod():
            return Member(type(value).__name__, (value.__func__,))
        case property():
            return Member("property", (value.fget, value.fset, value.fdel))
        case functools.cached_property():
            return Member("cached property", (value.func,))
        case functools.partialmethod():
            return Member("partial method", (value.func, value.args, tuple(sorted(value.keywords.items()))))
        case _:
            return Member("value", (value,))


def describe_member(member: Member, context: Context) -> Description:
    """A member of a class."""
    writer = Writer(context)
    writer.out.append(member.how)
    if member.how == "classmethod" and (uses := uses_of(member.parts[0], context)) is not None and uses.sets:
        raise Unidentified(f"{member.parts[0].__qualname__} assigns {min(uses.sets)} of a class")
    for one in member.parts:
        writer.named("", one)
    return writer.description()
