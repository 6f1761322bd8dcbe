"""Windows by the calendar of a zone, and sessions whose gap each item says, against a recount; their laws; deployments."""

from __future__ import annotations

import datetime as dt
from typing import Any, get_args
from zoneinfo import ZoneInfo

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stdlib.small import ROWS, Event, Mean, Total, source, told
from tests.strategies import some
from tracetypes import Dataflow, OperatorFailed, U, UsageError, check, every, interpret_rows, sort, stdlib
from tracetypes.stdlib import calendar_window, collect, session
from tracetypes.stdlib.calendar_windows import CalendarUnit, CalendarWindow, number_of_span, start_of_span
from tracetypes.stdlib.sessions import Session, VaryingSessionWindow
from tracetypes.testing import check_deployments, check_laws

ts: Any = stdlib
UNITS: Any = get_args(CalendarUnit)
ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "America/St_Johns", "Asia/Kathmandu", "Pacific/Apia", "Australia/Lord_Howe"]
HOUR = 3600
ZERO = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
EVER = st.integers(-2_000_000_000, 4_000_000_000)


@pytest.mark.parametrize("zone", ZONES)
@given(unit=st.sampled_from(UNITS), second=EVER)
@settings(max_examples=some(40))
def test_a_time_lies_in_one_span(zone: str, unit: Any, second: int) -> None:
    micros = second * 1_000_000
    number = number_of_span(unit, zone, micros)
    start, end = start_of_span(unit, zone, number), start_of_span(unit, zone, number + 1)
    assert start <= micros < end
    assert number_of_span(unit, zone, start) == number == number_of_span(unit, zone, end - 1)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kathmandu"])
