"""The operations that expressions define themselves: of numbers, truth values, text, times, exact sums and tables."""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from tracetypes.algebra import ExactSum, greatest, least
from tracetypes.compiler.tracing.kinds import (
    BOOLEAN,
    BYTES,
    DATE,
    EXACT,
    FLOAT,
    INTEGER,
    STRING,
    TIMESTAMP,
    UNIT_VALUE,
    Kind,
)
from tracetypes.compiler.tracing.operations.operation import Operation, Signature
from tracetypes.conformance import micros_of

__all__ = [
    "ABS",
    "ADD",
    "ADD_MICROS",
    "AND",
    "BASIC",
    "BIT_AND",
    "BIT_OR",
    "BIT_XOR",
    "CONCAT",
    "CONTAINS",
    "DATE_OF",
    "DAY",
    "ENDSWITH",
    "ENUM_VALUE",
    "EQ",
    "EXACT_OF",
    "EXACT_OVER",
    "EXACT_PRODUCT",
    "EXACT_SQUARE",
    "EXACT_STATISTICS",
    "EXACT_SUMS",
    "EXACT_VALUE",
    "FLOORDIV",
    "GREATEST",
    "HAS",
    "HOUR",
    "IF",
    "INVERT",
    "IS_NULL",
    "LARGEST_SQUARED",
    "LE",
    "LEAST",
    "LENGTH",
    "LOOKUP",
    "LOWER",
    "LSTRIP",
    "LT",
    "MICROS",
    "MICROSECOND",
    "MINUTE",
    "MOD",
    "MONTH",
    "MUL",
    "NEG",
    "NOT",
    "OR",
    "REPLACE",
    "ROUND",
    "RSTRIP",
    "SECOND",
    "SLICE",
    "SMALLEST_SQUARED",
    "STARTSWITH",
    "STRIP",
    "SUB",
    "TO_FLOAT",
    "TO_INT",
    "TO_STR",
    "TRUEDIV",
    "UPPER",
    "WEEKDAY",
    "YEAR",
]

_NUMERIC: Final = (BOOLEAN, INTEGER, FLOAT, TIMESTAMP, DATE)
"""What columns hold as numbers."""

_ORDERED: Final = (*_NUMERIC, STRING, BYTES)

_BEYOND: Final = "beyond 64 bits"
_ZERO: Final = "for a zero divisor"
_NO_INTEGER: Final = "for NaN and beyond 64 bits"


def _two(*kinds: Kind, gives: Kind | None = None) -> tuple[Signature, ...]:
    return tuple(Signature((kind, kind), gives or kind) for kind in kinds)


def _one(*kinds: Kind, gives: Kind | None = None) -> tuple[Signature, ...]:
    return tuple(Signature((kind,), gives or kind) for kind in kinds)


# ---------------------------------------------------------------------------------------------- numbers

