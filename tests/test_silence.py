"""The silence behind the end of a source: what it is, how far it goes, and that every deployment answers in it alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracetypes
from tests.graphs import Alarm, Announce, Heartbeat, Total, above_thousand, is_thousand
from tracetypes import (
    Dataflow,
    Item,
    LawBroken,
    Marker,
    OpKeyedOrdered,
    OpKeyedUnordered,
    Stream,
    U,
    check,
    every,
    in_band,
    interpret_rows,
    merge,
    sort,
    stdlib,
)
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.runtime import empty_blocks
from tracetypes.compiler.runtime.messages import Markers, Message
from tracetypes.compiler.runtime.operators import UnorderedState
from tracetypes.compiler.runtime.stage import StageKernel
from tracetypes.compiler.store.open_keys import _keys_waiting
from tracetypes.compiler.trial.simulate import simulate_program
from tracetypes.compiler.wire.messages import decode, encode
from tracetypes.silence import (
    blocks_of,
    cut,
    emitted_in,
    markers_in,
    needs,
    periods_in,
    ranges_of,
    read_ranges,
    shown_ranges,
    split_at,
    unrolled,
)
from tracetypes.stdlib.panes import SlidingPanes
from tracetypes.templates import Coarser, Linger
from tracetypes.testing import check_laws, laws
from tracetypes.trace import Element

SECOND = 1_000_000


def at(seconds: int, delay: int = 0) -> Any:
    """Markers every so many seconds of rows that are their own time."""
    return every(seconds=seconds, time=lambda value: value, delay=delay)


def seconds_of(elements: Sequence[Element]) -> list[Any]:
    """A trace at a sink for a person: items as pairs, markers as seconds."""
    return [one.timestamp if isinstance(one, Marker) else (one.key, one.value) for one in elements]


def answer(flow: Dataflow, **rows: list[tuple[str, int]]) -> dict[str, list[Any]]:
    """The traces at the sinks; the adversary agrees with some seeds and widths."""
    checked = check(flow)
    traces, _ = interpret_rows(checked, rows)
    for seed in range(4):
        compiled = program(checked, parallelism=1 + seed % 3, key_groups=3 + seed % 2)
        found = simulate_program(compiled, rows, seed=seed)
        assert {name: found[name].trace for name in traces} == traces, f"seed {seed}"
    return {name: seconds_of(trace.items) for name, trace in traces.items()}


def chain(op: Callable[[Stream[Any]], Stream[Any]], seconds: int = 1) -> Dataflow:
    """A source, one operator and a sink."""
    flow = Dataflow("chain")
    flow.sink("out", flow.source("in", U[str, int], markers=at(seconds)).through(sort(by=lambda v: v)).through(op))
    return flow


# ------------------------------------------------------------------------------------------------- ranges


ranges = st.builds(lambda start, step, count: range(start, start + step * count, step), *[st.integers(1, 40)] * 3)
silences = st.lists(ranges, max_size=3).map(tuple)


@given(silences, st.integers(-1, 500))
def test_a_silence_is_split_where_it_is_said(silence: tuple[range, ...], last: int) -> None:
    before, after = split_at(silence, last)
    whole = sorted({marker for one in silence for marker in one})
    assert markers_in(silence) == whole
    assert markers_in(before) == [marker for marker in whole if marker <= last]
    assert markers_in(after) == [marker for marker in whole if marker > last]
    assert read_ranges(shown_ranges(silence)) == silence


@given(silences, st.integers(0, 5) | st.integers(0, 100).map(lambda n: timedelta(microseconds=n)))
def test_an_operator_lingers_in_each_part_of_a_silence(silence: tuple[range, ...], linger: Linger) -> None:
    last = emitted_in(silence, linger)
    ends = [one[:count][-1] for one in silence if (count := blocks_of(linger, one.step))]
    assert last == max(ends, default=None)
    if isinstance(linger, timedelta) and last is not None:
        lasting = linger // timedelta(microseconds=1)
        for one in silence:  # an operator that waits so long is asked, or the silence ends before
            assert last >= min(one.start - one.step + lasting, one[-1])


@given(silences, st.dictionaries(st.integers(1, 40), st.integers(0, 9)))
def test_an_edge_gets_as_much_as_it_needs(silence: tuple[range, ...], need: dict[int, int]) -> None:
    left = {one.step: len(one) for one in cut(silence, need)}
    for one in silence:
        assert left.get(one.step, 0) <= max(need.get(one.step, 0), 0)


@given(st.sets(st.integers(0, 60)).map(sorted))
def test_markers_travel_as_ranges(markers: list[int]) -> None:
    assert [marker for one in ranges_of(markers) for marker in one] == markers
    message = Message(3, Markers(1, markers, True, (range(70, 90, 5),)))
    assert decode(*encode(message)) == message


def test_a_day_of_seconds_is_a_few_numbers() -> None:
    day = [second * SECOND for second in range(86_400)]
    assert len(ranges_of(day)) == 1
    _, _, header, _ = encode(Message(0, Markers(0, day, True, (range(0, 10**15, SECOND),))))
    assert len(header) < 200


# ------------------------------------------------------------------------------------------------- what edges need


def edges(flow: Dataflow) -> dict[str, dict[int, int]]:
    """What the edge into each sink's operator, or sink, needs."""
    steps = unrolled(check(flow).graph)
    found = needs(steps, periods_in(steps))
    return {f"{up}-{down}": dict(need) for (up, down), need in sorted(found.edges.items())}


