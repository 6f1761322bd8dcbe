"""Joins in windows: their laws, what they forget, what they refuse, and random deployments."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tests.stdlib.small import ROWS, Event, source
from tests.strategies import some
from tracetypes import Dataflow, Item, U, UsageError, check, every, interpret_rows
from tracetypes.stdlib import window_join
from tracetypes.stdlib.bags import Bag
from tracetypes.stdlib.join_kinds import How, result_of
from tracetypes.stdlib.joins import FromLeft, FromRight, Joined, Times
from tracetypes.stdlib.window_joins import OwnTimeJoin, Sides, SidesInOrder, WindowJoin
from tracetypes.testing import check_deployments, check_laws

HOWS: tuple[Any, ...] = get_args(How)
EITHER: Any = FromLeft[Event] | FromRight[Event]


def second(event: Event) -> int:
    return event.ts


def window(
    how: Any, panes: int = 2, period: int | None = 1_000_000, slide: int = 2
) -> WindowJoin[Any, Any, Any, Any]:
    return WindowJoin(Sides(), panes, slide, period, False, 0, how, result_of(how, Event, Event))


@pytest.mark.parametrize("how", HOWS)
def test_laws(how: Any) -> None:
    check_laws(window(how), types=(str, EITHER), max_examples=some(15))
    check_laws(window(how, 3, None, 1), types=(str, EITHER), max_examples=some(10))
    times: Times[Event, Event] = Times(second, second, "s")
    own: Any = OwnTimeJoin(
        SidesInOrder(), 7_000_000, 3_000_000, times.of, "us", False, 0, how, result_of(how, Event, Event)
    )
    check_laws(own, types=(str, EITHER), max_examples=some(30), time=times.of, unit="us")


@pytest.mark.parametrize("how", HOWS)
def test_every_deployment_emits_the_same(how: Any) -> None:
    flow = Dataflow("joined")
    left, right = source(flow, "left"), source(flow, "right")
    flow.sink("blocks", window_join(left, right, size=15, how=how))
    flow.sink("sliding", window_join(left, right, size=15, slide=5, how=how))
    flow.sink("own", window_join(left, right, size=7, how=how, left_time=second, right_time=second))
    assert check_deployments(flow, rows={"left": ROWS, "right": ROWS}, max_examples=4) > 0


def test_a_pair_comes_out_of_every_window_that_both_are_in() -> None:
    flow, markers = Dataflow("sliding"), every(seconds=10, time=lambda value: value)
    left, right = (flow.source(name, U[str, int], markers=markers) for name in ("left", "right"))
    flow.sink("out", window_join(left, right, size=30, slide=10, how="left"))
    found = interpret_rows(check(flow), {"left": [("a", 11)], "right": [("a", 2)]})[0]["out"].items
    values = [(one.value.left, one.value.right) if isinstance(one, Item) else one.timestamp for one in found]
    assert values == [10, (11, 2), 20, (11, 2), 30, (11, None), 40]


def test_a_key_whose_window_is_over_is_as_one_never_seen() -> None:
    op = window("full")
    state = op.initial_state()
    for agg in (op.lift("a", FromLeft(Event("a", 1, 0))), op.identity(), op.identity()):
        state = op.update_state(state, agg)
    assert state == op.initial_state()
    assert op.forgets_idle


def test_bags_are_equal_if_their_values_are() -> None:
    one: Bag[int] = Bag((1,)) | Bag((2,)) | Bag((1,))
    other: Bag[int] = Bag((2,)) | (Bag((1,)) | Bag((1,)))
    assert one == other
    assert one != other | Bag((2,))
    assert sorted(one) == [1, 1, 2]
    assert Bag() != one != 3


def test_values_may_be_none_and_markers_in_band() -> None:
    flow, markers = Dataflow("blocks"), every(seconds=1, time=lambda value: value or 0)
    left, right = (flow.source(name, U[str, int | None], markers=markers) for name in ("left", "right"))
    flow.sink("out", window_join(left, right, panes=1, how="left"))
    assert str(check(flow).types[flow.graph.sinks[0].id]) == "U[str, Joined[int | None, int | None]]"
    found = interpret_rows(check(flow), {"left": [("a", None), ("b", 0)], "right": [("a", None)]})[0]["out"].items
    assert [one.value for one in found if isinstance(one, Item)] == [Joined(None, None), Joined(0, None)]


def test_TT121_wrong_parameters_are_refused() -> None:
    flow = Dataflow("wrong")
    five, six = source(flow, "five"), source(flow, "six", 6)
    join: Any = window_join
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (five, {}, "one of size and panes"),
        (five, {"size": 5, "panes": 1}, "one of size and panes"),
        (five, {"size": 5, "how": "cross"}, "how is 'cross'(?s:.)*key_by"),
        (five, {"size": 5, "how": "left_outer"}, 'pass how="left"'),
        (five, {"size": 5, "how": "OUTER"}, 'pass how="full"'),
        (five, {"size": 5, "how": None}, "use one of 'inner'"),
        (five, {"size": 5, "left_time": second}, "one of left_time and right_time"),
        (five, {"size": 5, "grace": 1}, "one of left_time and right_time"),
        (five, {"panes": 1, "left_time": second, "right_time": second}, "have a size"),
        (five, {"panes": 0}, "panes is 0"),
        (five, {"panes": 2, "slide": 0}, "slide is 0"),
        (five, {"size": 10, "slide": 0}, "slide is 0"),
        (five, {"size": 5, "slide": 5, "left_time": second, "right_time": second}, "follow one another"),
        (six, {"panes": 1}, "markers every 5 s and 6 s"),
        (six, {"size": 30, "left_time": second, "right_time": second}, "markers every 5 s and 6 s"),
    ]
    for right, given, text in wrong:
        with pytest.raises(UsageError, match=text) as caught:
            join(five, right, **given)
        assert caught.value.code == "TT121"
    with pytest.raises(UsageError) as caught:
        window_join(five, five, size=7)
    assert caught.value.code == "TT125"
