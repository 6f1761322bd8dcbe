"""Traced functions mean what the functions do, and what cannot be traced says why."""

from __future__ import annotations

import collections
import datetime as dt
import enum
import functools
import itertools
import math
import operator
import random
import time
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.programs import Program, Row, Sub, definable, expected, inputs_of, plain, programs, rows
from tests.strategies import bits
from tracetypes import UNIT, ExactSum, Marker, OpKeyedUnordered, OpStateless, Unit
from tracetypes.algebra import larger, smaller
from tracetypes.compiler.expr import Branch, Call, Const, Exact, Input, Leaf, Pack, Tree, Undefined, Value, run
from tracetypes.compiler.tracing import (
    Fixed,
    Given,
    Nested,
    Shape,
    Untraceable,
    shape_of,
    trace,
    trace_function,
    trace_lift,
    trace_method,
    trace_on_item,
)
from tracetypes.records import Boolean, Float, Integer, ListOf, Optional, String, Timestamp, schema_of

V = TypeVar("V")

# -------------------------------------------------------------------------------------------- random programs

ROW = (Given("key", String()), Given("v", schema_of(Row)))


@given(programs(), st.lists(rows(), min_size=1, max_size=6), st.lists(rows(edges=False), min_size=1, max_size=6))
def test_a_tree_gives_what_python_gives(program: Program, wild: list[Row], tame: list[Row]) -> None:
    try:
        tree = trace(program.function, ROW, emits="pairs", limit=100)
    except Untraceable:
        return
    for row in wild + tame:
        try:
            emitted, _ = run(tree, inputs_of(key="k", v=row))
        except Undefined:
            try:
                expected(program, "k", row)
            except Exception:
                continue
            assert not definable(program, "k", row), row
        else:
            assert plain(emitted) == plain(expected(program, "k", row))


# -------------------------------------------------------------------------------------- functions of one row

EXAMPLES: list[Callable[[Row], Any]] = []
"""Functions of a row that must be traced, and right."""


def example(function: Callable[[Row], Any]) -> Callable[[Row], Any]:
    EXAMPLES.append(function)
    return function


class Color(str, enum.Enum):
    """An enum whose members are text."""

    RED = "a"
    BLUE = "b"


class Level(enum.IntEnum):
    """An enum whose members are integers."""

    LOW = 1


class Pair(NamedTuple):
    """A NamedTuple with an optional field."""

    left: int
    right: int | None


@dataclass(frozen=True)
class Point:
    """A dataclass with a method, an operator and a property."""

    x: int
    y: float

    def __add__(self, other: Point) -> Point:
        return Point(self.x + other.x, self.y + other.y)

    def __bool__(self) -> bool:
        return self.x is not None and self.x > 0

    @property
    def size(self) -> float:
        """Of a branch."""
        return self.y if self.y > 0 else -self.y


class Base:
    """Has a method to override."""

    def of(self, row: Row) -> int:
        return row.i


class Derived(Base):
    """Calls what it overrides."""

    def of(self, row: Row) -> int:
        return super().of(row) + 1 if row.b else 0


PRICES = {"a": 1.5, "b": 0.25}
PLACES: Mapping[int, tuple[str, int | None]] = {0: ("zero", None), 1: ("one", 1), 2: ("two", 2)}
POINTS = types.MappingProxyType({True: Point(1, 2.0), False: Point(0, -0.0)})
WORDS = ("red", "green", "blue")


def helper(row: Row, *, by: int = 2, **more: int) -> int:
    return row.i * by + sum(more.values())


def factorial(n: int, bound: int) -> int:
    return 1 if bound <= 0 or n <= 1 else n * factorial(n - 1, bound - 1)


def curried(by: int) -> Callable[[Row], int]:
    return lambda row: row.i * by


