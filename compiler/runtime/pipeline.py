"""Blocks that close on their way through the operators of a stage, and out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

from tracetypes.compiler.columns.ordering import Pairs
from tracetypes.compiler.plan.facts import sums_only
from tracetypes.compiler.plan.plan import FromStage, Plan, Stage, Step, links
from tracetypes.compiler.runtime.emitter import Emitter, ToSink, ToStage
from tracetypes.compiler.runtime.empty_blocks import DueMarkers, EmptyBlocks, EveryMarker, MarkerSchedule, NoMarkers
from tracetypes.compiler.runtime.epoch import Epoch
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.runtime.open_blocks import Due, Flows, OpenBlocks
from tracetypes.compiler.runtime.operators import Runner, UnorderedState, ordered_runner, sorter_of, unordered_runner
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.interpreter import call_operator
from tracetypes.markers import Marker
from tracetypes.nodes import Restore, Sort
from tracetypes.silence import emitted_in, linger_of, markers_in, split_at
from tracetypes.templates import OpKeyedOrdered, OpKeyedUnordered, overrides

__all__ = ["Pipeline"]


@final
class Pipeline:
    """The operators of a stage in their order, and the emitter behind them."""

    def __init__(self, plan: Plan, stage: Stage, verifier: Verifier | None) -> None:
        self.steps, self.tumbles = stage.steps, stage.tumbles is not None
        self.ordered = {
            at: ordered_runner(op, step)
            for at, step in enumerate(stage.steps)
            if isinstance(op := step.operator, OpKeyedOrdered)
        }
        self.runs = [
            self.ordered[at] if at in self.ordered else _runner(stage, at, step) for at, step in enumerate(stage.steps)
        ]
        self.emitter = _emitter(plan, stage, verifier)

    @property
    def as_columns(self) -> bool:
        """May what leaves the first operator go out as columns? So it is where nothing behind looks at single items."""
        return len(self.runs) <= 1 and self.emitter.trees is not None

    def fresh(self) -> list[Any]:
        """The states of the operators before the first epoch."""
        return [_initial(step) for step in self.steps]

    def close(self, states: list[Any], due: Due, ends: Sequence[int], epoch: Epoch) -> None:
        """Take the blocks that close."""
        match due:
            case Flows():
                if due.start == len(self.runs) and self.emitter.columns(due.flows, self._positions(due)):
                    epoch.emitted += due.count
                    if due.start:
                        epoch.flowed[due.start] += due.count
                    for end in ends:
                        self.emitter.block(Pairs([], []), Marker(end), epoch.group)
                    return
                due = due.objects(ends)
            case _:
                pass
        for end, flowing in due.blocks:
            self._block(states, flowing, Marker(end), due.start, epoch)

    def _positions(self, due: Flows) -> Any:
        """The positions (int64) of ordered items; None for others."""
        return None if due.places is None else self.emitter.positions(due.flows[0][1], due.places)

    def _block(self, states: list[Any], flowing: Any, marker: Marker, start: int, epoch: Epoch) -> None:
        """A block through the operators from ``start``, and out."""
        flowed = epoch.flowed
        if start:
            flowed[start] += len(flowing.values)
        for at, run in enumerate(self.runs[start:], start):
            flowing = run(states, at, flowing, marker)
            flowed[at + 1] += len(flowing.values)
        epoch.emitted += len(flowing.values)
        self.emitter.block(flowing, marker, epoch.group)

    def end(self, states: list[Any], blocks: OpenBlocks, idle: list[int], last: int, epoch: Epoch) -> None:
        """Nothing comes any more. ``idle``: markers behind the last item, up to ``last``, the last of all; behind it there is
        silence."""
        markers, until = list(idle), list[int]()
        for step in self.steps:
            lingering = emitted_in(epoch.silence, linger_of(step.node))
            if lingering is not None:
                spoken, epoch.silence = split_at(epoch.silence, lingering)
                markers += markers_in(spoken)
                last = max(last, lingering)
            until.append(last)
        epoch.closed = [*epoch.closed, *markers[len(idle) :]]
        if not markers:
            return
        schedules = [self._schedule(at, states, until[at]) for at in range(len(self.steps))]
        empty = EmptyBlocks(schedules, states, blocks)
        for marker, flowing, flowed in empty.visits(markers, all_of_them=self.emitter.emits_at_markers):
            epoch.flowed[:] = [one + more for one, more in zip(epoch.flowed, flowed, strict=True)]
            epoch.emitted += len(flowing.values)
            self.emitter.block(flowing, marker, epoch.group)

    def _schedule(self, at: int, states: list[Any], until: int) -> MarkerSchedule:
        """When an operator has to be visited though nothing comes."""
        run = self.runs[at]
        match self.steps[at].operator:
            case OpKeyedOrdered() as op if overrides(op, "on_marker"):
                ordered = self.ordered[at]
                return DueMarkers(op, ordered, states[at], until) if overrides(op, "next_due") else EveryMarker(run, until)
            case OpKeyedUnordered() as op if not op.skips_untouched or (self.tumbles and not at):
                return EveryMarker(run, until)
            case _:
                return NoMarkers(run)

    def messages(self, epoch: Epoch, *, complete: bool) -> Iterator[Message]:
        """All that an epoch sends."""
        return self.emitter.messages(epoch.group, epoch.closed, complete, epoch.silence)


def _initial(step: Step) -> Any:
    match step.operator:
        case OpKeyedUnordered() as op:
            return UnorderedState({}, call_operator(op, "initial_state", "the start", op.initial_state))
        case OpKeyedOrdered():
            return {}
        case Sort() | Restore():
            return None


def _runner(stage: Stage, at: int, step: Step) -> Runner:
    match step.operator:
        case Restore():
            return lambda states, at, flowing, marker: flowing
        case Sort() as node:
            return sorter_of(node, step)
        case OpKeyedOrdered() as op:
            return ordered_runner(op, step)
        case OpKeyedUnordered() as op:
            tumbles = stage.tumbles is not None and not at
            pane = None if at else stage.pane
            return unordered_runner(op, step, folded=not at and sums_only(stage), tumbles=tumbles, pane=pane)


def _emitter(plan: Plan, stage: Stage, verifier: Verifier | None) -> Emitter:
    """Where the output of a stage goes: to a link of a later stage, or to the sink."""
    for later in plan.stages[stage.number + 1 :]:
        if not any(isinstance(leaf, FromStage) and leaf.stage == stage.number for leaf in later.region.leaves):
            continue
        for link in links(later.region):
            if isinstance(link.leaf, FromStage) and link.leaf.stage == stage.number:
                return ToStage(stage, later, link, plan.key_groups, verifier)
    return ToSink(plan, verifier)
