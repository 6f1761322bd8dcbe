"""Answers of Python and of columns are compared type by type and bit by bit, one by one or many at once."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from typing import Any, NamedTuple

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.runtime.answers import alike, all_alike, outcome


@attrs.frozen
class Point:
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class Size:
    width: Any


class Pair(NamedTuple):
    left: Any
    right: Any


ZONES = (None, dt.UTC)
LEAVES = st.sampled_from(
    [0, 1, True, False, 0.0, -0.0, 1.0, math.nan, "", "1", b"1", None, *(dt.datetime(2020, 1, 1, tzinfo=z) for z in ZONES)]
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.tuples(inner, inner),
        st.builds(Point, inner, inner),
        st.builds(Size, inner),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=4,
)


def of_one_shape(value: Any, others: list[Any]) -> Any:
    """A value of the shape of another, with other leaves."""
    match value:
        case Pair(left, right):
            return Pair(of_one_shape(left, others), of_one_shape(right, others))
        case Point(x, y):
            return Point(of_one_shape(x, others), of_one_shape(y, others))
        case Size(width):
            return Size(of_one_shape(width, others))
        case list() | tuple():
            return type(value)(of_one_shape(part, others) for part in value)
        case _:
            return others.pop() if others else value


@given(VALUES, st.lists(st.lists(LEAVES, max_size=3), max_size=4), st.lists(st.lists(LEAVES, max_size=2), max_size=4))
def test_many_at_once_are_alike_if_each_is(first: Any, some: list[list[Any]], changes: list[list[Any]]) -> None:
    a = [of_one_shape(first, list(one)) for one in some]
    b = [of_one_shape(one, list(change)) for one, change in zip(a, [*changes, *[[]] * len(a)], strict=False)]
    assert all_alike(a, b) == all(map(alike, a, b))
    assert all_alike(a, a)
    assert not a or not all_alike(a, a[1:])


@given(st.lists(VALUES, max_size=4), st.lists(VALUES, max_size=4))
def test_any_two_lists(a: list[Any], b: list[Any]) -> None:
    assert all_alike(a, b) == (len(a) == len(b) and all(map(alike, a, b)))
    assert all_alike(a, b) == alike(a, b)


@pytest.mark.parametrize("other", [1.0, True, "1", b"1", None, [1], (1,), Point(1, 2)], ids=repr)
def test_another_type_is_found_among_many(other: Any) -> None:
    assert not all_alike([(1, 2), (1, 2)], [(1, 2), (other, 2)])
    assert not all_alike([[Point(1, 2)], []], [[Point(other, 2)], []])


def test_the_order_of_emissions_counts() -> None:
    assert not all_alike([[1], [2, 3]], [[1, 2], [3]])
    assert not all_alike([[1, 2]], [[2, 1]])


def test_zeros_differ_and_numbers_that_are_none_do_not() -> None:
    assert not all_alike([(0.0, 1)], [(-0.0, 1)])
    assert all_alike([(math.nan, 1)], [(-math.nan, 1)])


def test_sums_of_floats_may_differ_in_their_last_bits() -> None:
    assert all_alike([(0.1 + 0.2, 1)], [(0.3, 1)], inexact=True)
    assert not all_alike([(0.1 + 0.2, 1)], [(0.3, 1)])


def test_what_python_raises() -> None:
    assert outcome(int, "7") == (None, 7)
    raised, answer = outcome(int, "x")
    assert raised is not None
    assert raised.startswith("raised ValueError: invalid literal")
    assert answer is None
