"""Random expressions for the back ends: by kind, over one row of inputs of each kind, with edge values."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tracetypes.algebra import ExactSum
from tracetypes.compiler.expr import Call, Const, Exact, Expr, Input, Kind
from tracetypes.records import (
    INT_MAX,
    INT_MIN,
    Boolean,
    Date,
    Float,
    Integer,
    Optional,
    Schema,
    String,
    Timestamp,
)

BOOLEAN, INTEGER, FLOAT, STRING = Boolean(), Integer(), Float(), String()
TIMESTAMP, DATE, EXACT = Timestamp(), Date(), Exact()

EDGES: Mapping[Kind, Sequence[Any]] = {
    BOOLEAN: [False, True],
    INTEGER: [
        0,
        1,
        -1,
        2,
        -2,
        7,
        -7,
        10,
        2**53,
        2**53 + 1,
        -(2**53) - 3,
        INT_MAX,
        INT_MAX - 1,
        INT_MIN,
        INT_MIN + 1,
        3037000500,
    ],
    FLOAT: [
        *(0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, 0.1, -0.3, 7.25, 1e16, -1e300, 1e308, 5e-324, -5e-324, 2.0**63),
        *(-(2.0**63), 2.0**63 - 1024, math.inf, -math.inf, math.nan),
    ],
    STRING: [
        *("", "a", "A", "ab", "view", " view ", "banana", "a b", "\ta\x1c", "\u2003é\u3000", "ÄÖ", "ß", "İ", "a😀b"),
        *("10", "%_\\", "z" * 40, "ab\x00c", "ﬁ", "ǅ"),
    ],
    TIMESTAMP: [
        dt.datetime.fromisoformat(text + "+00:00")
        for text in [
            *("1970-01-01T00:00:00", "1969-12-31T23:59:59.999999", "2024-02-29T12:34:56.000789", "0001-01-01T00:00:00"),
            *("9999-12-31T23:59:59.999999", "1900-03-01T00:00:00", "2000-12-31T23:00:01", "1582-10-10T00:00:00"),
        ]
    ],
    DATE: [dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29), dt.date(1965, 7, 4)],
    EXACT: [],
}


@attrs.frozen
class Place:
    """What a table holds."""

    name: str
    level: int
    share: float
    note: str | None


WORDS: Mapping[Any, Any] = {
    "view": Place("seen", 1, 0.5, None),
    "": Place("nothing", -3, -0.0, "x"),
    "a😀b": Place("Ä", INT_MAX, math.nan, ""),
    "z" * 40: Place("long", 0, math.inf, "é"),
    3: Place("no word", 5, 1.0, None),
}
NUMBERS: Mapping[Any, Any] = {
    0: ("zero", 10),
    7: ("seven", 20),
    -1: ("minus", 30),
    2**53: ("large", 40),
    "a": ("b", 50),
}
FLAGS: Mapping[Any, Any] = {True: 1.5, "no": 2.5}
"""One of the two flags is missing, and a key is of another type."""


def given(kind: Schema, number: int = 0, *, optional: bool = False) -> Input:
    """An input of the row."""
    name = f"{type(kind).__name__.lower()}{number}" + ("_or_none" if optional else "")
    return Input(("row", name), Optional(kind) if optional else kind)


INPUTS: Sequence[Input] = [
    *(given(kind, n) for kind in (BOOLEAN, INTEGER, FLOAT, STRING, TIMESTAMP, DATE) for n in (0, 1)),
    *(given(kind, optional=True) for kind in (INTEGER, STRING, FLOAT)),
]


def rows(size: int) -> SearchStrategy[list[dict[str, Any]]]:
    """Rows: a value for the name of each input."""
    return st.lists(
        st.fixed_dictionaries({str(one.path[1]): value_of(one.kind) for one in INPUTS}), min_size=0, max_size=size
    )


def value_of(kind: Kind) -> SearchStrategy[Any]:
    """Values of a kind, edges first."""
    if isinstance(kind, Optional):
        return st.none() | value_of(kind.item)
    edges = st.sampled_from(EDGES[kind])
    match kind:
        case Integer():
            return edges | st.integers(-20, 20) | st.integers(INT_MIN, INT_MAX)
        case Float():
            return edges | st.floats() | st.integers(-20, 20).map(lambda n: n / 4)
        case String():
            return edges | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
        case Timestamp():
            return edges | st.datetimes(timezones=st.just(dt.UTC))
        case Date():
            return edges | st.dates()
        case _:
            return edges


def _call(op: str, kind: Kind, *args: SearchStrategy[Expr], **more: Any) -> SearchStrategy[Expr]:
    return st.tuples(*args).map(lambda made: Call(op, made, kind, **more))


_BOUND: SearchStrategy[Expr] = st.one_of(
    st.just(Const(None, None)), st.integers(-7, 7).map(lambda n: Const(n, INTEGER))
)


@cache
def expressions(kind: Kind, depth: int) -> SearchStrategy[Expr]:
    """Expressions of a kind, at most so deep."""
    leaves: list[SearchStrategy[Expr]] = []
    if isinstance(kind, Exact):
        leaves = [st.sampled_from([Const(ExactSum(), EXACT), Const(ExactSum.of(0.1), EXACT)])]
        if depth:
            leaves.append(_call("exact", EXACT, expressions(FLOAT, depth - 1)))
    else:
        leaves = [st.sampled_from([given(kind, 0), given(kind, 1)]), value_of(kind).map(lambda v: Const(v, kind))]
    if not depth:
        return st.one_of(leaves)

    # Shared by all who ask for the same: otherwise there are exponentially many strategies.
    def sub(of: Kind) -> SearchStrategy[Expr]:
        return expressions(of, depth - 1)

    return st.one_of(*leaves, *_operations(kind, sub), _call("if", kind, sub(BOOLEAN), sub(kind), sub(kind)))


def _operations(kind: Kind, sub: Any) -> list[SearchStrategy[Expr]]:
    match kind:
        case Integer():
            two = ("add", "sub", "mul", "floordiv", "mod")
            made = [_call(op, kind, sub(INTEGER), sub(INTEGER)) for op in two]
            made += [_call(op, kind, sub(INTEGER)) for op in ("neg", "abs")]
            made += [_call("to_int", kind, sub(BOOLEAN)), _call("to_int", kind, sub(FLOAT))]
            made += [_call("round", kind, sub(FLOAT)), _call("length", kind, sub(STRING))]
            made += [_call("micros", kind, sub(TIMESTAMP))]
            clock = ("year", "month", "day", "weekday", "hour", "minute", "second", "microsecond")
            made += [_call(op, kind, sub(TIMESTAMP)) for op in clock]
            made += [_call(op, kind, sub(DATE)) for op in clock[:4]]
            made += [_call("lookup", kind, sub(STRING), table=WORDS, path=("level",))]
            made += [_call("lookup", kind, sub(INTEGER), table=NUMBERS, path=(1,))]
        case Float():
            made = [
                _call(op, kind, sub(FLOAT), sub(FLOAT)) for op in ("add", "sub", "mul", "floordiv", "mod", "truediv")
            ]
            made += [_call("truediv", kind, sub(INTEGER), sub(INTEGER))]
            made += [_call(op, kind, sub(FLOAT)) for op in ("neg", "abs")]
            made += [_call("to_float", kind, sub(INTEGER)), _call("to_float", kind, sub(BOOLEAN))]
            made += [_call("exact_value", kind, sub(EXACT))]
            made += [_call("lookup", kind, sub(STRING), table=WORDS, path=("share",))]
            made += [_call("lookup", kind, sub(BOOLEAN), table=FLAGS)]
        case Boolean():
            made = []
            for of in (INTEGER, FLOAT, STRING, TIMESTAMP, DATE, BOOLEAN):
                made += [_call(op, kind, sub(of), sub(of)) for op in ("eq", "lt", "le")]
            made += [_call("not", kind, sub(BOOLEAN))]
            made += [_call(op, kind, sub(BOOLEAN), sub(BOOLEAN)) for op in ("and", "or")]
            made += [st.sampled_from([x for x in INPUTS if isinstance(x.kind, Optional)]).map(_is_null)]
            made += [_call(op, kind, sub(STRING), sub(STRING)) for op in ("startswith", "endswith", "contains")]
            made += [_call("has", kind, sub(STRING), table=WORDS), _call("has", kind, sub(INTEGER), table=NUMBERS)]
            made += [_call("has", kind, sub(BOOLEAN), table=FLAGS)]
        case String():
            made = [_call(op, kind, sub(STRING)) for op in ("lower", "upper", "strip", "lstrip", "rstrip")]
            made += [_call("replace", kind, sub(STRING), sub(STRING), sub(STRING))]
            made += [_call("concat", kind, sub(STRING), sub(STRING)), _call("slice", kind, sub(STRING), _BOUND, _BOUND)]
            made += [_call("to_str", kind, sub(of)) for of in (INTEGER, STRING, BOOLEAN)]
            made += [_call("lookup", kind, sub(STRING), table=WORDS, path=("name",))]
            made += [_call("lookup", kind, sub(INTEGER), table=NUMBERS, path=(0,))]
        case Timestamp():
            made = [_call("add_micros", kind, sub(TIMESTAMP), sub(INTEGER))]
        case Date():
            made = [_call("date", kind, sub(TIMESTAMP))]
        case Exact():
            made = [_call("add", kind, sub(EXACT), sub(EXACT))]
        case _:
            made = []
    return made


def _is_null(one: Input) -> Expr:
    return Call("is_null", (one,), BOOLEAN)


def shown(value: Any) -> Any:
    """What tells any two values apart: types, the sign of zeros, and NaN equal to itself."""
    if isinstance(value, float):
        return ("float", "nan" if value != value else value.hex())
    if isinstance(value, tuple | list):
        return (type(value).__name__, [shown(v) for v in value])
    if attrs.has(type(value)):
        return (type(value).__name__, [shown(getattr(value, a.name)) for a in attrs.fields(type(value))])
    return (type(value).__name__, value)


def text(expr: Expr) -> str:
    """An expression for a person."""
    match expr:
        case Input(path):
            return ".".join(map(str, path[1:]))
        case Const(value):
            return repr(value)
        case Call(op, args):
            where = f"[{expr.path}]" if expr.table is not None else ""
            return f"{op}{where}({', '.join(map(text, args))})"
