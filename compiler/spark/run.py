"""Starting, watching, draining and stopping the query of a plan."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlparse

import attrs
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tracetypes.compiler.connectors.delta import is_table
from tracetypes.compiler.connectors.kafka import is_topic
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.plan import FromSource, Plan
from tracetypes.compiler.plan.program import Program
from tracetypes.compiler.runtime.messages import Difference, Kind, Message, Piece, Report, Reread, dumps, loads
from tracetypes.compiler.runtime.stage import StageKernel
from tracetypes.compiler.runtime.verification import in_python
from tracetypes.compiler.spark.channel_topics import TopicChannel, Topics
from tracetypes.compiler.spark.channels import Channel, FileChannel
from tracetypes.compiler.spark.delta import TableInput
from tracetypes.compiler.spark.files import FileInput, open_input
from tracetypes.compiler.spark.java import java_lock
from tracetypes.compiler.spark.kafka import TopicInput
from tracetypes.compiler.spark.lowering import Input, lower
from tracetypes.compiler.spark.scripted import Scripted, ScriptInput
from tracetypes.compiler.spark.session import configure
from tracetypes.compiler.spark.wire import BEFORE, Parcel
from tracetypes.compiler.store.compatibility import Claim, claim, claim_all, last_batch, queries_of
from tracetypes.compiler.store.input_identity import keep
from tracetypes.compiler.store.inputs import InputFiles
from tracetypes.compiler.store.locks import Locks
from tracetypes.compiler.store.metrics import Batch, StageMetrics, instant, stage_metrics
from tracetypes.compiler.store.outputs import Asides, MemoryOutput, Output, rows_sent
from tracetypes.compiler.store.overlap import refuse_overlaps
from tracetypes.compiler.store.small_files import read_json, write_json
from tracetypes.compiler.store.staging import unwritable
from tracetypes.compiler.store.version import look
from tracetypes.errors import RunError, TraceTypesError, UsageError, from_text
from tracetypes.formats import Parquet

__all__ = ["Batch", "Checkpoint", "Limits", "Rows", "Summary", "collect", "require", "run", "run_program"]


@attrs.define
class Summary:
    """What a run did."""

    batches: int = 0
    rows: int = 0
    markers: int = 0
    marker: int | None = None
    late: dict[str, int] = attrs.Factory(dict)
    rejects: dict[str, int] = attrs.Factory(dict)
    seconds: float = 0.0
    stopped: bool = False
    verified: tuple[int, float] = (0, 0.0)
    """How many rows were compared with plain Python, and the seconds of processor time that it took."""
    differences: list[Difference] = attrs.Factory(list)
    """Where traced answers differed from plain Python; these operators went on in Python."""

    def add(self, batch: Batch) -> None:
        """Count a batch."""
        self.batches += 1
        self.rows += batch.rows
        self.markers += batch.markers
        self.marker = batch.marker if batch.marker is not None else self.marker
        self.verified = self.verified[0] + batch.verified[0], self.verified[1] + batch.verified[1]
        for mine, theirs in ((self.late, batch.late), (self.rejects, batch.rejects)):
            for source, count in theirs.items():
                mine[source] = mine.get(source, 0) + count


@attrs.frozen
class Rows:
    """Rows in memory as the input of a source, for tests: a file a list, in this order; ``files_per_step`` of them a
    micro-batch. Each row is a value, or a pair ``(key, value)`` where the rows have a key column; text is taken as a line."""

    files: tuple[tuple[Any, ...], ...]
    files_per_step: int | None = None


Given: TypeAlias = str | Rows | Scripted
"""What is given as the input of a source."""


# ---------------------------------------------------------------------------------------------- checkpoint


KEPT = 100
"""How many commit records a checkpoint keeps, as many micro-batches as Spark keeps in its logs; sometimes twice as many."""


class Checkpoint:
    """The directory that makes a run one run across restarts: Spark's checkpoint, the graph, commits, the drain.
    ``changed``: in what the graph is another than that which was here before."""

    def __init__(self, of: Claim) -> None:
        self.path, self.changed = of.path, of.changed
        self.run = of.write()
        self.control.mkdir(exist_ok=True)
        self.files: dict[str, InputFiles] = {}
        """The files of readings that the driver lists, by label."""

    @property
    def spark(self) -> str:
        """Spark's own checkpoint."""
        return str(self.path / "spark")

    @property
    def control(self) -> Path:
        """A file in here drains the sources."""
        return self.path / "control"

    @property
    def differences(self) -> list[Difference]:
        """Where traced answers differed from plain Python in this run, also before it was started again."""
        path = self.path / "differences.json"
        return [Difference(*one["difference"]) for one in json.loads(path.read_text())] if path.exists() else []

    def differs(self, difference: Difference) -> str:
        """Keep a difference; what of the run was committed before it."""
        known = [{"difference": one.parts} for one in self.differences]
        write_json(self.path / "differences.json", [*known, {"difference": difference.parts}])
        number, _ = self.next
        marker = self.before(number).get("marker")
        upto = "" if marker is None else f", answers up to {instant(marker)}"
        return f"micro-batches 0 to {number - 1}{upto}" if number else "nothing"

    @property
    def drained(self) -> bool:
        """Have the sources ended?"""
        return any(file.stat().st_size for file in self.control.iterdir() if not file.name.startswith("."))

    @property
    def finished(self) -> bool:
        """Has the drain been answered?"""
        return (self.path / "finished").exists()

    def finish(self) -> None:
        """The drain has been answered."""
        write_json(self.path / "finished", {})

    def drain(self) -> None:
        """End the sources."""
        temporary = self.control / f".drain-{uuid.uuid4().hex}"
        temporary.write_text("drain\n")
        os.replace(temporary, self.control / f"drain-{len(os.listdir(self.control))}")

    def took_drain(self, batch: int) -> bool:
        """Is the drain part of a batch, or of one before it?"""
        for at, offset in enumerate(self.offsets(batch)):
            for log in (self.path / "spark" / "sources" / str(at)).glob("[0-9]*") if offset else ():
                for entry in map(json.loads, log.read_text().splitlines()[1:]):
                    path = Path(unquote(urlparse(entry["path"]).path))
                    if path.parent == self.control.absolute() and entry["batchId"] <= offset["logOffset"]:
                        return True
        return False

    def undrain(self) -> None:
        """Take back a drain that nobody has answered: the sources may go on."""
        for file in self.control.iterdir():
            file.write_text("")  # Spark's log may name it

    def committed(self, batch: int) -> dict[str, Any] | None:
        """The commit record of a batch."""
        found: dict[str, Any] | None = read_json(self.path / "commits" / f"{batch:08d}.json")
        return found

    def commit(self, batch: int, record: dict[str, Any]) -> None:
        """Record that a batch is out. Of the records before it only the last ones are kept."""
        records = self.path / "commits"
        write_json(records / f"{batch:08d}.json", record)
        names = sorted(os.listdir(records))
        written = [name for name in names if not name.startswith(".")]
        old = written[:-KEPT] if len(written) > 2 * KEPT else []
        if self.files:
            gone = [read_json(records / name)["files"] for name in old]
            for label, files in self.files.items():
                files.keep(about[label] for about in gone if label in about)
        for name in {*names} - {*written} | {*old}:  # some may have been left by a writer that was killed
            (records / name).unlink()

    def about(self, label: str) -> list[tuple[int, dict[str, Any]]]:
        """What the commit records say of the files of a reading, by micro-batch."""
        names = sorted(p for p in (self.path / "commits").glob("[0-9]*.json"))
        records = [(int(path.stem), read_json(path).get("files", {})) for path in names]
        return [(number, files[label]) for number, files in records if label in files]

    def before(self, batch: int) -> dict[str, Any]:
        """The last commit record before a batch; empty when there is none. A rescale is a batch of Spark's without a record."""
        found = (self.committed(number) for number in range(batch - 1, -1, -1))
        return next((record for record in found if record is not None), {})

    def last(self, log: str) -> int:
        """The number of the last batch in one of Spark's logs: ``offsets`` (begun) or ``commits`` (ended); -1 for none."""
        return last_batch(self.path, log)

    @property
    def taken(self) -> list[Any]:
        """Up to where Spark has taken each source for good: its own offsets, None for a source that has sent nothing."""
        return self.offsets(self.last("commits"))

    def offsets(self, batch: int) -> list[Any]:
        """Up to where Spark has taken each source with a batch."""
        offsets = self.path / "spark" / "offsets" / str(batch)
        lines = offsets.read_text().splitlines()[2:] if offsets.exists() else []
        return [json.loads(line) if line.startswith("{") else None for line in lines]

    def clean(self) -> None:
        """Remove what a start has left that was killed before Spark had begun a batch: Spark would refuse half a file of its
        log there, and nothing else in its checkpoint means anything yet."""
        if self.last("offsets") < 0:
            shutil.rmtree(self.spark, ignore_errors=True)

    def keep(self, inputs: Mapping[str, Input]) -> None:
        """Keep which inputs the run began with, or see that they are the same. Raises :class:`RunError` ``TT218``."""
        keep(self.path, {name: given.identity for name, given in inputs.items()}, begun=self.last("offsets") >= 0)

    @property
    def next(self) -> tuple[int, dict[str, Any]]:
        """The number of the batch that Spark will run next, and the newest event times before it."""
        number = self.last("commits") + 1
        return number, self.before(number).get("newest", {})

    @property
    def tasks(self) -> int | None:
        """In how many parts Spark keeps the state; None where there is no state yet."""
        begun = self.path / "spark" / "offsets" / str(self.last("offsets"))
        if not (self.path / "spark" / "state").is_dir() or not begun.exists():
            return None
        for line in begun.read_text().splitlines():
            if line.startswith("{") and "conf" in (about := json.loads(line)):
                return int(about["conf"]["spark.sql.shuffle.partitions"])
        return None


