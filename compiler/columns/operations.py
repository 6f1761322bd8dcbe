"""The operations of expressions, on columns."""

from __future__ import annotations

import datetime as dt
import enum
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.compiler.columns import exact_operations
from tracetypes.compiler.columns.arithmetic import (
    Act,
    Made,
    absolute,
    add,
    bounds,
    float_division,
    floordiv,
    integral,
    mod,
    mul,
    negative,
    plain,
    some_marked,
    sub,
    truediv,
)
from tracetypes.compiler.columns.arrow import array, arrow_type
from tracetypes.compiler.columns.column import ZERO, Column, bare_kind, either_mask
from tracetypes.compiler.columns.conversion import column_from_arrow, python_values
from tracetypes.compiler.columns.match_groups import group_of_matches
from tracetypes.compiler.columns.regular_expressions import pattern_of_arrow
from tracetypes.compiler.tracing.expr import Call, Exact, Kind
from tracetypes.compiler.tracing.operations import OPERATIONS, basic, functions
from tracetypes.compiler.tracing.operations.operation import SCALARS, Operation, Undefined
from tracetypes.compiler.tracing.operations.regular_expressions import GROUP, TEST
from tracetypes.conformance import micros_of
from tracetypes.records import Boolean, Bytes, Date, EnumOf, Float, Integer, Schema, String, Timestamp, UnitValue

__all__ = ["ACTS", "FIRST", "LAST", "WHITE_SPACE", "act_of"]


def folded(act: Callable[[Any, Any], Any]) -> Act:
    def fold(call: Call, args: list[Any], count: int) -> Made:
        result = args[0]
        for arg in args[1:]:
            result = act(result, arg)
        return result, None

    return fold


def _mask_of(array: Any) -> Any:
    return array.to_numpy(zero_copy_only=False)


def _arrow_compare(name: str, flipped: str, schema: Schema) -> Act:
    """Arrow compares UTF-8 bytes, which have the order of code points."""
    act, turned, type_ = getattr(pc, name), getattr(pc, flipped), arrow_type(schema)

    def compare(call: Call, args: list[Any], count: int) -> Made:
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


def _each(call: Call, function: Callable[..., Any], args: list[Any], count: int) -> Made:
    """Python, element by element."""
    lists = [a.tolist() if isinstance(a, np.ndarray | pa.Array) else [a] * count for a in args]
    results = [function(*row) for row in zip(*lists, strict=True)]
    match call.kind:
        case String():
            return pa.array(results, pa.string()), None
        case Boolean():
            return np.array(results, np.bool_), None
        case _:
            return np.array(results, np.int64), None


def _case(fast: Callable[[Any], Any], slow: Callable[[str], str]) -> Act:
    def case(call: Call, args: list[Any], count: int) -> Made:
        (array,) = args
        return (fast(array), None) if _is_ascii(array) else _each(call, slow, args, count)

    return case


def _test(fast: Callable[..., Any], slow: Callable[[str, str], bool]) -> Act:
    def test(call: Call, args: list[Any], count: int) -> Made:
        array, pattern = args
        if isinstance(array, pa.Array) and isinstance(pattern, str):
            return _mask_of(fast(array, pattern)), None
        return _each(call, slow, args, count)

    return test


def _replace(call: Call, args: list[Any], count: int) -> Made:
    array, pattern, replacement = args
    if isinstance(array, pa.Array) and isinstance(pattern, str) and isinstance(replacement, str) and pattern:
        return pc.replace_substring(array, pattern, replacement), None
    return _each(call, str.replace, args, count)


def _concat(call: Call, args: list[Any], count: int) -> Made:
    parts = [arg if isinstance(arg, pa.Array) else pa.scalar(arg, pa.string()) for arg in args]
    return pc.binary_join_element_wise(*parts, pa.scalar("", pa.string())), None


def _to_str(call: Call, args: list[Any], count: int) -> Made:
    return pc.cast(pa.array(args[0]), pa.string()), None


