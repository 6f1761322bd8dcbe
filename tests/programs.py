"""Random programs: the source of small functions over a record of scalars, rows to run them on, and what Python does.

``programs()`` draws a :class:`Program`; ``rows()`` draws :class:`Row`. For back ends: trace ``program.function`` (an
``on_item`` that emits pairs of a key and an :class:`Out`), run the tree, and compare with :func:`expected`.

``expected`` runs the same source on integers that know when they leave 64 bits, so that it says exactly where a tree may
have no answer.
"""

from __future__ import annotations

import ast
import dataclasses
import datetime as dt
import itertools
import linecache
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.strategies import FLOATS, INTEGERS, STRINGS, TIMES
from tracetypes.algebra import greatest, larger, least, smaller
from tracetypes.compiler.expr import Input
from tracetypes.records import INT_MAX, INT_MIN

__all__ = ["NAMES", "Out", "Program", "Row", "Sub", "Undefinable", "expected", "inputs_of", "plain", "programs", "rows"]

Emitted = list[tuple[Any, Any]]


# -------------------------------------------------------------------------------------------------- records


@attrs.frozen
class Sub:
    """A record in a record."""

    x: int
    y: float | None


@attrs.frozen
class Row:
    """A field of every kind that expressions know."""

    i: int
    j: int
    f: float
    g: float
    s: str
    t: str
    b: bool
    c: bool
    oi: int | None
    of: float | None
    ts: dt.datetime
    tu: dt.datetime
    day: dt.date
    sub: Sub
    osub: Sub | None

    @property
    def twice(self) -> float:
        """Something that is computed."""
        return self.f * 2.0

    def above(self, bound: int) -> bool:
        """A method with a branch."""
        if self.i > bound:
            return True
        return self.oi is not None and self.oi > bound


@attrs.frozen
class Out:
    """What programs emit."""

    number: int
    real: float
    text: str
    flag: bool
    maybe: int | None
    time: dt.datetime


# ----------------------------------------------------------------------------------------------------- rows

_SMALL: Final = st.integers(-5, 5)
_SMALL_FLOATS: Final = st.sampled_from((0.0, -0.0, 0.5, 1.0, -1.5, 2.0, 3.25, -7.0, math.nan, math.inf, -math.inf))
_SMALL_STRINGS: Final = st.sampled_from(("", "a", "ab", "b", " a ", "Aé", "ß", "aab", "𝄞x", "12"))


def rows(*, edges: bool = True) -> SearchStrategy[Row]:
    """Rows; with ``edges`` also the largest and smallest numbers, any text and any time."""
    ints = _SMALL | INTEGERS if edges else _SMALL
    floats = _SMALL_FLOATS | FLOATS if edges else _SMALL_FLOATS
    strings = _SMALL_STRINGS | STRINGS if edges else _SMALL_STRINGS
    start = dt.datetime(2024, 2, 28, 23, 59, 58, tzinfo=dt.UTC)
    times = st.integers(0, 5).map(lambda s: start + dt.timedelta(seconds=s))
    times = times | TIMES if edges else times
    subs = st.builds(Sub, ints, st.none() | floats)
    return st.builds(
        Row,
        i=ints,
        j=ints,
        f=floats,
        g=floats,
        s=strings,
        t=strings,
        b=st.booleans(),
        c=st.booleans(),
        oi=st.none() | ints,
        of=st.none() | floats,
        ts=times,
        tu=times,
        day=st.dates() if edges else st.dates(dt.date(2024, 2, 27), dt.date(2024, 3, 2)),
        sub=subs,
        osub=st.none() | subs,
    )


# ------------------------------------------------------------------------------------------------- programs