def test_without_lingering_no_edge_needs_silence() -> None:
    assert edges(chain(Heartbeat[str]())) == {}
    assert answer(chain(Heartbeat[str]()), **{"in": [("a", 0)]})["out"][-1] == 1


def test_lingering_adds_up_along_a_way() -> None:
    flow = Dataflow("way")
    stream = flow.source("in", U[str, int], markers=at(2))
    first = stream.through(Total[str](2))
    flow.sink("near", first)
    flow.sink("far", first.through(Total[str](timedelta(seconds=3))).through(Total[str](1)))
    assert edges(flow) == {"0-1": {2 * SECOND: 5}, "1-3": {2 * SECOND: 3}, "3-4": {2 * SECOND: 1}}
    found = answer(flow, **{"in": [("a", 1)]})
    assert found["near"] == [("a", 1), 2, ("a", 1), 4, ("a", 1), 6]
    assert [one for one in found["far"] if isinstance(one, int)] == [2, 4, 6, 8, 10, 12]


# ------------------------------------------------------------------------------------------------- answers


def test_an_alarm_rings_behind_the_end() -> None:
    assert answer(chain(Alarm[str](5)), **{"in": [("a", 0), ("b", 3)]})["out"] == [1, 2, 3, 4, 5, ("a", 1), 6, 7, 8, ("b", 4), 9]


def test_operators_that_do_not_linger_speak_no_more() -> None:
    """Behind an alarm a heartbeat goes on as long as the alarm, and no longer; before it, it ends with the source."""
    behind = chain(lambda s: s.through(Alarm[str](2)).through(Heartbeat[str]()))
    found = answer(behind, **{"in": [("a", 4)]})["out"]
    assert found == [5, 6, ("a", 5), ("a", 5), 7]
    before = chain(lambda s: s.through(Heartbeat[str]()).through(Alarm[str](2)))
    assert [one for one in answer(before, **{"in": [("a", 4)]})["out"] if isinstance(one, int)] == [5, 6, 7]


