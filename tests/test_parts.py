"""Sources in parts (the partitions of a topic): each part has its own frontier, and the source is the merge of them."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from tests.graphs import Case, RunningSum, Sample, cases, id_of, is_mark, modulo_three, own_value, ts_of
from tracetypes import (
    ROW_POSITION,
    UNIT,
    Dataflow,
    Marker,
    O,
    OperatorFailed,
    U,
    check,
    every,
    in_band,
    interpret,
)
from tracetypes.arrangement import Arranged, arrange_parts, streams_of
from tracetypes.canonical import stable_hash
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime.frontier import Frontier
from tracetypes.compiler.runtime.messages import Report
from tracetypes.compiler.store.output_trace import Answer
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.edges import edge_type
from tracetypes.markers import EventTime
from tracetypes.nodes import Source
from tracetypes.parsing import Row
from tracetypes.plain_data import to_plain
from tracetypes.sources import reader
from tracetypes.trace import Element, Trace, closed, stream_type

Parts = dict[str, list[list[Row]]]


@attrs.frozen
class Parted:
    """A case whose sources are in parts."""

    case: Case
    parts: Parts

    def __repr__(self) -> str:
        lines = [f"{name} {at}: {rows}" for name, parts in self.parts.items() for at, rows in enumerate(parts)]
        return "\n".join([repr(self.case), *lines])

    def expected(self) -> tuple[Trace[Element], dict[str, Arranged]]:
        """What the interpreter says."""
        checked, drain = self.case.checked, self.case.drain
        arranged = {
            source.name: arrange_parts(
                source, self.parts[source.name], drain=drain, ordered=source.ordered_by is not None
            )
            for source in checked.graph.sources
        }
        traces = interpret(checked, streams_of(arranged), complete=drain)
        return (traces["out"] if drain else closed(traces["out"])), arranged

    def run(self) -> Answer:
        """What a run gives."""
        case = self.case
        planned = plan(case.checked, parallelism=case.parallelism, key_groups=case.key_groups)
        options: dict[str, Any] = {"steps": case.steps, "pieces": case.pieces, "drain": case.drain}
        return simulate(planned, {}, seed=case.seed, in_parts=self.parts, **options)

    def differences(self) -> list[str]:
        """In what the answer is not the interpreter's."""
        answer, (trace, arranged) = self.run(), self.expected()
        late: Counter[tuple[str, str, str]] = Counter()
        rejects: Counter[tuple[str, str]] = Counter()
        for source in self.case.checked.graph.sources:
            stream = stream_type(edge_type(source.edge))
            for one in arranged[source.name].late:
                plain = {"key": to_plain(stream.key, one.key), "value": to_plain(stream.value, one.value)}
                late[source.name, one.reason, json.dumps(plain, ensure_ascii=False)] += 1
            rejects.update((source.name, reason) for _, reason in arranged[source.name].rejects)
        pairs = (
            ("trace", answer.trace, trace),
            ("late", Counter(answer.late), late),
            ("rejects", Counter((source, reason) for source, reason, _ in answer.rejects), rejects),
        )
        return [f"{what}: {got} instead of {wanted}" for what, got, wanted in pairs if got != wanted]


def deal(source: Source, rows: Sequence[Row], count: int, chance: random.Random, hashed: Any) -> list[list[Row]]:
    """Rows to parts: those of a key to one of them where their position is the order. Some heartbeats between them."""
    parts: list[list[Row]] = [[] for _ in range(count)]
    for row in rows:
        by_key = row.kind == "item" and source.ordered_by is ROW_POSITION
        part = hashed(row.key) % count if by_key else chance.randrange(count)
        parts[part].append(row)
        if isinstance(source.markers, EventTime) and row.kind == "item" and chance.random() < 0.3:
            parts[chance.randrange(count)].append(Row("marker", time=row.time - chance.choice((0, 0, 1, 5_000_000))))
    return parts


@st.composite
def parted(draw: st.DrawFn) -> Parted:
    """Random dataflows whose sources are in up to three parts."""
    case = draw(cases())
    chance = random.Random(draw(st.integers(0, 2**16)))
    parts: Parts = {}
    for source in case.checked.graph.sources:
        read, keyed = reader(source).read, case.checked.layout(source).keyed
        rows = [read(*row) if keyed else read(UNIT, row) for row in case.rows[source.name]]
        hashed = stable_hash(case.checked.streams[source.id].key)
        parts[source.name] = deal(source, rows, draw(st.integers(1, 3)), chance, hashed)
    return Parted(case, parts)


@settings(max_examples=3 * settings().max_examples)
@given(parted())
def test_a_source_in_parts_is_the_merge_of_them(one: Parted) -> None:
    assert one.differences() == []


FIRST = settings(phases=(Phase.generate,), max_examples=3_000, derandomize=True, database=None)
"""Stop at the first example."""


def caught_by(example: st.SearchStrategy[Any]) -> bool:
    """Does a run of some example differ from the definition?"""
    try:
        find(example, lambda one: one.differences() != [], settings=FIRST)
    except NoSuchExample:
        return False
    return True


