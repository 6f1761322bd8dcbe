"""The key groups of a stage: the partitions of its operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import final

import attrs

from tracetypes.compiler.local.kernels import Kernels
from tracetypes.compiler.local.log import GroupId
from tracetypes.compiler.local.prints import operators_print
from tracetypes.compiler.local.states import Part, StateParts, state_of
from tracetypes.compiler.local.units import Batch, Sent
from tracetypes.compiler.plan.plan import Plan, Stage
from tracetypes.compiler.runtime.messages import Message, Metrics, StageProgress
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.store.staging import Delivery, Dispatch

__all__ = ["KeyGroups", "States"]


@final
class States:
    """The states of all key groups, between epochs and within. ``saved``: those that nothing has come for yet, in parts.
    Each key group has one worker at a time, which changes its own."""

    def __init__(self, saved: Mapping[GroupId, Sequence[Part]]) -> None:
        self.saved = dict(saved)
        self.all: dict[GroupId, StageState] = {}
        self.parts: dict[GroupId, StateParts] = {}
        """Of the groups that the epoch had something for, as the barrier has found them."""

    def of(self, at: GroupId, fresh: Callable[[], StageState]) -> StageState:
        """The state of a group."""
        if at not in self.all:
            self.all[at] = state_of(self.saved.pop(at)) if at in self.saved else fresh()
        return self.all[at]


@final
@attrs.define(eq=False)
class _Group:
    """What a key group has done in this epoch. ``rows``: on their way to the sink, if the stage is the last one."""

    rows: Dispatch | None
    left: list[Message] = attrs.Factory(list)
    metrics: Metrics | None = None
    progress: StageProgress | None = None


@final
class KeyGroups:
    """Those of one stage. ``kernels``: of the calling thread. ``delivery``: of the sink's rows, of the last stage only.

    In the last stage the rows of a group wait for the barrier, in memory or in a file of theirs; so they leave by group, each in
    its own order, however the epoch was cut into batches.
    """

    def __init__(
        self, plan: Plan, stage: Stage, states: States, kernels: Callable[[], Kernels], delivery: Delivery | None
    ) -> None:
        self.number, self.count, self.delivery = stage.number, plan.key_groups, delivery
        self.states, self.kernels = states, kernels
        self.groups: MutableMapping[int, _Group] = {}

    def process(self, group: int, batch: Batch) -> Sequence[Sent]:
        """A group takes its part of a batch. What it sends lies in the batch until all are done."""
        messages = batch.messages.get(group, ())
        left = self._step(group, messages) if messages else []
        if batch.last:
            left += self._end(group)
        batch.left[group] = left
        return ()

    @staticmethod
    def after_parts(batch: Batch) -> Sequence[Sent]:
        """What all groups have sent."""
        return (batch.sent(),)

    def abandon(self) -> None:
        """Remove unfinished files."""
        for one in self.groups.values():
            if one.rows is not None:
                one.rows.abandon()
        self.groups.clear()

    def _step(self, group: int, messages: Sequence[Message]) -> list[Message]:
        kernel = self.kernels().stage(self.number)
        state = self.states.of((self.number, group), kernel.fresh)
        if group not in self.groups:
            self.groups[group] = _Group(None if self.delivery is None else Dispatch(self.delivery, self.count))
        one = self.groups[group]
        with operators_print():
            output = kernel.step(state, group, messages)
            left = self._outgoing(one, output if one.rows is None else one.rows.passed(output))
        one.metrics = _joined(one.metrics, kernel.metrics(state, group, 0).body)
        if one.rows is None:
            return left
        one.left += left
        return []

    def _outgoing(self, one: _Group, messages: Iterable[Message]) -> list[Message]:
        """What goes on at once. What the stage says of itself is said once an epoch."""
        left = []
        for message in messages:
            if isinstance(message.body, StageProgress) and message.body.stage == self.number:
                one.progress = _together(one.progress, message.body)
            else:
                left.append(message)
        return left

    def _end(self, group: int) -> list[Message]:
        """The barrier: the state is taken, and what waited leaves."""
        one = self.groups.pop(group, None)
        if one is None:
            return []
        at = self.number, group
        parts = self.states.parts[at] = StateParts.of(self.states.all[at])
        left = one.left if one.rows is None else [*one.left, *one.rows.end()]
        if one.progress is not None:
            left.append(Message(0, one.progress))
        assert one.metrics is not None
        left.append(Message(group, attrs.evolve(one.metrics, bytes=parts.size)))
        return left


def _joined(one: Metrics | None, other: object) -> Metrics:
    """The metrics of two steps, one after the other."""
    assert isinstance(other, Metrics)
    if one is None:
        return other
    flowed = [first + second for first, second in zip(one.flowed, other.flowed, strict=True)]
    return attrs.evolve(other, flowed=flowed, emitted=one.emitted + other.emitted, markers=one.markers + other.markers)


def _together(one: StageProgress | None, other: StageProgress) -> StageProgress:
    """The progress of two steps, one after the other."""
    if one is None:
        return other
    return attrs.evolve(
        other,
        markers=[*one.markers, *other.markers],
        rows=one.rows + other.rows,
        read=_sums(one.read, other.read),
        late=_sums(one.late, other.late),
        rejects=_sums(one.rejects, other.rejects),
        silence=(*one.silence, *other.silence),
    )


def _sums(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in [*one, *(more for more in other if more not in one)]}
