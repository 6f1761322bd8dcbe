"""Operations as Spark columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, final

import attrs
from pyspark.sql import Column
from pyspark.sql import functions as F

from tracetypes.compiler.columns.column import constant
from tracetypes.compiler.columns.operations import FIRST, LAST, WHITE_SPACE
from tracetypes.compiler.tracing.expr import Exact, Kind
from tracetypes.compiler.tracing.operations import OPERATIONS, basic
from tracetypes.compiler.tracing.operations.operation import Operation
from tracetypes.records import Boolean, Bytes, Date, EnumOf, Float, Integer, Optional, String, Timestamp, UnitValue

__all__ = [
    "ACTS",
    "NO_ACTS",
    "NO_COLUMNS",
    "NotNative",
    "Term",
    "choice",
    "constant_term",
    "either",
    "extreme",
    "long",
    "same",
    "undefined_of",
]


@final
@attrs.frozen(eq=False)
class Term:
    """A column under construction. It is null if the expression is undefined or its value is None. ``sure``: it is
    never null.

    ``undefined``: only for terms that may be None, the rows that are undefined; for other terms these are the null
    rows. ``size``: nodes.
    """

    kind: Kind | None
    value: Column
    sure: bool
    size: int
    optional: bool = False
    undefined: Column | None = None


def long(value: int) -> Column:
    return F.lit(value).cast("bigint")


def same(value: Column) -> Column:
    return value


@final
@attrs.frozen(eq=False)
class Act:
    """How an operation becomes a column. ``total``: it is null only if an argument is null. ``uses``: how often it
    mentions its arguments. ``nulls``: it takes the terms, because it must know which of them may be null."""

    make: Callable[..., Column]
    total: bool = True
    size: int = 1
    uses: int = 1
    nulls: bool = False


def _partial(make: Callable[..., Column], size: int = 1, uses: int = 1) -> Act:
    return Act(make, total=False, size=size, uses=uses)


def _int_abs(a: Column) -> Column:
    return F.when(a >= 0, a).otherwise(F.try_subtract(long(0), a))


def _int_divide(a: Column, b: Column) -> Column:
    """Towards zero; null for a zero divisor and the one overflow."""
    return F.when(b == -1, F.try_subtract(long(0), a)).otherwise(F.call_function("div", a, F.nullif(b, long(0))))


def _int_floordiv(a: Column, b: Column) -> Column:
    rest = a % F.nullif(b, long(0))
    down = (rest != 0) & ((rest < 0) != (b < 0))
    return _int_divide(a, b) - F.when(down, long(1)).otherwise(long(0))


def _int_mod(a: Column, b: Column) -> Column:
    rest = a % F.nullif(b, long(0))
    return F.when((rest != 0) & ((rest < 0) != (b < 0)), rest + b).otherwise(rest)


def _int_truediv(a: Column, b: Column) -> Column:
    most = long(2**53)
    exact = a.between(-most, most) & b.between(-most, most)
    return F.when(exact, F.try_divide(a.cast("double"), b.cast("double")))


def _integral(a: Column) -> Column:
    """A float as an integer, towards zero. A cast would saturate at ``2**63``."""
    return F.when((a >= -(2.0**63)) & (a < 2.0**63), a.cast("bigint"))


def _remainder(a: Column, b: Column) -> Column:
    """C's ``fmod``; null for a zero divisor."""
    return F.try_mod(a, b)


def _float_mod(a: Column, b: Column) -> Column:
    """As CPython has it: the remainder takes the sign of the divisor, a zero too."""
    rest = _remainder(a, b)
    zero = F.when(b < 0, F.lit(-0.0)).otherwise(F.lit(0.0))
    return F.when(rest == 0, zero).when((rest < 0) != (b < 0), rest + b).otherwise(rest)


def _float_floordiv(a: Column, b: Column) -> Column:
    """As CPython has it: from the remainder, so that it is exact."""
    rest = _remainder(a, b)
    quotient = F.try_divide(a - rest, b)
    quotient = F.when((rest != 0) & ((rest < 0) != (b < 0)), quotient - 1.0).otherwise(quotient)
    whole = F.rint(quotient)
    floor = F.when(whole > quotient, whole - 1.0).otherwise(whole)
    nearest = F.when(quotient - floor > 0.5, floor + 1.0).otherwise(floor)
    return F.when(quotient == 0, F.try_divide(a, b) * 0.0).otherwise(nearest)


def _float_compare(make: Callable[[Column, Column], Column]) -> Act:
    """In Spark NaN equals NaN and is larger than any other."""

    def compare(a: Term, b: Term) -> Column:
        strange = F.isnan(a.value) | F.isnan(b.value)
        for term in (a, b):
            if not term.sure:
                strange = strange & term.value.isNotNull()
        return F.when(strange, False).otherwise(make(a.value, b.value))

    return Act(compare, size=6, uses=3, nulls=True)


def _and(*args: Term) -> Column:
    """Null where an argument is, also when another one is false."""
    column = args[0].value
    sure = args[0].sure
    for arg in args[1:]:
        if sure and arg.sure:
            column = column & arg.value
        else:
            column = F.when(column, arg.value).when(~column, F.when(arg.value.isNotNull(), False))
            sure = False
    return column