def reporting(monkeypatch: pytest.MonkeyPatch, change: Callable[[Report], Report]) -> None:
    """Let stages take other reports."""
    advance = Frontier.advance

    def changed(self: Frontier, progress: Any, epoch: Any, reports: Sequence[Report], held: Any) -> None:
        advance(self, progress, epoch, list(map(change, reports)), held)

    monkeypatch.setattr(Frontier, "advance", changed)


def test_one_frontier_for_all_parts_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    reporting(monkeypatch, lambda report: attrs.evolve(report, part=0))
    assert caught_by(parted())


@pytest.mark.nightly
def test_parts_that_are_not_waited_for_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    reporting(monkeypatch, lambda report: attrs.evolve(report, parts=report.part + 1))
    assert caught_by(parted())


def test_open_blocks_of_parts_in_one_heap_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Frontier, "way", lambda self, link, part: link)
    assert caught_by(parted())


# ---------------------------------------------------------------------------------------------- special cases


def flow_of(markers: Any) -> Dataflow:
    """Passes its items on."""
    flow = Dataflow("passing")
    flow.sink("out", flow.source("in", U[int, Sample], markers=markers, key=id_of))
    return flow


TIMED = flow_of(every(seconds=10, time=ts_of))
BANDED = flow_of(in_band(is_marker=is_mark, time=ts_of))


def running() -> Dataflow:
    flow = Dataflow("running")
    source = flow.source(
        "in", O[int, int], markers=every(seconds=10, time=own_value), key=modulo_three, ordered_by=ROW_POSITION
    )
    flow.sink("out", source.through(RunningSum[int]()))
    return flow


def answered(flow: Dataflow, *parts: Sequence[Any], drain: bool = False) -> Answer:
    """What a run makes of values in parts (a Row is taken as it is); the definition says the same."""
    checked = check(flow)
    read = reader(checked.graph.sources[0]).read
    rows = [[one if isinstance(one, Row) else read(UNIT, one) for one in part] for part in parts]
    case = Case(flow, {}, seed=1, parallelism=2, key_groups=3, drain=drain)
    for seed in range(10):
        one = Parted(attrs.evolve(case, seed=seed), {"in": rows})
        assert one.differences() == []
    return one.run()


def markers(answer: Answer) -> list[int]:
    """The markers of an answer, in seconds."""
    return [one.timestamp for one in answer.trace.items if isinstance(one, Marker)]


def sample(ts: int, mark: bool = False) -> Sample:
    return Sample(ts, 1, 1, mark=mark)


def beat(seconds: int) -> Row:
    return Row("marker", time=seconds * 1_000_000)


def test_an_item_is_late_by_its_own_part_alone() -> None:
    answer = answered(TIMED, [sample(1), sample(2)], [sample(100), sample(3)])
    ((_, reason, text),) = answer.late
    assert reason == "its block ended at #10, and #100 was already sent"
    assert json.loads(text)["value"]["ts"] == 3


def test_the_slowest_part_holds_the_source_back() -> None:
    assert markers(answered(TIMED, [sample(1), sample(42)], [sample(3), sample(27)])) == [10, 20]


def test_a_part_that_sends_nothing_holds_the_source_back_until_it_ends() -> None:
    assert markers(answered(TIMED, [sample(1), sample(42)], [])) == []
    assert markers(answered(TIMED, [sample(1), sample(42)], [], drain=True)) == [10, 20, 30, 40, 50]


def test_a_heartbeat_is_enough() -> None:
    assert markers(answered(TIMED, [sample(1), sample(42)], [beat(35)])) == [10, 20, 30]


def test_behind_a_heartbeat_items_before_it_are_late() -> None:
    assert len(answered(TIMED, [sample(1), beat(20), sample(19), sample(20)], drain=True).late) == 1


def test_a_heartbeat_waits_for_no_delay() -> None:
    flow = flow_of(every(seconds=10, time=ts_of, delay=60))
    assert markers(answered(flow, [sample(1), sample(42), beat(30)])) == [10, 20, 30]
    assert markers(answered(flow, [sample(1), sample(42), beat(30)], drain=True)) == [10, 20, 30, 40, 50]


def test_markers_in_band_wait_for_every_part() -> None:
    one = [sample(1), sample(10, mark=True), sample(11), sample(30, mark=True)]
    other = [sample(2), sample(20, mark=True), sample(21)]
    assert markers(answered(BANDED, one, other)) == [10, 20]
    assert markers(answered(BANDED, one, [])) == []


def test_a_key_in_two_parts_of_an_ordered_source_is_refused() -> None:
    case = Case(running(), {}, seed=1, parallelism=1, key_groups=3, drain=True)
    rows = [[Row("item", 1, 4, 4_000_000)], [Row("item", 1, 7, 7_000_000)]]
    for run in (Parted(case, {"in": rows}).run, Parted(case, {"in": rows}).expected):
        with pytest.raises(OperatorFailed) as error:
            run()
        assert error.value.code == "TT205"
        assert error.value.message == "source 'in': the key 1 comes from two partitions, whose order is not known"
