"""As-of joins in all directions: the definition against a recount of the whole histories, and the moments at which it answers."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stdlib.small import ROWS, Event, by_marker
from tests.stdlib.test_joins import EITHER, PRICES, Price, both, joined, price_second, second
from tests.strategies import some
from tracetypes import Dataflow, UsageError, check, interpret_rows, stdlib
from tracetypes.stdlib.asof_joins import AsOf, AsOfHow, Direction, NearestJoin, asof_join
from tracetypes.stdlib.joins import Joined, Times
from tracetypes.testing import check_deployments, check_laws

ts: Any = stdlib
KINDS = list(itertools.product(get_args(Direction), (False, True), get_args(AsOfHow)))


def partner(event: Event, right: list[Price], direction: str, strict: bool, tolerance: int | None) -> Price | None:
    """The right item of a left one, by a look at all of them."""
    time, found = event.ts * 1000, []
    for price in right:
        gap = price.ms - time
        if price.key != event.key or (strict and not gap) or (tolerance is not None and abs(gap) > tolerance * 1000):
            continue
        is_after = gap > 0 or (gap == 0 and direction == "forward")
        if direction == "nearest" or (direction == "forward") == is_after:
            # Of one time the last before it counts, the first after it.
            found.append((abs(gap), is_after, price.cents if is_after else -price.cents, price))
    return min(found, key=lambda one: one[:3])[3] if found else None


def answers(left: list[Event], right: list[Price], direction: str, strict: bool, how: str, tolerance: int | None) -> Counter[Any]:
    pairs = [(event, partner(event, right, direction, strict, tolerance)) for event in left]
    if how == "left":
        return Counter(AsOf(*pair) for pair in pairs)
    told: Counter[Any] = Counter(Joined(*pair) for pair in pairs if how == "full" or pair[1] is not None)
    if how == "full":
        taken = {(one.key, one.ms, one.cents) for _, one in pairs if one is not None}
        # Of equal rows one is the partner, and the others are none.
        for price, count in Counter(right).items():
            told[Joined(None, price)] += count - ((price.key, price.ms, price.cents) in taken)
    return +told


@pytest.mark.parametrize(("direction", "strict", "how"), KINDS)
@settings(max_examples=some(15))
@given(left=ROWS, right=PRICES, tolerance=st.sampled_from([1, 4, 30]), bounded=st.booleans())
def test_it_is_that_of_the_whole_histories(
    direction: Any, strict: bool, how: Any, left: list[Event], right: list[Price], tolerance: int, bounded: bool
) -> None:
    may_wait = (direction == "backward" and how != "full") or (direction == "forward" and how == "inner")
    within = None if may_wait and not bounded else tolerance

    def build(a: Any, b: Any) -> Any:
        times: Any = {"left_time": second, "right_time": price_second, "tolerance": within}
        return asof_join(a, b, direction=direction, strict=strict, how=how, **times)

    found = joined(build, left, right)
    assert Counter(one for ones in found.values() for one in ones) == answers(left, right, direction, strict, how, within)
    for (end, _), ones in found.items():
        lefts = [one.left.ts for one in ones if one.left is not None]
        assert all(ts < end for ts in lefts)
        if direction != "nearest":
            assert lefts == sorted(lefts)


def told(rows: dict[str, list[Any]], **how: Any) -> dict[Any, list[Any]]:
    flow = both(lambda a, b: asof_join(a, b, left_time=second, right_time=price_second, **how))
    found = by_marker(interpret_rows(check(flow), rows)[0]["out"].items)
    return {end: [(one.left and one.left.ts, one.right and one.right.ms) for one in ones] for (end, _), ones in found.items()}


def test_when_it_answers() -> None:
    """Blocks of five seconds. A partner later on answers in its block; none is certain at a marker."""
    rows: Any = {"left": [Event("a", 3, 0), Event("a", 12, 0)], "right": [Price("a", 1000, 0), Price("a", 8000, 0)]}
    assert told(rows, direction="forward", tolerance=6) == {10: [(3, 8000)], 20: [(12, None)]}
    assert told(rows, direction="forward", how="inner") == {10: [(3, 8000)]}
    # 3 is two seconds behind 1: behind second 5 nothing is nearer. 12 is four behind 8: behind second 16.
    assert told(rows, direction="nearest", tolerance=6) == {5: [(3, 1000)], 20: [(12, 8000)]}
    assert told(rows, direction="nearest", tolerance=3) == {5: [(3, 1000)], 20: [(12, None)]}
    # 1 is the partner of 3, 8 of 12.
    assert told(rows, how="full", tolerance=6) == {5: [(3, 1000)], 15: [(12, 8000)]}
    assert told(rows, how="full", tolerance=1) == {5: [(3, None), (None, 1000)], 10: [(None, 8000)], 15: [(12, None)]}


def test_items_of_one_time() -> None:
    rows: Any = {"left": [Event("a", 3, 0)], "right": [Price("a", 3000, cents) for cents in (1, 2)]}

    def cents(**how: Any) -> list[Any]:
        flow = both(lambda a, b: asof_join(a, b, left_time=second, right_time=price_second, tolerance=9, **how))
        (ones,) = by_marker(interpret_rows(check(flow), rows)[0]["out"].items).values()
        return [(one.left is not None, one.right and one.right.cents) for one in ones]

    assert cents() == [(True, 2)]
    assert cents(order=lambda price: -price.cents) == [(True, 1)]
    assert cents(direction="forward") == [(True, 1)]
    assert cents(direction="nearest") == [(True, 2)]
    assert cents(how="full", direction="forward") == [(True, 1), (False, 2)]
    for direction in get_args(Direction):
        assert cents(strict=True, direction=direction) == [(True, None)]


@pytest.mark.parametrize(
    ("how", "direction", "strict", "joined_as"),
    [
        ("full", "backward", False, Joined[Event | None, Event | None]),
        ("left", "forward", True, AsOf[Event, Event]),
        ("inner", "nearest", True, Joined[Event, Event]),
        ("full", "nearest", False, Joined[Event | None, Event | None]),
    ],
)
def test_laws(how: Any, direction: Any, strict: bool, joined_as: Any) -> None:
    times: Times[Event, Event] = Times(second, second, "s", left_first=strict or direction == "forward")
    op: Any = NearestJoin(times, 4_000_000, how, direction, strict, joined_as)
    check_laws(op, types=(str, EITHER), max_examples=some(20), time=times.of, unit="us")


@pytest.mark.parametrize(
    "how", [{"direction": "forward"}, {"direction": "nearest", "how": "full"}, {"how": "full"}, {"strict": True, "how": "inner"}]
)
def test_any_deployment_gives_the_same(how: dict[str, Any]) -> None:
    flow = both(lambda a, b: asof_join(a, b, left_time=second, right_time=price_second, tolerance=4, **how), delay=20)
    assert check_deployments(flow, rows={"left": ROWS, "right": PRICES}, max_examples=some(50))


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"direction": "nearest"}, "direction='nearest' and how='left' without a tolerance"),
        ({"direction": "forward"}, "without a tolerance"),
        ({"how": "full"}, "without a tolerance"),
        ({"direction": "back"}, "direction='back'"),
        ({"how": "right"}, "how is 'right'"),
        ({"strict": 1}, "strict=1"),
        ({"strict": True, "tolerance": 0}, "tolerance"),
        ({"tolerance": -1}, "tolerance"),
    ],
)
def test_what_cannot_be_meant(how: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        both(lambda a, b: ts.asof_join(a, b, left_time=second, right_time=price_second, **how))
    assert caught.value.code == "TT121"
    assert text in caught.value.message
    assert caught.value.fix


def types_of(**how: Any) -> str:
    flow: Dataflow = both(lambda a, b: asof_join(a, b, left_time=second, right_time=price_second, tolerance=4, **how))
    return str(check(flow).types[flow.graph.sinks[0].id])


def test_the_types() -> None:
    assert types_of(direction="forward") == "O[str, AsOf[Event, Price]]"
    assert types_of(how="inner") == "O[str, Joined[Event, Price]]"
    assert types_of(how="inner", direction="nearest") == "O[str, Joined[Event, Price]]"
    assert types_of(how="full") == "O[str, Joined[Event | None, Price | None]]"
