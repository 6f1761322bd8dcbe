"""Plans run by an adversary give the interpreter's traces; and an executor that is wrong in any one way is found out."""

from __future__ import annotations

import itertools
import json
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from tests.graphs import (
    Adding,
    Announce,
    Case,
    Clocked,
    Echo,
    Gathered,
    Heartbeat,
    Keep,
    Left,
    OrderHash,
    Right,
    RunningSum,
    Sample,
    Scale,
    SignOfKey,
    ToFloat,
    Total,
    amount_of,
    cases,
    id_of,
    is_mark,
    modulo_three,
    note_of,
    own_value,
    ts_of,
)
from tracetypes import (
    ROW_POSITION,
    Checked,
    Dataflow,
    LawBroken,
    Marker,
    O,
    OperatorFailed,
    OpKeyedOrdered,
    OpKeyedUnordered,
    OpStateless,
    RunError,
    U,
    Unit,
    check,
    every,
    in_band,
    interpret_rows,
    merge,
    sort,
    stdlib,
)
from tracetypes.arrangement import Arranged
from tracetypes.check import violations
from tracetypes.compiler.analysis import pickles
from tracetypes.compiler.graph.passes import passes
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.planner import plan, plan_of
from tracetypes.compiler.runtime import chunks, limits, pipeline
from tracetypes.compiler.runtime import column_states as states
from tracetypes.compiler.runtime.column_states import Columnar
from tracetypes.compiler.runtime.emitter import ToSink, ToStage
from tracetypes.compiler.runtime.frontier import Frontier, KeyGroups
from tracetypes.compiler.runtime.messages import Aggregates, Message, RetryEpoch
from tracetypes.compiler.runtime.partial_aggregation import ArrowRows
from tracetypes.compiler.runtime.partitioner import Partitioner
from tracetypes.compiler.runtime.progress import Coming, Progress
from tracetypes.compiler.runtime.side_rows import SideBuffer
from tracetypes.compiler.runtime.source import SourceKernel
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.store.output_trace import Answer
from tracetypes.compiler.trial import simulate
from tracetypes.parsing import Row
from tracetypes.plain_data import to_plain
from tracetypes.trace import Element, Item, Trace, closed

Run = Callable[[Case], Answer]
Defined = tuple[Trace[Element], Mapping[str, Arranged]]


def planned(case: Case) -> Plan:
    return plan(case.checked, parallelism=case.parallelism, key_groups=case.key_groups)


def run(case: Case, of: Plan | None = None) -> Answer:
    return simulate.simulate(
        of or planned(case), case.rows, seed=case.seed, steps=case.steps, pieces=case.pieces, drain=case.drain
    )


def late_items(checked: Checked, arranged: dict[str, Arranged]) -> Counter[tuple[str, str, str]]:
    found: Counter[tuple[str, str, str]] = Counter()
    for source in checked.graph.sources:
        stream = checked.streams[source.id]
        for late in arranged[source.name].late:
            plain = {"key": to_plain(stream.key, late.key), "value": to_plain(stream.value, late.value)}
            found[source.name, late.reason, json.dumps(plain, ensure_ascii=False)] += 1
    return found


def differences(case: Case, answer: Answer, defined: Defined | None = None) -> list[str]:
    """In what an answer is not the interpreter's. ``defined``: what that says of the case, where it is known."""
    trace, arranged = defined or case.expected()
    rejects = Counter((name, reason) for name, one in arranged.items() for _, reason in one.rejects)
    return [
        f"{what}: {got} instead of {wanted}"
        for what, got, wanted in (
            ("trace", answer.trace, trace if case.drain else closed(trace)),
            ("late", Counter(answer.late), late_items(case.checked, dict(arranged))),
            ("rejects", Counter((source, reason) for source, reason, _ in answer.rejects), rejects),
        )
        if got != wanted
    ]


@settings(max_examples=5 * settings().max_examples)
@given(cases())
def test_a_plan_gives_the_traces_of_the_interpreter(case: Case) -> None:
    assert differences(case, run(case)) == []


@pytest.fixture
def small_messages() -> Iterator[None]:
    """A block is cut into several messages, which arrive in any order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "BATCH", 2)
        patch.setattr(limits, "SLAB", 2)
        patch.setattr(limits, "FLUSH", 3)
        yield


@pytest.mark.usefixtures("small_messages")
@settings(suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture])
@given(cases())
def test_blocks_may_travel_in_several_messages(case: Case) -> None:
    assert differences(case, run(case)) == []


@pytest.fixture
def few_is_many() -> Iterator[None]:
    """Columns are used for blocks of any size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MANY", 1)
        patch.setattr(limits, "FLUSH", 3)
        yield


