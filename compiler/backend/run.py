"""Runs of programs on any backend, around the segments that the supervisor watches."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tracetypes.compiler.backend.backend import Backend, Opening, OpenInput, RunContext
from tracetypes.compiler.backend.channel_retention import ChannelRetention
from tracetypes.compiler.backend.clock import Clock
from tracetypes.compiler.backend.control import Control
from tracetypes.compiler.backend.lateness import LateWatch
from tracetypes.compiler.backend.summary import Limits, Summary, counter, shown_held, warner
from tracetypes.compiler.backend.supervisor import Supervisor
from tracetypes.compiler.backend.text_watch import TextWatch
from tracetypes.compiler.connectors.files import Order
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.program import Program, alone
from tracetypes.compiler.runtime import limits as sizes
from tracetypes.compiler.runtime.ordered_machine import machine_code_missing
from tracetypes.compiler.store.channel import Channel
from tracetypes.compiler.store.compatibility import (
    CompatibleCheckpoint,
    CompatibleCheckpoints,
    checkpoints_of,
    finished_run,
    refuse_finished,
)
from tracetypes.compiler.store.file_channel import FileChannel
from tracetypes.compiler.store.gate_channel import GateChannel
from tracetypes.compiler.store.inspection import open_checkpoint
from tracetypes.compiler.store.locks import Locks
from tracetypes.compiler.store.metrics import Batch
from tracetypes.compiler.store.open_keys import ends_in_band, open_keys
from tracetypes.compiler.store.output_interface import Output, SideOutputs
from tracetypes.compiler.store.outputs import MemoryOutput
from tracetypes.compiler.store.overlap import is_file, refuse_overlaps
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.compiler.store.topic_channel import TopicChannel, Topics
from tracetypes.compiler.store.version import look
from tracetypes.errors import RunError
from tracetypes.gate_check import opens_for_certain
from tracetypes.nodes import title

__all__ = ["collect", "run", "run_program"]


def run_program(
    backend: Backend,
    program: Program,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Callable[[Plan, str], Output]],
    *,
    checkpoint: str,
    side_outputs: Callable[[str], SideOutputs],
    channels: Topics | None = None,
    drain: bool = True,
    follow: bool = False,
    files_per_step: int | None = None,
    orders: Mapping[str, Order] | None = None,
    appended: bool = False,
    on_batch: Callable[[Batch], None] | None = None,
    notify: Callable[[str], None] | None = None,
    limits: Limits | None = None,
    verify: bool = True,
    locks: Locks | None = None,
    control: Control | None = None,
    clock: Clock | None = None,
) -> Summary:
    """Run all segments of a program until its inputs are exhausted, or with ``follow`` until it is stopped (Ctrl-C,
    SIGTERM).

    Paths are absolute: Spark stays in the directory in which it started.

    ``inputs``: a path, ``kafka://host:port/topic``, ``delta:path`` or :class:`Rows` for each source. ``outputs``: for
    each sink a function from its plan and the run's name to an output. ``side_outputs``: a function from a run's name
    to the outputs of late and rejected rows of segments that feed a channel. ``channels``: the place of topics that are
    channels, instead of files in the checkpoint. ``drain``: at the end of the inputs the sources end too, and open
    blocks are answered; a drained checkpoint takes no more rows. ``files_per_step``: the largest number of files in a
    micro-batch. ``orders``: the order of the files of a source, by modification time unless
    given. ``appended``: whether to read lines that are appended to known files of text, instead of raising
    ``TT230``. ``on_batch``: called after each micro-batch. ``notify``: called with each change of the graph since the run was
    stopped, and with traced operators that go on in Python. ``limits``: of late and rejected rows. ``verify``: whether
    traced answers are compared with plain Python on a sample. ``locks``: those that the run has taken already; they are
    released. ``control``: how others end it. ``clock``: takes the phases.

    A segment that fails stops the others, and its error is raised: :class:`RunError`, :class:`OperatorFailed` and the
    errors of sources and sinks. After an error the run can be started again with the same checkpoint and goes on where
    it was.
    """
    control = control or Control()
    root, drain = Path(checkpoint), drain and not follow
    look(root)
    with (
        tempfile.TemporaryDirectory(prefix="tracetypes-") as scratch,
        control.of_signals(),
        locks or Locks() as locks,
    ):
        _set_apart(inputs, {"the checkpoint": root})
        locks.take(root, "the checkpoint")
        backend.prepare(program, locks)
        checkpoints = checkpoints_of(root, program, backend.log)
        paths = {name: one for name, one in inputs.items() if isinstance(one, str) and is_file(one)}
        refuse_finished(root, program, checkpoints, paths, appended=appended)
        leaves, order_of = [leaf for plan in program.plans for leaf in plan.sources], orders or {}
        readings = Counter(leaf.source.name for leaf in leaves)
        summary = Summary(readings=readings)
        clock = clock or Clock()
        late = LateWatch.of(program, _orders_of(inputs, order_of), notify or (lambda _: None))
        texts = TextWatch(notify or (lambda _: None))

        def watch(summary: Summary, batch: Batch) -> None:
            late.look(summary, batch)
            texts.look(batch)

        count = clock.around(counter(summary, on_batch, limits, program.sources_above, watch))
        context = RunContext(count, warner(summary, notify), drain, follow, verify, names=checkpoints.plain is not None)
        retentions, targets = _targets(backend, program, checkpoints, outputs, side_outputs, channels, inputs, locks)
        checkpoints.write()
        started = time.monotonic()
        open_inputs = {
            name: backend.open(
                Opening(leaf, inputs[name], scratch, files_per_step, order_of.get(name, "modified"), not follow, readings[name])
            )
            for name, leaf in {leaf.source.name: leaf for leaf in leaves}.items()
        }
        for one in open_inputs.values():
            if one.warning is not None and notify is not None:
                notify(one.warning)
        stores = {
            segment.name: _store(
                backend, plan, checkpoints.queries[segment.name], targets[segment.name], segment.name, open_inputs
            )
            for segment, plan in zip(program.segments, program.plans, strict=True)
        }
        for segment, plan in zip(program.segments, program.plans, strict=True):
            store = stores[segment.name]
            _begin_files(backend, plan, open_inputs, store, appended=appended, follows=not drain)
            if segment.sends is not None and (channels is None or plan.gate is not None):
                retentions[segment.sends].sender = store
            for name in segment.receives:
                retentions[name].readers.append((store.log, sum(leaf.name == name for leaf in plan.channels)))
        _say(notify, [f"goes on; changed: {line}" for line in checkpoints.changed])
        _say(notify, [f"goes on; {line}" for store in stores.values() for line in _in_python(store)])
        for retention in retentions.values():
            retention.check()
            retention.clean()
        _undrain(backend, stores.values())
        with _nothing_unread(stores.values(), checkpoint, control, follow=follow):
            _supervise(backend, context, program, open_inputs, retentions, stores, control)
        for retention in retentions.values():
            retention.clean()
            if all(store.finished for store in stores.values()):
                retention.reader.channel.discard()
        late.end(summary)
        texts.end()
        summary.stopped = control.stop.is_set()
        _say(notify, _held(program, summary))
        if summary.rows >= sizes.COMPILED:
            steps = [step for plan in program.plans for stage in plan.stages for step in stage.steps]
            summary.faster = [title(step.node) for step in steps if machine_code_missing(step.ordered) is not None]
        if not (summary.stopped or follow) and (not drain or any(map(ends_in_band, program.plans))):
            summary.open = _left_open(backend, program, stores)
        summary.seconds = time.monotonic() - started
        return summary


def run(
    backend: Backend,
    plan: Plan,
    inputs: Mapping[str, Any],
    output: Output | Callable[[str], Output],
    *,
    checkpoint: str,
    **options: Any,
) -> Summary:
    """Run a plan as a program of one segment: for tests and benchmarks. ``output``: one, or a function from the run's name."""
    outputs = {plan.sink.name: lambda _, name: output if isinstance(output, Output) else output(name)}
    aside = partial(SideOutputs, Path(checkpoint, "_late"), Path(checkpoint, "_rejects"))
    return run_program(backend, alone(plan), inputs, outputs, checkpoint=checkpoint, side_outputs=aside, **options)


