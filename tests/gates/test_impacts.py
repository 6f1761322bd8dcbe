"""Impacts and errors: the four equations, and the laws of a monoid."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes import UsageError
from tracetypes.impacts import (
    Variation,
    combined,
    magnitude,
    net_change,
    relative_error,
    relative_magnitude,
    root_mean_square,
    variation,
)


def same(value: float) -> float:
    return value


FUNCTIONS: list[Variation[float, object]] = [
    magnitude(same),
    net_change(same),
    relative_magnitude(same),
    relative_error(same),
    root_mean_square(same, scale=100.0),
]
NUMBERS = st.floats(-1e9, 1e9) | st.sampled_from([math.inf, -math.inf, 0.0, -0.0, 1e308, 5e-324])
CONTAINERS = st.dictionaries(st.integers(0, 9), NUMBERS, max_size=8)


def test_the_equations() -> None:
    before, now = {"a": 10.0, "b": 4.0, "c": 0.0, "d": 7.0}, {"a": 20.0, "b": 1.0, "c": 0.0, "d": 7.0, "e": 5.0}
    # Three of five have changed: by 10, 3 and 5.
    assert variation(magnitude(same), now, before) == 18 * 3
    assert variation(net_change(same), now, before) == (10 - 3 + 5) / 5
    assert variation(relative_magnitude(same), now, before) == (18 / (20 + 4 + 5)) * 3 / 5
    assert variation(relative_error(same), now, before) == (18 / (20 + 1 + 5)) * 3 / 5
    assert variation(root_mean_square(same), now, before) == math.sqrt((100 + 9 + 25) / 5)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one._name())
@given(st.data())
def test_a_variation_does_not_depend_on_order_or_grouping(function: Variation[float, object], data: st.DataObject) -> None:
    now, before = data.draw(CONTAINERS), data.draw(CONTAINERS)
    number = variation(function, now, before)
    order = data.draw(st.permutations(list(now)))
    shuffled = variation(function, {key: now[key] for key in order}, before)
    assert number == shuffled or (math.isnan(number) and math.isnan(shuffled))
    changed = [(now[key], before.get(key)) for key in order if now[key] != before.get(key)]
    cut = data.draw(st.integers(0, len(changed)))
    parts = []
    for group in (changed[:cut], changed[cut:]):  # two key groups, each with its own part of the monoid
        part = function.identity()
        for current, previous in group:
            part = function.aggregate(part, function.process_element(current, previous))
        parts.append(part)
    grouped = function.compute(function.aggregate(*parts), len(changed), len(now)) if now else 0.0
    assert number == grouped or (math.isnan(number) and math.isnan(grouped))


@given(CONTAINERS)
def test_no_change_is_zero(container: dict[int, float]) -> None:
    assert all(variation(function, container, dict(container)) == 0 for function in FUNCTIONS)


@given(st.dictionaries(st.integers(0, 9), st.floats(0, 1e9), min_size=1), st.dictionaries(st.integers(0, 9), st.floats(0, 1e9)))
def test_relative_variations_are_shares(now: dict[int, float], before: dict[int, float]) -> None:
    assert 0 <= variation(relative_magnitude(same), now, before) <= 1
    assert 0 <= variation(relative_error(same), now, before) <= 1


def test_several_predecessors() -> None:
    assert combined({"a": 0.25, "b": 1.0}) == pytest.approx(0.5)
    assert combined({"a": 0.25, "b": 0.0}) == 0
    assert combined({}) == 0


def test_a_scale_must_be_positive() -> None:
    with pytest.raises(UsageError, match="TT121"):
        root_mean_square(same, scale=0)
