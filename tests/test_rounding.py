"""Exact sums of many groups are rounded as one by one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.strategies import some
from tracetypes import ExactSum
from tracetypes.compiler.columns import exact_sums
from tracetypes.compiler.columns.exact_sums import exact_group_sums


@pytest.fixture(autouse=True)
def few_sums_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_sums, "FEW", 1)


NUMBERS = (
    st.integers(0, 99_999).map(lambda n: n / 100)
    | st.floats(-1e3, 1e3)
    | st.builds(math.ldexp, st.sampled_from([1.0, -1.0, 1.0 + 2.0**-52, -1.5]), st.integers(-130, 130))
)
WILD = NUMBERS | st.floats() | st.sampled_from([math.inf, -math.inf, math.nan, -0.0, 5e-324, 1.7e308])


@settings(deadline=None, max_examples=some(150))
@given(st.lists(st.tuples(st.lists(NUMBERS, max_size=7), st.integers(1, 9)), max_size=8))
@example([([1.0, 2.0**-53], 1), ([1.0, 2.0**-53, 2.0**-105], 1), ([1.0, 2.0**-53, -(2.0**-105)], 1)])
@example([([1.0 + 2.0**-52, 2.0**-53], 1), ([1.0 + 2.0**-52, 2.0**-53, -(2.0**-105)], 1)])
@example([([2.0**53, 1.0], 2), ([2.0**53, 1.0, 1.0, 1.0], 4), ([-1.0], 3), ([1e300, 1.0, -1e300], 1), ([1e16, -1.0], 7)])
@example([([float.fromhex("0x1.374161f1318bbp+52"), float.fromhex("0x1.a7b3882e8d064p+51"), 2.0**-66, 2.0**-66], 4)])
@example([([2.0**42, float.fromhex("0x1.774f63599e9a8p+52"), 2.0**-77, float.fromhex("0x1.89d272438739dp+52")], 4)])
def test_sums_of_groups(groups: list[tuple[list[float], int]]) -> None:
    compared(groups)


@settings(deadline=None, max_examples=some(50))
@given(st.lists(st.tuples(st.lists(WILD, max_size=5), st.integers(1, 2**40)), max_size=8))
def test_sums_of_any_numbers(groups: list[tuple[list[float], int]]) -> None:
    compared(groups)


def compared(groups: list[tuple[list[float], int]]) -> None:
    """All that is rounded, with the definition."""
    values = np.array([one for numbers, _ in groups for one in numbers], np.float64)
    of_value = np.repeat(np.arange(len(groups)), [len(numbers) for numbers, _ in groups])
    sums, counts = exact_group_sums(values, of_value, len(groups)), np.array([count for _, count in groups], np.int64)
    rounded, over = sums.rounded().tolist(), sums.over(counts).tolist()
    for at, (numbers, count) in enumerate(groups):
        total = ExactSum()
        for one in numbers:
            total += ExactSum.of(one)
        assert repr(rounded[at]) == repr(total.value())
        assert repr(over[at]) == repr(total.over(count))


def test_most_sums_are_certain() -> None:
    """They are not rounded one by one."""
    values = np.round(np.random.default_rng(1).random(20_000) * 200 - 100, 2)
    sums = exact_group_sums(values, np.arange(20_000) // 4, 5000).settled()
    for count in (1, 2, 3, 7):
        means, sure = sums._means(np.full(5000, count))
        assert sure.mean() > 0.999
        for at in np.flatnonzero(sure)[:200].tolist():
            exact = sum(map(Fraction, values[4 * at : 4 * at + 4].tolist()))
            assert means[at] == float(exact / count)
