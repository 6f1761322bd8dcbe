"""Markers as runs: a sequence of markers that costs what its ranges do; and streams with long pauses, which are like tuples."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from tracetypes import Item, Marker, Trace
from tracetypes import elements as elements_module
from tracetypes.edges import EdgeType
from tracetypes.elements import Elements, elements, pieces
from tracetypes.marker_runs import NO_MARKERS, MarkerRuns, runs_of
from tracetypes.trace import blocks, closed, stream_type

RANGES = st.builds(
    lambda start, count, step: range(start, start + count * step, step),
    st.integers(-30, 60),
    st.integers(0, 20),
    st.sampled_from([1, 2, 3, 4, 5, 7, 12]),
)
SOME = st.lists(RANGES, max_size=5)
TIMES = st.integers(-40, 320)


def plain(ranges: list[range]) -> list[int]:
    """All of them, one by one."""
    return sorted({marker for one in ranges for marker in one})


@given(SOME, SOME, TIMES, st.integers(1, 9), st.integers(-9, 9), st.integers(-9, 9), st.integers(-9, 9))
def test_runs_are_the_markers(
    ranges: list[range], others: list[range], time: int, size: int, offset: int, start: int, stop: int
) -> None:
    runs, whole = MarkerRuns(ranges), plain(ranges)
    assert list(runs) == whole
    assert (len(runs), bool(runs), runs == whole) == (len(whole), bool(whole), True)
    assert [runs[at] for at in range(-len(whole), len(whole))] == whole * 2
    assert list(runs[start:stop]) == whole[start:stop]
    assert list(runs[::-2]) == sorted(whole[::-2])
    assert (time in runs, runs.count(time)) == (time in whole, int(time in whole))
    assert runs.next(time) == min((one for one in whole if one >= time), default=None)
    assert runs.before(time) == max((one for one in whole if one < time), default=None)
    assert list(runs.up_to(time)) == [one for one in whole if one <= time]
    assert list(runs.after(time)) == [one for one in whole if one > time]
    assert list(runs.on_grid(size, offset)) == [one for one in whole if (one - offset) % size == 0]
    union = runs | MarkerRuns(others)
    assert list(union) == plain([*ranges, *others])
    assert (runs == MarkerRuns(others)) == (whole == plain(others))
    for again in (runs_of(whole), MarkerRuns(runs.ranges), pickle.loads(pickle.dumps(runs))):
        assert again == runs
        assert hash(again) == hash(runs)


def test_a_billion_markers_are_a_few_numbers() -> None:
    second = 1_000_000
    runs = MarkerRuns((range(0, 10**9 * second, second), range(0, 10**9 * second, 7 * second), range(3, 10**15, 2 * second)))
    assert len(runs) == 10**9 + (10**15 - 3 + 2 * second - 1) // (2 * second)
    assert runs[10**9] in runs
    assert len(pickle.dumps(runs)) < 1_000
    assert len(runs.parts) < 5
    assert repr(runs).startswith("MarkerRuns(1,500,000,000 from 0 to")
    assert not NO_MARKERS.up_to(3)
    assert NO_MARKERS.next(0) is None


# ------------------------------------------------------------------------------------------------- streams

STREAM = stream_type(EdgeType(False, str, int))


@contextmanager
def long_from(count: int) -> Iterator[None]:
    """So many markers are kept as a run."""
    with mock.patch.object(elements_module, "LONG", count):
        yield


PARTS = st.lists(st.sampled_from("ab") | st.integers(1, 6), max_size=9)


def streams(parts: list[Any]) -> tuple[tuple[Any, ...], Any]:
    """A stream as a tuple and as elements: texts are items, numbers how many markers follow."""
    some: list[Any] = []
    kept: list[Any] = []
    time = 0
    for part in parts:
        if isinstance(part, str):
            some.append(Item(part, time))
            kept.append(Item(part, time))
        else:
            runs = MarkerRuns((range(time + 1, time + part + 1),))
            some += map(Marker, runs)
            kept.append(runs)
            time += part
    return tuple(some), elements(kept)


@given(PARTS, PARTS, st.integers(-12, 30), st.integers(-12, 30), st.sampled_from([1, 2, -1, 3]))
def test_elements_are_like_a_tuple(parts: list[Any], others: list[Any], start: int, stop: int, step: int) -> None:
    with long_from(3):
        (whole, kept), (other, other_kept) = streams(parts), streams(others)
        assert (list(kept), len(kept), hash(kept), repr(kept)) == (list(whole), len(whole), hash(whole), repr(whole))
        assert kept == whole
        assert whole == kept
        assert (kept == other_kept) == (kept == other) == (whole == other_kept) == (whole == other)
        assert kept[start:stop:step] == whole[start:stop:step]
        assert [kept[at] for at in range(-len(whole), len(whole))] == [*whole, *whole]
        assert list(reversed(kept)) == list(reversed(whole))
        assert kept + other == whole + other_kept == whole + other
        for element in {*whole, *other}:
            assert (element in kept, kept.index(element) if element in kept else -1) == (
                element in whole,
                whole.index(element) if element in whole else -1,
            )


@given(PARTS, PARTS)
def test_traces_with_runs_are_the_traces(parts: list[Any], others: list[Any]) -> None:
    with long_from(3):
        (whole, kept), (other, other_kept) = streams(parts), streams(others)
        one, two = Trace(STREAM, whole), Trace(STREAM, kept)
        assert one == two
        assert hash(one) == hash(two)
        assert (one == Trace(STREAM, other_kept)) == (two == Trace(STREAM, other)) == (
            [(b.marker, sorted(map(repr, b.items))) for b in blocks(whole)]
            == [(b.marker, sorted(map(repr, b.items))) for b in blocks(other)]
        )
        assert closed(two) == closed(one)
        assert list(blocks(two.items)) == list(blocks(whole))


def test_a_long_pause_is_printed_short() -> None:
    runs = MarkerRuns((range(0, 10**15, 1_000_000),))
    long = elements([Item("a", 1), Marker(-1_000_000), runs])
    assert isinstance(long, Elements)
    assert repr(long) == "(('a', 1), #-1, #0, #1, #2, ... 999,999,994 markers ..., #999999997, #999999998, #999999999)"
    assert len(list(pieces(long))) == 3
    assert long[-1] == Marker(10**15 - 1_000_000)
    assert len(long[5:-5]) == 10**9 - 8
    assert hash(long) == hash(elements([Item("a", 1), Marker(-1_000_000), runs[:5], runs[5:]]))
    assert long == elements([Item("a", 1), Marker(-1_000_000), *map(Marker, runs[:5]), runs[5:]])
