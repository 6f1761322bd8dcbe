"""Right items of one time: ``order=`` of joins says which is the last."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracetypes
from tests.strategies import some
from tracetypes import ROW_POSITION, CheckFailed, Dataflow, Item, O, U, check, every, interpret_rows
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.stdlib import asof_join, table_join
from tracetypes.stdlib.joins import TagInOrder
from tracetypes.testing import check_laws


@attrs.frozen
class Change:
    key: str
    op: str
    ts: int
    seq: int


def markers(time: Any) -> Any:
    return every(seconds=5, time=time)


ORDERS: dict[str, Any] = {
    "a number": lambda change: change.seq,
    "a text": lambda change: f"{change.seq:03d}",
    "a tuple": lambda change: (change.seq // 2, change.seq),
    "the position": ROW_POSITION,
}


def flow_of(join: str, order: Any, edge: Any = None) -> Dataflow:
    """Asks of each second what the table has."""
    flow = Dataflow("log")
    seconds = flow.source("seconds", U[str, int], markers=markers(lambda second: second))
    by_position: Any = {"ordered_by": ROW_POSITION} if order is ROW_POSITION and edge is None else {}
    kind: Any = edge or (O[str, Change] if by_position else U[str, Change])
    log = flow.source("log", kind, key=lambda change: change.key, markers=markers(lambda change: change.ts), **by_position)
    call: Any = {"table": table_join, "as of": asof_join}[join]
    times = {"left_time": lambda second: second, ("table_time" if join == "table" else "right_time"): lambda change: change.ts}
    more = {"how": "left", "deleted": lambda change: change.op == "d"} if join == "table" else {}
    flow.sink("out", call(seconds, log, order=order, **times, **more))
    return flow


def expected(join: str, changes: list[Change], asked: list[tuple[str, int]]) -> dict[tuple[str, int], Change | None]:
    """The last change by time and number, unless it deletes the row."""

    def row(key: str, second: int) -> Change | None:
        last = max((c for c in changes if c.key == key and c.ts <= second), key=lambda c: (c.ts, c.seq), default=None)
        return None if join == "table" and last is not None and last.op == "d" else last

    return {(key, second): row(key, second) for key, second in asked}


LOGS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("cud"), st.integers(0, 12)), max_size=12)


@settings(max_examples=some(20))
@given(st.sampled_from(["table", "as of"]), st.sampled_from(sorted(ORDERS)), LOGS, st.integers(0, 2**32))
def test_the_last_of_one_time_counts(join: str, order: str, log: list[tuple[str, str, int]], seed: int) -> None:
    changes = [Change(key, op, ts, seq) for seq, (key, op, ts) in enumerate(sorted(log, key=lambda one: one[2]))]
    asked = [(key, second) for second in range(0, 13, 3) for key in "ab"]
    checked = check(flow_of(join, ORDERS[order]))
    rows: dict[str, list[Any]] = {"seconds": asked, "log": changes}
    trace = interpret_rows(checked, rows)[0]["out"]
    found = {(one.key, one.value.left): one.value.right for one in trace.items if isinstance(one, Item)}
    assert found == expected(join, changes, asked)
    assert simulate(plan(checked, parallelism=2), rows, seed=seed).trace == trace


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("again", [True, False], ids=["made again", "deleted"])
def test_a_run(order: str, again: bool) -> None:
    changes = [Change("p", "d", 2, 1), Change("p", "c", 2, 2)] if again else [Change("p", "u", 2, 1), Change("p", "d", 2, 2)]
    got: list[Any] = []
    rows: dict[str, list[Any]] = {"seconds": [("p", 3)], "log": changes}
    tracetypes.run(flow_of("table", ORDERS[order]), rows, {"out": got}, backend="local")
    assert [pair.right and pair.right.op for _, pair in got] == ["c" if again else None]


@pytest.mark.parametrize("join", ["table", "as of"])
def test_TT101_a_position_needs_an_order(join: str) -> None:
    with pytest.raises(CheckFailed, match="TT101") as caught:
        check(flow_of(join, ROW_POSITION, U[str, Change]))
    assert "sort(by=...)" in str(caught.value)


def test_the_position_obeys_the_laws() -> None:
    check_laws(TagInOrder[str, int, Any](int), types=(str, int), max_examples=some(30))
