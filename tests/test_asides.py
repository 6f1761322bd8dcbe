"""Late items and rejects as streams: what they mean, and that every way to run them gives that."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import attrs
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from tests.graphs import Case, Flatten, Sample, Shape, Total, chains, id_of, is_mark, merges, sources, ts_of, wrong
from tests.test_parts import Parted, deal
from tracetypes import (
    ROW_POSITION,
    UNIT,
    Dataflow,
    Item,
    Marker,
    O,
    OpStateless,
    Rejected,
    U,
    Unit,
    check,
    every,
    in_band,
    interpret_rows,
    merge,
    sort,
)
from tracetypes.arrangement import arrange_parts, streams_of
from tracetypes.canonical import stable_hash
from tracetypes.check import violations
from tracetypes.compiler.graph.segments import cut
from tracetypes.compiler.plan.drawing import svg, typed_graph
from tracetypes.compiler.plan.explain import explain
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.fingerprint import fingerprint
from tracetypes.compiler.plan.page import page
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.epoch import Epoch
from tracetypes.compiler.runtime.frontier import Frontier
from tracetypes.compiler.runtime.messages import Report
from tracetypes.compiler.runtime.open_blocks import ObjectBlocks
from tracetypes.compiler.runtime.open_columns import ColumnBlocks
from tracetypes.compiler.runtime.open_tables import TableBlocks
from tracetypes.compiler.spark.wording import SparkWording
from tracetypes.compiler.store.output_trace import Collector
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.edges import edge_type
from tracetypes.interpreter import interpret
from tracetypes.parsing import Row
from tracetypes.schemas import schema_of
from tracetypes.sources import reader
from tracetypes.testing import check_deployments
from tracetypes.trace import closed

# ------------------------------------------------------------------------------------------- random programs


@attrs.frozen
class Told(OpStateless[Unit, Rejected, int, int]):
    """A number for a reject, by what it says and where it comes from. Markers that come too late are all told apart."""

    def on_item(self, key: Unit, value: Rejected, emit: Callable[[int, int], None]) -> None:
        emit(len(value.reason) % 3, len(value.row) + int(value.source[-1]))


@st.composite
def outputs(draw: st.DrawFn, flow: Dataflow, source: Any, shape: Shape) -> list[tuple[Any, Shape]]:
    """Some of the streams of a source."""
    streams = {
        "items": lambda: (source, shape),
        "late": lambda: (source.late(), attrs.evolve(shape, ordered=False)),
        "rejects": lambda: (source.rejects().through(Told()), Shape(int, int, False)),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(streams)), min_size=1, max_size=3, unique=True))
    return [streams[name]() for name in chosen]


@st.composite
def asided(draw: st.DrawFn, *, one_sink: bool = False) -> Case:
    """Random programs that use late items and rejects of up to two sources: each by itself, merged, several times; or with
    ``one_sink`` all of them merged."""
    flow = Dataflow("side_outputs")
    rows: dict[str, list[Any]] = {}
    streams: list[tuple[Any, Shape]] = []
    for at in range(draw(st.integers(1, 2))):
        source, shape, rows[f"s{at}"] = draw(sources(flow, f"s{at}"))
        streams += draw(outputs(flow, source, shape))
    streams = [draw(chains(*one, 2)) for one in streams]
    while len(streams) > 1 and (one_sink or draw(st.booleans())):
        one, other = streams.pop(), streams.pop()
        streams.append(draw(chains(*draw(merges(one, other)), 1)))
    for number, (stream, _) in enumerate(streams):
        flow.sink("out" if one_sink else f"out-{number}", stream)
        if not one_sink and draw(st.integers(0, 4)) == 0:
            flow.sink(f"more-{number}", stream)
    groups = draw(st.sampled_from((1, 2, 3, 7)))
    return Case(
        flow,
        rows,
        seed=draw(st.integers(0, 2**16)),
        parallelism=draw(st.integers(1, groups)),
        key_groups=groups,
        drain=draw(st.sampled_from((True, True, False))),
        steps=draw(st.integers(1, 5)),
        pieces=draw(st.integers(1, 4)),
    )


@settings(max_examples=3 * settings().max_examples)
@given(asided())
def test_programs_with_side_outputs_give_the_traces_of_their_graphs(case: Case) -> None:
    assert wrong(case, case.checked) == []


@given(asided())
def test_so_do_those_that_combine_whatever_they_can(case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MANY", 1)
        assert wrong(case, case.checked) == []


@pytest.mark.nightly
@settings(max_examples=10_000)
@given(asided())
def test_many_programs_with_side_outputs_give_the_traces_of_their_graphs(case: Case) -> None:
    assert wrong(case, case.checked) == []


@st.composite
def parted(draw: st.DrawFn) -> Parted:
    """Random programs with one sink whose sources are in up to three parts, with heartbeats."""
    case = draw(asided(one_sink=True))
    chance, parts = random.Random(draw(st.integers(0, 2**16))), {}
    for source in case.checked.graph.sources:
        read, layout = reader(source).read, case.checked.layout(source)
        given = case.rows[source.name]
        rows = [attrs.evolve(read(*row) if layout.keyed else read(UNIT, row), text=repr(row)) for row in given]
        hashed = stable_hash(schema_of(edge_type(source.edge).key))
        parts[source.name] = deal(source, rows, draw(st.integers(1, 3)), chance, hashed)
    return Parted(case, parts)


@settings(max_examples=2 * settings().max_examples)
@given(parted())
def test_side_outputs_of_a_source_in_parts_are_those_of_each_part(one: Parted) -> None:
    assert one.differences() == []


# ----------------------------------------------------------------------------------------------- the meaning


def flow_of(output: str, markers: Any) -> Dataflow:
    """Sends late items or rejects to a sink, and nothing else."""
    flow = Dataflow("one")
    source = flow.source("s0", U[int, Sample], markers=markers, key=id_of)
    flow.sink("out", source.late() if output == "late" else source.rejects())
    return flow


def told(flow: Dataflow, rows: Sequence[Any], *, drain: bool = True) -> list[Any]:
    """The stream at the sink: markers in seconds, of late items their ``ts``, of rejects their rows. The adversary says the
    same."""
    checked = check(flow)
    trace = interpret_rows(checked, {"s0": rows}, drain=drain)[0]["out"]
    planned = plan(checked, parallelism=2, key_groups=3)
    for seed in range(20):
        answer = simulate(planned, {"s0": rows}, seed=seed, drain=drain)
        assert answer.trace == (trace if drain else closed(trace)), seed
    return [shown(element) for element in trace.items]


def shown(element: Any) -> Any:
    if isinstance(element, Marker):
        return repr(element)
    return element.value.ts if isinstance(element.value, Sample) else element.value.row


def at(*times: int) -> list[Sample]:
    return [Sample(time, 1, 1) for time in times]


TENS = every(seconds=10, time=ts_of)
TENS_AND_DELAY = every(seconds=10, time=ts_of, delay=20)
BANDED = in_band(is_marker=is_mark, time=ts_of)


def mark(time: int) -> Sample:
    return Sample(time, 1, 1, mark=True)


def test_a_late_item_belongs_to_the_block_that_is_open_when_it_comes() -> None:
    assert told(flow_of("late", TENS), at(1, 12, 3, 25, 4, 5)) == ["#10", 3, "#20", 4, 5, "#30"]


def test_the_stream_of_late_items_has_the_markers_of_the_source() -> None:
    assert told(flow_of("late", TENS), at(1, 12, 31), drain=False) == ["#10", "#20", "#30"]
    assert told(flow_of("late", TENS), at(1, 12, 31)) == ["#10", "#20", "#30", "#40"]


def test_what_comes_before_the_first_item_belongs_to_the_first_block() -> None:
    assert told(flow_of("rejects", TENS), ["bad", *at(25)]) == ["'bad'", "#30"]
    # Which block that is shows later: within the delay an earlier item may come.
    rows = ["bad", *at(25), "worse", *at(14, 29)]
    assert told(flow_of("rejects", TENS_AND_DELAY), rows) == ["'bad'", "'worse'", "#20", "#30"]
    # An item is late for a block before the first, and what is open then lies before the first, too.
    assert told(flow_of("late", TENS_AND_DELAY), at(100, 75, 81)) == [75, "#90", "#100", "#110"]


def test_a_reject_belongs_to_the_block_that_is_open_when_it_comes() -> None:
    rows = [*at(1), "a", *at(12), "b", *at(35, 30), "c"]
    assert told(flow_of("rejects", TENS), rows) == ["'a'", "#10", "'b'", "#20", "#30", "'c'", "#40"]
    rows = [*at(1), "a", *at(32), "b"]
    assert told(flow_of("rejects", TENS_AND_DELAY), rows) == ["'a'", "#10", "'b'", "#20", "#30", "#40"]
    assert told(flow_of("rejects", TENS_AND_DELAY), rows, drain=False) == ["'a'", "#10", "'b'"]


def test_rejects_without_any_item_have_a_block_when_the_source_ends() -> None:
    assert told(flow_of("rejects", TENS), ["a", "b"]) == ["'a'", "'b'", "#0"]
    assert told(flow_of("rejects", TENS), ["a", "b"], drain=False) == ["'a'", "'b'"]
    assert told(flow_of("rejects", BANDED), ["a", "b"]) == ["'a'", "'b'", "#0"]
    assert told(flow_of("late", TENS), ["a", "b"]) == []


def test_a_reject_behind_the_last_heartbeat_has_a_marker_of_its_own_when_the_source_ends() -> None:
    flow = flow_of("rejects", TENS)
    rows = [Row("item", 1, Sample(1, 1, 1), 1_000_000), Row("marker", time=30_000_000), Row("reject", text="a")]
    checked = check(flow)
    (source,) = checked.graph.sources
    for drain, expected in ((True, ["#10", "#20", "#30", "a", "#40"]), (False, ["#10", "#20", "#30"])):
        arranged = arrange_parts(source, [rows], drain=drain)
        assert [shown(element) for element in arranged.items if isinstance(element, Marker)] == ["#10", "#20", "#30"]
        trace = interpret(checked, streams_of({"s0": arranged}), complete=drain)["out"]
        for seed in range(20):
            planned = plan(checked, parallelism=1, key_groups=2)
            answer = simulate(planned, {}, in_parts={"s0": [rows]}, seed=seed, drain=drain)
            assert answer.trace == (trace if drain else closed(trace))
            assert [shown(element) for element in answer.trace.items] == expected


def test_a_reject_in_band_belongs_to_the_block_in_which_it_stands() -> None:
    rows = ["a", *at(1), mark(10), "b", mark(20), mark(30), *at(2), "c"]
    assert told(flow_of("rejects", BANDED), rows) == ["'a'", "#10", "'b'", "#20", "#30", "'c'", "#30.000001"]
    assert told(flow_of("late", BANDED), rows) == ["#10", "#20", "#30", "#30.000001"]


def test_a_marker_in_band_that_comes_too_late_is_a_reject() -> None:
    rows = [*at(1), mark(10), mark(10), *at(2), mark(5), mark(20), mark(20)]
    micros = [str(time * 1_000_000) for time in (10, 5, 20)]
    expected = ["#10", *micros[:2], "#20", micros[2], "#20.000001"]
    assert sorted(told(flow_of("rejects", BANDED), rows)) == sorted(expected)


def test_what_is_said_of_a_reject() -> None:
    trace = interpret_rows(check(flow_of("rejects", TENS)), {"s0": [None, Sample(None, 1, 1)]})[0]["out"]
    no_time = "time: the time is None, expected a number or a datetime"
    assert trace.items == (
        Item(UNIT, Rejected("s0", "None", ".value is None, expected Sample")),
        Item(UNIT, Rejected("s0", repr(Sample(None, 1, 1)), no_time)),
        Marker(0),
    )


def test_late_items_may_be_combined_before_their_blocks_are_known() -> None:
    """Many late items of many pieces, as aggregates in columns: those of equal blocks come together in the stage."""
    flow = Dataflow("many")
    source = flow.source("s0", U[int, Sample], markers=TENS, key=id_of)
    flow.sink("out", source.late().through(Flatten[int]()).through(Total[int]()))
    chance = random.Random(5)
    rows = [Sample(n // 5 - chance.choice((0, 0, 30)), chance.randrange(4), 1, parts=(1, 2)) for n in range(2_000)]
    trace = interpret_rows(check(flow), {"s0": rows})[0]["out"]
    assert sum(isinstance(element, Item) for element in trace.items) > 100
    planned = plan(check(flow), parallelism=2, key_groups=3)
    for seed in range(10):
        assert simulate(planned, {"s0": rows}, seed=seed, steps=3, pieces=4).trace == trace


# ---------------------------------------------------------------------------------------------- broken twins


def is_noticed(output: str, markers: Any, rows: Sequence[Any]) -> bool:
    """Does some run give another trace than the definition?"""
    try:
        told(flow_of(output, markers), rows)
    except AssertionError:
        return True
    return False


def test_blocks_that_only_the_piece_knows_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Frontier.placing

    def uncorrected(self: Frontier, progress: Any, epoch: Epoch, link: int, piece: Any) -> Any:
        return real(self, progress, attrs.evolve(epoch, frontiers={}), link, piece)

    rows = [*at(1, 12), "a", *at(23), "b", *at(34), "c"]
    assert not is_noticed("rejects", TENS, rows)
    monkeypatch.setattr(Frontier, "placing", uncorrected)
    assert is_noticed("rejects", TENS, rows)


def test_what_waits_for_a_first_marker_and_is_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for blocks in (ObjectBlocks, ColumnBlocks, TableBlocks):
        monkeypatch.setattr(blocks, "join", lambda self, pending, marker: None)
    assert is_noticed("rejects", TENS, ["a", *at(1)])


def test_a_source_that_ends_with_an_open_reject_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    advance = Frontier.advance

    def forgetful(self: Frontier, progress: Any, epoch: Epoch, reports: Sequence[Report], held: Any) -> None:
        advance(self, progress, epoch, [attrs.evolve(report, open=None) for report in reports], held)

    monkeypatch.setattr(Frontier, "advance", forgetful)
    assert is_noticed("rejects", TENS, ["a"])


def test_markers_that_only_the_stage_rejects_and_nobody_sends_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Frontier, "send", lambda self, one, epoch, report, held, rejected: None)
    assert is_noticed("rejects", BANDED, [mark(10), mark(5), mark(20)])


FIRST = settings(phases=(Phase.generate,), max_examples=2_000, derandomize=True, database=None)
"""Stop at the first example."""


@pytest.mark.nightly
def test_one_progress_for_all_readings_of_a_source_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two readings of a source in one plan may be cut into other steps."""
    take = Collector.take

    def mixed(self: Collector, message: Any) -> None:
        take(self, message)
        for name, newest in list(self.newest.items()):
            plain = name.partition(":")[0]
            self.newest[name] = self.newest[plain] = max(newest, self.newest.get(plain, newest), key=str)

    monkeypatch.setattr(Collector, "take", mixed)
    with suppress(NoSuchExample):
        find(asided(), lambda case: wrong(case, case.checked) != [], settings=FIRST)
        return
    raise AssertionError("no program differs")


