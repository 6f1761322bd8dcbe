"""Between its items an ordered operator does something at a marker when ``next_due`` says so, and not before."""

from __future__ import annotations

import copy
import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stdlib.small import Event, Mean, source
from tracetypes import Dataflow, Marker
from tracetypes.nodes import Apply
from tracetypes.silence import linger_of
from tracetypes.stdlib import kmeans, sliding
from tracetypes.stdlib.asof_joins import AsOfJoin, NearestJoin
from tracetypes.stdlib.calendar_windows import CalendarWindow
from tracetypes.stdlib.duplicates import DeduplicateWithin
from tracetypes.stdlib.interval_joins import IntervalSemiJoin, OuterIntervalJoin
from tracetypes.stdlib.item_windows import TimeWindow
from tracetypes.stdlib.joins import FromLeft, FromRight, IntervalJoin, Times
from tracetypes.stdlib.sessions import SessionWindow, VaryingSessionWindow
from tracetypes.stdlib.window_joins import OwnTimeJoin, SidesInOrder


def second(event: Event) -> int:
    return event.ts


def x_of(event: Event) -> int:
    return event.x


def point(event: Event) -> tuple[float]:
    return (float(event.x),)


SECOND = 1_000_000
TIMES: Times[Event, Event] = Times(second, second, "s")
NEAREST: list[Any] = [
    ("full", "backward", False),
    ("left", "forward", True),
    ("full", "nearest", False),
    ("full", "nearest", True),
]
OPERATORS: list[Any] = [
    SessionWindow(Mean(), 7 * SECOND, second, "s"),
    VaryingSessionWindow(Mean(), x_of, 7 * SECOND, second, "s"),
    CalendarWindow(Mean(), 1, 3 * SECOND, second, "s", True, span="day", zone="Europe/London"),
    TimeWindow(Mean(), 7 * SECOND, 3 * SECOND, second, "s", True, 2 * SECOND),
    DeduplicateWithin(x_of, 9 * SECOND, second, "s"),
    IntervalJoin(TIMES, 4 * SECOND, 6 * SECOND),
    OuterIntervalJoin(TIMES, 4 * SECOND, 6 * SECOND, "full", None),
    OuterIntervalJoin(TIMES, 9 * SECOND, -3 * SECOND, "left", None),
    IntervalSemiJoin(TIMES, 4 * SECOND, 6 * SECOND, "anti"),
    AsOfJoin(TIMES, 5 * SECOND),
    *[
        NearestJoin(Times(second, second, "s", left_first=strict), 5 * SECOND, how, direction, strict, None)
        for how, direction, strict in NEAREST
    ],
    OwnTimeJoin(SidesInOrder(), 7 * SECOND, 3 * SECOND, TIMES.of, "us", False, 2 * SECOND, "full"),
]


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: type(op).__name__)
@given(
    st.lists(st.tuples(st.integers(-30, 30), st.sampled_from(["left", "right", "marker"])), max_size=8),
    st.integers(1, 40),
)
def test_nothing_happens_before_it_is_due(op: Any, steps: list[tuple[int, str]], later: int) -> None:
    state, last = op.initial_state(), -31
    emitted: list[Any] = []
    for ts, what in sorted(steps):
        if what == "marker":
            state, last = op.on_marker(state, "a", Marker(ts * SECOND), emitted.append), ts
        else:
            value: Any = Event("a", ts, ts % 3)
            if isinstance(op, IntervalJoin | OuterIntervalJoin | IntervalSemiJoin | AsOfJoin | NearestJoin | OwnTimeJoin):
                value = FromLeft(value) if what == "left" else FromRight(value)
            state = op.on_item(state, "a", value, emitted.append)

    def at(micros: int) -> tuple[Any, list[Any]]:
        said: list[Any] = []
        return op.on_marker(copy.deepcopy(state), "a", Marker(micros), said.append), said

    due, marker = op.next_due(state, "a"), (last + later) * SECOND
    if due is None or marker < due:
        assert at(marker) == (state, [])
    if due is not None and due > last * SECOND:
        assert at(due - 1) == (state, [])
        assert at(due) != (state, [])


def test_a_window_lingers_for_what_its_last_item_may_still_be_in() -> None:
    flow = Dataflow("lingering")
    builds: list[Any] = [sliding(Mean(), panes=3), sliding(Mean(), size=30, slide=10), kmeans(point, k=1, panes=4)]
    for build in builds:
        source(flow).through(build)
    assert [linger_of(node) for node in flow.graph.nodes if isinstance(node, Apply)] == [2, 5, 3]
    windows = OPERATORS[0], OPERATORS[3]
    assert [op.linger() for op in windows] == [dt.timedelta(seconds=7, microseconds=1), dt.timedelta(seconds=10)]