PRICES: Final[Mapping[str, float]] = {"": 0.5, "a": 1.5, "ab": -0.0, "ß": math.inf}
CODES: Final[Mapping[int, tuple[int, str]]] = {0: (1, "zero"), 1: (INT_MAX, "one"), -1: (-7, ""), INT_MIN: (2, "é")}
SOME: Final[Mapping[str, int | None]] = {"a": 1, "b": None, "ab": 3}
WORDS: Final = ("red", "green", "")
FRIENDS: Final = frozenset({"a", "b", "12"})
_EPOCH: Final = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
_SECOND: Final = dt.timedelta(seconds=1)


NAMES: Final[Mapping[str, Any]] = {
    "Row": Row,
    "Sub": Sub,
    "Out": Out,
    "PRICES": PRICES,
    "CODES": CODES,
    "SOME": SOME,
    "WORDS": WORDS,
    "FRIENDS": FRIENDS,
    "EPOCH": _EPOCH,
    "SECOND": _SECOND,
    "greatest": greatest,
    "larger": larger,
    "least": least,
    "smaller": smaller,
    "math": math,
    "dt": dt,
    "attrs": attrs,
}
"""The globals of programs."""


class _Writer:
    """Draws source text. Every expression is of a known type; ``maybe`` is ``int | None``."""

    def __init__(self, draw: DrawFn, native: bool) -> None:
        self.draw, self.native = draw, native
        self.names = itertools.count()

    def one_of(self, *options: Callable[[], str] | str) -> str:
        chosen = self.draw(st.sampled_from(options))
        return chosen if isinstance(chosen, str) else chosen()

    def depth(
        self,
        depth: int,
        simple: tuple[Callable[[], str] | str, ...],
        *more: Callable[[], str],
        applied: tuple[Callable[[], str], ...] = (),
    ) -> str:
        """``applied``: what functions of Python make that Spark does not have."""
        return (
            self.one_of(*simple) if depth <= 0 else self.one_of(*simple[:2], *more, *(() if self.native else applied))
        )

    def constant(self) -> str:
        return repr(self.draw(st.integers(-9, 9) | st.sampled_from((INT_MAX, 2**53, 100))))

    def real_constant(self) -> str:
        value = self.draw(st.sampled_from((0.0, 1.0, -1.0, 0.5, -2.5, 1e300, 3.0)))
        return f"({value!r})"

    def text_constant(self) -> str:
        return repr(self.draw(st.sampled_from(("", "a", "b", "ab", "é", " "))))

    def integer(self, d: int) -> str:
        return self.depth(
            d,
            ("v.i", "v.j", self.constant, "v.sub.x", "v.ts.hour", "v.ts.second", "v.day.day", "v.tu.weekday()"),
            lambda: f"({self.integer(d - 1)} {self.one_of('+', '-', '*')} {self.integer(d - 1)})",
            lambda: f"({self.integer(d - 1)} {self.one_of('//', '%')} {self.one_of('v.j', self.integer(d - 1))})",
            lambda: f"({self.integer(d - 1)} {self.one_of('//', '%')} {self.one_of('3', '-4', '7')})",
            lambda: f"(-{self.integer(d - 1)})",
            lambda: f"abs({self.integer(d - 1)})",
            lambda: f"len({self.text(d - 1)})",
            lambda: f"({self.integer(d - 1)} if {self.flag(d - 1)} else {self.integer(d - 1)})",
            lambda: f"{self.one_of('min', 'max')}({self.integer(d - 1)}, {self.integer(d - 1)})",
            lambda: f"max({self.integer(d - 1)}, {self.integer(d - 1)}, {self.integer(d - 1)})",
            lambda: f"int({self.real(d - 1)})",
            lambda: f"round({self.real(d - 1)})",
            lambda: f"int({self.flag(d - 1)})",
            lambda: f"({self.flag(d - 1)} + {self.flag(d - 1)})",
            lambda: f"sum(({self.integer(d - 1)}, {self.flag(d - 1)}, {self.integer(d - 1)}))",
            lambda: f"({self.integer(d - 1)} ** {self.one_of('0', '2', '3')})",
            lambda: f"CODES[{self.one_of(self.integer(d - 1), 'v.i % 2', '-(v.j % 2)')}][0]",
            lambda: f"CODES.get({self.integer(d - 1)}, (5, 'none'))[0]",
            lambda: f"divmod({self.integer(d - 1)}, {self.integer(d - 1)})[{self.one_of('0', '1')}]",
            lambda: f"{self.one_of('larger', 'smaller')}({self.integer(d - 1)}, {self.integer(d - 1)})",
            lambda: f"(({self.time(d - 1)} - {self.time(d - 1)}) // SECOND)",
            lambda: "(0 if v.oi is None else v.oi)",
            lambda: "(v.osub.x if v.osub is not None else -1)",
            lambda: f"({self.integer(d - 1)} or {self.integer(d - 1)})",
            lambda: f"({self.integer(d - 1)} {self.one_of('&', '|', '^')} {self.integer(d - 1)})",
            lambda: f"(~{self.integer(d - 1)})",
            applied=(
                lambda: f"({self.integer(d - 1)} {self.one_of('<<', '>>')} ({self.integer(d - 1)} % 70))",
                lambda: f"int({self.text(d - 1)}.{self.one_of('find', 'count', 'rfind')}({self.text(d - 1)}))",
                lambda: f"int({self.text(d - 1)})",
                lambda: f"int(math.{self.one_of('floor', 'ceil', 'trunc')}({self.real(d - 1)}))",
                lambda: f"round({self.integer(d - 1)}, {self.one_of('-1', '0', '1')})",
                lambda: f"len({self.text(d - 1)}.split({self.text_constant()}))",
            ),
        )

    def real(self, d: int) -> str:
        return self.depth(
            d,
            ("v.f", "v.g", self.real_constant, "v.twice"),
            lambda: f"({self.real(d - 1)} {self.one_of('+', '-', '*', '/')} {self.real(d - 1)})",
            lambda: f"({self.real(d - 1)} {self.one_of('+', '-', '*', '/')} {self.integer(d - 1)})",
            lambda: f"({self.integer(d - 1)} {self.one_of('+', '-', '*')} {self.real(d - 1)})",
            lambda: f"({self.real(d - 1)} {self.one_of('//', '%')} {self.real(d - 1)})",
            lambda: f"({self.integer(d - 1)} / {self.integer(d - 1)})",
            lambda: f"float({self.integer(d - 1)})",
            lambda: f"(-{self.real(d - 1)})",
            lambda: f"abs({self.real(d - 1)})",
            lambda: f"({self.real(d - 1)} if {self.flag(d - 1)} else {self.real(d - 1)})",
            lambda: f"{self.one_of('min', 'max', 'larger', 'smaller')}({self.real(d - 1)}, {self.real(d - 1)})",
            lambda: f"PRICES.get({self.text(d - 1)}, {self.real_constant()})",
            lambda: f"PRICES[{self.text(d - 1)}]",
            lambda: f"float(({self.time(d - 1)} - {self.time(d - 1)}).total_seconds())",
            lambda: f"float({self.time(d - 1)}.timestamp())",
            lambda: "(1.5 if v.of is None else v.of)",
            lambda: f"{self.one_of('least', 'greatest')}(v.of, {self.real(d - 1)})",
            applied=(
                lambda: f"round({self.real(d - 1)}, {self.one_of('0', '1', '2', '-1', '16')})",
                lambda: f"float(abs({self.real(d - 1)}) ** {self.one_of('2', '0.5', '-1', '3')})",
                lambda: f"float({self.text(d - 1)})",
                lambda: f"float(math.{self.one_of('sqrt', 'log', 'sin', 'exp')}({self.real(d - 1)}))",
            ),
        )

    def text(self, d: int) -> str:
        place = self.one_of("1", "-1", "0", "2")
        return self.depth(
            d,
            ("v.s", "v.t", self.text_constant),
            lambda: f"({self.text(d - 1)} + {self.text(d - 1)})",
            lambda: f"{self.text(d - 1)}.{self.one_of('lower', 'upper', 'strip', 'lstrip', 'rstrip')}()",
            lambda: f"{self.text(d - 1)}.replace({self.text(d - 1)}, {self.text(d - 1)})",
            lambda: f"{self.text(d - 1)}[{self.one_of('', '0', '1', '-2')}:{self.one_of('', '1', '-1', '3')}]",
            lambda: f"{self.text(d - 1)}[{place}]",
            lambda: f"({self.text(d - 1)} if {self.flag(d - 1)} else {self.text(d - 1)})",
            lambda: f"str({self.integer(d - 1)})",
            lambda: f"str({self.flag(d - 1)})",
            lambda: f"f'{{{self.one_of('v.i', 'v.sub.x - 1', 'v.b', 'v.i // v.j')}}}-{{v.s}}'",
            lambda: f"WORDS[{self.integer(d - 1)} % 3]",
            lambda: f"WORDS[{self.one_of(self.integer(d - 1), 'v.j % 4')}]",
            lambda: f"max({self.text(d - 1)}, {self.text(d - 1)})",
            lambda: f"CODES[{self.one_of(self.integer(d - 1), 'v.i % 2')}][1]",
            applied=(
                lambda: f"{self.text(d - 1)}.{self.one_of('title', 'capitalize', 'casefold', 'swapcase')}()",
                lambda: (
                    f"{self.text(d - 1)}.{self.one_of('strip', 'removeprefix', 'removesuffix')}({self.text(d - 1)})"
                ),
                lambda: (
                    f"{self.text(d - 1)}.{self.one_of('zfill(4)', 'center(5)', 'ljust(3)', 'replace(v.t, v.s, 1)')}"
                ),
                lambda: (
                    f"{self.text(d - 1)}.{self.one_of('split', 'rsplit')}({self.one_of('', repr('a'), 'v.t')})[{place}]"
                ),
                lambda: f"{self.text(d - 1)}.partition({self.one_of(repr('a'), 'v.t')})[{self.one_of('0', '1', '-1')}]",
                lambda: f"{self.text(d - 1)}[{self.one_of('::-1', '::2', ':3:2')}]",
                lambda: f"f'{{{self.real(d - 1)}:.2f}}|{{v.i:5d}}|{{v.s!r:>4}}|{{v.ts:%Y-%m-%d}}'",
                lambda: f"('%s=%.1f' % ({self.text(d - 1)}, {self.real(d - 1)}))",
                lambda: f"'{{:>3}}/{{}}'.format({self.integer(d - 1)}, {self.flag(d - 1)})",
                lambda: f"v.t.join(({self.text(d - 1)}, {self.text(d - 1)}))",
                lambda: f"({self.text(d - 1)} * 2)",
                lambda: f"str({self.one_of(self.real(d - 1), self.time(d - 1), 'v.day')})",
                lambda: f"{self.time(d - 1)}.{self.one_of('isoformat()', 'strftime(' + repr('%H:%M') + ')')}",
            ),
        )

    def flag(self, d: int) -> str:
        compare = self.one_of("==", "!=", "<", "<=", ">", ">=")
        return self.depth(
            d,
            ("v.b", "v.c", "(v.oi is None)", "(v.osub is not None)", "v.above(2)"),
            lambda: f"({self.integer(d - 1)} {compare} {self.integer(d - 1)})",
            lambda: f"({self.real(d - 1)} {compare} {self.real(d - 1)})",
            lambda: f"({self.real(d - 1)} {compare} {self.integer(d - 1)})",
            lambda: f"({self.text(d - 1)} {compare} {self.text(d - 1)})",
            lambda: f"({self.time(d - 1)} {compare} {self.time(d - 1)})",
            lambda: f"({self.flag(d - 1)} {compare} {self.flag(d - 1)})",
            lambda: f"(v.day {compare} v.ts.date())",
            lambda: f"(not {self.flag(d - 1)})",
            lambda: f"({self.flag(d - 1)} {self.one_of('and', 'or')} {self.flag(d - 1)})",
            lambda: f"({self.flag(d - 1)} {self.one_of('&', '|', '^')} {self.flag(d - 1)})",
            lambda: f"({self.integer(d - 1)} < {self.integer(d - 1)} <= {self.integer(d - 1)})",
            lambda: f"({self.text(d - 1)} {self.one_of('in', 'not in')} {self.text(d - 1)})",
            lambda: f"({self.integer(d - 1)} in {self.one_of('(1, 2, 3)', '[0, -1]', '{4, 5}', 'CODES', 'range(3)')})",
            lambda: f"({self.text(d - 1)} in {self.one_of('FRIENDS', 'PRICES', 'WORDS', '(v.s, v.t)')})",
            lambda: f"{self.text(d - 1)}.{self.one_of('startswith', 'endswith')}({self.text(d - 1)})",
            lambda: f"isinstance({self.one_of('v.i', 'v.oi', 'v.f', 'v.sub', 'v.b')}, (int, Sub))",
            lambda: f"any(({self.flag(d - 1)}, {self.integer(d - 1)}))",
            lambda: f"all(x > 0 for x in ({self.integer(d - 1)}, {self.real(d - 1)}))",
            lambda: f"math.isnan({self.real(d - 1)})",
            lambda: f"bool({self.one_of(self.integer(d - 1), self.real(d - 1), self.text(d - 1))})",
            lambda: "(v.sub == Sub(1, None))",
            lambda: f"((v.i, {self.text(d - 1)}) < (v.j, v.t))",
            lambda: "(v.oi == v.i)",
            lambda: f"({self.flag(d - 1)} is {self.one_of('True', 'False')})",
            applied=(
                lambda: f"{self.text(d - 1)}.{self.one_of('isdigit', 'isalpha', 'isspace', 'isupper', 'isnumeric')}()",
                lambda: f"({self.text(d - 1)} in {self.text(d - 1)}.split('a'))",
            ),
        )

    def time(self, d: int) -> str:
        return self.depth(
            d,
            ("v.ts", "v.tu", "EPOCH"),
            lambda: f"({self.time(d - 1)} {self.one_of('+', '-')} SECOND)",
            lambda: f"({self.time(d - 1)} + dt.timedelta(seconds=v.i % 100))",
            lambda: f"max({self.time(d - 1)}, {self.time(d - 1)})",
            applied=(
                lambda: (
                    f"{self.time(d - 1)}.replace({self.one_of('minute=0, second=0', 'hour=23', 'day=1', 'day=31', 'year=v.i')})"
                ),
                lambda: f"dt.datetime.fromtimestamp({self.one_of('v.i', 'v.f')}, dt.UTC)",
            ),
        )

    def maybe(self, d: int) -> str:
        return self.depth(
            d,
            ("v.oi", "None", lambda: self.integer(d - 1)),
            lambda: f"({self.integer(d - 1)} if {self.flag(d - 1)} else None)",
            lambda: f"SOME.get({self.text(d - 1)})",
            lambda: f"{self.one_of('least', 'greatest')}(v.oi, {self.maybe(d - 1)})",
        )

    def out(self, d: int) -> str:
        args = (self.integer(d), self.real(d), self.text(d), self.flag(d), self.maybe(d), self.time(1))
        made = f"Out({', '.join(args)})"
        return self.one_of(made, made, f"attrs.evolve({made}, number={self.integer(d)})")

    # ------------------------------------------------------------------------------------------- statements

    def block(self, depth: int, indent: str, d: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self.draw(st.integers(1, 2))):
            lines += self.statement(depth, indent, d)
        return lines

    def statement(self, depth: int, indent: str, d: int) -> list[str]:
        ways = ["emit", "emit", "assign", "return", "augment", "loop"]
        way = self.draw(st.sampled_from(ways if depth <= 0 else [*ways, "if", "if", "if", "raise", "match"]))
        match way:
            case "emit":
                return [f"{indent}emit({self.one_of('key', 'v.t', self.text(0))}, {self.out(d)})"]
            case "assign":
                return [f"{indent}n = {self.integer(d)}"]
            case "augment":
                return [f"{indent}n += {self.integer(d)}", f"{indent}a, b = n, {self.real(d)}"]
            case "loop":
                return [f"{indent}for k, x in enumerate((v.i, 1, n)):", f"{indent}    n = n + k * x"]
            case "return":
                return [f"{indent}if {self.flag(0)}:", f"{indent}    return"]
            case "raise":
                return [f"{indent}if {self.flag(0)}:", f"{indent}    raise ValueError(f'bad {{v.f!r}}')"]
            case "match":
                return [
                    f"{indent}match v.oi:",
                    f"{indent}    case None:",
                    *self.block(depth - 1, indent + "        ", d),
                    f"{indent}    case int(x) if x > n:",
                    *self.block(depth - 1, indent + "        ", d),
                ]
            case _:
                lines = [f"{indent}if {self.flag(d)}:", *self.block(depth - 1, indent + "    ", d)]
                if self.draw(st.booleans()):
                    lines += [f"{indent}elif {self.flag(d)}:", *self.block(depth - 1, indent + "    ", d)]
                if self.draw(st.booleans()):
                    lines += [f"{indent}else:", *self.block(depth - 1, indent + "    ", d)]
                return lines

    def program(self, depth: int) -> str:
        lines = ["def program(key, v, emit):", "    n = 0"]
        lines += self.block(2, "    ", depth)
        lines += [f"    emit(key, {self.out(depth)})"]
        return "\n".join(lines) + "\n"