example(lambda v: v.oi is None)
example(lambda v: v.oi == None)  # noqa: E711
example(lambda v: v.oi if v.oi is not None and v.oi > 1 else -1)
example(lambda v: None if v.of is None else v.of != v.of)
example(lambda v: v.osub.y if v.osub and v.osub.y is not None else v.f)
example(lambda v: (v.b is True, v.b is not False, v.s is None, v.sub is None))
example(lambda v: (v.f in (v.g, 1.0) if v.f == v.f else None, v.i in (1, v.j, 1.5), v.s in ["a", v.t, 1]))
example(lambda v: (v.f,) == (v.g,) if v.f == v.f else None)
example(lambda v: (v.i, v.s) < (v.j, v.t))
example(lambda v: v.sub == Sub(1, 2.0) if v.f == v.f else None)
example(lambda v: max((v.i, v.s), (v.j, v.t)))
example(lambda v: max((v.i, v.j, 3), key=lambda x: -x))
example(lambda v: min([v.i, v.j], default=4))
example(lambda v: (max(v.f, v.g), min(v.f, v.g), larger(v.f, v.g), smaller(v.f, v.g)))
example(lambda v: 0 < v.i < 10)
example(lambda v: v.i < v.j <= v.sub.x < 7)
example(lambda v: (v.i < 2.5, 2.5 <= v.i, v.i == 2.0, v.i < math.inf, v.i == math.nan, v.i > -math.inf, 1.5 == v.i))
example(lambda v: (v.i < 2**70, v.i == 2**70, -(2**70) < v.i))
example(lambda v: v.b + v.c + 1)
example(lambda v: (v.b < v.c, v.b == v.c, v.b == 1, v.b ^ v.c, v.b & True, -v.b, abs(v.c), v.b * 2.5, v.b / 2))
example(lambda v: v.i // v.j if v.j else v.i % 3)
example(lambda v: (v.f // v.g, v.f % v.g) if v.g else divmod(v.f, 3.0))
example(lambda v: (v.i**3, v.i**0, v.b**2))
example(lambda v: (round(v.f), int(v.g)) if abs(v.f) < 1e6 and abs(v.g) < 1e6 else None)
example(lambda v: (bool(v.i), bool(v.f), bool(v.s), not v.t, bool(v.ts), not v.b))
example(lambda v: (math.isnan(v.f), math.isinf(v.f), math.isfinite(v.g), math.isnan(v.i)))
example(lambda v: (v.s == Color.RED, v.s != Color.BLUE, v.i == Level.LOW))
example(lambda v: (v.s == 1, v.i == "a", v.ts == v.s, v.ts == v.day, v.s != 2.0))
example(lambda v: PRICES.get(v.s))
example(lambda v: PRICES.get(v.s, 0.0) * 2)
example(lambda v: PRICES.get(v.s, v.f))
example(lambda v: PRICES[v.s] if v.s in PRICES else None)
example(lambda v: v.s in PRICES.keys())  # noqa: SIM118
example(lambda v: PLACES.get(v.i))
example(lambda v: PLACES[v.i % 3][1])
example(lambda v: POINTS[v.b].y)
example(lambda v: POINTS[v.b].size)
example(lambda v: (WORDS[v.i % 3], WORDS[v.i % 2 - 1]))
example(lambda v: v.s in {"a", "b"} and v.i in {1, 2, 3} and v.i not in range(2, 4))
example(lambda v: v.i in tuple(range(100)))
example(lambda v: {"x": 1, "a": 2}.get(v.s, 3))
example(lambda v: v.s.strip().lower() + v.t.upper().replace("A", "bb") + v.s[1:] + v.t[:-1] + v.s[0:2])
example(lambda v: v.s[0] + v.s[-1] if v.s else "")
example(lambda v: (v.s.startswith("a"), v.s.endswith(("b", "c", v.t)), "a" in v.s, v.s in "abc", v.s not in v.t))
example(lambda v: "abc".startswith(v.s))
example(lambda v: f"{v.s}:{v.i}-{v.b!s}" + str(v.j))
example(lambda v: len(v.s) > len(v.t))
example(
    lambda v: (
        v.ts.year,
        v.ts.month,
        v.ts.weekday(),
        v.ts.isoweekday(),
        v.ts.date(),
        v.day.weekday(),
        v.ts.tzinfo is None,
    )
)
example(lambda v: v.ts.timestamp())
example(lambda v: (v.ts - v.tu).total_seconds())
example(lambda v: (abs(v.ts - v.tu) // dt.timedelta(seconds=2), (v.ts - v.tu).days, (v.ts - v.tu).seconds))
example(lambda v: v.ts - v.tu > dt.timedelta(seconds=1))
example(lambda v: (v.ts - v.tu) / dt.timedelta(hours=1))
example(lambda v: v.tu < v.ts == v.tu + dt.timedelta(microseconds=5))
example(lambda v: v.ts > dt.datetime(2024, 2, 29, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))))
example(lambda v: (v.day == v.ts.date(), v.day < dt.date(2024, 2, 29)))
example(lambda v: isinstance(v.oi, int) and not isinstance(v.f, int) and isinstance(v.b, int | str))
example(lambda v: type(v.i) is int and type(v.sub) is Sub)
example(lambda v: attrs.evolve(v.sub, x=v.i))
example(lambda v: replace(Point(v.i, v.f), x=3))
example(lambda v: Pair(v.i, v.oi)._replace(left=1))
example(lambda v: Pair(v.i, v.oi)[1])
example(lambda v: Point(v.i, 0.5) + Point(1, v.g))
example(lambda v: 1 if Point(v.i, 0.5) else 0)
example(lambda v: Point(v.i, v.f).size)
example(lambda v: v.twice if v.above(1) else getattr(v, "g"))  # noqa: B009
example(lambda v: helper(v) + helper(v, by=3, x=1) + helper(**{"row": v}))
example(lambda v: factorial(v.i, 3))
example(lambda v: curried(3)(v) + functools.partial(helper, by=7)(v))
example(lambda v: functools.reduce(lambda a, b: a + b, [v.i, v.j, 1], 0))
example(lambda v: (sum(x for x in (v.i, v.j) if x > 0), sum([v.f, v.i])))
example(lambda v: (any(x > 1 for x in (v.i, v.j)), all((v.i, v.s)), any([])))
example(lambda v: tuple(sorted([v.i, v.j, 1], key=lambda x: -x)))
example(lambda v: tuple(map(lambda x: x + 1, filter(None, (v.i, v.j)))))
example(lambda v: tuple({"k": v.i}.values()) + tuple(x for _, x in zip("ab", (v.i, v.f), strict=True)))
example(lambda v: next((x for x in (v.i, v.j) if x > 1), -1))
example(lambda v: (y := v.i + 1) * y)
example(lambda v: Derived().of(v))
example(lambda v: v.i or v.s or 3)
example(lambda v: (v.i and v.j, v.b and v.c or v.i > 1))
example(operator.attrgetter("sub.x", "i"))
example(lambda v: operator.itemgetter(1)((v.i, v.f)))
example(lambda v: ~v.b if False else -v.i)
example(lambda v: ExactSum.of(v.f).value() + (ExactSum() + ExactSum.of(v.i)).value())
example(lambda v: v)
example(lambda v: (v.osub, v.oi, None, UNIT, b"x"))
example(lambda v: None)


@example
def loops(v: Row) -> Any:
    total, seen = 0, []
    for k, (x, flag) in enumerate([(v.i, v.b), (v.j, True)]):
        if not flag:
            continue
        total += x * k
        seen.append(x)
    while total > 100 and len(seen) < 4:
        total -= v.i
        seen += [total]
    last = {"n": 0}
    last["n"] += total
    return last["n"], len(seen), *seen


@example
def matches(v: Row) -> Any:
    match v.oi:
        case None:
            return "none"
        case 1 | 2:
            return "few"
        case int(n) if n > 10:
            return f"many {n}"
    match v.sub:
        case Sub(x=3):
            return "three"
        case Sub(x, y):
            return y if x > 0 else "else"


@example
def nested(v: Row) -> Any:
    def inner(x: int, by: int = v.j) -> int:
        if x < 0:
            return by
        return x

    def parts() -> Iterator[int]:
        yield v.i
        yield inner(v.j)

    a, *rest = parts()
    return a, tuple(rest), inner(by=3, x=v.i)


@example
def unpacks(v: Row) -> Any:
    left, right = Pair(v.i, v.oi)
    return left if right is None else right


@example
def asserts(v: Row) -> Any:
    if v.i > 1:
        raise ValueError(f"bad {v!r}")
    return v.i


@example
def raises_for_nothing(v: Row) -> Any:
    v.i // v.j
    round(v.f)
    int(v.f / v.g) if v.b else 0
    return v.i


@example
def chosen(v: Row) -> Any:
    x = v.i // v.j if v.j > 0 else v.i % 3
    y = v.j > 0 and v.i // v.j > 1
    return x, y


SPECIAL_ROWS = [
    Row(*values)
    for values in [
        (0, 0, 0.0, -0.0, "", "", False, False, None, None, *[dt.datetime(2024, 2, 29, tzinfo=dt.UTC)] * 2)
        + (dt.date(2024, 2, 29), Sub(0, None), None),
        (1, 2, math.nan, math.nan, "a", "ab", True, False, 1, math.nan, *[dt.datetime(1969, 12, 31, tzinfo=dt.UTC)] * 2)
        + (dt.date(2024, 2, 28), Sub(1, math.nan), Sub(3, None)),
    ]
]


@pytest.mark.parametrize("function", EXAMPLES, ids=lambda f: getattr(f, "__name__", "getter"))
def test_examples(function: Callable[[Row], Any]) -> None:
    tree = trace_function(function, schema_of(Row), limit=200)
    agree(function, tree)


@given(st.data())
def agree(function: Callable[[Row], Any], tree: Tree, data: st.DataObject) -> None:
    row = data.draw(st.sampled_from(SPECIAL_ROWS) | rows(edges=False) | rows())
    try:
        _, got = run(tree, inputs_of(value=row))
    except Undefined:
        try:
            function(row)
        except Exception:
            return
        large = any(abs(x) > 2**20 for x in (row.i, row.j, row.sub.x, row.oi or 0))
        times = [row.ts.timestamp(), row.tu.timestamp()]
        assert large or max(map(abs, times)) > 2**40 or abs(row.f) > 2**60, (row, "no answer")
    else:
        assert plain(got) == plain(function(row))
