"""Runs of programs on any backend, around the segments that the supervisor watches."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tracetypes.compiler.backend.backend import Backend
from tracetypes.compiler.backend.clock import Clock
from tracetypes.compiler.backend.control import Control
from tracetypes.compiler.backend.lateness import LateWatch
from tracetypes.compiler.backend.open_segment import OpenSegment, Reports
from tracetypes.compiler.backend.run_options import Places, RunOptions
from tracetypes.compiler.backend.segment_opener import SegmentOpener, set_apart
from tracetypes.compiler.backend.summary import Summary, counter, shown_held, warner
from tracetypes.compiler.backend.supervisor import Supervisor
from tracetypes.compiler.backend.text_watch import TextWatch
from tracetypes.compiler.connectors.files import Order
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.program import Program, alone
from tracetypes.compiler.runtime import limits as sizes
from tracetypes.compiler.runtime.ordered_machine import machine_code_missing
from tracetypes.compiler.store.compatibility import (
    checkpoints_of,
    finished_run,
    refuse_finished,
)
from tracetypes.compiler.store.inspection import open_checkpoint
from tracetypes.compiler.store.locks import Locks
from tracetypes.compiler.store.metrics import Batch
from tracetypes.compiler.store.open_keys import ends_in_band, open_keys
from tracetypes.compiler.store.output_interface import Output, SideOutputs
from tracetypes.compiler.store.outputs import MemoryOutput
from tracetypes.compiler.store.overlap import is_listed
from tracetypes.compiler.store.places import Place
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.compiler.store.takeover import held, home_of
from tracetypes.compiler.store.version import look
from tracetypes.gate_check import opens_for_certain
from tracetypes.nodes import title

__all__ = ["collect", "run", "run_program"]


def run_program(
    backend: Backend,
    program: Program,
    places: Places,
    options: RunOptions | None = None,
    *,
    on_batch: Callable[[Batch], None] | None = None,
    notify: Callable[[str], None] | None = None,
    locks: Locks | None = None,
    control: Control | None = None,
    clock: Clock | None = None,
) -> Summary:
    """Run all segments of a program until its inputs are exhausted, or until it is stopped (Ctrl-C, SIGTERM).

    ``on_batch``: called after each micro-batch. ``notify``: called with each change of the graph since the run was
    stopped, and with traced operators that go on in Python. ``locks``: those that the run has taken already; they are
    released. ``control``: how others end it. ``clock``: takes the phases.

    A segment that fails stops the others, and its error is raised: :class:`RunError`, :class:`OperatorFailed` and the
    errors of sources and sinks. After an error the run can be started again with the same checkpoint and goes on where
    it was.
    """
    options, control, clock = options or RunOptions(), control or Control(), clock or Clock()
    place, say = places.checkpoint, notify or (lambda _: None)
    look(home_of(place))
    with (
        tempfile.TemporaryDirectory(prefix="tracetypes-") as scratch,
        control.of_signals(),
        locks or Locks() as locks,
        ExitStack() as holding,
    ):
        set_apart(places.inputs, {"the checkpoint": place})
        locks.take(place, "the checkpoint")
        backend.prepare(program.width, locks)
        backend.reach(place)
        before = home_of(place)
        refuse_finished(
            before, program, checkpoints_of(before, program, backend.log), places.input_files, appended=options.appended
        )
        mine = holding.enter_context(held(place, lambda query, was, now: backend.log(query).moved(was, now)))
        root = mine.home
        checkpoints = checkpoints_of(root, program, backend.log)
        leaves = [leaf for plan in program.plans for leaf in plan.sources]
        readings = Counter(leaf.source.name for leaf in leaves)
        summary = Summary(readings=readings)
        late, texts = LateWatch.of(program, _orders_of(places.inputs, options.orders), say), TextWatch(say)

        def watch(summary: Summary, batch: Batch) -> None:
            late.look(summary, batch)
            texts.look(batch)

        count = clock.around(counter(summary, on_batch, options.limits, program.sources_above, watch))
        reports = Reports(count, warner(summary, notify))
        opener = SegmentOpener(backend, program, places, options, checkpoints, locks, reports, scratch)
        opener.open_outputs()
        checkpoints.write()
        mine.check()
        started = time.monotonic()
        opener.open_inputs({leaf.source.name: leaf for leaf in leaves}, readings)
        for one in opener.inputs.values():
            if one.warning is not None:
                say(one.warning)
        pairs = list(zip(program.segments, program.plans, strict=True))
        stores = {segment.name: opener.open_store(segment, plan) for segment, plan in pairs}
        opened = [opener.open(segment, plan, stores[segment.name]) for segment, plan in pairs]
        for line in checkpoints.changed:
            say(f"goes on; changed: {line}")
        for line in itertools.chain.from_iterable(map(_in_python, stores.values())):
            say(f"goes on; {line}")
        for channel in opener.channels.values():
            channel.check()
            channel.clean()
        _undrain(backend, stores.values())
        with _nothing_unread(stores.values(), root, control, follow=options.follow):
            _supervise(backend, program, opened, control)
        for channel in opener.channels.values():
            channel.clean()
            if all(store.finished for store in stores.values()):
                channel.reader.channel.discard()
        late.end(summary)
        texts.end()
        summary.stopped = control.stop.is_set()
        for line in _held(program, summary):
            say(line)
        if summary.rows >= sizes.COMPILED:
            steps = [step for plan in program.plans for stage in plan.stages for step in stage.steps]
            summary.faster = [title(step.node) for step in steps if machine_code_missing(step.ordered) is not None]
        if not (summary.stopped or options.follow) and (not options.drain or any(map(ends_in_band, program.plans))):
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
    on_batch: Callable[[Batch], None] | None = None,
    notify: Callable[[str], None] | None = None,
    control: Control | None = None,
    **options: Any,
) -> Summary:
    """Run a plan as a program of one segment: for tests and benchmarks. ``output``: one, or a function from the run's name.
    ``options``: of :class:`RunOptions`."""
    outputs = {plan.sink.name: lambda _, name: output if isinstance(output, Output) else output(name)}
    aside = partial(SideOutputs, Path(checkpoint, "_late"), Path(checkpoint, "_rejects"))
    places = Places(inputs=inputs, outputs=outputs, checkpoint=checkpoint, side_outputs=aside)
    return run_program(
        backend, alone(plan), places, RunOptions(**options), on_batch=on_batch, notify=notify, control=control
    )


def _supervise(backend: Backend, program: Program, opened: Sequence[OpenSegment], control: Control) -> None:
    """Start all segments, and wait until they are over."""
    senders = {segment.sends: segment.name for segment in program.segments}
    supervisor = Supervisor(control)
    for one in opened:
        supervisor.start(one.name, partial(backend.start, one), [senders[name] for name in one.receives])
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
    return {name: orders.get(name, "modified") for name, one in inputs.items() if is_listed(one) and not os.path.isfile(one)}


def _in_python(store: RunStore) -> Iterator[str]:
    for one in store.differences:
        yield f"{one.name} runs in Python: its traced form differed"


@contextmanager
def _nothing_unread(
    stores: Collection[RunStore], checkpoint: Place, control: Control, *, follow: bool
) -> Iterator[None]:
    """Inside, a run comes to the end that was begun before. Raises :class:`RunError` ``TT212`` when there are files that came
    after the end of their source: nobody reads them."""
    listed = [files for one in stores if one.finished or one.drained for files in one.files.values()]
    unread = next((path for files in listed if (path := files.unread()) is not None), None)
    error = None if unread is None else finished_run(checkpoint, f", and {unread} came after that")
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
