"""Classes of records: their fields, what their constructor does, and whether fields are all that an instance has.

A record, once made, is data. Rows from outside pass the constructor of their class once (:func:`.construct`). All that moves
or keeps records afterwards makes them of their fields (:mod:`.record_copies`).
"""

from __future__ import annotations

import abc
import dataclasses
import dis
import functools
import types
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar, cast

import attrs

__all__ = [
    "HASH",
    "arguments_of",
    "by_class",
    "caches_hash",
    "constructor_code",
    "fields_of",
    "hold_only_fields",
    "is_generated",
    "member_of",
    "other_attributes",
    "other_data",
    "size_of_dictionary",
    "stores_only",
]

F = TypeVar("F", bound=Callable[..., Any])


def by_class(function: F) -> F:
    """``functools.cache`` for a function of classes. It keeps the function's type."""
    return cast(F, functools.cache(function))


HASH: Final = "_attrs_cached_hash"
"""Where attrs keeps the hash of a record of a class with ``cache_hash=True``; None before it is asked for."""

_ATTRS: Final = attrs.fields.__code__.co_filename
"""Where attrs keeps the methods that it gives to several classes."""

_HOOKS: Final = ("__attrs_pre_init__", "__attrs_post_init__", "__post_init__")


def is_generated(function: Any) -> bool:
    """Whether attrs, dataclasses or collections wrote the function."""
    code = getattr(function, "__code__", None)
    return code is not None and (
        code.co_filename.startswith("<attrs generated")
        or code.co_filename == _ATTRS
        or code.co_qualname.startswith("__create_fn__")
        or function.__globals__.get("__name__", "").startswith("namedtuple_")
    )


class _Fields(dict[type[Any], tuple[str, ...] | None]):
    """The fields of each record class. Of other classes nothing is kept: a decorator may make one a record class later."""

    def __missing__(self, cls: type[Any]) -> tuple[str, ...] | None:
        names = _fields_of(cls)
        if names is not None:
            self[cls] = names
        return names


_FIELDS: Final = _Fields()


def fields_of(cls: type[Any]) -> tuple[str, ...] | None:
    """The fields of a record class in the order of its schema, or None."""
    return _FIELDS[cls]


def _fields_of(cls: type[Any]) -> tuple[str, ...] | None:
    if attrs.has(cls):
        return tuple(a.name for a in attrs.fields(cls))
    if dataclasses.is_dataclass(cls):
        return tuple(f.name for f in dataclasses.fields(cls))
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return tuple(cls._fields)
    return None


@by_class
def arguments_of(cls: type[Any]) -> dict[str, str]:
    """The fields that the constructor of a class takes by other names: attrs has ``id`` for ``_id``, or an ``alias``."""
    return {a.name: a.alias for a in attrs.fields(cls) if a.alias != a.name} if attrs.has(cls) else {}


@by_class
def constructor_code(cls: type[Any]) -> str | None:
    """What a constructor does besides storing its arguments; None if nothing."""
    if attrs.has(cls):
        if any(not a.init for a in attrs.fields(cls)):
            return "has fields that are not arguments"
        if any(a.converter is not None for a in attrs.fields(cls)):
            return "has converters"
        if any(a.validator is not None for a in attrs.fields(cls)):
            return "has validators"
        generated = cls.__new__ is object.__new__ and is_generated(cls.__init__)
    elif dataclasses.is_dataclass(cls):
        if any(not f.init for f in dataclasses.fields(cls)):
            return "has fields that are not arguments"
        generated = cls.__new__ is object.__new__ and is_generated(cls.__init__)
    else:
        generated = cls.__init__ is object.__init__ and is_generated(cls.__new__)
    if not generated or any(hasattr(cls, hook) for hook in _HOOKS):
        return "has a constructor of its own"
    if type(cls).__call__ not in (type.__call__, type(abc.ABC).__call__):
        return "has a metaclass that makes it"
    return None


def stores_only(cls: type[Any]) -> bool:
    """Whether the constructor of a class does nothing but store its arguments."""
    return constructor_code(cls) is None


def member_of(cls: type[Any], name: str) -> Any:
    """What a class itself has under the name of a field: a slot, a default, a property; None for nothing."""
    return next((vars(at)[name] for at in cls.__mro__ if name in vars(at)), None)


class _Pair(NamedTuple):
    one: int


