"""The kernels of one thread: they keep scratch, so that no two threads may share them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tracetypes.compiler.connectors.closing import ClockSplit
from tracetypes.compiler.local.input_interface import SplitReader, SplitRows
from tracetypes.compiler.local.prints import operators_print
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.one_by_one import one_by_one
from tracetypes.compiler.plan.plan import ChannelLink, Plan, SourceLink, Stage
from tracetypes.compiler.runtime.channel import ChannelKernel
from tracetypes.compiler.runtime.clocked_source import source_kernel
from tracetypes.compiler.runtime.messages import Message, Reached, Report
from tracetypes.compiler.runtime.source import SourceKernel
from tracetypes.compiler.runtime.stage import StageKernel
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.compiler.store.channel import Contents, entry_messages
from tracetypes.compiler.store.staging import SEND, Delivery, deliver

__all__ = ["Kernels", "SplitAnswer", "SplitTask"]


@attrs.frozen(eq=False)
class SplitTask:
    """A split of a link that is to be read. ``number``: its place among those of the link in this epoch. ``one_by_one``: a clock
    decides its rows."""

    stage: Stage
    link: SourceLink | ChannelLink
    split: Any
    number: int
    one_by_one: bool = False


@attrs.frozen(eq=False)
class SplitAnswer:
    """What became of a split. ``report``: of a source. ``before``: the newest event time that was taken to lie before it."""

    task: SplitTask
    messages: list[Message]
    report: Report | None = None
    before: Reached = None


class Kernels:
    """The kernels of one thread. ``contents``: of channels, by name. ``delivery``: of the rows of splits that go straight to the
    sink."""

    def __init__(
        self,
        plan: Plan,
        inputs: Mapping[str, SplitReader],
        contents: Mapping[str, Contents],
        delivery: Delivery,
    ) -> None:
        self.plan, self.inputs, self.contents, self.verifier = plan, inputs, contents, Verifier.of(plan)
        self.straight = plan.layout if is_straight(plan) else None
        self.delivery = SEND if self.straight is None else delivery
        self.stages: dict[int, StageKernel] = {}
        self.sources: dict[tuple[int, int, bool], SourceKernel] = {}
        self.readers: dict[tuple[str, bool], Callable[[Any], SplitRows]] = {}

    def stage(self, number: int) -> StageKernel:
        """The kernel of a stage."""
        if number not in self.stages:
            self.stages[number] = StageKernel(self.plan, self.plan.stages[number])
        return self.stages[number]

    def source(self, stage: Stage, link: SourceLink) -> SourceKernel:
        """The kernel of a link."""
        at = stage.number, link.number, link.leaf.has_clock
        if at not in self.sources:
            self.sources[at] = source_kernel(stage, link, self.plan.key_groups, self.straight, self.verifier)
        return self.sources[at]

    def read(self, task: SplitTask, before: Callable[[int], Reached]) -> SplitAnswer:
        """Read a split. ``before``: from a partition of the source to the newest event time before the split in it."""
        match task.link:
            case SourceLink() as link:
                return self._split(task, one_by_one(link) if task.one_by_one else link, before)
            case ChannelLink() as link:
                return SplitAnswer(task, self._entry(task, link))

    def _split(self, task: SplitTask, link: SourceLink, before: Callable[[int], Reached]) -> SplitAnswer:
        leaf = link.leaf
        if isinstance(task.split, ClockSplit):
            sent = self.source(task.stage, link).elapsed(task.split.time)
            return SplitAnswer(task, list(deliver(self.delivery, sent, self.plan.key_groups)))
        at = leaf.label, leaf.has_clock
        if at not in self.readers:
            self.readers[at] = self.inputs[leaf.source.name].reader(leaf, self.verifier)
        one = self.readers[at](task.split)
        kernel = self.source(task.stage, link)
        earlier = before(one.part)
        with operators_print():
            try:
                sent = kernel.piece(one.piece, one.rows, earlier, one.part, one.parts, one.idle)
                messages = list(deliver(self.delivery, sent, self.plan.key_groups))
            except Exception:
                one.check()
                raise
        report = next((m.body for m in messages if isinstance(m.body, Report)), None)
        return SplitAnswer(task, [*messages, *one.notes()], report, earlier)

    def _entry(self, task: SplitTask, link: ChannelLink) -> list[Message]:
        kernel = ChannelKernel(task.stage, link, self.plan.key_groups, self.verifier)
        with operators_print():
            return list(entry_messages(self.contents[link.leaf.name], task.split, kernel))