@attrs.frozen(eq=False)
class Program:
    """``source`` defines ``function(key: str, v: Row, emit) -> None``, which emits pairs of a str and an :class:`Out`."""

    source: str
    function: Callable[..., Any]

    def __repr__(self) -> str:
        return f"Program:\n{self.source}"


_numbers = itertools.count()


def compiled(source: str, names: Mapping[str, Any] = NAMES) -> Callable[..., Any]:
    """The function ``program`` that the source defines; its source can be found as that of a file."""
    file = f"<program {next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    made: dict[str, Any] = dict(names)
    exec(compile(source, file, "exec"), made)
    return made["program"]  # type: ignore[no-any-return]


@st.composite
def programs(draw: DrawFn, *, depth: int = 2, native: bool = False) -> Program:
    """Programs whose expressions are ``depth`` deep. Some cannot be traced: they take too many ways. ``native``: without
    functions of Python that Spark does not have."""
    source = _Writer(draw, native).program(depth)
    return Program(source, compiled(source))


# ------------------------------------------------------------------------------------------ what they mean


class Undefinable(Exception):
    """Python gives an answer and an expression cannot: an integer leaves 64 bits, or a float is compared with an
    integer beyond 2**53."""


def _watched(value: Any) -> Any:
    """The same value with numbers that watch themselves."""
    if type(value) in (int, float):
        return _Int64(value) if type(value) is int else _Float64(value)
    if attrs.has(type(value)):
        return attrs.evolve(value, **{a.name: _watched(getattr(value, a.name)) for a in attrs.fields(type(value))})
    return tuple(map(_watched, value)) if type(value) is tuple else value


