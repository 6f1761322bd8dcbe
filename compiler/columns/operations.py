"""What each operation of an expression does with columns."""

from __future__ import annotations

import datetime as dt
import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.compiler.columns.arrow import array, arrow_type
from tracetypes.compiler.columns.column import Column, bare_kind, either_mask, exacts_of, from_arrow, python_values
from tracetypes.compiler.columns.exact import Exacts
from tracetypes.compiler.tracing.expr import Call, Exact
from tracetypes.compiler.tracing.functions import FUNCTIONS, SCALARS, Function
from tracetypes.records import (
    INT_MAX,
    INT_MIN,
    Boolean,
    Bytes,
    Date,
    Float,
    Integer,
    Schema,
    String,
    Timestamp,
    UnitValue,
    micros_of,
)

__all__ = ["ACTS", "FIRST", "LAST", "OF_ONE_KIND", "WHITE_SPACE", "some_marked"]

_Made: TypeAlias = tuple[Any, Any]
"""Values, and a mask of the rows that have none (or None)."""

_Act: TypeAlias = Callable[[Call, list[Any], int], _Made]

_SMALL: Final = 4096
"""Up to here a pass over a column costs less than the call that makes it."""

_ARITHMETIC: Final = ("add", "sub", "mul", "floordiv", "mod", "truediv", "eq", "lt", "le", "and", "or")

OF_ONE_KIND: Final = frozenset((*_ARITHMETIC, "startswith", "endswith", "contains", "replace", "concat"))


def _bounds(values: Any) -> tuple[int, int]:
    if isinstance(values, int):
        return values, values
    if not len(values):
        return 0, 0
    return int(np.minimum.reduce(values)), int(np.maximum.reduce(values))


def some_marked(mask: Any) -> Any:
    return mask if mask.any() else None


def _add(call: Call, args: list[Any], count: int) -> _Made:
    a, b = args
    made = a + b
    if count > _SMALL:
        (a_low, a_high), (b_low, b_high) = _bounds(a), _bounds(b)
        if a_low + b_low >= INT_MIN and a_high + b_high <= INT_MAX:
            return made, None
    return made, some_marked(((a ^ made) & (b ^ made)) < 0)


def _sub(call: Call, args: list[Any], count: int) -> _Made:
    a, b = args
    made = a - b
    if count > _SMALL:
        (a_low, a_high), (b_low, b_high) = _bounds(a), _bounds(b)
        if a_low - b_high >= INT_MIN and a_high - b_low <= INT_MAX:
            return made, None
    return made, some_marked(((a ^ b) & (a ^ made)) < 0)


def _mul(call: Call, args: list[Any], count: int) -> _Made:
    a, b = args
    made = a * b
    (a_low, a_high), (b_low, b_high) = _bounds(a), _bounds(b)
    products = (a_low * b_low, a_low * b_high, a_high * b_low, a_high * b_high)
    if min(products) >= INT_MIN and max(products) <= INT_MAX:
        return made, None
    about = np.abs(np.multiply(a, b, dtype=np.float64))
    undefined = about >= 2.0**64
    near = np.flatnonzero((about >= 2.0**62) & ~undefined)
    pairs = zip(_at(a, near), _at(b, near), strict=True)
    undefined[near] = [not INT_MIN <= x * y <= INT_MAX for x, y in pairs]
    return made, some_marked(undefined)


def _at(values: Any, rows: Any) -> list[Any]:
    return values[rows].tolist() if isinstance(values, np.ndarray) else [values] * len(rows)


def _neg(call: Call, args: list[Any], count: int) -> _Made:
    return -args[0], some_marked(args[0] == INT_MIN)


def _abs(call: Call, args: list[Any], count: int) -> _Made:
    return np.abs(args[0]), some_marked(args[0] == INT_MIN)


