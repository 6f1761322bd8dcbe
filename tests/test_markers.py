"""Markers: event times, blocks and frontiers (design, corners 5, 9 and 10)."""

import datetime as dt
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes import UsageError, every, in_band
from tracetypes.markers import EventTime, InBand, Marker, TimeUnit, micros_from

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("micros", "seconds", "text"),
    [
        (0, 0, "#0"),
        (10_000_000, 10, "#10"),
        (1_500_000, 1, "#1.5"),
        (-1, -1, "#-0.000001"),
        (-10_000_000, -10, "#-10"),
        (1_700_000_000_123_456, 1_700_000_000, "#1700000000.123456"),
    ],
)
def test_a_marker(micros: int, seconds: int, text: str) -> None:
    marker = Marker(micros)
    assert (marker.timestamp, repr(marker)) == (seconds, text)
    assert marker.datetime == dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)


def test_markers_are_ordered_by_time() -> None:
    assert Marker(1) < Marker(2)
    assert Marker(2) == Marker(2)
    assert max(Marker(-5), Marker(3)) == Marker(3)


@pytest.mark.parametrize(
    ("time", "unit", "micros"),
    [
        (5, "s", 5_000_000),
        (5, "ms", 5_000),
        (5, "us", 5),
        (1.5, "s", 1_500_000),
        (-0.0000005, "s", 0),
        (1_700_000_000.123457, "s", 1_700_000_000_123_457),
        (NOON, "ms", 1_767_268_800_000_000),
        (NOON.astimezone(dt.timezone(dt.timedelta(hours=5))), "s", 1_767_268_800_000_000),
    ],
)
def test_times(time: Any, unit: TimeUnit, micros: int) -> None:
    assert micros_from(time, unit) == micros


@pytest.mark.parametrize(
    ("time", "message"),
    [
        (None, "the time is None, expected a number or a datetime"),
        ("5", "the time is '5', expected a number or a datetime"),
        (True, "the time is True, expected a number or a datetime"),
        (dt.date(2026, 1, 1), "the time is datetime.date(2026, 1, 1), expected a number or a datetime"),
        (math.nan, "the time is nan"),
        (math.inf, "the time is inf"),
        (dt.datetime(2026, 1, 1), "the time datetime.datetime(2026, 1, 1, 0, 0) has no time zone"),
        (10**15, "the time 1000000000000000 s is beyond the year 148,000: is the unit right?"),
        (-(10**15), "the time -1000000000000000 s is beyond the year 148,000: is the unit right?"),
        (1e305, "the time 1e+305 s is beyond the year 148,000: is the unit right?"),
    ],
)
def test_what_is_no_time(time: Any, message: str) -> None:
    with pytest.raises(ValueError, match="the time") as caught:
        micros_from(time, "s")
    assert str(caught.value) == message


@given(st.integers(-(10**15), 10**15), st.integers(1, 10**9), st.integers(0, 10**9))
def test_blocks_and_frontiers(time: int, period: int, delay: int) -> None:
    how = EventTime(period, delay, lambda value: value, "us")
    block, frontier = how.block(time), how.frontier(time)
    assert block % period == 0
    assert block - period <= time < block  # the first multiple after the time
    assert frontier % period == 0
    assert frontier <= time - delay < frontier + period  # the last multiple that the newest item allows
    assert frontier < block  # no item is late by its own time
    assert how.block(time - delay) > frontier  # nor one that is within the delay


def test_the_time_of_a_value() -> None:
    def time(value: dict[str, int]) -> int:
        return value["t"]

    assert every(seconds=1, time=time, unit="ms").time_of({"t": 5}) == 5_000
    assert in_band(is_marker=bool, time=time).time_of({"t": 5}) == 5_000_000


def test_every() -> None:
    def time(value: Any) -> int:
        return 0

    assert every(seconds=10, time=time) == EventTime(10_000_000, 0, time, "s")
    assert every(seconds=0.5, time=time, delay=1.25, unit="us") == EventTime(500_000, 1_250_000, time, "us")
    minute, odd = dt.timedelta(minutes=1), dt.timedelta(days=20_000, microseconds=1)
    assert every(seconds=minute, delay=odd, time=time) == EventTime(60_000_000, 20_000 * 86_400_000_000 + 1, time, "s")
    assert in_band(is_marker=bool, time=time, unit="ms") == InBand(bool, time, "ms")


def nothing(value: Any) -> int:
    return 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda: every(seconds=0, time=nothing),
            "TT115 seconds is 0\n    fix:      give seconds as a number of seconds or a timedelta, ",
        ),
        (lambda: every(seconds=-1, time=nothing), "TT115 seconds is -1\n"),
        (lambda: every(seconds=1e-7, time=nothing), "TT115 seconds is 1e-07\n"),
        (lambda: every(seconds=math.nan, time=nothing), "TT115 seconds is nan\n"),
        (lambda: every(seconds=math.inf, time=nothing), "TT115 seconds is inf\n"),
        (lambda: every(seconds=1e305, time=nothing), "TT115 seconds is 1e+305\n"),
        (lambda: every(seconds=True, time=nothing), "TT115 seconds is True\n"),
        (lambda: every(seconds=dt.timedelta(), time=nothing), "TT115 seconds is datetime.timedelta(0)\n"),
        (
            lambda: every(seconds=dt.timedelta(days=999_999_999), time=nothing),
            "TT115 seconds is datetime.timedelta(days=999999999)\n",
        ),
        (lambda: every(seconds="1", time=nothing), "TT115 seconds is '1'\n"),  # type: ignore[arg-type]
        (
            lambda: every(seconds=1, delay=-1, time=nothing),
            "TT115 delay is -1\n    fix:      give delay as a number of",
        ),
        (lambda: every(seconds=1, delay=None, time=nothing), "TT115 delay is None\n"),  # type: ignore[arg-type]
        (lambda: every(seconds=1, unit="m", time=nothing), 'TT115 unit is \'m\'\n    fix:      use "s", "ms" or "us"'),  # type: ignore[arg-type]
        (lambda: in_band(is_marker=bool, time=nothing, unit="h"), "TT115 unit is 'h'\n"),  # type: ignore[call-overload]
    ],
)
def test_TT115_what_cannot_be_meant(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        wrong()
    said, _, fix = message.partition("\n")
    first, line, *_ = str(caught.value).splitlines()
    assert first == said
    assert re.match(r"    line:     .*test_markers\.py:\d+: ", line)
    assert fix in str(caught.value)
    assert caught.value.code == "TT115"