class _Int64(int):
    """An integer that raises :class:`Undefinable` when it leaves 64 bits."""

    def __new__(cls, value: Any) -> Any:
        if not INT_MIN <= int(value) <= INT_MAX:
            raise Undefinable
        return super().__new__(cls, value)

    def __pow__(self, other: int) -> Any:  # type: ignore[override]
        made: Any = _Int64(1)
        for _ in range(other):
            made = made * self
        return made


class _Float64(float):
    """A float that raises :class:`Undefinable` when it is compared with an integer that need not be a float."""


def _watching(base: type[Any], name: str) -> Callable[..., Any]:
    function = getattr(base, name)

    def method(*args: Any) -> Any:
        mixed = name in _COMPARED and {isinstance(arg, float) for arg in args} == {True, False}
        if mixed and any(isinstance(arg, int) and abs(int(arg)) > 2**53 for arg in args):
            raise Undefinable
        return _watched(function(*args))

    return method


_COMPARED: Final = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
_OPERATORS: Final = (
    "add",
    "sub",
    "mul",
    "floordiv",
    "mod",
    "truediv",
    "divmod",
    "lshift",
    "rshift",
    "and",
    "or",
    "xor",
)
_ARITHMETIC: Final = tuple(f"__{side}{name}__" for name in _OPERATORS for side in ("", "r"))
for _class, _base in ((_Int64, int), (_Float64, float)):
    for _name in (*_COMPARED, *_ARITHMETIC, "__neg__", "__abs__", "__pos__", "__invert__"):
        if hasattr(_base, _name):
            setattr(_class, _name, _watching(_base, _name))
    _class.__hash__ = _base.__hash__  # type: ignore[method-assign]


