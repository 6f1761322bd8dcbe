"""Random expressions for the back ends: by kind, over one row of inputs of each kind, with edge values."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tracetypes.algebra import ExactSum
from tracetypes.compiler.tracing.expr import Call, Const, Exact, Expr, Input, Kind
from tracetypes.compiler.tracing.operations import basic
from tracetypes.compiler.tracing.operations.basic import BASIC
from tracetypes.compiler.tracing.operations.functions import FUNCTIONS
from tracetypes.compiler.tracing.operations.operation import SCALARS, Operation, Signature
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
    # The product of the third and fourth leaves 64 bits, but not as a product of floats.
    INTEGER: [
        *(0, 1, 103, 89547301328687144, -1, 2, -2, 7, -7, 2**53, 2**53 + 1, -(2**53) - 3, INT_MAX, INT_MAX - 1),
        *(INT_MIN, INT_MIN + 1, 3037000500),
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
            return edges | st.datetimes(timezones=st.just(dt.UTC)).map(lambda time: time.replace(fold=0))
        case Date():
            return edges | st.dates()
        case _:
            return edges


@attrs.frozen
class Application:
    """A call that makes a value: the kinds of its arguments, None for a bound of a slice."""

    op: Operation
    args: tuple[Kind | None, ...]
    table: Mapping[Any, Any] | None = None
    path: tuple[str | int, ...] = ()


def signatures(*kinds: Kind) -> Iterator[tuple[Operation, Signature]]:
    """Operations with arguments of these kinds that depend on nothing else."""
    for op in BASIC:
        for one in op.signatures:
            if not op.of_table and set(one.takes) <= set(kinds):
                yield op, one


_TABLES: Mapping[Kind, Sequence[Application]] = {
    INTEGER: [
        Application(basic.LOOKUP, (STRING,), WORDS, ("level",)),
        Application(basic.LOOKUP, (INTEGER,), NUMBERS, (1,)),
    ],
    FLOAT: [Application(basic.LOOKUP, (STRING,), WORDS, ("share",)), Application(basic.LOOKUP, (BOOLEAN,), FLAGS)],
    BOOLEAN: [
        *(
            Application(basic.HAS, (of,), table)
            for of, table in ((STRING, WORDS), (INTEGER, NUMBERS), (BOOLEAN, FLAGS))
        ),
        *(Application(basic.IS_NULL, (Optional(of),)) for of in (INTEGER, STRING, FLOAT)),
    ],
    STRING: [
        Application(basic.LOOKUP, (STRING,), WORDS, ("name",)),
        Application(basic.LOOKUP, (INTEGER,), NUMBERS, (0,)),
    ],
}


def _applications(kind: Kind) -> Iterator[Application]:
    for op, one in signatures(*EDGES):
        if one.gives == kind:
            yield Application(op, tuple(None if at in op.fixed else of for at, of in enumerate(one.takes)))
    for op in (basic.LEAST, basic.GREATEST):
        if kind in (INTEGER, FLOAT):
            optional = Optional(cast(Schema, kind))
            yield from (Application(op, (optional, kind)), Application(op, (kind, optional)))
    yield from _TABLES.get(kind, ())


APPLICATIONS: Mapping[Kind, Sequence[Application]] = {kind: list(_applications(kind)) for kind in EDGES}
"""By the kind of the result."""


CONSTANTS: Mapping[str, Sequence[Any]] = {
    **dict.fromkeys(("str.ljust", "str.rjust", "str.center", "str.zfill", "repeat"), (0, 1, -1, 5, 41)),
    "format": (".2f", "", "05d", ">6", "x^7", "%Y-%m-%d", ",", "+.3e", "n", "bad{"),
    "percent": ("%s", "%d", "%5.1f", "%r|%s", "%%", "%x-%s", "%(a)s", "%"),
    "str.format": ("{}", "{:>5}", "{0}-{0!r}", "{}|{:.2f}", "{1}{0}", "plain", "{", "{0.year}", "{:%H}"),
    "datetime.strftime": ("%Y-%m-%dT%H:%M:%S", "%H", "", "%j é", "%A %z"),
    "date.strftime": ("%Y-%m-%d", "%d.%m.", "%U"),
    **dict.fromkeys(
        ("datetime.strptime", "datetime.strptime_instant", "datetime.strptime_in_utc"), ("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d%z %H")
    ),
}
"""What arguments of functions may be that must be constants."""


@st.composite
def expressions(draw: st.DrawFn, kind: Kind, depth: int, *, native: bool = False) -> Expr:
    """Expressions of a kind, at most so deep. ``native``: without functions of Python, which Spark does not have."""
    choice = draw(st.integers(0, 9)) if depth else 0
    if choice == 9:
        parts = [draw(expressions(of, depth - 1, native=native)) for of in (BOOLEAN, kind, kind)]
        return Call(basic.IF, tuple(parts), kind)
    if choice > 6 and not native and any(op.signature.gives == kind for op in FUNCTIONS.values()):
        return draw(_applied(kind, depth))
    if choice > 1:
        made = draw(st.sampled_from(APPLICATIONS[kind]))
        args = tuple(_argument(draw, of, depth - 1, native=native) for of in made.args)
        return Call(made.op, args, kind, made.table, made.path)
    if isinstance(kind, Exact):
        return Const(draw(st.sampled_from([ExactSum(), ExactSum.of(0.1)])), EXACT)
    if draw(st.booleans()):
        return Const(draw(value_of(kind)), kind)
    return given(kind, draw(st.integers(0, 1)))


@st.composite
def _applied(draw: st.DrawFn, kind: Kind, depth: int) -> Expr:
    """A call of a function of Python."""
    op = draw(st.sampled_from([op for op in FUNCTIONS.values() if op.signature.gives == kind]))
    one = op.signature
    kinds = one.kinds(draw(st.integers(one.least, len(one.takes) + one.more)))
    assert kinds is not None
    args: list[Expr] = []
    for at, of in enumerate(kinds):
        if at in op.fixed:
            value = draw(st.sampled_from(CONSTANTS[op.name]))
            args.append(Const(value, INTEGER if isinstance(value, int) else STRING))
        else:
            args.append(draw(expressions(draw(st.sampled_from(list(SCALARS))) if of is None else of, depth - 1)))
    return Call(op, tuple(args), kind)


def _argument(draw: st.DrawFn, kind: Kind | None, depth: int, *, native: bool) -> Expr:
    if kind is None:
        bound = draw(st.none() | st.integers(-7, 7))
        return Const(bound, None if bound is None else INTEGER)
    if isinstance(kind, Optional):
        return given(kind.item, optional=True)
    return draw(expressions(kind, depth, native=native))


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