def _bool_to_str(call: Call, args: list[Any], count: int) -> Made:
    return pc.if_else(pa.array(args[0]), pa.scalar("True"), pa.scalar("False")), None


_DAY: Final = 86_400_000_000

FIRST: Final = micros_of(dt.datetime.min.replace(tzinfo=dt.UTC))

LAST: Final = micros_of(dt.datetime.max.replace(tzinfo=dt.UTC))


def _add_micros(call: Call, args: list[Any], count: int) -> Made:
    result, undefined = add(call, args, count)
    low, high = bounds(result)
    if low < FIRST or high > LAST:
        undefined = either_mask(undefined, (result < FIRST) | (result > LAST))
    return result, undefined


def _year(days: Any) -> Any:
    return days.astype("M8[D]").astype("M8[Y]").astype(np.int64) + 1970


def _month(days: Any) -> Any:
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64) % 12 + 1


def _day(days: Any) -> Any:
    dates = days.astype("M8[D]")
    return (dates - dates.astype("M8[M]")).astype(np.int64) + 1


def _weekday(days: Any) -> Any:
    return (days + 3) % 7


MOST_KNOWN: Final = 50_000
"""How many texts are kept with the times that ``strptime`` reads of them."""

_NOTHING: Final[dict[type[Any], Any]] = {
    cls: cls() if cls not in (dt.datetime, dt.date) else dt.datetime.fromtimestamp(0, dt.UTC)
    for cls in SCALARS.values()
} | {dt.date: dt.date(1970, 1, 1)}
"""What stands where a function gives nothing."""


