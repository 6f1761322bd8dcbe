"""Which delay keeps the rows that a grace keeps (docs/coming_from.md). The rules of ksqlDB are those of Kafka Streams: it knows
the newest time of the rows so far, and drops a row from the windows that are closed."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

from tracetypes import Dataflow, U, Unit, check, every, interpret_rows
from tracetypes.trace import Item


@attrs.frozen
class Row:
    """A row with its number."""

    number: int
    ts: int


def late(times: list[int], period: int, delay: int) -> set[int]:
    """The numbers of the rows that are late."""
    flow = Dataflow("late")
    source = flow.source("rows", U[Unit, Row], markers=every(seconds=period, time=lambda row: row.ts, delay=delay))
    flow.sink("rows", source)
    flow.sink("late", source.late())
    traces, _ = interpret_rows(check(flow), {"rows": [Row(number, ts) for number, ts in enumerate(times)]})
    items: Any = traces["late"].items
    return {item.value.number for item in items if isinstance(item, Item)}


def dropped(times: list[int], size: int, hop: int, grace: int) -> set[int]:
    """The numbers of the rows that are in no window of ``size`` seconds that begins each ``hop`` seconds, because all of theirs
    were closed: the newest time so far was at least the end of the window and ``grace``."""
    newest, out = -1, set[int]()
    for number, ts in enumerate(times):
        newest = max(newest, ts)
        last = ts // hop * hop
        starts = [start for start in range(last - size, last + 1) if start % hop == 0 and start <= ts < start + size]
        if starts and all(start + size + grace <= newest for start in starts):
            out.add(number)
    return out


def dropped_from_sessions(times: list[int], gap: int, grace: int) -> tuple[set[int], set[int]]:
    """The numbers of the rows that are dropped, and of those that joined a session. A row belongs to the sessions within ``gap``.
    It is dropped if the end of the session with it lies more than ``gap`` and ``grace`` before the newest time."""
    newest, sessions, out, joined = -1, list[tuple[int, int]](), set[int](), set[int]()
    for number, ts in enumerate(times):
        newest = max(newest, ts)
        near = [one for one in sessions if one[0] - gap <= ts <= one[1] + gap]
        whole = min([ts, *(start for start, _ in near)]), max([ts, *(end for _, end in near)])
        if whole[1] < newest - gap - grace:
            out.add(number)
            continue
        joined.update([number] if near else [])
        sessions = [one for one in sessions if one not in near] + [whole]
    return out, joined


TIMES = st.lists(st.integers(0, 60), max_size=12)


@given(TIMES, st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(0, 9))
def test_a_delay_loses_no_row_that_a_grace_keeps(times: list[int], period: int, hops: int, sizes: int, grace: int) -> None:
    """Windows begin at markers: the period of the markers is a part of their hop."""
    hop = period * hops
    size = hop * sizes
    assert late(times, period, grace + size - period) <= dropped(times, size, hop, grace)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 9))
def test_no_smaller_delay_does(period: int, sizes: int, grace: int) -> None:
    size = period * sizes
    times = [0, size + grace - 1, 0]  # the window of the first row is still open
    delay = grace + size - period
    assert not dropped(times, size, size, grace)
    assert not late(times, period, delay)
    if delay:
        assert late(times, period, delay - 1)


@given(TIMES, st.integers(1, 4), st.integers(1, 9), st.integers(0, 9))
def test_a_delay_keeps_rows_that_are_sessions_of_their_own(times: list[int], period: int, gap: int, grace: int) -> None:
    out, joined = dropped_from_sessions(times, gap, grace)
    assert late(times, period, grace + gap) <= out | joined


@given(st.integers(1, 4), st.integers(1, 9), st.integers(0, 9), st.integers(0, 40))
def test_no_delay_keeps_each_row_that_joins_an_open_session(period: int, gap: int, grace: int, delay: int) -> None:
    times = [*range(0, delay + 3 * period + 2 * gap, gap), 0]
    out, joined = dropped_from_sessions(times, gap, grace)
    assert not out
    assert len(times) - 1 in joined
    assert late(times, period, delay) == {len(times) - 1}