@pytest.mark.usefixtures("few_is_many")
@settings(
    max_examples=3 * settings().max_examples,
    suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture],
)
@given(cases())
def test_columns_give_the_traces_of_the_interpreter(case: Case) -> None:
    assert differences(case, run(case)) == []


@pytest.mark.nightly
@pytest.mark.usefixtures("few_is_many")
def test_states_and_aggregates_as_columns_occur(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Counter[str]()
    for cls, method in (
        (Columnar, "_block"),
        (Partitioner, "columns"),
        (Partitioner, "folded"),
        (ToSink, "columns"),
        (ToStage, "columns"),
    ):
        whole = getattr(cls, method)

        def counted(*args: Any, _of: Any = whole, _name: str = f"{cls.__name__}.{method}", **named: Any) -> Any:
            seen[_name] += 1
            return _of(*args, **named)

        monkeypatch.setattr(cls, method, counted)
    with suppress(NoSuchExample):
        find(cases(), lambda case: bool(run(case)) and len(seen) == 5, settings=FIRST)
    assert len(seen) == 5, seen


@pytest.mark.nightly
@pytest.mark.usefixtures("few_is_many")
def test_a_combined_row_that_is_lost_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Partitioner.aggregates

    def lossy(self: Partitioner, *some: Any) -> Iterator[Message]:
        for message in whole(self, *some):
            assert isinstance(message.body, Aggregates)
            rows = ArrowRows(message.body.rows.to_arrow().slice(1))
            yield Message(message.group, attrs.evolve(message.body, rows=rows))

    monkeypatch.setattr(Partitioner, "aggregates", lossy)
    assert caught(run)


@pytest.mark.nightly
@pytest.mark.usefixtures("few_is_many")
def test_a_state_that_columns_do_not_keep_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "put", lambda part, rows, fresh: part)
    assert caught(run)


@pytest.mark.nightly
@pytest.mark.usefixtures("small_messages")
def test_positions_that_a_stage_does_not_send_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    put = Partitioner.put
    monkeypatch.setattr(Partitioner, "put", lambda self, key, value, end, position: put(self, key, value, end, 0))
    assert caught(run)


@pytest.mark.nightly
@settings(max_examples=40_000)
@given(cases(most_sources=4, most_operators=6))
def test_many_plans_give_the_traces_of_the_interpreter(case: Case) -> None:
    assert differences(case, run(case)) == []


@given(cases(), st.lists(st.tuples(st.integers(0, 99), st.integers(1, 6), st.integers(1, 5)), min_size=2, max_size=4))
def test_answers_do_not_depend_on_steps_and_pieces(case: Case, ways: list[tuple[int, int, int]]) -> None:
    answers = [run(attrs.evolve(case, seed=seed, steps=steps, pieces=pieces)) for seed, steps, pieces in ways]
    for answer in answers[1:]:
        assert answer.trace == answers[0].trace
        assert Counter(answer.late) == Counter(answers[0].late)
        assert Counter(answer.rejects) == Counter(answers[0].rejects)


@given(cases())
def test_plans_of_unfinished_passes_mean_the_same(case: Case) -> None:
    """Dropping, reordering and fusing are for speed: without them there are more stages, and the same trace."""
    checked = case.checked
    for one in passes(parallelism=case.parallelism, key_groups=case.key_groups):
        if one.name in ("parallelize", "restore order"):
            checked = one.run(checked)
    slow = plan_of(checked, parallelism=case.parallelism, key_groups=case.key_groups)
    assert differences(case, run(case, slow)) == []


@attrs.frozen
class Few(OpStateless[str, int, str, int]):
    """Drops everything, and says so in Python."""

    def on_item(self, key: str, value: int, emit: Callable[[str, int], None]) -> None:
        if len(f"{value:d}") > 99:
            emit(key, value)


def test_behind_an_operator_that_drops_everything_another_one_has_nothing_to_do() -> None:
    flow = Dataflow("few")
    rows = flow.source("rows", U[str, int], markers=every(seconds=10, time=lambda n: n))
    flow.sink("out", rows.through(sort(by=lambda n: n)).through(Few()).through(Few()))
    given = {"rows": [("a", n) for n in range(25)]}
    checked = check(flow)
    assert simulate.simulate(plan(checked), given, seed=1).trace == interpret_rows(checked, given)[0]["out"]


# ------------------------------------------------------------------------------------------------ broken twins

FIRST = settings(phases=(Phase.generate,), max_examples=3_000, derandomize=True, database=None)
"""Stop at the first example."""


