"""The tracer's knowledge of Python: operators, builtins, classes, and which of them have no effect."""

from __future__ import annotations

import builtins
import dataclasses
import datetime as dt
import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from tracetypes.algebra import ExactSum, chosen, greatest, least
from tracetypes.compiler.tracing.expr import Call, Exact, Expr, Kind
from tracetypes.compiler.tracing.functions import FUNCTIONS
from tracetypes.compiler.tracing.symbolic.paths import isa
from tracetypes.record_classes import constructor_code, fields_of, is_generated, other_data
from tracetypes.records import Boolean, Bytes, Date, Float, Integer, String, Timestamp, Unit, UnitValue

__all__ = [
    "ALLOWED",
    "APPLIED",
    "BOOLEAN",
    "CLASSES",
    "COLUMNS",
    "COMPARED",
    "COMPARISONS",
    "DATE",
    "DAY",
    "EXACT",
    "EXACT_FLOATS",
    "FLOAT",
    "INTEGER",
    "IN_PLACE",
    "KINDS",
    "KNOWN_FUNCTIONS",
    "MICROSECOND",
    "NUMBERS",
    "OPERATORS",
    "STRING",
    "SYMBOLS",
    "TIMESTAMP",
    "TIME_FIELDS",
    "TOTAL",
    "UNARY",
    "WIDEST",
    "at_path",
    "fields_or_none",
    "is_total",
    "name_of_function",
    "problem_of",
    "super_of",
]

BOOLEAN: Final = Boolean()

INTEGER: Final = Integer()

FLOAT: Final = Float()

STRING: Final = String()

TIMESTAMP: Final = Timestamp()

DATE: Final = Date()

EXACT: Final = Exact()

NUMBERS: Final = (BOOLEAN, INTEGER, FLOAT)

COMPARED: Final = (Boolean, Integer, Float, Timestamp, Date)
"""What ``least`` and ``greatest`` take: what columns hold as numbers."""

EXACT_FLOATS: Final = 2**53

DAY: Final = 86_400_000_000

MICROSECOND: Final = dt.timedelta(microseconds=1)

OPERATORS: Final[Mapping[str, tuple[Callable[[Any, Any], Any], str]]] = {
    "Add": (operator.add, "add"),
    "Sub": (operator.sub, "sub"),
    "Mult": (operator.mul, "mul"),
    "Div": (operator.truediv, "truediv"),
    "FloorDiv": (operator.floordiv, "floordiv"),
    "Mod": (operator.mod, "mod"),
    "Pow": (operator.pow, "pow"),
    "BitAnd": (operator.and_, "and"),
    "BitOr": (operator.or_, "or"),
    "BitXor": (operator.xor, "xor"),
    "LShift": (operator.lshift, "lshift"),
    "RShift": (operator.rshift, "rshift"),
    "MatMult": (operator.matmul, "matmul"),
}

IN_PLACE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "Add": operator.iadd,
    "Mult": operator.imul,
    "BitAnd": operator.iand,
    "BitOr": operator.ior,
    "BitXor": operator.ixor,
    "Sub": operator.isub,
}

COMPARISONS: Final[Mapping[str, tuple[Callable[[Any, Any], Any], str, str]]] = {
    "Eq": (operator.eq, "eq", "Eq"),
    "NotEq": (operator.ne, "ne", "NotEq"),
    "Lt": (operator.lt, "lt", "Gt"),
    "LtE": (operator.le, "le", "GtE"),
    "Gt": (operator.gt, "gt", "Lt"),
    "GtE": (operator.ge, "ge", "LtE"),
}

UNARY: Final[Mapping[str, tuple[Callable[[Any], Any], str]]] = {
    "USub": (operator.neg, "neg"),
    "UAdd": (operator.pos, "pos"),
    "Invert": (operator.invert, "invert"),
    "Abs": (abs, "abs"),
}

SYMBOLS: Final[Mapping[str, str]] = {
    "Add": "+",
    "Sub": "-",
    "Mult": "*",
    "Div": "/",
    "FloorDiv": "//",
    "Mod": "%",
    "Pow": "**",
    "BitAnd": "&",
    "BitOr": "|",
    "BitXor": "^",
    "LShift": "<<",
    "RShift": ">>",
    "MatMult": "@",
    "USub": "-",
    "UAdd": "+",
    "Invert": "~",
    "Abs": "abs",
    "Eq": "==",
    "NotEq": "!=",
    "Lt": "<",
    "LtE": "<=",
    "Gt": ">",
    "GtE": ">=",
}

ALLOWED: Final[tuple[Any, ...]] = (tuple, list, dict, set, frozenset, enumerate, zip, reversed, iter, range, slice)
"""Builtins that only store, count or compare what they are given."""

