# ruff: noqa: RUF015, UP030 - each line is a way of its own to meet a value
"""Builtins, formats, comparisons of mixed types, and calls without a value."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import itertools
import operator
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from tests.tracing.support import LEAP, is_traced
from tests.tracing.test_methods import Absent, absent


@dataclasses.dataclass(frozen=True)
class Counted:
    """A default that counts."""

    x: int
    n: int = dataclasses.field(default_factory=itertools.count().__next__)


def helped(x: Any) -> Any:
    return dt.datetime.now(dt.UTC).year // 10_000 + x


class Clock:
    """Looks at the time."""

    @property
    def decade(self) -> int:
        return dt.datetime.now(dt.UTC).year // 10_000

    def ten(self) -> int:
        return dt.datetime.now(dt.UTC).year // 10_000


CLOCK = Clock()

PROXY = MappingProxyType({"a": 1})
REST: list[Callable[[Any], Any]] = [
    lambda v: sum([v.s, v.t], ""),
    lambda v: sum([(v.i,), (v.j,)], ()),
    lambda v: sum([v.b, v.c]),
    lambda v: "{x}".format_map({"x": v.i}),
    lambda v: "{0.x}".format(v.sub),  # noqa: UP032
    lambda v: f"{v.i!r:>5}|{v.b:d}|{v.f:+}|{v.s!s:<4}|{v.oi}",
    lambda v: v.oi in {"a": v.i}.values(),
    lambda v: 1 in (x for x in (v.i, v.oi)),
    lambda v: Absent(None) in {"a": Absent(v.oi)}.values(),
    lambda v: Absent(None) in (Absent(x) for x in (v.oi,)),
    lambda v: str([v.oi][:1]),
    lambda v: max({"a": v.i}.values()),
    lambda v: [v.oi][0:1] == [None],
    lambda v: {"a": v.oi}.copy() == {"a": None},
    lambda v: "a" in {"a": v.oi} | {"b": None},
    lambda v: v.b + v.c < v.i <= v.f,
    lambda v: (v.b < 2, v.b == 1.0, True == v.i, 0.0 == -v.f),  # noqa: SIM300, E712
    lambda v: (v.f, -v.f, v.f * -1, 0.0 + v.g, v.g - 0.0, -(v.i * 0.0)),
    lambda v: (isinstance(v.ts, dt.date), isinstance(v.day, dt.datetime), v.ts == v.day, v.ts != v.day),
    lambda v: (isinstance(v.b, int), type(v.b) is int, isinstance(True, int)),
    lambda v: helped(v.i),
    lambda v: CLOCK.decade + v.i,
    lambda v: CLOCK.ten() + v.i,
    lambda v: Counted(v.i).n,
    lambda v: Counted(1).n + v.i,
    lambda v: (x := v.oi) is None or x > 1,
    lambda v: [y for x in (v.oi, v.i) if (y := x) is not None][0],
    lambda v: list(map(v.s.startswith, ["a", "b"]))[0],
    lambda v: 1 if v.s.lower else 2,
    lambda v: v.s.lower == v.s.lower,
    lambda v: callable(v.s),
    lambda v: hasattr(v.i, "imag"),
    lambda v: getattr(v.i, "imag", 3),
    lambda v: (lambda x=v.oi: x is None)(),
    lambda v: functools.partial(absent, v.oi)(),
    lambda v: list(zip([v.oi], [1], strict=True))[0][0] is None,
    lambda v: next(itertools.chain([v.oi], [1])) is None,
    lambda v: list(itertools.accumulate([v.i, v.j]))[1],
    lambda v: [0] * v.i == [],
    lambda v: "a" * v.b,
    lambda v: divmod(v.i, 3),
    lambda v: (v.ts - LEAP).days + (LEAP - v.tu).seconds,
    lambda v: v.ts.__sub__(v.tu),
    lambda v: int.__add__(v.i, 1),
    lambda v: operator.is_(v.oi, None),
    lambda v: operator.contains([None], v.oi),
    lambda v: PROXY.get(v.s),
    lambda v: v.day.replace(day=1),
    lambda v: (v.ts - v.tu == None, v.ts - v.tu != None),  # noqa: E711
    lambda v: v.ts.max > v.ts,
    lambda v: v.ts.today() > v.ts,
    lambda v: v.i.from_bytes(b"a") + v.i,
]


@pytest.mark.parametrize("function", REST)
def test_what_is_left(function: Callable[[Any], Any]) -> None:
    is_traced(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda v: helped(v.i),
        lambda v: CLOCK.decade + v.i,
        lambda v: CLOCK.ten() + v.i,
        lambda v: Counted(v.i).n,
        lambda v: 1 if v.s.lower else 2,
        lambda v: v.ts.fold,
        lambda v: v.f.is_integer,
        lambda v: sum([v.s], ""),
    ],
)
def test_what_is_not_known_is_refused(function: Callable[[Any], Any]) -> None:
    assert not is_traced(function)