# ---------------------------------------------------------------------------------------------------- run


class Ending:
    """Ends the sources with the micro-batch that takes the last files, so that the end needs none of its own.

    What Spark has taken stands in its checkpoint. Where that cannot be told (a file system that is not local), nothing is
    ended here, and the run ends the sources when nothing is left to do.
    """

    def __init__(self, inputs: Mapping[str, Input], checkpoint: Checkpoint, *, drain: bool) -> None:
        self.inputs = inputs
        # Topics and tables are taken up to their ends at once, if not told otherwise.
        others = [given for given in inputs.values() if not isinstance(given, FileInput)]
        self.checkpoint, self.drain = checkpoint, drain and all(given.at_once for given in others)
        self.left: list[tuple[int | None, set[str]]] = []
        self.read: set[Path] = set()

    def begin(self) -> None:
        """List the files, unless nobody may read new ones any more."""
        listed = self.checkpoint.files.values()
        for files in listed if not self.checkpoint.drained else ():
            files.look()
        others = [given for given in self.inputs.values() if isinstance(given, FileInput) and not given.is_listed]
        self.left = [(given.files_per_step, {os.path.abspath(f) for f in given.files}) for given in others]
        self.left += [(files.at_once and files.tasks, files.waiting) for files in listed]

    def look(self) -> None:
        """End the sources if the coming micro-batch takes the last files."""
        if not self.drain or self.checkpoint.drained:
            return
        logs = set(Path(self.checkpoint.spark, "sources").glob("*/[0-9]*"))
        for log in logs - self.read:
            for line in log.read_text().splitlines():
                if line.startswith("{") and "path" in (entry := json.loads(line)):
                    for _, files in self.left:
                        files.discard(unquote(urlparse(entry["path"]).path))
        self.read = logs
        if all(at_once is None or len(files) <= at_once for at_once, files in self.left):
            self.checkpoint.drain()


