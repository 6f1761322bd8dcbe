"""Sources whose last blocks close by the clock: ``closes_after=``. What the clock decides, how it is kept, and what it means: a
heartbeat of all parts of a source."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_idle import Idling, Steps, as_heartbeats, idling
from tests.test_parts import caught_by
from tracetypes import Dataflow, Marker, U, UsageError, check, every, in_band, merge
from tracetypes.arrangement import arrange
from tracetypes.compiler.backend import closing_clocks
from tracetypes.compiler.backend.closing_clocks import ClosingClocks
from tracetypes.compiler.connectors.closing import ClockSplit, ClosingClock
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.runtime.frontier import Frontier
from tracetypes.markers import EventTime
from tracetypes.nodes import Source
from tracetypes.parsing import Row

SECOND = 1_000_000


def time_of(row: Any) -> float:
    return float(row)


# ---------------------------------------------------------------------------------------------- the arguments


@pytest.mark.parametrize("wrong", [0, -1, True, "5", float("nan"), float("inf"), 1e-9])
def test_TT115_no_time(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"^TT115 closes_after is "):
        every(seconds=1, time=time_of, closes_after=wrong)


def test_TT115_markers_in_band() -> None:
    with pytest.raises(UsageError, match=r"^TT115 closes_after= is given for markers in band"):
        in_band(closes_after=5)  # type: ignore[call-overload]


# -------------------------------------------------------------------------------------------------- the clock


class Seconds:
    """Time that the test makes."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def clock_of(*, period: float, delay: float = 0, closes_after: float) -> tuple[ClosingClock, Seconds]:
    seconds = Seconds()
    how = every(seconds=period, time=time_of, delay=delay, closes_after=closes_after)
    return ClosingClock(how, seconds), seconds


