"""The exact sum is a commutative monoid, bit for bit, and rounds once; so are extremes of optional values."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import permutations
from typing import Any

import attrs
import pytest
from hypothesis import find, given
from hypothesis import strategies as st

from tests.strategies import FLOATS, bits
from tracetypes import ExactSum
from tracetypes.algebra import greatest, larger, least, smaller

FINITE = FLOATS.filter(math.isfinite)
SUMS = st.lists(FLOATS, max_size=4).map(lambda values: total(values))


def total(values: Sequence[float]) -> ExactSum:
    """The sum from left to right."""
    made = ExactSum()
    for value in values:
        made = made + ExactSum.of(value)
    return made


@given(SUMS, SUMS, SUMS)
def test_it_is_a_commutative_monoid(a: ExactSum, b: ExactSum, c: ExactSum) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + ExactSum() == a
    assert ExactSum() + a == a


@given(st.lists(FLOATS, max_size=8), st.data())
def test_any_order_and_any_grouping_give_the_same_bits(values: list[float], data: st.DataObject) -> None:
    turned = data.draw(st.permutations(values))
    cut = data.draw(st.integers(0, len(values)))
    other = total(turned[:cut]) + total(turned[cut:])
    assert total(values) == other
    assert bits(total(values).value()) == bits(other.value())


@given(st.lists(FINITE, max_size=8))
def test_it_is_the_true_sum(values: list[float]) -> None:
    made = total(values)
    true = sum(map(Fraction, values), Fraction(0))
    assert Fraction(made.numerator, 1 << made.shift) == true
    try:
        rounded = true.numerator / true.denominator
    except OverflowError:
        rounded = math.inf if true > 0 else -math.inf
    assert made.value() == rounded


@given(st.lists(st.floats(-1e300, 1e300), max_size=8))
def test_it_is_what_fsum_gives(values: list[float]) -> None:
    assert total(values).value() == math.fsum(values)


@given(FLOATS)
def test_the_sum_of_one_is_itself(value: float) -> None:
    made = ExactSum.of(value).value()
    assert made == value or math.isnan(made) == math.isnan(value) is True


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], 0.0),
        ([-0.0], 0.0),
        ([-0.0, -0.0], 0.0),
        ([1e16, 1.0, -1e16, 1.0], 2.0),
        ([0.1] * 10, 1.0),
        ([1.7976931348623157e308] * 2, math.inf),
        ([-1.7976931348623157e308] * 2, -math.inf),
        ([1.7976931348623157e308, 1.7976931348623157e308, -1.7976931348623157e308], 1.7976931348623157e308),
        ([5e-324, 5e-324], 1e-323),
        ([5e-324, 1.0, -1.0], 5e-324),
        ([1.0, 2.0**-53, 5e-324], 1.0 + 2.0**-52),  # just above half: up
        ([1.0, 2.0**-53], 1.0),  # half: to even
        ([math.inf, 1.0], math.inf),
        ([math.inf, math.inf], math.inf),
        ([-math.inf, 1e308], -math.inf),
    ],
)
def test_by_hand(values: list[float], expected: float) -> None:
    for turned in list(permutations(values))[:24] if len(values) < 5 else [values]:
        assert bits(total(turned).value()) == bits(expected)


@pytest.mark.parametrize(
    "values", [[math.nan], [math.nan, math.inf], [math.inf, -math.inf], [math.inf, -math.inf, 1.0]]
)
def test_not_a_number(values: list[float]) -> None:
    assert math.isnan(total(values).value())
    assert total(values) == total(values[::-1])


def test_integers_are_taken_too() -> None:
    assert ExactSum.of(3) == ExactSum.of(3.0)


def test_its_size_is_bounded() -> None:
    made = total([1.7976931348623157e308, 5e-324] * 100)
    assert made.numerator.bit_length() < 2_200


def test_it_is_frozen_and_can_be_a_key() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        ExactSum().shift = 1  # type: ignore[misc]
    assert hash(total([0.5, 0.5])) == hash(ExactSum.of(1.0))


# ------------------------------------------------------------------------- do these tests find what is broken?


def test_plain_addition_is_no_monoid() -> None:
    triples = st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
    assert find(triples, lambda t: (t[0] + t[1]) + t[2] != t[0] + (t[1] + t[2]))


def test_a_sum_that_is_not_reduced_is_found() -> None:
    """Equal sums must be equal values: without a normal form 0.5 + 0.5 is not 1.0."""

    def raw(a: ExactSum, b: ExactSum) -> ExactSum:
        shift = max(a.shift, b.shift)
        return ExactSum((a.numerator << (shift - a.shift)) + (b.numerator << (shift - b.shift)), shift)

    half = ExactSum.of(0.5)
    assert raw(half, half) != ExactSum.of(1.0)
    assert half + half == ExactSum.of(1.0)


# ------------------------------------------------------------------------------------------ squares and means


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_square_is_exact_and_in_normal_form(value: float) -> None:
    made = ExactSum.of_square(value)
    assert Fraction(made.numerator, 1 << made.shift) == Fraction(value) ** 2
    assert made == made + ExactSum()


def test_squares_of_what_is_not_finite() -> None:
    assert ExactSum.of_square(math.inf) == ExactSum.of_square(-math.inf) == ExactSum.of(math.inf)
    assert ExactSum.of_square(math.nan) == ExactSum.of(math.nan)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_a_mean_is_rounded_once(values: list[float]) -> None:
    assert bits(total(values).over(len(values))) == bits(float(sum(map(Fraction, values)) / len(values)))


@pytest.mark.parametrize(
    ("values", "count", "expected"),
    [
        ([1.7976931348623157e308] * 2, 2, 1.7976931348623157e308),
        ([1.7976931348623157e308] * 2, 1, math.inf),
        ([-1.7976931348623157e308] * 2, 1, -math.inf),
        ([math.inf, 1.0], 2, math.inf),
        ([-math.inf], 3, -math.inf),
        ([-0.0, -0.0], 2, 0.0),
    ],
)
def test_means_by_hand(values: list[float], count: int, expected: float) -> None:
    assert bits(total(values).over(count)) == bits(expected)
    assert math.isnan(ExactSum.of(math.nan).over(2))


OPTIONAL = st.none() | FLOATS.map(lambda x: x + 0.0)


@pytest.mark.parametrize(("extreme", "of_two"), [(least, smaller), (greatest, larger)])
@given(a=OPTIONAL, b=OPTIONAL, c=OPTIONAL)
def test_an_extreme_is_a_commutative_monoid(
    extreme: Callable[..., Any], of_two: Callable[..., Any], a: float | None, b: float | None, c: float | None
) -> None:
    assert shown(extreme(a, b)) == shown(extreme(b, a))
    assert shown(extreme(extreme(a, b), c)) == shown(extreme(a, extreme(b, c)))
    assert shown(extreme(a, None)) == shown(a)
    if a is not None and b is not None:
        assert shown(extreme(a, b)) == shown(of_two(a, b))


def shown(value: float | None) -> Any:
    return value if value is None or value == value else "nan"
