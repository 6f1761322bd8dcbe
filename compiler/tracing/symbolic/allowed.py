"""The allowed operations: those whose meaning the tracer knows, in one table for each kind of value.

Everything else is refused, in one way (:meth:`Core.refuse`). A symbol never meets code that is neither compiled again
nor listed here.
"""

from __future__ import annotations

import abc
import datetime as dt
import decimal
import enum
import functools
import re
import types
import typing
import zoneinfo
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any, Final

import attrs

from tracetypes.algebra import ExactSum
from tracetypes.compiler.tracing.expr import Exact
from tracetypes.compiler.tracing.operations.basic import EXACT_STATISTICS
from tracetypes.compiler.tracing.operations.functions import FUNCTIONS
from tracetypes.compiler.tracing.symbolic.known import TIME_FIELDS
from tracetypes.compiler.tracing.symbolic.paths import isa
from tracetypes.errors import DataError
from tracetypes.record_classes import is_generated
from tracetypes.records import Boolean, Date, EnumOf, Float, Integer, String, Timestamp
from tracetypes.schemas import schema_of

__all__ = [
    "ATTRIBUTES",
    "CHANGING",
    "COMPARING",
    "CONTAINERS",
    "DURATION_ATTRIBUTES",
    "DURATION_METHODS",
    "ITERATED",
    "LENGTHS",
    "MAPPINGS",
    "METHODS",
    "PURE",
    "SELF_MATCHING",
    "VIEWS",
    "compares_as_known",
    "compares_by_value",
    "constructs_as_known",
    "has_plain_value",
    "is_instance",
    "is_mapping",
    "is_sequence",
    "kind_of_member",
    "may_call",
    "module_of",
    "plain_enum",
]

# ------------------------------------------------------------------------------------------------ scalars

ATTRIBUTES: Final[Mapping[type[Any], frozenset[str]]] = {
    Boolean: frozenset({"real", "numerator"}),
    Integer: frozenset({"real", "numerator"}),
    Float: frozenset({"real"}),
    Timestamp: frozenset({*TIME_FIELDS, "tzinfo"}),
    Date: frozenset({"year", "month", "day"}),
}
"""Attributes of a scalar of each kind, besides ``__class__``."""

METHODS: Final[Mapping[type[Any], frozenset[str]]] = {
    String: frozenset(
        {"endswith", "join", "lower", "partition", "replace", "rpartition", "rsplit", "split", "startswith", "upper"}
        | {op.removeprefix("str.") for op in FUNCTIONS if op.startswith("str.")}
    ),
    Timestamp: frozenset(
        {"astimezone", "date", "isoformat", "isoweekday", "replace", "strftime", "timestamp", "toordinal", "weekday"}
    ),
    Date: frozenset({"isoformat", "isoweekday", "strftime", "toordinal", "weekday"}),
    Exact: frozenset({"over", "value", *EXACT_STATISTICS}),
}
"""Methods of a scalar of each kind. A method can be called, and nothing else."""

DURATION_ATTRIBUTES: Final = frozenset({"days", "microseconds", "seconds"})

DURATION_METHODS: Final = frozenset({"total_seconds"})

# --------------------------------------------------------------------------------------------- containers

CHANGING: Final[Mapping[type[Any], frozenset[str]]] = {
    list: frozenset({"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"}),
    dict: frozenset({"clear", "pop", "popitem", "setdefault", "update"}),
    set: frozenset({"add", "clear", "discard", "remove", "update"}),
}
"""Methods that change a container, which a function may do to what it has made itself."""

CONTAINERS: Final[Mapping[type[Any], frozenset[str]]] = {
    tuple: frozenset({"count", "index"}),
    list: CHANGING[list] | {"copy", "count", "index"},
    dict: CHANGING[dict] | {"copy", "get", "items", "keys", "values"},
    set: CHANGING[set] | {"copy"},
}
"""Methods of a container that may hold values that are not known."""

MAPPINGS: Final = (dict, OrderedDict, types.MappingProxyType)

