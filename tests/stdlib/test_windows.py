"""Windows against a recount by time alone, and against each other; their laws; random deployments."""

from __future__ import annotations

import datetime as dt
import pickle
import sys
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stdlib.small import ROWS, Event, Largest, Mean, Number, Total, markers, source, told
from tests.strategies import some
from tracetypes import Dataflow, LawBroken, Marker, Stream, U, UsageError, check, every, in_band, merge, sort
from tracetypes.compiler.analysis.keyed import keyed_of
from tracetypes.compiler.analysis.monoids import monoid_of
from tracetypes.schemas import schema_of
from tracetypes.stdlib import both, count, evaluate, fast_sum, last, struct
from tracetypes.stdlib import max as max_
from tracetypes.stdlib import min as min_
from tracetypes.stdlib import sum as sum_
from tracetypes.stdlib.item_windows import (
    CountWindow,
    SlidingCountWindow,
    TimeWindow,
    count_window,
    time_window,
)
from tracetypes.stdlib.panes import SlidingPanes, SlidingSubtracting, SlidingTwoStacks
from tracetypes.stdlib.sessions import Session, SessionWindow, session
from tracetypes.stdlib.stacks import Stack, stack_of
from tracetypes.stdlib.time_windows import sliding, tumbling
from tracetypes.stdlib.windows import Windowed
from tracetypes.testing import check_deployments, check_laws
from tracetypes.trace import StreamType


def x_of(event: Event) -> int:
    return event.x


def second(event: Event) -> int:
    return event.ts


def own_time(event: Event) -> int:
    """Within nine seconds of that of the event's block."""
    return event.ts + event.x


def half_of(event: Event) -> float:
    return event.x / 2


def third_of(event: Event) -> float:
    return event.x / 3


def at(second: int) -> Marker:
    return Marker(second * 1_000_000)


def moment(second: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=second)


def window(start: int, end: int, value: Any) -> Windowed[Any]:
    return Windowed(moment(start), moment(end), value)


METHODS: list[Any] = ["panes", "two stacks", "subtract"]


def inside(rows: list[Event], key: str, end: int, size: int) -> list[int]:
    return [r.x for r in rows if r.key == key and end - size <= r.ts < end]


def recount(rows: list[Event], size: int, slide: int, offset: int = 0) -> dict[tuple[int, str], list[int]]:
    """The sums of all windows, straight from the times: each row says which windows it is in."""
    sums: dict[tuple[int, str], int] = {}
    for row in rows:
        first = (row.ts - size - offset) // slide + 1
        for start in range(first * slide + offset, row.ts + 1, slide):
            sums[start + size, row.key] = sums.get((start + size, row.key), 0) + row.x
    return {(end, key): [total] for (end, key), total in sums.items()}


@pytest.mark.parametrize("method", METHODS)
@given(ROWS, st.integers(1, 5), st.integers(1, 4), st.integers(-9, 9))
def test_sliding_is_the_recount(method: Any, rows: list[Event], panes: int, slide: int, offset: int) -> None:
    wanted = recount(rows, panes * 5, slide * 5, offset * 5)
    size, every_, begin = (dt.timedelta(seconds=5 * n) for n in (panes, slide, offset))
    assert told(sliding(Total(), size=size, slide=every_, offset=begin, method=method), rows) == wanted
    assert told(sliding(Total(), size=panes * 5, slide=slide * 5, offset=offset * 5, method=method), rows) == wanted
    assert told(sliding(Total(), panes=panes, slide=slide, offset=begin, method=method), rows) == wanted


@pytest.mark.parametrize("method", METHODS)
@given(ROWS, st.integers(1, 5), st.integers(-9, 9))
def test_tumbling_begins_at_multiples_of_its_size(method: Any, rows: list[Event], panes: int, offset: int) -> None:
    wanted = recount(rows, panes * 5, panes * 5, offset * 5)
    assert told(tumbling(Total(), panes=panes, offset=offset * 5, method=method), rows) == wanted
    assert told(tumbling(Total(), size=panes * 5, offset=offset * 5, method=method), rows) == wanted


