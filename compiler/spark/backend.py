"""Spark as a backend: a segment is a streaming query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs
from pyspark.sql import SparkSession

from tracetypes.compiler.connectors.registry import connector_of
from tracetypes.compiler.graph.segments import Segment
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.program import Program
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.spark.batches import EndOfSources, MicroBatches
from tracetypes.compiler.spark.channel_retention import ChannelRetention
from tracetypes.compiler.spark.input_interface import Input
from tracetypes.compiler.spark.inputs import OPENINGS
from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.spark.query import Query, RunningQuery
from tracetypes.compiler.store.metrics import Batch
from tracetypes.compiler.store.run_store import RunStore

__all__ = ["SparkBackend"]


@attrs.define(eq=False)
class SparkBackend:
    """Starts queries in a session. ``on_batch``: called after each micro-batch. ``differed``: called with traced operators
    that go on in Python. The other parameters are those of a run."""

    spark: SparkSession
    on_batch: Callable[[Batch], None]
    differed: Callable[[Difference, str], None]
    drain: bool = True
    follow: bool = False
    verify: bool = True
    names: bool = True
    """Have queries a name? One that is alone has none."""
    _senders: dict[str, Query] = attrs.field(init=False, factory=dict)
    """Queries by the channel that they feed."""

    @staticmethod
    def unsupported(program: Program, inputs: Mapping[str, object]) -> Sequence[str]:
        """Every plan can run, but Spark does not open every kind of input."""
        return [
            f"source {name!r} reads {connector_of(address).shown}, which Spark cannot read"
            for name, address in inputs.items()
            if connector_of(address).kind not in OPENINGS
        ]

    def start(
        self,
        segment: Segment,
        plan: Plan,
        inputs: Mapping[str, Input],
        channels: Mapping[str, ChannelRetention],
        store: RunStore,
    ) -> RunningQuery:
        """Start the query of a segment."""
        log, name = SparkLog(store.path), segment.name if self.names else ""
        ending = EndOfSources(inputs, store, log, drain=self.drain)
        takes = list(channels.values())
        handler = MicroBatches(self.spark, plan, store, log, store.output, ending, self.on_batch, name, takes)
        query = Query(
            plan,
            inputs,
            {name: one.reader for name, one in channels.items()},
            store,
            log,
            handler,
            self.differed,
            self.verify,
            [self._senders[name] for name in channels],
        )
        if segment.sends is not None:
            self._senders[segment.sends] = query
        return RunningQuery(query, drain=self.drain, follow=self.follow)