def _targets(
    backend: Backend,
    program: Program,
    checkpoints: CompatibleCheckpoints,
    outputs: Mapping[str, Callable[[Plan, str], Output]],
    side_outputs: Callable[[str], SideOutputs],
    channels: Topics | None,
    inputs: Mapping[str, Any],
    locks: Locks,
) -> tuple[dict[str, ChannelRetention], dict[str, Output]]:
    """The channels by name, and the output of each segment. They are locked, and nothing is written into outputs."""
    targets = {
        segment.name: outputs[segment.name](plan, checkpoints.queries[segment.name].run)
        for segment, plan in zip(program.segments, program.plans, strict=True)
        if segment.sends is None
    }
    for one in targets.values():
        _set_apart(inputs, one.written)
        _lock(locks, one)
    name = "" if checkpoints.plain is None else checkpoints.run(None if channels is None else channels.prefix)
    gated = {segment.sends for segment in program.segments if segment.gate is not None}
    retentions = {
        one: ChannelRetention(backend.channel_reader(_channel(one, path, channels, name, gated=one in gated)))
        for one, path in checkpoints.channels.items()
    }
    for segment, plan in zip(program.segments, program.plans, strict=True):
        checkpoint = checkpoints.queries[segment.name]
        if segment.sends is not None:
            target = retentions[segment.sends].reader.channel.output(plan, checkpoint.run, side_outputs(checkpoint.run))
            _set_apart(inputs, target.written)
            _lock(locks, target)
            targets[segment.name] = target
        _not_shown(checkpoint, targets[segment.name])
    return retentions, targets