def caught(twin: Run) -> bool:
    """Would the first test above find an executor out?"""

    def differs(case: Case) -> bool:
        try:
            return differences(case, twin(case)) != []
        except LawBroken:
            return True
        except (OperatorFailed, AssertionError, AttributeError, KeyError, TypeError):
            return False

    try:
        find(cases(), differs, settings=FIRST)
    except NoSuchExample:
        return False
    return True


def without(name: str) -> Run:
    """An executor of plans that one pass has not seen."""

    def twin(case: Case) -> Answer:
        checked = case.checked
        for one in passes(parallelism=case.parallelism, key_groups=case.key_groups):
            if one.name != name:
                checked = one.run(checked)
        return run(case, plan_of(checked, parallelism=case.parallelism, key_groups=case.key_groups))

    return twin


@pytest.mark.nightly
def test_order_that_is_not_restored_is_caught() -> None:
    assert caught(without("restore order"))


@pytest.mark.parametrize(
    "name", ["reorder", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("drop splitters", "fuse"))]
)
def test_other_passes_need_not_run(name: str) -> None:
    settled = settings(FIRST, max_examples=60)
    with pytest.raises(NoSuchExample):
        find(cases(), lambda case: differences(case, without(name)(case)) != [], settings=settled)


def test_round_robin_before_a_keyed_operator_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = itertools.count()
    monkeypatch.setattr(chunks, "hashes", lambda schema, keys: np.array([next(turns) for _ in keys], np.uint64))
    monkeypatch.setattr(Partitioner, "group", lambda self, key: next(turns) % self.key_groups)
    assert caught(run)


@pytest.mark.nightly
def test_on_marker_of_every_copy_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyGroups, "own", lambda self, group, pairs: list(pairs))
    assert caught(run)


class Forgetful:
    """An ``UnorderedState`` that starts every new key from the initial state."""

    def __init__(self, states: dict[Any, Any], start: Any) -> None:
        self.states, self.initial = states, start

    @property
    def start(self) -> Any:
        return self.initial

    @start.setter
    def start(self, state: Any) -> None:
        pass


def test_a_forgotten_start_state_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "UnorderedState", Forgetful)
    assert caught(run)


def test_late_items_that_are_applied_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    late = SourceKernel._late

    def apply(self: SourceKernel, aside: SideBuffer, row: Row, end: int, closed: int, *, own: bool) -> None:
        self.path.put(row.key, row.value, closed + self.leaf.source.markers.period, 0)  # type: ignore[union-attr]
        late(self, aside, row, end, closed, own=own)

    monkeypatch.setattr(SourceKernel, "_late", apply)
    assert caught(run)


@pytest.mark.nightly
def test_late_items_across_pieces_that_are_not_read_again_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    advance = Frontier.advance

    def ignore(self: Frontier, *args: Any) -> None:
        with suppress(RetryEpoch):
            advance(self, *args)

    monkeypatch.setattr(Frontier, "advance", ignore)
    assert caught(run)


def test_state_that_is_not_restored_between_steps_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    restore = pickles.loads

    def forget(data: bytes) -> Any:
        state: StageState = restore(data)
        for one in state.operators:
            if isinstance(one, dict):
                one.clear()
            elif one is not None:
                one.states.clear()
        return state

    monkeypatch.setattr(simulate, "loads", forget)
    assert caught(run)


def test_open_blocks_that_are_not_restored_between_steps_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    restore = pickles.loads

    def forget(data: bytes) -> Any:
        state: StageState = restore(data)
        state.open_blocks.clear()
        return state

    monkeypatch.setattr(simulate, "loads", forget)
    assert caught(run)


def test_a_combine_that_is_not_commutative_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Adding, "combine", lambda self, a, b: a if b == 0 else b)
    assert caught(run)


@pytest.mark.nightly
def test_a_combine_of_tuples_that_is_not_commutative_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gathered, "combine", lambda self, a, b: a + b)
    assert caught(run)


def test_markers_that_do_not_wait_for_slower_inputs_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    due = Frontier.due

    def eager(self: Frontier, progress: list[list[Progress]], *args: Any) -> Coming:
        ways = [one for parts in progress for one in parts]
        ended = [one.complete for one in ways]
        for one in ways[1:]:
            one.complete = True
        result = due(self, progress, *args)
        for one, complete in zip(ways, ended, strict=True):
            one.complete = complete
        return result

    monkeypatch.setattr(Frontier, "due", eager)
    assert caught(run)


# ---------------------------------------------------------------------------------------------- special cases


