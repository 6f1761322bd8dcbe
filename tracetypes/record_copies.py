"""Records made of their fields, without their constructor: what exchanges, channels, states and outputs make."""

from __future__ import annotations

import copy
import copyreg
import io
import operator
import pickle
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final, TypeAlias

from tracetypes.record_classes import (
    HASH,
    by_class,
    caches_hash,
    fields_of,
    is_generated,
    member_of,
    other_attributes,
    stores_only,
)
from tracetypes.records import ListOf, OneOf, Optional, Record, Schema, show

__all__ = ["AS_DATA", "as_data", "builder", "copied", "made_of", "never_refuses", "unequal_copy"]

Builder: TypeAlias = Callable[[Sequence[list[Any]]], list[Any]]
"""From columns of fields, at least one, to records."""


@by_class
def made_of(cls: type[Any], names: tuple[str, ...]) -> Callable[[Iterable[Any]], Any]:
    """A function from the values of fields to a record, without the constructor of its class. ``names``: of the fields, in the
    order of the values; all of them if the class is a named tuple."""
    if issubclass(cls, tuple):
        return lambda values: tuple.__new__(cls, values)
    put, new = object.__setattr__, object.__new__
    cached = caches_hash(cls)

    def make(values: Iterable[Any]) -> Any:
        record = new(cls)
        for name, value in zip(names, values, strict=True):
            put(record, name, value)
        if cached:
            put(record, HASH, None)
        return record

    return make


@by_class
def builder(cls: type[Any], names: tuple[str, ...]) -> Builder:
    """:func:`made_of` for many records. Slots are set by their descriptors and dictionaries directly: that takes a quarter to
    three quarters of the time of a constructor."""
    if issubclass(cls, tuple):
        return lambda columns: list(map(tuple.__new__, repeat(cls), zip(*columns, strict=True)))
    defaults: tuple[str, ...] = (HASH,) if caches_hash(cls) else ()
    members = [member_of(cls, name) for name in (*names, *defaults)]
    new = object.__new__
    if all(isinstance(one, types.MemberDescriptorType) for one in members):
        setters = [one.__set__ for one in members]

        def in_slots(columns: Sequence[list[Any]]) -> list[Any]:
            records = list(map(new, repeat(cls, len(columns[0]))))
            for put, column in zip(setters, (*columns, *map(repeat, map(_none, defaults))), strict=True):
                deque(map(put, records, column), maxlen=0)
            return records

        return in_slots
    if not any(isinstance(one, types.MemberDescriptorType) for one in members):
        return _in_dictionaries(cls, names, defaults)
    make = made_of(cls, names)
    return lambda columns: list(map(make, zip(*columns, strict=True)))


def _none(_: str) -> None:
    return None


def _in_dictionaries(cls: type[Any], names: tuple[str, ...], defaults: tuple[str, ...]) -> Builder:
    """For classes without slots."""
    numbers = range(len(names))
    parts = [f"own[{name!r}] = v{at}" for at, name in zip(numbers, names, strict=True)]
    parts += [f"own[{name!r}] = None" for name in defaults]
    values, columns = (", ".join(f"{letter}{at}" for at in numbers) for letter in "vc")
    code = (
        f"def build(columns):\n    {columns}, = columns\n    records = list(map(new, repeat(cls, len(c0))))\n"
        f"    for record, {values} in zip(records, {columns}, strict=True):\n        own = record.__dict__\n"
        f"        {'; '.join(parts)}\n    return records\n"
    )
    scope: dict[str, Any] = {"new": object.__new__, "repeat": repeat, "cls": cls}
    exec(code, scope)
    build: Builder = scope["build"]
    return build


def never_refuses(schema: Schema) -> bool:
    """Whether records of the schema are their columns: no constructor refuses a value or changes it."""
    match schema:
        case Record(cls, fields):
            return stores_only(cls) and all(never_refuses(inner) for _, inner in fields)
        case Optional(item) | ListOf(item, _):
            return never_refuses(item)
        case OneOf(members):
            return all(map(never_refuses, members))
        case _:
            return True


# --------------------------------------------------------------------------------------------------- pickles


def _made(cls: type[Any], values: tuple[Any, ...], others: dict[str, Any]) -> Any:
    record = made_of(cls, fields_of(cls) or ())(values)
    for name, value in others.items():
        object.__setattr__(record, name, value)
    return record


