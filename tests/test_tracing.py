"""Traced functions mean what the functions do, and what cannot be traced says why."""

from __future__ import annotations

import collections
import datetime as dt
import enum
import functools
import itertools
import linecache
import math
import operator
import random
import statistics
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.programs import Row, Sub, inputs_of, plain, rows
from tests.strategies import bits, some
from tracetypes import UNIT, ExactSum, Marker, OpKeyedUnordered, OpStateless, Unit, algebra
from tracetypes.algebra import greatest, larger, least, smaller
from tracetypes.compiler.analysis.monoids import monoid_of
from tracetypes.compiler.tracing.expr import Branch, Call, Const, Exact, Input, Leaf, Pack, Tree, Undefined, Value, run
from tracetypes.compiler.tracing.operations.basic import EXACT_OF
from tracetypes.compiler.tracing.symbolic import tables
from tracetypes.compiler.tracing.tracer import (
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
from tracetypes.records import Float, Integer, ListOf, Optional, String
from tracetypes.schemas import schema_of

V = TypeVar("V")
NAN = math.nan

# -------------------------------------------------------------------------------------- functions of one row

EXAMPLES: list[Callable[[Any], Any]] = []
"""Functions of a row that must be traced, and right."""


def example(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    EXAMPLES.append(function)
    return function


class Color(str, enum.Enum):  # noqa: UP042
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
        return self.x > 0

    @property
    def size(self) -> float:
        """Of a branch."""
        return self.y if self.y > 0 else -self.y


@attrs.frozen
class Positive:
    """Looks at what it is made of."""

    x: int | None = attrs.field(validator=attrs.validators.optional(attrs.validators.gt(0)))


class Base:
    """Has a method to override."""

    def of(self, row: Row) -> int:
        return row.i


class Derived(Base):
    """Calls what it overrides."""

    def of(self, row: Row) -> int:
        return super().of(row) + 1 if row.b else 0


PRICES = {"a": 1.5, "b": 0.25}
SOME: Mapping[str, int | None] = {"a": 3, "ab": -4}
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
example(
    lambda v: (least(v.oi, v.i), greatest(v.f, v.of), least(v.of, None), greatest(None, v.oi), least(v.of, v.sub.y))
)
example(
    lambda v: (least(v.oi, SOME.get(v.s)), least(v.oi, v.i) == 1, greatest(v.of, v.f) if v.of else least(v.of, 0.5))
)
example(lambda v: 1 if greatest(v.of, v.sub.y) is None else bool(least(greatest(v.of, v.sub.y), v.f)))
example(
    lambda v: (least(v.s, v.t), greatest(v.b, v.c), least(3, v.i), greatest(v.oi, 2), least(None, v.s), least(2, 1))
)
example(lambda v: [x for x in (v.oi, v.of, v.sub.y) if x is not None][:1] == [])
example(lambda v: (str(v.oi), repr(v.of) if v.of is None else ""))
example(lambda v: (round(v.of), int(v.of), float(v.of), math.floor(v.of)) if v.b and abs(v.of or 0) < 9 else None)
example(lambda v: math.sqrt(v.of) if v.b and abs(v.of or 0) < 9 else round(v.f, ndigits=v.oi and 1))
example(lambda v: dt.timedelta(seconds=v.oi) > v.ts - v.tu if v.i > 0 else dt.datetime.fromtimestamp(v.oi, dt.UTC))
example(lambda v: Positive(v.oi).x if v.oi is None else -1)
example(lambda v: sorted(x for x in [v.oi, v.i] if x is not None)[0])
example(lambda v: {"a": v.oi}["a"] == v.i)
example(lambda v: 0 < v.i < 10)
example(lambda v: v.i < v.j <= v.sub.x < 7)
example(lambda v: (v.i < 2.5, v.i >= 2.5, v.i == 2.0, v.i < math.inf, v.i == math.nan, v.i > -math.inf, v.i == 1.5))
example(lambda v: (v.i < 2**70, v.i == 2**70, v.i > -(2**70)))
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
example(lambda v: PRICES[v.s] if v.s in PRICES else None)  # noqa: SIM401
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
example(lambda v: (round(v.f, 2), round(v.i, -1), round(v.i, 1), round(v.g, ndigits=0), round(v.b, 1)))
example(lambda v: int(v.s) if v.s.isdigit() else float(v.t) if v.t in ("1", "nan") else None)
example(lambda v: (v.s.split(",")[0], v.s.split(",", 1)[-1], len(v.s.split()), len(v.t.rsplit("a", maxsplit=1))))
example(lambda v: (v.s in v.t.split("a"), 1 in v.s.split(","), 1 if v.s.split() else 2, bool(v.s.split("a"))))
example(lambda v: (v.s.partition("a"), v.t.rpartition(v.s)[1] if v.s else None))
example(lambda v: v.s.split(sep=None)[0] if v.s.strip() else len(v.t.split(None)))
example(lambda v: (v.s.find("a"), v.s.count("a", 1), v.s.index("a") if "a" in v.s else -1, v.s.startswith("a", 1)))
example(lambda v: (v.s.title(), v.s.removeprefix("a"), v.t.zfill(4), v.s.strip("ab"), v.s.replace("a", "b", 1)))
example(lambda v: (f"{v.f:.3f}|{v.i!r:>5}|{v.s!s}", "%s=%.2f" % (v.s, v.f), "{}{:>4}".format(v.b, v.i)))  # noqa: UP031, UP032
example(lambda v: (format(v.f, ".1e"), format(v.s), repr(v.s), str(v.f), str(v.ts), str(v.day), f"{v.ts:%H}"))
example(lambda v: (v.t.join([v.s, "x", v.s]), ",".join((v.s,)), v.s[::-1], v.s[1::2], v.s * 3, 2 * v.t, "".join([])))
example(lambda v: (v.i & v.j, v.i | 1, v.b ^ v.i, ~v.i, v.i >> 1, v.b << 3, 1 << (v.i % 8)))
example(lambda v: (abs(v.f) ** 0.5, v.f**2, v.i**2.0) if abs(v.f) < 1e9 and abs(v.i) < 9 else None)
example(lambda v: (math.sqrt(abs(v.f)), math.floor(v.i), math.hypot(v.f, 1), math.atan2(v.i, 2.0), math.trunc(v.b)))
example(lambda v: (math.floor(v.f), math.ceil(v.f), math.trunc(v.f)) if abs(v.f) < 1e6 else None)
example(lambda v: (v.ts.isoformat(), v.ts.isoformat(sep=" "), v.ts.isoformat(timespec="hours"), v.day.isoformat()))
example(lambda v: (v.ts.replace(hour=0, minute=0, second=0, microsecond=0), v.ts.replace(day=1), v.ts.strftime("%H")))
example(lambda v: v.ts.replace(year=2023, month=v.ts.month, day=28))
example(lambda v: (dt.datetime.fromtimestamp(v.i % 1000, dt.UTC), dt.datetime.fromtimestamp(0.5 * v.b, tz=dt.UTC)))
example(lambda v: dt.datetime.fromisoformat(v.day.isoformat() + "T00:00:00Z"))
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
example(lambda v: (sum(x for x in (v.i, v.j) if x > 0), sum([v.j, v.i])))
example(lambda v: (any(x > 1 for x in (v.i, v.j)), all((v.i, v.s)), any([])))
example(lambda v: tuple(sorted([v.i, v.j, 1], key=lambda x: -x)))
example(lambda v: tuple(map(lambda x: x + 1, filter(None, (v.i, v.j)))))
example(lambda v: tuple({"k": v.i}.values()) + tuple(x for _, x in zip("ab", (v.i, v.f), strict=True)))
example(lambda v: next((x for x in (v.i, v.j) if x > 1), -1))
example(lambda v: (y := v.i + 1) * y)
example(lambda v: Derived().of(v))
example(lambda v: v.i or v.s or 3)
example(lambda v: (v.i and v.j, (v.b and v.c) or v.i > 1))
example(operator.attrgetter("sub.x", "i"))
example(lambda v: operator.itemgetter(1)((v.i, v.f)))
example(lambda v: -v.i)
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
def unpacks_text(v: Row) -> Any:
    if len(v.s.split("a")) != 2:
        return None
    left, right = v.s.split("a")
    head, _, tail = v.t.partition(left) if left else ("", "", right)
    return left + tail, head


@example
def asserts(v: Row) -> Any:
    if v.i > 1:
        raise ValueError(f"bad {v!r}")
    return v.i


@example
def raises_for_nothing(v: Row) -> Any:
    v.i // v.j
    round(v.f)
    v.f / v.g if v.b else 0.0
    return v.i


@example
def chosen(v: Row) -> Any:
    x = v.i // v.j if v.j > 0 else v.i % 3
    y = v.j > 0 and v.i // v.j > 1
    return x, y


LEAP = dt.datetime(2024, 2, 29, tzinfo=dt.UTC)
EARLY = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)
SPECIAL_ROWS = [
    Row(0, 0, 0.0, -0.0, "", "", False, False, None, None, LEAP, LEAP, LEAP.date(), Sub(0, None), None),
    Row(1, 2, NAN, NAN, "a", "ab", True, False, 1, NAN, EARLY, LEAP, LEAP.date(), Sub(1, NAN), Sub(3, None)),
]


@pytest.mark.parametrize("function", EXAMPLES, ids=lambda f: getattr(f, "__name__", "getter"))
def test_examples(function: Callable[[Row], Any]) -> None:
    tree = trace_function(function, schema_of(Row), limit=200)
    agree(function, tree)


def test_a_sum_of_floats_is_traced_where_Python_adds_one_after_the_other() -> None:
    def function(row: Row) -> float:
        return sum([row.f, row.i])

    if sys.version_info < (3, 12):
        agree(function, trace_function(function, schema_of(Row), limit=200))
    else:
        with pytest.raises(Untraceable, match="sum on floats, which this Python compensates"):
            trace_function(function, schema_of(Row), limit=200)


@settings(max_examples=some(40))
@given(st.data())
def agree(function: Callable[[Row], Any], tree: Tree, data: st.DataObject) -> None:
    """``tree`` has an answer for every row of small numbers for which Python has one."""
    row = data.draw(st.sampled_from(SPECIAL_ROWS) | rows(edges=False) | rows())
    try:
        _, got = run(tree, inputs_of(value=row))
    except Undefined:
        try:
            function(row)
        except Exception:
            return
        assert row not in SPECIAL_ROWS
        assert max(abs(row.i), abs(row.j), abs(row.sub.x), abs(row.oi or 0)) > 2**20 or abs(row.f) > 2**60
    else:
        assert plain(got) == plain(function(row))


# ------------------------------------------------------------------------------------------- what cannot be traced

COUNT = itertools.count()
COUNTED = iter([1, 2, 3])
LOG: list[Any] = []
LISTS = {"a": [1]}
TRIES = 0


@attrs.frozen
class Checked:
    """A record with a validator."""

    x: int = attrs.field(validator=attrs.validators.ge(0))


@attrs.frozen
class Converted:
    """A record with a converter."""

    x: int = attrs.field(converter=abs)


@attrs.frozen
class Sized:
    """A record with a length, which Python wants not to be negative."""

    x: int

    def __len__(self) -> int:
        return self.x


@attrs.frozen
class Cached:
    """A record with a computed attribute."""

    x: int

    @functools.cached_property
    def y(self) -> int:
        return 1 if self.x is True else 0


def ticks() -> int:
    return next(COUNT)


def swallows(v: Row) -> Any:
    try:
        return v.i // v.j
    except ZeroDivisionError:
        return 0


def within(v: Row) -> Any:
    with memoryview(b""):
        return v.i


def outlives(v: Row) -> None:
    LOG.append(v.i)


def outlives_constant(v: Row) -> None:
    LOG.append(1)


def remembers(v: Row, seen: dict[str, int] = {}) -> Any:  # noqa: B006
    seen["x"] = v.i
    return seen["x"]


def adds_in_place(v: Row, seen: list[int] = []) -> Any:  # noqa: B006
    seen += [v.i]
    return len(seen)


def counts(v: Row) -> Any:
    global TRIES
    TRIES += 1
    return v.i + TRIES


def sets_attribute(v: Any) -> Any:
    v.extra = 1
    return v.i


def defines_class(v: Row) -> Any:
    class Inside:
        x = v.i

    return Inside.x


def in_vain(v: Row) -> Any:
    n = 0
    while v.i > n:
        n += 1
    return n


def forever(v: Row) -> Any:
    while v.i > 0:
        pass
    return 1


def grows(v: Row) -> Any:
    x = v.i
    for _ in range(10_000):
        x = x * 3 + 1
    return x


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda v: math.isclose(v.f, v.g), "calls math.isclose"),
        (lambda v: math.sqrt(v.s), "calls math.sqrt with a str"),
        (lambda v: math.trunc(v.s), "calls math.trunc with a str"),
        (lambda v: v.i is v.j, "uses is on a value"),
        (lambda v: v.s is WORDS[0], "uses is on a value"),
        (lambda v: v.sub is v.osub, "uses is on a value"),
        (swallows, "uses try"),
        (within, "uses with"),
        (outlives, "changes a list that outlives the call"),
        (outlives_constant, "changes a list that outlives the call"),
        (remembers, "changes a dict that outlives the call"),
        (adds_in_place, "changes a list that outlives the call"),
        (counts, "changes TRIES"),
        (sets_attribute, "sets an attribute"),
        (defines_class, "ClassDef"),
        (forever, "does not end"),
        (in_vain, "decisions on one way"),
        (grows, "too large"),
        (lambda v: v.i + time.time(), "calls time.time"),
        (lambda v: v.f * random.random(), "calls Random.random"),
        (lambda v: v.ts > dt.datetime.now(dt.UTC), "calls datetime.now"),
        (lambda v: print(v.i), "calls print"),
        (lambda v: v.i + next(COUNT), "calls next"),
        (lambda v: v.i + COUNT.__next__(), "computed attribute __next__"),
        (lambda v: v.i + ticks(), "calls next"),
        (lambda v: v.i + sum(COUNTED), "not deterministic"),
        (lambda v: hash(v.s), "calls hash"),
        (lambda v: hash(v.sub), "calls hash"),
        (lambda v: id(v), "calls id"),
        (lambda v: f"{v.f:{v.i}}", "formats a value by a text that is not constant"),
        (lambda v: f"{v.s!a}", "formats !a"),
        (lambda v: f"{v.s:2000}", "makes text of more than 1000 characters"),
        (lambda v: f"{v.sub}", "formats a Sub"),
        (lambda v: str(v.ts - v.tu), "turns a timedelta into text"),
        (lambda v: repr(v.ts), "turns a datetime into text"),
        (lambda v: "%r" % v.ts, "shows a datetime as only Python does"),  # noqa: UP031
        (lambda v: "%s %d" % (v.i, v.sub), "formats a int and a Sub with %"),  # noqa: UP031
        (lambda v: "%*d" % (v.i, v.j), "by a width that is not constant"),  # noqa: UP031
        (lambda v: "{:{}}".format(v.i, v.j), "by a width that is not constant"),
        (lambda v: "{x}".format(x=v.i), "calls str.format with x"),  # noqa: UP032
        (lambda v: v.s.split(","), "returns a list of text"),
        (lambda v: v.s.split(",").index("a"), "calls index of a list of text"),
        (lambda v: v.s.split(",")[1:], "takes several parts"),
        (lambda v: tuple(part for part in v.s.split(",")), "iterates over a list of text"),
        (lambda v: v.s.split(3), "calls str.split with a int"),
        (lambda v: v.s.strip(3), "calls str.strip with a int"),
        (lambda v: v.s.encode(), "calls str.encode"),
        (lambda v: v.s.ljust(v.i), "calls str.ljust with a int"),
        (lambda v: v.s.zfill(1001), "makes text of more than 1000 characters"),
        (lambda v: ",".join([v.s, v.i]), "calls str.join with a list"),
        (lambda v: v.s * v.i, "uses . on a str and a int"),
        (lambda v: v.s[v.i], "place that is not constant"),
        (lambda v: v.s[:: v.i], "places that are not constant"),
        (lambda v: v.s[3:1:-1], "backwards, between two places"),
        (lambda v: int(v.sub), "calls int"),
        (lambda v: round(v.f, v.s), "rounds a float to digits"),
        (lambda v: v.i**v.j, "uses .. on a int"),
        (lambda v: v.i & v.f, "uses & on a int and a float"),
        (lambda v: ~v.f, "uses ~ on a float"),
        (lambda v: v.i + 2**64, "beyond 64 bits"),
        (lambda v: {v.s: 1}, "hashes a value"),
        (lambda v: {v.s, v.t}, "hashes a value"),
        (lambda v: list(v.s), "iterates over a str"),
        (lambda v: [v.i], "returns a list"),
        (lambda v: v.ts - v.tu, "returns a value|returns a timedelta"),
        (lambda v: collections.defaultdict(int)[v.s], "looks up"),
        (lambda v: {1: 2, "a": 3}.get(v.s), "table with other keys"),
        (lambda v: {"a": 1, "b": 2.0}.get(v.s), "values of several types"),
        (lambda v: {"a": [1]}.get(v.s), "table that it makes itself"),
        (lambda v: LISTS.get(v.s), "looks up in a table of a list"),
        (lambda v: PRICES.get(v.f), "looks up a float"),
        (lambda v: v.ts.replace(tzinfo=None), "calls datetime.replace with tzinfo"),
        (lambda v: v.ts.strftime(v.s), "calls datetime.strftime with a str"),
        (lambda v: dt.datetime.fromtimestamp(v.f), "another zone than UTC"),
        (lambda v: v.ts > dt.datetime(2024, 1, 1, tzinfo=None), "always raises"),
        (lambda v: Checked(v.i), "has validators"),
        (lambda v: Converted(v.i), "has converters"),
        (lambda v: len(Sized(v.i)), "has a length of its own"),
        (lambda v: 1 if Sized(v.i) else 2, "has a length of its own"),
        (lambda v: Cached(v.i).y, "computed attribute y"),
        (lambda v: (x for x in (v.i,)), "is a generator"),
        (lambda v: 1 // 0, "always raises ZeroDivisionError"),
        (lambda v: dt.timedelta(seconds=v.f), "timedelta of what is no integer"),
        (lambda v: [v.i, v.j][v.b], "place that is not known"),
        (eval("lambda v: v.i"), "a source that is not there"),
    ],
)
def test_the_reason_is_told(function: Callable[[Any], Any], reason: str) -> None:
    with pytest.raises(Untraceable, match=reason):
        trace_function(function, schema_of(Row), limit=50)


