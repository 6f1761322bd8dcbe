"""``match``: every pattern on every value means what Python means, or is refused."""

from __future__ import annotations

import ast
import datetime as dt
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest

from tests.programs import Row, Sub, compiled
from tests.tracing.support import Color, is_traced


@attrs.frozen
class Halved:
    """Its patterns read a property."""

    x: int
    __match_args__ = ("half", "x")

    @property
    def half(self) -> int | None:
        """None of nothing."""
        return None if self.x == 0 else self.x // 2


SUBJECTS = """
    v.i ; v.f ; v.s ; v.b ; v.oi ; v.ts ; v.day ; v.sub ; v.osub ; v ; v.ts - v.tu ; v.s.split(',') ; (v.i, v.s)
    [v.oi, v.i] ; [v.i, [v.j, v.oi]] ; {'k': v.i, 1: v.oi} ; Halved(v.i) ; None ; 'a' ; (1, 2) ; range(3)
    (v.osub, 1, 2) ; []
"""
PATTERNS = """
    [] ; [one] ; [one, two] ; [first, *rest] ; [first, *_] ; [*_, last] ; [*rest] ; [a, *_, b] ; (1, x) ; [x, None]
    [_, [a, b]] ; [_, [a, None]] ; {} ; {'k': x} ; {'k': 1} ; {'k': x, **rest} ; {1: None} ; {'z': x} ; None ; True ; 1
    1.0 ; -2 ; 'a' ; 1 | 2 ; None | 0 ; 'a' | 'b' as x ; int() ; int(x) ; float(x) ; str(x) ; bool(x) ; list(x)
    tuple((x, y)) ; dict(x) ; Sub() ; Sub(x=1) ; Sub(x, y) ; Sub(x=int(n), y=None) ; Sub(1 | 3 as n) ; Sub(q=1)
    dt.datetime(hour=h) ; dt.date(day=d) ; dt.timedelta(days=d) ; Color.RED ; int(real=r) ; object(fold=x) ; Sequence()
    Sequence() | None ; numbers.Integral() ; Halved(None, x) ; Halved(half, 1 | 7 as x) ; Sub(a, b, c) ; x if x
    int(x) if x > 1 ; [x, y] if x == y ; [a, b] | (a, b, _) ; [] | [_, *_] ; Row(sub=Sub(x), oi=None)
"""


NAMES = {
    **{"dt": dt, "numbers": numbers, "Sequence": Sequence},
    **{cls.__name__: cls for cls in (Sub, Row, Color, Halved)},
}


def parts_of(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split(";")]


def captured(pattern: str) -> dict[str, str]:
    """The names of a pattern, and how what they capture is shown."""
    made: dict[str, str] = {}
    for node in ast.walk(ast.parse(f"match 1:\n  case {pattern}:\n    pass")):
        match node:
            case ast.MatchAs(name=str(name)):
                made[name] = name
            case ast.MatchStar(name=str(name)):
                made[name] = f"tuple({name})"
            case ast.MatchMapping(rest=str(name)):
                made[name] = f"tuple({name}.items()) if {name} else ()"
            case _:
                pass
    return made


@pytest.mark.parametrize("subject", parts_of(SUBJECTS))
def test_a_pattern_matches_as_in_python(subject: str) -> None:
    for pattern in parts_of(PATTERNS):
        names = captured(pattern)
        shown = "".join(f", {text}" for text in names.values())
        lines = [f"{name} = ()" for name in names]
        lines += [
            f"match {subject}:",
            f"  case {pattern}:",
            f"    return 'matches'{shown}",
            f"return 'does not'{shown}",
        ]
        is_traced(compiled("def program(v):\n" + "".join(f"  {line}\n" for line in lines), NAMES))


MATCHES: list[Callable[[Any], Any]] = []


def matching(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    MATCHES.append(function)
    return function


@matching
def how_many(v: Row) -> Any:
    match v.s.split(","):
        case [one]:
            return one
        case [first, _]:
            return first
        case [_, *_, last]:
            return last
        case _:
            return None


@matching
def after_a_guard(v: Row) -> Any:
    match (v.i, v.oi):
        case (x, None) if x > 3:
            return x
        case (1, y) | (y, 0):
            return y
        case _:
            pass
    return x if v.oi is None else v.j


@matching
def by_key(v: Row) -> Any:
    match {"a": v.i, "b": v.s}:
        case {"a": 1, **rest}:
            return tuple(rest.values())
        case {"a": int(x), "b": str(y)}:
            return x, y
        case _:
            return None


@matching
def by_class(v: Row) -> Any:
    match v:
        case Row(sub=Sub(1 | 3 as x, y), s="a"):
            return x, y
        case Row(osub=Sub(x=n), ts=dt.datetime(hour=23 as h)) if n == 1:
            return n, h
        case _:
            return v.i


@matching
def in_a_list(v: Row) -> Any:
    match [v.i, v.j, v.oi]:
        case [first, *others, None]:
            return first, len(others), others[0]
        case [_, *others]:
            return tuple(others)
        case _:
            return None


@pytest.mark.parametrize("function", MATCHES)
def test_patterns_are_traced(function: Callable[[Any], Any]) -> None:
    assert is_traced(function)
