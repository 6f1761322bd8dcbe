"""The work of one epoch in this process: splits become messages, and messages go through the stages, on a few threads.

An epoch is a barrier: a stage runs when all messages of the epoch are there. Splits are read in the order of the source, and each
is told the newest event time of the splits before it as far as they are done. With one thread that is exact; with several a split
may have missed some, and then the stage asks for the epoch again (:class:`RetryEpoch`). Kernels keep scratch, so each thread has
its own.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias, TypeVar

import attrs

from tracetypes.compiler.local.channels import LocalChannelReader
from tracetypes.compiler.local.inputs import LocalInput, SplitRows
from tracetypes.compiler.local.log import GroupId
from tracetypes.compiler.local.prints import operators_print
from tracetypes.compiler.local.shards import in_shards
from tracetypes.compiler.local.states import Part, StateParts, state_of
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.plan import ChannelLink, Plan, SourceLink, Stage, StageLink, links
from tracetypes.compiler.runtime.channel import ChannelKernel
from tracetypes.compiler.runtime.messages import Drain, Message, Piece, Report
from tracetypes.compiler.runtime.progress import later
from tracetypes.compiler.runtime.source import SourceKernel
from tracetypes.compiler.runtime.stage import StageKernel
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.compiler.store.channel import entry_messages
from tracetypes.compiler.store.staging import SEND, Delivery, deliver

__all__ = ["EpochWork", "Newest", "Workers"]

T = TypeVar("T")

Newest: TypeAlias = dict[str, Any]
"""The newest event time of each part of each reading of a source, by label."""


@attrs.frozen
class EpochWork:
    """What an epoch has to do. ``splits``: of readings, by label. ``entries``: of channels, by directory. ``newest``: before the
    epoch. ``pieces``: before single splits, by reading, where the epoch is done again. ``drain``: the sources have ended."""

    splits: Mapping[str, Sequence[Any]]
    entries: Mapping[str, Sequence[Any]]
    newest: Newest
    pieces: Mapping[str, Mapping[Piece, int | None]]
    drain: bool


class _Kernels:
    """The kernels of one thread."""

    def __init__(self, plan: Plan, inputs: Mapping[str, LocalInput]) -> None:
        self.plan, self.inputs, self.verifier = plan, inputs, Verifier.of(plan)
        self.straight = plan.layout if is_straight(plan) else None
        self.stages: dict[int, StageKernel] = {}
        self.sources: dict[tuple[int, int], SourceKernel] = {}
        self.readers: dict[str, Callable[[Any], SplitRows]] = {}

    def stage(self, number: int) -> StageKernel:
        """The kernel of a stage."""
        if number not in self.stages:
            self.stages[number] = StageKernel(self.plan, self.plan.stages[number])
        return self.stages[number]

    def source(self, stage: Stage, link: SourceLink) -> SourceKernel:
        """The kernel of a link."""
        at = stage.number, link.number
        if at not in self.sources:
            self.sources[at] = SourceKernel(stage, link, self.plan.key_groups, self.straight, self.verifier)
        return self.sources[at]

    def read(self, link: SourceLink, split: Any) -> SplitRows:
        """The rows of a split."""
        leaf = link.leaf
        if leaf.label not in self.readers:
            self.readers[leaf.label] = self.inputs[leaf.source.name].reader(leaf, self.verifier)
        return self.readers[leaf.label](split)


class Workers:
    """The threads that run the epochs of a plan. ``delivery``: of the sink's rows. ``load``: the states that a start finds,
    in parts."""

    def __init__(
        self,
        plan: Plan,
        inputs: Mapping[str, LocalInput],
        channels: Mapping[str, LocalChannelReader],
        delivery: Delivery,
        load: Callable[[], Iterable[tuple[GroupId, Sequence[Part]]]],
    ) -> None:
        self.plan, self.inputs, self.channels, self.delivery, self.load = plan, inputs, channels, delivery, load
        self.pool = ThreadPoolExecutor(plan.width, "tracetypes") if plan.width > 1 else None
        self.begin(plan)

    def begin(self, plan: Plan) -> None:
        """Begin from the states of the last epoch that has ended, which are in shards. ``plan``: the same with other operators in
        Python."""
        self.plan = in_shards(plan)
        self.kernels = threading.local()
        self.parts: dict[GroupId, StateParts] = {}
        """The states of groups that the last epoch had something for, in parts."""
        self.states: dict[GroupId, StageState] = {}
        self.saved = dict(self.load())
        """The states that nothing has come for yet."""

    def close(self) -> None:
        """End the threads."""
        if self.pool is not None:
            self.pool.shutdown(wait=True, cancel_futures=True)

    def run(self, work: EpochWork) -> list[Message]:
        """Do an epoch. Returns what leaves the last stage. The states are those behind it. Raises :class:`RetryEpoch`,
        :class:`Difference`, and the errors of sources and operators; then :meth:`begin` has to be called."""
        plan = self.plan
        self.parts = {}
        waiting: dict[int, list[Message]] = {stage.number: [] for stage in plan.stages}
        tasks: list[tuple[int, Callable[[], list[Message]]]] = []
        for stage in plan.stages:
            for link in links(stage.region):
                if isinstance(link, SourceLink):
                    tasks += [(stage.number, task) for task in self._splits(stage, link, work)]
                elif isinstance(link, ChannelLink):
                    tasks += [(stage.number, task) for task in self._entries(stage, link, work)]
        for (number, _), messages in zip(tasks, self._all([task for _, task in tasks]), strict=True):
            waiting[number] += messages
        if is_straight(plan):
            messages = [message for stage in plan.stages for message in waiting[stage.number]]
            return [*messages, Message(0, Drain())] if work.drain else messages
        for stage in plan.stages:
            left = self._stage(stage, waiting[stage.number], work)
            after = _reader_of(plan, stage.number)
            if after is None:
                return left
            waiting[after] += left
        raise AssertionError("the last stage has no reader")

    def _all(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """The results of tasks, which begin in this order."""
        if self.pool is None or len(tasks) < 2:
            return [task() for task in tasks]
        futures = [self.pool.submit(task) for task in tasks]
        try:
            return [one.result() for one in futures]
        finally:
            for one in futures:
                one.cancel()
            for one in futures:
                if not one.cancelled():
                    one.exception()  # nobody may go on with a state that others will load again

    @property
    def _mine(self) -> _Kernels:
        """The kernels of this thread."""
        mine: _Kernels | None = getattr(self.kernels, "mine", None)
        if mine is None:
            mine = self.kernels.mine = _Kernels(self.plan, self.inputs)
        return mine

    # ------------------------------------------------------------------------------------------------ sources

    def _splits(self, stage: Stage, link: SourceLink, work: EpochWork) -> list[Callable[[], list[Message]]]:
        label = link.leaf.label
        done = _DoneSplits(work.newest.get(label, []), work.pieces.get(label, {}))

        def task(split: Any) -> list[Message]:
            kernels = self._mine
            one = kernels.read(link, split)
            kernel = kernels.source(stage, link)
            delivery = self.delivery if kernels.straight is not None else SEND
            messages: list[Message] = []
            with operators_print():
                try:
                    before = done.before(one.piece, one.part)
                    sent = kernel.piece(one.piece, one.rows, before, one.part, one.parts, one.idle)
                    messages.extend(deliver(delivery, sent, self.plan.width))
                except Exception:
                    one.check()
                    raise
            messages += one.notes()
            done.add(one.piece, one.part, next((m.body for m in messages if isinstance(m.body, Report)), None))
            return messages

        return [partial(task, split) for split in work.splits.get(label, ())]

    def _entries(self, stage: Stage, link: ChannelLink, work: EpochWork) -> list[Callable[[], list[Message]]]:
        reader = self.channels[link.leaf.name]

        def task(line: str) -> list[Message]:
            kernel = ChannelKernel(stage, link, self.plan.key_groups, self._mine.verifier)
            with operators_print():
                return list(entry_messages(reader.channel.contents, json.loads(line), kernel))

        return [partial(task, *split) for split in work.entries.get(reader.channel.directory, ())]

    # ------------------------------------------------------------------------------------------------- stages

    def _stage(self, stage: Stage, messages: Sequence[Message], work: EpochWork) -> list[Message]:
        groups: dict[int, list[Message]] = defaultdict(list)
        for message in messages:
            groups[message.group].append(message)
        if work.drain and any(isinstance(link, SourceLink) for link in links(stage.region)):
            for group in range(self.plan.key_groups):
                groups[group].append(Message(group, Drain()))
        delivery = self.delivery if stage is self.plan.stages[-1] else SEND

        def task(group: int) -> list[Message]:
            kernel, at = self._mine.stage(stage.number), (stage.number, group)
            if at not in self.states:
                self.states[at] = state_of(self.saved.pop(at)) if at in self.saved else kernel.fresh()
            state = self.states[at]
            with operators_print():
                left = list(deliver(delivery, kernel.step(state, group, groups[group]), self.plan.key_groups))
            parts = self.parts[at] = StateParts.of(state)
            left.append(kernel.metrics(state, group, parts.size))
            return left

        results = self._all([partial(task, group) for group in sorted(groups)])
        return [message for left in results for message in left]


class _DoneSplits:
    """The splits of a reading that are done in this epoch. ``newest``: of each part before the epoch. ``pieces``: before single
    splits."""

    def __init__(self, newest: Sequence[int | None], pieces: Mapping[Piece, int | None]) -> None:
        self.newest, self.pieces = newest, pieces
        self.done: list[tuple[int, Piece, int | None]] = []

    def before(self, piece: Piece, part: int) -> int | None:
        """The newest event time before a split in its part of the source, as far as it is known."""
        if piece in self.pieces:
            return self.pieces[piece]
        newest = self.newest[part] if part < len(self.newest) else None
        for other, place, time in list(self.done):
            if other == part and place < piece:
                newest = later(newest, time)
        return newest

    def add(self, piece: Piece, part: int, report: Report | None) -> None:
        """A split is done."""
        if report is not None:
            self.done.append((part, piece, report.newest))


def _reader_of(plan: Plan, number: int) -> int | None:
    """The stage that reads another one; None for the last."""
    for later_one in plan.stages:
        for link in links(later_one.region):
            if isinstance(link, StageLink) and link.leaf.stage == number:
                return later_one.number
    return None