def test_stateless_operators_speak_no_more_either() -> None:
    flow = Dataflow("announced")
    stream = flow.source("in", U[str, int], markers=at(1)).through(Announce[str](("x",)))
    flow.sink("out", stream.through(Total[str](2)).through(Announce[str](("y",))))
    found = answer(flow, **{"in": [("a", 0)]})["out"]
    assert [one for one in found if isinstance(one, int)] == [1, 2, 3]
    assert sum(1 for one in found if isinstance(one, tuple) and one[0] == "y") == 3  # it lies behind what lingers
    (total,) = {one[1] for one in found if isinstance(one, tuple) and one[0] == "x"} - {None}
    assert total in range(12)


def test_a_source_that_ended_early_goes_on_for_its_own_windows() -> None:
    flow = Dataflow("two ends")
    early = flow.source("early", U[str, int], markers=at(1)).through(sort(by=lambda v: v)).through(Alarm[str](4))
    late = flow.source("late", U[str, int], markers=at(1))
    flow.sink("out", merge(early, late))
    found = answer(flow, early=[("a", 0)], late=[("b", 20)])["out"]
    assert found == [1, 2, 3, 4, ("a", 1), 5, ("b", 20), 21]


def test_a_merge_lingers_behind_its_last_input() -> None:
    flow = Dataflow("two ends")
    early, late = (flow.source(name, U[str, int], markers=at(1)) for name in ("early", "late"))
    flow.sink("out", merge(early, late).through(sort(by=lambda v: v)).through(Alarm[str](2)))
    found = answer(flow, early=[("a", 0)], late=[("b", 5)])["out"]
    assert found == [1, 2, ("a", 1), 3, 6, 7, ("b", 6), 8]


def test_sources_with_markers_in_band_end_where_they_end() -> None:
    flow = Dataflow("in band")
    banded = in_band(is_marker=is_thousand, time=above_thousand)
    stream = flow.source("in", U[str, int], markers=banded).through(sort(by=lambda v: v))
    flow.sink("out", stream.through(Alarm[str](5)))
    assert answer(flow, **{"in": [("a", 1), ("m", 1100), ("b", 2), ("m", 1104)]})["out"] == [100, 104]


def test_two_consumers_of_one_stream_have_a_silence_each() -> None:
    flow = Dataflow("shared")
    stream = flow.source("in", U[str, int], markers=at(1))
    flow.sink("plain", stream)
    flow.sink("rung", stream.through(sort(by=lambda v: v)).through(Alarm[str](3)))
    found = answer(flow, **{"in": [("a", 0)]})
    assert found == {"plain": [("a", 0), 1], "rung": [1, 2, 3, ("a", 1), 4]}


def test_without_the_end_there_is_no_silence() -> None:
    checked = check(chain(Alarm[str](1)))
    traces, _ = interpret_rows(checked, {"in": [("a", 0), ("a", 9)]}, drain=False)
    assert seconds_of(traces["out"].items)[-1] == 9


# ------------------------------------------------------------------------------------------------- long silences


@attrs.frozen
class Daily(OpKeyedOrdered[str, int, int, int | None]):
    """Emits a day after the last item of a key, and counts how often it is asked."""

    def initial_state(self) -> int | None:
        return None

    def on_item(self, state: int | None, key: str, value: int, emit: Callable[[int], None]) -> int | None:
        return value

    def on_marker(self, state: int | None, key: str, marker: Marker, emit: Callable[[int], None]) -> int | None:
        ASKED.append(marker)
        if state is None or marker.timestamp - state < 86_400:
            return state
        emit(state)
        return None

    def linger(self) -> Linger:
        return timedelta(days=1)

    def next_due(self, state: int | None, key: str) -> int | None:
        return None if state is None else (state + 86_400) * SECOND


ASKED: list[Marker] = []


def test_a_long_silence_costs_as_many_visits_as_there_are_answers() -> None:
    compiled = program(check(chain(lambda s: s.through(Daily()).through(Daily()))), key_groups=2)
    rows = {"in": [(f"k{n}", n) for n in range(50)]}
    ASKED.clear()
    found = simulate_program(compiled, rows, seed=1)["out"].trace.items
    items = [one for one in found if isinstance(one, Item)]
    assert sorted(item.value for item in items) == list(range(50))
    assert len([one for one in found if isinstance(one, Marker)]) > 86_400
    assert len(ASKED) < 50 * 50 + 4_000  # some of them twice, for the laws


