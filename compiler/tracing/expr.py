"""Expressions: what tracing makes of an operator's Python, and what the native back ends take.

The meaning of every expression is Python's, value for value (:func:`evaluate` is the definition). A back end that would give
another value, or none, must say so for the rows in question; they are then run in Python. An expression never holds a wrong
number: where Python raises, or where an integer leaves 64 bits, :func:`evaluate` raises :class:`Undefined`.

========================================  =================================================================================
``add sub mul neg abs floordiv mod``      Integer x Integer -> Integer, Float x Float -> Float; ``floordiv`` and ``mod`` of
                                          negatives as in Python; undefined for a zero divisor and beyond 64 bits
``truediv``                               Integer x Integer or Float x Float -> Float; undefined for a zero divisor
``to_float``                              Integer or Boolean -> Float
``to_int``                                Boolean -> Integer; Float -> Integer towards zero, undefined for NaN and beyond 64
``round``                                 Float -> Integer, half to even; undefined for NaN and beyond 64 bits
``eq lt le``                              two of one schema -> Boolean; NaN as in Python
``not and or``                            Boolean -> Boolean, all arguments evaluated
``if``                                    condition, then, otherwise: only the chosen one is evaluated
``is_null``                               an expression of optional schema -> Boolean
``least greatest``                        two of one schema, no text, either of which may be optional -> the schema, optional
                                          where both are; as in ``tracetypes.algebra``
``length lower upper strip lstrip``       String -> Integer or String
``rstrip``
``startswith endswith contains``          String, String -> Boolean: whether the first starts with, ends in, holds the second
``replace``                               String, String, String -> String
``concat``                                String, String -> String
``slice``                                 String, Integer or None constant, Integer or None constant -> String (``s[a:b]``)
``to_str``                                Integer or String or Boolean -> String
``enum_value``                            EnumOf -> Integer or String, the value of the member
``micros``                                Timestamp -> Integer, microseconds since the epoch
``add_micros``                            Timestamp, Integer -> Timestamp; undefined outside of the years 1 to 9999
``year month day hour minute second``     Timestamp -> Integer; ``year month day weekday`` of Date too
``microsecond weekday``
``date``                                  Timestamp -> Date
``exact``                                 Float -> Exact, the ``ExactSum`` of one float; ``add`` adds Exacts
``exact_value``                           Exact -> Float, rounded once
``exact_over``                            Exact, Integer -> Float, their quotient, rounded once; undefined for less than 1
``has``                                   ``table`` holds the key (an Integer, String or Boolean argument) -> Boolean
``lookup``                                the ``path`` inside the value that ``table`` holds for the key; undefined without one
``bit_and bit_or bit_xor``                Integer, Integer -> Integer
``invert``                                Integer -> Integer
the names of ``functions.FUNCTIONS``      what that function of Python gives; undefined where it raises
========================================  =================================================================================
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, assert_never, final

import attrs

from tracetypes.algebra import ExactSum, greatest, least
from tracetypes.compiler.tracing.functions import FUNCTIONS
from tracetypes.conformance import micros_of
from tracetypes.lookup_table import LookupTable
from tracetypes.record_copies import made_of
from tracetypes.records import INT_MAX, INT_MIN, DecimalOf, EnumOf, Schema, Unsigned

__all__ = [
    "PASSED_ON",
    "Branch",
    "Call",
    "Const",
    "Emission",
    "Exact",
    "Expr",
    "Input",
    "Kind",
    "Leaf",
    "Pack",
    "Tree",
    "Undefined",
    "Value",
    "evaluate",
    "result_of",
    "run",
]


class Undefined(Exception):
    """The expression has no value for these inputs: Python would raise, or a number would leave its type."""


@final
@attrs.frozen
class Exact:
    """The kind of an :class:`tracetypes.ExactSum`, in place of a schema. Only aggregates and states have it."""


Kind: TypeAlias = Schema | Exact

PASSED_ON: Final = Unsigned | DecimalOf | EnumOf
"""Kinds of scalars that are passed on as they are: nothing is computed with them, but for ``enum_value``."""


@final
@attrs.frozen(cache_hash=True)
class Input:
    """A scalar of an argument of the operator. ``path``: the name of the argument, then fields of records and places in
    tuples: ``("value", "ts")``, ``("state", 0)``."""

    path: tuple[str | int, ...]
    kind: Kind


@final
@attrs.frozen
class Const:
    """A value that does not depend on the inputs; None for a missing optional."""

    value: Any
    kind: Kind | None


@final
@attrs.frozen(eq=False)
class Call:
    """An operation of the table above. ``table`` and ``path``: of ``has`` and ``lookup`` only."""

    op: str
    args: tuple[Expr, ...]
    kind: Kind
    table: Mapping[Any, Any] | LookupTable | None = None
    path: tuple[str | int, ...] = ()


Expr: TypeAlias = Input | Const | Call


@final
@attrs.frozen(eq=False)
class Pack:
    """A record (``cls`` its class, ``names`` its fields in the order of its schema) or a tuple (``cls`` is tuple)."""

    cls: type[Any]
    names: tuple[str, ...]
    parts: tuple[Value, ...]


Value: TypeAlias = Expr | Pack


@final
@attrs.frozen(eq=False)
class Emission:
    """One call of ``emit``. ``key`` is None if the template's emit takes a value only."""

    key: Value | None
    value: Value