def agree(flow: Dataflow, rows: dict[str, list[Any]], *, key_groups: int = 3, seeds: int = 20) -> Answer:
    """Run a dataflow many times, cut in many ways; all answers are the interpreter's. One of them. The first run of each kind
    compares rows with plain Python, and looks at laws."""
    answer: Answer | None = None
    of: Plan | None = None
    defined: dict[bool, Defined] = {}
    for seed in range(seeds):
        for drain in (False, True):
            case = Case(flow, rows, seed, 2, key_groups, drain, steps=1 + seed % 5, pieces=1 + seed % 4)
            of = of or planned(case)
            answer = run(case, of if seed == 0 else attrs.evolve(of, verify_every=0))
            if drain not in defined:
                defined[drain] = case.expected()
            assert differences(case, answer, defined[drain]) == [], f"seed {seed}, drain {drain}"
    assert answer is not None
    return answer


def seconds(period: float, delay: float = 0, value: Any = Sample) -> Any:
    return every(seconds=period, delay=delay, time=ts_of if value is Sample else own_value)


IN_BAND = in_band(is_marker=is_mark, time=ts_of)


def at(*times: int | None, id: int = 0) -> list[Sample]:
    return [Sample(time, id, amount) for amount, time in enumerate(times)]


def mark(time: int) -> Sample:
    return Sample(time, 0, 0, mark=True)


def amounts(name: str, flow: Dataflow, markers: Any, edge: Any = U[int, Sample], **more: Any) -> Any:
    """A source of samples by id, and their amounts."""
    return flow.source(name, edge, markers=markers, key=id_of, **more)


@attrs.frozen
class Amount(OpStateless[int, Sample, int, int]):
    """The amount of a sample."""

    def on_item(self, key: int, value: Sample, emit: Callable[[int, int], None]) -> None:
        emit(key, value.amount)


def test_an_item_is_late_across_pieces_of_one_step() -> None:
    flow = Dataflow("late")
    flow.sink("out", amounts("s", flow, seconds(10, delay=5)).through(Amount()).through(Clocked()))
    answer = agree(flow, {"s": at(1, 50, 3, 44, 39, 52, 100, 47, 99)})
    assert Counter(reason for _, reason, _ in answer.late) == {
        "its block ended at #10, and #40 was already sent": 1,
        "its block ended at #40, and #40 was already sent": 1,
        "its block ended at #50, and #90 was already sent": 1,
    }


def test_two_stages_ask_to_read_their_sources_again_in_one_step() -> None:
    flow = Dataflow("two")
    a = amounts("a", flow, seconds(10)).through(Amount()).through(Total())
    b = amounts("b", flow, seconds(5)).through(Amount()).through(Clocked())
    flow.sink("out", merge(a, b).through(Total()))
    answer = agree(flow, {"a": at(1, 30, 2, 60, 31), "b": at(4, 40, 3, 80, 41, 81)})
    assert {source for source, _, _ in answer.late} == {"a", "b"}


def test_times_before_1970() -> None:
    flow = Dataflow("early")
    a = amounts("a", flow, seconds(3)).through(Amount()).through(Total())
    b = amounts("b", flow, IN_BAND).through(Amount()).through(Total())
    flow.sink("out", merge(a, b).through(Heartbeats()))
    rows = {"a": at(-100, -95, -50, -52, -2), "b": [mark(-99), *at(0, 0), mark(-51), *at(0), mark(-50), mark(-3)]}
    agree(flow, rows)


@attrs.frozen
class Heartbeats(Clocked[int]):
    """A keyed stage behind a merge."""


def test_markers_in_band_over_borders_of_pieces_and_steps() -> None:
    flow = Dataflow("band")
    flow.sink("out", amounts("s", flow, IN_BAND).through(Amount()).through(Clocked()))
    rows = [*at(1, 2), mark(5), mark(6), *at(1), mark(6), *at(7, 8), mark(2), *at(9), mark(7), *at(1, 2, 3)]
    answer = agree(flow, {"s": rows})
    assert [reason for _, reason, _ in sorted(answer.rejects)] == [
        "marker #2 does not lie after #6",
        "marker #6 does not lie after #6",
    ]
    markers = [element.micros for element in answer.trace if isinstance(element, Marker)]
    assert markers == [5_000_000, 6_000_000, 7_000_000, 7_000_001]


def test_an_ordered_source_with_markers_in_band() -> None:
    flow = Dataflow("band")
    source = amounts("s", flow, IN_BAND, O[int, Sample], ordered_by=ROW_POSITION)
    flow.sink("out", source.through(Ordered()))
    agree(flow, {"s": [*at(3, 1, 2), mark(5), *at(2, 9, 1, 4), mark(9), *at(5, 3)]})


@attrs.frozen
class Ordered(OpKeyedOrdered[int, Sample, int, int]):
    """Sensitive to the order of samples."""

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: int, value: Sample, emit: Callable[[int], None]) -> int:
        emit(state * 10 + value.amount)
        return state * 10 + value.amount