def _applied(op: Operation, act: Callable[..., Any] | None = None) -> Act:
    """Python, value by value. ``act``: does what the operation does."""
    act = act or (op.meaning if op.is_total else op)
    gives = cast(Schema, op.signature.gives)

    def apply(call: Call, args: list[Any], count: int) -> Made:
        lists: list[Any] = []
        for operand, arg in zip(args, call.args, strict=True):
            # Rows that are undefined already may hold times that are none.
            kind = bare_kind(arg.kind)
            if isinstance(kind, Timestamp | Date) and isinstance(operand, np.ndarray):
                size = _DAY if isinstance(kind, Date) else 1
                operand = np.clip(operand, FIRST // size, LAST // size)
            column = Column(kind, operand)
            values = python_values(column, 1 if column.scalar else count)
            lists.append(itertools.repeat(values[0]) if column.scalar else values)
        undefined = None
        try:
            results = list(map(act, *lists))
        except Undefined:
            results, undefined = _some(act, _NOTHING[SCALARS[gives]], zip(*lists, strict=False), count)
        return _storage(gives, results), undefined

    return apply


def _some(act: Callable[..., Any], nothing: Any, rows: Iterable[tuple[Any, ...]], count: int) -> tuple[list[Any], Any]:
    results, undefined = [], np.zeros(count, np.bool_)
    for number, row in enumerate(rows):
        try:
            results.append(act(*row))
        except Undefined:
            results.append(nothing)
            undefined[number] = True
    return results, undefined


def _storage(kind: Schema, values: list[Any]) -> Any:
    return column_from_arrow(kind, array(kind, values)).values


_BY_TEXT: Final = _applied(TEST)


def _matches(call: Call, args: list[Any], count: int) -> Made:
    """Whether a regular expression matches: by Arrow where it has a pattern for it, otherwise by Python."""
    texts, *how = args
    if isinstance(texts, pa.Array):
        pattern = pattern_of_arrow(*how, ascii_only=_is_ascii(texts))
        if pattern is not None:
            try:
                return _mask_of(pc.match_substring_regex(texts, pattern)), None
            except pa.ArrowInvalid:  # too large for it
                pass
    return _BY_TEXT(call, args, count)


_GROUP_BY_TEXT: Final = _applied(GROUP)


def _group(call: Call, args: list[Any], count: int) -> Made:
    """A group of a match: by Arrow where it has the same, otherwise by Python."""
    texts, method, pattern, flags, at = args
    if isinstance(texts, pa.Array):
        groups = group_of_matches(texts, method, pattern, flags, at, ascii_only=_is_ascii(texts))
        if groups is not None:
            return groups
    return _GROUP_BY_TEXT(call, args, count)


def _of_distinct(op: Operation, act: Callable[..., Any] | None = None) -> Act:
    """:func:`_applied`, for each distinct text where most come again."""
    by_value = _applied(op, act)

    def apply(call: Call, args: list[Any], count: int) -> Made:
        texts, *how = args
        if not isinstance(texts, pa.Array):
            return by_value(call, args, count)
        distinct = texts.dictionary_encode()
        if 2 * len(distinct.dictionary) > len(texts):
            return by_value(call, args, count)
        values, undefined = by_value(call, [distinct.dictionary, *how], len(distinct.dictionary))
        codes = np.asarray(distinct.indices)
        return values[codes], None if undefined is None else undefined[codes]

    return apply


def _enum_value(call: Call, args: list[Any], count: int) -> Made:
    (values,) = args
    if isinstance(values, enum.Enum):
        return values.value, None
    if not isinstance(values, pa.Array):  # undefined everywhere
        return ZERO[type(call.kind)], np.ones(count, np.bool_)
    return column_from_arrow(cast(Schema, call.kind), values).values, None


def _sqrt(call: Call, args: list[Any], count: int) -> Made:
    (values,) = args
    return np.sqrt(values), some_marked(values < 0.0)


ByKind: TypeAlias = Mapping[type[Kind] | None, Act]

_NUMERIC: Final = (Boolean, Integer, Float, Timestamp, Date)

_TEXTS: Final = (String(), Bytes())


def _of_text(act: Act) -> ByKind:
    return {String: act}


def _clock(unit: int, size: int) -> ByKind:
    return {Timestamp: plain(lambda micros: micros // unit % size)}


def _calendar(act: Callable[[Any], Any]) -> ByKind:
    """Of days since 1970."""
    return {Timestamp: plain(lambda micros: act(micros // _DAY)), Date: plain(act)}


def _compared(function: Any, name: str, flipped: str) -> dict[type[Kind] | None, Act]:
    return {
        **dict.fromkeys(_NUMERIC, plain(function)),
        **{type(text): _arrow_compare(name, flipped, text) for text in _TEXTS},
    }


_TO_FLOAT: Final = plain(lambda a: a.astype(np.float64))

ACTS: Final[Mapping[Operation, ByKind]] = {
    **{op: {None: _applied(op)} for op in OPERATIONS if op.is_function},
    TEST: {String: _matches},
    GROUP: {String: _group},
    functions.IN_UTC: {Timestamp: plain(lambda micros: micros)},
    **{op: {String: _of_distinct(op)} for op in functions.TIMES_OF_TEXT["fromisoformat"].operations},
    # It takes ten microseconds, and the same texts come in the next block.
    **{
        op: {String: _of_distinct(op, functools.lru_cache(MOST_KNOWN)(op))}
        for op in functions.TIMES_OF_TEXT["strptime"].operations
    },
    functions.SQRT: {Float: _sqrt},
    functions.FLOOR: {Float: lambda call, args, count: integral(np.floor(args[0]))},
    functions.CEIL: {Float: lambda call, args, count: integral(np.ceil(args[0]))},
    basic.ADD: {Integer: add, Float: plain(operator.add), Exact: exact_operations.exact_add},
    basic.SUB: {Integer: sub, Float: plain(operator.sub)},
    basic.MUL: {Integer: mul, Float: plain(operator.mul)},
    basic.NEG: {Integer: negative, Float: plain(operator.neg)},
    basic.ABS: {Integer: absolute, Float: plain(np.abs)},
    basic.FLOORDIV: {Integer: floordiv, Float: float_division(np.floor_divide)},
    basic.MOD: {Integer: mod, Float: float_division(np.remainder)},
    basic.TRUEDIV: {Integer: truediv, Float: float_division(np.true_divide)},
    basic.TO_FLOAT: {Integer: _TO_FLOAT, Boolean: _TO_FLOAT},
    basic.TO_INT: {
        Boolean: plain(lambda a: a.astype(np.int64)),
        Float: lambda call, args, count: integral(np.trunc(args[0])),
    },
    basic.ROUND: {Float: lambda call, args, count: integral(np.rint(args[0]))},
    basic.BIT_AND: {Integer: plain(np.bitwise_and)},
    basic.BIT_OR: {Integer: plain(np.bitwise_or)},
    basic.BIT_XOR: {Integer: plain(np.bitwise_xor)},
    basic.INVERT: {Integer: plain(np.invert)},
    basic.EQ: {
        **_compared(np.equal, "equal", "equal"),
        UnitValue: lambda call, args, count: (np.ones(count, np.bool_), None),
    },
    basic.LT: _compared(np.less, "less", "greater"),
    basic.LE: _compared(np.less_equal, "less_equal", "greater_equal"),
    basic.NOT: {Boolean: plain(np.logical_not)},
    basic.AND: {Boolean: folded(np.logical_and)},
    basic.OR: {Boolean: folded(np.logical_or)},
    basic.LENGTH: _of_text(plain(lambda a: pc.utf8_length(a).to_numpy().astype(np.int64))),
    basic.LOWER: _of_text(_case(pc.ascii_lower, str.lower)),
    basic.UPPER: _of_text(_case(pc.ascii_upper, str.upper)),
    basic.STRIP: _of_text(plain(lambda a: pc.utf8_trim(a, WHITE_SPACE))),
    basic.LSTRIP: _of_text(plain(lambda a: pc.utf8_ltrim(a, WHITE_SPACE))),
    basic.RSTRIP: _of_text(plain(lambda a: pc.utf8_rtrim(a, WHITE_SPACE))),
    basic.STARTSWITH: _of_text(_test(pc.starts_with, str.startswith)),
    basic.ENDSWITH: _of_text(_test(pc.ends_with, str.endswith)),
    basic.CONTAINS: _of_text(_test(pc.match_substring, operator.contains)),
    basic.REPLACE: _of_text(_replace),
    basic.CONCAT: _of_text(_concat),
    basic.TO_STR: {Integer: _to_str, Boolean: _bool_to_str, String: plain(lambda a: a)},
    basic.ENUM_VALUE: {EnumOf: _enum_value},
    basic.MICROS: {Timestamp: plain(lambda a: a)},
    basic.ADD_MICROS: {Timestamp: _add_micros},
    basic.YEAR: _calendar(_year),
    basic.MONTH: _calendar(_month),
    basic.DAY: _calendar(_day),
    basic.WEEKDAY: _calendar(_weekday),
    basic.HOUR: _clock(3_600_000_000, 24),
    basic.MINUTE: _clock(60_000_000, 60),
    basic.SECOND: _clock(1_000_000, 60),
    basic.MICROSECOND: _clock(1, 1_000_000),
    basic.DATE_OF: {Timestamp: plain(lambda micros: micros // _DAY)},
    basic.EXACT_OF: {Float: plain(lambda a: a)},
    basic.EXACT_SQUARE: {Float: exact_operations.exact_square},
    basic.EXACT_VALUE: {Exact: exact_operations.exact_value},
    basic.EXACT_PRODUCT: {Float: exact_operations.exact_product},
    **{op: {Exact: exact_operations.exact_statistic} for op in basic.EXACT_STATISTICS.values()},
    basic.EXACT_OVER: {Exact: exact_operations.exact_over},
}
"""The operations on columns, by the kind of the first argument; None: of any kind. The operations that look at more than the
values of their arguments are methods of ``Rows`` (:mod:`.expressions`)."""


def act_of(op: Operation, kind: type[Any]) -> Act | None:
    """An operation whose first argument is of a kind."""
    acts = ACTS[op]
    return acts.get(kind) or acts.get(None)
