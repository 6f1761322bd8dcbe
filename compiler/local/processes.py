"""Operators in Python run in worker processes, so that they use as many cores as there are workers.

Where data leaves this process, by the operators of :mod:`.driver`::

    read    the split goes to any process of the first kind, as a few bytes: the process itself reads the rows, runs them through
            the source kernel and sends messages, or writes rows into files where they go straight to the sink
    stage   a shard lives in one process of the second kind, with its state; its messages of a batch go there, and what it
            sends comes back. At the barrier its state comes back, as bytes for the checkpoint
    join    stays here, as all that puts something in order

The thread that asks waits for the answer without Python's lock. So each process has one request at a time, there are never more
busy processes than workers, and scheduling, order and lateness are those of :mod:`.driver`.

A process that dies ends the epoch with :class:`WorkerDied`. Nothing of the epoch is committed, and the segment does it again:
the states are loaded from the checkpoint, and all processes are set up anew.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import final

from tracetypes.compiler.analysis.pickles import shipped
from tracetypes.compiler.local.frames import Frame, Kind, frame_of, message_of
from tracetypes.compiler.local.kernels import SplitAnswer, SplitTask
from tracetypes.compiler.local.lateness import KnownTimes
from tracetypes.compiler.local.log import ShardId
from tracetypes.compiler.local.placement import Cost, InPython
from tracetypes.compiler.local.runners import ThreadRunner
from tracetypes.compiler.local.states import Part, StateParts
from tracetypes.compiler.local.worker_main import Setup
from tracetypes.compiler.local.worker_process import WorkerDied, WorkerProcess, close_all
from tracetypes.compiler.plan.plan import Plan, StageLink, links
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.emissions import Outlet
from tracetypes.compiler.runtime.messages import Message, Report, Rows
from tracetypes.compiler.runtime.state_log import LogWrite
from tracetypes.errors import UsageError

__all__ = ["ProcessRunner", "WorkerPool"]


@final
class WorkerPool:
    """The worker processes of a segment. Threads share it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.all: list[WorkerProcess] = []
        self.readers: list[WorkerProcess] = []
        """Those that read splits, and do nothing now."""
        self.keepers: dict[int, WorkerProcess] = {}
        """Those that keep shards, by number."""

    def start(self, readers: int, keepers: int) -> None:
        """Start so many of each kind at once; the first ones need most of a second until they can answer."""
        with self.lock:
            while len(self.all) - len(self.keepers) < readers:
                self.readers.append(self._new())
            for number in range(keepers):
                if number not in self.keepers:
                    self.keepers[number] = self._new()

    def _new(self) -> WorkerProcess:
        one = WorkerProcess()
        self.all.append(one)
        return one

    @contextmanager
    def reader(self) -> Iterator[WorkerProcess]:
        """A context with a process that reads."""
        with self.lock:
            one = self.readers.pop() if self.readers else self._new()
        try:
            yield one
        finally:
            with self.lock:
                if not one.busy:
                    self.readers.append(one)

    def keeper(self, number: int) -> WorkerProcess:
        """The process that keeps the shards of a number. One worker at a time has such a shard, but not all shards."""
        with self.lock:
            if number not in self.keepers:
                self.keepers[number] = self._new()
            return self.keepers[number]

    def renew(self) -> None:
        """End the processes that have died or failed; new ones start when they are needed. No thread may use one meanwhile."""
        dead = [one for one in self.all if one.busy or one.ended]
        self.all = [one for one in self.all if one not in dead]
        self.readers = [one for one in self.all if one not in self.keepers.values()]
        self.keepers = {number: one for number, one in self.keepers.items() if one not in dead}
        close_all(dead)

    def close(self) -> None:
        """End all."""
        close_all(self.all)
        self.all, self.readers, self.keepers = [], [], {}