def test_a_text_of_eval_is_not_that_of_another_text_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Since Python 3.13 ``linecache`` has the text of ``python -c`` under the name that those of ``eval`` have."""
    text = "import sys\n"
    monkeypatch.setitem(linecache.cache, "<string>", (len(text), None, [text], "<string>"))
    with pytest.raises(Untraceable, match="a source that is not there"):
        trace_function(eval("lambda v: v.i"), schema_of(Row), limit=50)


def test_the_line_is_told() -> None:
    line = in_vain.__code__.co_firstlineno + 2
    with pytest.raises(Untraceable, match=r"takes more than|too large") as caught:
        trace_function(in_vain, schema_of(Row))
    assert caught.value.calls[-1].line == line


def test_the_file_is_told_where_it_is_another() -> None:
    """Of a function of the standard library that is looked into."""
    with pytest.raises(Untraceable) as caught:
        trace_function(lambda v: statistics.NormalDist(0.0, 1.0).zscore(v.s), schema_of(Row))
    assert [Path(call.file).name for call in caught.value.calls] == ["test_tracing.py", "statistics.py"]
    with pytest.raises(Untraceable) as caught:
        trace_function(lambda v: helper(v.sub) + math.isclose(v.f, v.g), schema_of(Row))
    assert {Path(call.file).name for call in caught.value.calls} == {"test_tracing.py"}


def test_a_list_is_passed_through_and_not_looked_into() -> None:
    tree = trace_function(lambda v: (v, None), ListOf(Integer(), frozen=False))
    assert run(tree, inputs_of(value=[1, 2])) == ([], ([1, 2], None))
    with pytest.raises(Untraceable, match="ListOf"):
        trace_function(lambda v: v[0], ListOf(Integer(), frozen=False))
    with pytest.raises(Untraceable, match="ListOf"):
        trace_function(lambda v: 1 if v else 2, ListOf(Integer(), frozen=False))


def test_what_is_not_looked_at_is_not_decided() -> None:
    tree = trace_function(lambda v: v, schema_of(Row))
    assert isinstance(tree, Leaf)
    tree = trace_function(lambda v: attrs.evolve(v, i=1), schema_of(Row))
    assert isinstance(tree, Leaf)


def test_what_one_kind_can_say_is_no_decision() -> None:
    tree = trace_function(lambda v: (max(v.i, 1 if v.b and v.f > 0.0 else v.j), 0 < v.j < 3), schema_of(Row))
    assert isinstance(tree, Leaf)


def test_a_condition_is_decided_once() -> None:
    def twice(v: Row) -> Any:
        if v.i > 0:
            return 1 if not v.i <= 0 and v.i > 0 else "never"
        return 2 if v.i > 0 else 3

    tree = trace_function(twice, schema_of(Row))
    results = {leaf.result.value for leaf in leaves(tree) if isinstance(leaf.result, Const)}
    assert 2 not in results
    assert {1, 3} <= results


def leaves(tree: Tree) -> list[Leaf]:
    return [tree] if isinstance(tree, Leaf) else leaves(tree.then) + leaves(tree.otherwise)


def test_a_nan_in_a_tuple_is_left_to_python() -> None:
    """``(x,) == (x,)`` looks at identity first, which expressions do not know."""
    tree = trace_function(lambda v: (v.f,) == (v.g,), schema_of(Row))
    with pytest.raises(Undefined):
        run(tree, inputs_of(value=SPECIAL_ROWS[1]))
    assert run(tree, inputs_of(value=SPECIAL_ROWS[0]))[1] is True


def test_a_large_integer_is_not_compared_as_a_float() -> None:
    row = attrs.evolve(SPECIAL_ROWS[0], i=2**53 + 1, f=2.0**53)
    tree = trace_function(lambda v: v.i == v.f, schema_of(Row))
    with pytest.raises(Undefined):
        run(tree, inputs_of(value=row))
    assert run(tree, inputs_of(value=attrs.evolve(row, i=2**53)))[1] is True


def test_the_number_of_ways_is_bounded() -> None:
    def many(v: Row) -> Any:
        return sum(2**k if len(v.s) == k else 0 for k in range(40)) if v.i else [1 for k in range(9) if v.i > k * v.j]

    with pytest.raises(Untraceable, match="more than 8"):
        trace_function(many, schema_of(Row), limit=8)


def test_the_function_is_not_run_on_a_changed_source() -> None:
    changed = types.FunctionType(
        swallows.__code__.replace(co_consts=(*swallows.__code__.co_consts, 1)), globals(), "swallows"
    )
    with pytest.raises(Untraceable, match="source that has changed"):
        trace_function(changed, schema_of(Row))


# ------------------------------------------------------------------------------------------- operators


@attrs.frozen
class Splitting(OpStateless[str, Row, int, float]):
    """Several emissions, and a table and a function in its fields."""

    table: Mapping[str, int]
    scale: Callable[[float], float]

    def on_item(self, key: str, value: Row, emit: Callable[[int, float], None]) -> None:
        if value.s not in self.table:
            return
        emit(self.table[value.s], self.scale(value.f))
        if value.oi is not None:
            self.again(value.oi, emit)

    def again(self, oi: int, emit: Callable[[int, float], None]) -> None:
        for k in range(2):
            emit(oi + k, 1.0)


@given(rows())
def test_on_item_of_a_stateless_operator(row: Row) -> None:
    op = Splitting({"a": 1, "": 2, "ab": 3}, lambda x: x * 2.0)
    tree = trace_on_item(op, String(), schema_of(Row))
    said: list[Any] = []
    op.on_item("k", row, lambda k, v: said.append((k, v)))
    try:
        emitted, result = run(tree, inputs_of(key="k", value=row))
    except Undefined:
        assert row.oi == 2**63 - 1
    else:
        assert plain(emitted) == plain(said)
        assert result is None


@attrs.frozen
class Tariff:
    price: float
    label: str = attrs.field(eq=False)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": Tariff(1.0, "day")}, {"a": Tariff(1.0, "night")}),
        ({"a": (1, 2)}, {"a": (True, 2)}),
        ({"a": (1, 2)}, {"a": (1.0, 2)}),
        ({"a": Sub(1, None)}, {"a": Sub(True, None)}),
        ({"a": 0.0}, {"a": -0.0}),
    ],
)
def test_tables_that_are_equal_are_not_the_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    def both(key: str) -> tuple[Any, Any]:
        return one[key], other[key]

    tree = trace(both, (Given("key", String()),), emits=None)
    assert repr(run(tree, inputs_of(key="a"))[1]) == repr(both("a"))


def test_tables_of_the_same_content_are_one() -> None:
    one, other, unlike = {"a": 1, "b": 1}, {"a": 1, "b": 1}, {"a": True, "b": True}

    def all_of_them(key: str) -> tuple[Any, ...]:
        return one[key], other[key], {"a": 1, "b": 1}[key], unlike[key]

    tree: Any = trace(all_of_them, (Given("key", String()),), emits=None)
    asked = []
    while isinstance(tree, Branch):
        assert isinstance(tree.condition, Call)
        asked.append(repr(tree.condition.table))
        tree = tree.then
    assert asked == [repr(one), repr(unlike)]


def test_tables_of_what_cannot_be_seen_are_not_one() -> None:
    one, other = {"a": [1]}, {"b": [1]}
    tree = trace(lambda key: (key in one, key in other), (Given("key", String()),), emits=None)
    assert run(tree, inputs_of(key="b"))[1] == (False, True)


def test_what_only_one_table_may_hold_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_content", pytest.fail)
    few, more = {"a": 1}, {"a": 1, "b": 2}
    tree = trace(lambda key: few[key] + more[key] + few[key], (Given("key", String()),), emits=None)
    assert run(tree, inputs_of(key="a"))[1] == 3


def test_tables_may_be_large() -> None:
    op = Splitting({str(k): k for k in range(200_000)}, lambda x: x)
    tree = trace_on_item(op, String(), schema_of(Row))
    row = attrs.evolve(SPECIAL_ROWS[0], s="777")
    assert run(tree, inputs_of(key="k", value=row))[0] == [(777, 0.0)]


@attrs.frozen
class Mean:
    """Like an aggregate of the standard library."""

    def lift(self, value: float) -> tuple[ExactSum, int]:
        return ExactSum.of(value), 1

    def identity(self) -> tuple[ExactSum, int]:
        return ExactSum(), 0

    def combine(self, a: tuple[ExactSum, int], b: tuple[ExactSum, int]) -> tuple[ExactSum, int]:
        return a[0] + b[0], a[1] + b[1]

    def result(self, agg: tuple[ExactSum, int]) -> float:
        total, count = agg
        return total.value() / count


@attrs.frozen
class Best:
    """The value of the largest key, None for nothing."""

    key: Callable[[Any], Any]

    def lift(self, value: Sub) -> Sub | None:
        return value

    def combine(self, a: Sub | None, b: Sub | None) -> Sub | None:
        if a is None or b is None:
            return b if a is None else a
        return max(a, b, key=self.key)


@attrs.frozen
class Window(OpKeyedUnordered[str, float, str, float, float, tuple[ExactSum, int]]):
    """Delegates to an aggregate."""

    aggregate: Mean

    def lift(self, key: str, value: float) -> tuple[ExactSum, int]:
        return self.aggregate.lift(value)

    def identity(self) -> tuple[ExactSum, int]:
        return self.aggregate.identity()

    def combine(self, a: tuple[ExactSum, int], b: tuple[ExactSum, int]) -> tuple[ExactSum, int]:
        return self.aggregate.combine(a, b)

    def initial_state(self) -> float:
        return 0.0

    def update_state(self, state: float, agg: tuple[ExactSum, int]) -> float:
        return self.aggregate.result(agg) if agg[1] else state

    def on_marker(self, new_state: float, key: str, marker: Marker, emit: Callable[[str, float], None]) -> None:
        emit(key, new_state + marker.timestamp)


@attrs.frozen
class Widest(Window):
    """Of floats: the smallest, by ``of``, and a count."""

    of: Callable[[float, float], float] = min

    def combine(self, a: tuple[Any, int], b: tuple[Any, int]) -> tuple[Any, int]:
        return self.of(a[0], b[0]), a[1] + b[1]

    def lift(self, key: str, value: float) -> tuple[Any, int]:
        return value, 1

    def identity(self) -> tuple[Any, int]:
        return math.inf, 0


@pytest.mark.parametrize(("of", "better"), [(min, "smaller"), (max, "larger")])
def test_the_smallest_of_floats_depends_on_the_order_with_nan(of: Any, better: str) -> None:
    with pytest.raises(
        Untraceable, match=rf"floats\[0\], and with NaN it depends on the order of the two: {better} of"
    ):
        monoid_of(Widest(Mean(), of), String(), Float())
    assert monoid_of(Widest(Mean(), getattr(algebra, better)), String(), Float()).parts[0].reduction == of.__name__
    with pytest.raises(Untraceable, match=r"^combines by no sum, minimum or maximum\[0\]$"):
        monoid_of(Widest(Mean(), lambda a, b: a * b), String(), Float())


def result_of(tree: Tree) -> Value:
    assert isinstance(tree, Leaf)
    assert tree.result is not None
    return tree.result


@given(st.lists(st.floats(), min_size=1, max_size=5), st.integers(-(10**12), 10**12))
def test_an_aggregate_is_traced_piece_by_piece(values: list[float], micros: int) -> None:
    op = Window(Mean())
    lifted = trace_lift(op, String(), Float())
    shape = result_of(lifted)
    combine = trace_method(op, "combine", (Nested("a", shape), Nested("b", shape)), emits=None)
    update = trace_method(op, "update_state", (Given("state", Float()), Nested("agg", shape)), emits=None)
    marker_shape: Shape = Given("marker", schema_of(Marker))
    emit = trace_method(op, "on_marker", (Given("state", Float()), Given("key", String()), marker_shape), emits="pairs")
    fixed = (Given("state", Float()), Given("key", String()), Fixed(Marker(micros)))

    aggregate = run(trace_method(op, "identity", (), emits=None), inputs_of())[1]
    assert aggregate == op.identity()
    for value in values:
        one = run(lifted, inputs_of(key="k", value=value))[1]
        aggregate = run(combine, inputs_of(a=aggregate, b=one))[1]
    state = run(update, inputs_of(state=0.0, agg=aggregate))[1]
    assert bits(state) == bits(op.update_state(0.0, functools.reduce(op.combine, map(op.aggregate.lift, values))))
    wanted = plain([("k", state + micros // 1_000_000)])
    assert plain(run(emit, inputs_of(state=state, key="k", marker=Marker(micros)))[0]) == wanted
    assert plain(run(trace_method(op, "on_marker", fixed, emits="pairs"), inputs_of(state=state, key="k"))[0]) == wanted


def test_a_shape_has_the_structure_of_its_template() -> None:
    template = Pack(Sub, ("x", "y"), (Const(1, Integer()), Call(EXACT_OF, (Const(1.0, Float()),), Exact())))
    shape = shape_of(Pack(tuple, (), (template, Const(None, None))), "s")
    assert isinstance(shape, Pack)
    first, second = shape.parts
    assert isinstance(first, Pack)
    assert first.parts == (Input(("s", 0, "x"), Integer()), Input(("s", 0, "y"), Exact()))
    assert second == Const(None, None)


subs = st.none() | st.builds(Sub, st.integers(-3, 3), st.none())


@given(subs, subs)
def test_an_optional_aggregate(a: Sub | None, b: Sub | None) -> None:
    op = Best(operator.attrgetter("x"))
    schema = schema_of(Sub | None)
    tree = trace_method(op, "combine", (Given("a", schema), Given("b", schema)), emits=None)
    assert run(tree, inputs_of(a=a, b=b))[1] == op.combine(a, b)


def test_an_ordered_operator_returns_its_state() -> None:
    def on_item(state: float | None, key: Unit, value: float, emit: Callable[[float], None]) -> float | None:
        if state is not None and value < state:
            return None
        emit(value)
        return value

    shapes = (Given("state", Optional(Float())), Given("key", schema_of(Unit)), Given("value", Float()))
    tree = trace(on_item, shapes, emits="values")
    assert run(tree, inputs_of(state=None, value=1.0)) == ([(None, 1.0)], 1.0)
    assert run(tree, inputs_of(state=2.0, value=1.0)) == ([], None)


def test_a_record_of_another_kind_can_be_given() -> None:
    pair = trace_function(lambda p: (p[0], p.right if p.right is not None else -1, p), schema_of(Pair))
    assert run(pair, inputs_of(value=Pair(1, None)))[1] == (1, -1, Pair(1, None))
    point = trace_function(lambda p: (p.size, bool(p), p + p), schema_of(Point))
    assert run(point, inputs_of(value=Point(1, -2.0)))[1] == (2.0, True, Point(2, -4.0))


@pytest.mark.parametrize(
    "function",
    [
        lambda v: (v.oi, [v.of, v.sub.y][1], tuple([v.osub, *(v.of, v.oi)])),
        lambda v: functools.reduce(least, [v.of, v.sub.y, v.of, 0.5, v.sub.y]),
        lambda v: functools.reduce(greatest, (v.of, None, v.sub.y, v.of)),
    ],
)
def test_what_is_optional_takes_no_decision_until_it_is_looked_at(function: Any) -> None:
    tree = trace_function(function, schema_of(Row))
    assert isinstance(tree, Leaf)


def test_each_condition_counts() -> None:
    """A tree with a turned condition is noticed: the comparison above can fail."""
    tree = trace_function(lambda v: "yes" if v.i > 0 and v.oi is None else 1, schema_of(Row))
    assert isinstance(tree, Branch)
    turned = Branch(tree.condition, tree.otherwise, tree.then)
    with pytest.raises(AssertionError):
        agree(lambda v: "yes" if v.i > 0 and v.oi is None else 1, turned)