class _Batches:
    """What ``foreachBatch`` calls."""

    def __init__(
        self,
        spark: SparkSession,
        plan: Plan,
        checkpoint: Checkpoint,
        output: Output,
        ending: Ending,
        told: Callable[[Batch], None],
        name: str = "",
        takes: Sequence[_Joint] = (),
    ) -> None:
        self.spark, self.plan, self.checkpoint, self.output, self.told = spark, plan, checkpoint, output, told
        self.ending, self.name, self.takes = ending, name, takes
        self.error: TraceTypesError | None = None
        self.verified = 0, 0.0

    def __call__(self, messages: DataFrame, number: int) -> None:
        try:
            self.run(messages, number)
        except OSError as error:
            self.error = unwritable(error)
            raise
        except TraceTypesError as error:
            self.error = error
            raise

    def run(self, messages: DataFrame, number: int) -> None:
        """Take a micro-batch, unless it was taken before."""
        started = time.monotonic()
        record = self.checkpoint.committed(number)
        if record is None:
            record, stages = self.take(messages, number)
            self.checkpoint.commit(number, record)
            self.told(
                Batch(
                    number,
                    record["rows"],
                    record["markers"],
                    record["marker"],
                    record["late"],
                    record["rejects"],
                    time.monotonic() - started,
                    self.name,
                    _latest(record["newest"]),
                    stages,
                    record["read"],
                    record["written"],
                    self.verified,
                )
            )
        elif not is_straight(self.plan):
            # The end came between our commit and Spark's. Spark wants to see its state stores commit all the same.
            messages.write.mode("overwrite").format("noop").save()
            self.output.tidy()
        for label, files in self.checkpoint.files.items():
            files.committed(record["files"][label])
        tell(self.spark, number + 1, record["newest"])
        self.ending.look()
        for joint in self.takes:
            joint.clean()
            joint.channel.trim(Path(self.checkpoint.spark, "sources"))

    def take(self, messages: DataFrame, number: int) -> tuple[dict[str, Any], tuple[StageMetrics, ...]]:
        """Compute a micro-batch, in one job, and send out what came of it: its commit record, and what its stages tell."""
        before = self.checkpoint.before(number)
        arrived = [
            Message(0, row["kind"], bytes(row["header"] or b""), bytes(row["payload"] or b""))
            for row in messages.select("kind", "header", "payload").collect()
        ]
        taken = [message.head for message in arrived if message.kind == Kind.TAKEN]
        arrived = [message for message in arrived if message.kind != Kind.TAKEN]
        if is_straight(self.plan):
            record, told, frontiers = self.close(arrived, before)
            arrived += told
        else:
            record, frontiers = self.record([m.head for m in arrived if m.kind == Kind.PROGRESS], before), {}
        record["written"] = rows_sent(arrived)
        record["files"] = {
            label: files.taken([head for head in taken if head["reading"] == label])
            for label, files in self.checkpoint.files.items()
        }
        heads = [message.head for message in arrived if message.kind == Kind.VERIFIED]
        self.verified = sum(head["rows"] for head in heads), sum(head["seconds"] for head in heads)
        self.output.take(arrived, number, frontiers)
        return record, stage_metrics(self.plan, [m.head for m in arrived if m.kind == Kind.METRICS])

    def close(
        self, arrived: list[Message], before: dict[str, Any]
    ) -> tuple[dict[str, Any], list[Message], dict[tuple[int, Piece], int]]:
        """Close the blocks from the sources' reports, where the sources send rows of the sink."""
        kernel = StageKernel(self.plan, self.plan.stages[0])
        state = loads(base64.b64decode(before["state"])) if "state" in before else kernel.fresh()
        sent = list(kernel.step(state, 0, [m for m in arrived if m.kind in (Kind.REPORT, Kind.DRAIN)]))
        record = self.record([message.head for message in sent if message.kind == Kind.PROGRESS], before)
        names = {link.number: link.leaf.source.name for link in kernel.links if isinstance(link.leaf, FromSource)}
        for message in arrived:
            if message.kind == Kind.REPORT:
                report = Report.from_head(message.head)
                for counts, count in ((record["late"], report.late), (record["rejects"], report.rejects)):
                    if count:
                        counts[names[report.link]] = counts.get(names[report.link], 0) + count
        blob = dumps(state)
        record["state"] = base64.b64encode(blob).decode()
        return record, [*sent, kernel.metrics(state, 0, len(blob))], kernel.frontiers

    def record(self, heads: list[dict[str, Any]], before: dict[str, Any]) -> dict[str, Any]:
        """What is told of a batch, from the stages' progress."""
        record: dict[str, Any] = {
            "rows": 0,
            "read": {},
            "markers": 0,
            "marker": None,
            "late": {},
            "rejects": {},
            "newest": dict(before.get("newest", {})),
            "complete": False,
        }
        for head in heads:
            record["newest"].update(head["newest"])
            record["rows"] += head["rows"]
            for source, count in head["read"].items():
                record["read"][source] = record["read"].get(source, 0) + count
            if head["stage"] == self.plan.stages[-1].number:
                record["late"], record["rejects"] = head["late"], head["rejects"]
                record["complete"] = head["complete"]
                if head["markers"]:
                    record["markers"], record["marker"] = len(head["markers"]), head["markers"][-1]
        return record