# ------------------------------------------------------------------------------------------- what is compiled


def all_outputs() -> Dataflow:
    """All of a source, in one place and apart."""
    flow = Dataflow("all")
    source = flow.source("s0", O[int, Sample], markers=TENS, key=id_of, ordered_by=ROW_POSITION)
    late, rejects = source.late(), source.rejects()
    flow.sink("everything", merge(source, late))
    flow.sink("rejects", rejects)
    flow.sink("late", late.through(Flatten[int]()).through(Total[int]()))
    return flow


def test_one_reading_of_a_source_tells_of_what_goes_aside() -> None:
    segments, why = cut(check(all_outputs()))
    assert [(segment.name, len(segment.quiet)) for segment in segments] == [
        ("everything", 1),
        ("rejects", 1),
        ("late", 1),
    ]
    assert [line.partition(" (")[0] for line in why] == [
        "late items of source 's0'",
        "late items of source 's0'",
        "rejects of source 's0'",
    ]
    assert ["read again" in line for line in why] == [False, True, True]
    assert "is computed 2 times" in why[0]


def test_a_source_that_is_read_for_one_output_only_is_read_once() -> None:
    flow = flow_of("late", TENS)
    (segment,), why = cut(check(flow))
    assert (segment.quiet, why) == (frozenset(), ())
    assert program(check(flow)).sources == ("s0",)


