"""The types that lambdas return, by their source: what they return has that type."""

from __future__ import annotations

import datetime as dt
import itertools
import linecache
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracetypes import DataError, Dataflow, U, UsageError, check, every
from tracetypes.conformance import conform
from tracetypes.schemas import schema_of
from tracetypes.stdlib import aggregate, both, count, mean, sum
from tracetypes.stdlib.lambda_types import type_of_lambda

UTC = dt.UTC


@attrs.frozen
class Load:
    watts: float
    name: str | None
    at: dt.datetime

    @property
    def kilo(self) -> float:
        return self.watts / 1000

    def label(self) -> str:
        return f"{self.watts}"


LIMIT = 2.5
NUMBERS = itertools.count()
TYPES: dict[str, Any] = {"n": int, "x": float, "s": str, "y": float | None, "r": Load, "t": list[int], "p": tuple[int, str]}


def named(r: Load) -> str | None:
    return r.name


def made(source: str) -> Callable[..., Any]:
    """The lambda that the text is, as if it stood in a file."""
    file = f"<lambda {next(NUMBERS)}>"
    linecache.cache[file] = (len(source), None, [source], file)
    function: Callable[..., Any] = eval(compile(source, file, "eval"), globals())
    return function


@pytest.mark.parametrize(
    ("body", "returns"),
    [
        ("x / n", float),
        ("n + n", int),
        ("n // 2", int),
        ("n ** 2", int),
        ("n + x", float),
        ("-n", int),
        ("abs(x)", float),
        ("n > 2", bool),
        ("not n", bool),
        ("[n, n + 1]", list[int]),
        ("(n, s)", tuple[int, str]),
        ("x if n else 0", float),
        ("x / n if n else None", float | None),
        ("y or 0.0", float),
        ("y * 2 if y is not None else None", float | None),
        ("None if y is None else y", float | None),
        ("y is not None and y > 2", bool),
        ("r.watts", float),
        ("r.kilo", float),
        ("r.label()", str),
        ("r.name", str | None),
        ("r.name.lower() if r.name else s", str),
        ("r.at - r.at", dt.timedelta),
        ("(r.at - r.at).total_seconds()", float),
        ("named(r)", str | None),
        ("Load(x, s, r.at)", Load),
        ("round(x)", int),
        ("round(x, 1)", float),
        ("max(n, x)", float),
        ("len(t)", int),
        ("t[0]", int),
        ("t[1:]", list[int]),
        ("p[1]", str),
        ("f'{n}'", str),
        ("s + s", str),
        ("x > LIMIT", bool),
        ("LIMIT * n", float),
        ("r", Load),
    ],
)
def test_what_is_known(body: str, returns: Any) -> None:
    assert type_of_lambda(made(f"lambda {', '.join(TYPES)}: {body}"), list(TYPES.values())) == returns


@pytest.mark.parametrize("body", ["n ** n", "print(n)", "y + 1 or s", "x if n else s", "r.volts", "{n: s}", "globals()", "LOAD"])
def test_what_is_not_known(body: str) -> None:
    assert type_of_lambda(made(f"lambda {', '.join(TYPES)}: {body}"), list(TYPES.values())) is None


def _expressions() -> st.SearchStrategy[str]:
    names = ["n", "x", "s", "y", "r.watts", "r.name", "r", "t", "t[0]", "p[0]"]
    leaves = st.sampled_from([*names, "2", "0.5", "'a'", "None", "LIMIT"])

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pair = st.tuples(inner, inner)
        return st.one_of(
            st.tuples(pair, st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "<", "==", "is", "or", "and", "&"])).map(
                lambda it: f"({it[0][0]} {it[1]} {it[0][1]})"
            ),
            st.tuples(inner, inner, inner).map(lambda it: f"({it[0]} if {it[1]} else {it[2]})"),
            st.tuples(inner, inner).map(lambda it: f"({it[0]} if {it[1]} is not None else {it[0]})"),
            st.tuples(st.sampled_from(["-", "not ", "abs", "round", "len", "str", "float", "sorted"]), inner).map(
                lambda it: f"({it[0]}({it[1]}))"
            ),
            pair.map(lambda it: f"[{it[0]}, {it[1]}]"),
            pair.map(lambda it: f"max({it[0]}, {it[1]})"),
            inner.map(lambda it: f"({it}).lower()"),
            inner.map(lambda it: f"({it})[0]"),
        )

    return st.recursive(leaves, grown, max_leaves=6)


NOON = dt.datetime(2026, 1, 1, 12, tzinfo=UTC)
VALUES: list[dict[str, Any]] = [
    {"n": 1, "x": 1.5, "s": "a", "y": None, "r": Load(2.25, None, NOON), "t": [3, 1], "p": (2, "q")},
    {"n": 0, "x": -2.75, "s": "", "y": 0.5, "r": Load(0.25, "A", NOON), "t": [], "p": (0, "q")},
    {"n": -3, "x": 0.25, "s": "b", "y": 0.0, "r": Load(-1.5, "b", NOON), "t": [7], "p": (1, "q")},
]


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@settings(max_examples=max(300, settings().max_examples))
@given(_expressions())
def test_what_a_lambda_returns_has_its_type(body: str) -> None:
    function = made(f"lambda {', '.join(TYPES)}: {body}")
    found = type_of_lambda(function, list(TYPES.values()))
    try:
        schema = schema_of(found)
    except DataError:  # a list of None has a type, but no schema
        return
    for each in VALUES:
        try:
            result = function(**each)
        except (TypeError, ValueError, ArithmeticError, AttributeError, IndexError):
            continue
        if not isinstance(result, complex):
            conform(schema, result, "result")


def test_both_needs_no_type_for_a_lambda() -> None:
    flow = Dataflow("loads")
    loads = flow.source("loads", U[str, Load], markers=every(seconds=60, time=lambda load: load.at))
    ratio = both(sum(lambda load: load.watts, to=float), count(), lambda total, n: total / n if n else None)
    flow.sink("mean", loads.through(aggregate(ratio)))
    check(flow)
    assert both(count(), mean(lambda x: x * 0.5), lambda n, average: [average, n]).type_arguments()["W"] == list[float]


def test_both_says_what_it_does_not_know() -> None:
    with pytest.raises(UsageError, match=r"both does not know what .*<lambda> returns") as raised:
        both(count(), count(), lambda n, m: {n: m})
    assert raised.value.code == "TT120"
