"""Joins with a table: which change an item sees, laws, and random deployments."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tests.stdlib.small import ROWS, Event, source
from tests.strategies import some
from tracetypes import Dataflow, Item, UsageError, check, interpret_rows
from tracetypes.stdlib import table_join
from tracetypes.stdlib.join_kinds import result_of
from tracetypes.stdlib.joins import FromLeft, FromRight, Joined, Times
from tracetypes.stdlib.table_joins import TableHow, TableJoin
from tracetypes.testing import check_deployments, check_laws

HOWS: tuple[Any, ...] = get_args(TableHow)
EITHER: Any = FromLeft[Event] | FromRight[Event]
TIMES: Any = {"left_time": lambda event: event.ts, "table_time": lambda event: event.ts}


def second(event: Event) -> int:
    return event.ts


def is_deleted(event: Event) -> bool:
    return event.x < 0


def joined(how: Any, left: list[Event], table: list[Event], deleted: Any = is_deleted) -> list[Any]:
    flow = Dataflow("joined")
    flow.sink("out", table_join(source(flow, "left"), source(flow, "table"), how=how, deleted=deleted, **TIMES))
    found = interpret_rows(check(flow), {"left": left, "table": table})[0]["out"].items
    return [one.value for one in found if isinstance(one, Item)]


ITEMS = [Event("a", ts, 0) for ts in (1, 3, 4, 12, 13, 21)]
CHANGES = [Event("a", 12, 8), Event("a", 3, 7), Event("a", 20, 9), Event("a", 13, -1), Event("b", 1, 5)]


def test_only_later_items_see_a_change_or_a_delete() -> None:
    rows = {one.left.ts: one.right and one.right.x for one in joined("left", ITEMS, CHANGES)}
    assert rows == {1: None, 3: 7, 4: 7, 12: 8, 13: None, 21: 9}
    assert [(one.left.ts, one.right.x) for one in joined("inner", ITEMS, CHANGES)] == [(3, 7), (4, 7), (12, 8), (21, 9)]
    assert [one.ts for one in joined("semi", ITEMS, CHANGES)] == [3, 4, 12, 21]
    assert [one.ts for one in joined("anti", ITEMS, CHANGES)] == [1, 13]


def test_without_deleted_each_change_is_a_row() -> None:
    assert [one.right.x for one in joined("inner", ITEMS, CHANGES, None)] == [7, 7, 8, -1, 9]


def test_of_several_changes_of_one_time_the_last_value_counts() -> None:
    changes = [Event("a", 1, 3), Event("a", 1, 5), Event("a", 1, 4)]
    assert joined("inner", [Event("a", 1, 0)], changes) == [Joined(Event("a", 1, 0), Event("a", 1, 5))]


def test_a_deleted_row_leaves_the_state_of_a_key_never_seen() -> None:
    op: TableJoin[str, Event, Event, Any] = TableJoin(Times(second, second, "s"), is_deleted)
    state = op.on_item(op.initial_state(), "a", FromRight(Event("a", 1, 3)), lambda value: None)
    assert state == (1_000_000, Event("a", 1, 3))
    assert op.on_item(state, "a", FromRight(Event("a", 0, -1)), lambda value: None) == state, "older than the row"
    assert op.on_item(state, "a", FromRight(Event("a", 2, -1)), lambda value: None) == op.initial_state()


def test_the_types() -> None:
    for how, shown in (("left", "O[str, Joined[Event, Event | None]]"), ("anti", "O[str, Event]")):
        flow = Dataflow("types")
        given: Any = how
        flow.sink("out", table_join(source(flow, "left"), source(flow, "table"), how=given, **TIMES))
        assert str(check(flow).types[flow.graph.sinks[0].id]) == shown


@pytest.mark.parametrize("how", HOWS)
def test_laws(how: Any) -> None:
    op: Any = TableJoin(Times(second, second, "s"), is_deleted, how, result_of(how, Event, Event))
    check_laws(op, types=(str, EITHER), max_examples=some(30))


@pytest.mark.parametrize("how", HOWS)
def test_every_deployment_emits_the_same(how: Any) -> None:
    flow = Dataflow("joined")
    flow.sink("out", table_join(source(flow, "left"), source(flow, "table"), how=how, deleted=is_deleted, **TIMES))
    assert check_deployments(flow, rows={"left": ROWS, "table": ROWS}, max_examples=8) > 0


def test_TT121_wrong_parameters_are_refused() -> None:
    flow, join = Dataflow("wrong"), table_join
    five, six = source(flow, "five"), source(flow, "six", 6)
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (five, {"how": "full"}, "how is 'full'(?s:.)*without an item"),
        (five, {"deleted": True}, "table_join was given True"),
        (five, {"order": "seq"}, "table_join was given 'seq'"),
        (six, {}, "markers every 5 s and 6 s"),
    ]
    for table, given, text in wrong:
        with pytest.raises(UsageError, match=text) as caught:
            join(five, table, **TIMES, **given)
        assert caught.value.code == "TT121"