@pytest.mark.parametrize("by", [ROW_POSITION, amount_of])
def test_an_ordered_source_that_goes_straight_to_the_sink(by: Any) -> None:
    flow = Dataflow("straight")
    flow.sink("out", amounts("s", flow, seconds(5, delay=4), O[int, Sample], ordered_by=by))
    agree(flow, {"s": [Sample(time, time % 2, time % 3) for time in (1, 4, 2, 7, 6, 3, 11, 9, 30)]})


def test_a_merge_of_ordered_sources_that_goes_straight_to_the_sink() -> None:
    flow = Dataflow("merged")
    a = flow.source("a", O[Left, int], markers=seconds(2, value=int), ordered_by=ROW_POSITION)
    b = flow.source("b", O[Right, int], markers=seconds(3, value=int), ordered_by=modulo_three)
    merged = merge(a, b)
    flow.sink("out", merged)
    lefts, rights = (0, 1, 1, 3, 5, 4, 9), (0, 2, 1, 7, 8)
    agree(flow, {"a": [(Left(n % 2), n) for n in lefts], "b": [(Right(n % 2), n) for n in rights]})


def test_a_merge_of_sources_of_different_keys() -> None:
    flow = Dataflow("keys")
    a = flow.source("a", U[Left, int], markers=seconds(2, 1, int))
    b = flow.source("b", U[Right, int], markers=seconds(3, 1, int))
    merged: Any = merge(a, b)
    flow.sink("out", merged.through(Clocked()))
    rows: dict[str, list[Any]] = {"a": [(Left(n % 2), n) for n in (0, 1, 3, 5, 4, 9)]}
    agree(flow, rows | {"b": [(Right(n % 2), n) for n in (0, 2, 1, 7, 8)]})


def test_a_merge_of_sources_of_different_periods() -> None:
    flow = Dataflow("periods")
    streams = [amounts(f"s{n}", flow, seconds(n)).through(Amount()) for n in (2, 3, 5)]
    flow.sink("out", merge(*streams).through(Clocked()))
    answer = agree(flow, {"s2": at(0, 1, 7, 13), "s3": at(1, 4, 16), "s5": at(1, 8, 2, 9, 16)})
    ends = [element.timestamp for element in answer.trace if isinstance(element, Marker)]
    assert ends == [2, 3, 4, 5, 6, 8, 9, 10, 12, 14, 15, 18, 20]


@pytest.mark.parametrize("markers", [seconds(2), IN_BAND])
def test_a_source_without_rows_holds_a_merge_up_until_it_ends(markers: Any) -> None:
    flow = Dataflow("silent")
    a, b = amounts("a", flow, seconds(3)), amounts("b", flow, markers)
    flow.sink("out", merge(a, b).through(Amount()).through(Total[int]()))
    rows = {"a": at(1, 5, 20), "b": []}
    agree(flow, rows)
    open_ = run(Case(flow, rows, 0, 1, 2, drain=False))
    assert len(open_.trace) == 0


def test_a_dataflow_without_any_rows() -> None:
    flow = Dataflow("nothing")
    streams = [amounts(name, flow, markers).through(Amount()) for name, markers in (("a", seconds(2)), ("b", IN_BAND))]
    flow.sink("out", merge(*streams).through(Total()).through(Clocked()))
    assert len(agree(flow, {"a": [], "b": []}).trace) == 0


def test_drain_of_several_sources_through_several_stages() -> None:
    flow = Dataflow("drained")
    a = amounts("a", flow, seconds(3, delay=9)).through(Amount()).through(Total())
    b = amounts("b", flow, IN_BAND).through(Amount()).through(sort(by=modulo_three)).through(OrderHash())
    c = amounts("c", flow, seconds(2, delay=1)).through(Amount()).through(Echo())
    flow.sink("out", merge(merge(a, b).through(Clocked()), c).through(sort(by=modulo_three)).through(Heartbeat()))
    agree(flow, {"a": at(1, 2, 9), "b": [*at(1, 1), mark(4), *at(1)], "c": at(5, 6)})


def test_empty_blocks_reach_later_stages() -> None:
    flow = Dataflow("empty")
    first = amounts("s", flow, seconds(1)).through(Amount()).through(Nothing())
    flow.sink("out", first.through(Announce((4,))).through(Clocked()).through(Announce((7, 8))))
    answer = agree(flow, {"s": at(0, 5, 9)})
    assert sum(isinstance(element, Marker) for element in answer.trace) == 10