VIEWS: Final[tuple[type[Any], ...]] = (type({}.keys()), type({}.values()), type({}.items()))

_HOLDING: Final[tuple[Any, ...]] = (tuple, list, dict, set, *VIEWS)

ITERATED: Final[tuple[Any, ...]] = tuple(cls.__iter__ for cls in _HOLDING)
"""How Python takes containers apart."""

LENGTHS: Final[tuple[Any, ...]] = tuple(cls.__len__ for cls in _HOLDING)
"""How Python counts what is in them."""

# ---------------------------------------------------------------------------------------------- patterns

_SEQUENCE, _MAPPING = 1 << 5, 1 << 6  # Py_TPFLAGS_SEQUENCE and Py_TPFLAGS_MAPPING

SELF_MATCHING: Final = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)
"""``case int(x)``: the one positional pattern of such a class is for the whole value."""


def is_sequence(cls: type[Any]) -> bool:
    """Whether a sequence pattern matches instances of a class."""
    return bool(cls.__flags__ & _SEQUENCE)


def is_mapping(cls: type[Any]) -> bool:
    """Whether a mapping pattern matches instances of a class."""
    return bool(cls.__flags__ & _MAPPING)


# ------------------------------------------------------------------------------------------------ classes


def is_instance(cls: type[Any], classes: Any) -> bool | None:
    """``isinstance`` of every value whose class is exactly ``cls``; None if it depends on the value, or on other code."""
    if isa(classes, tuple):
        return _first(cls, classes)
    if isa(classes, types.UnionType) or typing.get_origin(classes) is typing.Union:
        return _first(cls, tuple(type(None) if one is None else one for one in typing.get_args(classes)))
    if not isa(classes, type):
        return None
    answers: Any = type(classes).__instancecheck__
    if answers == type.__instancecheck__:
        return classes in cls.__mro__
    return issubclass(cls, classes) if answers == abc.ABCMeta.__instancecheck__ else None


def _first(cls: type[Any], classes: tuple[Any, ...]) -> bool | None:
    for one in classes:
        if (answer := is_instance(cls, one)) is not False:
            return answer
    return False


# -------------------------------------------------------------------------------------------- comparisons

COMPARING: Final = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")

_COMPARED: Final = (
    *(int, float, str, bool, bytes, types.NoneType, dt.datetime, dt.date, dt.timedelta),
    *(tuple, list, dict, object),
)


@functools.lru_cache(maxsize=1024)
def compares_as_known(cls: type[Any]) -> bool:
    """Whether only Python's own comparisons, or generated ones without a key, compare instances of a class and their
    content."""
    for name in COMPARING:
        method = getattr(cls, name)
        if isa(method, types.FunctionType):
            if not is_generated(method):
                return False
        elif getattr(method, "__objclass__", None) not in _COMPARED:
            return False
    return not attrs.has(cls) or all(a.eq_key is None and a.order_key is None for a in attrs.fields(cls))


def plain_enum(value: Any) -> Any:
    """The text or integer of an enum member that compares like it; any other value unchanged."""
    cls: Any = type(value)
    if issubclass(cls, enum.Enum):
        for plain in (str, int):
            if issubclass(cls, plain) and all(getattr(cls, name) is getattr(plain, name) for name in COMPARING):
                return plain.__str__(value) if plain is str else int.__int__(value)
    return value


@functools.lru_cache(maxsize=256)
def compares_by_value(cls: type[enum.Enum]) -> bool | None:
    """Whether members of an enum compare like their values; False if only a member equals itself, and None if the class
    has comparisons of its own."""
    if all(getattr(cls, name) is getattr(object, name) for name in COMPARING):
        return False
    plain = [(plain_enum(member), member.value) for member in cls]
    return True if all(type(one) is type(value) and one == value for one, value in plain) else None


