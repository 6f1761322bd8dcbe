"""Aggregates are lawful bit for bit, and tell what an independent recount tells."""

from __future__ import annotations

import builtins
import datetime as dt
import functools
import math
import operator
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import FLOATS, bits, some
from tracetypes import CheckFailed, Dataflow, LawBroken, OperatorFailed, U, UsageError, check, desc, every, stdlib
from tracetypes.edges import edge_type
from tracetypes.equations.equality import same
from tracetypes.stdlib import (
    Aggregate,
    aggregate,
    approx_count_distinct,
    both,
    collect,
    count,
    count_distinct,
    evaluate,
    fast_sum,
    first,
    last,
    max,
    mean,
    min,
    preview,
    quantile,
    quantiles,
    running,
    struct,
    sum,
    top,
    types_of,
    variance,
)
from tracetypes.stdlib.extremes import Min
from tracetypes.stdlib.per_block import AggregatePerBlock, Running
from tracetypes.testing import check_deployments, check_laws, law_tests, values

Agg = Aggregate[Any, Any, Any]
ts: Any = stdlib


@attrs.frozen
class Reading:
    watts: float
    ts: int
    room: str | None


@attrs.frozen
class Stats:
    n: int
    mean: float
    last: Reading


@attrs.frozen
class Extent:
    low: float
    total: float
    n: int


def watts(reading: Reading) -> float:
    return reading.watts


def divided(total: float, n: int) -> float:
    return total / n


OF_INTEGERS: dict[str, Agg] = {
    "count": count(),
    "sum": sum(to=int),
    "min": min(to=int),
    "max": max(to=int),
    "mean": mean(),
    "variance": variance(),
    "last": last(by=lambda n: n % 3),
    "top": top(2, by=lambda n: n % 3),
    "count_distinct": count_distinct(),
    "approx_count_distinct": approx_count_distinct(precision=6),
    "quantile": quantile(0.5),
    "count where": count(where=lambda n: n > 2),
    "first": first(by=lambda n: n % 3),
    "first, ties": first(by=lambda n: n % 3, ties=True),
    "last, ties": last(by=lambda n: n % 3, ties=True),
    "top, ties": top(2, by=lambda n: n % 3, ties=True, ranks=True),
    "collect by": collect(str, by=lambda n: n % 3),
    "sum where": sum(to=int, where=lambda n: n > 2),
    "min where": min(to=int, where=lambda n: n > 2),
    "mean where": mean(where=lambda n: n > 2),
    "stddev": ts.stddev(),
    "covariance": ts.covariance(lambda n: n, lambda n: n % 3, population=True),
    "correlation": ts.correlation(lambda n: n, lambda n: n % 3),
    "regression": ts.regression(lambda n: n, lambda n: n % 3),
    "bit_and": ts.bit_and(),
    "bit_or": ts.bit_or(lambda n: n % 8),
    "bit_xor": ts.bit_xor(where=lambda n: n > 2),
    "median": ts.median(),
    "mode": ts.mode(lambda n: n % 3, to=int),
    "collect_set": ts.collect_set(lambda n: n % 3, to=int),
    "histogram": ts.histogram(lambda n: n % 3, to=int),
    "top_distinct": ts.top_distinct(2, lambda n: n % 4, to=int),
}
OF_FLOATS: dict[str, Agg] = {
    "sum": sum(to=float),
    "min": min(to=float),
    "max": max(to=float),
    "mean": mean(),
    "variance": variance(),
    "variance of a population": variance(population=True),
    "last": last(by=abs),
    "last by itself": last(by=lambda x: x),
    "last by desc": last(by=lambda x: (desc(x), x)),
    "first, ties": first(by=abs, ties=True),
    "collect": collect(),
    "top, ranks": top(2, by=abs, ranks=True),
    "top": top(2, by=abs),
    "count_distinct": count_distinct(),
    "approx_count_distinct": approx_count_distinct(precision=6),
    "quantile": quantile(0.5, accuracy=0.1),
    "quantiles": quantiles([0, 0.25, 1], accuracy=0.1),
    "both": both(min(to=float), max(to=float), lambda low, high: [low, high], to=list[float]),
    "stddev": ts.stddev(population=True),
    "exact_quantiles": ts.exact_quantiles([0, 0.3, 1]),
    "mode": ts.mode(),
    "collect_set": ts.collect_set(),
    "histogram": ts.histogram(),
    "top_distinct": ts.top_distinct(2),
}
OF_RECORDS: dict[str, Agg] = {
    "count": count(),
    "sum of a field": sum(of=lambda r: r.watts, to=float),
    "sum by annotation": sum(watts),
    "min of a text": min(of=lambda r: r.room or "", to=str),
    "last": last(by=lambda r: r.ts),
    "last by two": last(by=lambda r: (r.ts, r.watts)),
    "top": top(3, by=watts),
    "collect where": collect(watts, where=lambda r: r.room is None),
    "collect": collect(by=lambda r: r.room is None),
    "window_ranks": ts.window_ranks(lambda r: r.ts, tiles=3),
    "last where": last(by=lambda r: r.ts, where=lambda r: r.room is None),
    "top where": top(2, by=watts, where=lambda r: r.room is None),
    "variance where": variance(watts, where=lambda r: r.room is None),
    "quantile where": quantile(0.5, watts, where=lambda r: r.room is None),
    "count_distinct where": count_distinct(of=lambda r: r.room, where=lambda r: r.watts > 0),
    "count_distinct": count_distinct(),
    "count_distinct of a field": count_distinct(of=lambda r: r.room),
    "approx_count_distinct": approx_count_distinct(precision=6),
    "struct": struct(Stats, n=count(), mean=mean(watts), last=last(by=lambda r: r.ts)),
    "covariance": ts.covariance(watts, lambda r: r.ts),
    "correlation": ts.correlation(watts, lambda r: r.ts, where=lambda r: r.room is None),
    "regression": ts.regression(watts, lambda r: r.ts),
    "median where": ts.median(watts, where=lambda r: r.room is None),
    "mode": ts.mode(),
    "collect_set where": ts.collect_set(where=lambda r: r.room is None),
    "histogram of a field": ts.histogram(lambda r: r.room, to=str | None),
    "top_distinct": ts.top_distinct(2),
}