def test_event_time_goes_on_when_the_source_has_been_silent_for_long_enough() -> None:
    clock, seconds = clock_of(period=10, closes_after=5)
    seen = 103 * SECOND
    found = []
    for _ in range(30):
        seconds.now += 1
        split = clock.look(seen)
        found.append(None if split is None else split.time // SECOND - 103)
    # After 5 s; when the block of the row may close; when the next one may; and so on.
    assert found == [None] * 4 + [5] * 2 + [7] * 10 + [17] * 10 + [27] * 4


def test_a_row_begins_anew() -> None:
    clock, seconds = clock_of(period=10, closes_after=5)
    seconds.now += 6
    assert clock.look(0) == ClockSplit(6 * SECOND)
    clock.came()
    assert clock.look(20 * SECOND) is None
    seconds.now += 5
    assert clock.look(20 * SECOND) == ClockSplit(25 * SECOND)


def test_a_process_goes_on_where_an_earlier_one_was() -> None:
    """The time between them does not count."""
    clock, seconds = clock_of(period=10, closes_after=5)
    clock.resume(6 * SECOND)
    assert clock.look(SECOND) == ClockSplit(7 * SECOND)
    seconds.now += 3
    assert clock.look(SECOND) == ClockSplit(10 * SECOND)


@pytest.mark.parametrize("period", [0.001, 1, 3600])
def test_a_week_has_few_decisions(period: float) -> None:
    clock, seconds = clock_of(period=period, delay=2, closes_after=1)
    decisions, last, most = set[int](), 1.0, max(period, 1.0)
    while seconds.now < 50 + 7 * 86_400:
        seconds.now += max(0.05, (seconds.now - 50) / 500)
        if (split := clock.look(0)) is not None and split.time not in decisions:
            decisions.add(split.time)
            assert seconds.now - 50 <= last + max(most, last / 10) + 0.05 + seconds.now / 400
            last = seconds.now - 50
    assert len(decisions) < 200


class Store:
    """Its last commit record says what was seen."""

    def __init__(self, seen: dict[str, int | None]) -> None:
        self.log, self.seen = self, seen
        self.ended = 0

    def before(self, number: int) -> dict[str, Any]:
        return {"seen": self.seen}


def test_readings_of_a_source_share_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one of them has something new, none goes on."""
    seconds, store = Seconds(), Store({"rows": 3 * SECOND, "rows:1": None})
    monkeypatch.setattr(closing_clocks, "ClosingClock", lambda how: ClosingClock(how, seconds))
    flow = Dataflow("closing")
    rows = flow.source("rows", U[str, int], key=str, markers=every(seconds=1, time=time_of, closes_after=5))
    flow.sink("out", merge(rows, rows.late()))
    (planned,) = program(check(flow), key_groups=2).plans
    of_store: Any = store
    clocks = ClosingClocks(planned, of_store, {})
    assert clocks.labels == {"rows": ["rows", "rows:1"]}
    seconds.now += 6
    assert clocks.look({"rows:1"}) == {}
    assert clocks.look(()) == {"rows": 9 * SECOND}
    assert ClosingClocks(planned, of_store, {"rows": 9 * SECOND}).look(()) == {"rows": 9 * SECOND}
    clocks.came({"read": {"rows": 0}})
    assert clocks.look(()) == {"rows": 9 * SECOND}
    clocks.came({"read": {"rows": 1}})
    assert clocks.look(()) == {}
    store.seen = {}
    seconds.now += 60
    assert clocks.look(()) == {}  # before the first row


# ------------------------------------------------------------------------------------------------- the meaning


@attrs.frozen
class Closing(Idling):
    """A case in which event time goes on with the clock at times."""

    def as_heartbeats(self, source: Source) -> list[list[Row]]:
        """Each part has a heartbeat instead, if that is not before the first block of all."""
        steps: Any = self.steps[source.name]
        how = source.markers
        rows: list[list[Row]] = [[] for _ in steps]
        plain: list[list[list[Row]]] = [[] for _ in steps]
        for step in range(max(map(len, steps))):
            now = [part[step] if step < len(part) else [] for part in steps]
            clocks = [row.time for some in now for row in some if isinstance(row, ClockSplit)]
            for part, some in zip(plain, now, strict=True):
                part.append([row for row in some if not isinstance(row, ClockSplit)])
            rows = as_heartbeats(source, plain)
            for time in clocks:
                assert isinstance(how, EventTime)
                firsts = [first_block(source, part) for part in rows]
                known = [first for first in firsts if first is not None]
                if known and how.frontier(time) >= min(known):
                    for part in plain:
                        part[-1].append(Row("marker", time=time - how.delay))
        return as_heartbeats(source, plain)


def first_block(source: Source, rows: Sequence[Row]) -> int | None:
    """Of the rows that are accepted so far."""
    how, items = source.markers, arrange(source, rows, drain=False).items
    assert isinstance(how, EventTime)
    blocks = [one.micros if isinstance(one, Marker) else how.block(how.time_of(one.value)) for one in items]
    return min(blocks, default=None)


@st.composite
def closing(draw: st.DrawFn) -> Closing:
    """Between the steps of a source, others in which nothing comes but the time of the clock."""
    one = draw(idling())
    chance = random.Random(draw(st.integers(0, 2**16)))
    steps: Steps = {}
    for source in one.case.checked.graph.sources:
        parts = one.steps[source.name]
        more: list[list[list[Any]]] = [[] for _ in parts]
        newest: int | None = None
        for step in range(max(map(len, parts))):
            for part, steps_of in zip(more, parts, strict=True):
                some = steps_of[step] if step < len(steps_of) else []
                part.append(some)
                times = [row.time for row in some if row.kind == "item"]
                newest = max([*times, *([] if newest is None else [newest])], default=None)
            if isinstance(source.markers, EventTime) and newest is not None and chance.random() < 0.5:
                time = newest + chance.randint(0, 4 * source.markers.period)
                for at, part in enumerate(more):
                    part.append([ClockSplit(time)] if at == 0 else [])
        steps[source.name] = more
    return Closing(one.case, steps)


@given(closing())
def test_all_parts_send_heartbeats_as_it_were(one: Closing) -> None:
    assert one.differences() == []


@pytest.mark.parametrize("broken", ["nobody goes on", "one part goes on", "they go too far"])
def test_another_meaning_is_caught(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    real = Frontier.elapse
    match broken:
        case "nobody goes on":
            monkeypatch.setattr(Frontier, "elapse", lambda *_: None)
        case "one part goes on":
            monkeypatch.setattr(Frontier, "elapse", lambda self, one, parts, *more: real(self, one, parts[:1], *more))
        case _:
            monkeypatch.setattr(
                Frontier, "elapse", lambda self, one, parts, time, *more: real(self, one, parts, time + 10**9, *more)
            )
    assert caught_by(closing())
