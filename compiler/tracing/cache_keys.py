"""Identity: when two things are the same for a cache.

Nothing is cached under ``==``: an author may define it, fields with ``eq=False`` do not count in it, and ``1``, ``1.0``
and ``True`` are equal. Nothing is cached from one plan to the next either: a global or a cell of a closure may change
between them. The key of a cache is an object itself (:class:`ObjectKey`), a scalar with its type and bits (:func:`scalar_key`),
or a text.
"""

from __future__ import annotations

import datetime as dt
import enum
import struct
import types
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, final

import attrs

from tracetypes.algebra import ExactSum
from tracetypes.records import Unit

__all__ = ["AnalysisCache", "ObjectKey", "operator_key", "parts_of", "scalar_key"]

T = TypeVar("T")


@final
class ObjectKey:
    """An object as a key: equal to the same object only, and alive as long as the key is."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectKey) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def scalar_key(value: Any) -> Hashable:
    """A scalar as a key: equal for scalars that no function can tell apart. Anything else is the :class:`ObjectKey` object."""
    cls = type(value)
    if cls is float:
        return cls, struct.pack("<d", value)
    if cls in (int, bool, str, bytes, types.NoneType, dt.date):
        return cls, value
    if cls is dt.datetime:
        return cls, value.replace(tzinfo=None), value.fold, scalar_key(value.tzinfo)
    if cls is dt.timezone:
        return cls, value.utcoffset(None), value.tzname(None)
    if cls is ExactSum:
        return cls, value.numerator, value.shift, value.infinities, value.nans
    if isinstance(value, enum.Enum | Unit):
        return cls, ObjectKey(value)
    return ObjectKey(value)


def parts_of(value: Any) -> dict[str, Any]:
    """The named values of an object: in its ``__dict__`` and in the slots of its classes."""
    parts: dict[str, Any] = {}
    for cls in reversed(type(value).__mro__):
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            inside = f"_{cls.__name__.lstrip('_')}{name}" if name.startswith("__") and name[-2:] != "__" else name
            if name not in ("__dict__", "__weakref__") and hasattr(value, inside):
                parts[inside] = getattr(value, inside)
    return parts | getattr(value, "__dict__", {})


def operator_key(op: Any) -> Hashable:
    """An operator as a key, within one plan: operators of one class whose values are the same scalars or the same objects."""
    return ObjectKey(type(op)), tuple((name, scalar_key(value)) for name, value in parts_of(op).items())


@final
@attrs.define(eq=False)
class AnalysisCache:
    """The analyses of one plan, each done once for all operators that are alike. The content of a function or table
    does not change while a plan is made. It may change later, so no :class:`AnalysisCache` is used for two plans."""

    _done: dict[Hashable, Any] = attrs.field(factory=dict, init=False)

    def __call__(self, analyse: Callable[..., T], op: Any, *about: Any) -> T:
        """``analyse(op, *about)``. ``about``: types, and what another analysis of the operator gave."""
        key = ObjectKey(analyse), operator_key(op), about
        if key not in self._done:
            self._done[key] = analyse(op, *about)
        result: T = self._done[key]
        return result
