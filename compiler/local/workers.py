"""The work of a plan's epochs in this process, and the states between them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from tracetypes.compiler.local.channels import LocalChannelReader
from tracetypes.compiler.local.driver import Driver, EpochWork
from tracetypes.compiler.local.inputs import LocalInput
from tracetypes.compiler.local.kernels import Kernels
from tracetypes.compiler.local.key_groups import States
from tracetypes.compiler.local.log import GroupId
from tracetypes.compiler.local.options import LocalOptions
from tracetypes.compiler.local.shards import in_shards
from tracetypes.compiler.local.states import Part, StateParts
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.store.staging import Delivery

__all__ = ["Workers"]


class Workers:
    """Who runs the epochs of a plan. ``delivery``: of the sink's rows. ``load``: the states that a start finds, in parts."""

    def __init__(
        self,
        plan: Plan,
        options: LocalOptions,
        inputs: Mapping[str, LocalInput],
        channels: Mapping[str, LocalChannelReader],
        delivery: Delivery,
        load: Callable[[], Iterable[tuple[GroupId, Sequence[Part]]]],
    ) -> None:
        self.options, self.inputs, self.channels, self.delivery, self.load = options, inputs, channels, delivery, load
        self.driver: Driver | None = None
        self.begin(plan)

    def begin(self, plan: Plan) -> None:
        """Begin from the states of the last epoch that has ended, which are in shards. ``plan``: the same with other operators in
        Python."""
        self.close()
        self.plan = shards = in_shards(plan, self.options.tasks(plan.width))
        self.states = States(dict(self.load()))
        own = threading.local()

        def kernels() -> Kernels:
            mine: Kernels | None = getattr(own, "mine", None)
            if mine is None:
                mine = own.mine = Kernels(shards, self.inputs, self.channels, self.delivery)
            return mine

        self.driver = Driver(shards, self.options, kernels, self.states, self.delivery)

    @property
    def parts(self) -> Mapping[GroupId, StateParts]:
        """The states of groups that the last epoch had something for, in parts."""
        return self.states.parts

    def run(self, work: EpochWork) -> list[Message]:
        """Do an epoch. Returns what leaves the last stage. The states are those behind it. Raises :class:`Difference`, and the
        errors of sources and operators; then :meth:`begin` has to be called."""
        assert self.driver is not None
        return self.driver.run(work)

    def close(self) -> None:
        """End the threads."""
        if self.driver is not None:
            self.driver.close()