def as_data(record: Any) -> tuple[Any, ...]:
    """What ``__reduce_ex__`` of a record returns if unpickling shall not call code of its class."""
    names = fields_of(type(record)) or ()
    values = tuple(record) if isinstance(record, tuple) else tuple([getattr(record, name) for name in names])
    return _made, (type(record), values, {name: vars(record)[name] for name in other_attributes(record)})


_PICKLING: Final = ("__new__", "__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__")
_STATE: Final = ("__getstate__", "__setstate__")
_GENERATORS: Final = ("attr._make", "collections", "dataclasses")


@by_class
def is_pickled_by_hand(cls: type[Any]) -> bool:
    """Whether a class of records has code of its own that runs when a record is pickled, or comes back. What attrs wrote for the
    fields of a base counts, too: it loses those of the class. Our own classes are meant to run theirs."""
    if fields_of(cls) is None or cls.__module__.startswith("tracetypes."):
        return False
    methods = [(name, member_of(cls, name)) for name in (*_PICKLING, *_STATE)]
    functions = [(name, getattr(one, "__func__", one)) for name, one in methods]
    return any(
        isinstance(one, types.FunctionType) and (not _is_of_a_generator(one) or (name in _STATE and name not in vars(cls)))
        for name, one in functions
    )


def _is_of_a_generator(function: types.FunctionType) -> bool:
    return is_generated(function) or function.__globals__.get("__name__") in _GENERATORS


class _Reducers(dict[type[Any], Callable[[Any], Any]]):
    """How instances of each class are pickled."""

    def __missing__(self, cls: type[Any]) -> Callable[[Any], Any]:
        if issubclass(cls, type):
            raise KeyError(cls)  # classes are pickled by name
        usual = copyreg.dispatch_table.get(cls, _USUAL)
        self[cls] = reducer = as_data if is_pickled_by_hand(cls) else usual
        return reducer


_USUAL: Final = operator.methodcaller("__reduce_ex__", pickle.HIGHEST_PROTOCOL)

AS_DATA: Final = _Reducers()
"""The ``dispatch_table`` of a pickler of values: records come back without code of their class."""


class _Pickler(pickle.Pickler):
    dispatch_table = AS_DATA


_ATOMS: Final = frozenset((str, int, float, bool, bytes, type(None)))


def copied(value: Any) -> Any:
    """A deep copy, as a restart makes it. Raises what copying raises."""
    if type(value) in _ATOMS or (type(value) is tuple and _ATOMS.issuperset(map(type, value))):
        return value
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    except Exception:  # values that only this process knows, such as of local classes
        return copy.deepcopy(value)
    return pickle.loads(buffer.getbuffer())


# --------------------------------------------------------------------------------------------------- equality


def unequal_copy(schema: Schema, value: Any) -> str | None:
    """How a value that conforms differs from its copy, which is made of the fields of its records; None if it does not."""
    return next(_differences(schema, value), None)


def _differences(schema: Schema, value: Any) -> Iterator[str]:
    match schema:
        case Optional(item):
            if value is not None:
                yield from _differences(item, value)
        case ListOf(item, _):
            for one in value:
                yield from _differences(item, one)
        case OneOf(members):
            yield from _differences(next(member for member in members if member.cls is type(value)), value)
        case Record(cls, fields):
            values = [getattr(value, name) for name, _ in fields]
            yield from _difference(value, made_of(cls, tuple(name for name, _ in fields))(values))
            for (_, inner), one in zip(fields, values, strict=True):
                yield from _differences(inner, one)
        case _:
            pass


def _difference(record: Any, again: Any) -> Iterator[str]:
    cls = type(record)
    if lost := other_attributes(record):
        yield f"{show(record)} has {lost[0]!r}, which is no field of {cls.__name__}: a copy does not have it"
    for what, same in (("equal to it", operator.eq), ("of the same hash", _same_hash)):
        if same is _same_hash and not _has_hash(record):
            continue
        try:
            if same(record, record) and not same(record, again):
                yield f"a copy of {show(record)}, made of its fields, is not {what}"
        except Exception as error:  # the author's own
            yield f"a copy of {show(record)}, made of its fields, cannot be compared: {type(error).__name__}: {error}"


def _has_hash(record: Any) -> bool:
    try:
        hash(record)
    except TypeError:  # one of its fields has none, such as a list
        return False
    return True


def _same_hash(one: Any, other: Any) -> bool:
    return hash(one) == hash(other)
