"""The operator before the shards of a stage: it settles lateness, and joins messages to batches (:class:`.units.Batch`; these are
no Arrow batches).

Reports, and markers of earlier stages, concern every shard. So a batch is a mark (``ordered.marks``): each shard takes its
part in one step, and what they send leaves when the last one is done.

Why a stage may take an epoch in several steps: a step is to the stage what an epoch is, and its answer does not depend on how
epochs are cut (the adversary tests that). A cut must not lie between messages that belong together: those of a split, whose
report says to which blocks its items belong; those that a stage has sent for one batch, whose markers close the blocks of its
items. Two things are only right at the end of an epoch, and wait for it: the markers of a channel, which come with any of its
entries; and partitions of a source that are idle, which are passed over when all others have reported.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracetypes.compiler.local.kernels import SplitAnswer
from tracetypes.compiler.local.lateness import Lateness
from tracetypes.compiler.local.units import Batch, Sent, row_count
from tracetypes.compiler.plan.plan import ChannelLink, Plan, SourceLink, Stage, links
from tracetypes.compiler.runtime.messages import Drain, Markers, Message

__all__ = ["Exchange", "SplitQueue"]


class SplitQueue:
    """The answers of splits in the order of their links. ``typed`` order lets those of different links pass each other."""

    def __init__(self) -> None:
        self.next: dict[int, int] = {}
        """The number of the next split of each link."""
        self.waiting: dict[tuple[int, int], SplitAnswer] = {}

    def take(self, answer: SplitAnswer) -> Sequence[SplitAnswer]:
        """The answers whose turn it is now that this one is there."""
        link = answer.task.link.number
        self.waiting[link, answer.task.number] = answer
        ready = []
        number = self.next.get(link, 0)
        while (one := self.waiting.pop((link, number), None)) is not None:
            ready.append(one)
            number += 1
        self.next[link] = number
        return ready


class Exchange:
    """Of one stage, for one epoch; one worker at a time. ``least``: rows of a batch. ``drain``: the sources have ended."""

    def __init__(self, plan: Plan, stage: Stage, lateness: Lateness, least: int, *, drain: bool) -> None:
        self.shards, self.lateness, self.least = plan.key_groups, lateness, least
        self.drain = drain and any(isinstance(link, SourceLink) for link in links(stage.region))
        self.queue = SplitQueue()
        self.pending: list[Message] = []
        self.rows = 0
        self.at_end: list[Message] = []
        """Messages that wait for the end of the epoch."""

    def process(self, unit: SplitAnswer | Sent) -> Sequence[Batch]:
        """Take a unit; the batch that is full now, or the last one."""
        match unit:
            case SplitAnswer():
                for answer in self.queue.take(unit):
                    self._take(self.lateness.settle(answer))
            case Sent(messages):
                self._pend(messages)
        last = isinstance(unit, Sent) and unit.last
        if last:
            self.pending += self.at_end
            if self.drain:
                self.pending += [Message(shard, Drain()) for shard in range(self.shards)]
        return [self._batch(last=last)] if last or self.rows >= self.least else []

    def _take(self, answer: SplitAnswer) -> None:
        messages = answer.messages
        if answer.report is not None and answer.report.idle:
            self.at_end += messages
            return
        if isinstance(answer.task.link, ChannelLink):
            self.at_end += [message for message in messages if isinstance(message.body, Markers)]
            messages = [message for message in messages if not isinstance(message.body, Markers)]
        self._pend(messages)

    def _pend(self, messages: Sequence[Message]) -> None:
        self.pending += messages
        self.rows += sum(row_count(message.body) for message in messages)

    def _batch(self, *, last: bool) -> Batch:
        shards: dict[int, list[Message]] = {}
        for message in self.pending:
            shards.setdefault(message.group, []).append(message)
        self.pending, self.rows = [], 0
        return Batch(shards, [()] * self.shards, last)