test_laws_of_integers = law_tests(*map(AggregatePerBlock, OF_INTEGERS.values()), types=(str, int), max_examples=some(15))
test_laws_of_floats = law_tests(*map(AggregatePerBlock, OF_FLOATS.values()), types=(str, float), max_examples=some(15))
test_laws_of_records = law_tests(*map(AggregatePerBlock, OF_RECORDS.values()), types=(str, Reading), max_examples=some(15))
test_laws_of_histories = law_tests(
    Running(count()), Running(sum(watts)), Running(OF_RECORDS["struct"]), types=(str, Reading), max_examples=some(15)
)
test_laws_of_texts = law_tests(
    AggregatePerBlock(min(to=str)), AggregatePerBlock(count_distinct()), types=(int, str), max_examples=some(15)
)
test_laws_of_times = law_tests(AggregatePerBlock(min(to=dt.datetime)), types=(int, dt.datetime), max_examples=some(15))
test_laws_of_lists = law_tests(
    AggregatePerBlock(count_distinct()), AggregatePerBlock(last(by=len)), types=(int, list[float | None]), max_examples=some(15)
)


READINGS = st.lists(values(Reading), max_size=6)
FOLDED = [
    *((one, st.lists(st.integers(-9, 9), max_size=6)) for one in OF_INTEGERS.values()),
    *((one, st.lists(FLOATS, max_size=6)) for one in (*OF_FLOATS.values(), fast_sum())),
    *((one, READINGS) for one in (*OF_RECORDS.values(), fast_sum(watts), both(fast_sum(watts), count(), divided))),
]


@pytest.mark.parametrize(("aggregate", "lists"), FOLDED, ids=lambda one: type(one).__name__)
@given(data=st.data())
def test_many_values_at_once_are_one_after_the_other(aggregate: Agg, lists: Any, data: st.DataObject) -> None:
    agg = folded = aggregate.identity()
    parts = data.draw(lists), data.draw(lists)
    for part in parts:
        folded = aggregate.fold(folded, part)
        for value in part:
            agg = aggregate.combine(agg, aggregate.lift(value))
    assert same(folded, agg)
    if any(parts):
        assert repr(aggregate.result(folded)) == repr(aggregate.result(agg)), "-0.0 is not 0.0"


def test_a_fast_sum_breaks_the_law_that_it_gives_up() -> None:
    with pytest.raises(LawBroken) as caught:
        check_laws(AggregatePerBlock(fast_sum()), types=(str, float))
    assert caught.value.code == "TT302"