def kind_of_member(cls: type[enum.Enum]) -> EnumOf | None:
    """The kind of the members of an enum as constants of which results are made; None where a member may stand for its text or
    number, or shows something else as its value."""
    if compares_by_value(cls) is not False or not has_plain_value(cls):
        return None
    try:
        schema = schema_of(cls)
    except DataError:
        return None
    return schema if isinstance(schema, EnumOf) else None


def has_plain_value(cls: type[enum.Enum]) -> bool:
    """Whether ``member.value`` is Python's own property."""
    default = next(vars(base)["value"] for base in cls.__mro__ if "value" in vars(base))
    return default is vars(enum.Enum)["value"]


# -------------------------------------------------------------------------------------- calls on constants

_PURE: Final = """
    _collections _collections_abc _datetime _decimal _functools _json _operator _pydatetime _statistics _struct _zoneinfo
    base64 binascii calendar cmath collections colorsys copy datetime decimal enum fractions functools itertools json math
    numbers operator re statistics string struct textwrap tracetypes types typing unicodedata zlib zoneinfo
"""
PURE: Final = frozenset(_PURE.split())
"""Modules of Python whose functions and classes give the same for the same, whenever they are called."""

_NAMES: Final = """
    abs all any ascii bin bool bytes callable chr classmethod complex dict divmod enumerate filter float format frozenset
    getattr hasattr hex int isinstance issubclass iter len list map max min object oct ord pow property range repr
    reversed round set slice sorted staticmethod str sum super tuple type zip
"""
_BUILTINS: Final = frozenset(_NAMES.split())

_CONSTRUCTORS: Final[Mapping[type[Any], frozenset[str]]] = {
    dt.datetime: frozenset({"combine", "fromisocalendar", "fromisoformat", "fromordinal", "fromtimestamp", "strptime"}),
    dt.date: frozenset({"fromisocalendar", "fromisoformat", "fromordinal"}),
    dict: frozenset({"fromkeys"}),
    str: frozenset({"maketrans"}),
    int: frozenset({"from_bytes"}),
    float: frozenset({"fromhex"}),
    bytes: frozenset({"fromhex"}),
    ExactSum: frozenset({"of", "of_square", "of_product"}),
}
"""Methods of classes. What asks for the time of day is none."""

_OWNERS: Final[tuple[Any, ...]] = (
    *(str, bytes, int, float, complex, tuple, frozenset, range, list, dict, set, deque, types.MappingProxyType),
    *(dt.date, dt.time, dt.timedelta, dt.tzinfo, re.Pattern, re.Match, decimal.Decimal, zoneinfo.ZoneInfo),
    *VIEWS,
)


def may_call(function: Any) -> bool:
    """Whether something that is neither the author's nor a record may be called with constants."""
    owner: Any = getattr(function, "__self__", None)
    name = getattr(function, "__name__", "")
    if isa(owner, type):
        return name in _CONSTRUCTORS.get(owner, ())
    if owner is not None and not isa(owner, types.ModuleType):
        return isa(owner, _OWNERS)
    module = str(getattr(function, "__module__", None) or getattr(function, "__objclass__", type).__module__)
    if module == "builtins":
        return name in _BUILTINS or isa(function, types.MethodDescriptorType | types.WrapperDescriptorType)
    if module.strip("_") == "operator" and not isa(function, type):
        return False  # some of these change what they are given
    return module.partition(".")[0] in PURE or (isa(function, type) and constructs_as_known(function))


def constructs_as_known(cls: type[Any]) -> bool:
    """Whether the constructor of a class is generated, or Python's own."""
    if module_of(cls) in PURE or issubclass(cls, enum.Enum | BaseException):
        return True
    if type(cls).__call__ is not type.__call__ and type(cls) is not abc.ABCMeta:
        return False
    return all(
        is_generated(method) or not isa(method, types.FunctionType) for method in (cls.__new__, cls.__init__)
    ) and not any(hasattr(cls, hook) for hook in ("__attrs_post_init__", "__attrs_pre_init__", "__post_init__"))


def module_of(value: Any) -> str:
    return str(getattr(value, "__module__", "")).partition(".")[0]
