"""A plan as operators of the ordered multicore runtime (``ordered/``), and epochs that run through them.

The way of the data, for each stage of the plan::

    splits  SOURCE       the splits of the epoch, by link in turn; the barrier; a few splits of the next epoch, to be read early
      |                  (:mod:`.split_source`)
    read    STATELESS    a split, read and run through the source kernel: messages by shard; any number at once
      |
      |<--- an earlier stage
    join    STATEFUL     settles lateness in the order of the source, and joins messages to batches (:mod:`.exchange`)
      |
    stage   PARTITIONED  the shards: each takes its part of a batch in one step of the stage kernel (:mod:`.stage_shards`)
      |
      v     the next stage; behind the last one

    output  STATEFUL     what is left for the sink, until the barrier has come

A chain of operators that the planner has put into one stage is one unit, with the stateless operators around it. Without fusion
(``--no-fuse``) each stage has one operator, keyed or stateless; the first ones behind a source run where it is read. In a plan in
which items go straight to the sink (``is_straight``), ``join`` only settles lateness, and there is no stage.

Barriers. The unit with ``last`` is the end of an epoch. The source sends it behind the last split. It is a mark: a merge sends it
on when each of its inputs has brought it, and the shards of a stage take it after all that came before it. Each shard then
takes its state into the checkpoint. These states are one consistent cut (theorem in ``ordered.marks``): what all splits of the
epoch have changed, and nothing else. When the barrier comes out of the last operator, all states have been taken, and the epoch
can be committed. The states are taken as views (:class:`.states.StateParts`); nothing changes them before the commit, as the next
epoch begins after it.

Memory. A source is not scheduled while as many units as its budget, 2N + 1 with N workers, are between it and the answers. In
serial order there are never more splits, read and not yet taken by a stage, than that. In typed order answers of splits come in
any order, and those that wait for an earlier split (``SplitQueue.waiting``) do not count: up to 2N more. Up to N answers more are
of the next epoch, read early. And in ``join`` there are the rows of one batch.

Order. In ``typed`` order splits of different links may pass one another, and a merge takes what comes first: the types demand no
more, as splits are put in order by link and batches are cut at marks. In ``serial`` order splits keep one order, and a merge
takes its inputs one after the other. The cut of inputs into splits is then fixed too, so that the output is that of one worker.

With one worker nothing is handed over: the calling thread takes the turns. With several, it takes turns in an epoch with one
split.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, Final, final

import attrs

from tracetypes.compiler.local.exchange import Exchange, SplitQueue
from tracetypes.compiler.local.kernels import SplitAnswer, SplitTask
from tracetypes.compiler.local.lateness import Lateness, Newest
from tracetypes.compiler.local.options import SCHEMES, LocalOptions, heuristic_of
from tracetypes.compiler.local.ordered.flow import Flow, Settings
from tracetypes.compiler.local.ordered.marks import ALL
from tracetypes.compiler.local.ordered.operators import Edge, Kind, Operator, Order
from tracetypes.compiler.local.ordered.scheduler import Scheduler
from tracetypes.compiler.local.ordered.workers import Workers as Crew
from tracetypes.compiler.local.ordered.workers import work as take_turns
from tracetypes.compiler.local.runners import Runner, States, ThreadRunner
from tracetypes.compiler.local.split_source import EarlySplit, SplitSource, SplitUnit
from tracetypes.compiler.local.stage_shards import StageShards
from tracetypes.compiler.local.units import Batch, Sent, aligned_barriers
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.plan import ChannelLink, Plan, SourceLink, Stage, StageLink, links
from tracetypes.compiler.runtime.messages import Drain, Message
from tracetypes.compiler.store.staging import Delivery

__all__ = ["Driver", "EpochWork"]

QUIET: Final = 0.005
"""Seconds for which the thread of a segment works on an epoch with one split alone."""


@attrs.frozen
class EpochWork:
    """What an epoch has to do. ``splits``: of readings, by label. ``entries``: of channels, by name, as splits. ``newest``:
    before the epoch. ``drain``: the sources have ended. ``ahead``: returns the splits that the next epoch will have, as far as
    they are known."""

    splits: Mapping[str, Sequence[Any]]
    entries: Mapping[str, Sequence[Any]]
    newest: Newest
    drain: bool
    ahead: Callable[[], Mapping[str, Sequence[Any]]] = dict

    def tasks(self, stage: Stage) -> list[SplitTask]:
        """The splits that a stage reads, by link in turn."""
        of_links: list[list[SplitTask]] = []
        for link in links(stage.region):
            match link:
                case SourceLink():
                    splits = self.splits.get(link.leaf.label, ())
                case ChannelLink():
                    splits = [line for (line,) in self.entries.get(link.leaf.name, ())]
                case _:
                    continue
            of_links.append([SplitTask(stage, link, split, number) for number, split in enumerate(splits)])
        return [task for some in zip_longest(*of_links) for task in some if task is not None]

    def next(self) -> EpochWork:
        """What is known of the next epoch."""
        return attrs.evolve(self, splits=self.ahead(), entries={})


@final
class _Straight:
    """In the place of an exchange where items go straight to the sink."""

    def __init__(self, lateness: Lateness) -> None:
        self.lateness, self.queue = lateness, SplitQueue()

    def process(self, unit: SplitAnswer | Sent) -> Sequence[Sent]:
        """Settle lateness."""
        match unit:
            case SplitAnswer():
                return [Sent(self.lateness.settle(answer).messages) for answer in self.queue.take(unit)]
            case Sent():
                return (unit,)


@final
class Driver:
    """The operators of a plan, and who works on them. ``runner``: runs kernels. ``delivery``: of the sink's rows. ``stopping``:
    whether the run is asked to stop."""

    def __init__(
        self,
        plan: Plan,
        options: LocalOptions,
        runner: Runner,
        states: States,
        delivery: Delivery,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.plan, self.options, self.runner, self.states = plan, options, runner, states
        self.stopping = stopping
        self.straight = is_straight(plan)
        self.sources: dict[int, SplitSource] = {}
        self.joins: dict[int, Exchange | _Straight] = {}
        """For this epoch, by stage."""
        self.shards: list[StageShards] = []
        self.messages: list[Message] = []
        """What has come out in this epoch."""
        self.over = threading.Event()
        self.heuristic = heuristic_of(options.heuristic)
        self.flow = self._flow(delivery)
        self.crew: Crew | None = None
        if plan.width > 1:
            self.crew = Crew(Scheduler(self.flow, self.heuristic), plan.width, failed=self.over.set)
            self.crew.start()

    def run(self, work: EpochWork) -> list[Message]:
        """Do an epoch. Returns what leaves the last stage, or the sources of a plan without one. After an error the driver must
        be closed."""
        self.messages = []
        self.states.parts = {}
        self.over.clear()
        if self.crew is not None and self.crew.errors:  # a worker has ended since the last epoch
            self.crew.join()
        lateness = Lateness(work.newest, self.runner.read)
        self.lateness = lateness
        for stage in self.plan.stages:
            exchange = Exchange(self.plan, stage, lateness, self.options.least, drain=work.drain)
            self.joins[stage.number] = _Straight(lateness) if self.straight else exchange
        tasks = {number: work.tasks(self.plan.stages[number]) for number in self.sources}
        splits = [task for some in tasks.values() for task in some]
        self.runner.begin(splits)
        if self.crew is None:
            self._begin(tasks, {})
            alone = Scheduler(self.flow, self.heuristic)
            alone.close()
            take_turns(alone)
        else:
            few = len(splits) <= 1 and isinstance(self.runner, ThreadRunner)
            ahead = {} if few else self._ahead(work)
            with self.crew.scheduler.changed:
                few = not self._begin(tasks, ahead) and few
                if not few:
                    self.crew.scheduler.changed.notify_all()
            if few:
                self._visit(self.crew)
            self.over.wait()
            if self.crew.errors:
                self.crew.join()  # nobody may go on with a state that others will load again
        messages = self.messages
        return [*messages, Message(0, Drain())] if self.straight and work.drain else messages

    @staticmethod
    def _visit(crew: Crew) -> None:
        """Work on an epoch with one split, in the thread that calls: others wake up only if it takes long and there is something
        for them. Waking them costs more than a small epoch, above all on a busy machine."""
        crew.scheduler.visitor = threading.get_ident()
        crew.scheduler.quiet_until = crew.scheduler.clock() + QUIET
        try:
            take_turns(crew.scheduler)
        except BaseException:
            crew.scheduler.stop()
            for thread in crew.threads:
                thread.join()
            raise

    def close(self) -> None:
        """End the threads, and remove unfinished files."""
        if self.crew is not None:
            self.crew.scheduler.stop()
            for thread in self.crew.threads:
                thread.join()
        for shards in self.shards:
            shards.abandon()

    def _begin(self, tasks: Mapping[int, Sequence[SplitTask]], ahead: Mapping[int, Sequence[SplitTask]]) -> bool:
        """Whether some splits of the epoch were read before."""
        return any([self.sources[number].begin(some, ahead.get(number, ())) for number, some in tasks.items()])

    def _ahead(self, work: EpochWork) -> dict[int, list[SplitTask]]:
        """The splits that are read ahead, a split for each worker: not where their order counts, where rows go straight to the
        sink, and where processes read them."""
        if self.options.serial or self.straight or not isinstance(self.runner, ThreadRunner):
            return {}
        following = work.next()
        return {number: following.tasks(self.plan.stages[number])[: self.plan.width] for number in self.sources}

    # ----------------------------------------------------------------------------------------------- the graph

    def _flow(self, delivery: Delivery) -> Flow:
        operators: list[Operator] = []
        edges: list[Edge] = []
        outputs: dict[int, Operator] = {}
        """The last operator of each stage."""
        for stage in self.plan.stages:
            join = Operator(name=f"join {stage.number}", kind=Kind.STATEFUL, process=partial(self._join, stage.number))
            before = [outputs[link.leaf.stage] for link in links(stage.region) if isinstance(link, StageLink)]
            if any(not isinstance(link, StageLink) for link in links(stage.region)):
                splits, read = self._reading(stage)
                operators += [splits, read]
                edges.append(Edge(splits, read))
                before.append(read)
            operators.append(join)
            edges += [Edge(one, join) for one in before]
            outputs[stage.number] = join
            if not self.straight:
                here = self._stage(stage, delivery if stage is self.plan.stages[-1] else None)
                operators.append(here)
                edges.append(Edge(join, here, prepare=lambda batch: ((ALL, batch),)))
                outputs[stage.number] = here
        output = Operator(name="output", kind=Kind.STATEFUL, process=self._output)
        edges.append(Edge(outputs[self.plan.stages[-1].number], output))
        settings = Settings(scheme=SCHEMES[self.options.queue])
        return Flow(
            [*operators, output],
            edges,
            settings=settings,
            aligned=lambda unit: isinstance(unit, Sent) and unit.last,
            combine=aligned_barriers,
            in_turn=self.options.serial,
        )

    def _reading(self, stage: Stage) -> tuple[Operator, Operator]:
        """The source and the reader of a stage's splits."""
        source = self.sources[stage.number] = SplitSource()
        budget = 2 * self.plan.width + 1

        def ready() -> int:
            join = self.joins.get(stage.number)
            held = 0 if join is None else len(join.queue.waiting)
            return source.ready(ahead=not self._waits()) if held < budget else 0

        splits = Operator(name=f"splits {stage.number}", kind=Kind.SOURCE, process=source.take, ready=ready, budget=budget)
        order = Order.SERIAL if self.options.serial else Order.BLOCKS
        read = partial(self._read, source)
        return splits, Operator(name=f"read {stage.number}", kind=Kind.STATELESS, process=read, order=order)

    def _waits(self) -> bool:
        """Whether anything of this epoch waits for a worker."""
        return any(one.worklist.size() for one in self.flow.operators if one.kind is not Kind.SOURCE)

    def _stage(self, stage: Stage, delivery: Delivery | None) -> Operator:
        shards = StageShards(self.plan, stage, self.states, self.runner, delivery, self.stopping)
        self.shards.append(shards)
        return Operator(
            name=f"stage {stage.number}",
            kind=Kind.PARTITIONED,
            process=shards.process,
            partitions=self.plan.key_groups,
            after_parts=shards.after_parts,
        )

    # ------------------------------------------------------------------------------------------- the operators

    def _read(self, source: SplitSource, unit: SplitUnit) -> Sequence[SplitAnswer | Sent]:
        match unit:
            case SplitTask():
                return (self.lateness.read(unit),)
            case EarlySplit():
                answer = source.answer(unit, self.lateness.read_early)
                return () if answer is None else (self.lateness.add(answer),)
            case Sent():
                return (unit,)

    def _join(self, stage: int, unit: SplitAnswer | Sent) -> Sequence[Batch | Sent]:
        return self.joins[stage].process(unit)

    def _output(self, unit: Sent) -> Sequence[Any]:
        self.messages += unit.messages
        if unit.last:
            self.over.set()
        return ()