def _store(
    backend: Backend,
    plan: Plan,
    checkpoint: CompatibleCheckpoint,
    target: Output,
    sink: str,
    open_inputs: Mapping[str, OpenInput],
) -> RunStore:
    """The run store of a segment, with its output and inputs."""
    store = RunStore(checkpoint)
    backend.log(store.path).clean()  # before other queries look into it
    store.begin(target, sink)
    store.keep_identities({name: open_inputs[name].identity for name in dict.fromkeys(leaf.source.name for leaf in plan.sources)})
    return store


def _supervise(
    backend: Backend,
    context: RunContext,
    program: Program,
    open_inputs: Mapping[str, OpenInput],
    retentions: Mapping[str, ChannelRetention],
    stores: Mapping[str, RunStore],
    control: Control,
) -> None:
    """Start all segments, and wait until they are over."""
    senders = {segment.sends: segment.name for segment in program.segments}
    supervisor = Supervisor(control)
    for segment, plan in zip(program.segments, program.plans, strict=True):
        needed = {leaf.source.name: open_inputs[leaf.source.name] for leaf in plan.sources}
        channels = {name: retentions[name] for name in segment.receives}
        start = partial(backend.start, segment, plan, needed, channels, stores[segment.name], context)
        supervisor.start(segment.name, start, [senders[name] for name in segment.receives])
    supervisor.watch()


def _held(program: Program, summary: Summary) -> Iterator[str]:
    """The warnings about gates that hold something, and may hold it for ever."""
    for name, plan in program.named:
        report = summary.gates.get(name)
        if plan.gate is None or report is None or not report.held or opens_for_certain(plan.gate.bound):
            continue
        if report.held * report.executions >= 2 * (report.markers - report.held):  # twice as long as it takes on average
            yield shown_held(name, report)


