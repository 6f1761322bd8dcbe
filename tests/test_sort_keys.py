"""Whatever ``by`` gives, values have one order, however they arrive, or it is an error, however they arrive."""

from __future__ import annotations

import datetime as dt
import enum
import itertools
import math
import random
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes import Dataflow, O, OperatorFailed, U, Unit, check, desc, every, interpret_rows, sort
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.errors import LawBroken
from tracetypes.sort_keys import NoSortKey, sort_key
from tracetypes.sources import reader
from tracetypes.stdlib.orders import place_of
from tracetypes.testing import check_flow, check_order


class Size(enum.IntEnum):
    SMALL = 1


@attrs.frozen(order=True)
class Rank:
    """It has a ``<`` of its own, which may be anything."""

    at: float


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
TIMES = [dt.datetime(2024, 10, 27, hour, 30, fold=fold) for hour in (1, 2, 3) for fold in (0, 1)]
PLAIN = st.one_of(
    st.integers(-3, 3),
    st.booleans(),
    st.sampled_from([0.5, -0.0, 0.0, 2**53, 2.0**53, 2**53 + 1, math.inf, 10**30, Size.SMALL]),
    st.sampled_from([Decimal("1.0"), Decimal("0.5"), Decimal("0.1"), Decimal("-Infinity"), Decimal("1E+30")]),
    st.sampled_from(["", "a", "é", "\uffff", "\U0001f642", b"", b"a"]),
    st.sampled_from(
        [*TIMES, *(t.replace(tzinfo=zone) for t in TIMES for zone in (BERLIN, dt.UTC)), dt.date(2024, 10, 27)]
    ),
)
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        math.nan,
        None,
        {1},
        frozenset([1]),
        frozenset([2]),
        frozenset([1, 2]),
        1j,
        Rank(1),
        Decimal("NaN"),
        Decimal("sNaN"),
        Fraction(1, 2),
        {},
        object,
    ]
)


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | inner.map(desc),
        max_leaves=5,
    )


GIVEN = st.lists(nested(PLAIN) | nested(PLAIN | ODD) | nested(PLAIN), min_size=2, max_size=4)


def sorted_by(given: list[Any], arrival: list[int]) -> Any:
    """The trace of a sort whose ``by`` gives these for 0, 1, ..., by the definition and by a deployment; or an error's code."""
    flow = Dataflow("sorted")
    numbers = flow.source("in", U[Unit, int], markers=every(seconds=1, time=lambda value: 0))
    flow.sink("out", numbers.through(sort(by=lambda value: given[value])), position="at")
    checked = check(flow)
    answers: list[Any] = []
    runs: list[Callable[[], Any]] = [
        lambda: interpret_rows(checked, {"in": arrival})[0]["out"],
        lambda: simulate(plan(checked, key_groups=1), {"in": arrival}, seed=1, steps=1, pieces=1).trace,
    ]
    for run in runs:
        try:
            answers.append(run().items)
        except OperatorFailed as error:
            answers.append(error.code)
    assert answers[0] == answers[1]
    return answers[0]