@attrs.frozen
class Nothing(Total[int]):
    """Markers without items."""

    def on_marker(self, new_state: int, key: int, marker: Marker, emit: Callable[[int, int], None]) -> None:
        pass


def test_all_rows_are_rejects_or_late() -> None:
    flow = Dataflow("useless")
    flow.sink("out", amounts("s", flow, seconds(10)).through(Amount()).through(Total()))
    assert len(agree(flow, {"s": ["text", None, *at(None)]}).trace) == 0
    assert len(agree(flow, {"s": [*at(100, 1, 2, 3), "text"]}).late) == 3


@attrs.frozen
class SignedTotal(Adding[float, float]):
    """A keyed operator that would see which of the two zeros a key is."""

    def on_marker(self, new_state: int, key: float, marker: Marker, emit: Callable[[float, int], None]) -> None:
        emit(key, int(new_state * math.copysign(1, key)))


def test_keys_that_are_equal_are_identical_wherever_an_operator_sees_them() -> None:
    for op in (SignOfKey(), SignedTotal()):
        flow = Dataflow("zeros")
        floats = amounts("s", flow, seconds(5)).through(Amount()).through(ToFloat())
        flow.sink("out", floats.through(op).through(SignOfKey()).through(SignedTotal()))
        agree(flow, {"s": at(1, 2, 3, 4, 6, 7, 8)})


def test_a_source_that_has_sent_no_marker_yet_holds_a_merge_up() -> None:
    """Its frontier is known, but only a marker says so: the definition knows markers alone."""
    flow = Dataflow("slow")
    a, b = amounts("a", flow, seconds(1)).through(Amount()), amounts("b", flow, seconds(10)).through(Amount())
    flow.sink("out", merge(a, b).through(Total()))
    rows = {"a": at(-3, -1, 4), "b": at(5)}
    agree(flow, rows)
    assert len(run(Case(flow, rows, 0, 1, 2, drain=False)).trace) == 0


def test_overlapping_keys_do_not_matter_where_the_order_is_forgotten() -> None:
    flow = Dataflow("forgotten")
    a, b = (amounts(name, flow, seconds(10)).through(Amount()).through(sort(by=modulo_three)) for name in "ab")
    flow.sink("out", merge(a, b).through(Scale(2)))
    agree(flow, {"a": at(1, 2, 12), "b": at(3, 4, 15)})


class One(NamedTuple):
    """A key that equals a :class:`Two`, as tuples do."""

    id: int


class Two(NamedTuple):
    """A key that equals a :class:`One`."""

    id: int


def test_keys_of_two_types_of_tuples_may_be_equal_and_are_refused() -> None:
    flow = Dataflow("tuples")
    one = flow.source("a", O[One, int], markers=seconds(2, value=int), ordered_by=ROW_POSITION)
    two = flow.source("b", O[Two, int], markers=seconds(2, value=int), ordered_by=ROW_POSITION)
    merged = merge(one, two)
    flow.sink("out", merged)
    assert [violation.code for violation in violations(flow)] == ["TT102"]


# -------------------------------------------------------------------------------------------------- failures


def both(flow: Dataflow, rows: dict[str, list[Any]], *, seed: int = 0, key_groups: int = 1) -> tuple[str, str]:
    """What the interpreter and a plan say of a run that fails."""
    checked = check(flow)
    with pytest.raises((OperatorFailed, RunError)) as defined:
        interpret_rows(checked, rows)
    with pytest.raises((OperatorFailed, RunError)) as found:
        simulate.simulate(plan(checked, key_groups=key_groups), rows, seed=seed)
    return str(defined.value), str(found.value)


@attrs.frozen
class FaultyMap(OpStateless[int, Sample, int, int]):
    """Raises, or emits what it may not, in one method."""

    method: str

    def on_item(self, key: int, value: Sample, emit: Callable[[int, int], None]) -> None:
        if self.method == "on_item":
            raise ZeroDivisionError("on purpose")
        emit(None if self.method == "key" else key, "text" if self.method == "value" else 2)  # type: ignore[arg-type]

    def on_marker(self, marker: Marker, emit: Callable[[int, int], None]) -> None:
        if self.method == "on_marker":
            raise ZeroDivisionError("on purpose")


@attrs.frozen
class FaultyOrdered(OpKeyedOrdered[int, int, int, int]):
    """Raises, or emits what it may not, in one method."""

    method: str

    def fail(self, method: str) -> int:
        if self.method == method:
            raise ZeroDivisionError("on purpose")
        return 0

    def initial_state(self) -> int:
        return self.fail("initial_state")

    def on_item(self, state: int, key: int, value: int, emit: Callable[[int], None]) -> int:
        emit(2**63 if self.method == "value" else value)
        return self.fail("on_item")

    def on_marker(self, state: int, key: int, marker: Marker, emit: Callable[[int], None]) -> int:
        return self.fail("on_marker")


