"""Sketches keep their bounds, and equal bags give equal sketches. (That they are lawful is in test_aggregates.)"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import subprocess
import sys
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import FLOATS
from tracetypes import UNIT, Unit
from tracetypes.canonical import canonical
from tracetypes.schemas import schema_of
from tracetypes.stdlib import Aggregate, approx_count_distinct, count_distinct, evaluate, quantile, quantiles
from tracetypes.stdlib.orders import hash_of, likeness_of, order_of, place_of
from tracetypes.stdlib.sketches import ApproxCountDistinct, Members, Quantile, _sigma, _tau
from tracetypes.testing import values

NORMAL = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)


@attrs.frozen
class Place:
    x: float
    name: str | None


# ------------------------------------------------------------------------------------------------- quantiles


@given(st.lists(NORMAL, min_size=1, max_size=30), st.floats(0, 1), st.sampled_from([0.5, 0.1, 0.01, 0.0001]))
def test_quantiles_are_within_their_accuracy(items: list[float], q: float, accuracy: float) -> None:
    exact = Fraction(sorted(items)[math.floor(q * (len(items) - 1))])
    told = Fraction(evaluate(quantile(q, accuracy=accuracy), items))
    assert abs(told - exact) <= Fraction(accuracy) * abs(exact) * Fraction(1 + 1e-12)


def test_a_coarser_sketch_would_be_found() -> None:
    """The bound is tight: half as many buckets break it."""
    coarse: Quantile[float] = Quantile(None, 0.02, 0.5)
    told = evaluate(coarse, [1.0])
    assert abs(told - 1.0) > 0.01


@given(FLOATS, FLOATS)
def test_buckets_are_in_the_order_of_their_values(one: float, other: float) -> None:
    sketch: Quantile[float] = Quantile(None, 0.01, 0.5)
    if one <= other:
        assert sketch.bucket(one) <= sketch.bucket(other)
        assert sketch.middle(sketch.bucket(one)) <= sketch.middle(sketch.bucket(other))


@pytest.mark.parametrize("number", [0.0, math.inf, -math.inf])
def test_what_is_exact(number: float) -> None:
    assert evaluate(quantile(0.5), [number]) == number


def test_not_a_number() -> None:
    assert math.isnan(evaluate(quantile(0.5), [1.0, math.nan]))
    both = evaluate(quantiles([0, 1]), [math.nan])
    assert all(map(math.isnan, both))


def test_extremes_of_the_range() -> None:
    for number in (5e-324, 2.3e-308, 1.7976931348623157e308):
        for sign in (1, -1):
            told = evaluate(quantile(0.5), [sign * number])
            assert math.isfinite(told)
            assert math.copysign(1, told) == sign
            assert number < 1e-307 or math.isclose(told, sign * number, rel_tol=0.01)


# ------------------------------------------------------------------------------------------------- count_distinct


@pytest.mark.parametrize("number", [1, 10, 33, 100, 1_000, 20_000])
def test_estimates_are_near(number: int) -> None:
    """Within five standard errors, for a precision of 12."""
    told = evaluate(approx_count_distinct(), (n for n in range(number) for _ in range(2)))
    assert abs(told - number) <= 5 * 1.04 / 64 * number


def test_coarse_sketches_are_unbiased() -> None:
    """The mean of many estimates is nearer than one of them has to be, also between sparse and dense."""
    for number in (20, 60, 200, 1_000):
        sketch: Aggregate[str, Any, int] = approx_count_distinct(precision=6)
        told = [evaluate(sketch, (f"{seed}/{n}" for n in range(number))) for seed in range(60)]
        assert abs(sum(told) / 60 - number) <= 4 * 1.04 / 8 * number / math.sqrt(60)


@given(st.floats(0, 1, exclude_max=True))
def test_the_series_of_the_estimator(x: float) -> None:
    """As they are written in the paper, with as many terms as a float can tell."""
    powers = [x]
    for _ in range(60):
        powers.append(powers[-1] ** 2)
    assert math.isclose(_sigma(x), x + sum(power * 2.0**k for k, power in enumerate(powers[1:])), rel_tol=1e-9)
    roots = [(1 - x ** (2.0**-k)) ** 2 * 2.0**-k for k in range(1, 60)]
    assert math.isclose(_tau(x), (1 - x - sum(roots)) / 3 if x else 0.0, rel_tol=1e-9, abs_tol=1e-12)


def test_the_ends_of_the_series() -> None:
    assert _sigma(1.0) == math.inf
    assert _tau(1.0) == _tau(0.0) == 0.0


def test_registers_that_are_full_count() -> None:
    """A quarter of the registers at their largest: no set of this age of the world, but the estimate is finite."""
    sketch: ApproxCountDistinct[int] = ApproxCountDistinct(None, 4)
    full, less = bytes([61] * 4 + [60] * 12), bytes([60] * 16)
    assert 1.15 < sketch.result(full) / sketch.result(less) < 1.25


@given(st.sets(st.integers(), max_size=60), st.sets(st.integers(), max_size=60))
def test_equal_sets_give_equal_sketches(one: set[int], other: set[int]) -> None:
    sketch: ApproxCountDistinct[int] = ApproxCountDistinct(None, 6)

    def made(items: list[int]) -> Any:
        agg = sketch.identity()
        for item in items:
            agg = sketch.combine(agg, sketch.lift(item))
        return agg

    whole = made(sorted(one | other))
    assert sketch.combine(made(list(one)), made(list(other))) == whole
    assert made(sorted(one | other, reverse=True) * 2) == whole


@given(st.lists(st.frozensets(st.integers(0, 50), min_size=1, max_size=20), max_size=12))
def test_members(sets: list[frozenset[int]]) -> None:
    made = Members()
    for some in sets:
        made = made | Members((some,))
    whole = frozenset[int]().union(*sets)
    assert made.whole == whole
    assert made == Members((whole,))
    assert hash(made) == hash(Members((whole,)))
    sizes = [len(part) for part in made.parts]
    assert all(larger >= 2 * smaller for larger, smaller in pairwise(sizes))


def test_members_are_few_parts() -> None:
    made = Members()
    for n in range(1_000):
        made = made | Members((frozenset((n,)),))
    assert len(made.parts) <= 11
    assert made != Members()
    assert made != 3


def test_likeness() -> None:
    assert evaluate(count_distinct(), [0.0, -0.0, math.nan, -math.nan, 1.0]) == 3
    assert evaluate(count_distinct(), [Place(0.0, None), Place(-0.0, None), Place(0.0, "a")]) == 2
    assert evaluate(count_distinct(), [[0.0], [-0.0], [], [0.0, 0.0]]) == 3
    summer = dt.timezone(dt.timedelta(hours=2))
    noon = dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC)
    assert evaluate(count_distinct(), [noon, noon.astimezone(summer)]) == 1
    days = [dt.date(2026, 7, 1), dt.date(2026, 7, 2)]
    assert evaluate(count_distinct(), days) == evaluate(approx_count_distinct(), days) == 2
    assert evaluate(count_distinct(), [None, 0, 1]) == 3
    assert evaluate(count_distinct(), [UNIT, UNIT]) == 1
    assert evaluate(count_distinct(), ["", b"", "a"]) == 3


@pytest.mark.parametrize(
    "type", [int, float | None, str, dt.datetime, dt.date, list[float | None], Place, list[Place], Unit]
)
def test_orders_are_canonical(type: Any) -> None:
    canonically = canonical(schema_of(type))

    @given(values(type), values(type))
    def judge(one: Any, other: Any) -> None:
        assert (order_of(one) < order_of(other)) == (canonically(one) < canonically(other))
        assert (order_of(one) == order_of(other)) == (canonically(one) == canonically(other))

    judge()


class Pair(NamedTuple):
    x: float


@dataclasses.dataclass(frozen=True)
class Single:
    x: float


def test_records_of_all_kinds() -> None:
    for cls in (Pair, Single):
        assert evaluate(count_distinct(), [cls(0.0), cls(-0.0), cls(1.0)]) == 2
        assert order_of(cls(-0.0)) < order_of(cls(0.0))


def test_order_tells_apart_what_is_not_identical() -> None:
    assert order_of(-0.0) < order_of(0.0)
    assert order_of(None) < order_of(0)
    assert order_of([None]) < order_of([0])
    assert place_of(-0.0) == place_of(0.0) < place_of(1e-300) < place_of(math.inf) < place_of(math.nan)
    assert place_of((1, -0.0)) == place_of((1, 0.0))
    with pytest.raises(ValueError, match="no place"):
        place_of(None)


def test_hashes_are_those_of_another_process() -> None:
    things = ["é", b"a", 3, 1.5, (1, "日"), None, True]
    code = (
        "from tracetypes.stdlib.orders import hash_of, likeness_of\n"
        f"print([hash_of(likeness_of(thing)) for thing in {things!r}])"
    )
    other = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert other.stdout.strip() == repr([hash_of(likeness_of(thing)) for thing in things])
