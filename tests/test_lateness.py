"""What is said of a run of which many rows are late."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pyarrow as pa
import pytest

from tracetypes import Dataflow, RunError, U, check, every
from tracetypes.compiler.backend.lateness import LateWatch
from tracetypes.compiler.backend.summary import Limits, Summary, counter
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.runtime.messages import SideRows
from tracetypes.compiler.runtime.side_rows import Lateness
from tracetypes.compiler.store.metrics import Batch
from tracetypes.markers import EventTime


@attrs.frozen
class Click:
    ts: int


def watched(orders: Mapping[str, str], said: list[str]) -> LateWatch:
    flow = Dataflow("late")
    markers = every(seconds=10, delay=5, time=lambda value: value.ts)
    flow.sink("out", flow.source("clicks", U[str, Click], markers=markers))
    return LateWatch.of(program(check(flow)), orders, said.append)


def batch(number: int, rows: int, late: int, lateness: Lateness | None = None) -> Batch:
    """A micro-batch."""
    known = {} if lateness is None else {"clicks": lateness}
    return Batch(number, rows, 1, None, {"clicks": late} if late else {}, {}, 0.1, read={"clicks": rows}, lateness=known)


def told(batches: list[Batch], orders: Mapping[str, str] | None = None) -> list[str]:
    """What is said in a run of these, and at its end."""
    said: list[str] = []
    watch, summary = watched(orders or {}, said), Summary()
    count = counter(summary, None, None, look=watch.look)
    for one in batches:
        count(one)
    watch.end(summary)
    return said


BEHIND = Lateness(rows=200, own=10, behind=3_000_000)


def test_TT242_is_told_once() -> None:
    """At the end again only if something else would have helped by then."""
    said = told([batch(0, 1_000, 0), batch(1, 1_000, 200, BEHIND), batch(2, 1_000, 100, BEHIND)], {"clicks": "modified"})
    assert said == [
        "TT242 warning: 200 of 2,000 rows of source 'clicks' are late so far (10.0%)\n"
        "    because:  newer rows lie in files before theirs; the files are read by modification time\n"
        "    fix:      --order clicks=time reads the files by the times in them; "
        "every(..., delay=18) keeps all of them (it is 5); --max-late 0.01 stops such a run; "
            "if one row with a wild time made the others late, every(..., ahead=SPAN) holds such rows back",
    ]
    later = attrs.evolve(BEHIND, behind=BEHIND.behind + 60_000_000)
    first, last = told([batch(0, 1_000, 0), batch(1, 1_000, 200, BEHIND), batch(2, 1_000, 100, later)], {"clicks": "modified"})
    assert "delay=18) keeps all of them" in first
    assert "300 of 3,000 rows of source 'clicks' are late in the whole run" in last
    assert "delay=78) keeps all of them" in last


def test_TT226_a_row_that_is_far_ahead() -> None:
    jump = "clicks", (0, 5_000_000 * 10_000_000, '{"key": "a", "value": {"ts": 50000000}}')
    assert told([attrs.evolve(batch(0, 10, 0), jumps=(jump,))]) == [
        "TT226 warning: event time of source 'clicks' jumps from 1970-01-01 00:00:00Z to 1971-08-02 16:53:20Z, over "
        "5,000,000 markers\n"
        '    at:       {"key": "a", "value": {"ts": 50000000}}\n'
        "    because:  the row is so much newer than all before it; rows of the time between are late from here on\n"
        "    fix:      nothing, if it was a pause; otherwise correct the row, or the unit of every(unit=...)"
    ]


def test_few_late_rows_are_told_at_the_end_only() -> None:
    assert [text.split("(")[0] for text in told([batch(0, 10, 3)] * 2)] == [
        "TT242 warning: 6 of 20 rows of source 'clicks' are late in the whole run "
    ]


def test_one_in_a_hundred_is_nothing() -> None:
    assert told([batch(0, 20_000, 200, BEHIND)]) == []
    assert len(told([batch(0, 20_000, 201, BEHIND)])) == 1


@pytest.mark.parametrize(
    ("orders", "known", "because", "has_order"),
    [
        ({"clicks": "name"}, Lateness(200, 150, 1), "in their own file or partition", False),
        ({"clicks": "name"}, Lateness(200, 50, 1), "the files are read by name", True),
        ({"clicks": "time"}, Lateness(200, 50, 1), "the files are read by the least time in them", False),
        ({}, Lateness(200, 50, 1), "newer rows lie before them\n", False),
        ({"clicks": "name"}, None, "newer rows lie before them\n", False),
    ],
)
def test_the_likely_cause(orders: Mapping[str, str], known: Lateness | None, because: str, has_order: bool) -> None:
    text = told([batch(0, 400, 200, known)], orders)[-1]
    assert because in text
    assert ("--order" in text, "delay=" in text) == (has_order, known is not None)


def test_a_source_that_is_read_twice_counts_once() -> None:
    summary = Summary(readings={"clicks": 2})
    said: list[str] = []
    watch = watched({}, said)
    counter(summary, None, None, look=watch.look)(batch(0, 400, 110))
    assert "110 of 200 rows" in said[0]


def test_the_delay_that_is_told_would_have_done() -> None:
    """For each late row: with that delay its block is open still."""
    how = EventTime(10, 3, lambda value: 0, "us")
    for newest in range(0, 90):
        for time in range(0, newest):
            block, closed = how.block(time), how.frontier(newest)
            if block <= closed:
                known, columns = Lateness(), {"block": [block], "closed": [closed], "own": [True]}
                known.add(SideRows("late", "s", 0, (0, 0, 0), pa.record_batch(columns)))
                enough = attrs.evolve(how, delay=known.behind + how.period + how.delay)
                assert block > enough.frontier(newest)
                assert (known.rows, known.own) == (1, 1)


def test_TT217_a_part_of_the_rows() -> None:
    summary = Summary(read={"clicks": 100, "views": 100}, late={"clicks": 3})
    Limits(late=0.015).check(summary)
    Limits(late=3).check(summary)
    with pytest.raises(RunError, match=r"TT217 3 of 200 rows were late \(1.5%\), and at most 0.01 of them may be"):
        Limits(late=0.01).check(summary)
