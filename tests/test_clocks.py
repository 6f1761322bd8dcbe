"""Sources with ``ahead=`` and ``per=``: one wild row does not make the others late, and each sender has a time of its own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracetypes as tt
from tracetypes import ROW_POSITION, Dataflow, O, OperatorFailed, U, UsageError, check, every
from tracetypes.arrangement import Arranged, arrange
from tracetypes.clocks import Clock
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.trial.simulate import simulate_program
from tracetypes.markers import EventTime
from tracetypes.parsing import Row
from tracetypes.stdlib import count, filter, tumbling
from tracetypes.trace import Item


@attrs.frozen
class Reading:
    device: str
    ts: int


def source_of(**options: Any) -> tuple[Dataflow, Any]:
    flow = Dataflow("clocks")
    marks = every(seconds=options.pop("period", 10), time=lambda r: r.ts, **options)
    return flow, flow.source("readings", U[str, Reading], key=lambda r: r.device, markers=marks)


def arranged(rows: Sequence[Reading], *, drain: bool = True, **options: Any) -> Arranged:
    flow, stream = source_of(**options)
    flow.sink("out", stream)
    (source,) = check(flow).graph.sources
    read = [Row("item", r.device, r, r.ts * 1_000_000, "", repr(r), r.device if "per" in options else None) for r in rows]
    return arrange(source, read, drain=drain)


def times(one: Arranged) -> list[int]:
    return sorted(item.value.ts for item in one.items if isinstance(item, Item))


def at(*seconds: int, device: str = "a") -> list[Reading]:
    return [Reading(device, time) for time in seconds]


# -------------------------------------------------------------------------------------------------- ahead=


@pytest.mark.parametrize(
    ("rows", "items", "rejects"),
    [
        ((5, 9_000, 8, 31), [5, 8, 31], [1]),
        ((5, 9_000, 9_100, 8), [5, 8], [1, 2]),
        ((5, 9_000, 50_000, 9_020), [5, 9_000, 9_020, 50_000], []),  # a real pause, however far apart they are
        ((9_000, 5, 8), [5, 8], [0]),  # the first row is the wild one
        ((9_000, 5), [5, 9_000], []),  # the input ends
        ((5, 100), [5, 100], []),
        ((5, 105, 205, 305), [5, 105, 205, 305], []),  # a hundred seconds are not too far
        ((5,), [5], []),
        ((), [], []),
    ],
)
def test_rows_that_are_too_far_ahead_wait_for_what_comes(rows: tuple[int, ...], items: list[int], rejects: list[int]) -> None:
    result = arranged(at(*rows), ahead=100)
    assert (times(result), [position for position, _ in result.rejects], result.late) == (items, rejects, ())


FAR = 1_000_000
"""A row that is further ahead than so many markers waits also without ``ahead=``."""


@pytest.mark.parametrize(
    ("rows", "items", "rejects"),
    [
        ((5, 5 + FAR, 8), [5, 5 + FAR], []),  # so far it may be; the row behind it is late
        ((5, 6 + FAR, 8, 31), [5, 8, 31], [1]),
        ((5, 6 + FAR, 9 + FAR, 9 * FAR), [5, 6 + FAR, 9 + FAR, 9 * FAR], []),
        ((5, 6 + FAR), [5, 6 + FAR], []),
        ((6 + FAR, 5), [6 + FAR], []),  # the first row waits with ahead= only
    ],
)
def test_a_jump_over_a_million_markers_waits_also_without_ahead(
    rows: tuple[int, ...], items: list[int], rejects: list[int]
) -> None:
    result = arranged(at(*rows), period=1)
    assert (times(result), [position for position, _ in result.rejects]) == (items, rejects)


def test_the_reason_says_how_far_the_row_was_ahead() -> None:
    ((_, reason),) = arranged(at(5, 9_000, 8), ahead=100).rejects
    assert reason == "its time is 8995 s ahead of the newest, #5, and a row near that came after it"


def test_a_row_that_is_far_behind_decides_nothing() -> None:
    result = arranged(at(5_000, 5_001, 9_000, 7, 9_001, 9_002), ahead=100)
    assert times(result) == [5_000, 5_001, 9_000, 9_001, 9_002]
    assert [late.value.ts for late in result.late] == [7]


def test_what_is_held_moves_no_marker_until_the_input_ends() -> None:
    assert times(arranged(at(5, 9_000), ahead=100, drain=False)) == [5]


STEPS = st.lists(st.integers(-30, 100), max_size=30)


def walk(steps: Sequence[int]) -> list[int]:
    """Times none of which is more than 100 s ahead of the newest, and none more than 30 s behind it."""
    newest, made = 1_000, [1_000]
    for step in steps:
        made.append(newest + step)
        newest = max(newest, newest + step)
    return made


@given(STEPS, st.integers(0, 40))
def test_without_wild_rows_nothing_changes(steps: list[int], delay: int) -> None:
    rows = at(*walk(steps))
    with_, without = arranged(rows, ahead=100, delay=delay), arranged(rows, delay=delay)
    assert (with_.items, with_.late, with_.rejects) == (without.items, without.late, ())


@given(STEPS, st.data())
def test_one_wild_row_is_a_reject_and_changes_nothing_else(steps: list[int], data: st.DataObject) -> None:
    plain = walk([*steps, 0])
    place = data.draw(st.integers(0, len(plain) - 1))
    wild = at(*plain[:place], 1_000_000, *plain[place:])
    result, without = arranged(wild, ahead=100), arranged(at(*plain), ahead=100)
    assert (result.items, result.late) == (without.items, without.late)
    assert [position for position, _ in result.rejects] == [place]


# ---------------------------------------------------------------------------------------------------- per=


def by_device(reading: Reading) -> str:
    return reading.device


@st.composite
def senders(draw: st.DrawFn) -> tuple[list[Reading], list[Reading]]:
    """Rows of three senders in two orders; those of each sender keep theirs, and each begins at the same time."""
    of_sender = [[Reading(name, 1_000), *at(*walk(draw(STEPS)), device=name)] for name in "abc"]

    def dealt() -> list[Reading]:
        left = [list(rows[1:]) for rows in of_sender]
        rows = [some[0] for some in of_sender]
        for which in draw(st.permutations([n for n, some in enumerate(left) for _ in some])):
            rows.append(left[which].pop(0))
        return rows

    return dealt(), dealt()


@given(senders())
def test_an_answer_does_not_depend_on_how_senders_are_mixed(orders: tuple[list[Reading], list[Reading]]) -> None:
    one, other = (arranged(rows, per=by_device) for rows in orders)
    assert times(one) == times(other)
    assert Counter((late.value, late.block) for late in one.late) == Counter((late.value, late.block) for late in other.late)


def test_a_sender_that_is_behind_loses_nothing_once_it_was_seen() -> None:
    rows = [*at(5), *at(4, device="b"), *at(500, 900), *at(17, 23, 31, device="b")]
    assert arranged(rows, per=by_device).late == ()
    assert len(arranged(rows).late) == 3


def test_a_sender_that_is_idle_is_not_waited_for_and_forgotten() -> None:
    rows = [*at(5), *at(4, device="b"), *at(50, 105), *at(6, device="b")]
    assert [late.value.ts for late in arranged(rows, per=by_device, idle=100).late] == [6]
    assert arranged(rows, per=by_device, idle=101).late == ()


def test_one_sender_with_a_wild_time_holds_only_its_own_rows() -> None:
    rows = [*at(5), *at(4, device="b"), *at(9_000, device="b"), *at(12), *at(13, device="b")]
    result = arranged(rows, per=by_device, ahead=100)
    assert ([position for position, _ in result.rejects], result.late) == ([2], ())
    assert times(result) == [4, 5, 12, 13]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 400)), max_size=60))
def test_a_clock_remembers_only_senders_that_are_not_idle(rows: list[tuple[int, int]]) -> None:
    how: EventTime = every(seconds=10, time=lambda r: r, per=lambda r: r, idle=50)
    clock: Clock[int] = Clock(how)
    for device, time in rows:
        clock.take(time * 1_000_000, device, time)
        newest = clock.devices
        assert all(max(newest.values()) - time <= 50_000_000 for time in newest.values())
        assert clock.closed is not None
        assert clock.closed >= how.frontier(min(newest.values()))


def test_a_key_of_an_ordered_source_comes_from_one_sender() -> None:
    flow = Dataflow("ordered")
    marks = every(seconds=10, time=lambda r: r.ts, per=lambda r: r.device)
    stream = flow.source("readings", O[int, Reading], key=lambda r: 1, markers=marks, ordered_by=ROW_POSITION)
    flow.sink("out", stream)
    rows = [*at(1), *at(2, device="b")]
    with pytest.raises(OperatorFailed, match="the key 1 comes from two senders") as caught:
        tt.interpret_rows(check(flow), {"readings": rows})
    assert caught.value.code == "TT205"
    with pytest.raises(OperatorFailed, match="the key 1 comes from two senders"):
        tt.run(flow, inputs={"readings": rows}, outputs={"out": []}, backend="local")


def test_idle_needs_senders() -> None:
    with pytest.raises(UsageError, match="idle= is given without per="):
        every(seconds=10, time=lambda r: r.ts, idle=5)


# ------------------------------------------------------------------------------------------------ backends


def counts(**options: Any) -> Dataflow:
    flow, stream = source_of(**options)
    flow.sink("out", stream.through(tumbling(count(), size=10)))
    return flow


def in_runs(flow: Dataflow, runs: Sequence[Sequence[Reading]], folder: Path, backend: Any) -> tuple[Counter[str], int, int]:
    """The rows of the output, and how many rows were late and rejected, if each run finds one more file."""
    inputs, late, rejects = folder / "in", 0, 0
    inputs.mkdir(parents=True)
    for number, rows in enumerate(runs):
        text = "".join(json.dumps(attrs.asdict(row)) + "\n" for row in rows)
        (inputs / f"{number}.jsonl").write_text(text)
        drain = number == len(runs) - 1
        there = {"readings": str(inputs)}
        result = tt.run(flow, inputs=there, outputs={"out": str(folder / "out")}, backend=backend, drain=drain)
        late, rejects = late + sum(result.late.values()), rejects + sum(result.rejects.values())
    lines = [line for file in sorted((folder / "out").glob("*.jsonl")) for line in file.read_text().splitlines()]
    return Counter(lines), late, rejects


CASES: dict[str, tuple[dict[str, Any], list[Reading]]] = {
    "held across runs": ({"ahead": 100}, at(5, 9_000, 8, 31, 7_000, 44, 9_000, 9_100, 9_050, 9_120)),
    "held at the end": ({"ahead": 100}, at(5, 8, 31, 7_000)),
    "without ahead": ({"period": 1}, at(5, 7 + FAR, 8, 31, 50 + FAR, 51 + FAR, 49 + FAR, 48 + FAR)),
    "without ahead, at the end": ({"period": 1}, at(5, 8, 7 + FAR, 31, 50 + FAR)),
    "by sender": (
        {"per": by_device, "idle": 200},
        [*at(5), *at(4, device="b"), *at(500), *at(17, 23, device="b"), *at(520), *at(330, 25, device="b"), *at(540)],
    ),
}


def check_runs(name: str, folder: Path, backend: Any) -> None:
    """Each row comes in a run of its own, or all come in one: the same rows."""
    options, rows = CASES[name]
    flow = counts(**options)
    whole = in_runs(flow, [rows], folder / "whole", backend)
    assert in_runs(flow, [rows[:2], rows[2:3], rows[3:]], folder / "cut", backend) == whole
    expected = arranged(rows, **options)
    assert whole[1:] == (len(expected.late), len(expected.rejects))


@pytest.mark.parametrize("name", CASES)
def test_a_clock_goes_on_in_the_next_run(name: str, tmp_path: Path) -> None:
    check_runs(name, tmp_path, "local")


def test_a_held_row_is_accepted_at_the_end_with_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    rows: list[Any] = []
    tt.run(counts(ahead=100), inputs={"readings": at(5, 9_000)}, outputs={"out": rows}, backend="local")
    assert len(rows) == 2
    assert "TT226" in capfd.readouterr().err


def is_kept(key: str, value: Reading) -> bool:
    return value.ts % 7 != 1


LONG = st.lists(st.sampled_from([0, 1, 3, -2, -30, 40, 150, 5_000]), max_size=40)


@settings(max_examples=40)
@given(LONG, st.sampled_from([100, 4_000]), st.integers(0, 20), st.integers(0, 2**16), st.booleans())
def test_splits_with_wild_rows_are_as_the_rows_in_their_order(
    steps: list[int], ahead: int, delay: int, seed: int, straight: bool
) -> None:
    """They are read without a clock, and again with one where a row needs it."""
    times, newest = list[int](), 1_000
    for step in steps:
        times.append(newest + step)
        newest = max(newest, newest + step) if step < 5_000 else newest
    flow, stream = source_of(ahead=ahead, delay=delay)
    flow.sink("out", stream.through(filter(is_kept)) if straight else stream.through(tumbling(count(), size=10)))
    rows = {"readings": at(*times)}
    traces, sides = tt.interpret_rows(check(flow), rows)
    found = simulate_program(program(check(flow), key_groups=3), rows, seed=seed)["out"]
    assert found.trace == traces["out"]
    assert (len(found.late), len(found.rejects)) == (len(sides["readings"].late), len(sides["readings"].rejects))


def check_held_in_a_stateless_flow(folder: Path, backend: Any) -> None:
    """Its rows go straight to the sink."""
    flow, stream = source_of(ahead=100)
    flow.sink("out", stream.through(filter(is_kept)))
    runs = [at(5, 9_000), at(8, 31), at(7_000)]
    rows, late, rejects = in_runs(flow, runs, folder, backend)
    assert (sum(rows.values()), late, rejects) == (3, 0, 1)


def test_a_stateless_flow_accepts_what_is_held(tmp_path: Path) -> None:
    check_held_in_a_stateless_flow(tmp_path, "local")
