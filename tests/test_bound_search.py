"""The search for the largest bounds within a significance factor (Flux, figure 4)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes import Dataflow, Item, Marker, U, UsageError, check, every, interpret_rows
from tracetypes.bound_search import Varied, search_bounds
from tracetypes.gates import sequence


@given(st.floats(0.001, 2), st.floats(0.05, 5))
def test_of_one_step_the_bound_is_the_largest_that_the_factor_allows(slope: float, factor: float) -> None:
    found = search_bounds(lambda bounds: [Varied(0, slope * bounds[0])], 1, factor, most=4096, epsilon=0)
    (bound,) = found.bounds
    assert bound == 1 or slope * bound <= factor
    assert bound == 4096 or slope * (bound + 1) > factor
    assert found.trials <= 2 * 13 + 2


@given(st.floats(0.01, 1), st.floats(0.01, 1), st.floats(0.5, 5))
def test_the_search_goes_backwards(first: float, second: float, factor: float) -> None:
    """The first step may vary as much as the last one's input does with the bound that was found for it."""
    asked: list[tuple[float, ...]] = []

    def trial(bounds: Sequence[float]) -> list[Varied]:
        asked.append(tuple(bounds))
        return [Varied(bounds[0], first * bounds[0]), Varied(3 * bounds[1], second * bounds[1])]

    found = search_bounds(trial, 2, factor, most=1024, epsilon=0)
    changed_first = next((at for at, one in enumerate(asked) if one[0] > 1), len(asked))
    assert all(one[1] == found.bounds[1] for one in asked[changed_first:])
    assert found.bounds[1] == 1 or second * found.bounds[1] <= factor
    assert found.bounds[1] == 1024 or second * (found.bounds[1] + 1) > factor
    assert found.bounds[0] == 1 or first * found.bounds[0] <= 3 * found.bounds[1]
    assert found.bounds[0] == 1024 or first * (found.bounds[0] + 1) > 3 * found.bounds[1]
    assert list(found.variations) == trial(found.bounds)


def test_bounds_that_are_no_whole_numbers() -> None:
    found = search_bounds(lambda bounds: [Varied(0, bounds[0] / 3)], 1, 4, most=100, epsilon=0, whole=False)
    assert 11.8 < found.bounds[0] <= 12


def test_on_a_flow() -> None:
    """Items count up. The output of a gate varies by what came between two executions."""

    def trial(bounds: Sequence[float]) -> list[Varied]:
        flow = Dataflow("counter")
        stream = flow.source("in", U[str, int], markers=every(seconds=1, time=lambda value: value))
        flow.sink("out", stream.latest(sequence(int(bounds[0])), latest_by=lambda value: value))
        trace = interpret_rows(check(flow), {"in": [("a", at) for at in range(60)]})[0]["out"]
        values = [one.value for one in trace.items if isinstance(one, Item)]
        assert len(values) == sum(isinstance(one, Marker) for one in trace.items)
        return [Varied(0, max(after - before for before, after in pairwise(values)))]

    assert search_bounds(trial, 1, 7, most=60, epsilon=0).bounds == (7,)


@pytest.mark.parametrize(("steps", "factor", "most"), [(0, 1.0, 5.0), (1, 0.0, 5.0), (1, 1.0, -1.0)])
def test_TT126_searches_that_mean_nothing(steps: int, factor: float, most: float) -> None:
    with pytest.raises(UsageError, match="TT126"):
        search_bounds(lambda bounds: [], steps, factor, most=most)