@by_class
def size_of_dictionary(cls: type[Any]) -> int | None:
    """How many attributes lie in the dictionary of a record that has no others than its fields. None if there is none, or if the
    constructor only stores its arguments."""
    if not cls.__dictoffset__ or stores_only(cls):
        return None
    names = [*(fields_of(cls) or ()), *([HASH] if caches_hash(cls) else [])]
    return sum(not isinstance(member_of(cls, name), _SLOTS) for name in names)


def hold_only_fields(cls: type[Any], records: list[Any]) -> bool:
    """Whether records of a class surely have no attributes but their fields, as far as a look at the class leaves that open."""
    size = size_of_dictionary(cls)
    return size is None or set(map(len, map(vars, records))) <= {size}


def caches_hash(cls: type[Any]) -> bool:
    """Whether attrs keeps the hash of a record in it."""
    props = getattr(cls, "__attrs_props__", None)
    return props is not None and props.hashability.value == "hashable_cache"


def other_attributes(record: Any) -> list[str]:
    """The attributes of a record that are no fields, and that nothing computes again."""
    own = getattr(record, "__dict__", None)
    if not own:
        return []
    cls = type(record)
    fields = {*(fields_of(cls) or ()), HASH}
    others = [name for name in own if name not in fields]
    return [name for name in others if not isinstance(member_of(cls, name), cached_property)]


_SLOTS: Final = (types.MemberDescriptorType, type(vars(_Pair)["one"]))
"""What stands for a field in a class that stores it, if there is anything."""

_HEAP_TYPE: Final = 1 << 9
"""The flag of a class that is made while a program runs."""


def other_data(cls: type[Any]) -> str | None:
    """Why the instances of a record class hold more than their fields, or other values than they show; None if they do not.
    Copies are made of the fields, so such a class cannot be a type of values."""
    fields = fields_of(cls) or ()
    bases = [base for base in cls.__mro__ if base not in (object, tuple)]
    for base in bases:
        if not base.__flags__ & _HEAP_TYPE:
            return f"is also a {base.__name__}, whose value is not among its fields"
        if "__getattribute__" in vars(base):
            return "defines __getattribute__, so its fields are not what it stores"
        added = _slots_by_hand(base) - {*fields, "__weakref__", "__dict__"}
        if added:
            return f"has the slot {min(added)!r}, which is not among its fields"
    for name in fields:
        member = member_of(cls, name)
        if hasattr(type(member), "__set__") and not isinstance(member, _SLOTS):
            return f"has a {type(member).__name__} in place of the field {name}"
        if issubclass(cls, tuple) and not isinstance(member, _SLOTS):
            return f"has another attribute in place of the field {name}"
    if added := {*_set_by_constructors(bases)} - {*fields, HASH}:
        return f"sets {min(added)!r} in its constructor, which is not among its fields"
    return None


def _slots_by_hand(cls: type[Any]) -> set[str]:
    """The slots that an author declared. attrs adds some for its own use."""
    props = vars(cls).get("__attrs_props__")
    slots = vars(cls).get("__slots__", ())
    return set() if props is not None and props.is_slotted else {slots} if isinstance(slots, str) else set(slots)


_CONSTRUCTORS: Final = (*_HOOKS, "__init__", "__new__")


def _set_by_constructors(bases: list[type[Any]]) -> Iterator[str]:
    """The attributes that the author's constructors set, as far as their code shows."""
    for base in bases:
        for name in _CONSTRUCTORS:
            method = vars(base).get(name)
            code = getattr(getattr(method, "__func__", method), "__code__", None)
            if code is not None and not is_generated(getattr(method, "__func__", method)):
                yield from _attributes_set(code)


_SETTERS: Final = ("__setattr__", "setattr", "__dict__", "vars")
_NEAR: Final = 6
"""Instructions between a setter and the name that it sets: ``object.__setattr__(self, "name", ...)``."""


def _attributes_set(code: types.CodeType) -> Iterator[str]:
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "RESUME")]
    for at, step in enumerate(steps):
        if step.opname == "STORE_ATTR" and at and "LOAD_FAST" in steps[at - 1].opname:
            yield step.argval
        elif step.opname.startswith("LOAD_") and step.argval in _SETTERS:
            constants = (one.argval for one in steps[at + 1 : at + _NEAR] if one.opname == "LOAD_CONST")
            name = next((one for one in constants if isinstance(one, str)), None)
            yield from () if name is None else (name,)