def _latest(newest: Mapping[str, list[int | None]]) -> dict[str, int]:
    """The newest event time of each source that has one, over its parts."""
    known: dict[str, list[int]] = {}
    for reading, parts in newest.items():
        known.setdefault(reading.partition(":")[0], []).extend(time for time in parts if time is not None)
    return {name: max(times) for name, times in known.items() if times}


def tell(spark: SparkSession, batch: int, newest: Mapping[str, Any], pieces: Mapping[str, Any] | None = None) -> None:
    """Let the workers of the coming batch know the newest event times before it, of each part of each reading of a source."""
    known = {"batch": batch, "newest": newest, "pieces": pieces or {}}
    spark.sparkContext.setLocalProperty(BEFORE, json.dumps(known))


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
) -> Summary:
    """Run a plan until its inputs are exhausted, or with ``follow`` until it is stopped (Ctrl-C, SIGTERM).

    ``inputs``: a path, ``kafka://host:port/topic``, ``delta:path`` or :class:`Rows` for each source. ``output``: an output, or
    a function from the run's name to one.
    ``drain``: at the end of the inputs the sources end too, and the open blocks are answered; a checkpoint that was
    drained takes no further rows. ``files_per_step``: files of a micro-batch at most; ``appended``: read
    lines that are appended to files of text that were taken, instead of raising ``TT230``. ``told``: called after each batch;
    ``said``: with each way in which the graph is another than when the run was stopped, and of traced operators that go on in
    Python; ``limits``: of rows that go aside; ``verify``: whether traced answers are compared with plain Python on a sample;
    ``locks``: those that the run has taken already; they are released.

    Raises :class:`RunError`, :class:`OperatorFailed` and what a source or sink finds wrong. After an error the run can be
    started again with the same checkpoint and goes on where it was.
    """
    require([leaf.source.name for leaf in plan.sources], inputs)
    configure(spark, plan.width)
    with (
        tempfile.TemporaryDirectory(prefix="tracetypes-") as scratch,
        _stop_on_signal() as stop,
        locks or Locks() as locks,
    ):
        look(Path(checkpoint))
        locks.take(Path(checkpoint), "the checkpoint")
        locks.share(*java_lock(spark))
        kept = Checkpoint(claim(Path(checkpoint), plan))
        kept.clean()
        if kept.finished:
            raise _finished(checkpoint)
        _say(said, [*(f"changed: {line}" for line in kept.changed), *_in_python(kept)])
        sink = output if isinstance(output, Output) else output(kept.run)
        _set_apart(locks, inputs, sink, checkpoint)
        summary = Summary()
        started = time.monotonic()
        opened = _open_all(spark, [plan], inputs, scratch, files_per_step, bounded=not follow)
        kept.keep(opened)
        drain = drain and not follow
        _begin_files(spark, plan, opened, kept, sink, appended=appended, follows=not drain)
        handler = _Batches(spark, plan, kept, sink, Ending(opened, kept, drain=drain), _counted(summary, told, limits))
        query = _Query(plan, opened, {}, kept, handler, _differed(summary, said), verify)
        _undrain([query])
        _run_query(query, drain=drain, follow=follow, stop=stop)
        summary.stopped = stop.is_set()
        summary.seconds = time.monotonic() - started
        return summary


