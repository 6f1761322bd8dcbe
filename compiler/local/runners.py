"""Who runs the kernels of a plan: the threads of this process, or worker processes (:mod:`.processes`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol, final

from tracetypes.compiler.local.kernels import Kernels, SplitAnswer, SplitTask
from tracetypes.compiler.local.lateness import KnownTimes
from tracetypes.compiler.local.log import ShardId
from tracetypes.compiler.local.section_files import SectionFiles
from tracetypes.compiler.local.states import Part, StateParts, state_of
from tracetypes.compiler.runtime.emissions import Outlet
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.runtime.state_log import SectionReader

__all__ = ["Runner", "States", "ThreadRunner"]


@final
class States:
    """The states of the shards that are in this process, between epochs and within. ``from_checkpoint``: those of shards that
    have received nothing yet, in parts; ``loaded``: the others. Each shard has one worker at a time, which changes only its
    state. ``sections``: of logs; ``budget``: bytes that the states of a log may take in memory."""

    def __init__(
        self,
        from_checkpoint: Mapping[ShardId, Sequence[Part]],
        sections: SectionFiles | None = None,
        budget: int | None = None,
    ) -> None:
        self.from_checkpoint, self.sections, self.budget = dict(from_checkpoint), sections, budget
        self.loaded: dict[ShardId, StageState] = {}
        self.parts: dict[ShardId, StateParts] = {}
        """Of the shards that received something in the epoch, as they were at the barrier."""

    def of(self, at: ShardId, fresh: Callable[[], StageState]) -> StageState:
        """The state of a shard."""
        if at not in self.loaded:
            before = self.from_checkpoint.pop(at, None)
            self.loaded[at] = fresh() if before is None else state_of(before, self._sections_of(at))
        return self.loaded[at]

    def since_last(self, at: ShardId) -> StateParts:
        """What has changed in a shard since the last time, in parts."""
        return StateParts.since_last(self.loaded[at], self._sections_of(at), self.budget)

    def _sections_of(self, at: ShardId) -> Callable[[int], SectionReader] | None:
        return None if self.sections is None else partial(self.sections.of, *at)


class Runner(Protocol):
    """Runs kernels. Threads call it, but only one at a time for a shard."""

    def begin(self, tasks: Sequence[SplitTask]) -> None:
        """An epoch begins. ``tasks``: the splits that it will read."""

    def read(self, task: SplitTask, before: KnownTimes) -> SplitAnswer:
        """Read a split."""

    def step(self, stage: int, shard: int, messages: Sequence[Message], outlet: Outlet) -> Iterator[Message]:
        """Let a shard of a stage take messages: what it sends, and then its :class:`Metrics`. ``outlet``: takes rows before."""

    def state(self, stage: int, shard: int) -> StateParts:
        """The state of a shard that has taken something."""


@final
class ThreadRunner:
    """In the thread that calls. ``kernels``: of the calling thread."""

    def __init__(self, kernels: Callable[[], Kernels], states: States) -> None:
        self.kernels, self.states = kernels, states

    def begin(self, tasks: Sequence[SplitTask]) -> None:
        """Nothing has to be prepared."""

    def read(self, task: SplitTask, before: KnownTimes) -> SplitAnswer:
        """With the thread's kernels."""
        return self.kernels().read(task, before)

    def step(self, stage: int, shard: int, messages: Sequence[Message], outlet: Outlet) -> Iterator[Message]:
        """With the thread's kernels."""
        kernel = self.kernels().stage(stage)
        state = self.states.of((stage, shard), kernel.fresh)
        yield from kernel.step(state, shard, messages, outlet=outlet)
        yield kernel.metrics(state, shard, 0)

    def state(self, stage: int, shard: int) -> StateParts:
        """Views into the state."""
        return self.states.since_last((stage, shard))