@attrs.frozen
class CarelessMin(Min[float, float]):
    """Keeps -0.0: the order shows."""

    def lift(self, value: float) -> float | None:
        return value


@pytest.mark.nightly
def test_a_minimum_that_keeps_negative_zeros_is_found() -> None:
    with pytest.raises(LawBroken) as caught:
        check_laws(
            AggregatePerBlock(CarelessMin(None, float)),
            items=st.tuples(st.just("a"), st.sampled_from([0.0, -0.0])),
            types=(str, float),
        )
    assert caught.value.code == "TT306"


# ------------------------------------------------------------------------------------------- any order, any cuts


def folded(agg: Agg, parts: Sequence[Sequence[Any]]) -> Any:
    """Partial aggregates first, then their combination."""
    whole = agg.identity()
    for part in parts:
        some = agg.identity()
        for value in part:
            some = agg.combine(agg.lift(value), some)
        whole = agg.combine(some, whole)
    return whole


CASES = [
    *((name, agg, st.integers(-50, 50)) for name, agg in OF_INTEGERS.items()),
    *((name, agg, FLOATS) for name, agg in OF_FLOATS.items()),
    *((name, agg, values(Reading)) for name, agg in OF_RECORDS.items()),
]


@pytest.mark.parametrize(("agg", "drawn"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_any_order_and_any_grouping_give_the_same(agg: Agg, drawn: st.SearchStrategy[Any]) -> None:
    @given(st.lists(drawn, min_size=1, max_size=60), st.data())
    def judge(items: list[Any], data: st.DataObject) -> None:
        turned = data.draw(st.permutations(items))
        cut = data.draw(st.integers(0, len(items)))
        one, other = folded(agg, [items]), folded(agg, [turned[:cut], turned[cut:]])
        assert same(one, other)
        assert repr(agg.result(one)) == repr(agg.result(other))

    judge()


# ------------------------------------------------------------------------------------------------- recounts


def told(agg: Agg, items: Sequence[Any]) -> Any:
    """As :func:`evaluate` does, without types."""
    return evaluate(agg, items)


FINITE = st.floats(allow_nan=False, allow_infinity=False)
SOME = st.lists(FINITE, min_size=1, max_size=20)
WHOLE = st.lists(st.integers(-(2**60), 2**60), min_size=1, max_size=20)


def exactly(number: Fraction) -> float:
    """The nearest float; infinity beyond the largest one."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


@given(WHOLE)
def test_of_integers(items: list[int]) -> None:
    assert told(count(), items) == len(items)
    assert told(sum(to=int), items) == builtins.sum(items)
    assert told(min(to=int), items) == sorted(items)[0]
    assert told(max(to=int), items) == sorted(items)[-1]
    assert told(count_distinct(), items) == len(set(items))
    assert told(last(by=lambda n: n % 5), items) == sorted(items, key=lambda n: (n % 5, n))[-1]
    assert told(first(by=lambda n: n % 5), items) == sorted(items, key=lambda n: (n % 5, n))[0]
    least = builtins.min(n % 5 for n in items)
    assert told(first(by=lambda n: n % 5, ties=True), items) == sorted((n for n in items if n % 5 == least), reverse=True)
    assert told(collect(), items) == sorted(items)
    assert told(collect(str, by=lambda n: n % 5), items) == [str(n) for n in sorted(items, key=lambda n: (n % 5, str(n)))]
    assert told(top(3, by=lambda n: n % 5), items) == sorted(items, key=lambda n: (n % 5, n))[::-1][:3]


@given(SOME)
def test_sums_and_means_are_rounded_once(items: list[float]) -> None:
    total = builtins.sum(map(Fraction, items), Fraction())
    assert bits(told(sum(to=float), items)) == bits(exactly(total))
    assert bits(told(mean(), items)) == bits(exactly(total / len(items)))


@given(st.lists(FINITE, min_size=2, max_size=20))
def test_variances_are_those_of_statistics(items: list[float]) -> None:
    exact = [Fraction(item) for item in items]
    assert bits(told(variance(), items)) == bits(exactly(statistics.variance(exact)))
    assert bits(told(variance(population=True), items)) == bits(exactly(statistics.pvariance(exact)))


def test_variances_by_hand() -> None:
    assert told(variance(), [1e15, 1e15 + 1, 1e15 + 2]) == 1.0
    assert math.isnan(told(variance(), [1.0]))
    assert told(variance(population=True), [1.0]) == 0.0
    assert math.isnan(told(variance(), [1.0, math.inf]))
    assert math.isnan(told(variance(), [1.0, math.nan]))
    assert told(variance(), [1e308, -1e308]) == math.inf


PAIRS = st.lists(st.tuples(FINITE, FINITE), min_size=2, max_size=20)


def x_of(pair: tuple[float, float]) -> float:
    return pair[0]


def y_of(pair: tuple[float, float]) -> float:
    return pair[1]


def root(square: Fraction) -> float:
    """The nearest float to the square root."""
    digits = Context(prec=2000, Emax=999_999, Emin=-999_999)
    return exactly(Fraction(digits.sqrt(digits.divide(Decimal(square.numerator), Decimal(square.denominator)))))


@given(PAIRS)
def test_statistics_of_pairs_are_rounded_once(pairs: list[tuple[float, float]]) -> None:
    xs, ys = ([Fraction(pair[at]) for pair in pairs] for at in (0, 1))
    n, x, y = len(pairs), builtins.sum(xs, Fraction()) / len(pairs), builtins.sum(ys, Fraction()) / len(pairs)
    xx = builtins.sum(((one - x) * (one - x) for one in xs), Fraction())
    yy = builtins.sum(((one - y) * (one - y) for one in ys), Fraction())
    xy = builtins.sum(((one - x) * (other - y) for one, other in zip(xs, ys, strict=True)), Fraction())
    assert bits(told(ts.covariance(x_of, y_of), pairs)) == bits(exactly(Fraction(xy, n - 1)))
    assert bits(told(ts.covariance(x_of, y_of, population=True), pairs)) == bits(exactly(Fraction(xy, n)))
    assert bits(told(ts.stddev(), [pair[0] for pair in pairs])) == bits(root(Fraction(xx, n - 1)))
    line = told(ts.regression(x_of, y_of), pairs)
    if xx:
        assert bits(line.slope) == bits(exactly(Fraction(xy, xx)))
        assert bits(line.intercept) == bits(exactly(y - x * Fraction(xy, xx)))
    if xx and yy:
        correlation = told(ts.correlation(x_of, y_of), pairs)
        assert abs(correlation) <= 1.0
        assert bits(correlation) == bits(root(Fraction(xy * xy, xx * yy)) * (1 if xy >= 0 else -1) + 0.0)


def test_statistics_of_pairs_by_hand() -> None:
    pairs = [(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]
    assert told(ts.regression(x_of, y_of), pairs) == stdlib.Line(2.0, 1.0)
    assert told(ts.correlation(x_of, y_of), pairs) == 1.0
    for alone in (ts.correlation(x_of, y_of), ts.covariance(x_of, y_of)):
        assert math.isnan(told(alone, [(1.0, 2.0)]))
        assert math.isnan(told(alone, [(1.0, 2.0), (math.inf, 2.0)]))
        assert math.isnan(told(alone, [(1.0, 2.0), (3.0, math.nan)]))
    assert math.isnan(told(ts.regression(x_of, y_of), [(1.0, 2.0), (1.0, 3.0)]).slope)
    assert math.isnan(told(ts.stddev(), [1.0]))
    assert told(ts.stddev(population=True), [1.0]) == 0.0
    assert told(ts.stddev(), [5e-324, -5e-324]) == pytest.approx(1e-323)


@given(SOME, st.floats(0, 1))
def test_exact_quantiles_are_those_of_statistics(items: list[float], q: float) -> None:
    ordered, place = sorted(items), q * (len(items) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    found = told(ts.exact_quantile(q), items)
    assert low <= found <= high
    assert told(ts.exact_quantiles([0, q, 1]), items) == [ordered[0], found, ordered[-1]]
    assert told(ts.median(), items) == pytest.approx(statistics.median([Fraction(item) for item in items]))
    assert math.isnan(told(ts.median(), [*items, math.nan]))


@given(WHOLE)
def test_of_bits_and_different_values(items: list[int]) -> None:
    assert told(ts.bit_and(), items) == functools.reduce(operator.and_, items)
    assert told(ts.bit_or(), items) == functools.reduce(operator.or_, items)
    assert told(ts.bit_xor(), items) == functools.reduce(operator.xor, items)
    thirds = [item % 3 for item in items]
    counts = Counter(thirds)
    assert told(ts.collect_set(), thirds) == sorted(counts)
    assert [(one.value, one.count) for one in told(ts.histogram(), thirds)] == sorted(counts.items())
    assert told(ts.mode(), thirds) == builtins.min(counts, key=lambda one: (-counts[one], one))
    assert told(ts.top_distinct(2), thirds) == sorted(counts, reverse=True)[:2]


def test_zeros_and_nans_are_one_value() -> None:
    for items in ([0.0, -0.0, math.nan, -math.nan], [-0.0, math.nan, 0.0, math.nan]):
        assert repr(told(ts.collect_set(), items)) == "[0.0, nan]"
        assert repr(told(ts.top_distinct(1), items)) == "[nan]"
        assert [one.count for one in told(ts.histogram(), items)] == [2, 2]


@given(SOME)
def test_extremes_of_floats(items: list[float]) -> None:
    assert told(min(to=float), items) == sorted(items)[0]
    assert told(max(to=float), items) == sorted(items)[-1]
    assert math.isnan(told(min(to=float), [*items, math.nan]))
    assert math.isnan(told(max(to=float), [math.nan, *items]))


def test_negative_zeros_do_not_show() -> None:
    for agg in (min(to=float), max(to=float), sum(to=float)):
        assert bits(told(agg, [-0.0])) == bits(0.0)
        assert bits(told(agg, [-0.0, 0.0])) == bits(told(agg, [0.0, -0.0]))


@given(st.lists(values(Reading), min_size=1, max_size=10))
def test_of_records(items: list[Reading]) -> None:
    newest = [r for r in items if r.ts == sorted(r.ts for r in items)[-1]]
    assert repr(told(last(by=lambda r: r.ts), items)) in map(repr, newest)
    assert told(count_distinct(of=lambda r: r.room), items) == len(Counter(r.room for r in items))
    assert told(min(of=lambda r: r.room or "", to=str), items) == sorted(r.room or "" for r in items)[0]


def test_ties_are_broken_by_the_whole_value() -> None:
    one, other = Reading(1.0, 5, None), Reading(1.0, 5, "a")
    assert told(last(by=lambda r: r.ts), [one, other]) == told(last(by=lambda r: r.ts), [other, one]) == other
    zero, negative = Reading(0.0, 5, None), Reading(-0.0, 5, None)
    for items in ([zero, negative], [negative, zero]):
        assert bits(told(last(by=lambda r: r.ts), items).watts) == bits(0.0)


def test_a_top_keeps_equal_values() -> None:
    assert told(top(3, by=lambda n: n), [2, 2, 1, 1]) == [2, 2, 1]


NONE: dict[str, tuple[Agg, Any]] = {
    "count": (count(where=bool), 0),
    "sum": (sum(to=int, where=bool), 0),
    "sum of floats": (sum(to=float, where=bool), 0.0),
    "fast_sum": (fast_sum(where=bool), 0.0),
    "mean": (mean(where=bool), None),
    "variance": (variance(where=bool), None),
    "min": (min(to=int, where=bool), None),
    "max": (max(to=int, where=bool), None),
    "last": (last(by=lambda n: n, where=bool), None),
    "top": (top(2, by=lambda n: n, where=bool), []),
    "first": (first(by=lambda n: n, where=bool), None),
    "ties": (first(by=lambda n: n, ties=True, where=bool), []),
    "collect": (collect(where=bool), []),
    "window_ranks": (ts.window_ranks(int, where=bool), []),
    "count_distinct": (count_distinct(where=bool), 0),
    "approx_count_distinct": (approx_count_distinct(where=bool), 0),
    "quantile": (quantile(0.5, where=bool), None),
    "quantiles": (quantiles([0.5], where=bool), None),
    "stddev": (ts.stddev(where=bool), None),
    "covariance": (ts.covariance(int, int, where=bool), None),
    "correlation": (ts.correlation(int, int, where=bool), None),
    "regression": (ts.regression(int, int, where=bool), None),
    "bit_and": (ts.bit_and(where=bool), None),
    "median": (ts.median(where=bool), None),
    "mode": (ts.mode(where=bool), None),
    "collect_set": (ts.collect_set(where=bool), []),
    "histogram": (ts.histogram(where=bool), []),
    "top_distinct": (ts.top_distinct(2, where=bool), []),
}
"""What each gives where nothing counts."""


@pytest.mark.parametrize(("agg", "nothing"), NONE.values(), ids=NONE)
def test_where_nothing_counts(agg: Agg, nothing: Any) -> None:
    assert told(agg, [0, 0]) == nothing
    assert agg.result(agg.fold(agg.identity(), [0, 0])) == nothing
    assert repr(told(agg, [0, 7])) == repr(told(agg, [7])) != repr(nothing)


# ------------------------------------------------------------------------------------------------- products


def test_products() -> None:
    readings = [Reading(2.0, 1, None), Reading(4.0, 2, "a")]
    stats = struct(Stats, n=count(), mean=mean(watts), last=last(by=lambda r: r.ts))
    assert told(stats, readings) == Stats(2, 3.0, readings[1])
    low = both(
        min(to=float),
        both(sum(to=float), count(), lambda t, n: [t, n], to=list[float]),
        lambda a, b: [a, *b],
        to=list[float],
    )
    assert told(low, [3.0, 1.0]) == [1.0, 4.0, 2.0]


def test_the_types_of_a_product() -> None:
    assert types_of(both(mean(), sum(to=int), Stats)) == (int, Stats)  # type: ignore[arg-type]
    assert types_of(struct(Extent, low=min(to=float), total=sum(to=float), n=count())) == (float, Extent)


@pytest.mark.parametrize(
    ("make", "code", "text"),
    [  # mypy refuses most of these as well
        (lambda: ts.struct(Extent, low=ts.min(to=float), n=ts.count()), "TT121", "which has low, total, n"),
        (
            lambda: ts.struct(Extent, low=ts.min(to=str), total=ts.sum(to=float), n=ts.count()),
            "TT121",
            "Extent.low cannot hold str",
        ),
        (lambda: ts.struct(int, low=ts.count()), "TT121", "which has no fields"),
        (lambda: ts.struct(Extent, low=3), "TT121", "is no aggregate"),
        (
            lambda: ts.both(ts.sum(to=int), ts.sum(to=float), lambda a, b: a + b, to=float),
            "TT120",
            "of int and of float",
        ),
        (lambda: ts.both(ts.count(), ts.count(), lambda a, b: a**b), "TT120", "does not know what"),
        (lambda: ts.both(ts.count(), 3, Stats), "TT121", "is no aggregate"),
        (lambda: ts.sum(), "TT120", "sum does not know the type"),
        (lambda: ts.sum(to=str), "TT121", "sum was given values of str"),
        (lambda: ts.sum(of=lambda r: {r}), "TT120", "does not know what"),
        (lambda: ts.sum(of=3, to=int), "TT121", "is no function"),
        (lambda: ts.min(), "TT120", "min does not know"),
        (lambda: ts.min(to=Reading), "TT121", "no total order"),
        (lambda: ts.max(to=complex), "TT121", "has no schema"),
        (lambda: ts.max(to=int | None), "TT121", "no total order"),
        (lambda: ts.mean(3), "TT121", "is no function"),
        (lambda: ts.top(0, by=len), "TT121", "k=0"),
        (lambda: ts.top(True, by=len), "TT121", "k=True"),
        (lambda: ts.top(1, by=len, ties=1), "TT121", "top was given ties=1"),
        (lambda: ts.top(1, by=len, ranks=None), "TT121", "top was given ranks=None"),
        (lambda: ts.last(by=len, ties="all"), "TT121", "last was given ties='all'"),
        (lambda: ts.first(by=3), "TT121", "is no function"),
        (lambda: ts.collect(lambda n: {n}), "TT120", "collect does not know what"),
        (lambda: ts.collect(by=3), "TT121", "is no function"),
        (lambda: ts.last(by=3), "TT121", "is no function"),
        (lambda: ts.count(where=True), "TT121", "count was given where=True"),
        (lambda: ts.mean(where="n > 3"), "TT121", "mean was given where='n > 3'"),
        (
            lambda: ts.struct(
                Extent, low=ts.min(to=float, where=bool), total=ts.sum(to=float), n=ts.count()
            ),
            "TT121",
            "Extent.low cannot hold float | None",
        ),
        (lambda: ts.quantile(1.5), "TT121", "q=1.5"),
        (lambda: ts.quantile(math.nan), "TT121", "q=nan"),
        (lambda: ts.quantiles([0.5], accuracy=0.0), "TT121", "accuracy=0.0"),
        (lambda: ts.approx_count_distinct(precision=3), "TT121", "precision=3"),
        (lambda: ts.stddev(3), "TT121", "is no function"),
        (lambda: ts.covariance(len, 3), "TT121", "covariance was given y=3"),
        (lambda: ts.correlation("x", len), "TT121", "correlation was given x='x'"),
        (lambda: ts.regression(len, None), "TT121", "regression was given y=None"),
        (lambda: ts.bit_or(1), "TT121", "is no function"),
        (lambda: ts.exact_quantile(2), "TT121", "exact_quantile was given q=2"),
        (lambda: ts.exact_quantiles([0.5, -1]), "TT121", "exact_quantiles was given q=-1"),
        (lambda: ts.median("x"), "TT121", "is no function"),
        (lambda: ts.mode(lambda n: {n}), "TT120", "mode does not know what"),
        (lambda: ts.histogram(3), "TT121", "is no function"),
        (lambda: ts.top_distinct(0), "TT121", "k=0"),
        (lambda: ts.window_ranks(3), "TT121", "by=3"),
        (lambda: ts.window_ranks(len, tiles=0), "TT121", "tiles is 0"),
        (lambda: ts.aggregate(ts.max), "TT121", "is no aggregate"),
        (lambda: ts.running(int), "TT121", "is no aggregate"),
    ],
)
def test_what_cannot_be_meant(make: Callable[[], Any], code: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        ts.types_of(make())  # the type of a value may have to come from a stream
    assert caught.value.code == code
    assert text in caught.value.message
    assert caught.value.fix


def test_a_time_that_is_missing_is_an_error_of_the_operator() -> None:
    with pytest.raises(OperatorFailed, match="by gave None"):
        preview(aggregate(last(by=lambda n: None)), U[str, int], [("a", 1)])  # type: ignore[arg-type,return-value]


# ------------------------------------------------------------------------------------------------- operators


def test_summarise_and_running() -> None:
    blocks = [[("a", 1), ("b", 5), ("a", 3)], [], [("a", 2)]]
    assert preview(aggregate(max(to=int)), U[str, int], *blocks) == [[("a", 3), ("b", 5)], [], [("a", 2)]]
    assert preview(running(max(to=int)), U[str, int], *blocks) == [[("a", 3), ("b", 5)], [], [("a", 3)]]
    assert preview(running(count()), U[str, int], *blocks) == [[("a", 2), ("b", 1)], [], [("a", 3)]]


def readings_of(flow: Dataflow) -> Any:
    return flow.source("readings", U[str, Reading], markers=every(seconds=10, time=lambda r: r.ts))


@pytest.mark.parametrize(
    ("agg", "gives"),
    [
        (count(), int),
        (sum(watts), float),
        (mean(watts), float),
        (last(by=lambda r: r.ts), Reading),
        (top(2, by=watts), list[Reading]),
        (quantiles([0.5], watts), list[float]),
        (count_distinct(), int),
        (min(of=lambda r: r.ts, to=int), int),
        (struct(Stats, n=count(), mean=mean(watts), last=last(by=watts)), Stats),
    ],
    ids=lambda given: getattr(given, "__name__", type(given).__name__),
)
def test_the_checker_knows_the_types(agg: Agg, gives: Any) -> None:
    flow = Dataflow("typed")
    flow.sink("out", readings_of(flow).through(running(agg)).through(aggregate(count())))
    assert check(flow).types[1] == edge_type(U[str, gives])


@pytest.mark.parametrize("agg", [sum(to=float), mean(), variance(), quantile(0.5), min(to=int)], ids=str)
def test_the_checker_refuses_other_values(agg: Agg) -> None:
    flow = Dataflow("refused")
    flow.sink("out", readings_of(flow).through(aggregate(agg)))
    with pytest.raises(CheckFailed) as caught:
        check(flow)
    assert {violation.code for violation in caught.value.violations} == {"TT103"}


def test_any_deployment_gives_the_same() -> None:
    flow = Dataflow("deployed")
    stats = struct(Stats, n=count(), mean=mean(watts), last=last(by=lambda r: r.ts))
    flow.sink(
        "out", readings_of(flow).through(running(stats), parallelism=2).through(aggregate(top(1, by=lambda s: s.n)))
    )
    assert check_deployments(flow, max_examples=20)