def run_program(
    spark: SparkSession,
    program: Program,
    inputs: Mapping[str, Given],
    outputs: Mapping[str, Callable[[Plan, str], Output]],
    *,
    checkpoint: str,
    asides: Callable[[str], Asides],
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
) -> Summary:
    """Run all segments of a program at once, as :func:`run` does one plan.

    ``outputs``: for each sink a function from its plan and the run's name to an output; ``asides``: from a run's name to where
    segments that feed a channel put late and rejected rows; ``channels``: topics that they are to be, instead of files in the
    checkpoint. A segment that fails stops the others, and its error is raised.
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
        )
    configure(spark, program.width)
    root, drain = Path(checkpoint), drain and not follow
    with (
        tempfile.TemporaryDirectory(prefix="tracetypes-") as scratch,
        _stop_on_signal() as stop,
        locks or Locks() as locks,
    ):
        locks.take(root, "the checkpoint")
        locks.share(*java_lock(spark))
        claims = claim_all(root, program)
        claims.write()
        name = claims.run(None if channels is None else channels.prefix)
        joints = {one: _Joint(_channel(one, path, channels, name)) for one, path in claims.channels.items()}
        opened = _open_all(spark, program.plans, inputs, scratch, files_per_step, bounded=not follow)
        summary = Summary()
        started = time.monotonic()
        count = _counted(summary, told, limits, program.sources_above)
        queries: list[_Query] = []
        for segment, plan in zip(program.segments, program.plans, strict=True):
            kept = Checkpoint(claims.queries[segment.name])
            kept.clean()  # before other queries look into it
            target: Output = (
                outputs[segment.name](plan, kept.run)
                if segment.sends is None
                else joints[segment.sends].channel.output(plan, kept.run, asides(kept.run))
            )
            _set_apart(locks, inputs, target, checkpoint)
            given = {leaf.source.name: opened[leaf.source.name] for leaf in plan.sources}
            kept.keep(given)
            ending = Ending(given, kept, drain=drain)
            _begin_files(spark, plan, given, kept, target, appended=appended, follows=not drain)
            if segment.sends is not None and channels is None:
                joints[segment.sends].sender = kept
            takes = {name: joints[name] for name in segment.receives}
            for name, joint in takes.items():
                joint.readers.append((kept, sum(leaf.name == name for leaf in plan.channels)))
            handler = _Batches(spark, plan, kept, target, ending, count, segment.name, list(takes.values()))
            before = [one for one in queries if one.sends in segment.receives]
            reads = {name: joint.channel for name, joint in takes.items()}
            differed = _differed(summary, said)
            queries.append(_Query(plan, given, reads, kept, handler, differed, verify, segment.sends, before))
        if all(query.checkpoint.finished for query in queries):
            raise _finished(checkpoint)
        _say(
            said,
            [
                *(f"changed: {line}" for line in claims.changed),
                *(line for query in queries for line in _in_python(query.checkpoint)),
            ],
        )
        for joint in joints.values():
            joint.clean()
        _undrain(queries)
        _together(queries, drain=drain, follow=follow, stop=stop)
        for joint in joints.values():
            joint.clean()
            if all(query.checkpoint.finished for query in queries):
                joint.channel.discard()
        summary.stopped = stop.is_set()
        summary.seconds = time.monotonic() - started
        return summary


def _set_apart(locks: Locks, inputs: Mapping[str, Given], output: Output, checkpoint: str) -> None:
    """Lock the directories of an output, none of which may be read."""
    for place in output.places:
        locks.take(place, "the output directory")
    paths = {source: given for source, given in inputs.items() if isinstance(given, str)}
    refuse_overlaps(paths, {"the checkpoint": checkpoint, **{f"output {place}": str(place) for place in output.places}})


def _begin_files(
    spark: SparkSession,
    plan: Plan,
    inputs: Mapping[str, Input],
    kept: Checkpoint,
    output: Output,
    *,
    appended: bool,
    follows: bool,
) -> None:
    """Go on with the files that a query has listed. Raises :class:`RunError` ``TT231``."""
    number, _ = kept.next
    visible = partial(_visible, kept, output)
    for leaf in plan.sources:
        given = inputs[leaf.source.name]
        if not isinstance(given, FileInput) or not given.is_listed:
            continue
        kept.files[leaf.label] = files = InputFiles.of(
            kept.path,
            leaf.label,
            path=given.path,
            is_text=not isinstance(given.format, Parquet),
            tasks=spark.sparkContext.defaultParallelism,
            at_once=given.files_per_step,
            appended=appended,
            follows=follows,
        )
        needed = not is_straight(plan)
        files.begin(kept.about(leaf.label), Path(kept.spark), number - 1, visible, needed)


def _visible(kept: Checkpoint, output: Output) -> str | None:
    """Where something may have been seen of a micro-batch that was begun and is not over."""
    number, _ = kept.next
    return output.visible(number) if kept.last("offsets") >= number else None


def _undrain(queries: Sequence[_Query]) -> None:
    """Sources whose end nobody has answered go on: a run that failed with its last files may get others instead."""
    for query in queries:
        kept, (number, _) = query.checkpoint, query.checkpoint.next
        shown = kept.committed(number) is not None or _visible(kept, query.handler.output) is not None
        if kept.finished or kept.took_drain(number if shown else number - 1):
            return
    for query in queries:
        query.checkpoint.undrain()


def _say(said: Callable[[str], None] | None, changed: Iterable[str]) -> None:
    for line in changed:
        if said is not None:
            said(f"goes on; {line}")


def _in_python(checkpoint: Checkpoint) -> Iterator[str]:
    for one in checkpoint.differences:
        yield f"{one.name} runs in Python: its traced form differed"


def _differed(summary: Summary, said: Callable[[str], None] | None) -> Callable[[Difference, str], None]:
    """What is told of a difference, with what was committed before."""

    def tell(difference: Difference, before: str) -> None:
        summary.differences.append(difference)
        if said is not None:
            said(shown_difference(difference, before))

    return tell


def shown_difference(difference: Difference, before: str) -> str:
    """The warning ``TT240``."""
    return (
        f"TT240 warning: the traced form of {difference.name} differs from its Python\n"
        f"    for:      {difference.asked}\n"
        f"    traced:   {difference.traced}\n"
        f"    Python:   {difference.python}\n"
        f"    before:   {before} of this run was committed\n"
        "    fix:      the run goes on in Python and is right from here; compute again what was committed before, and report it"
    )


def _channel(name: str, path: Path, topics: Topics | None, run: str) -> Channel:
    return FileChannel(name, path) if topics is None else TopicChannel(name, topics.address(run, name), path)


def _finished(checkpoint: str) -> RunError:
    return RunError(
        "TT212",
        f"the run of checkpoint {checkpoint} is finished: its sources were drained",
        fix="give another --checkpoint and output for a new run; use --no-drain for runs that go on later",
    )


@attrs.frozen
class Limits:
    """How many rows may go aside in a run before it stops; None: any number."""

    late: int | None = None
    rejects: int | None = None

    def check(self, summary: Summary) -> None:
        """Raises :class:`RunError` ``TT217`` when there were too many."""
        for what, most, counts in (("late", self.late, summary.late), ("rejected", self.rejects, summary.rejects)):
            found = sum(counts.values())
            if most is not None and found > most:
                by = ", ".join(f"{source} {count:,}" for source, count in counts.items())
                raise RunError(
                    "TT217",
                    f"{found:,} rows were {what} ({by}), and at most {most:,} may be",
                    fix="look at them where they went; the same command goes on behind them, and counts anew",
                )


def _counted(
    summary: Summary,
    told: Callable[[Batch], None] | None,
    limits: Limits | None,
    above: Mapping[str, Sequence[str]] | None = None,
) -> Callable[[Batch], None]:
    """``above``: the sources above each query, the newest times of which are told with its micro-batches."""
    lock, newest = threading.Lock(), dict[str, int]()

    def count(batch: Batch) -> None:
        with lock:
            for source, time in batch.newest.items():
                newest[source] = max(time, newest.get(source, time))
            known = {source: newest[source] for source in (above or {}).get(batch.query, ()) if source in newest}
            batch = attrs.evolve(batch, newest={**known, **batch.newest})
            summary.add(batch)
            if told is not None:
                told(batch)
            if limits is not None:
                limits.check(summary)

    return count


def _open_all(
    spark: SparkSession,
    plans: Sequence[Plan],
    inputs: Mapping[str, Given],
    scratch: str,
    files_per_step: int | None,
    *,
    bounded: bool,
) -> dict[str, Input]:
    leaves = {leaf.source.name: leaf for plan in plans for leaf in plan.sources}
    return {
        name: _opened(spark, leaf, inputs[name], scratch, files_per_step, bounded=bounded)
        for name, leaf in leaves.items()
    }


def require(sources: Iterable[str], inputs: Mapping[str, object]) -> None:
    """Every source must have an input, and every input a source. Raises :class:`UsageError` ``TT402``."""
    names = set(sources)
    for name in sorted(set(inputs) - names):
        raise UsageError("TT402", f"there is no source {name!r}", fix=f"the sources are {', '.join(sorted(names))}")
    for name in sorted(names - set(inputs)):
        raise UsageError("TT402", f"source {name!r} has no input", fix=f"give --input {name}=PATH")


@attrs.define(eq=False)
class _Joint:
    """A channel between queries. ``sender``: the checkpoint of the query that sends, where places are the numbers of its
    micro-batches; ``readers``: checkpoints of those that read it, and how often each does."""

    channel: Channel
    sender: Checkpoint | None = None
    readers: list[tuple[Checkpoint, int]] = attrs.Factory(list)

    def clean(self) -> None:
        """Remove what all readers have taken for good."""
        found: list[int] = []
        for kept, readings in self.readers:
            places = self.channel.taken(kept.taken, Path(kept.spark, "sources"))
            found.append(min(places) if len(places) == readings else 0)
        if self.sender is not None:  # a manifest tells whether a micro-batch that is not committed was sent
            found.append(self.sender.last("commits") + 1)
        self.channel.remove(min(found))


@attrs.define(eq=False)
class _Query:
    """What runs as one streaming query. ``sends``: the channel that it feeds; ``upstream``: the queries that it reads from."""

    plan: Plan
    inputs: Mapping[str, Input]
    channels: Mapping[str, Channel]
    checkpoint: Checkpoint
    handler: _Batches
    differed: Callable[[Difference, str], None]
    verify: bool = True
    sends: str | None = None
    upstream: Sequence[_Query] = ()
    done: threading.Event = attrs.Factory(threading.Event)
    parcel: Parcel = attrs.field(init=False)
    rest: float = attrs.field(init=False, default=0.0)
    """Until when nobody looks for files again."""

    def __attrs_post_init__(self) -> None:
        if not self.verify:
            self.plan = attrs.evolve(self.plan, verify_every=0)
        self.trust({one.operator for one in self.checkpoint.differences})

    def trust(self, all_but: Collection[str]) -> None:
        """Run some operators in Python; the others as they were traced."""
        self.plan = self.handler.plan = in_python(self.plan, all_but)
        self.parcel = Parcel(self.plan)

    def differs(self, difference: Difference) -> None:
        """Go on with an operator in Python, for good."""
        self.differed(difference, self.checkpoint.differs(difference))
        self.parcel.close()
        self.trust({difference.operator})

    def look(self) -> None:
        """Look for new files, where that does not keep the machine busy."""
        began = time.monotonic()
        if began < self.rest:
            return
        for files in self.checkpoint.files.values():
            files.look()
        ended = time.monotonic()
        self.rest = ended + 4 * (ended - began)


def _together(queries: Sequence[_Query], *, drain: bool, follow: bool, stop: threading.Event) -> None:
    """Run several queries until all are done, or one fails and the others are stopped."""
    failed: list[BaseException] = []
    halt = threading.Event()

    def body(query: _Query) -> None:
        try:
            if not query.checkpoint.finished:
                _run_query(query, drain=drain, follow=follow, stop=halt)
            if not halt.is_set():
                query.done.set()
        except BaseException as error:
            failed.append(error)
            halt.set()

    threads = [threading.Thread(target=body, args=(query,), daemon=True) for query in queries]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if stop.is_set():
            halt.set()
        for thread in threads:
            thread.join(0.05)
    if failed:
        raise failed[0]


SLOW = "Python worker failed to connect back"
"""What Spark says of a Python process that was not up in ten seconds, as may be where many queries start on few cores. It has
no setting for that; a query that begins anew has done nothing yet."""


def _run_query(query: _Query, *, drain: bool, follow: bool, stop: threading.Event) -> None:
    """Run a query until it is done, is stopped or fails. What was sent to the workers for it is removed."""
    try:
        _attempts(query, drain=drain, follow=follow, stop=stop)
    finally:
        query.parcel.close()


def _attempts(query: _Query, *, drain: bool, follow: bool, stop: threading.Event) -> None:
    checkpoint, handler = query.checkpoint, query.handler
    spark = handler.spark
    handler.output.tidy()
    handler.ending.begin()
    _rescale(query)
    number, newest = checkpoint.next
    tell(spark, number, newest)
    handler.ending.look()
    pieces: dict[str, Any] = {}
    slow = 0
    while not stop.is_set():
        running = _start(query)

        def exhausted(running: StreamingQuery = running) -> None:
            for one in query.upstream:
                while running.isActive and not stop.is_set() and not one.done.wait(0.1):
                    pass
            running.processAllAvailable()

        try:
            if follow:
                _wait(running, stop, until=None, meanwhile=query.look)
            else:
                _wait(running, stop, until=exhausted)
                if drain and not stop.is_set():
                    if query.plan.sources:
                        if not checkpoint.drained:
                            checkpoint.drain()
                        _wait(running, stop, until=running.processAllAvailable)
                    if not stop.is_set():
                        _answered(checkpoint)
                        checkpoint.finish()
            return
        except (PySparkException, Py4JError, ConnectionError) as error:
            if handler.error is not None:
                raise handler.error from error
            if _visible(checkpoint, handler.output) is None and any([f.drop() for f in checkpoint.files.values()]):
                continue
            again = Reread.from_text(str(error))
            failed, newest = checkpoint.next
            difference = Difference.from_text(str(error))
            if difference is not None:
                query.differs(difference)
                number, pieces, slow = failed, pieces if failed == number else {}, 0
                tell(spark, number, newest, pieces)
                continue
            known, slow = (pieces, slow) if failed == number else ({}, 0)
            if again is None and SLOW in str(error) and slow < 3:
                number, pieces, slow = failed, known, slow + 1
                tell(spark, number, newest, pieces)
                continue
            if again is None or again.before.items() <= known.items():
                raise _translated(error) from error
            number, pieces = failed, {**known, **again.before}  # each stage asks for its own sources
            tell(spark, number, newest, pieces)
        finally:
            with suppress(Py4JError, ConnectionError):  # there may be no JVM any more
                running.stop()


def _rescale(query: _Query) -> None:
    """Let the state have as many parts as the plan has tasks. Key groups are what moves, whole."""
    checkpoint, spark, width = query.checkpoint, query.handler.spark, query.plan.width
    if checkpoint.tasks in (None, width):
        return
    if checkpoint.last("offsets") > checkpoint.last("commits"):  # the batch that was under way ends as it began
        number, newest = checkpoint.next
        tell(spark, number, newest)
        try:
            _start(query, once=True).awaitTermination()
        except (PySparkException, Py4JError) as error:
            if Reread.from_text(str(error)) is not None:
                return  # it is taken again by the run, with as many tasks as before
            raise query.handler.error or _translated(error) from error
    try:
        spark._streamingCheckpointManager.repartition(checkpoint.spark, width)
    except (PySparkException, Py4JError) as error:
        raise RunError(
            "TT216",
            f"the state in {checkpoint.path} cannot go from {checkpoint.tasks} tasks to {width}: "
            f"{str(error).splitlines()[0]}",
            fix=f"go on with --parallelism {checkpoint.tasks}",
        ) from error


def _answered(checkpoint: Checkpoint) -> None:
    """Make sure that the sources' end has reached the last stage, before anybody is told that the run is finished."""
    number, _ = checkpoint.next
    if not checkpoint.before(number).get("complete"):
        raise RunError(
            "TT214",
            f"the end of the sources was not answered: Spark took no file from {checkpoint.control}",
            fix="run again to go on; if it happens again, report it",
        )


