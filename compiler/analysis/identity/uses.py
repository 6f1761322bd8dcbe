"""What code does with an object that can change: whether it only reads it.

A list that code reads is a value. A list that code puts into another variable, hands to a function or changes may be another
list for the next item, so nothing can say what an operator with it computes.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, MutableMapping, MutableSequence, MutableSet
from typing import Any, Final, final

import attrs

from tracetypes.compiler.analysis.identity.description import SCALARS
from tracetypes.compiler.analysis.identity.libraries import class_library
from tracetypes.compiler.tracing.cache_keys import parts_of
from tracetypes.record_classes import fields_of
from tracetypes.redaction import names_of

__all__ = [
    "CHANGING_METHODS", "ESCAPES", "INSIDE", "KEPT", "READING_METHODS", "STORED", "Use", "depth_of_change", "is_frozen",
    "steps_of_method", "values_in",
]

STORED: Final = -1
"""It is assigned to: ``TABLE[key] = 1``, ``TABLE.append(1)``."""
ESCAPES: Final = 0
"""It goes on as it is: to a variable, to a function."""
INSIDE: Final = 1
"""What is in it goes on: ``for row in TABLE``."""
KEPT: Final = 99
"""Nothing of it goes on: ``key in TABLE``."""

READING_METHODS: Final = frozenset(
    [
        "get", "items", "keys", "values", "copy", "index", "count", "union", "difference", "intersection",
        "symmetric_difference", "issubset", "issuperset", "isdisjoint", "sum", "mean", "std", "var", "min", "max",
        "argmin", "argmax", "any", "all", "dot", "tolist", "item", "astype", "searchsorted", "cumsum", "prod", "round",
    ]
)
CHANGING_METHODS: Final = frozenset(
    [
        "append", "extend", "insert", "remove", "pop", "popitem", "clear", "update", "setdefault", "add", "discard",
        "sort", "reverse", "appendleft", "extendleft", "popleft", "rotate", "difference_update", "intersection_update",
        "symmetric_difference_update", "subtract", "move_to_end", "fill", "put", "resize", "partition", "__setitem__",
        "__delitem__", "__setattr__", "__delattr__", "__iadd__", "__ior__", "__iand__",
    ]
)

_CONTAINERS: Final = (list, dict, set, bytearray, MutableMapping, MutableSequence, MutableSet, Mapping)
_DEEPEST: Final = 20


@final
@attrs.define
class Use:
    """All that a function does with one object. ``least``: after how many steps to the inside a part of it goes on.
    ``method``: it calls a method of the object of which nothing is known."""

    least: int = KEPT
    method: bool = False

    def add(self, steps: int, *, method: bool = False) -> None:
        """Another use."""
        self.least = min(self.least, steps)
        self.method = self.method or method

    def changes(self, value: Any) -> bool:
        """Whether it may change the object, or what is in it."""
        if self.least == STORED:
            return True
        depth = depth_of_change(value)
        return depth > self.least or (self.method and depth > 0 and class_library(type(value)) is not None)


def is_frozen(cls: Any) -> bool:
    """Whether fields of instances cannot be assigned to."""
    props = getattr(cls, "__attrs_props__", None)
    if props is not None:
        return bool(props.is_frozen)
    params = getattr(cls, "__dataclass_params__", None)
    return bool(params.frozen) if params is not None else fields_of(cls) is not None


def values_in(value: Any) -> Iterable[Any] | None:
    """What an object holds that code can get at. None if nothing is known of it."""
    cls: Any = type(value)
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return value
    names = names_of(cls)
    if names is not None:
        return [getattr(value, name, None) for name in names]
    return list(parts_of(value).values())


def depth_of_change(value: Any, deepest: int = _DEEPEST) -> int:
    """How many steps it takes at most to get at something that can change: 0 for what cannot change, 1 for a list of
    numbers, 2 for a list of lists."""
    cls: Any = type(value)
    if cls in SCALARS or isinstance(
        value,
        type
        | types.FunctionType
        | types.BuiltinFunctionType
        | types.ModuleType
        | types.MethodType
        | types.GenericAlias
        | types.UnionType,
    ):
        return 0
    if deepest == 0 or (cls.__module__, cls.__qualname__) == ("numpy", "ndarray"):
        return 1
    if isinstance(value, list | tuple | set | frozenset | Mapping):
        within: list[Iterable[Any]] = [value.keys(), value.values()] if isinstance(value, Mapping) else [value]
        plain = all(set(map(type, some)) <= set(SCALARS) for some in within)
    else:
        if class_library(cls) is not None and names_of(cls) is None:
            return 0  # what of it can be identified at all is a constant
        plain = False
    inner = 0 if plain else max((depth_of_change(one, deepest - 1) for one in values_in(value) or ()), default=0)
    changes = isinstance(value, _CONTAINERS) or (class_library(cls) is None and not is_frozen(cls))
    return inner + 1 if inner or changes else 0


def steps_of_method(method: str, use: int) -> int:
    """How far inside of an object that lies which goes on, where a method that only reads is called. A method that is not known
    gets the object itself."""
    if method not in READING_METHODS:
        return ESCAPES
    if method in ("index", "count"):
        return KEPT
    return min(use + 1, KEPT) if method == "get" else max(use, INSIDE)