def test_keys_that_are_due_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken twin: a key that is due is left out."""
    monkeypatch.setattr(empty_blocks.DueMarkers, "next", lambda self: None)
    with pytest.raises(AssertionError):
        answer(chain(Alarm[str](5)), **{"in": [("a", 0), ("b", 3)]})


def test_silence_that_is_not_sent_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken twin: the source ends where its last block ends."""
    from tracetypes.compiler.runtime import frontier

    monkeypatch.setattr(frontier.EventTimes, "silence", lambda self, parts: ())
    with pytest.raises(AssertionError):
        answer(chain(Alarm[str](5)), **{"in": [("a", 0), ("b", 3)]})


# ------------------------------------------------------------------------------------------------- whole windows


@attrs.frozen
class PerWindow(OpKeyedUnordered[str, int, str, int, tuple[int, ...], int]):
    """The sum of the last ``blocks`` blocks of a second, at each multiple of their length."""

    blocks: int = 3
    said: int = 3

    def lift(self, key: str, value: int) -> int:
        return value

    def identity(self) -> int:
        return 0

    def combine(self, x: int, y: int) -> int:
        return x + y

    def initial_state(self) -> tuple[int, ...]:
        return (0,) * self.blocks

    def update_state(self, old_state: tuple[int, ...], agg: int) -> tuple[int, ...]:
        return (*old_state[1:], agg)

    def on_marker(self, new_state: tuple[int, ...], key: str, marker: Marker, emit: Callable[[str, int], None]) -> None:
        total = sum(new_state)
        if marker.timestamp % self.blocks == 0 and total:
            emit(key, total)

    def linger(self) -> Linger:
        return self.blocks - 1

    def tumbles(self) -> tuple[int, int]:
        return self.said * SECOND, 0


@attrs.frozen
class SoFar(PerWindow):
    """It does not forget the windows before."""

    def update_state(self, state: Any, agg: int) -> Any:
        return (0, 0, state[-1] + agg)

    def linger(self) -> Linger:
        return self.blocks - 1