def plain(value: Any) -> Any:
    """A value in a form that ``==`` compares bit for bit and type for type; all NaN are one."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int):
        return ("int", int(value))
    if isinstance(value, float):
        return ("float", "nan" if value != value else value.hex())
    if attrs.has(type(value)):
        return (type(value).__name__, *(plain(getattr(value, a.name)) for a in attrs.fields(type(value))))
    if dataclasses.is_dataclass(value):
        return (type(value).__name__, *(plain(getattr(value, f.name)) for f in dataclasses.fields(value)))
    if isinstance(value, list | tuple):
        return (type(value).__name__, *map(plain, value))
    return (type(value).__name__, value)


def expected(program: Program, key: str, row: Row) -> Emitted:
    """What the program emits. Raises what it raises, and :class:`Undefinable`."""
    emitted: Emitted = []
    program.function(key, row, lambda k, v: emitted.append((k, v)))
    return emitted


class _IntMeta(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, int)

    def __call__(cls, value: Any, *base: Any) -> Any:
        return _Int64(int(value, *base))


class _WatchedInt(metaclass=_IntMeta):
    """Takes the place of ``int``."""

    __match_args__ = ("real",)


class _Watch(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if type(node.value) not in (int, float):
            return node
        return ast.copy_location(ast.Call(ast.Name("watched", ast.Load()), [node], []), node)


_WATCHED_NAMES: Final[Mapping[str, Any]] = {
    **NAMES,
    "PRICES": {k: _watched(v) for k, v in PRICES.items()},
    "CODES": {k: _watched(v) for k, v in CODES.items()},
    "SOME": {k: _watched(v) for k, v in SOME.items()},
    "int": _WatchedInt,
    "float": lambda x: _Float64(float(x)),
    "round": lambda x, *digits: _watched(round(x, *digits)),
    "len": lambda x: _Int64(len(x)),
    "sum": lambda values: sum(values, _Int64(0)),
    "watched": _watched,
}


def definable(program: Program, key: str, row: Row) -> bool:
    """Do all integers stay within 64 bits on the way, and is no float compared with an integer beyond 2**53?"""
    made = dict(_WATCHED_NAMES)
    tree = ast.fix_missing_locations(_Watch().visit(ast.parse(program.source)))
    exec(compile(tree, "<watched>", "exec"), made)
    try:
        made["program"](key, _watched(row), lambda k, v: None)
    except Undefinable:
        return False
    except Exception:
        return True
    return True


def inputs_of(**arguments: Any) -> Callable[[Input], Any]:
    """How ``evaluate`` finds its inputs in these arguments."""

    def find(one: Input) -> Any:
        name, *path = one.path
        found = arguments[str(name)]
        for step in path:
            found = getattr(found, step) if isinstance(step, str) else found[step]
        return found

    return find
