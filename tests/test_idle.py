"""Partitions that nobody waits for: what the clock decides, how it is kept, and what it means: a heartbeat at what all other
partitions have reached."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.graphs import Case, cases
from tests.test_parts import TIMED, caught_by, deal, sample
from tracetypes import UNIT, Marker, UsageError, check, interpret
from tracetypes.arrangement import Arranged, arrange, arrange_parts
from tracetypes.canonical import stable_hash
from tracetypes.compiler.connectors import idle
from tracetypes.compiler.connectors.idle import IdleDetector
from tracetypes.compiler.connectors.kafka import Address
from tracetypes.compiler.connectors.kafka_splits import Place, TopicSplits
from tracetypes.compiler.connectors.kafka_topic import TopicDescription
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime.frontier import Frontier
from tracetypes.compiler.spark.data_source import SplitStreamReader
from tracetypes.compiler.store.output_trace import Answer
from tracetypes.compiler.trial.simulate import IDLE, simulate_steps
from tracetypes.markers import EventTime
from tracetypes.nodes import Source
from tracetypes.parsing import Row
from tracetypes.sources import reader
from tracetypes.trace import Element, Trace, closed

Steps = dict[str, list[list[list[Row]]]]
"""Of each source, of each part, the rows of each step; IDLE where it is idle."""


def as_heartbeats(source: Source, parts: list[list[list[Row]]]) -> list[list[Row]]:
    """The rows of each part, with a heartbeat at the end of each step in which it is idle: of the last marker that each part
    that is not idle has reached, if all of them have reached one."""
    rows: list[list[Row]] = [[] for _ in parts]
    for step in range(max(map(len, parts))):
        now = [part[step] if step < len(part) else [] for part in parts]
        idle = [any(row is IDLE for row in some) for some in now]
        for so_far, some in zip(rows, now, strict=True):
            so_far += [row for row in some if row is not IDLE]
        reached: list[int | None] = []
        for so_far, silent in zip(rows, idle, strict=True):
            if not silent:
                told = [e.micros for e in arrange(source, so_far, drain=False).items if isinstance(e, Marker)]
                reached.append(told[-1] if told else None)
        known = [marker for marker in reached if marker is not None]
        for so_far, silent in zip(rows, idle, strict=True):
            if silent and known and len(known) == len(reached):
                so_far.append(Row("marker", time=min(known)))
    return rows


@attrs.frozen
class Idling:
    """A case whose sources are in parts, some of them idle now and then."""

    case: Case
    steps: Steps

    def __repr__(self) -> str:
        shown = {
            name: [[["idle" if r is IDLE else r for r in s] for s in p] for p in of] for name, of in self.steps.items()
        }
        return f"{self.case!r}\n{shown}"

    def as_heartbeats(self, source: Source) -> list[list[Row]]:
        """The rows of each part of a source, with heartbeats for what the clock decided."""
        return as_heartbeats(source, self.steps[source.name])

    def expected(self) -> tuple[Trace[Element], dict[str, Arranged]]:
        """What the interpreter says."""
        checked, drain = self.case.checked, self.case.drain
        arranged = {
            source.name: arrange_parts(
                source,
                self.as_heartbeats(source),
                drain=drain,
                ordered=source.ordered_by is not None,
            )
            for source in checked.graph.sources
        }
        (trace,) = interpret(checked, {name: one.items for name, one in arranged.items()}, complete=drain).values()
        return (trace if drain else closed(trace)), arranged

    def run(self) -> Answer:
        """What a run gives."""
        case = self.case
        planned = plan(case.checked, parallelism=case.parallelism, key_groups=case.key_groups)
        return simulate_steps(planned, self.steps, seed=case.seed, pieces=case.pieces, drain=case.drain)

    def differences(self) -> list[str]:
        """In what the answer is not the interpreter's."""
        answer, (trace, arranged) = self.run(), self.expected()
        late = Counter((name, late.reason) for name, one in arranged.items() for late in one.late)
        found = [] if answer.trace == trace else [f"{answer.trace} instead of {trace}"]
        told = Counter((source, reason) for source, reason, _ in answer.late)
        return found if told == late else [*found, f"{told} late instead of {late}"]


