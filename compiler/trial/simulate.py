"""A seeded adversarial executor of a plan: everything that a backend may do to the data, without a backend.

Rows are cut into steps and steps into pieces at random, some of them as columns; the messages of a step are shuffled;
groups run in random order; all state and all messages are serialised and read back between steps. Whatever seed it is
given, the traces at the sink must be those of the interpreter.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final, TypeAlias, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.connectors.closing import ClockSplit
from tracetypes.compiler.gates.kernel import GateKernel, TablePiece
from tracetypes.compiler.gates.kernel import Piece as HeldPiece
from tracetypes.compiler.plan.one_by_one import decided_one_by_one
from tracetypes.compiler.plan.plan import ChannelLink, FromStage, Plan, SourceLink, links
from tracetypes.compiler.plan.program import Program
from tracetypes.compiler.runtime.channel import ChannelKernel
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.clocked_source import source_kernel
from tracetypes.compiler.runtime.messages import Drain, Message, Piece, Reached, Report, RetryEpoch, Rows, StageProgress
from tracetypes.compiler.runtime.regroup import regrouped
from tracetypes.compiler.runtime.source import SourceKernel, TakenRow
from tracetypes.compiler.runtime.stage import StageKernel
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.compiler.store.output_trace import Answer, Collector
from tracetypes.compiler.wire.messages import decode, encode
from tracetypes.marker_runs import NO_MARKERS, MarkerRuns
from tracetypes.markers import EventTime
from tracetypes.nodes import Gate
from tracetypes.parsing import Row
from tracetypes.records import UNIT, Bytes, Optional, Record, Schema, String
from tracetypes.silence import NO_SILENCE, Silence
from tracetypes.sources import reader
from tracetypes.trace import StreamType

__all__ = ["IDLE", "simulate", "simulate_program", "simulate_scripts", "simulate_steps"]


Cut: TypeAlias = Mapping[str, Sequence[Sequence[list[Any]]]]
"""The rows of each step of each part of each source."""

IDLE: Final = Row("marker", reason="idle")
"""Stands for what a source says of a part that it does not wait for."""


def simulate(
    plan: Plan,
    inputs: Mapping[str, Sequence[Any]],
    *,
    seed: int,
    steps: int = 4,
    pieces: int = 3,
    drain: bool = True,
    in_parts: Mapping[str, Sequence[Sequence[Any]]] | None = None,
    then: Sequence[Plan] = (),
) -> Answer:
    """Run a plan on rows (for each source its values, or pairs where the rows have a key column). ``in_parts``: rows of the
    sources that are in parts, such as the partitions of a topic. A row may be a :class:`Row`, read already. ``then``: plans
    that go on with what this one has left behind (:mod:`.fingerprint` says which can, and another number of key groups is
    possible here), at steps drawn at random."""
    in_parts = in_parts or {}
    parts = {s.label: in_parts.get(s.source.name, [inputs.get(s.source.name, ())]) for s in plan.sources}
    chance = random.Random(seed)
    answer, _ = _run((plan, *then), _cut_all(parts, steps, chance), {}, chance, steps, pieces, drain=drain)
    return answer


def simulate_program(
    program: Program,
    inputs: Mapping[str, Sequence[Any]],
    *,
    seed: int,
    steps: int = 4,
    pieces: int = 3,
    drain: bool = True,
) -> dict[str, Answer]:
    """Run all segments of a program, by name: each cuts what it reads into steps of its own, also what channels bring."""
    chance = random.Random(seed)

    def of(plan: Plan) -> Cut:
        return _cut_all({s.label: [inputs.get(s.source.name, ())] for s in plan.sources}, steps, chance)

    return _run_all(program, of, chance, steps, pieces, drain=drain)


def simulate_scripts(
    program: Program,
    scripts: Mapping[str, Sequence[Sequence[Row]]],
    *,
    seed: int,
    crashes: Collection[int] = (),
    pieces: int = 3,
) -> dict[str, Answer]:
    """The same where the steps of each source are given. ``crashes``: steps that are lost when they are done, and done again
    from the states before them."""
    chance = random.Random(seed)

    def of(plan: Plan) -> Cut:
        return {s.label: [[list(step) for step in scripts.get(s.source.name, ())]] for s in plan.sources}

    return _run_all(program, of, chance, 4, pieces, drain=True, crashes=crashes)


def _run_all(
    program: Program,
    cut: Callable[[Plan], Cut],
    chance: random.Random,
    steps: int,
    pieces: int,
    *,
    drain: bool,
    crashes: Collection[int] = (),
) -> dict[str, Answer]:
    answers: dict[str, Answer] = {}
    channels: dict[str, list[ChannelStep]] = {}
    for segment, plan in zip(program.segments, program.plans, strict=True):
        answers[segment.name], channel_steps = _run(
            (plan,), cut(plan), channels, chance, steps, pieces, drain=drain, crashes=crashes
        )
        if segment.sends is not None:
            gate = plan.gate
            channels[segment.sends] = channel_steps if gate is None else _through_gate(plan, gate, channel_steps, chance)
    return answers


def _through_gate(plan: Plan, gate: Gate, steps: Sequence[ChannelStep], chance: random.Random) -> list[ChannelStep]:
    """What a gate lets through of each step. At times another process goes on, from what the gate has written down."""
    held: list[HeldPiece] = []
    kernel = GateKernel(gate, plan.layout, ordered=plan.edge.ordered)
    passed: list[ChannelStep] = []
    for step in steps:
        if chance.random() < 0.3:
            left = loads(dumps(kernel.left()))
            kernel = GateKernel(gate, plan.layout, ordered=plan.edge.ordered)
            kernel.go_on(left, held)
        new: list[HeldPiece] = [TablePiece.of(pa.Table.from_batches([rows])) for rows in step.rows if rows.num_rows]
        chance.shuffle(new)
        through = kernel.step(held, new, step.markers, complete=step.complete)
        tables = [table for one in through.whole for table in one.tables(one.first, one.last)] + [*through.rows]
        rows = [batch for table in tables for batch in table.combine_chunks().to_batches()]
        held = through.rest
        passed.append(ChannelStep(rows, through.markers, step.complete, step.silence))
    return passed


def simulate_steps(plan: Plan, steps: Cut, *, seed: int, pieces: int = 3, drain: bool = True) -> Answer:
    """Run a plan where the rows of each step of each part of each source are given; :data:`IDLE` among those of a part says that
    it is idle in that step, and a :class:`ClockSplit` how far event time has come with the clock."""
    answer, _ = _run((plan,), steps, {}, random.Random(seed), 1, pieces, drain=drain)
    return answer


@final
class Verifiers:
    """The verifier of each plan of a run. All kernels have the same one, as in a worker that has all tasks."""

    def __init__(self) -> None:
        self.plans: list[tuple[Plan, Verifier | None]] = []

    def of(self, plan: Plan) -> Verifier | None:
        """The verifier of a plan."""
        for one, verifier in self.plans:
            if one is plan:
                return verifier
        self.plans.append((plan, Verifier.of(plan)))
        return self.plans[-1][1]


@attrs.frozen
class ChannelStep:
    """What one step of a segment puts into its channel."""

    rows: list[Any]
    markers: MarkerRuns
    complete: bool
    silence: Silence = NO_SILENCE

    @classmethod
    def of(cls, plan: Plan, messages: Sequence[Message]) -> ChannelStep:
        """From the messages that leave the last stage."""
        rows = [m.body.batch for m in messages if isinstance(m.body, Rows)]
        progress = [m.body for m in messages if isinstance(m.body, StageProgress)]
        for last in [one for one in progress if one.stage == plan.stages[-1].number]:
            return cls(rows, last.markers, last.complete, last.silence)
        return cls(rows, NO_MARKERS, False)


def _cut_all(inputs: Mapping[str, Sequence[Sequence[Any]]], steps: int, chance: random.Random) -> Cut:
    return {
        name: [_cut(list(rows), chance.randint(1, steps), chance) for rows in parts] for name, parts in inputs.items()
    }


def _run(
    plans: Sequence[Plan],
    cut: Cut,
    channels: Mapping[str, Sequence[ChannelStep]],
    chance: random.Random,
    steps: int,
    pieces: int,
    *,
    drain: bool,
    crashes: Collection[int] = (),
) -> tuple[Answer, list[ChannelStep]]:
    plan, left = plans[0], list(plans[1:])
    collector, verifiers = Collector(plan), Verifiers()
    states: dict[tuple[int, int], bytes] = {}
    brought = {c.name: _cut(list(channels[c.name]), chance.randint(1, steps), chance) for c in plan.channels}
    channel_steps: list[ChannelStep] = []
    lengths = [len(of_part) for parts in cut.values() for of_part in parts]
    for number in range(max([*lengths, *map(len, brought.values())], default=0)):
        if channel_steps and channel_steps[-1].complete:
            break  # a run ends with the step that has answered the end
        now = {name: [of_part[number] if number < len(of_part) else [] for of_part in p] for name, p in cut.items()}
        sliced = {
            name: [_cut(rows, chance.randint(1, pieces), chance) if rows else [] for rows in parts]
            for name, parts in now.items()
        }
        if left and number and chance.random() < 0.5:
            plan = collector.plan = _followed_by(plan, left.pop(0), states)
        come = {name: parts[number] if number < len(parts) else [] for name, parts in brought.items()}
        if number in crashes:
            lost = Collector(plan, newest=dict(collector.newest))
            _step(plan, sliced, come, number, dict(states), lost, verifiers, chance, drained=False)
        channel_steps.append(_step(plan, sliced, come, number, states, collector, verifiers, chance, drained=False))
    plan = collector.plan = _followed_by(plan, left[0], states) if left else plan
    if drain and plan.sources:  # one that reads channels alone has got its end from them
        channel_steps.append(_step(plan, {}, {}, 10**6, states, collector, verifiers, chance, drained=True))
    return collector.answer(plan.region.stream), channel_steps


def _followed_by(plan: Plan, then: Plan, states: dict[tuple[int, int], bytes]) -> Plan:
    """The plan that goes on. Its states are made of those of the plan before, if it has another number of key groups."""
    for stage in plan.stages if then.key_groups != plan.key_groups else ():
        before = [loads(states.pop(at)) for at in sorted(states) if at[0] == stage.number]
        for group, state in enumerate(regrouped(stage, before, then.key_groups)):
            states[stage.number, group] = dumps(state)
    return then


def _cut(rows: list[Any], parts: int, chance: random.Random) -> list[list[Any]]:
    at = sorted(chance.randint(0, len(rows)) for _ in range(parts - 1))
    return [rows[a:b] for a, b in zip([0, *at], [*at, len(rows)], strict=True)]


def _step(
    plan: Plan,
    sliced: Mapping[str, list[list[list[Any]]]],
    come: Mapping[str, Sequence[ChannelStep]],
    number: int,
    states: dict[tuple[int, int], bytes],
    collector: Collector,
    verifiers: Verifiers,
    chance: random.Random,
    *,
    drained: bool,
) -> ChannelStep:
    """One step of all stages; done again from the same states when a stage asks for it."""
    before: dict[str, dict[Piece, int | None]] = {}
    while True:
        attempt = dict(states)
        out: list[Message] = []
        try:
            waiting: dict[int, list[Message]] = {stage.number: [] for stage in plan.stages}
            for stage in plan.stages:
                for link in links(stage.region):
                    if isinstance(link, SourceLink):
                        parts = sliced.get(link.leaf.label, [])
                        begin = partial(source_kernel, stage, link, plan.key_groups, verifier=verifiers.of(plan))
                        for part in range(len(parts)):
                            read = _read(begin, link, parts, part, number, collector, before, chance)
                            waiting[stage.number].extend(read)
                    elif isinstance(link, ChannelLink):
                        for one in come.get(link.leaf.name, ()):
                            receiver = ChannelKernel(stage, link, plan.key_groups, verifiers.of(plan))
                            waiting[stage.number].extend(receiver.markers(one.markers, one.complete, one.silence))
                            for table in one.rows:
                                waiting[stage.number].extend(receiver.rows(table))
                messages = [_passed(m, chance) for m in waiting[stage.number]]
                if drained:
                    messages += [Message(group, Drain()) for group in range(plan.key_groups)]
                chance.shuffle(messages)
                groups = sorted({m.group for m in messages}, key=lambda _: chance.random())
                kernel = StageKernel(plan, stage, verifiers.of(plan))
                for group in groups:
                    if chance.random() < 0.5:  # a worker runs several groups with one kernel
                        kernel = StageKernel(plan, stage, verifiers.of(plan))
                    state: StageState = (
                        loads(attempt[stage.number, group]) if (stage.number, group) in attempt else kernel.fresh()
                    )
                    output = list(kernel.step(state, group, [m for m in messages if m.group == group]))
                    attempt[stage.number, group] = dumps(state)
                    after = _target(plan, stage.number)
                    (out if after is None else waiting[after]).extend(output)
        except RetryEpoch as again:
            before |= {name: dict(pieces) for name, pieces in again.before.items()}
            plan = decided_one_by_one(plan, again.one_by_one)
            continue
        states.update(attempt)
        chance.shuffle(out)
        for message in out:
            collector.take(message)
        return ChannelStep.of(plan, out)


def _passed(message: Message, chance: random.Random) -> Message:
    """What arrives of a message: mostly what was made of its bytes, at times the message itself, as within a process."""
    return decode(*encode(message)) if chance.random() < 0.8 else message


def _target(plan: Plan, number: int) -> int | None:
    for later in plan.stages:
        for link in links(later.region):
            if isinstance(link.leaf, FromStage) and link.leaf.stage == number:
                return later.number
    return None


def _read(
    new_kernel: Callable[[], SourceKernel],
    link: SourceLink,
    parts: list[list[list[Any]]],
    part: int,
    number: int,
    collector: Collector,
    before: Mapping[str, Mapping[Piece, int | None]],
    chance: random.Random,
) -> list[Message]:
    source, keyed = link.leaf.source, link.leaf.layout.keyed
    read = reader(source).read
    messages: list[Message] = []
    columnar = isinstance(source.markers, EventTime) and not link.leaf.has_clock
    newest = collector.newest.get(link.leaf.label, [])
    come: Reached = newest[part] if part < len(newest) else None
    for at, rows in enumerate(parts[part]):
        place = (number, part, at)
        frontiers = before.get(link.leaf.label, {})
        earlier = frontiers[place] if place in frontiers and not link.leaf.has_clock else come
        idle = any(row is IDLE for row in rows)
        for split in [row for row in rows if isinstance(row, ClockSplit)]:
            messages.extend(new_kernel().elapsed(split.time))
        rows = [row for row in rows if row is not IDLE and not isinstance(row, ClockSplit)]
        source_rows = [_taken(row if isinstance(row, Row) else read(*row) if keyed else read(UNIT, row), row) for row in rows]
        some = _chunked(source_rows, link.leaf.items, chance) if columnar and chance.random() < 0.5 else source_rows
        sent = list(new_kernel().piece(place, some, earlier, part, len(parts), idle))
        messages.extend(sent)
        if link.leaf.has_clock:  # whose pieces are read one after the other
            report = next(message.body for message in sent if isinstance(message.body, Report))
            come = report.reached
    return messages


def _chunked(some: list[TakenRow], stream: StreamType, chance: random.Random) -> Iterator[TakenRow | Chunk]:
    """Some of the adjacent rows that are no rejects as columns."""
    for is_item, group in groupby(some, lambda one: one.row.kind == "item"):
        for part in _cut(list(group), chance.randint(1, 3), chance):
            if is_item and part and chance.random() < 0.7:
                rows = [one.row for one in part]
                yield Chunk.of(
                    np.array([row.time for row in rows], np.int64),
                    _encoded(stream.key, array(stream.key, [row.key for row in rows]), chance),
                    _encoded(stream.value, array(stream.value, [row.value for row in rows]), chance),
                )
            else:
                yield from part


def _encoded(schema: Schema, column: Any, chance: random.Random) -> Any:
    """The column with some of its text dictionary encoded, as files may have it."""
    match schema:
        case String() | Bytes() if chance.random() < 0.5:
            return column.dictionary_encode()
        case Record(_, fields) if fields:
            parts = [_encoded(inner, part, chance) for (_, inner), part in zip(fields, column.flatten(), strict=True)]
            return pa.StructArray.from_arrays(parts, names=[name for name, _ in fields], mask=column.is_null())
        case Optional(item):
            return _encoded(item, column, chance)
        case _:
            return column


def _taken(row: Row, raw: Any) -> TakenRow:
    return TakenRow(row, lambda: raw.text if isinstance(raw, Row) else repr(raw))