TOTAL: Final = frozenset(
    [
        "to_float",
        "eq",
        "lt",
        "le",
        "not",
        "and",
        "or",
        "is_null",
        "least",
        "greatest",
        "length",
        "lower",
        "upper",
        "strip",
        "lstrip",
        "rstrip",
        "startswith",
        "endswith",
        "contains",
        "replace",
        "concat",
        "slice",
        "to_str",
        "enum_value",
        "micros",
        "year",
        "month",
        "day",
        "hour",
        "minute",
        "second",
        "microsecond",
        "weekday",
        "date",
        "exact",
        "exact_value",
        "exact_over",
        "has",
        "bit_and",
        "bit_or",
        "bit_xor",
        "invert",
        *(op for op, function in FUNCTIONS.items() if function.total),
    ]
)

CLASSES: Final[Mapping[Any, type[Any]]] = {
    Boolean: bool,
    Integer: int,
    Float: float,
    String: str,
    Bytes: bytes,
    Timestamp: dt.datetime,
    Date: dt.date,
    UnitValue: Unit,
    Exact: ExactSum,
}

COLUMNS: Final = (Boolean, Integer, Float, String, Bytes, Timestamp, Date)
"""What the columns of an asked table may hold."""

KINDS: Final[Mapping[type[Any], Kind]] = {cls: kind() for kind, cls in CLASSES.items()}

TIME_FIELDS: Final = ("year", "month", "day", "hour", "minute", "second", "microsecond")

KNOWN_FUNCTIONS: Final[Mapping[Any, str]] = {
    **{
        getattr(builtins, name): name
        for name in [
            "abs",
            "all",
            "any",
            "bool",
            "divmod",
            "filter",
            "float",
            "format",
            "getattr",
            "int",
            "isinstance",
            "len",
            "map",
            "max",
            "min",
            "next",
            "pow",
            "repr",
            "round",
            "sorted",
            "str",
            "sum",
        ]
    },
    functools.reduce: "reduce",
    least: "least",
    greatest: "greatest",
    chosen: "chosen",
    math.isnan: "isnan",
    math.isinf: "isinf",
    math.isfinite: "isfinite",
    math.trunc: "trunc",
    dt.timedelta: "timedelta",
    dt.datetime.fromtimestamp: "fromtimestamp",
}

APPLIED: Final[Mapping[Any, str]] = {
    **{getattr(math, op[5:]): op for op in FUNCTIONS if op.startswith("math.")},
    ord: "ord",
    dt.datetime.fromisoformat: "datetime.fromisoformat",
    dt.date.fromisoformat: "date.fromisoformat",
}
"""Functions that are applied value by value, and the operation of each."""

WIDEST: Final = 1000
"""How long a constant may say that text shall be."""


def fields_or_none(function: Any) -> tuple[str, ...] | None:
    return fields_of(function) if isa(function, type) else None


def problem_of(cls: type[Any], *, construct: bool) -> str | None:
    """Why instances of a record class cannot be made from symbols; or None.

    ``construct``: the author calls the class. Otherwise they are made of their fields.
    """
    if construct and (problem := constructor_code(cls) or _computed_defaults(cls)):
        return problem
    if any("__class__" in vars(base) for base in cls.__mro__[:-1] if base is not tuple):
        return "defines __class__"
    setter: Any = cls.__setattr__
    if setter != object.__setattr__ and not is_generated(setter):
        return "defines __setattr__"
    return other_data(cls)


def _computed_defaults(cls: type[Any]) -> str | None:
    factories: set[Any] = set()
    if attrs.has(cls):
        if any(getattr(a.default, "takes_self", False) for a in attrs.fields(cls)):
            return "has defaults that depend on other fields"
        factories = {getattr(a.default, "factory", None) for a in attrs.fields(cls)}
    elif dataclasses.is_dataclass(cls):
        factories = {f.default_factory for f in dataclasses.fields(cls)} - {dataclasses.MISSING}
    return None if factories <= {None, list, dict, set, tuple} else "has defaults that are computed"


def super_of(value: Any) -> tuple[tuple[type[Any], ...], Any]:
    """The class and the object of ``super()``."""
    first, owner, cls = (vars(super)[f"__{name}__"].__get__(value) for name in ("thisclass", "self", "self_class"))
    return cls.__mro__[cls.__mro__.index(first) + 1 :], owner


def is_total(expr: Expr) -> bool:
    """Whether it has a value for all inputs."""
    pending, seen = [expr], set[int]()
    while pending:
        at = pending.pop()
        if isinstance(at, Call) and id(at) not in seen:
            seen.add(id(at))
            if at.op not in TOTAL:
                return False
            pending.extend(at.args)
    return True


def at_path(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        value = getattr(value, step) if isinstance(step, str) else value[step]
    return value


def name_of_function(function: Any) -> str:
    name = str(
        getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or type(function).__name__
    )
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if module and module not in ("builtins", "__main__") and "." not in name else name
