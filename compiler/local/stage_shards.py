"""The shards of a stage: the partitions of its operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import final

import attrs

from tracetypes.compiler.local.prints import operators_print
from tracetypes.compiler.local.runners import Runner, States
from tracetypes.compiler.local.units import Batch, Sent
from tracetypes.compiler.plan.plan import Plan, Stage
from tracetypes.compiler.runtime.emissions import RunStopped
from tracetypes.compiler.runtime.messages import Message, Metrics, StageProgress
from tracetypes.compiler.store.staging import Delivery, Dispatch, Staging

__all__ = ["StageShards"]


@final
@attrs.define(eq=False)
class _Shard:
    """What a shard has done in this epoch. ``rows``: on their way to the sink, if the stage is the last one."""

    rows: Dispatch | None
    left: list[Message] = attrs.Factory(list)
    metrics: Metrics | None = None
    progress: StageProgress | None = None


@final
@attrs.frozen
class _IntoFiles:
    """Takes rows of a shard into its file before its epoch ends. ``rows``: on their way to the sink."""

    rows: Dispatch | None
    stopping: Callable[[], bool]

    @property
    def takes_rows(self) -> bool:
        return self.rows is not None and isinstance(self.rows.delivery, Staging)

    def take(self, message: Message) -> None:
        assert self.rows is not None
        for _ in self.rows.passed([message]):
            raise AssertionError("rows for a file go there")

    def look(self) -> None:
        if self.stopping():
            raise RunStopped


@final
class StageShards:
    """The shards of one stage. ``delivery``: of the sink's rows, of the last stage only.

    In the last stage the rows of a shard wait for the barrier, in memory or in a file of theirs; so they leave by shard, each in
    its own order, however the epoch was cut into batches.
    """

    def __init__(
        self,
        plan: Plan,
        stage: Stage,
        states: States,
        runner: Runner,
        delivery: Delivery | None,
        stopping: Callable[[], bool],
    ) -> None:
        """``stopping``: whether the run is asked to stop."""
        self.number, self.count, self.delivery = stage.number, plan.key_groups, delivery
        self.states, self.runner, self.stopping = states, runner, stopping
        self.shards: MutableMapping[int, _Shard] = {}

    def process(self, shard: int, batch: Batch) -> Sequence[Sent]:
        """A shard takes its part of a batch. What it sends lies in the batch until all are done."""
        messages = batch.messages.get(shard, ())
        left = self._step(shard, messages) if messages else []
        if batch.last:
            left += self._end(shard)
        batch.left[shard] = left
        return ()

    @staticmethod
    def after_parts(batch: Batch) -> Sequence[Sent]:
        """What all shards have sent."""
        return (batch.sent(),)

    def abandon(self) -> None:
        """Remove unfinished files."""
        for one in self.shards.values():
            if one.rows is not None:
                one.rows.abandon()
        self.shards.clear()

    def _step(self, shard: int, messages: Sequence[Message]) -> list[Message]:
        if shard not in self.shards:
            self.shards[shard] = _Shard(None if self.delivery is None else Dispatch(self.delivery, self.count))
        one = self.shards[shard]
        with operators_print():
            output = self.runner.step(self.number, shard, messages, _IntoFiles(one.rows, self.stopping))
            left = self._outgoing(one, output if one.rows is None else one.rows.passed(output))
        if one.rows is None:
            return left
        one.left += left
        return []

    def _outgoing(self, one: _Shard, messages: Iterable[Message]) -> list[Message]:
        """What goes on at once. What the stage says of itself is said once an epoch."""
        left = []
        for message in messages:
            match message.body:
                case StageProgress(stage=self.number) as progress:
                    one.progress = _together(one.progress, progress)
                case Metrics(stage=self.number) as metrics:
                    one.metrics = _sum_of(one.metrics, metrics)
                case _:
                    left.append(message)
        return left

    def _end(self, shard: int) -> list[Message]:
        """The barrier: the state is taken, and what waited leaves."""
        one = self.shards.pop(shard, None)
        if one is None:
            return []
        at = self.number, shard
        parts = self.states.parts[at] = self.runner.state(*at)
        left = one.left if one.rows is None else [*one.left, *one.rows.end()]
        if one.progress is not None:
            left.append(Message(0, one.progress))
        assert one.metrics is not None
        left.append(Message(shard, attrs.evolve(one.metrics, bytes=parts.size)))
        return left


def _sum_of(one: Metrics | None, other: Metrics) -> Metrics:
    """The metrics of two steps, one after the other."""
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
        markers=one.markers | other.markers,
        rows=one.rows + other.rows,
        read=_sums(one.read, other.read),
        late=_sums(one.late, other.late),
        rejects=_sums(one.rejects, other.rejects),
        silence=(*one.silence, *other.silence),
        jumps=(*one.jumps, *other.jumps),
    )


def _sums(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in [*one, *(more for more in other if more not in one)]}