@given(second=EVER)
@settings(max_examples=some(40))
def test_spans_are_those_of_the_calendar(zone: str, second: int) -> None:
    """In zones whose clocks are not turned at midnight."""

    def named(at: int) -> dict[str, Any]:
        time = (ZERO + dt.timedelta(seconds=at)).astimezone(ZoneInfo(zone))
        quarter = (time.year, (time.month - 1) // 3)
        spans = {"day": time.date(), "week": time.isocalendar()[:2], "month": (time.year, time.month)}
        return {**spans, "quarter": quarter, "year": time.year}

    for other in (second + step * HOUR for step in (1, 20, 24, 25, 24 * 7, 24 * 31, 24 * 92, 24 * 366)):
        for unit in UNITS:
            same = named(second)[unit] == named(other)[unit]
            numbers = [number_of_span(unit, zone, one * 1_000_000) for one in (second, other)]
            assert (numbers[0] == numbers[1]) == same, (unit, other)


def length(unit: Any, zone: str, year: int, month: int, day: int) -> float:
    """Hours of the span of a day."""
    noon = int(dt.datetime(year, month, day, 12, tzinfo=ZoneInfo(zone)).timestamp()) * 1_000_000
    number = number_of_span(unit, zone, noon)
    return (start_of_span(unit, zone, number + 1) - start_of_span(unit, zone, number)) / 3_600_000_000


def test_days_of_other_lengths() -> None:
    assert [length("day", "Europe/Berlin", 2026, 3, day) for day in (28, 29, 30)] == [24, 23, 24]
    assert length("day", "Europe/Berlin", 2026, 10, 25) == 25
    assert length("week", "Europe/Berlin", 2026, 3, 25) == 7 * 24 - 1
    assert length("day", "Australia/Lord_Howe", 2026, 4, 5) == 24.5
    assert length("quarter", "UTC", 2024, 2, 1) == 91 * 24
    assert length("year", "Europe/Berlin", 2024, 2, 1) == 366 * 24
    # At midnight clocks go on to one; the day has 23 hours and begins then.
    assert length("day", "America/Sao_Paulo", 2018, 11, 4) == 23
    # A minute past midnight clocks went back to 23:01 of the day before: that had 24 hours, and the next one 25.
    assert [length("day", "America/St_Johns", 2010, 11, day) for day in (6, 7, 8)] == [24, 25, 24]


@attrs.frozen
class Visit:
    at: int
    x: int


def at_of(visit: Visit) -> int:
    return visit.at


def x_of(visit: Visit) -> int:
    return visit.x


SUNDAY = int(dt.datetime(2026, 3, 29, tzinfo=dt.UTC).timestamp())
VISITS = st.lists(st.builds(Visit, st.integers(SUNDAY - 40 * HOUR, SUNDAY + 60 * HOUR), st.integers(0, 9)), max_size=12)


@given(VISITS, st.sampled_from([0, 5 * HOUR]))
def test_windows_are_a_recount(visits: list[Visit], grace: int) -> None:
    flow = Dataflow("days")
    markers = every(seconds=HOUR, time=at_of, delay=200 * HOUR)
    rows = flow.source("rows", U[str, Visit], markers=markers, key=lambda visit: "a")
    days = calendar_window(collect(x_of), every="day", zone="Europe/Berlin", time=at_of, grace=grace, ends=True)
    flow.sink("out", rows.through(sort(by=at_of)).through(days), marker="until")
    found = interpret_rows(check(flow), {"rows": visits})[0]["out"].items
    wanted: dict[dt.date, list[int]] = {}
    for visit in visits:
        wanted.setdefault(dt.datetime.fromtimestamp(visit.at, ZoneInfo("Europe/Berlin")).date(), []).append(visit.x)
    told_days = []
    last = None
    for one in reversed(found):
        if not hasattr(one, "value"):
            last = one
            continue
        start, end = (time.astimezone(ZoneInfo("Europe/Berlin")) for time in (one.value.start, one.value.end))
        assert (start.hour, end.hour, end.date()) == (0, 0, start.date() + dt.timedelta(days=1))
        told_days.append((start.date(), one.value.value))
        assert last is not None
        assert last.datetime == one.value.end + dt.timedelta(seconds=grace)
    assert told_days[::-1] == [(day, sorted(wanted[day])) for day in sorted(wanted)]


def test_laws_and_deployments() -> None:
    windows: Any = CalendarWindow(Mean(), 1, 3_000_000, lambda e: e.ts * HOUR, "s", True, span="day", zone="Europe/London")
    check_laws(windows, types=(str, Event), max_examples=some(20))
    flow = Dataflow("deployed")
    days = calendar_window(Total(), every="day", zone="Asia/Kathmandu", time=lambda e: e.ts * HOUR)
    hours = flow.source("events", U[str, Event], markers=every(seconds=HOUR, time=lambda e: e.ts * HOUR), key=lambda e: e.key)
    flow.sink("out", hours.through(sort(by=lambda e: e.ts)).through(days))
    assert check_deployments(flow, rows={"events": ROWS}, max_examples=some(10))


@pytest.mark.parametrize(
    ("given_", "text"),
    [
        ({"every": "hour", "zone": "UTC"}, "every='hour'"),
        ({"every": "day", "zone": "Europe/Nowhere"}, "zone='Europe/Nowhere', which is no zone"),
        ({"every": "day", "zone": 3}, "zone=3"),
        ({"every": "day", "zone": "UTC", "grace": -1}, "grace"),
    ],
)
def test_calendars_that_cannot_be_meant(given_: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        ts.calendar_window(ts.count(), time=at_of, **given_)
    assert caught.value.code == "TT121"
    assert text in caught.value.message


# ----------------------------------------------------------------------------------- sessions whose gap varies


def gap_of(event: Event) -> float:
    return abs(event.x) * 1.5


@given(ROWS)
def test_sessions_of_gaps_that_vary_are_a_recount(rows: list[Event]) -> None:
    sessions: Any = session(collect(lambda e: e.x), gap=gap_of, max_gap=20, time=lambda e: e.ts)
    found = told(lambda events: events.through(sort(by=lambda e: e.ts)).through(sessions), rows)
    wanted: list[tuple[str, int, int, list[int]]] = []
    for key in "ab":
        until = None
        for row in sorted((row for row in rows if row.key == key), key=lambda row: row.ts):
            if until is None or row.ts > until:
                wanted.append((key, row.ts, row.ts, [row.x]))
                until = row.ts + gap_of(row)
            else:
                _, first, _, xs = wanted[-1]
                wanted[-1] = key, first, row.ts, sorted([*xs, row.x])
                until = max(until, row.ts + gap_of(row))
    one = [(key, second(s.start), second(s.end), s.value) for (_, key), ones in found.items() for s in ones]
    assert sorted(one) == sorted(wanted)


def second(time: dt.datetime) -> int:
    return int((time - ZERO).total_seconds())


def test_when_a_session_of_gaps_that_vary_is_over() -> None:
    rows = [Event("a", 1, 6), Event("a", 3, 1), Event("a", 12, 0)]
    sessions = session(Total(), gap=lambda e: e.x, max_gap=9, time=lambda e: e.ts)
    found = told(lambda events: events.through(sort(by=lambda e: e.ts)).through(sessions), rows)
    at = ZERO + dt.timedelta(seconds=12)
    assert found == {
        (10, "a"): [Session(ZERO + dt.timedelta(seconds=1), ZERO + dt.timedelta(seconds=3), 7)],
        (15, "a"): [Session(at, at, 0)],
    }


def test_laws_and_deployments_of_sessions_whose_gap_varies() -> None:
    op: Any = VaryingSessionWindow(Mean(), gap_of, 2**60, lambda e: e.ts, "s")
    events = st.builds(Event, st.just("a"), st.integers(0, 30), st.integers(-9, 9))
    check_laws(op, types=(str, Event), items=st.tuples(st.sampled_from("ab"), events), max_examples=some(20))
    flow = Dataflow("deployed")
    ordered = source(flow).through(sort(by=lambda e: e.ts))
    flow.sink("out", ordered.through(session(Total(), gap=gap_of, max_gap=20, time=lambda e: e.ts)))
    assert check_deployments(flow, rows={"events": ROWS}, max_examples=some(10))


def test_gaps_that_cannot_be_meant() -> None:
    with pytest.raises(UsageError, match="without max_gap") as caught:
        ts.session(ts.count(), gap=gap_of, time=at_of)
    assert caught.value.code == "TT121"
    with pytest.raises(UsageError, match="max_gap with a gap of one length"):
        ts.session(ts.count(), gap=3, max_gap=3, time=at_of)
    with pytest.raises(OperatorFailed, match=r"gap gave 13\.5 s, which is not from 0 to max_gap, 2 s"):
        told(
            lambda events: events.through(sort(by=lambda e: e.ts)).through(
                session(Total(), gap=gap_of, max_gap=2, time=lambda e: e.ts)
            ),
            [Event("a", 1, 9)],
        )
