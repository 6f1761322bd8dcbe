"""Joins against the join of the whole histories; their laws; random deployments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stdlib.small import Event, by_marker, source
from tests.strategies import some
from tracetypes import Dataflow, Marker, U, UsageError, check, every, in_band, interpret_rows
from tracetypes.stdlib.asof_joins import AsOf, AsOfJoin, asof_join
from tracetypes.stdlib.interval_joins import IntervalSemiJoin, OuterIntervalJoin, interval_join
from tracetypes.stdlib.join_kinds import result_of
from tracetypes.stdlib.joins import (
    FromLeft,
    FromRight,
    IntervalJoin,
    Joined,
    Tag,
    Times,
)
from tracetypes.testing import check_deployments, check_laws


@attrs.frozen
class Price:
    """Of a key, in milliseconds."""

    key: str
    ms: int
    cents: int


# Half seconds within 40 s: that times coincide, and that they lie on the bounds of intervals, is common.
MOMENTS = st.integers(-20, 60).map(lambda half: half * 500)
PRICES = st.lists(st.builds(Price, st.sampled_from("ab"), MOMENTS, st.integers(0, 9)), max_size=12)
ROWS = st.lists(st.builds(Event, st.sampled_from("ab"), st.integers(-10, 30), st.integers(-9, 9)), max_size=12)
SPAN = st.integers(0, 20)


def second(event: Event) -> float:
    return event.ts


def price_second(price: Price) -> float:
    return price.ms / 1000


def both(build: Callable[[Any, Any], Any], delay: float = 1000) -> Dataflow:
    """A flow of events on the left and prices on the right."""
    flow = Dataflow("both")
    left = flow.source(
        "left", U[str, Event], markers=every(seconds=5, time=lambda e: e.ts, delay=delay), key=lambda e: e.key
    )
    right = flow.source(
        "right",
        U[str, Price],
        markers=every(seconds=5, time=lambda p: p.ms, delay=delay, unit="ms"),
        key=lambda p: p.key,
    )
    flow.sink("out", build(left, right))
    return flow


def joined(build: Callable[[Any, Any], Any], left: Sequence[Event], right: Sequence[Price]) -> dict[Any, list[Any]]:
    flow = both(build)
    trace = interpret_rows(check(flow), {"left": list(left), "right": list(right)})[0]["out"]
    return by_marker(trace.items)


@given(ROWS, PRICES, SPAN, st.integers(-10, 20))
def test_the_interval_join_is_that_of_the_whole_histories(
    left: list[Event], right: list[Price], before: int, after: int
) -> None:
    after = max(after, -before)

    def build(a: Any, b: Any) -> Any:
        return interval_join(a, b, before=before, after=after, left_time=second, right_time=price_second)

    found = joined(build, left, right)
    wanted = [
        Joined(e, p)
        for e in left
        for p in right
        if e.key == p.key and (e.ts - before) * 1000 <= p.ms <= (e.ts + after) * 1000
    ]
    assert Counter(pair for pairs in found.values() for pair in pairs) == Counter(wanted)
    for (end, key), pairs in found.items():
        for pair in pairs:
            later = max(pair.left.ts * 1000, pair.right.ms)
            assert pair.left.key == key
            assert (end - 5) * 1000 <= later < end * 1000, "told in the block of the later item"


@pytest.mark.parametrize(("before", "after"), [(0, 0), (2, 3), (-2, 3), (3, -2), (-2, 2), (12, 0), (0, 12)])
def test_both_ends_of_the_interval_belong_to_it(before: int, after: int) -> None:
    def build(a: Any, b: Any) -> Any:
        return interval_join(a, b, before=before, after=after, left_time=second, right_time=price_second)

    found = joined(build, [Event("a", 14, 0)], [Price("a", ms, 0) for ms in range(0, 30_000, 500)])
    times = sorted(pair.right.ms for pairs in found.values() for pair in pairs)
    assert times == list(range((14 - before) * 1000, (14 + after) * 1000 + 1, 500))


@given(ROWS, PRICES, st.none() | SPAN)
def test_the_asof_join_is_that_of_the_whole_histories(
    left: list[Event], right: list[Price], tolerance: int | None
) -> None:
    def build(a: Any, b: Any) -> Any:
        return asof_join(a, b, left_time=second, right_time=price_second, tolerance=tolerance)

    found = joined(build, left, right)

    def known(event: Event) -> Price | None:
        past = [p for p in right if p.key == event.key and p.ms <= event.ts * 1000]
        latest = max(past, key=lambda p: (p.ms, p.cents), default=None)
        old = latest is not None and tolerance is not None and event.ts * 1000 - latest.ms > tolerance * 1000
        return None if old else latest

    assert Counter(one for ones in found.values() for one in ones) == Counter(AsOf(e, known(e)) for e in left)
    for (end, _), ones in found.items():
        assert all(end - 5 <= one.left.ts < end for one in ones), "told in its own block"
        assert [one.left.ts for one in ones] == sorted(one.left.ts for one in ones)


def test_the_types_of_joins_come_from_both_streams() -> None:
    flow = both(lambda a, b: interval_join(a, b, before=1, after=1, left_time=second, right_time=price_second))
    assert str(check(flow).types[flow.graph.sinks[0].id]) == "O[str, Joined[Event, Price]]"
    flow = both(lambda a, b: asof_join(b, a, left_time=price_second, right_time=second))
    assert str(check(flow).types[flow.graph.sinks[0].id]) == "O[str, AsOf[Price, Event]]"


def test_scalars_can_be_joined() -> None:
    flow = Dataflow("scalars")
    a, b = (flow.source(n, U[str, int], markers=every(seconds=5, time=lambda v: v)) for n in ("a", "b"))
    join = interval_join(a, b, before=0, after=2, left_time=lambda v: v, right_time=lambda v: v)
    flow.sink("out", join)
    rows = {"a": [("k", 1), ("k", 7)], "b": [("k", 3), ("k", 9), ("k", 0), ("j", 1)]}
    found = by_marker(interpret_rows(check(flow), rows)[0]["out"].items)
    assert found == {(5, "k"): [Joined(1, 3)], (10, "k"): [Joined(7, 9)]}


def test_keys_must_be_of_one_type() -> None:
    flow = Dataflow("keys")
    a = flow.source("a", U[str, int], markers=every(seconds=5, time=lambda v: v))
    b: Any = flow.source("b", U[int, int], markers=every(seconds=5, time=lambda v: v))
    with pytest.raises(UsageError, match="asof_join: the keys of the left stream are str, those of the right one int") as caught:
        asof_join(a, b, left_time=lambda v: v, right_time=lambda v: v)
    assert caught.value.code == "TT102"
    assert "key_by(" in str(caught.value)


def test_state_is_pruned_by_markers() -> None:
    times: Times[Event, Event] = Times(second, second, "s")
    op: IntervalJoin[str, Event, Event] = IntervalJoin(times, 2_000_000, 3_000_000)
    state = op.initial_state()
    for ts in (1, 2, 3, 4):
        for side in (FromLeft, FromRight):
            state = op.on_item(state, "a", side(Event("a", ts, 0)), lambda pair: None)
    state = op.on_marker(state, "a", Marker(5_000_000), lambda pair: None)
    assert [[time // 10**6 for time, _ in side] for side in state] == [[2, 3, 4], [3, 4]]
    latest: AsOfJoin[str, Event, Event, Any] = AsOfJoin(times, 2_000_000)
    known = latest.on_item(None, "a", FromRight(Event("a", 3, 0)), lambda pair: None)
    assert latest.on_marker(known, "a", Marker(5_000_000), lambda pair: None) == known
    assert latest.on_marker(known, "a", Marker(5_000_001), lambda pair: None) is None


def test_what_can_find_no_partner_is_emitted_and_forgotten() -> None:
    """At the first marker behind the interval, and not at its last moment; nothing of the key stays."""
    times: Times[Event, Event] = Times(second, second, "s")
    op: OuterIntervalJoin[str, Event, Event, Any] = OuterIntervalJoin(times, 2_000_000, 3_000_000, "full", joined_type("full"))
    state = op.initial_state()
    out: list[Any] = []
    for side, ts in ((FromLeft, 1), (FromRight, 10), (FromLeft, 20), (FromRight, 21)):
        state = op.on_item(state, "a", side(Event("a", ts, 0)), out.append)
    assert out == [Joined(Event("a", 20, 0), Event("a", 21, 0))]
    left, right = Joined(Event("a", 1, 0), None), Joined(None, Event("a", 10, 0))
    for marker, rest in ((4, []), (5, [left]), (12, []), (13, [right]), (24, [])):
        out.clear()
        state = op.on_marker(state, "a", Marker(marker * 1_000_000), out.append)
        assert out == rest
    assert op.forgets_idle
    assert state == op.initial_state()


def test_a_semi_join_keeps_no_left_item_that_has_a_partner() -> None:
    times: Times[Event, Event] = Times(second, second, "s")
    op: IntervalSemiJoin[str, Event, Event] = IntervalSemiJoin(times, 2_000_000, 3_000_000, "semi")
    state = op.initial_state()
    out: list[Any] = []
    for side, ts in ((FromLeft, 1), (FromLeft, 2), (FromLeft, 9), (FromRight, 5), (FromLeft, 6), (FromRight, 7)):
        state = op.on_item(state, "a", side(Event("a", ts, 0)), out.append)
    assert [one.ts for one in out] == [2, 6, 9]
    assert state == ([(1_000_000, Event("a", 1, 0))], [5_000_000, 7_000_000])


def test_asof_never_tells_what_was_not_yet_known() -> None:
    """Where blocks are not by time: a right item of a later time has come before the left one."""
    op: AsOfJoin[str, Event, Event, Any] = AsOfJoin(Times(second, second, "s"))
    told: list[Any] = []
    op.on_item((9_000_000, Event("a", 9, 0)), "a", FromLeft(Event("a", 5, 1)), told.append)
    assert told == [AsOf(Event("a", 5, 1), None)]


# ------------------------------------------------------------------------------------------------- parameters


def test_TT121_wrong_parameters_are_refused() -> None:
    flow = Dataflow("wrong")
    five, six = source(flow, "five"), source(flow, "six", 6)
    with pytest.raises(UsageError, match="no time lies within") as empty:
        interval_join(five, five, before=-2, after=1, left_time=second, right_time=second)
    join: Any = interval_join
    with pytest.raises(UsageError, match="how is 'outer'") as how:
        join(five, five, how="outer", before=2, after=1, left_time=second, right_time=second)
    with pytest.raises(UsageError, match="tolerance is -1") as tolerance:
        asof_join(five, five, tolerance=-1, left_time=second, right_time=second)
    with pytest.raises(UsageError, match="markers every 5 s and 6 s") as periods:
        asof_join(five, six, left_time=second, right_time=second)
    assert {caught.value.code for caught in (empty, how, tolerance, periods)} == {"TT121"}
    banded = flow.source("band", U[str, Event], markers=in_band(is_marker=lambda e: e.x < 0, time=second))
    asof_join(five, banded, left_time=second, right_time=second)


# ------------------------------------------------------------------------------------------------- laws, deployments

EITHER: Any = FromLeft[Event] | FromRight[Event]
OUTER: tuple[Any, ...] = ("left", "right", "full")
SEMI: tuple[Any, ...] = ("semi", "anti")


def joined_type(how: Any) -> Any:
    return result_of(how, Event, Event)


@pytest.mark.parametrize(
    "op",
    [
        IntervalJoin(Times(second, second, "s"), 2_000_000, 1_000_000),
        *[OuterIntervalJoin(Times(second, second, "s"), 2_000_000, 1_000_000, how, joined_type(how)) for how in OUTER],
        OuterIntervalJoin(Times(second, second, "s"), 5_000_000, -2_000_000, "full", joined_type("full")),
        *[IntervalSemiJoin(Times(second, second, "s"), 2_000_000, 1_000_000, how) for how in SEMI],
        AsOfJoin(Times(second, second, "s"), 3_000_000),
        AsOfJoin(Times(second, second, "s")),
    ],
    ids=["interval", "left", "right", "full", "full, to one side", "semi", "anti", "asof, tolerance", "asof"],
)
def test_laws(op: Any) -> None:
    check_laws(op, types=(str, EITHER), max_examples=20, time=Times(second, second, "s").of, unit="us")


@pytest.mark.parametrize("side", [FromLeft, FromRight])
def test_laws_of_tags(side: Any) -> None:
    check_laws(Tag(side, int), types=(str, Event), max_examples=some(30))


@pytest.mark.parametrize(
    "build",
    [
        lambda a, b: interval_join(a, b, before=8, after=3, left_time=second, right_time=price_second),
        lambda a, b: interval_join(a, b, how="full", before=8, after=3, left_time=second, right_time=price_second),
        lambda a, b: interval_join(a, b, how="anti", before=8, after=3, left_time=second, right_time=price_second),
        lambda a, b: asof_join(a, b, left_time=second, right_time=price_second, tolerance=20),
    ],
    ids=["interval", "full", "anti", "asof"],
)
def test_every_deployment_tells_the_same(build: Any) -> None:
    flow = both(build, delay=20)
    assert check_deployments(flow, rows={"left": ROWS, "right": PRICES}, max_examples=20) > 5