def test_readings_of_a_plan_have_names_of_their_own() -> None:
    flow = Dataflow("merged")
    source = flow.source("s0", U[int, Sample], markers=TENS, key=id_of)
    flow.sink("out", merge(source, source.late()))
    planned = plan(check(flow))
    assert [(leaf.label, leaf.gives_items, leaf.source.name) for leaf in planned.sources] == [
        ("s0", True, "s0"),
        ("s0:1", False, "s0"),
    ]
    assert not is_straight(planned)


def test_a_flow_of_late_items_is_not_straight() -> None:
    flow = Dataflow("straight")
    flow.sink("out", flow.source("s0", U[int, Sample], markers=TENS, key=id_of))
    assert is_straight(plan(check(flow)))
    assert not is_straight(plan(check(flow_of("late", TENS))))


def test_people_and_checkpoints_can_tell_them_apart() -> None:
    checked = check(all_outputs())
    text = explain(checked, SparkWording(), parallelism=2, key_groups=4)
    assert "late items of source 's0' : U[int, Sample]   markers: every 10 s" in text
    assert "rejects of source 's0' : U[Unit, Rejected]   markers: every 10 s" in text
    assert "the source is read again for them" in text
    kept = [fingerprint(planned).kept for planned in program(checked).plans]
    assert [lines["stage 0, reads"] for lines in kept] == [
        "merge of (source s0, late items of source s0)",
        "rejects of source s0",
        "late items of source s0",
    ]
    drawn = svg(typed_graph(checked), "all", style=True)
    assert "late items of the source" in drawn
    assert "rejects of the source" in drawn
    assert page(checked, SparkWording(), program(checked)).count("rejects of the source") > 1