@pytest.mark.parametrize("many", [1, 10_000])
@given(given_=GIVEN)
def test_two_arrival_orders_have_one_answer(many: int, given_: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MANY", many)
        answers = [sorted_by(given_, list(order)) for order in itertools.permutations(range(len(given_)))][:8]
    assert all(answer == answers[0] for answer in answers)
    if answers[0] == "TT204":
        with pytest.raises(NoSortKey):
            sort_key(given_)


@given(st.lists(nested(PLAIN), min_size=3, max_size=3))
def test_places_are_a_total_order_that_agrees_with_python_where_python_has_one(some: list[Any]) -> None:
    a, b, c = (sort_key(one) for one in some)
    assert (a < b) + (a == b) + (a > b) == 1
    assert a > b or b > c or a <= c
    for one, other in itertools.product(some, repeat=2):
        assert (sort_key(desc(one)) < sort_key(desc(other))) == (sort_key(one) > sort_key(other))
        assert (sort_key(desc(one)) == sort_key(desc(other))) == (sort_key(one) == sort_key(other))
        assert sort_key((desc(one), one)) <= sort_key((desc(other), other)) or sort_key(one) < sort_key(other)
        if type(one) is type(other) and isinstance(one, int | float | str | bytes):
            assert (sort_key(one) < sort_key(other)) == (one < other)
            assert (sort_key(one) == sort_key(other)) == (one == other)


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: (1, one), lambda one: [one], lambda one: (1, [(one,)]), desc])
@given(odd=ODD)
def test_what_has_no_place_is_refused_everywhere(wrap: Any, odd: Any) -> None:
    """In a sort, in the order of a source, and by the aggregates, which give NaN a place."""
    with pytest.raises(NoSortKey):
        sort_key(wrap(odd))
    assert sorted_by([wrap(odd)], [0]) == "TT204"
    flow = Dataflow("ordered")
    flow.source("in", O[str, int], markers=every(seconds=1, time=lambda value: 0), ordered_by=lambda value: wrap(odd))
    row = reader(flow.graph.sources[0]).read("k", 1)
    assert (row.kind, "a place in an order" in row.reason) == ("reject", True)
    if isinstance(odd, float):
        first, last = ("a", math.inf) if wrap is desc else (math.inf, "a")
        assert place_of(wrap(first)) < place_of(wrap(odd)) == place_of(wrap(-odd)) < place_of(wrap(last))
    else:
        with pytest.raises(ValueError, match=r"by gave .* no place in an order"):
            place_of(wrap(odd))


@given(order=st.permutations(range(5)))
def test_the_order_of_a_source_may_have_several_types(order: list[int]) -> None:
    given_ = ["b", 2, (1, "a"), 1.5, "a"]
    flow = Dataflow("ordered")
    numbers: Any = flow.source(
        "in", O[Unit, int], markers=every(seconds=1, time=lambda value: 0), ordered_by=lambda value: given_[value]
    )
    flow.sink("out", numbers, position="at")
    checked = check(flow)
    expected = interpret_rows(checked, {"in": [3, 1, 4, 0, 2]})[0]["out"]
    assert [item.value for item in expected.items if hasattr(item, "value")] == [3, 1, 4, 0, 2]
    assert interpret_rows(checked, {"in": order})[0]["out"] == expected
    assert simulate(plan(checked, key_groups=1), {"in": order}, seed=1, steps=1, pieces=1).trace == expected


# ---------------------------------------------------------------------------------------------------- the law


@attrs.frozen
class Sample:
    at: int
    level: float
    parts: tuple[float, ...]


BROKEN: dict[str, Any] = {
    "NaN": lambda s: s.level,
    "NaN in a tuple": lambda s: (s.at, s.level),
    "NaN in a list": lambda s: list(s.parts),
    "a set": lambda s: frozenset([s.at]),
    "None": lambda s: None if s.at % 2 else s.at,
    "raises": lambda s: 1 // s.at,
    "draws lots": lambda s: random.random(),
    "an object": lambda s: Rank(s.at),
}


@pytest.mark.parametrize("what", BROKEN)
def test_TT312_an_order_that_is_none(what: str) -> None:
    with pytest.raises(LawBroken, match="TT312"):
        check_order(BROKEN[what], Sample)
    said: list[str] = []
    flow = Dataflow("broken")
    samples = flow.source("in", U[str, Sample], markers=every(seconds=1, time=lambda s: s.at))
    flow.sink("out", samples.through(sort(by=BROKEN[what])))
    assert check_flow(flow, max_examples=30, say=said.append) == 1
    assert any(line.startswith("BROKEN  sort at ") and "TT312" in line for line in said)
    assert "all laws hold" not in said


def test_an_order_of_all_values_keeps_the_law() -> None:
    check_order(lambda s: (s.at, str(s.level), len(s.parts)), Sample)
    check_order(lambda text: text or 0, str)