def _or_all(*args: Term) -> Column:
    column = args[0].value
    sure = args[0].sure
    for arg in args[1:]:
        if sure and arg.sure:
            column = column | arg.value
        else:
            column = F.when(~column, arg.value).when(column, F.when(arg.value.isNotNull(), True))
            sure = False
    return column


def _ascii(make: Callable[[Column], Column]) -> Act:
    return _partial(lambda a: F.when(F.length(a) == F.octet_length(a), make(a)), 5, 3)


def _replace(text: Column, old: Column, new: Column) -> Column:
    return F.when(old != "", F.replace(text, old, new))


def _micros(time: Column) -> Column:
    return F.unix_micros(time)


def _add_micros(time: Column, micros: Column) -> Column:
    total = F.try_add(_micros(time), micros)
    return F.when((total >= long(FIRST)) & (total <= long(LAST)), F.timestamp_micros(total))


def _long_of(make: Callable[[Column], Column]) -> Act:
    return Act(lambda a: make(a).cast("bigint"), size=2)


ByKind: TypeAlias = Mapping[type[Any], Act]


def _of_text(act: Act) -> ByKind:
    return {String: act}


def _of_time(make: Callable[[Column], Column]) -> ByKind:
    return {Timestamp: _long_of(make)}


def _calendar(make: Callable[[Column], Column]) -> ByKind:
    return dict.fromkeys((Timestamp, Date), _long_of(make))


def _compared(make: Callable[[Column, Column], Column]) -> dict[type[Kind], Act]:
    return {**dict.fromkeys((Boolean, Integer, String, Bytes, Timestamp, Date), Act(make)), Float: _float_compare(make)}


_TO_FLOAT: Final = Act(lambda a: a.cast("double"))

ACTS: Final[Mapping[Operation, ByKind]] = {
    basic.ADD: {Integer: _partial(F.try_add), Float: Act(lambda a, b: a + b)},
    basic.SUB: {Integer: _partial(F.try_subtract), Float: Act(lambda a, b: a - b)},
    basic.MUL: {Integer: _partial(F.try_multiply), Float: Act(lambda a, b: a * b)},
    basic.NEG: {Integer: _partial(lambda a: F.try_subtract(long(0), a), 2), Float: Act(lambda a: -a)},
    basic.ABS: {Integer: _partial(_int_abs, 5, 3), Float: Act(F.abs)},
    basic.FLOORDIV: {Integer: _partial(_int_floordiv, 20, 4), Float: _partial(_float_floordiv, 60, 40)},
    basic.MOD: {Integer: _partial(_int_mod, 15, 5), Float: _partial(_float_mod, 15, 5)},
    basic.TRUEDIV: {Integer: _partial(_int_truediv, 10, 3), Float: _partial(F.try_divide)},
    basic.BIT_AND: {Integer: Act(lambda a, b: a.bitwiseAND(b))},
    basic.BIT_OR: {Integer: Act(lambda a, b: a.bitwiseOR(b))},
    basic.BIT_XOR: {Integer: Act(lambda a, b: a.bitwiseXOR(b))},
    basic.INVERT: {Integer: Act(F.bitwise_not)},
    basic.TO_FLOAT: {Integer: _TO_FLOAT, Boolean: _TO_FLOAT},
    basic.TO_INT: {Boolean: Act(lambda a: a.cast("bigint")), Float: _partial(_integral, 6, 3)},
    basic.ROUND: {Float: _partial(lambda a: _integral(F.rint(a)), 9, 3)},
    basic.EQ: _compared(lambda a, b: a == b),
    basic.LT: _compared(lambda a, b: a < b),
    basic.LE: _compared(lambda a, b: a <= b),
    basic.NOT: {Boolean: Act(lambda a: ~a)},
    basic.AND: {Boolean: Act(_and, size=6, uses=2, nulls=True)},
    basic.OR: {Boolean: Act(_or_all, size=6, uses=2, nulls=True)},
    basic.LENGTH: _of_text(_long_of(F.length)),
    basic.LOWER: _of_text(_ascii(F.lower)),
    basic.UPPER: _of_text(_ascii(F.upper)),
    basic.STRIP: _of_text(Act(lambda a: F.btrim(a, F.lit(WHITE_SPACE)))),
    basic.LSTRIP: _of_text(Act(lambda a: F.ltrim(a, F.lit(WHITE_SPACE)))),
    basic.RSTRIP: _of_text(Act(lambda a: F.rtrim(a, F.lit(WHITE_SPACE)))),
    basic.STARTSWITH: _of_text(Act(lambda a, b: a.startswith(b))),
    basic.ENDSWITH: _of_text(Act(lambda a, b: a.endswith(b))),
    basic.CONTAINS: _of_text(Act(lambda a, b: a.contains(b))),
    basic.REPLACE: _of_text(_partial(_replace, 4, 2)),
    basic.CONCAT: _of_text(Act(F.concat)),
    basic.TO_STR: {
        Integer: Act(lambda a: a.cast("string")),
        Boolean: Act(lambda a: F.when(a, "True").when(~a, "False"), size=3, uses=2),
        String: Act(same),
    },
    basic.ENUM_VALUE: {EnumOf: Act(same)},
    basic.MICROS: {Timestamp: Act(_micros)},
    basic.ADD_MICROS: {Timestamp: _partial(_add_micros, 10, 3)},
    basic.YEAR: _calendar(F.year),
    basic.MONTH: _calendar(F.month),
    basic.DAY: _calendar(F.dayofmonth),
    basic.WEEKDAY: _calendar(F.weekday),
    basic.HOUR: _of_time(F.hour),
    basic.MINUTE: _of_time(F.minute),
    basic.SECOND: _of_time(F.second),
    basic.MICROSECOND: {Timestamp: Act(lambda a: F.pmod(_micros(a), long(1_000_000)), size=3)},
    basic.DATE_OF: {Timestamp: Act(lambda a: a.cast("date"))},
}
"""The operations as columns, by the kind of the first argument. The operations that look at more than the values of their
arguments are methods of the translation (:mod:`.catalyst`)."""