def _divisor(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """The divisor, 1 where it is 0 or -1; where it is 0; where it is -1."""
    if isinstance(b, int):
        if b not in (0, -1):
            return b, None, None
        b = np.full(len(a), b, np.int64)
    zero, minus = some_marked(b == 0), some_marked(b == -1)
    risky = either_mask(zero, minus)
    return (b if risky is None else np.where(risky, 1, b)), zero, minus


def _floordiv(call: Call, args: list[Any], count: int) -> _Made:
    a, b = args
    b, zero, minus = _divisor(a, b)
    made = a // b
    if minus is not None:
        made = np.where(minus, -made, made)
        zero = either_mask(zero, minus & (a == INT_MIN))
    return made, zero


def _mod(call: Call, args: list[Any], count: int) -> _Made:
    a, b = args
    b, zero, _ = _divisor(a, b)
    return a % b, zero


def _truediv(call: Call, args: list[Any], count: int) -> _Made:
    a, b = args
    zero = None
    if not isinstance(b, int):
        zero = some_marked(b == 0)
        if zero is not None:
            b = np.where(zero, 1, b)
    elif b == 0:
        return np.zeros(count), np.ones(count, np.bool_)
    made = np.true_divide(a, b)
    low = min(_bounds(a)[0], _bounds(b)[0])
    high = max(_bounds(a)[1], _bounds(b)[1])
    if low < -(2**53) or high > 2**53:
        # Not all operands are floats: the quotient of the rounded ones may not be the rounded quotient.
        big = np.zeros(count, np.bool_)
        for values in (a, b):
            big |= (np.asarray(values) > 2**53) | (np.asarray(values) < -(2**53))
        rows = np.flatnonzero(big)
        made[rows] = [x / y for x, y in zip(_at(a, rows), _at(b, rows), strict=True)]
    return made, zero


def _float_division(act: Callable[[Any, Any], Any]) -> _Act:
    def divide(call: Call, args: list[Any], count: int) -> _Made:
        a, b = args
        if isinstance(b, float):
            return act(a, b), None if b != 0.0 else np.ones(count, np.bool_)
        return act(a, b), some_marked(b == 0.0)

    return divide


def _integral(values: Any) -> _Made:
    """Floats without a fraction as integers."""
    fits = (values >= -(2.0**63)) & (values < 2.0**63)
    if fits.all():
        return values.astype(np.int64), None
    return np.where(fits, values, 0.0).astype(np.int64), ~fits


def _plain(act: Callable[..., Any]) -> _Act:
    """An operation that has a value everywhere."""

    def plain(call: Call, args: list[Any], count: int) -> _Made:
        return act(*args), None

    return plain


def _folded(act: Callable[[Any, Any], Any]) -> _Act:
    def fold(call: Call, args: list[Any], count: int) -> _Made:
        made = args[0]
        for arg in args[1:]:
            made = act(made, arg)
        return made, None

    return fold


def _mask_of(array: Any) -> Any:
    return array.to_numpy(zero_copy_only=False)


def _arrow_compare(name: str, flipped: str, schema: Schema) -> _Act:
    """Arrow compares UTF-8 bytes, which have the order of code points."""
    act, turned, type_ = getattr(pc, name), getattr(pc, flipped), arrow_type(schema)

    def compare(call: Call, args: list[Any], count: int) -> _Made:
        a, b = args
        if isinstance(a, pa.Array):
            return _mask_of(act(a, b if isinstance(b, pa.Array) else pa.scalar(b, type_))), None
        return _mask_of(turned(b, pa.scalar(a, type_))), None

    return compare


WHITE_SPACE: Final = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""What ``str.strip`` takes away."""


def _is_ascii(array: Any) -> bool:
    _, offsets, data = array.buffers()
    if data is None or not len(array):
        return True
    ends = np.frombuffer(offsets, np.int32)
    start, end = ends[array.offset], ends[array.offset + len(array)]
    return start == end or bool(np.frombuffer(data, np.int8)[start:end].min() >= 0)


def _each(call: Call, function: Callable[..., Any], args: list[Any], count: int) -> _Made:
    """Python, element by element."""
    lists = [a.tolist() if isinstance(a, np.ndarray | pa.Array) else [a] * count for a in args]
    made = [function(*row) for row in zip(*lists, strict=True)]
    match call.kind:
        case String():
            return pa.array(made, pa.string()), None
        case Boolean():
            return np.array(made, np.bool_), None
        case _:
            return np.array(made, np.int64), None


def _case(fast: Callable[[Any], Any], slow: Callable[[str], str]) -> _Act:
    def case(call: Call, args: list[Any], count: int) -> _Made:
        (array,) = args
        return (fast(array), None) if _is_ascii(array) else _each(call, slow, args, count)

    return case


def _test(fast: Callable[..., Any], slow: Callable[[str, str], bool]) -> _Act:
    def test(call: Call, args: list[Any], count: int) -> _Made:
        array, pattern = args
        if isinstance(array, pa.Array) and isinstance(pattern, str):
            return _mask_of(fast(array, pattern)), None
        return _each(call, slow, args, count)

    return test


def _replace(call: Call, args: list[Any], count: int) -> _Made:
    array, pattern, replacement = args
    if isinstance(array, pa.Array) and isinstance(pattern, str) and isinstance(replacement, str) and pattern:
        return pc.replace_substring(array, pattern, replacement), None
    return _each(call, str.replace, args, count)


def _concat(call: Call, args: list[Any], count: int) -> _Made:
    parts = [arg if isinstance(arg, pa.Array) else pa.scalar(arg, pa.string()) for arg in args]
    return pc.binary_join_element_wise(*parts, pa.scalar("", pa.string())), None


def _to_str(call: Call, args: list[Any], count: int) -> _Made:
    return pc.cast(pa.array(args[0]), pa.string()), None


def _bool_to_str(call: Call, args: list[Any], count: int) -> _Made:
    return pc.if_else(pa.array(args[0]), pa.scalar("True"), pa.scalar("False")), None


_DAY: Final = 86_400_000_000

FIRST: Final = micros_of(dt.datetime.min.replace(tzinfo=dt.UTC))

LAST: Final = micros_of(dt.datetime.max.replace(tzinfo=dt.UTC))


def _add_micros(call: Call, args: list[Any], count: int) -> _Made:
    made, undefined = _add(call, args, count)
    low, high = _bounds(made)
    if low < FIRST or high > LAST:
        undefined = either_mask(undefined, (made < FIRST) | (made > LAST))
    return made, undefined


def _year(days: Any) -> Any:
    return days.astype("M8[D]").astype("M8[Y]").astype(np.int64) + 1970


def _month(days: Any) -> Any:
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64) % 12 + 1


def _day(days: Any) -> Any:
    dates = days.astype("M8[D]")
    return (dates - dates.astype("M8[M]")).astype(np.int64) + 1


def _weekday(days: Any) -> Any:
    return (days + 3) % 7


def _of_time(act: Callable[[Any], Any]) -> _Act:
    return _plain(lambda micros: act(micros // _DAY))


def _clock(unit: int, size: int) -> _Act:
    return _plain(lambda micros: micros // unit % size)


def _exact_add(call: Call, args: list[Any], count: int) -> _Made:
    kind = Exact()
    made = [exacts_of(Column(kind, arg), 1) for arg in args]
    total = made[0] + made[1]
    return (total if len(total) == count else total.take(np.zeros(count, np.int64))), None


def _exact_value(call: Call, args: list[Any], count: int) -> _Made:
    (values,) = args
    if isinstance(values, Exacts):
        return values.rounded(), None
    return np.where(np.isnan(values), np.nan, values + 0.0), None


def _exact_over(call: Call, args: list[Any], count: int) -> _Made:
    values, counts = args
    sums = exacts_of(Column(Exact(), values), 1)
    sums = sums if len(sums) == count else sums.take(np.zeros(count, np.int64))
    counts = np.broadcast_to(np.asarray(counts, np.int64), (count,))
    undefined = counts < 1
    made = sums.over(np.where(undefined, 1, counts))
    return made, undefined if undefined.any() else None


_NOTHING: Final[dict[type[Any], Any]] = {
    cls: cls() if cls not in (dt.datetime, dt.date) else dt.datetime.fromtimestamp(0, dt.UTC)
    for cls in SCALARS.values()
} | {dt.date: dt.date(1970, 1, 1)}
"""What stands where a function gives nothing."""


def _applied(function: Function) -> _Act:
    """Python, value by value."""
    act = function.call if function.total else function

    def apply(call: Call, args: list[Any], count: int) -> _Made:
        given: list[Any] = []
        for held, arg in zip(args, call.args, strict=True):
            # Rows that are undefined already may hold times that are none.
            kind = bare_kind(arg.kind)
            if isinstance(kind, Timestamp | Date) and isinstance(held, np.ndarray):
                size = _DAY if isinstance(kind, Date) else 1
                held = np.clip(held, FIRST // size, LAST // size)
            column = Column(kind, held)
            values = python_values(column, 1 if column.scalar else count)
            given.append(itertools.repeat(values[0]) if column.scalar else values)
        undefined = None
        try:
            made = list(map(act, *given))
        except ValueError:
            made, undefined = _some(function, zip(*given, strict=False), count)
        return _held(function.gives, made), undefined

    return apply


def _some(function: Function, rows: Iterable[tuple[Any, ...]], count: int) -> tuple[list[Any], Any]:
    made, undefined, nothing = [], np.zeros(count, np.bool_), _NOTHING[SCALARS[function.gives]]
    for number, row in enumerate(rows):
        try:
            made.append(function(*row))
        except ValueError:
            made.append(nothing)
            undefined[number] = True
    return made, undefined


def _held(kind: Schema, values: list[Any]) -> Any:
    made = from_arrow(kind, array(kind, values))
    assert isinstance(made, Column)
    return made.values


def _sqrt(call: Call, args: list[Any], count: int) -> _Made:
    (values,) = args
    return np.sqrt(values), some_marked(values < 0.0)


def _acts() -> dict[tuple[str, type[Any] | None], _Act]:
    numbers: dict[tuple[str, type[Any] | None], _Act] = {
        **{(op, None): _applied(function) for op, function in FUNCTIONS.items()},
        ("math.sqrt", Float): _sqrt,
        ("math.floor", Float): lambda call, args, count: _integral(np.floor(args[0])),
        ("math.ceil", Float): lambda call, args, count: _integral(np.ceil(args[0])),
        ("bit_and", Integer): _plain(np.bitwise_and),
        ("bit_or", Integer): _plain(np.bitwise_or),
        ("bit_xor", Integer): _plain(np.bitwise_xor),
        ("invert", Integer): _plain(np.invert),
        ("add", Integer): _add,
        ("sub", Integer): _sub,
        ("mul", Integer): _mul,
        ("neg", Integer): _neg,
        ("abs", Integer): _abs,
        ("floordiv", Integer): _floordiv,
        ("mod", Integer): _mod,
        ("truediv", Integer): _truediv,
        ("add", Float): _plain(operator.add),
        ("sub", Float): _plain(operator.sub),
        ("mul", Float): _plain(operator.mul),
        ("neg", Float): _plain(operator.neg),
        ("abs", Float): _plain(np.abs),
        ("floordiv", Float): _float_division(np.floor_divide),
        ("mod", Float): _float_division(np.remainder),
        ("truediv", Float): _float_division(np.true_divide),
        ("to_float", Integer): _plain(lambda a: a.astype(np.float64)),
        ("to_float", Boolean): _plain(lambda a: a.astype(np.float64)),
        ("to_int", Boolean): _plain(lambda a: a.astype(np.int64)),
        ("to_int", Float): lambda call, args, count: _integral(np.trunc(args[0])),
        ("round", Float): lambda call, args, count: _integral(np.rint(args[0])),
        ("not", Boolean): _plain(np.logical_not),
        ("and", Boolean): _folded(np.logical_and),
        ("or", Boolean): _folded(np.logical_or),
        ("to_str", Integer): _to_str,
        ("to_str", Boolean): _bool_to_str,
        ("to_str", String): _plain(lambda a: a),
        ("exact", Float): _plain(lambda a: a),
        ("add", Exact): _exact_add,
        ("exact_value", Exact): _exact_value,
        ("exact_over", Exact): _exact_over,
    }
    for schema in (Boolean, Integer, Float, Timestamp, Date):
        numbers["eq", schema] = _plain(np.equal)
        numbers["lt", schema] = _plain(np.less)
        numbers["le", schema] = _plain(np.less_equal)
    numbers["eq", UnitValue] = lambda call, args, count: (np.ones(count, np.bool_), None)
    for text in (String(), Bytes()):
        numbers["eq", type(text)] = _arrow_compare("equal", "equal", text)
        numbers["lt", type(text)] = _arrow_compare("less", "greater", text)
        numbers["le", type(text)] = _arrow_compare("less_equal", "greater_equal", text)
    strings: dict[str, _Act] = {
        "length": _plain(lambda a: pc.utf8_length(a).to_numpy().astype(np.int64)),
        "lower": _case(pc.ascii_lower, str.lower),
        "upper": _case(pc.ascii_upper, str.upper),
        "strip": _plain(lambda a: pc.utf8_trim(a, WHITE_SPACE)),
        "lstrip": _plain(lambda a: pc.utf8_ltrim(a, WHITE_SPACE)),
        "rstrip": _plain(lambda a: pc.utf8_rtrim(a, WHITE_SPACE)),
        "startswith": _test(pc.starts_with, str.startswith),
        "endswith": _test(pc.ends_with, str.endswith),
        "contains": _test(pc.match_substring, operator.contains),
        "replace": _replace,
        "concat": _concat,
    }
    times: dict[str, _Act] = {
        "micros": _plain(lambda a: a),
        "add_micros": _add_micros,
        "year": _of_time(_year),
        "month": _of_time(_month),
        "day": _of_time(_day),
        "weekday": _of_time(_weekday),
        "hour": _clock(3_600_000_000, 24),
        "minute": _clock(60_000_000, 60),
        "second": _clock(1_000_000, 60),
        "microsecond": _clock(1, 1_000_000),
        "date": _of_time(lambda days: days),
    }
    dates: dict[str, Callable[[Any], Any]] = {"year": _year, "month": _month, "day": _day, "weekday": _weekday}
    numbers.update({(op, String): act for op, act in strings.items()})
    numbers.update({(op, Timestamp): act for op, act in times.items()})
    numbers.update({(op, Date): _plain(act) for op, act in dates.items()})
    return numbers


ACTS: Final = _acts()