@final
class ProcessRunner:
    """Runs what calls Python in worker processes, when that pays, and all else ``here``. ``setup``: what processes are sent;
    ``always``: whether it pays in any case."""

    def __init__(
        self, here: ThreadRunner, plan: Plan, setup: Callable[[], Setup], pool: WorkerPool, cost: Cost, *, always: bool
    ) -> None:
        self.here, self.plan, self.setup, self.pool, self.cost, self.always = here, plan, setup, pool, cost, always
        self.parts = InPython.of(plan)
        self.in_processes: set[ShardId] = set()
        """The shards that live in a process."""
        self.splits: dict[tuple[int, int], int] = {}
        """How many this epoch reads of each link."""
        self.next = {link.leaf.stage: stage.number for stage in plan.stages for link in links(stage.region)
                     if isinstance(link, StageLink)}  # fmt: skip
        """The stage that reads a stage."""
        self._lock = threading.Lock()
        self._setup_bytes: bytes | None = None
        self._off = False
        """The plan cannot be sent to another process."""
        self._pool_runs = False

    # ------------------------------------------------------------------------------------------- as a Runner

    def begin(self, tasks: Sequence[SplitTask]) -> None:
        """Decide by the size of the splits whether processes pay."""
        self.splits = {}
        for task in tasks:
            self.splits[_of(task)] = self.splits.get(_of(task), 0) + 1
        python = [task for task in tasks if self.parts.stages or (_of(task) in self.parts.links and self.splits[_of(task)] > 1)]
        self.cost.expect(python)

    def read(self, task: SplitTask, before: KnownTimes) -> SplitAnswer:
        """Read a split. The only split of a link is read here: a process would save nothing."""
        if _of(task) not in self.parts.links or (self.splits[_of(task)] == 1 and not self.always):
            return self.here.read(task, before)
        if self._on():
            request = _values_as_bytes(_of(task), task.split, task.number, task.one_by_one, dict(before.times))
            with self.pool.reader() as process:
                if request is not None and self._ready(process):
                    return self._answer(process, request, task, before)
        return self.cost.of_call(lambda: self.here.read(task, before))

    def step(self, stage: int, shard: int, messages: Sequence[Message], outlet: Outlet) -> Iterator[Message]:
        """Let a shard take messages, in the process that has its state."""
        if stage not in self.parts.stages:
            yield from self.here.step(stage, shard, messages, outlet)
            return
        at = stage, shard
        if at in self.in_processes or self._on():
            process = self.pool.keeper(shard % self.plan.width)
            with process.lock:
                if self._ready(process):
                    if at not in self.in_processes:
                        process.tell(self._state_frames(at))
                        self.in_processes.add(at)
                    request = Frame(Kind.STEP, payload=pickle.dumps(at), count=len(messages))
                    as_bytes = self.next.get(stage) in self.parts.stages
                    rows = 0
                    for frame in process.ask([request, *map(frame_of, messages)]):
                        message = message_of(frame, as_bytes=as_bytes)
                        yield message
                        rows += message.body.count if isinstance(message.body, Rows) else 0
                        if rows >= limits.HELD:
                            outlet.look()
                    return
        yield from self.cost.of_steps(self.here.step(stage, shard, messages, outlet))

    def state(self, stage: int, shard: int) -> StateParts:
        """The state of a shard, from the process that has it."""
        at = stage, shard
        if at not in self.in_processes:
            return self.here.state(stage, shard)
        process = self.pool.keeper(shard % self.plan.width)
        with process.lock:
            frames = list(process.ask([Frame(Kind.STATE, payload=pickle.dumps(at))]))
        parts = [frame for frame in frames if frame.kind == Kind.PART]
        logs: list[LogWrite] = []
        for frame in frames[len(parts) :]:
            if frame.kind == Kind.LOG:
                operator, about, size = pickle.loads(frame.payload)
                logs.append(LogWrite(operator, about, sections := list[Part](), size))
            else:
                sections.append(frame.payload)
        return StateParts([frame.payload for frame in parts], [frame.header for frame in parts], logs)

    # --------------------------------------------------------------------------------------------- processes

    def _on(self) -> bool:
        on = (self.always or self.cost.pays) and not self._off
        if on and not self._pool_runs:
            self._pool_runs = True
            width = self.plan.width
            self.pool.start(width if self.parts.links else 0, width if self.parts.stages else 0)
        return on

    def _ready(self, process: WorkerProcess) -> bool:
        """Whether a process has the plan. If it cannot have it, operators stay here."""
        if process.setup is self:
            return True
        try:
            with self._lock:
                if self._setup_bytes is None:
                    self._setup_bytes = shipped(self.setup())
            list(process.ask([Frame(Kind.SETUP, payload=self._setup_bytes)]))
        except WorkerDied:
            raise
        except Exception as error:
            self._off = True
            if self.always:
                raise UsageError(
                    "TT402",
                    f"--processes always: the dataflow cannot be sent to another process: {type(error).__name__}: {error}",
                    fix="let its operators hold values that can be pickled, or leave the option out",
                ) from error
            return False
        process.setup = self
        return True

    def _answer(self, process: WorkerProcess, request: bytes, task: SplitTask, before: KnownTimes) -> SplitAnswer:
        as_bytes = task.stage.number in self.parts.stages
        frames = process.ask([Frame(Kind.READ, payload=request)])
        messages = [message_of(frame, as_bytes=as_bytes) for frame in frames]
        report = next((message.body for message in messages if isinstance(message.body, Report)), None)
        return SplitAnswer(task, messages, report, None if report is None else before(report.part))

    def _state_frames(self, at: ShardId) -> list[Frame]:
        """The state of a shard on its way to a process, if it has one already."""
        states, parts = self.here.states, list[Part]()
        if at in states.loaded:
            parts = list(StateParts.of(states.loaded.pop(at)).parts)
        elif at in states.from_checkpoint:
            parts = list(states.from_checkpoint.pop(at))
        if not parts:
            return []
        return [*(Frame(Kind.PART, payload=part) for part in parts), Frame(Kind.RESTORE, payload=pickle.dumps(at))]


def _of(task: SplitTask) -> tuple[int, int]:
    """The link of a split."""
    return task.stage.number, task.link.number


def _values_as_bytes(*values: object) -> bytes | None:
    """Values as bytes; None if they cannot be pickled: then the split is read here."""
    try:
        return pickle.dumps(values, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