@given(ROWS, st.sampled_from([1, 2.5, 5]), st.integers(1, 4))
def test_a_window_is_the_same_in_fewer_panes(rows: list[Event], seconds: float, size: int) -> None:
    windows = sliding(Total(), size=size * 5, slide=10, ends=True)
    assert told(windows, rows, seconds) == told(windows, rows)


def test_hops_begin_at_multiples_of_the_slide() -> None:
    """As in Flink, Spark and Beam: an item of second 0 is in the windows of 60 s that begin at -50, -25 and 0."""
    rows = [Event("a", 0, 1), Event("b", 200, 1)]
    found = told(sliding(Number(), size=60, slide=25, ends=True), rows)
    assert [one for (_, key), ones in found.items() if key == "a" for one in ones] == [
        window(-50, 10, 1),
        window(-25, 35, 1),
        window(0, 60, 1),
    ]


@given(ROWS, st.integers(1, 4))
def test_each_item_counts_once_in_tumbling_windows(rows: list[Event], panes: int) -> None:
    found = told(tumbling(Number(), panes=panes), rows)
    assert sum(one for told_ in found.values() for one in told_) == len(rows)


@given(ROWS)
def test_a_window_ends_at_its_marker(rows: list[Event]) -> None:
    found = told(sliding(Number(), panes=3, ends=True), rows)
    assert all(window(at - 15, at, one.value) == one for (at, _), values in found.items() for one in values)
    assert {at: [one.value for one in values] for at, values in found.items()} == told(sliding(Number(), panes=3), rows)


def test_a_key_whose_window_is_empty_again_tells_nothing_although_its_sum_was_zero() -> None:
    rows = [Event("a", 0, 0), Event("b", 40, 7)]
    assert told(sliding(Total(), panes=2), rows) == {(5, "a"): [0], (10, "a"): [0], (45, "b"): [7], (50, "b"): [7]}


def test_the_types_of_results_come_from_aggregate_and_stream() -> None:
    flow = Dataflow("types")
    events = source(flow)
    flow.sink("mean", events.through(sliding(Mean(), panes=2)))
    flow.sink("largest", events.through(sliding(Largest[Event](), panes=2)))
    flow.sink("ends", events.through(tumbling(Number(), panes=2, ends=True)))
    ordered = events.through(sort(by=lambda e: e.ts))
    flow.sink("sessions", ordered.through(session(Mean(), gap=3, time=lambda e: e.ts)))
    flow.sink("counted", ordered.through(count_window(Largest[Event](), items=3)))
    flow.sink("timed", ordered.through(time_window(Number(), size=1, time=second)))
    flow.sink("until", ordered.through(time_window(Mean(), size=1, time=second, ends=True)))
    checked = check(flow)
    found = {sink.name: str(checked.types[sink.id]) for sink in checked.graph.sinks}
    assert found == {
        "mean": "U[str, float]",
        "largest": "U[str, Event]",
        "ends": "U[str, Windowed[int]]",
        "sessions": "O[str, Session[float]]",
        "counted": "O[str, Event]",
        "timed": "O[str, int]",
        "until": "O[str, Windowed[float]]",
    }


def test_large_windows_take_the_cheaper_method() -> None:
    flow = Dataflow("methods")
    events = source(flow)
    for panes, aggregate in ((64, Total()), (65, Total()), (65, Mean())):
        some: Any = aggregate
        flow.sink(f"{panes}", events.through(sliding(some, panes=panes)))
    used = [type(node.op) for node in flow.graph.nodes if hasattr(node, "op")]
    assert used == [SlidingPanes, SlidingSubtracting, SlidingTwoStacks]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: tumbling(Total(), panes=0), "panes is 0"),
        (lambda: sliding(Total(), panes=2, slide=True), "slide is True"),
        (lambda: sliding(Total(), panes=2, period=-1, slide=2), "period is -1"),
        (lambda: sliding(Mean(), panes=2, method="subtract"), "Mean cannot take out"),
        (lambda: sliding(Mean(), panes=2, method="magic"), "method is 'magic'"),  # type: ignore[call-overload]
        (lambda: sliding(Mean(), panes=2, size=2), "both panes and size"),  # type: ignore[call-overload]
        (lambda: tumbling(Mean()), "neither panes nor size"),  # type: ignore[call-overload]
        (lambda: sliding(Mean(), size=dt.timedelta()), r"size is datetime.timedelta\(0\)"),
        (lambda: sliding(Mean(), size=2, slide=0), "slide is 0"),
        (lambda: sliding(Mean(), panes=2, slide=dt.timedelta(1)), "slide is datetime.timedelta"),  # type: ignore[call-overload]
        (lambda: sliding(Mean(), panes=2, offset="1"), "offset is '1'"),  # type: ignore[call-overload]
        (lambda: session(Mean(), gap=-1, time=lambda e: e.ts), "gap is -1"),
        (lambda: count_window(Mean(), items=0), "items is 0"),
        (lambda: count_window(Mean(), items=2, slide=0), "slide is 0"),
        (lambda: time_window(Mean(), size=0, time=second), "size is 0"),
        (lambda: time_window(Mean(), size=1, time=second, grace=-1), "grace is -1"),
    ],
)
def test_TT121_wrong_parameters_are_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        build()
    assert caught.value.code == "TT121"


