"""The functions that Spark's Python workers run for stages: thin shells around the kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.plan.plan import Plan, Stage
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.runtime.stage import StageKernel
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.spark.wire import Task, iterator_of, no_collector
from tracetypes.compiler.store.staging import Delivery, deliver
from tracetypes.compiler.wire.messages import decode, encode

__all__ = ["KeyedTask", "Processor", "decoded"]


# ------------------------------------------------------------------------------------------------- stages


def decoded(group: int, frames: Iterable[pd.DataFrame]) -> list[Message]:
    """The messages of rows of Spark, for a key group."""
    return [
        decode(group, kind, bytes(header or b""), bytes(payload or b""))
        for frame in frames
        for kind, header, payload in zip(
            frame["kind"].tolist(), frame["header"].tolist(), frame["payload"].tolist(), strict=True
        )
    ]


class KeyedTask(Task):
    """A stage, one key group and micro-batch per call: for ``applyInPandasWithState``. ``delivery``: of the last stage."""

    def __init__(self, plan: Plan, stage: Stage, ids: list[int], delivery: Delivery) -> None:
        self.plan, self.number, self.ids, self.delivery = plan, stage.number, ids, delivery

    @cached_property
    def kernel(self) -> StageKernel:
        """The kernel, made once in each worker."""
        return StageKernel(self.plan, self.plan.stages[self.number])

    @cached_property
    def groups(self) -> dict[int, int]:
        """Key groups by Spark's id."""
        return {id: group for group, id in enumerate(self.ids)}

    def step(self, id: int, frames: Iterable[pd.DataFrame], before: bytes | None) -> tuple[bytes, list[Message]]:
        """Run the stage for one key group and micro-batch."""
        group = self.groups[id]
        messages = decoded(group, frames)
        with no_collector():
            state: StageState = self.kernel.fresh() if before is None else loads(before)
            try:
                out = list(deliver(self.delivery, self.kernel.step(state, group, messages), len(self.ids)))
                after = dumps(state)
                out.append(self.kernel.metrics(state, group, len(after)))
                return after, out
            except BaseException:
                del self.kernel  # it may hold what the failed step has sent
                raise

    def frame(self, messages: list[Message]) -> pd.DataFrame:
        """Messages as Spark wants them from a pandas function."""
        rows = [encode(message) for message in messages]
        return pd.DataFrame(
            {
                "group": np.array([self.ids[row.group] for row in rows], np.int32),
                "kind": np.array([row.kind for row in rows], np.int8),
                "header": [row.header for row in rows],
                "payload": [row.payload for row in rows],
            }
        )

    def __call__(self, key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        return iterator_of(lambda: self.run(key, frames, state))

    def run(self, key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        """One call of Spark."""
        after, out = self.step(int(key[0]), frames, bytes(state.get[0]) if state.exists else None)
        state.update((after,))
        if out:
            yield self.frame(out)


class Processor(StatefulProcessor):
    """:class:`KeyedTask` for ``transformWithStateInPandas``, which may stand before another stateful operator."""

    def __init__(self, task: KeyedTask) -> None:
        self.task = task

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark."""
        self.state = handle.getValueState("state", "state binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Called by Spark."""
        return iterator_of(lambda: self.run(key, rows))

    def run(self, key: Any, rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """One call of Spark."""
        state = self.state.get() if self.state.exists() else None
        after, out = self.task.step(int(key[0]), rows, None if state is None else bytes(state[0]))
        self.state.update((after,))
        yield self.task.frame(out)

    def close(self) -> None:
        """Called by Spark."""
