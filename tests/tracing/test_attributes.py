"""Attributes and classes of values that are not known: every name of every type, every abstract class."""

from __future__ import annotations

import abc
import collections.abc
import datetime as dt
import enum
import numbers
import typing
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import pytest

from tests.programs import Row, Sub
from tests.tracing.support import Color, is_traced

VALUES: dict[str, tuple[type[Any], Callable[[Any], Any]]] = {
    "int": (int, lambda v: v.i),
    "float": (float, lambda v: v.f),
    "str": (str, lambda v: v.s),
    "bool": (bool, lambda v: v.b),
    "optional": (int, lambda v: v.oi if v.oi is not None else v.i),
    "datetime": (dt.datetime, lambda v: v.ts),
    "date": (dt.date, lambda v: v.day),
    "timedelta": (dt.timedelta, lambda v: v.ts - v.tu),
    "record": (Sub, lambda v: v.sub),
    "tuple": (tuple, lambda v: (v.i, v.s)),
    "list": (list, lambda v: [v.i, v.oi]),
    "dict": (dict, lambda v: {"a": v.i}),
    "parts": (list, lambda v: v.s.split(",")),
}


def uses_of(value: Callable[[Any], Any], name: str) -> list[Callable[[Any], Any]]:
    """All ways to use an attribute."""
    return [
        lambda v: 1 if getattr(value(v), name) else 2,
        lambda v: getattr(value(v), name),
        lambda v: getattr(value(v), name) == 1,
        lambda v: getattr(value(v), name) is None,
        lambda v: isinstance(getattr(value(v), name), int),
        lambda v: not getattr(value(v), name),
        lambda v: getattr(value(v), name) in (None, 1, "a"),
        lambda v: f"{getattr(value(v), name)}" == "",
        lambda v: type(getattr(value(v), name)) is int,
        lambda v: getattr(value(v), name)() == 1,
        lambda v: 1 if (getattr(value(v), name), 1) == (None, 1) else 2,
    ]


@pytest.mark.parametrize("kind", VALUES)
def test_an_attribute_is_known_or_refused(kind: str) -> None:
    cls, value = VALUES[kind]
    for name in [*dir(cls), "__dict__", "__slots__", "nothing"]:
        for use in uses_of(value, name):
            is_traced(use)


def test_attributes_that_are_known_stay_traced() -> None:
    assert is_traced(lambda v: (v.ts.hour, v.day.year, v.i.real, v.b.real, v.f.real, v.ts.tzinfo is dt.UTC))
    assert is_traced(lambda v: (v.ts - v.tu).days)
    assert is_traced(
        lambda v: v.i.__class__ is int and v.ts.__class__.__name__ == "datetime" and v.sub.__class__ is Sub
    )


# ------------------------------------------------------------ classes


@runtime_checkable
class HasReal(Protocol):
    """Data."""

    real: Any


@runtime_checkable
class CanLower(Protocol):
    """A method."""

    def lower(self) -> str: ...


class Odd(type):
    """Looks at the value."""

    def __instancecheck__(cls, value: object) -> bool:
        return value == 1 or value is None


class IsOdd(metaclass=Odd):
    """Of a metaclass with an answer of its own."""


class Hooked(abc.ABC):  # noqa: B024
    """What has a ``lower``."""

    @classmethod
    def __subclasshook__(cls, other: type[Any]) -> bool:
        return hasattr(other, "lower")


CLASSES = [
    *(getattr(collections.abc, name) for name in collections.abc.__all__),
    *(getattr(numbers, name) for name in numbers.__all__),
    *(one for one in vars(typing).values() if isinstance(one, type) and getattr(one, "_is_runtime_protocol", False)),
    *(
        int,
        float,
        str,
        bool,
        bytes,
        complex,
        object,
        list,
        tuple,
        dict,
        set,
        type(None),
        dt.date,
        dt.datetime,
        dt.timedelta,
    ),
    *(dt.tzinfo, Sub, Row, HasReal, CanLower, IsOdd, Hooked, enum.Enum, Color, int | None, str | Sequence, (int, str)),
    *(
        (dt.date, (collections.abc.Sized,)),
        typing.Union[int, str],  # noqa: UP007
        typing.Optional[float],  # noqa: UP045
        typing.Sized,
        list,
        list[int],
    ),
    *(typing.Any, Sequence[int], typing.NamedTuple, collections.abc.Hashable, abc.ABC, type, Callable, Protocol),
]


def questions(value: Callable[[Any], Any], cls: Any) -> list[Callable[[Any], Any]]:
    """All ways to ask for a class."""
    return [
        lambda v: isinstance(value(v), cls),
        lambda v: 1 if type(value(v)) is cls else 2,
        lambda v: value(v).__class__ is cls,
        lambda v: issubclass(type(value(v)), cls),
    ]


@pytest.mark.parametrize("kind", [*VALUES, "may be None", "row"])
def test_the_class_of_a_value_is_that_of_the_real_one(kind: str) -> None:
    _, value = VALUES.get(kind, (None, (lambda v: v.osub) if kind == "may be None" else (lambda v: v)))
    for cls in CLASSES:
        for use in questions(value, cls):
            is_traced(use)
    assert is_traced(lambda v: (isinstance(value(v), int), isinstance(value(v), collections.abc.Sized | None)))