def _start(query: _Query, *, once: bool = False) -> StreamingQuery:
    """``once``: one micro-batch only, that which was begun."""
    plan, checkpoint, handler = query.plan, query.checkpoint, query.handler
    try:
        control, delivery = str(checkpoint.control), handler.output.delivery
        messages = lower(handler.spark, query.parcel, query.inputs, checkpoint.files, query.channels, control, delivery)
        writer = messages.writeStream.outputMode("append").queryName(f"{plan.name}-{uuid.uuid4().hex[:6]}")
        writer = writer.trigger(once=True) if once else writer
        return writer.option("checkpointLocation", checkpoint.spark).foreachBatch(handler).start()
    except (PySparkException, Py4JError) as error:
        raise _translated(error) from error


def _wait(
    query: StreamingQuery,
    stop: threading.Event,
    until: Callable[[], None] | None,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Wait until ``until`` returns, the query fails, or somebody asks to stop. ``meanwhile``: is called again and again."""
    failed: list[BaseException] = []

    def body() -> None:
        try:
            if until is not None:
                until()
            else:
                query.awaitTermination()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    while thread.is_alive() and not stop.is_set():
        thread.join(0.05)
        meanwhile()
    if failed and not stop.is_set():
        raise failed[0]


@contextmanager
def _stop_on_signal() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set while the run lasts."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _translated(error: Exception) -> Exception:
    """Our own error, if one is inside what Spark reports."""
    found = from_text(str(error))
    if found is not None:
        return found
    if isinstance(error, ConnectionError | Py4JNetworkError):
        return RunError(
            "TT214",
            "Spark's Java process has ended",
            fix="run again to go on; if memory was short, set TRACETYPES_DRIVER_MEMORY (now 4g unless set)",
        )
    lines = str(error).partition("=== Streaming Query ===")[0].splitlines()
    first = next((line for line in lines if line.strip()), type(error).__name__)
    first = first.partition(" An exception was raised by the Python Proxy")[0]
    causes = [
        line.strip() for line in lines if line != first and re.match(r"(Caused by: )?[A-Za-z_][\w.$]*(: .*)?$", line)
    ]
    shown = "\n    ".join([first, *list(dict.fromkeys(causes))[-3:]])
    return RunError("TT214", f"Spark stopped the query: {shown}", fix="see the cause above; run again to go on")


def _opened(
    spark: SparkSession, leaf: FromSource, given: Given, scratch: str, files_per_step: int | None, *, bounded: bool
) -> Input:
    if isinstance(given, str) and is_topic(given):
        return TopicInput(spark, leaf, given, bounded=bounded)
    if isinstance(given, str) and is_table(given):
        return TableInput(spark, leaf, given, files_per_step, bounded=bounded)
    if isinstance(given, str):
        return open_input(spark, leaf, given, files_per_step)
    if isinstance(given, Scripted):
        return ScriptInput(spark, leaf, given.job)
    directory = Path(scratch) / leaf.source.name
    directory.mkdir()
    for number, rows in enumerate(given.files):
        path = directory / f"{number:06d}.jsonl"
        path.write_text("".join(_line(leaf, row) for row in rows))
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
    return open_input(spark, leaf, str(directory), given.files_per_step or files_per_step)


def _line(leaf: FromSource, row: Any) -> str:
    if isinstance(row, str):
        return row + "\n"
    from tracetypes.records import UNIT

    key, value = row if leaf.layout.keyed else (UNIT, row)
    return json.dumps(leaf.layout.plain(key, value)) + "\n"


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