ROWS = {"in": [(f"k{random.Random(n).randrange(9)}", 1 + n // 4) for n in range(400)]}


def test_blocks_of_a_window_are_joined() -> None:
    flow = Dataflow("windows")
    stream = flow.source("in", U[str, int], markers=at(1))
    flow.sink("out", stream.through(PerWindow()))
    flow.sink("top", stream.through(PerWindow(blocks=7, said=7)).through(Total[str]()))
    found = answer(flow, **ROWS)
    assert sum(one[1] for one in found["out"] if isinstance(one, tuple)) == sum(v for _, v in ROWS["in"])
    compiled = program(check(flow))
    assert [stage.tumbles for plan in compiled.plans for stage in plan.stages if stage.steps][:1] == [(3 * SECOND, 0)]


def test_columns_of_whole_windows() -> None:
    """Many keys share a window, so that it is held as columns; a window of the library."""
    flow = Dataflow("windows")
    rows = {"in": [(f"k{n % 700}", 1 + n // 900) for n in range(9_000)]}
    windows = stdlib.tumbling(stdlib.sum(to=int), size=4, offset=1)
    flow.sink("out", flow.source("in", U[str, int], markers=at(1)).through(windows))
    assert len([one for one in answer(flow, **rows)["out"] if isinstance(one, tuple)]) > 2_000


@pytest.mark.parametrize("seconds", [2, 6])
def test_markers_off_the_grid_of_the_windows_join_nothing(seconds: int) -> None:
    flow = Dataflow("windows")
    flow.sink("out", flow.source("in", U[str, int], markers=at(seconds)).through(PerWindow()))
    (plan,) = program(check(flow)).plans
    assert [stage.tumbles for stage in plan.stages] == [None]


@pytest.mark.parametrize("delay", [0, 7])
@pytest.mark.parametrize("method", ["panes", "two stacks"])
def test_blocks_of_a_pane_are_joined(method: Any, delay: int) -> None:
    """Markers between the ends of windows cost nothing, and change nothing: with few keys and with many, which are columns."""
    flow = Dataflow("windows")
    stream = flow.source("in", U[str, int], markers=at(1, delay))
    windows = stdlib.sliding(stdlib.count(), size=12, slide=8, offset=3, ends=True, method=method)
    flow.sink("out", stream.through(windows))
    rows = {"in": [(f"k{n * 7 % 400}", 1 + n // 90 - n % (delay + 1)) for n in range(4_000)]}
    assert len([one for one in answer(flow, **rows)["out"] if isinstance(one, tuple)]) > 1_000
    (plan,) = program(check(flow)).plans
    assert [stage.pane for stage in plan.stages] == [(4 * SECOND, 3 * SECOND)]
    assert "joined    the blocks of each pane of 4 s" in tracetypes.explain(flow)


@pytest.mark.parametrize("closed", [6, 7, 10, 11, 14])
def test_keys_of_joined_blocks_that_would_still_be_answered(closed: int) -> None:
    """An item at 7 is in the windows that end at 10 and 15; markers between them tell nothing."""
    flow = Dataflow("windows")
    windows = stdlib.sliding(stdlib.count(), size=10, slide=5)
    flow.sink("out", flow.source("in", U[str, int], markers=at(1)).through(windows))
    (plan,) = program(check(flow)).plans
    (stage,) = plan.stages
    op: Any = stage.steps[0].operator
    state = StageKernel(plan, stage).fresh()
    new = op.update_state(op.initial_state(), op.lift("a", 7)) if closed >= 10 else op.initial_state()
    state.operators[0] = UnorderedState({"a": new, "b": op.initial_state()}, op.initial_state())
    state.closed = closed * SECOND
    assert list(_keys_waiting(stage, state, 0, SECOND)) == (["a"] if closed >= 10 else [])


@attrs.frozen
class Longer(SlidingPanes[str, int, int, int]):
    """Of joined blocks it takes one too many."""

    def coarser(self) -> Coarser | None:
        coarser = super().coarser()
        assert coarser is not None
        op: Any = coarser.op
        return attrs.evolve(coarser, op=attrs.evolve(op, panes=self.panes))


def test_an_operator_that_names_another_one_for_joined_blocks() -> None:
    items = st.tuples(st.sampled_from("ab"), st.integers(1, 9))
    for cls, wrong in ((SlidingPanes, False), (Longer, True)):
        op: Any = cls(stdlib.count(), 4, 2, SECOND)
        (law,) = [law for law in laws(op, items=items, types=(str, int)) if law.name == "panes"]
        if wrong:
            with pytest.raises(LawBroken, match="TT314 Longer: it names an operator for joined blocks"):
                law.check(60)
        else:
            law.check(60)


def test_an_operator_that_does_not_tumble_as_it_says() -> None:
    items = st.tuples(st.sampled_from("ab"), st.integers(1, 9))
    check_laws(PerWindow(), items=items, max_examples=60)
    (law,) = [law for law in laws(SoFar(), items=items) if law.name == "windows"]
    with pytest.raises(LawBroken, match=r"TT314 SoFar: it says that it tumbles, and joined blocks change what it answers"):
        law.check(60)


def test_explain_says_how_long_a_source_falls_silent() -> None:
    flow = Dataflow("windows")
    flow.sink("out", flow.source("in", U[str, int], markers=at(2)).through(stdlib.tumbling(stdlib.count(), size=6)))
    said = tracetypes.explain(flow)
    assert "end       silence of 2 blocks behind its last one" in said
    assert "joined    the blocks of each window of 6 s" in said