ADD: Final = Operation("add", lambda a, b: a + b, _two(INTEGER, FLOAT, EXACT), _BEYOND)
SUB: Final = Operation("sub", lambda a, b: a - b, _two(INTEGER, FLOAT), _BEYOND)
MUL: Final = Operation("mul", lambda a, b: a * b, _two(INTEGER, FLOAT), _BEYOND)
NEG: Final = Operation("neg", lambda a: -a, _one(INTEGER, FLOAT), _BEYOND)
ABS: Final = Operation("abs", abs, _one(INTEGER, FLOAT), _BEYOND)
FLOORDIV: Final = Operation("floordiv", lambda a, b: a // b, _two(INTEGER, FLOAT), f"{_ZERO} and {_BEYOND}")
MOD: Final = Operation("mod", lambda a, b: a % b, _two(INTEGER, FLOAT), _ZERO)
TRUEDIV: Final = Operation("truediv", lambda a, b: a / b, _two(INTEGER, FLOAT, gives=FLOAT), _ZERO)
TO_FLOAT: Final = Operation("to_float", float, _one(INTEGER, BOOLEAN, gives=FLOAT))
TO_INT: Final = Operation("to_int", int, _one(BOOLEAN, FLOAT, gives=INTEGER), _NO_INTEGER)
ROUND: Final = Operation("round", round, _one(FLOAT, gives=INTEGER), _NO_INTEGER)
BIT_AND: Final = Operation("bit_and", operator.and_, _two(INTEGER))
BIT_OR: Final = Operation("bit_or", operator.or_, _two(INTEGER))
BIT_XOR: Final = Operation("bit_xor", operator.xor, _two(INTEGER))
INVERT: Final = Operation("invert", operator.invert, _one(INTEGER))

# ------------------------------------------------------------------------------- comparisons, conditions

EQ: Final = Operation("eq", lambda a, b: a == b, _two(*_ORDERED, UNIT_VALUE, gives=BOOLEAN))
LT: Final = Operation("lt", lambda a, b: a < b, _two(*_ORDERED, gives=BOOLEAN))
LE: Final = Operation("le", lambda a, b: a <= b, _two(*_ORDERED, gives=BOOLEAN))
NOT: Final = Operation("not", operator.not_, _one(BOOLEAN))

_TRUTHS: Final = (Signature((BOOLEAN, BOOLEAN), BOOLEAN, more=True),)

# All arguments of these two are evaluated.
AND: Final = Operation("and", lambda *all_of: all(all_of), _TRUTHS)
OR: Final = Operation("or", lambda *any_of: any(any_of), _TRUTHS)

IF: Final = Operation(
    "if",
    lambda condition, then, otherwise: then if condition else otherwise,
    (Signature((BOOLEAN, None, None), None),),
    takes_none=True,
)
"""Only the argument that is chosen is evaluated."""

IS_NULL: Final = Operation("is_null", lambda a: a is None, (Signature((None,), BOOLEAN),), takes_none=True)

# Where both arguments may be None, so may the result.
LEAST: Final = Operation("least", least, _two(*_NUMERIC), takes_none=True)
GREATEST: Final = Operation("greatest", greatest, _two(*_NUMERIC), takes_none=True)

# ------------------------------------------------------------------------------------------------- text

LENGTH: Final = Operation("length", len, _one(STRING, gives=INTEGER))
LOWER: Final = Operation("lower", str.lower, _one(STRING))
UPPER: Final = Operation("upper", str.upper, _one(STRING))
STRIP: Final = Operation("strip", str.strip, _one(STRING))
LSTRIP: Final = Operation("lstrip", str.lstrip, _one(STRING))
RSTRIP: Final = Operation("rstrip", str.rstrip, _one(STRING))
STARTSWITH: Final = Operation("startswith", str.startswith, _two(STRING, gives=BOOLEAN))
ENDSWITH: Final = Operation("endswith", str.endswith, _two(STRING, gives=BOOLEAN))
CONTAINS: Final = Operation("contains", operator.contains, _two(STRING, gives=BOOLEAN))
REPLACE: Final = Operation("replace", str.replace, (Signature((STRING, STRING, STRING), STRING),))
CONCAT: Final = Operation("concat", lambda a, b: a + b, _two(STRING))
SLICE: Final = Operation(
    "slice",
    lambda text, start, stop: text[start:stop],
    (Signature((STRING, INTEGER, INTEGER), STRING),),
    takes_none=True,
    fixed=(1, 2),
)
"""``text[start:stop]``. A bound may be None."""

TO_STR: Final = Operation("to_str", str, _one(INTEGER, STRING, BOOLEAN, gives=STRING))
ENUM_VALUE: Final = Operation("enum_value", lambda a: a.value, (Signature((None,), None),))
"""The value of a member of an enum: an Integer or a String."""

# ------------------------------------------------------------------------------------------------ times

MICROS: Final = Operation("micros", micros_of, _one(TIMESTAMP, gives=INTEGER))
"""Microseconds since 1970."""

ADD_MICROS: Final = Operation(
    "add_micros",
    lambda time, micros: time + dt.timedelta(microseconds=micros),
    (Signature((TIMESTAMP, INTEGER), TIMESTAMP),),
    "outside of the years 1 to 9999",
)


def _field(name: str, *kinds: Kind) -> Operation:
    return Operation(name, operator.attrgetter(name), _one(*kinds, gives=INTEGER))


YEAR: Final = _field("year", TIMESTAMP, DATE)
MONTH: Final = _field("month", TIMESTAMP, DATE)
DAY: Final = _field("day", TIMESTAMP, DATE)
HOUR: Final = _field("hour", TIMESTAMP)
MINUTE: Final = _field("minute", TIMESTAMP)
SECOND: Final = _field("second", TIMESTAMP)
MICROSECOND: Final = _field("microsecond", TIMESTAMP)
WEEKDAY: Final = Operation("weekday", lambda time: time.weekday(), _one(TIMESTAMP, DATE, gives=INTEGER))
DATE_OF: Final = Operation("date", dt.datetime.date, _one(TIMESTAMP, gives=DATE))

# ------------------------------------------------------------------------------------------- exact sums


def _over(total: ExactSum, count: int) -> float:
    if count < 1:
        raise ZeroDivisionError
    return total.over(count)


EXACT_OF: Final = Operation("exact", ExactSum.of, _one(FLOAT, gives=EXACT))
"""The exact sum of one float. ``ADD`` adds exact sums."""

SMALLEST_SQUARED: Final = 2.0**-480
LARGEST_SQUARED: Final = 2.0**480
"""The squares of floats between these are the sums of two floats."""


def _square(number: float) -> ExactSum:
    if number and math.isfinite(number) and not SMALLEST_SQUARED <= abs(number) <= LARGEST_SQUARED:
        raise OverflowError
    return ExactSum.of_square(number)


EXACT_SQUARE: Final = Operation(
    "exact_square", _square, _one(FLOAT, gives=EXACT), "for numbers whose squares are no sums of two floats"
)
"""The exact sum of the square of one float."""


def _product(a: float, b: float) -> ExactSum:
    for number in (a, b):
        if number and math.isfinite(number) and not SMALLEST_SQUARED <= abs(number) <= LARGEST_SQUARED:
            raise OverflowError
    return ExactSum.of_product(a, b)


EXACT_PRODUCT: Final = Operation(
    "exact_product", _product, (Signature((FLOAT, FLOAT), EXACT),), "for numbers whose products are no sums of two floats"
)
"""The exact sum of the product of two floats."""

EXACT_SUMS: Final[Mapping[str, Operation]] = {"of": EXACT_OF, "of_square": EXACT_SQUARE, "of_product": EXACT_PRODUCT}
"""The methods of :class:`tracetypes.ExactSum` that make one of floats."""


def _statistic(name: str, sums: int, counts: int) -> Operation:
    takes = (EXACT,) * sums + (INTEGER,) * counts
    return Operation(f"exact_{name}", getattr(ExactSum, name), (Signature(takes, FLOAT),))


EXACT_STATISTICS: Final[Mapping[str, Operation]] = {
    name: _statistic(name, sums, counts)
    for name, sums, counts in (
        ("variance", 2, 2),
        ("deviation", 2, 2),
        ("covariance", 3, 2),
        ("correlation", 5, 1),
        ("slope", 4, 1),
        ("intercept", 4, 1),
    )
}
"""The methods of :class:`tracetypes.ExactSum` that take several sums and how many numbers there are. Each rounds once."""

EXACT_VALUE: Final = Operation("exact_value", lambda total: total.value(), _one(EXACT, gives=FLOAT))
"""Rounded once."""

EXACT_OVER: Final = Operation(
    "exact_over", _over, (Signature((EXACT, INTEGER), FLOAT),), "for a divisor of less than 1"
)
"""The quotient, rounded once."""

# ----------------------------------------------------------------------------------------------- tables


def _look_up(key: Any, table: Mapping[Any, Any], path: tuple[str | int, ...]) -> Any:
    row = table[key]
    for step in path:
        row = getattr(row, step) if isinstance(step, str) else row[step]
    return row


def _of_table(name: str, meaning: Callable[..., Any], gives: Kind | None, undefined: str) -> Operation:
    keys = tuple(Signature((kind,), gives) for kind in (INTEGER, STRING, BOOLEAN))
    return Operation(name, meaning, keys, undefined, of_table=True)


HAS: Final = _of_table("has", lambda key, table, path: key in table, BOOLEAN, "")
"""Whether the table holds the key."""

LOOKUP: Final = _of_table("lookup", _look_up, None, "for a key that the table does not hold")
"""What lies at the path inside the value that the table holds for the key."""

BASIC: Final[tuple[Operation, ...]] = (
    *(ADD, SUB, MUL, NEG, ABS, FLOORDIV, MOD, TRUEDIV, TO_FLOAT, TO_INT, ROUND, BIT_AND, BIT_OR, BIT_XOR, INVERT),
    *(EQ, LT, LE, NOT, AND, OR, IF, IS_NULL, LEAST, GREATEST),
    *(LENGTH, LOWER, UPPER, STRIP, LSTRIP, RSTRIP, STARTSWITH, ENDSWITH, CONTAINS, REPLACE, CONCAT, SLICE, TO_STR),
    *(ENUM_VALUE, MICROS, ADD_MICROS, YEAR, MONTH, DAY, HOUR, MINUTE, SECOND, MICROSECOND, WEEKDAY, DATE_OF),
    *(EXACT_OF, EXACT_SQUARE, EXACT_VALUE, EXACT_OVER, EXACT_PRODUCT, HAS, LOOKUP),
    *EXACT_STATISTICS.values(),
)