@st.composite
def idling(draw: st.DrawFn) -> Idling:
    """Random dataflows whose sources are in up to three parts; where a part has no rows in a step it may be idle."""
    case = draw(cases())
    chance = random.Random(draw(st.integers(0, 2**16)))
    steps: Steps = {}
    for source in case.checked.graph.sources:
        read, keyed = reader(source).read, case.checked.layout(source).keyed
        rows = [read(*row) if keyed else read(UNIT, row) for row in case.rows[source.name]]
        hashed = stable_hash(case.checked.streams[source.id].key)
        steps[source.name] = []
        for part in deal(source, rows, draw(st.integers(1, 3)), chance, hashed):
            places = sorted([0, *(chance.randint(0, len(part)) for _ in range(case.steps)), len(part)])
            cut = [part[one:other] for one, other in pairwise(places)]
            if isinstance(source.markers, EventTime):
                cut = [some or ([IDLE] if chance.random() < 0.5 else []) for some in cut]
            steps[source.name].append(cut)
    return Idling(case, steps)


@settings(max_examples=2 * settings().max_examples)
@given(idling())
def test_who_is_idle_sends_heartbeats_as_it_were(one: Idling) -> None:
    assert one.differences() == []


@pytest.mark.parametrize("broken", ["nothing is passed over", "everybody is passed over"])
def test_another_meaning_is_caught(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    real = Frontier.pass_over
    if broken == "nothing is passed over":
        monkeypatch.setattr(Frontier, "pass_over", lambda *_: None)
    else:
        monkeypatch.setattr(
            Frontier,
            "pass_over",
            lambda self, one, parts, idle, *more: real(self, one, parts, dict.fromkeys(range(len(parts)), (0, 0, 0)), *more),
        )
    assert caught_by(idling())


def test_a_silent_part_no_longer_holds_the_source_back_and_is_late_by_that() -> None:
    case = Case(TIMED, {}, seed=1, parallelism=2, key_groups=3, drain=False)
    read = reader(check(TIMED).graph.sources[0]).read
    rows = {ts: read(UNIT, sample(ts)) for ts in (1, 3, 29, 31, 42)}
    steps: Steps = {"in": [[[rows[1]], [rows[42]], [], []], [[rows[3]], [], [IDLE], [rows[29], rows[31], rows[42]]]]}
    for seed in range(10):
        assert Idling(attrs.evolve(case, seed=seed), steps).differences() == []
    held = {"in": [part[:2] for part in steps["in"]]}
    given_up = {"in": [part[:3] for part in steps["in"]]}

    def markers(some: Steps) -> list[int]:
        return [e.timestamp for e in Idling(case, some).run().trace.items if isinstance(e, Marker)]

    assert markers(held) == []
    assert markers(given_up) == [10, 20, 30, 40]
    assert sorted(reason for _, reason, _ in Idling(case, steps).run().late) == [
        "its block ended at #30, and #40 was already sent",
        "its block ended at #40, and #40 was already sent",
    ]


# ------------------------------------------------------------------------------------------------- the clock


class Clock:
    """Time that the test makes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(idle.time, "monotonic", lambda: self.now)  # type: ignore[attr-defined]
        monkeypatch.setattr(idle.time, "sleep", lambda _: None)  # type: ignore[attr-defined]


def test_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, silence = Clock(monkeypatch), IdleDetector(5)
    start = {0: 0, 1: 0, 2: 0}

    def after(seconds: float, *ends: int) -> set[int]:
        clock.now += seconds
        return silence.of(dict(enumerate(ends)), start)

    assert after(0, 4, 0, 1) == set()
    assert after(4, 5, 0, 1) == set()
    assert after(1, 6, 0, 1) == {1, 2}  # both for five seconds, and partition 0 went on
    assert after(1, 6, 0, 2) == {1}
    assert after(90, 6, 0, 2) == {0, 1}  # after the last record of 2 nobody went on
    assert after(1, 6, 1, 2) == {0, 2}


def test_who_had_nothing_to_be_read_when_the_run_began_is_silent_too(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, silence = Clock(monkeypatch), IdleDetector(5)
    assert silence.of({0: 9, 1: 3}, {0: 4, 1: 3}) == set()
    clock.now += 5
    assert silence.of({0: 9, 1: 3}, {0: 9, 1: 3}) == {1}


class Watched:
    """A topic that the test fills."""

    def __init__(self, **ends: int) -> None:
        self.ends = {int(name[1:]): end for name, end in ends.items()}

    def described(self) -> TopicDescription:
        return TopicDescription("t", tuple(sorted(self.ends)))

    def offsets(self, partitions: list[int], *, first: bool = False) -> dict[int, int]:
        return {partition: 0 if first else self.ends[partition] for partition in partitions}

    def bounds(self, partitions: list[int]) -> tuple[dict[int, int], dict[int, int]]:
        return self.offsets(partitions, first=True), self.offsets(partitions)


def topic(watched: Watched, idle: str = "?idle=5", until: Mapping[int, int] | None = None) -> SplitStreamReader:
    """As Spark would ask it; a new process knows no clock of an earlier one."""
    made = TopicSplits(Address.of(f"kafka://localhost:1/t{idle}"), until, "t")
    made.__dict__["watch"] = watched
    return SplitStreamReader(made)


def test_the_decision_stands_in_the_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, watched = Clock(monkeypatch), Watched(p0=3, p1=2)
    one = topic(watched)
    at: dict[str, Any] = one.latestOffset(one.initialOffset(), ReadAllAvailable())
    assert at == {"0": 3, "1": 2}
    watched.ends[0], clock.now = 4, clock.now + 5
    after = one.latestOffset(at, ReadAllAvailable())
    assert after == {"0": 4, "1": 2, "idle": [1]}
    assert [piece.row for piece in topic(watched).partitions(at, after)] == [(0, 3, 4, 2, False), (1, 2, 2, 2, True)]

    another = topic(watched)  # a run that goes on: still idle, though its clock has just begun
    assert another.latestOffset(after, ReadAllAvailable()) == after
    watched.ends[0] = 5
    later = another.latestOffset(after, ReadAllAvailable())
    assert later == {"0": 5, "1": 2, "idle": [1]}
    watched.ends[1] = 3
    awake = another.latestOffset(later, ReadAllAvailable())
    assert awake == {"0": 5, "1": 3}
    assert [piece.row for piece in another.partitions(later, awake)] == [(1, 2, 3, 2, False)]


def test_without_idle_nothing_is_decided_and_offsets_are_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, watched = Clock(monkeypatch), Watched(p0=3, p1=0)
    one = topic(watched, "")
    at = one.latestOffset(one.initialOffset(), ReadAllAvailable())
    watched.ends[0], clock.now = 4, clock.now + 1e6
    assert one.latestOffset(at, ReadAllAvailable()) == {"0": 4, "1": 0}
    assert one.latestOffset({"0": 3, "1": 0, "idle": [1]}, ReadAllAvailable()) == {"0": 4, "1": 0}


def test_a_partition_with_records_that_are_yet_to_be_read_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, watched = Clock(monkeypatch), Watched(p0=9, p1=9)
    one = topic(watched, "?idle=5&records=2")
    at = one.latestOffset(one.initialOffset(), ReadAllAvailable())
    clock.now, watched.ends[0] = clock.now + 50, 10
    assert one.latestOffset(at, ReadAllAvailable()) == {"0": 2, "1": 2}


def test_places_are_what_spark_keeps() -> None:
    for offset in ({"0": 1, "1": 2}, {"0": 1, "1": 2, "idle": [0]}):
        assert Place.of(offset).offset == offset


@pytest.mark.parametrize("idle", ["", "x", "0", "-1", "inf", "nan"])
def test_TT402_no_time(idle: str) -> None:
    with pytest.raises(UsageError) as refused:
        Address.of(f"kafka://localhost:1/t?idle={idle}")
    assert refused.value.code == "TT402"