def _left_open(backend: Backend, program: Program, stores: Mapping[str, RunStore]) -> dict[str, int]:
    """How many keys wait for longer silence, by operator."""
    counts: dict[str, int] = {}
    for segment, plan in zip(program.segments, program.plans, strict=True):
        path = stores[segment.name].path
        if stores[segment.name].log.ended >= 0:
            view = open_checkpoint(str(path), backend.log)
            for operator, count in open_keys(plan, backend.states(), view).items():
                counts[operator] = counts.get(operator, 0) + count
    return counts


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


def _set_apart(inputs: Mapping[str, Any], places: Mapping[str, Path]) -> None:
    """See that nothing that is written is read. Raises :class:`UsageError` ``TT222``."""
    paths = {source: address for source, address in inputs.items() if isinstance(address, str)}
    refuse_overlaps(paths, {what: str(place) for what, place in places.items()})


def _lock(locks: Locks, output: Output) -> None:
    """Lock the directories of an output."""
    for what, place in output.places.items():
        locks.take(place, what)


def _begin_files(
    backend: Backend,
    plan: Plan,
    inputs: Mapping[str, OpenInput],
    store: RunStore,
    *,
    appended: bool,
    follows: bool,
) -> None:
    """Go on with the files that a query has listed. Raises :class:`RunError` ``TT231``."""
    log = backend.log(store.path)
    for leaf in plan.sources:
        reading = inputs[leaf.source.name]
        files = reading.files(store.path, leaf.label, tasks=backend.tasks, appended=appended, follows=follows)
        if files is None:
            continue
        store.files[leaf.label] = files
        needed = not is_straight(plan)
        files.begin(store.about(leaf.label), log.listed, log.ended, store.visible, needed)


def _undrain(backend: Backend, stores: Collection[RunStore]) -> None:
    """Sources whose end nobody has answered go on: a run that failed with its last files may get others instead."""
    for store in stores:
        log, number = backend.log(store.path), store.log.ended + 1
        is_visible = store.committed(number) is not None or store.visible() is not None
        if store.finished or log.took_from(store.control, number if is_visible else number - 1):
            return
    for store in stores:
        store.undrain()


def _orders_of(inputs: Mapping[str, Any], orders: Mapping[str, Order]) -> dict[str, str]:
    """The orders of sources that may have several files."""
    return {
        name: orders.get(name, "modified") for name, one in inputs.items() if isinstance(one, str) and os.path.isdir(one)
    }


def _say(notify: Callable[[str], None] | None, lines: Iterable[str]) -> None:
    for line in lines:
        if notify is not None:
            notify(line)


def _in_python(store: RunStore) -> Iterator[str]:
    for one in store.differences:
        yield f"{one.name} runs in Python: its traced form differed"


def _channel(name: str, path: Path, topics: Topics | None, run: str, *, gated: bool) -> Channel:
    """A channel. What a gate holds lies on disk, so the channel behind it does."""
    if gated:
        return GateChannel(name, path)
    return FileChannel(name, path) if topics is None else TopicChannel(name, topics.address(run, name), path)


@contextmanager
def _nothing_unread(
    stores: Collection[RunStore], checkpoint: str, control: Control, *, follow: bool
) -> Iterator[None]:
    """Inside, a run comes to the end that was begun before. Raises :class:`RunError` ``TT212`` when there are files that came
    after the end of their source: nobody reads them."""
    listed = [files for one in stores if one.finished or one.drained for files in one.files.values()]
    unread = next((path for files in listed if (path := files.unread()) is not None), None)
    error = None if unread is None else finished_run(Path(checkpoint), f", and {unread} came after that")
    if error is not None and follow:
        raise error
    yield
    if error is not None and not control.stop.is_set():
        raise error


def collect(
    backend: Backend, plan: Plan, inputs: Mapping[str, Any], *, drain: bool = True, **options: Any
) -> MemoryOutput:
    """Run a plan with a temporary checkpoint and return its answer: for tests."""
    output = MemoryOutput(plan)
    checkpoint = tempfile.mkdtemp(prefix="tracetypes-")
    try:
        run(backend, plan, inputs, output, checkpoint=checkpoint, drain=drain, **options)
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)
    return output