@final
@attrs.frozen(eq=False)
class Leaf:
    """The end of a path through an operator: its emissions, in order, and its result. ``raises``: the path ends in an
    exception (or in something that must run in Python); then nothing else counts."""

    emissions: tuple[Emission, ...] = ()
    result: Value | None = None
    raises: bool = False
    touched: tuple[Input, ...] = ()


@final
@attrs.frozen(eq=False)
class Branch:
    """A decision. The condition is evaluated only for the rows that reach it."""

    condition: Expr
    then: Tree
    otherwise: Tree
    touched: tuple[Input, ...] = ()


Tree: TypeAlias = Leaf | Branch
"""``touched``, at the root: the scalars that the operator looked at, also where its answer does not depend on them."""


# ------------------------------------------------------------------------------------------------------ meaning


def evaluate(value: Value, inputs: Callable[[Input], Any]) -> Any:
    """The value for one row. ``inputs`` returns its scalars, None if an optional one is missing.

    Records are made of their fields. Raises :class:`Undefined`.
    """
    return _evaluate(value, inputs, {})


def run(tree: Tree, inputs: Callable[[Input], Any]) -> tuple[list[tuple[Any, Any]], Any]:
    """The emissions of an operator for one row, in order, as pairs of key (None without one) and value, and its result.

    Raises :class:`Undefined`, also if the row must run in Python.
    """
    results: dict[int, Any] = {}
    while isinstance(tree, Branch):
        tree = tree.then if _evaluate(tree.condition, inputs, results) else tree.otherwise
    if tree.raises:
        raise Undefined("the path ends in an exception")
    emitted = [
        (None if one.key is None else _evaluate(one.key, inputs, results), _evaluate(one.value, inputs, results))
        for one in tree.emissions
    ]
    return emitted, None if tree.result is None else _evaluate(tree.result, inputs, results)


def _evaluate(value: Value, inputs: Callable[[Input], Any], results: dict[int, Any]) -> Any:
    """``known``: values of the calls that were met before, by identity; expressions share their parts."""
    match value:
        case Input():
            return inputs(value)
        case Const():
            return value.value
        case Pack(cls, names, parts):
            values = [_evaluate(part, inputs, results) for part in parts]
            return tuple(values) if cls is tuple else made_of(cls, names)(values)
        case Call():
            if id(value) not in results:
                results[id(value)] = _call(value, inputs, results)
            return results[id(value)]
        case _:
            assert_never(value)


def _call(call: Call, inputs: Callable[[Input], Any], results: dict[int, Any]) -> Any:
    if call.op == "if":
        condition, then, otherwise = call.args
        return _evaluate(then if _evaluate(condition, inputs, results) else otherwise, inputs, results)
    return result_of(call, [_evaluate(arg, inputs, results) for arg in call.args])


def result_of(call: Call, args: Sequence[Any]) -> Any:
    """What an operation (not ``if``) gives for these values of its arguments. Raises :class:`Undefined`."""
    try:
        if call.op == "has":
            return args[0] in _table(call)
        result = _look_up(call, args[0]) if call.op == "lookup" else _MEANING[call.op](*args)
    except (ArithmeticError, ValueError, LookupError) as error:
        raise Undefined(f"{call.op}: {error}") from error
    if type(result) is int and not INT_MIN <= result <= INT_MAX:
        raise Undefined(f"{call.op} leaves 64 bits")
    return result


def _table(call: Call) -> Mapping[Any, Any] | LookupTable:
    if call.table is None:
        raise TypeError(f"{call.op} without a table")
    return call.table


def _look_up(call: Call, key: Any) -> Any:
    row = _table(call)[key]
    for step in call.path:
        row = getattr(row, step) if isinstance(step, str) else row[step]
    return row


def _over(total: ExactSum, count: int) -> float:
    if count < 1:
        raise ZeroDivisionError
    return total.over(count)


_MEANING: Final[Mapping[str, Callable[..., Any]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "abs": abs,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "truediv": lambda a, b: a / b,
    "to_float": float,
    "to_int": int,
    "round": round,
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "not": lambda a: not a,
    "and": lambda *all_of: all(all_of),
    "or": lambda *any_of: any(any_of),
    "is_null": lambda a: a is None,
    "least": least,
    "greatest": greatest,
    "length": len,
    "lower": str.lower,
    "upper": str.upper,
    "strip": str.strip,
    "lstrip": str.lstrip,
    "rstrip": str.rstrip,
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": lambda a, b: b in a,
    "replace": str.replace,
    "concat": lambda a, b: a + b,
    "slice": lambda a, start, stop: a[start:stop],
    "to_str": str,
    "enum_value": lambda a: a.value,
    "micros": micros_of,
    "add_micros": lambda a, micros: a + dt.timedelta(microseconds=micros),
    "year": lambda a: a.year,
    "month": lambda a: a.month,
    "day": lambda a: a.day,
    "hour": lambda a: a.hour,
    "minute": lambda a: a.minute,
    "second": lambda a: a.second,
    "microsecond": lambda a: a.microsecond,
    "weekday": lambda a: a.weekday(),
    "date": lambda a: a.date(),
    "exact": ExactSum.of,
    "exact_value": lambda a: a.value(),
    "exact_over": _over,
    "bit_and": operator.and_,
    "bit_or": operator.or_,
    "bit_xor": operator.xor,
    "invert": operator.invert,
    **FUNCTIONS,
}