NO_COLUMNS: Final[Mapping[type[Kind], str]] = {
    Exact: "exact sums have no columns in Spark",
    UnitValue: "the value without content has no column in Spark",
}
"""Kinds that no operation takes or gives in Spark, and why."""

NO_ACTS: Final[Mapping[Operation, str]] = {
    **dict.fromkeys([op for op in OPERATIONS if op.is_function], "Spark has no function that gives what Python's gives"),
    **dict.fromkeys([op for op in OPERATIONS if op.name.startswith("exact")], NO_COLUMNS[Exact]),
}
"""Operations that Spark does not have, and why. They run as Python, by columns."""


def undefined_of(term: Term) -> Column | None:
    if term.optional:
        return term.undefined
    return None if term.sure else term.value.isNull()


def either(a: Column | None, b: Column | None) -> Column | None:
    return b if a is None else a if b is None else a | b


def constant_term(value: Any, kind: Kind | None) -> Term:
    kind = kind.item if isinstance(kind, Optional) else kind
    column = constant(value, kind)
    if column is None or isinstance(kind, Exact):
        raise NotNative("a constant has no column in Spark")
    if column.kind is None:
        return Term(None, F.lit(None), False, 1, True)
    match kind:
        case Integer():
            literal = long(column.values)
        case Timestamp():
            literal = F.timestamp_micros(long(column.values))
        case Date():
            literal = F.date_from_unix_date(F.lit(column.values))
        case UnitValue():
            return Term(kind, F.lit(None), False, 1, True)
        case Bytes():
            literal = F.lit(bytearray(column.values))
        case EnumOf():
            return attrs.evolve(constant_term(value.value, kind.item), kind=kind)
        case _:
            literal = F.lit(column.values)
    return Term(kind, literal, True, 1)


def choice(kind: Kind | None, args: list[Term]) -> Term:
    condition, then, otherwise = args
    kinds = {arg.kind for arg in (then, otherwise) if arg.kind is not None}
    if len(kinds) > 1:
        raise NotNative("an if of two types")
    if condition.sure:
        value = F.when(condition.value, then.value).otherwise(otherwise.value)
    else:
        value = F.when(condition.value, then.value).when(~condition.value, otherwise.value)
    size = 2 + 2 * condition.size + then.size + otherwise.size
    if not (then.optional or otherwise.optional):
        return Term(kind, value, all(arg.sure for arg in args), size)
    nowhere = F.lit(False)
    parts = [undefined_of(arg) for arg in args]
    column = None
    if parts[1] is not None or parts[2] is not None:
        a, b = [nowhere if part is None else part for part in parts[1:]]
        column = F.when(condition.value, a).otherwise(b)
    return Term(kind, value, False, 2 * size, True, either(parts[0], column))


def extreme(op: Operation, kind: Kind | None, a: Term, b: Term) -> Term:
    """The extreme of two columns. In Spark's own functions NaN is larger than all others, and either of two zeros may
    win."""
    if a.kind is None or a.kind != b.kind:
        raise NotNative(f"{op} of {type(a.kind).__name__}, {type(b.kind).__name__}")
    present = [Term(x.kind, x.value, True, x.size) for x in (a, b)]
    less = ACTS[basic.LT][type(a.kind)]
    smaller, larger = present if op is basic.LEAST else reversed(present)
    wins = less.make(smaller, larger) if less.nulls else less.make(smaller.value, larger.value)
    if isinstance(a.kind, Float):
        wins = F.isnan(a.value) | wins
    value = F.when(b.value.isNull() | (a.value.isNotNull() & wins), a.value).otherwise(b.value)
    undefined = either(undefined_of(a), undefined_of(b))
    size = 10 + 5 * (a.size + b.size)
    if a.optional and b.optional:
        return Term(kind, value, False, size, True, undefined)
    return Term(kind, value if undefined is None else F.when(~undefined, value), undefined is None, size)


class NotNative(Exception):
    """Spark has no exact equivalent. The text is the reason."""