@attrs.frozen
class FaultyUnordered(OpKeyedUnordered[int, int, int, int, int, int]):
    """Raises, or emits what it may not, in one method."""

    method: str

    def fail(self, method: str) -> int:
        if self.method == method:
            raise ZeroDivisionError("on purpose")
        return 0

    def lift(self, key: int, value: int) -> int:
        return self.fail("lift")

    def identity(self) -> int:
        return self.fail("identity")

    def combine(self, a: int, b: int) -> int:
        return self.fail("combine")

    def initial_state(self) -> int:
        return self.fail("initial_state")

    def update_state(self, state: int, agg: int) -> int:
        return self.fail("update_state")

    def on_marker(self, new_state: int, key: int, marker: Marker, emit: Callable[[int, int], None]) -> None:
        if self.method == "key":
            emit("text", 1)  # type: ignore[arg-type]
        self.fail("on_marker")


@attrs.frozen
class FaultyEcho(FaultyUnordered):
    """The same with a method for items."""

    def on_item(self, last_state: int, key: int, value: int, emit: Callable[[int, int], None]) -> None:
        self.fail("on_item")


ORDERED_METHODS = ["initial_state", "on_item", "on_marker", "value"]
UNORDERED_METHODS = ["lift", "identity", "combine", "initial_state", "update_state", "on_marker", "key"]
FAULTY = [
    *[FaultyMap(method) for method in ("on_item", "on_marker", "key", "value")],
    *[FaultyOrdered(method) for method in ORDERED_METHODS],
    *[FaultyUnordered(method) for method in UNORDERED_METHODS],
    *[FaultyEcho(method) for method in (*UNORDERED_METHODS, "on_item")],
]


@pytest.mark.parametrize("op", FAULTY, ids=repr)
@pytest.mark.parametrize("later", [False, True], ids=["first stage", "later stage"])
def test_an_operator_that_fails_is_named_with_its_method_and_item(op: Any, later: bool) -> None:
    flow = Dataflow("faulty")
    stream = amounts("s", flow, seconds(10))
    if not isinstance(op, FaultyMap):
        stream = stream.through(Amount())
    if later:
        stream = stream.through(Again() if isinstance(op, FaultyMap) else Total())
    if isinstance(op, FaultyOrdered):
        stream = stream.through(sort(by=modulo_three))
    flow.sink("out", stream.through(op))
    defined, found = both(flow, {"s": [Sample(3, 5, 4)]})
    assert found == defined
    assert type(op).__name__ in found
    if op.method not in ("key", "value"):
        assert f"{op.method} raised ZeroDivisionError: on purpose" in found


@attrs.frozen
class Again(Gathered[int]):
    """A stage that gives samples."""


def note_or_amount(value: Sample) -> Any:
    return value.note or value.amount


def test_a_failing_order_is_named() -> None:
    flow = Dataflow("unsorted")
    flow.sink("out", amounts("s", flow, seconds(10)).through(sort(by=note_of)))
    defined, found = both(flow, {"s": [Sample(3, 5, 4), Sample(4, 5, 5, note="a")]})
    assert found == defined
    assert "TT204" in found


@pytest.mark.parametrize("id", [5, 6])
def test_an_order_of_several_types_is_one_order(id: int) -> None:
    flow = Dataflow("sorted")
    flow.sink("out", amounts("s", flow, seconds(10)).through(sort(by=note_or_amount)))
    agree(flow, {"s": [Sample(3, 5, 4), Sample(4, id, 5, note="a")]})


def overlapping() -> Dataflow:
    flow = Dataflow("overlapping")
    a = amounts("a", flow, seconds(10)).through(Amount()).through(sort(by=modulo_three))
    b = amounts("b", flow, seconds(10)).through(Amount()).through(sort(by=modulo_three))
    flow.sink("out", merge(a, b).through(RunningSum()))
    return flow


@pytest.mark.parametrize("seed", range(8))
def test_overlapping_keys_of_ordered_inputs_fail(seed: int) -> None:
    rows = {"a": at(1, 15, 30, id=1), "b": [*at(2, 12, id=2), *at(40, id=1)]}
    defined, found = both(overlapping(), rows, seed=seed, key_groups=3)
    assert found == defined
    assert "TT205" in found
    assert "the key 1 " in found


def test_disjoint_keys_of_ordered_inputs_do_not_fail() -> None:
    agree(overlapping(), {"a": at(1, 15, 30, id=1), "b": at(2, 12, 40, id=2)})


