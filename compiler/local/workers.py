"""The work of a plan's epochs in this process, and the states between them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from tracetypes.compiler.local.channels import LocalChannelReader
from tracetypes.compiler.local.driver import Driver, EpochWork
from tracetypes.compiler.local.input_interface import LocalInput
from tracetypes.compiler.local.kernels import Kernels
from tracetypes.compiler.local.log import ShardId
from tracetypes.compiler.local.options import LocalOptions
from tracetypes.compiler.local.placement import Cost, InPython, may_start
from tracetypes.compiler.local.processes import ProcessRunner, WorkerPool
from tracetypes.compiler.local.runners import Runner, States, ThreadRunner
from tracetypes.compiler.local.section_files import SectionFiles
from tracetypes.compiler.local.shards import in_shards
from tracetypes.compiler.local.states import Part, StateParts
from tracetypes.compiler.local.worker_main import Setup
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.store.staging import Delivery
from tracetypes.templates import OpKeyedOrdered, OpKeyedUnordered

__all__ = ["Workers"]

KEYED: Final = (OpKeyedOrdered, OpKeyedUnordered)
"""Operators with states."""


class Workers:
    """Who runs the epochs of a plan. ``delivery``: of the sink's rows. ``load``: the states that a start finds, in parts.
    ``shards``: how many shards there are of each stage. ``stopping``: whether the run is asked to stop. ``sections``: those
    of logs of states."""

    def __init__(
        self,
        plan: Plan,
        options: LocalOptions,
        inputs: Mapping[str, LocalInput],
        channels: Mapping[str, LocalChannelReader],
        delivery: Delivery,
        load: Callable[[], Iterable[tuple[ShardId, Sequence[Part]]]],
        shards: int,
        stopping: Callable[[], bool] = lambda: False,
        sections: SectionFiles | None = None,
    ) -> None:
        self.shards, self.stopping, self.sections = shards, stopping, sections
        self.options, self.inputs, self.delivery, self.load = options, inputs, delivery, load
        self.contents = {name: one.channel.contents for name, one in channels.items()}
        self.pool, self.cost = WorkerPool(), Cost()
        self.driver: Driver | None = None
        self.begin(plan)

    def begin(self, plan: Plan) -> None:
        """Begin from the states of the last epoch that has ended, which are in shards. ``plan``: the same with other operators in
        Python. Worker processes that have died are replaced."""
        if self.driver is not None:
            self.driver.close()
        self.pool.renew()
        self.plan = sharded = in_shards(plan, self.shards)
        self.states = States(dict(self.load()), self.sections, self.budget)
        own = threading.local()

        def kernels() -> Kernels:
            mine: Kernels | None = getattr(own, "mine", None)
            if mine is None:
                mine = own.mine = Kernels(sharded, self.inputs, self.contents, self.delivery)
            return mine

        runner = self._runner(sharded, ThreadRunner(kernels, self.states))
        self.driver = Driver(sharded, self.options, runner, self.states, self.delivery, self.stopping)

    def _runner(self, plan: Plan, here: ThreadRunner) -> Runner:
        if not may_start(plan, self.options.processes) or not InPython.of(plan):
            return here

        def setup() -> Setup:
            inputs = {name: one.for_worker() for name, one in self.inputs.items()}
            return Setup(plan, inputs, self.contents, self.delivery, self.sections, self.budget)

        return ProcessRunner(here, plan, setup, self.pool, self.cost, always=self.options.processes == "always")

    @property
    def budget(self) -> int | None:
        """Bytes that the states of one operator in one shard may take in memory."""
        if self.options.state_memory is None:
            return None
        operators = sum(isinstance(step.operator, KEYED) for stage in self.plan.stages for step in stage.steps)
        return self.options.state_memory // max(1, operators * self.shards)

    @property
    def parts(self) -> Mapping[ShardId, StateParts]:
        """The states of shards that the last epoch had something for, in parts."""
        return self.states.parts

    def run(self, work: EpochWork) -> list[Message]:
        """Do an epoch. Returns what leaves the last stage. The states are those behind it. Raises :class:`Difference`,
        :class:`WorkerDied`, and the errors of sources and operators; then :meth:`begin` has to be called."""
        assert self.driver is not None
        return self.driver.run(work)

    def close(self) -> None:
        """End the threads and worker processes."""
        if self.driver is not None:
            self.driver.close()
        self.pool.close()
