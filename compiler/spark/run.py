"""Runs on Spark: of one plan, and of a program of several queries."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tracetypes.compiler.backend.control import Control
from tracetypes.compiler.backend.summary import Limits, Summary, counter, warner
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.program import Program
from tracetypes.compiler.spark.batches import Ending, MicroBatches
from tracetypes.compiler.spark.channel_retention import ChannelRetention
from tracetypes.compiler.spark.channel_topics import TopicChannel, Topics
from tracetypes.compiler.spark.channels import Channel, FileChannel
from tracetypes.compiler.spark.input import Input
from tracetypes.compiler.spark.inputs import Given, open_all, require
from tracetypes.compiler.spark.java import java_lock
from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.spark.query import Query, run_queries, run_query
from tracetypes.compiler.spark.session import configure
from tracetypes.compiler.store.compatibility import (
    CompatibleCheckpoint,
    claim,
    claim_all,
    finished,
    queries_of,
)
from tracetypes.compiler.store.locks import Locks
from tracetypes.compiler.store.metrics import Batch
from tracetypes.compiler.store.outputs import MemoryOutput, Output, SideOutputs
from tracetypes.compiler.store.overlap import refuse_overlaps
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.compiler.store.version import look
from tracetypes.errors import RunError

__all__ = ["Batch", "collect", "run", "run_program"]


def run(
    spark: SparkSession,
    plan: Plan,
    inputs: Mapping[str, Given],
    output: Output | Callable[[str], Output],
    *,
    checkpoint: str,
    drain: bool = True,
    follow: bool = False,
    files_per_step: int | None = None,
    appended: bool = False,
    told: Callable[[Batch], None] | None = None,
    said: Callable[[str], None] | None = None,
    limits: Limits | None = None,
    verify: bool = True,
    locks: Locks | None = None,
    control: Control | None = None,
) -> Summary:
    """Run a plan until its inputs are exhausted, or with ``follow`` until it is stopped (Ctrl-C, SIGTERM).

    ``inputs``: a path, ``kafka://host:port/topic``, ``delta:path`` or :class:`Rows` for each source. ``output``: an output, or
    a function from the run's name to one.
    ``drain``: at the end of the inputs the sources end too, and the open blocks are answered; a checkpoint that was
    drained takes no further rows. ``files_per_step``: files of a micro-batch at most; ``appended``: read
    lines that are appended to files of text that were taken, instead of raising ``TT230``. ``told``: called after each batch;
    ``said``: with each way in which the graph is another than when the run was stopped, and of traced operators that go on in
    Python; ``limits``: of rows that go aside; ``verify``: whether traced answers are compared with plain Python on a sample;
    ``locks``: those that the run has taken already; they are released; ``control``: how others end it.

    Raises :class:`RunError`, :class:`OperatorFailed` and what a source or sink finds wrong. After an error the run can be
    started again with the same checkpoint and goes on where it was.
    """
    require([leaf.source.name for leaf in plan.sources], inputs)
    control = control or Control()
    configure(spark, plan.width)
    with (
        tempfile.TemporaryDirectory(prefix="tracetypes-") as scratch,
        control.of_signals(),
        locks or Locks() as locks,
    ):
        look(Path(checkpoint))
        _set_apart(inputs, {"the checkpoint": Path(checkpoint)})
        locks.take(Path(checkpoint), "the checkpoint")
        locks.share(*java_lock(spark))
        claimed = claim(Path(checkpoint), plan, SparkLog)
        if claimed.finished:
            raise finished(Path(checkpoint))
        sink = output if isinstance(output, Output) else output(claimed.run)
        _not_shown(claimed, sink)
        _set_apart(inputs, sink.written)
        _lock(locks, sink)
        kept, log = RunStore(claimed), SparkLog(claimed.path)
        log.clean()
        _say(said, [*(f"changed: {line}" for line in kept.changed), *_in_python(kept)])
        kept.begin(sink, plan.sink.name)
        summary = Summary()
        started = time.monotonic()
        opened = open_all(spark, [plan], inputs, scratch, files_per_step, bounded=not follow)
        kept.keep({name: one.identity for name, one in opened.items()})
        drain = drain and not follow
        _begin_files(spark, plan, opened, kept, log, sink, appended=appended, follows=not drain)
        handler = MicroBatches(
            spark, plan, kept, log, sink, Ending(opened, kept, log, drain=drain), counter(summary, told, limits)
        )
        query = Query(plan, opened, {}, kept, log, handler, warner(summary, said), verify)
        _undrain([query])
        with _nothing_unread([query], checkpoint, control, follow=follow):
            run_query(query, control, drain=drain, follow=follow)
        summary.stopped = control.stop.is_set()
        summary.seconds = time.monotonic() - started
        return summary


def run_program(
    spark: SparkSession,
    program: Program,
    inputs: Mapping[str, Given],
    outputs: Mapping[str, Callable[[Plan, str], Output]],
    *,
    checkpoint: str,
    side_outputs: Callable[[str], SideOutputs],
    channels: Topics | None = None,
    drain: bool = True,
    follow: bool = False,
    files_per_step: int | None = None,
    appended: bool = False,
    told: Callable[[Batch], None] | None = None,
    said: Callable[[str], None] | None = None,
    limits: Limits | None = None,
    verify: bool = True,
    locks: Locks | None = None,
    control: Control | None = None,
) -> Summary:
    """Run all segments of a program at once, as :func:`run` does one plan.

    ``outputs``: for each sink a function from its plan and the run's name to an output; ``side_outputs``: from a run's name to
    where segments that feed a channel put late and rejected rows; ``channels``: topics that they are to be, instead of files in
    the checkpoint. A segment that fails stops the others, and its error is raised.
    """
    require(program.sources, inputs)
    if len(program.segments) == 1 and queries_of(Path(checkpoint)) is None:
        (output,) = outputs.values()
        (plan,) = program.plans
        return run(
            spark,
            plan,
            inputs,
            lambda name: output(plan, name),
            checkpoint=checkpoint,
            drain=drain,
            follow=follow,
            files_per_step=files_per_step,
            appended=appended,
            told=told,
            said=said,
            limits=limits,
            verify=verify,
            locks=locks,
            control=control,
        )
    control = control or Control()
    configure(spark, program.width)
    root, drain = Path(checkpoint), drain and not follow
    with (
        tempfile.TemporaryDirectory(prefix="tracetypes-") as scratch,
        control.of_signals(),
        locks or Locks() as locks,
    ):
        _set_apart(inputs, {"the checkpoint": root})
        locks.take(root, "the checkpoint")
        locks.share(*java_lock(spark))
        claims = claim_all(root, program, SparkLog)
        if all(one.finished for one in claims.queries.values()):
            raise finished(root)
        targets = {
            segment.name: outputs[segment.name](plan, claims.queries[segment.name].run)
            for segment, plan in zip(program.segments, program.plans, strict=True)
            if segment.sends is None
        }
        for one in targets.values():
            _set_apart(inputs, one.written)
            _lock(locks, one)
        name = claims.run(None if channels is None else channels.prefix)
        joints = {one: ChannelRetention(_channel(one, path, channels, name)) for one, path in claims.channels.items()}

        for segment, plan in zip(program.segments, program.plans, strict=True):
            mine = claims.queries[segment.name]
            if segment.sends is not None:
                targets[segment.name] = joints[segment.sends].channel.output(plan, mine.run, side_outputs(mine.run))
            _not_shown(mine, targets[segment.name])
        claims.write()
        opened = open_all(spark, program.plans, inputs, scratch, files_per_step, bounded=not follow)
        summary = Summary()
        started = time.monotonic()
        count = counter(summary, told, limits, program.sources_above)
        queries: list[Query] = []
        for segment, plan in zip(program.segments, program.plans, strict=True):
            kept = RunStore(claims.queries[segment.name])
            log = SparkLog(kept.path)
            log.clean()  # before other queries look into it
            target = targets[segment.name]
            _set_apart(inputs, target.written)
            _lock(locks, target)
            kept.begin(target, segment.name)
            given = {leaf.source.name: opened[leaf.source.name] for leaf in plan.sources}
            kept.keep({name: one.identity for name, one in given.items()})
            ending = Ending(given, kept, log, drain=drain)
            _begin_files(spark, plan, given, kept, log, target, appended=appended, follows=not drain)
            if segment.sends is not None and channels is None:
                joints[segment.sends].sender = log
            takes = {name: joints[name] for name in segment.receives}
            for name, joint in takes.items():
                joint.readers.append((log, sum(leaf.name == name for leaf in plan.channels)))
            handler = MicroBatches(spark, plan, kept, log, target, ending, count, segment.name, list(takes.values()))
            before = [one for one in queries if one.sends in segment.receives]
            reads = {name: joint.channel for name, joint in takes.items()}
            differed = warner(summary, said)
            queries.append(Query(plan, given, reads, kept, log, handler, differed, verify, segment.sends, before))
        _say(
            said,
            [
                *(f"changed: {line}" for line in claims.changed),
                *(line for query in queries for line in _in_python(query.store)),
            ],
        )
        for joint in joints.values():
            joint.clean()
        _undrain(queries)
        with _nothing_unread(queries, checkpoint, control, follow=follow):
            run_queries(queries, control, drain=drain, follow=follow)
        for joint in joints.values():
            joint.clean()
            if all(query.store.finished for query in queries):
                joint.channel.discard()
        summary.stopped = control.stop.is_set()
        summary.seconds = time.monotonic() - started
        return summary


def _not_shown(made: CompatibleCheckpoint, output: Output) -> None:
    """Refuse a changed graph where rows of a micro-batch are out that is not committed: the new graph would take them back."""
    number = made.log.ended + 1
    if not made.changed or made.known is None or made.log.begun < number:
        return
    place = output.visible(number)
    if place is not None:
        raise RunError(
            "TT211",
            f"the checkpoint {made.path} cannot go on with a changed graph yet: the graph as it was has put rows of "
            f"micro-batch {number} into {place}, and did not commit it. Changed: {made.changed[0]}",
            fix="run the graph as it was once more, then the changed one",
        )


def _set_apart(inputs: Mapping[str, Given], places: Mapping[str, Path]) -> None:
    """See that nothing that is written is read. Raises :class:`UsageError` ``TT222``."""
    paths = {source: given for source, given in inputs.items() if isinstance(given, str)}
    refuse_overlaps(paths, {what: str(place) for what, place in places.items()})


def _lock(locks: Locks, output: Output) -> None:
    """Lock the directories of an output."""
    for what, place in output.places.items():
        locks.take(place, what)


def _begin_files(
    spark: SparkSession,
    plan: Plan,
    inputs: Mapping[str, Input],
    kept: RunStore,
    log: SparkLog,
    output: Output,
    *,
    appended: bool,
    follows: bool,
) -> None:
    """Go on with the files that a query has listed. Raises :class:`RunError` ``TT231``."""
    visible = partial(kept.visible, output)
    for leaf in plan.sources:
        tasks = spark.sparkContext.defaultParallelism
        files = inputs[leaf.source.name].files(kept.path, leaf.label, tasks=tasks, appended=appended, follows=follows)
        if files is None:
            continue
        kept.files[leaf.label] = files
        needed = not is_straight(plan)
        files.begin(kept.about(leaf.label), log.noted(log.source_logs), log.ended, visible, needed)


def _undrain(queries: Sequence[Query]) -> None:
    """Sources whose end nobody has answered go on: a run that failed with its last files may get others instead."""
    for query in queries:
        kept, log, number = query.store, query.log, query.log.ended + 1
        shown = kept.committed(number) is not None or kept.visible(query.handler.output) is not None
        if kept.finished or log.took_from(kept.control, number if shown else number - 1):
            return
    for query in queries:
        query.store.undrain()


def _say(said: Callable[[str], None] | None, changed: Iterable[str]) -> None:
    for line in changed:
        if said is not None:
            said(f"goes on; {line}")


def _in_python(store: RunStore) -> Iterator[str]:
    for one in store.differences:
        yield f"{one.name} runs in Python: its traced form differed"


def _channel(name: str, path: Path, topics: Topics | None, run: str) -> Channel:
    return FileChannel(name, path) if topics is None else TopicChannel(name, topics.address(run, name), path)


@contextmanager
def _nothing_unread(
    queries: Sequence[Query], checkpoint: str, control: Control, *, follow: bool
) -> Iterator[None]:
    """Inside, a run comes to the end that was begun before. Raises :class:`RunError` ``TT212`` when there are files that came
    after the end of their source: nobody reads them."""
    kept = [query.store for query in queries]
    listed = [files for one in kept if one.finished or one.drained for files in one.files.values()]
    unread = next((path for files in listed if (path := files.unread()) is not None), None)
    error = None if unread is None else finished(Path(checkpoint), f", and {unread} came after that")
    if error is not None and follow:
        raise error
    yield
    if error is not None and not control.stop.is_set():
        raise error


def collect(
    spark: SparkSession, plan: Plan, inputs: Mapping[str, Given], *, drain: bool = True, **options: Any
) -> MemoryOutput:
    """Run a plan with a throw-away checkpoint and give what came out: for tests."""
    output = MemoryOutput(plan)
    checkpoint = tempfile.mkdtemp(prefix="tracetypes-")
    try:
        run(spark, plan, inputs, output, checkpoint=checkpoint, drain=drain, **options)
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)
    return output
