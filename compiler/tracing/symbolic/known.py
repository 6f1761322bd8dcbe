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
from tracetypes.compiler.tracing.kinds import BOOLEAN, FLOAT, INTEGER
from tracetypes.compiler.tracing.operations import basic
from tracetypes.compiler.tracing.operations.functions import (
    FUNCTIONS,
    LSHIFT,
    ORD,
    RSHIFT,
    TIMES_OF_TEXT,
    TimesOfText,
)
from tracetypes.compiler.tracing.operations.operation import Operation
from tracetypes.compiler.tracing.symbolic.paths import isa
from tracetypes.record_classes import constructor_code, fields_of, is_generated, other_data
from tracetypes.records import Boolean, Bytes, Date, Float, Integer, String, Timestamp, Unit, UnitValue
from tracetypes.sort_keys import sort_key

__all__ = [
    "ALLOWED",
    "APPLIED",
    "ARITHMETIC",
    "BITWISE",
    "CLASSES",
    "COLUMNS",
    "COMPARED",
    "COMPARISONS",
    "DAY",
    "EXACT_FLOATS",
    "IN_PLACE",
    "KINDS",
    "KNOWN_FUNCTIONS",
    "LOGICAL",
    "MICROSECOND",
    "NUMBERS",
    "OPERATORS",
    "OPERATOR_FUNCTIONS",
    "ORDER",
    "SHIFTS",
    "SIGNS",
    "SYMBOLS",
    "TEXT_METHODS",
    "TEXT_TESTS",
    "TIME_FIELDS",
    "UNARY",
    "WIDEST",
    "ZONES",
    "at_path",
    "fields_or_none",
    "is_total",
    "name_of_function",
    "problem_of",
    "super_of",
]

NUMBERS: Final = (BOOLEAN, INTEGER, FLOAT)

COMPARED: Final = (Boolean, Integer, Float, Timestamp, Date)
"""What ``least`` and ``greatest`` take: what columns hold as numbers."""

EXACT_FLOATS: Final = 2**53

DAY: Final = 86_400_000_000

MICROSECOND: Final = dt.timedelta(microseconds=1)

OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "Pow": operator.pow,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
    "MatMult": operator.matmul,
}

ARITHMETIC: Final[Mapping[str, Operation]] = {
    "Add": basic.ADD,
    "Sub": basic.SUB,
    "Mult": basic.MUL,
    "Div": basic.TRUEDIV,
    "FloorDiv": basic.FLOORDIV,
    "Mod": basic.MOD,
}
"""Operators on two numbers."""

BITWISE: Final[Mapping[str, Operation]] = {"BitAnd": basic.BIT_AND, "BitOr": basic.BIT_OR, "BitXor": basic.BIT_XOR}

LOGICAL: Final[Mapping[str, Operation]] = {"BitAnd": basic.AND, "BitOr": basic.OR}

SHIFTS: Final[Mapping[str, Operation]] = {"LShift": LSHIFT, "RShift": RSHIFT}

IN_PLACE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "Add": operator.iadd,
    "Mult": operator.imul,
    "BitAnd": operator.iand,
    "BitOr": operator.ior,
    "BitXor": operator.ixor,
    "Sub": operator.isub,
}

COMPARISONS: Final[Mapping[str, tuple[Callable[[Any, Any], Any], str]]] = {
    "Eq": (operator.eq, "Eq"),
    "NotEq": (operator.ne, "NotEq"),
    "Lt": (operator.lt, "Gt"),
    "LtE": (operator.le, "GtE"),
    "Gt": (operator.gt, "Lt"),
    "GtE": (operator.ge, "LtE"),
}
"""The function of an operator, and the operator with its arguments turned."""

ORDER: Final[Mapping[str, Operation]] = {"Eq": basic.EQ, "Lt": basic.LT, "LtE": basic.LE}

UNARY: Final[Mapping[str, Callable[[Any], Any]]] = {
    "USub": operator.neg,
    "UAdd": operator.pos,
    "Invert": operator.invert,
    "Abs": abs,
}

SIGNS: Final[Mapping[str, Operation]] = {"USub": basic.NEG, "Abs": basic.ABS}
"""Operators on a number."""

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

TIME_FIELDS: Final[Mapping[str, Operation]] = {
    "year": basic.YEAR,
    "month": basic.MONTH,
    "day": basic.DAY,
    "hour": basic.HOUR,
    "minute": basic.MINUTE,
    "second": basic.SECOND,
    "microsecond": basic.MICROSECOND,
}

TEXT_METHODS: Final[Mapping[str, Operation]] = {
    "lower": basic.LOWER,
    "upper": basic.UPPER,
    "strip": basic.STRIP,
    "lstrip": basic.LSTRIP,
    "rstrip": basic.RSTRIP,
}
"""Methods of text without arguments."""

TEXT_TESTS: Final[Mapping[str, Operation]] = {"startswith": basic.STARTSWITH, "endswith": basic.ENDSWITH}

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
    sort_key: "sort_key",
    math.isnan: "isnan",
    math.isinf: "isinf",
    math.isfinite: "isfinite",
    math.trunc: "trunc",
    dt.timedelta: "timedelta",
    dt.datetime.fromtimestamp: "fromtimestamp",
}

OPERATOR_FUNCTIONS: Final[Mapping[Any, tuple[int, str, tuple[str, ...]]]] = {
    **{function: (2, "binary", (name,)) for name, function in OPERATORS.items()},
    **{function: (2, "compare", (name,)) for name, (function, _) in COMPARISONS.items()},
    **{function: (1, "unary", (name,)) for name, function in UNARY.items() if function is not abs},
    operator.abs: (1, "unary", ("Abs",)),
    operator.not_: (1, "negation", ()),
    operator.truth: (1, "call_bool", ()),
    operator.is_: (2, "compare", ("Is",)),
    operator.is_not: (2, "compare", ("IsNot",)),
    operator.getitem: (2, "item", ()),
}
"""Functions that are operators: how many arguments each takes, and the tracer's method with its first arguments."""

APPLIED: Final[Mapping[Any, Operation]] = {
    **{getattr(math, name[5:]): one for name, one in FUNCTIONS.items() if name.startswith("math.")},
    ord: ORD,
    **{getattr(dt.datetime, name): one.instant for name, one in TIMES_OF_TEXT.items()},
    dt.date.fromisoformat: FUNCTIONS["date.fromisoformat"],
}
"""Functions that are applied value by value, and the operation of each."""

ZONES: Final[Mapping[Operation, TimesOfText]] = {one.instant: one for one in TIMES_OF_TEXT.values()}
"""Operations that give a time in a zone that only the row knows."""

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
            if not at.op.is_total:
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
