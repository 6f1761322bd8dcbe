"""Blocks that close on their way through the operators of a stage, and out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, TypeAlias, final

from tracetypes.compiler.analysis.ordered_form import OrderedForm
from tracetypes.compiler.columns.ordering import Pairs, Runs
from tracetypes.compiler.plan.facts import columns_in_order, sums_only
from tracetypes.compiler.plan.plan import FromStage, Plan, Stage, Step, links
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.closed_blocks import Due, Flows, Objects, OrderedItems
from tracetypes.compiler.runtime.emissions import Pieces
from tracetypes.compiler.runtime.emitter import Emitter, ToSink, ToStage
from tracetypes.compiler.runtime.empty_blocks import (
    DueMarkers,
    EmptyBlocks,
    EveryMarker,
    MarkerSchedule,
    NoMarkers,
    WhileKeys,
)
from tracetypes.compiler.runtime.epoch import Epoch
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.runtime.open_blocks import OpenBlocks
from tracetypes.compiler.runtime.operators import Runner, UnorderedState, ordered_runner, sorter_of, unordered_runner
from tracetypes.compiler.runtime.ordered_base import OrderedKernel
from tracetypes.compiler.runtime.ordered_check import OrderedCheck
from tracetypes.compiler.runtime.ordered_kernels import kernel_of
from tracetypes.compiler.runtime.ordered_states import OrderedState
from tracetypes.compiler.runtime.progress import Coming
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.compiler.runtime.watch import Watch
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.marker_runs import NO_MARKERS, MarkerRuns
from tracetypes.markers import Marker
from tracetypes.nodes import Restore, Sort
from tracetypes.operator_calls import call_operator
from tracetypes.silence import emitted_in, linger_of, markers_in, split_at
from tracetypes.state_check import NO_KEY, states_of
from tracetypes.templates import OpKeyedOrdered, OpKeyedUnordered, overrides

__all__ = ["Pipeline"]

Stretches: TypeAlias = list[tuple[MarkerRuns, MarkerRuns]]
"""Markers in order: some whose blocks hold something, with few others between them; then a pause."""


def pauses(markers: MarkerRuns, occupied: MarkerRuns, least: int) -> Stretches:
    """Markers cut at pauses: ``least`` of them or more over empty blocks, one after the other. ``occupied``: the ends of the
    other blocks."""
    if len(occupied) == len(markers):
        return [(markers, NO_MARKERS)]
    stretches: Stretches = []
    start, last = markers[0], markers[0] - 1  # of this stretch; the last occupied block
    for end in (*occupied, markers[-1] + 1):
        if end - last > least and len(pause := markers.between(last + 1, end - 1)) >= least:
            stretches.append((markers.between(start, last), pause))
            start = end
        last = end
    if start <= markers[-1]:
        stretches.append((markers.after(start - 1), NO_MARKERS))
    return stretches


def _occupied(stretches: Stretches) -> MarkerRuns:
    return MarkerRuns(one for occupied, _ in stretches for one in occupied.ranges)


@final
class Pipeline:
    """The operators of a stage in their order, and the emitter behind them."""

    def __init__(self, plan: Plan, stage: Stage, verifier: Verifier | None) -> None:
        self.steps, self.tumbles, self.pane = stage.steps, stage.tumbles, stage.pane
        watches = [None if verifier is None else verifier.keyed(step) for step in stage.steps]
        self.ordered = {
            at: ordered_runner(op, step, watches[at])
            for at, step in enumerate(stage.steps)
            if isinstance(op := step.operator, OpKeyedOrdered)
        }
        self.runs = [
            self.ordered[at] if at in self.ordered else _runner(stage, at, step, watches[at])
            for at, step in enumerate(stage.steps)
        ]
        self.emitter = _emitter(plan, stage, verifier)
        self.columns = _columns(stage, verifier)
        in_order = bool(self.columns) and len(self.columns) == len(self.steps) - 1
        self.at_once = in_order and all(one.at_once for one in self.columns.values()) and not self.emitter.emits_at_markers
        """Whether a pause costs what happens in it, as markers that change nothing are found by columns."""

    @property
    def as_columns(self) -> bool:
        """May what leaves the first operator go out as columns? So it is where nothing behind looks at single items."""
        return len(self.runs) <= 1 and self.emitter.trees is not None

    def fresh(self) -> list[Any]:
        """The states of the operators before the first epoch."""
        return [_initial(step) for step in self.steps]

    def close(self, states: list[Any], blocks: OpenBlocks, coming: Coming, epoch: Epoch) -> None:
        """Take the blocks that close."""
        markers = coming.markers
        if len(markers) < limits.PAUSE:
            self._take(states, blocks.close(coming), markers, epoch)
            return
        until = [markers[-1]] * len(self.steps)
        self._take_between(states, blocks, coming, limits.PAUSE, until, epoch)

    def _take_between(
        self, states: list[Any], blocks: OpenBlocks, coming: Coming, least: int, until: list[int], epoch: Epoch
    ) -> None:
        """Take blocks, and the pauses behind them: ``least`` markers or more. ``until``: by operator, the last marker at which it
        may emit."""
        occupied = blocks.occupied(coming)
        stretches = pauses(coming.markers, occupied, least)
        if self.at_once and self._in_columns(states):
            whole = _occupied(stretches)
            due = blocks.close(coming.only(whole or coming.markers.after(coming.markers[-1] - 1)))
            if isinstance(due, OrderedItems):
                due = self._in_order(states, due, coming.markers, until, epoch)
            if isinstance(due, Flows):
                if self._leave(due, coming.markers, epoch):
                    return
                stretches = pauses(coming.markers, occupied | due.occupied, least)
                whole = _occupied(stretches)
            objects = due if isinstance(due, Objects) else due.objects(whole)
            self._objects_between(states, blocks, objects, stretches, until, epoch)
            return
        if blocks.at_each_marker or len(stretches) == 1:
            for occupied, pause in stretches:
                if occupied:
                    self._take(states, blocks.close(coming.only(occupied)), occupied, epoch)
                self._pass(states, blocks, pause, until, epoch)
            return
        whole = _occupied(stretches)
        due = blocks.close(coming.only(whole))
        if isinstance(due, Flows) and self._leave(due, whole, epoch):
            return
        self._objects_between(
            states, blocks, due if isinstance(due, Objects) else due.objects(whole), stretches, until, epoch
        )

    def _objects_between(
        self, states: list[Any], blocks: OpenBlocks, objects: Objects, stretches: Stretches, until: list[int], epoch: Epoch
    ) -> None:
        self._to_objects(states)
        for occupied, pause in stretches:
            for end, flowing in islice(objects.blocks, len(occupied)):
                self._block(states, flowing, Marker(end), objects.start, epoch)
            self._pass(states, blocks, pause, until, epoch)

    def _take(self, states: list[Any], due: Due, ends: MarkerRuns, epoch: Epoch) -> None:
        """Take blocks that follow one another."""
        if isinstance(due, OrderedItems):
            due = self._in_order(states, due, ends, [ends[-1]] * len(self.steps), epoch)
        if isinstance(due, Flows):
            if self._leave(due, ends, epoch):
                return
            due = due.objects(ends)
        self._to_objects(states)
        for end, flowing in due.blocks:
            self._block(states, flowing, Marker(end), due.start, epoch)

    def _leave(self, due: Flows, ends: MarkerRuns, epoch: Epoch) -> bool:
        """Send blocks out as columns, if no operator is left and they can go so."""
        if due.start < len(self.runs) or not self.emitter.columns(due.flows, self._positions(due)):
            return False
        epoch.emitted += due.count
        if due.start:
            epoch.flowed[due.start] += due.count
        if self.emitter.emits_at_markers:
            for end in ends:
                self.emitter.block(Pairs([], []), Marker(end), epoch.group)
        return True

    # --------------------------------------------------------------------------------------- items in order

    def _in_order(
        self, states: list[Any], items: OrderedItems, markers: MarkerRuns, until: list[int], epoch: Epoch
    ) -> Flows:
        """Take items and markers through the operators that take columns, as far as that goes."""
        while (kernel := self.columns.get(items.start)) is not None:
            at = items.start
            state = kernel.adopted(states[at], items.count)
            if state is None:
                break
            states[at] = state
            try:
                out = kernel.run(state, items, markers.up_to(until[at]))
            except Undefined:
                break
            epoch.flowed[at] += items.count
            items = out
        return items.flows()

    def _in_columns(self, states: list[Any]) -> bool:
        """Whether all operators have their states as columns."""
        return all(isinstance(states[at], OrderedState) for at in self.columns)

    @staticmethod
    def _to_objects(states: list[Any]) -> None:
        """Let operators have their states as objects."""
        for at, state in enumerate(states):
            if isinstance(state, OrderedState):
                states[at] = state.to_objects()

    # --------------------------------------------------------------------------------------------- pauses

    def _pass(self, states: list[Any], blocks: OpenBlocks, markers: MarkerRuns, until: list[int], epoch: Epoch) -> None:
        """Take markers over empty blocks. ``until``: by operator, the last one at which it may emit."""
        if not markers:
            return
        self._to_objects(states)
        schedules = [self._schedule(at, states, markers.up_to(until[at])) for at in range(len(self.steps))]
        empty = EmptyBlocks(schedules, states, blocks)
        for marker, flowing, flowed in empty.visits(markers, all_of_them=self.emitter.emits_at_markers):
            epoch.flowed[:] = [one + more for one, more in zip(epoch.flowed, flowed, strict=True)]
            epoch.emitted += len(flowing.values)
            self.emitter.block(flowing, marker, epoch.group)

    def _positions(self, due: Flows) -> Any:
        """The positions (int64) of ordered items; None for others."""
        return None if due.places is None else self.emitter.positions(due.flows[0][1], due.places)

    def _block(self, states: list[Any], flowing: Any, marker: Marker, start: int, epoch: Epoch) -> None:
        """A block through the operators from ``start``, and out."""
        flowed = epoch.flowed
        if start:
            flowed[start] += len(flowing.values)
        pieces = Pieces(epoch.outlet.look, None)
        for at, run in enumerate(self.runs[start:], start):
            if (ordered := self.ordered.get(at)) is None:
                flowing = run(states, at, flowing, marker)
            else:
                if at + 1 == len(self.runs) and epoch.outlet.takes_rows and self.emitter.goes_in_pieces:
                    pieces.send = partial(self._piece, marker, epoch)
                flowing = ordered(states, at, flowing, marker, None, pieces)
            flowed[at + 1] += len(flowing.values)
        epoch.emitted += len(flowing.values)
        self.emitter.block(flowing, marker, epoch.group, pieces.before)

    def _piece(self, marker: Marker, epoch: Epoch, runs: Runs, before: Mapping[Any, int]) -> None:
        """Send a part of a block out. ``before``: how many items of a key have left before."""
        assert isinstance(self.emitter, ToSink)
        epoch.flowed[-1] += len(runs.values)
        epoch.emitted += len(runs.values)
        for message in self.emitter.piece(runs, marker, before):
            epoch.outlet.take(message)

    def end(self, states: list[Any], blocks: OpenBlocks, idle: MarkerRuns, last: int, epoch: Epoch) -> None:
        """Nothing comes any more. ``idle``: markers behind the last item, up to ``last``, the last of all; behind it there is
        silence."""
        markers, until = idle, list[int]()
        for step in self.steps:
            lingering = emitted_in(epoch.silence, linger_of(step.node))
            if lingering is not None:
                spoken, epoch.silence = split_at(epoch.silence, lingering)
                markers |= markers_in(spoken)
                last = max(last, lingering)
            until.append(last)
        epoch.closed |= markers
        if markers:
            coming = Coming({}, {}).only(markers)
            self._take_between(states, blocks, coming, 1, until, epoch)

    def _schedule(self, at: int, states: list[Any], markers: MarkerRuns) -> MarkerSchedule:
        """When an operator has to be visited though nothing comes. ``markers``: those at which it may emit."""
        run = self.runs[at]
        match self.steps[at].operator:
            case OpKeyedOrdered() as op if markers and overrides(op, "on_marker"):
                if overrides(op, "next_due"):
                    return DueMarkers(op, self.ordered[at], states[at], markers)
                return EveryMarker(run, states[at], markers[-1])
            case OpKeyedUnordered() as op if markers and not op.skips_untouched and (at or self.tumbles is None):
                return WhileKeys(op, run, states, at, markers if at or self.pane is None else markers.on_grid(*self.pane))
            case _:
                return NoMarkers(run)

    def messages(self, epoch: Epoch, *, complete: bool) -> Iterator[Message]:
        """All that an epoch sends."""
        return self.emitter.messages(epoch.group, epoch.closed, complete, epoch.silence, epoch.frontier)


def _initial(step: Step) -> Any:
    match step.operator:
        case OpKeyedUnordered() as op:
            start = call_operator(op, "initial_state", "the start", op.initial_state)
            return UnorderedState({}, states_of(op).returned("initial_state", NO_KEY, start))
        case OpKeyedOrdered():
            return {}
        case Sort() | Restore():
            return None


def _runner(stage: Stage, at: int, step: Step, watch: Watch | None) -> Runner:
    match step.operator:
        case Restore():
            return lambda states, at, flowing, marker: flowing
        case Sort() as node:
            return sorter_of(node, step)
        case OpKeyedOrdered() as op:
            return ordered_runner(op, step, watch)
        case OpKeyedUnordered() as op:
            tumbles = stage.tumbles is not None and not at
            pane = None if at else stage.pane
            folded = not at and sums_only(stage)
            return unordered_runner(op, step, folded=folded, tumbles=tumbles, pane=pane, watch=watch)


def _columns(stage: Stage, verifier: Verifier | None) -> dict[int, OrderedKernel]:
    """The operators behind the sort of a stage that run over columns, by their places."""
    kernels: dict[int, OrderedKernel] = {}
    for at in range(1, columns_in_order(stage) + 1):
        op, ordered = stage.steps[at].operator, stage.steps[at].ordered
        assert isinstance(op, OpKeyedOrdered)
        assert isinstance(ordered, OrderedForm)
        seen = None if verifier is None else OrderedCheck(verifier, stage.steps[at], ordered)
        kernels[at] = kernel_of(op, ordered, seen)
    return kernels


def _emitter(plan: Plan, stage: Stage, verifier: Verifier | None) -> Emitter:
    """Where the output of a stage goes: to a link of a later stage, or to the sink."""
    for later in plan.stages[stage.number + 1 :]:
        if not any(isinstance(leaf, FromStage) and leaf.stage == stage.number for leaf in later.region.leaves):
            continue
        for link in links(later.region):
            if isinstance(link.leaf, FromStage) and link.leaf.stage == stage.number:
                return ToStage(stage, later, link, plan.key_groups, verifier)
    return ToSink(plan, verifier)