def test_TT121_a_window_needs_one_period() -> None:
    flow = Dataflow("periods")
    banded = flow.source("banded", U[str, int], markers=in_band(is_marker=lambda v: v < 0, time=lambda v: -v))
    two: Stream[Any] = merge(source(flow, "five"), source(flow, "six", 6))
    for stream, build, message in (
        (two, tumbling(Number(), panes=2), "markers every 5 s and 6 s"),
        (two, tumbling(Number(), panes=2, period=30), "markers every 5 s and 6 s"),
        (two, sliding(Number(), size=30), "markers every 5 s and 6 s"),
        (source(flow, "ten", 10), tumbling(Number(), panes=2, period=5), "period is 5 s, .* send markers every 10 s"),
        (banded, tumbling(Number(), panes=2), "in band"),
        (banded, sliding(Number(), panes=2, ends=True), "in band"),
        (banded, sliding(Number(), size=2), "in band"),
    ):
        some: Any = stream
        with pytest.raises(UsageError, match=message) as caught:
            some.through(build)
        assert caught.value.code == "TT121"
    banded.through(tumbling(Number(), panes=2, period=30))
    for stream in (two, banded):
        stream.through(sliding(Number(), panes=2))


@pytest.mark.parametrize(
    ("build", "message", "fix"),
    [
        (sliding(Number(), size=60, slide=25), "slide is 25 s, and markers come every 10 s", "every 5 s"),
        (tumbling(Number(), size=dt.timedelta(milliseconds=1500)), "size is 1.5 s,", "every 1.5 s"),
        (tumbling(Number(), size=30, offset=-4), "offset is -4 s,", "every 2 s"),
        (
            sliding(Number(), size=45, slide=25, offset=5),
            "offset is 5 s and size is 45 s and slide is 25 s,",
            "every 5 s",
        ),
        (tumbling(Number(), panes=3, offset=4), "offset is 4 s,", "every 2 s"),
    ],
)
def test_TT125_windows_fit_the_period_of_the_markers(build: Any, message: str, fix: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        source(Dataflow("period"), seconds=10).through(build)
    assert caught.value.code == "TT125"
    assert f"a marker {fix}, the greatest common divisor" in str(caught.value)


# ------------------------------------------------------------------------------------------------- long windows


@pytest.mark.parametrize("method", METHODS[1:])
def test_a_window_of_thousands_of_panes_can_be_saved_and_compared(method: Any) -> None:
    flow = Dataflow("long")
    source(flow).through(sliding(Total(), panes=3 * sys.getrecursionlimit(), method=method))
    op: Any = next(node.op for node in flow.graph.nodes if hasattr(node, "op"))
    state = op.initial_state()
    for n in range(10):
        state = op.update_state(state, (1, n))
    again = pickle.loads(pickle.dumps(state))
    assert again == state
    assert op.window(again) == (10, 45)
    assert op.update_state(state, (1, 0)) != state


@given(st.lists(st.integers(), min_size=1, max_size=9))
def test_a_stack_keeps_its_old_tops(elements: list[int]) -> None:
    stack = stack_of(tuple(elements))
    assert stack is not None
    assert list(stack) == elements[::-1]
    Stack(0, stack)
    assert list(stack) == elements[::-1]


@pytest.mark.parametrize("method", ["two stacks", "subtract"])
def test_a_long_window_costs_amortised_constant_combines(method: Any) -> None:
    @attrs.frozen
    class Counting(Total):
        calls: list[int]

        def combine(self, a: int, b: int) -> int:
            self.calls[0] += 1
            return a + b

    def spent(panes: int) -> int:
        aggregate = Counting([0])
        flow = Dataflow("spent")
        source(flow).through(sliding(aggregate, panes=panes, method=method))
        op: Any = next(node.op for node in flow.graph.nodes if hasattr(node, "op"))
        state = op.initial_state()
        for n in range(1000):
            state = op.update_state(state, (1, n))
            op.window(state)
        return aggregate.calls[0]

    assert max(map(spent, (10, 100, 300))) <= 3 * 1000


# ------------------------------------------------------------------------------------------------- sessions, counts


def sessions(rows: list[Event], gap: int) -> list[Session[int]]:
    """The sessions of one key, straight from the sorted times."""
    found: list[list[Event]] = []
    for row in sorted(rows, key=lambda r: r.ts):
        if found and row.ts - found[-1][-1].ts <= gap:
            found[-1].append(row)
        else:
            found.append([row])
    return [Session(moment(s[0].ts), moment(s[-1].ts), sum(r.x for r in s)) for s in found]


@given(ROWS, st.integers(0, 12))
def test_sessions_are_the_recount(rows: list[Event], gap: int) -> None:
    lasting = dt.timedelta(seconds=gap)

    def build(events: Stream[U[str, Event]]) -> Stream[Any]:
        return events.through(sort(by=lambda e: e.ts)).through(session(Total(), gap=lasting, time=lambda e: e.ts))

    found = told(build, rows)
    for key in "ab":
        wanted = sessions([r for r in rows if r.key == key], gap)
        assert [s for (_, k), values in found.items() if k == key for s in values] == wanted
        for (at, k), values in found.items():
            assert k != key or all(s.end < moment(at) for s in values), "told in the block that the next item is in"


@given(ROWS, st.integers(1, 4))
def test_count_windows_are_the_recount(rows: list[Event], items: int) -> None:
    def build(events: Stream[U[str, Event]]) -> Stream[Any]:
        return events.through(sort(by=lambda e: e.ts)).through(count_window(Total(), items=items))

    found = told(build, rows)
    for key in "ab":
        xs = [r.x for r in sorted(rows, key=lambda r: (r.ts, r.x)) if r.key == key]
        wanted = [sum(xs[at : at + items]) for at in range(0, len(xs) - items + 1, items)]
        assert [x for (_, k), values in found.items() if k == key for x in values] == wanted


@given(ROWS, st.integers(1, 5), st.integers(1, 7), st.sampled_from([Total(), Mean(), sum_(of=third_of), last(by=x_of)]))
def test_sliding_count_windows_are_the_recount(rows: list[Event], items: int, slide: int, aggregate: Any) -> None:
    op = count_window(aggregate, items=items, slide=slide)
    found = told(lambda events: events.through(sort(by=second)).through(op), rows)
    for key in "ab":
        here = [r for r in sorted(rows, key=lambda r: (r.ts, r.x)) if r.key == key]
        wanted = [evaluate(aggregate, here[max(0, at - items) : at]) for at in range(slide, len(here) + 1, slide)]
        assert [x for (_, k), values in found.items() if k == key for x in values] == wanted


def test_a_long_count_window_costs_amortised_constant_combines() -> None:
    calls = []

    @attrs.frozen
    class Counting(Total):
        def combine(self, a: int, b: int) -> int:
            calls.append(1)
            return a + b

    op: SlidingCountWindow[str, Event, int, int] = SlidingCountWindow(Counting(), 100, 1)
    state, heard = op.initial_state(), list[int]()
    for n in range(1000):
        state = op.on_item(state, "a", Event("a", 0, n), heard.append)
    assert heard[-1] == sum(range(900, 1000))
    assert len(calls) <= 3 * 1000


def windows(rows: list[Event], size: int, grace: int, offset: int) -> dict[tuple[int, str], list[Windowed[float]]]:
    """Sums of thirds, added up in order, of windows by :func:`own_time`, straight from the times: a row counts unless a marker
    between the key's first block and its own was behind the end of its window."""
    found: dict[tuple[int, str], list[Windowed[float]]] = {}
    for key in "ab":
        here = [(r, r.ts // 5 * 5 + 5) for r in sorted(rows, key=lambda r: (r.ts, r.x)) if r.key == key]
        first = min((block for _, block in here), default=0)
        sums: dict[tuple[int, int], float] = {}
        for row, block in here:
            end = (own_time(row) - offset) // size * size + size + offset
            due = max(first, -(-(end + grace) // 5) * 5)
            if block <= due:
                sums[due, end] = sums.get((due, end), 0.0) + row.x / 3
        for (due, end), total in sorted(sums.items()):
            if due in markers(rows, silent=-(-(size + grace) // 5)):  # own times may lie ahead of their markers
                found.setdefault((due, key), []).append(window(end - size, end, total))
    return found


@given(ROWS, st.integers(1, 20), st.integers(0, 12), st.integers(-30, 30))
def test_time_windows_are_the_recount(rows: list[Event], size: int, grace: int, offset: int) -> None:
    lasting = dt.timedelta(seconds=size)
    op = time_window(fast_sum(third_of), size=lasting, time=own_time, grace=grace, offset=offset, ends=True)
    found = told(lambda events: events.through(sort(by=second)).through(op), rows)
    assert found == windows(rows, size, grace, offset)
    ends = [(key, one.end) for (_, key), ones in sorted(found.items()) for one in ones]
    assert len(ends) == len(set(ends)), "each window is told once"


def test_windows_of_one_marker_are_told_in_their_order() -> None:
    windows = time_window(Number(), size=1, time=own_time, ends=True)
    found = told(lambda events: events.through(sort(by=second)).through(windows), [Event("a", 0, 4), Event("a", 1, 0)])
    assert found == {(5, "a"): [window(1, 2, 1), window(4, 5, 1)]}


def test_an_item_whose_window_was_told_is_dropped() -> None:
    rows = [Event("a", 1, 0), Event("a", 11, -9), Event("a", 11, -3), Event("b", 11, -9), Event("a", 26, 0)]

    def counted(grace: int) -> dict[tuple[int, str], list[Any]]:
        windows = time_window(Number(), size=5, time=own_time, grace=grace, ends=True)
        return told(lambda events: events.through(sort(by=second)).through(windows), rows)

    first, second_, last = (window(end - 5, end, 1) for end in (5, 10, 30))
    assert counted(0) == {(5, "a"): [first], (15, "b"): [first], (30, "a"): [last]}
    assert counted(5) == {(10, "a"): [first], (15, "a"): [second_], (15, "b"): [first], (35, "a"): [last]}
    assert counted(10) == {(15, "a"): [window(0, 5, 2)], (15, "b"): [first], (20, "a"): [second_], (40, "a"): [last]}


def test_a_run_may_go_on_with_another_grace_and_tells_no_window_again() -> None:
    heard: list[Any] = []
    short: TimeWindow[str, Event, Windowed[int], int] = TimeWindow(Number(), 5_000_000, 0, own_time, "s", True)
    long = attrs.evolve(short, grace=20_000_000)
    assert short.may_change == ("grace",)
    state = short.on_marker(
        short.on_item(short.initial_state(), "a", Event("a", 1, 0), heard.append), "a", at(5), heard.append
    )
    for ts, marker in ((8, 10), (3, 15), (26, 30)):
        state = long.on_marker(long.on_item(state, "a", Event("a", ts, 0), heard.append), "a", at(marker), heard.append)
    assert heard == [window(0, 5, 1), window(5, 10, 1)]


# ------------------------------------------------------------------------------------------------- laws, deployments


@attrs.frozen
class Range:
    low: int
    high: float
    n: int


def scaled(count: int, most: int) -> int:
    return count * most


OPERATORS: list[Any] = [
    SlidingPanes(Total(), 3),
    SlidingPanes(Mean(), 2, 2, 5_000_000, True),
    SlidingPanes(Mean(), 3, 2, 5_000_000, True, 5_000_000),
    SlidingTwoStacks(Mean(), 3),
    SlidingTwoStacks(Largest[int](), 1, 2, 5_000_000),
    SlidingSubtracting(Total(), 3),
    SessionWindow(Total(), 5_000_000, second, "s"),
    SessionWindow(sum_(of=half_of), 5_000_000, second, "s"),
    SessionWindow(last(by=x_of), 5_000_000, second, "s"),
    CountWindow(Mean(), 3),
    CountWindow(sum_(of=half_of), 2),
    CountWindow(last(by=x_of), 2),
    SlidingCountWindow(Mean(), 3, 1),
    SlidingCountWindow(sum_(of=half_of), 4, 2),
    SlidingCountWindow(last(by=x_of), 2, 3),
    TimeWindow(Mean(), 2_000_000, 1_000_000, own_time, "s", True),
    TimeWindow(fast_sum(third_of), 3_000, 0, own_time, "ms", False),
    TimeWindow(last(by=x_of), 5_000_000, 0, second, "s", False, 1_000_000),
]


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: f"{type(op).__name__}-{type(op.aggregate).__name__}")
def test_laws(op: Any) -> None:
    types = (str, int if isinstance(op.aggregate, Largest) else Event)
    timed = isinstance(op, SessionWindow | TimeWindow) and op.time is second
    check_laws(op, types=types, max_examples=some(60), time=second if timed else None)


def test_a_window_over_an_unlawful_aggregate_is_found() -> None:
    @attrs.frozen
    class Last(Total):
        def combine(self, a: int, b: int) -> int:
            return b

    with pytest.raises(LawBroken):
        check_laws(SlidingPanes(Last(), 3), types=(str, Event))


@pytest.mark.parametrize(
    "build",
    [
        sliding(Mean(), panes=3, ends=True),
        sliding(sum_(of=x_of), panes=3, ends=True),
        tumbling(count(), size=10, offset=5, ends=True),
        tumbling(Total(), panes=2, method="two stacks"),
        sliding(Total(), panes=3, method="subtract"),
        lambda events: events.through(sort(by=second)).through(session(Total(), gap=6, time=second)),
        lambda events: events.through(sort(by=second)).through(count_window(Mean(), items=2)),
        lambda events: events.through(sort(by=second)).through(count_window(fast_sum(third_of), items=3, slide=1)),
        lambda events: events.through(sort(by=second)).through(
            time_window(fast_sum(third_of), size=4, time=own_time, grace=3)
        ),
    ],
    ids=["sliding", "columns", "columns, tumbling", "two stacks", "subtract", "session", "count", "last items", "time"],
)
def test_every_deployment_tells_the_same(build: Any) -> None:
    flow = Dataflow("deployed")
    events = flow.source("events", U[str, Event], markers=every(seconds=5, time=second, delay=20), key=lambda e: e.key)
    flow.sink("out", events.through(build))
    assert check_deployments(flow, rows={"events": ROWS}, max_examples=12) > 3


@pytest.mark.parametrize(
    ("aggregate", "to"),
    [
        (count(), int),
        (sum_(of=x_of), int),
        (max_(of=x_of), int),
        (min_(of=half_of), float),
        (struct(Range, low=min_(of=x_of), high=max_(of=half_of), n=count()), Range),
        (both(count(), max_(of=x_of), scaled), int),
    ],
    ids=["count", "sum", "max", "min", "struct", "both"],
)
@pytest.mark.parametrize(("panes", "slide", "ends"), [(1, 1, False), (6, 6, True), (64, 1, True), (7, 3, False)])
def test_windows_in_a_tuple_run_as_columns(aggregate: Any, to: Any, panes: int, slide: int, ends: bool) -> None:
    """The compiler recognises their monoid and traces what they do with it."""
    op: Any = SlidingPanes(aggregate, panes, slide, 5_000_000 if slide > 1 or ends else None, ends, 5_000_000)
    key, value = schema_of(str), schema_of(Event)
    gives = StreamType(False, key, schema_of(Windowed[to] if ends else to))
    assert keyed_of(op, monoid_of(op, key, value), key, gives).update is not None
