"""Opens segments: each one's output, channels, inputs and store, so that a backend may start it.

First all outputs are opened and locked, and nothing is written, because a run that may not start must leave everything as it was.
Then each segment takes its part of the checkpoint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import attrs

from tracetypes.compiler.backend.backend import Backend, Opening, OpenInput
from tracetypes.compiler.backend.channel_retention import ChannelRetention
from tracetypes.compiler.backend.open_segment import OpenSegment, Reports
from tracetypes.compiler.backend.run_options import Places, RunOptions
from tracetypes.compiler.connectors.registry import refuse_file_name
from tracetypes.compiler.graph.segments import Segment
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.plan import FromSource, Plan
from tracetypes.compiler.plan.program import Program
from tracetypes.compiler.store.channel import Channel
from tracetypes.compiler.store.compatibility import CompatibleCheckpoint, CompatibleCheckpoints
from tracetypes.compiler.store.file_channel import FileChannel
from tracetypes.compiler.store.gate_channel import GateChannel
from tracetypes.compiler.store.locks import Locks
from tracetypes.compiler.store.output_interface import Output
from tracetypes.compiler.store.overlap import refuse_overlaps
from tracetypes.compiler.store.places import Place
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.compiler.store.topic_channel import TopicChannel
from tracetypes.errors import RunError

__all__ = ["SegmentOpener", "begin_files", "set_apart"]


@attrs.frozen(eq=False)
class SegmentOpener:
    """Opens the segments of a program under the checkpoints that it has. ``scratch``: a directory of the run."""

    backend: Backend
    program: Program
    places: Places
    options: RunOptions
    checkpoints: CompatibleCheckpoints
    locks: Locks
    reports: Reports
    scratch: str
    channels: dict[str, ChannelRetention] = attrs.field(init=False, factory=dict)
    """By name."""
    inputs: dict[str, OpenInput] = attrs.field(init=False, factory=dict)
    """By source."""
    outputs: dict[str, Output] = attrs.field(init=False, factory=dict)
    """By segment."""

    def open_outputs(self) -> None:
        """Open the channels, and the output of each segment. They are locked, and nothing is written into them."""
        pairs = list(zip(self.program.segments, self.program.plans, strict=True))
        for segment, plan in pairs:
            if segment.sends is None:
                self.outputs[segment.name] = self.places.outputs[segment.name](plan, self.checkpoints.queries[segment.name].run)
                self._reserve(self.outputs[segment.name])
        topics = self.places.topics
        run = "" if self.checkpoints.plain is None else self.checkpoints.run(None if topics is None else topics.prefix)
        gated = {segment.sends for segment in self.program.segments if segment.gate is not None}
        for name, path in self.checkpoints.channels.items():
            channel = self._channel(name, path, run, gated=name in gated)
            self.channels[name] = ChannelRetention(self.backend.channel_reader(channel))
        for segment, plan in pairs:
            checkpoint = self.checkpoints.queries[segment.name]
            if segment.sends is not None:
                channel = self.channels[segment.sends].reader.channel
                target = channel.output(plan, checkpoint.run, self.places.side_outputs(checkpoint.run))
                self._reserve(target)
                self.outputs[segment.name] = target
            _not_shown(checkpoint, self.outputs[segment.name])

    def open_inputs(self, leaves: Mapping[str, FromSource], readings: Counter[str]) -> None:
        """Open the inputs of sources. ``leaves``: one of each source. ``readings``: how often each is read."""
        for name, leaf in leaves.items():
            address, order = self.places.inputs[name], self.options.orders.get(name, "modified")
            refuse_file_name(leaf.source, address)
            opening = Opening(
                leaf, address, self.scratch, self.options.files_per_step, order, not self.options.follow, readings[name]
            )
            self.inputs[name] = self.backend.open(opening)

    def open_store(self, segment: Segment, plan: Plan) -> RunStore:
        """Take the part of a segment in the checkpoint, with its output and its inputs."""
        store = RunStore(self.checkpoints.queries[segment.name])
        self.backend.log(store.path).clean()  # before other queries look into it
        store.begin(self.outputs[segment.name], segment.name)
        names = dict.fromkeys(leaf.source.name for leaf in plan.sources)
        store.keep_identities({name: self.inputs[name].identity for name in names})
        return store

    def open(self, segment: Segment, plan: Plan, store: RunStore) -> OpenSegment:
        """A segment that may start. It reads its channels from now on. Raises :class:`RunError` ``TT231``."""
        begin_files(
            self.backend, plan, store, self.inputs, appended=self.options.appended, follows=not self.options.drains
        )
        sends = None if segment.sends is None else self.channels[segment.sends]
        if sends is not None and (self.places.topics is None or plan.gate is not None):
            sends.sender = store
        for name in segment.receives:
            self.channels[name].join(segment.name, store.log, sum(leaf.name == name for leaf in plan.channels))
        return OpenSegment(
            name=segment.name,
            shown="" if self.checkpoints.plain is None else segment.name,
            plan=plan,
            inputs={leaf.source.name: self.inputs[leaf.source.name] for leaf in plan.sources},
            receives={name: self.channels[name] for name in segment.receives},
            sends=sends,
            store=store,
            reports=self.reports,
            drain=self.options.drains,
            follow=self.options.follow,
            verify=self.options.verify,
        )

    def _reserve(self, output: Output) -> None:
        """Lock an output, and see that nothing that is written is read. Raises :class:`UsageError` ``TT222``."""
        set_apart(self.places.inputs, output.written)
        for what, place in output.places.items():
            self.locks.take(place, what)

    def _channel(self, name: str, path: Place, run: str, *, gated: bool) -> Channel:
        """A channel. What a gate holds lies on disk, so the channel behind it does."""
        if gated:
            return GateChannel(name, path)
        topics = self.places.topics
        return FileChannel(name, path) if topics is None else TopicChannel(name, topics.address(run, name), path)

def begin_files(
    backend: Backend, plan: Plan, store: RunStore, inputs: Mapping[str, OpenInput], *, appended: bool, follows: bool
) -> None:
    """Go on with the files that a segment has listed. Raises :class:`RunError` ``TT231``."""
    log = backend.log(store.path)
    for leaf in plan.sources:
        files = inputs[leaf.source.name].files(
            store.path, leaf.label, tasks=backend.tasks, appended=appended, follows=follows
        )
        if files is not None:
            store.files[leaf.label] = files
            files.begin(store.about(leaf.label), log.listed, log.ended, store.visible, not is_straight(plan))


def set_apart(inputs: Mapping[str, Any], places: Mapping[str, Place]) -> None:
    """See that nothing that is written is read. Raises :class:`UsageError` ``TT222``."""
    paths = {source: address for source, address in inputs.items() if isinstance(address, str)}
    refuse_overlaps(paths, {what: str(place) for what, place in places.items()})


def _not_shown(checkpoint: CompatibleCheckpoint, output: Output) -> None:
    """Refuse a changed graph where rows of a micro-batch are out that is not committed: the new graph would take them back."""
    number = checkpoint.log.ended + 1
    if not checkpoint.changed or checkpoint.known is None or checkpoint.log.begun < number:
        return
    place = output.visible(number)
    if place is not None:
        raise RunError(
            "TT211",
            f"the checkpoint {checkpoint.path} cannot go on with a changed graph yet: the graph as it was has put rows of "
            f"micro-batch {number} into {place}, and did not commit it. Changed: {checkpoint.changed[0]}",
            fix="run the graph as it was once more, then the changed one",
        )
