"""Joins by key over a bounded state: the bound, laws, what is forgotten and refused, and random deployments."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tests.stdlib.small import ROWS, Event, by_marker, source
from tests.strategies import some
from tracetypes import Dataflow, UsageError, check, interpret_rows
from tracetypes.stdlib import equi_join
from tracetypes.stdlib.equi_joins import EquiJoin, LastItemsJoin
from tracetypes.stdlib.join_kinds import How, result_of
from tracetypes.stdlib.joins import FromLeft, FromRight
from tracetypes.testing import check_deployments, check_laws

HOWS: tuple[Any, ...] = get_args(How)
EITHER: Any = FromLeft[Event] | FromRight[Event]
TIMES: Any = {"left_time": lambda event: event.ts, "right_time": lambda event: event.ts}


def joined(left: list[int], right: list[int], **bound: Any) -> dict[int, list[tuple[int | None, int | None]]]:
    """What is emitted for items at these seconds, by the second of the marker."""
    flow = Dataflow("joined")
    flow.sink("out", equi_join(source(flow, "left"), source(flow, "right"), **bound))
    rows = {"left": [Event("a", ts, 0) for ts in left], "right": [Event("a", ts, 0) for ts in right]}
    found = by_marker(interpret_rows(check(flow), rows)[0]["out"].items)
    return {
        marker: sorted((one.left and one.left.ts, one.right and one.right.ts) for one in values)
        for (marker, _), values in found.items()
    }


def test_an_item_behind_the_bound_is_dropped() -> None:
    # Blocks of five seconds: 4 and 6 are one apart, 4 and 11 are two apart.
    assert joined([4], [6, 11], blocks=0) == {}
    assert joined([4], [6, 11], blocks=1) == {10: [(4, 6)]}
    assert joined([4], [6, 11], within=10) == {10: [(4, 6)], 15: [(4, 11)]}


def test_an_item_without_a_partner_is_emitted_when_it_is_dropped_also_behind_the_end() -> None:
    assert joined([4, 22], [11], blocks=1, how="left") == {10: [(4, None)], 30: [(22, None)]}
    assert joined([4], [22], blocks=1, how="right") == {30: [(None, 22)]}


def test_the_last_items_are_found() -> None:
    assert joined([1, 2, 3, 21], [4, 22], items=2, **TIMES) == {5: [(2, 4), (3, 4)], 25: [(3, 22), (21, 4), (21, 22)]}


@pytest.mark.parametrize("how", HOWS)
def test_laws(how: Any) -> None:
    check_laws(EquiJoin(1, how, result_of(how, Event, Event)), types=(str, EITHER), max_examples=10)


def test_laws_of_the_last_items() -> None:
    check_laws(LastItemsJoin(2), types=(str, EITHER), max_examples=some(30))


def test_a_key_whose_items_are_dropped_is_as_one_never_seen() -> None:
    op: EquiJoin[str, Event, Event, Any] = EquiJoin(1, "full")
    states = [op.update_state(op.initial_state(), op.lift("a", FromLeft(Event("a", 1, 0))))]
    for _ in range(2):
        states.append(op.update_state(states[-1], op.identity()))
    assert [len(state) for state in states] == [1, 1, 0]
    assert states[-1] == op.initial_state()
    assert op.forgets_idle


@pytest.mark.parametrize("how", HOWS)
def test_every_deployment_emits_the_same(how: Any) -> None:
    flow = Dataflow("joined")
    left, right = source(flow, "left"), source(flow, "right")
    flow.sink("blocks", equi_join(left, right, blocks=2, how=how))
    if how == "inner":
        flow.sink("items", equi_join(left, right, items=2, **TIMES))
    assert check_deployments(flow, rows={"left": ROWS, "right": ROWS}, max_examples=8) > 0


def test_TT121_wrong_parameters_are_refused() -> None:
    flow = Dataflow("wrong")
    five, six = source(flow, "five"), source(flow, "six", 6)
    join: Any = equi_join
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (five, {}, "one bound is needed"),
        (five, {"blocks": 1, "items": 1}, "one bound is needed"),
        (five, {"blocks": 1, "how": "cross"}, "how is 'cross'"),
        (five, {"blocks": -1}, "blocks is -1"),
        (five, {"blocks": 1, **TIMES}, "times, and a bound by blocks"),
        (five, {"items": 1}, "items without times"),
        (five, {"items": 0, **TIMES}, "items is 0"),
        (five, {"items": 1, "how": "left", **TIMES}, "how is 'left'"),
        (six, {"blocks": 1}, "markers every 5 s and 6 s"),
    ]
    for right, given, text in wrong:
        with pytest.raises(UsageError, match=text) as caught:
            join(five, right, **given)
        assert caught.value.code == "TT121"
    with pytest.raises(UsageError) as caught:
        equi_join(five, five, within=7)
    assert caught.value.code == "TT125"