def test_the_graph_is_checked_once_for_all_outputs_of_a_source() -> None:
    flow = Dataflow("wrong")
    source: Any = flow.source("s0", U[int, set[int]], markers=TENS, ordered_by=ts_of)  # type: ignore[arg-type]
    flow.sink("late", source.late())
    flow.sink("rejects", source.rejects())
    found = violations(flow)
    assert [one.code for one in found] == ["TT114", "TT106"]
    assert {one.operator for one in found} == {"source 's0'"}


def test_what_nobody_reads_is_told() -> None:
    flow = Dataflow("idle")
    source = flow.source("s0", U[int, Sample], markers=TENS, key=id_of)
    flow.sink("out", source)
    source.late()
    (found,) = violations(flow)
    assert (found.code, found.operator) == ("TT109", "late items of source 's0'")


def test_what_is_sorted_is_late_in_no_order() -> None:
    flow = Dataflow("order")
    source = flow.source("s0", O[int, Sample], markers=TENS, key=id_of, ordered_by=ts_of)
    flow.sink("out", source.late().through(sort(by=ts_of)), position="at")
    rows = at(1, 30, 9, 2, 40, 3)
    assert told(flow, rows) == ["#10", "#20", "#30", 2, 9, "#40", 3, "#50"]


def test_deployments_of_a_flow_with_side_outputs_are_tried() -> None:
    assert check_deployments(all_outputs(), rows={"s0": st.lists(st.sampled_from([*at(1, 15, 30), "bad"]))}) > 10