def test_a_jump_of_event_time_over_very_many_markers() -> None:
    flow = Dataflow("jump")
    flow.sink("out", amounts("s", flow, seconds(1)).through(Amount()).through(stdlib.tumbling(stdlib.count(), size=1)))
    answer = agree(flow, {"s": at(1, 2, 5_000_000)})
    assert [len(answer.trace), sum(isinstance(one, Item) for one in answer.trace.items[:10])] == [5_000_003, 2]


def test_a_source_of_units() -> None:
    flow = Dataflow("units")
    flow.sink("out", flow.source("s", U[Unit, int], markers=seconds(3, value=int)).through(Total[Unit]()))
    answer = agree(flow, {"s": [1, 2, 4, 9]})
    assert sum(isinstance(element, Item) for element in answer.trace) == 4


# ------------------------------------------------------------------------------------------------- hints

HINTED: set[tuple[str, int]] = set()


@attrs.frozen
class Asks(OpStateless[str, int, str, int]):
    """Remembers of which items it had a hint; ``strict``: refuses an item without."""

    strict: bool

    def prefetch(self, items: Sequence[tuple[str, int]]) -> None:
        assert items
        HINTED.update(items)

    def on_item(self, key: str, value: int, emit: Callable[[str, int], None]) -> None:
        try:  # nobody traces this: it is run in Python
            assert not self.strict or (key, value) in HINTED, "no hint"
        finally:
            pass
        emit(key, value + 1000)


@attrs.frozen
class Copies(OpStateless[str, int, str, int]):
    """Between a source and who wants a hint."""

    def on_item(self, key: str, value: int, emit: Callable[[str, int], None]) -> None:
        emit(key, value)
        emit(key + "'", value)


@pytest.mark.parametrize("where", ["first", "behind", "twice", "after a stage", "to a stage"])
@pytest.mark.parametrize("how_many", [1, 3, 100])
def test_an_operator_that_asks_gets_a_hint_of_every_item(
    where: str, how_many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracetypes.compiler.runtime.limits.AHEAD", how_many)

    def made(*, strict: bool) -> Checked:
        flow = Dataflow("hints")
        stream: Any = flow.source(
            "in", O[str, int], markers=every(seconds=10, time=lambda n: n), ordered_by=ROW_POSITION
        )
        asks = Asks(strict)
        if where == "behind":
            stream = stream.through(Copies())
        if where.endswith("a stage"):
            stream = stream.through(sort(by=operator.neg))
        stream = stream.through(asks)
        if where == "twice":
            stream = stream.through(Copies()).through(asks)
        if where == "to a stage":
            stream = stream.through(sort(by=lambda n: n))
        flow.sink("out", stream)
        return check(flow)

    rows = {"in": [("abc"[n % 3], n) for n in range(40)]}
    wanted, _ = interpret_rows(made(strict=False), rows)
    for seed in range(3):
        HINTED.clear()
        answer = simulate.simulate(
            plan(made(strict=True), parallelism=2, key_groups=4), rows, seed=seed, steps=2, pieces=2
        )
        assert answer.trace == wanted["out"]
        assert HINTED


@attrs.frozen
class Dropped(OpStateless[str, int, str, int]):
    """Python: nothing of what is odd."""

    def on_item(self, key: str, value: int, emit: Callable[[str, int], None]) -> None:
        if int(f"{value:d}") % 2 == 0:
            emit(key, value)


@pytest.mark.parametrize("behind", [False, True])
def test_operators_behind_one_that_drops_all_of_a_batch(behind: bool) -> None:
    flow = Dataflow("dropping")
    stream: Any = flow.source("in", U[str, int], markers=every(seconds=10, time=lambda n: n))
    if behind:
        stream = stream.through(sort(by=operator.neg))
    flow.sink("out", stream.through(Dropped()).through(Dropped()))
    checked, rows = check(flow), {"in": [("a", 1), ("b", 3), ("a", 21), ("a", 34)]}
    wanted, _ = interpret_rows(checked, rows)
    for seed in range(6):
        answer = simulate.simulate(plan(checked, parallelism=2, key_groups=2), rows, seed=seed, steps=3, pieces=2)
        assert answer.trace == wanted["out"]


def test_an_operator_may_get_nothing_from_the_one_before_it() -> None:
    flow = Dataflow("nothing")
    source = flow.source("s0", U[int, int], markers=every(seconds=10, time=own_value))
    flow.sink("out", source.through(Total[int]()).through(Keep[int](2)).through(Announce((0, 1))))
    case = Case(flow, {"s0": [(0, 6)]}, seed=0, parallelism=1, key_groups=1, drain=True)
    assert differences(case, run(case)) == []
