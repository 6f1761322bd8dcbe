"""Channels between queries: where one lies, its two ends, and what may be removed from it.

As files:

::

    CHANNEL/rows/BATCH-NUMBER.parquet      rows as stages send them, with the marker that closes the block of each
    CHANNEL/manifests/BATCH.jsonl          a line for the markers, a line for each file

A manifest appears at once, when all of its files are there, and is never changed: a micro-batch that is done again has the same
rows and markers, so the first manifest stands. The reader takes manifests as Spark's source of files: each once.

What all readers have taken for good is removed. Should the sender do such a micro-batch again (it died before it could
commit), its manifest appears once more, and nobody takes it: Spark's log of files still names it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tracetypes.compiler.columns.arrow import schema_of_rows
from tracetypes.compiler.connectors.fences import Starts
from tracetypes.compiler.plan.plan import FromChannel, Link, Plan, Stage
from tracetypes.compiler.runtime.channel import ChannelKernel
from tracetypes.compiler.runtime.messages import Message, StageProgress
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.compiler.spark.files import literal
from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.spark.wire import MESSAGES, ShippedPlan, Task, guarded, no_collector, sent
from tracetypes.compiler.store.output import Frontiers, Output, SideOutputs, move, rows_file, staged_rows
from tracetypes.compiler.store.small_files import writable
from tracetypes.compiler.store.staging import Delivery
from tracetypes.errors import RunError
from tracetypes.formats import Parquet
from tracetypes.silence import read_ranges, shown_ranges

__all__ = ["Channel", "ChannelOutput", "ChannelScan", "Contents", "Entry", "FileChannel", "markers_of", "received"]


Entry: TypeAlias = dict[str, Any]
"""A line of a channel: ``{"batch": 3, "markers": [...], "complete": false}``, or where rows lie."""


class Contents(ABC):
    """Reads what the lines of a channel name, in workers."""

    @abstractmethod
    def read(self, entry: Entry) -> Iterator[Entry | pa.RecordBatch]:
        """The rows and markers that an entry names. Raises :class:`RunError` where they cannot be read."""


class Channel(ABC):
    """Where a channel lies. Its entries have places, which grow from one micro-batch of the sender to the next."""

    contents: Contents

    @abstractmethod
    def output(self, plan: Plan, run: str, side_outputs: SideOutputs) -> Output:
        """The near end. ``run``: the name of the sending query's run; ``side_outputs``: where late and rejected rows of it go."""

    @abstractmethod
    def lines(self, spark: SparkSession, tasks: int) -> DataFrame:
        """The far end: entries as lines of JSON, each once, those of a micro-batch of the sender together."""

    @abstractmethod
    def taken(self, log: SparkLog) -> list[int]:
        """For each time that a query reads the channel the place before which it needs nothing any more. ``log``: the query's."""

    @abstractmethod
    def remove(self, before: int) -> None:
        """Remove the entries before a place."""

    def trim(self, log: SparkLog) -> None:  # noqa: B027
        """Shorten what Spark has noted about this channel for a query that is between two micro-batches."""

    def discard(self) -> None:  # noqa: B027
        """The run is finished: nobody will send or read any more."""


def markers_of(plan: Plan, messages: Sequence[Message], batch: int) -> Entry:
    """What a micro-batch of the sender has closed."""
    found: Entry = {"batch": batch, "markers": [], "complete": False, "silence": []}
    for told in [message.body for message in messages if isinstance(message.body, StageProgress)]:
        if told.stage == plan.stages[-1].number:
            found |= {"markers": told.markers, "complete": told.complete, "silence": shown_ranges(told.silence)}
    return found


# --------------------------------------------------------------------------------------------------- as files


class FileChannel(Channel):
    """A directory."""

    def __init__(self, name: str, path: Path) -> None:
        self.path, self.rows, self.manifests = path, path / "rows", path / "manifests"
        for directory in (self.rows, self.manifests):
            writable(directory)
        self.contents = RowFiles(name)
        for left in path.glob("log-*"):
            left.unlink()
        self.removed = 0

    def output(self, plan: Plan, run: str, side_outputs: SideOutputs) -> Output:
        """The near end."""
        return ChannelOutput(plan, self, side_outputs)

    def lines(self, spark: SparkSession, tasks: int) -> DataFrame:
        """The far end. Spark notes files by name for a day behind the newest one, and takes none that is older."""
        lines = spark.readStream.format("text").option("maxFileAge", "1d").load(literal(str(self.manifests)))
        return (
            lines.repartition(tasks) if tasks > 1 else lines
        )  # a manifest is one small file, and names many large ones

    def taken(self, log: SparkLog) -> list[int]:
        """Manifests are taken in the order of their numbers."""
        there = self.manifests.absolute()
        found: list[int] = []
        for files in log.taken_files():
            mine = takewhile(lambda path: path.parent == there, files)
            found.append(max((_number(path) + 1 for path in mine), default=0))
        return [place for place in found if place]

    def remove(self, before: int) -> None:
        """Remove files."""
        if before <= self.removed:
            return
        for directory in (self.manifests, self.rows):
            for name in os.listdir(directory):
                if _number(Path(name)) < before:
                    remove(directory / name)
        self.removed = before

    def trim(self, log: SparkLog) -> None:
        """Shorten the log of manifests."""
        log.shorten(self.manifests, self.path)


def _number(file: Path) -> int:
    return int(re.split(r"\D", file.name, maxsplit=1)[0])


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Write a file that is whole when this returns, also after a power cut."""
    with path.open("w") as text:
        text.writelines(f"{line}\n" for line in lines)
        text.flush()
        os.fsync(text.fileno())


def remove(file: Path) -> None:
    """Remove a file that may be gone."""
    file.unlink(missing_ok=True)


class RowFiles(Contents):
    """Files of rows."""

    def __init__(self, channel: str) -> None:
        self.channel = channel

    def read(self, entry: Entry) -> Iterator[Entry | pa.RecordBatch]:
        """The rows of a file."""
        if "file" not in entry:
            yield entry
            return
        try:
            with pq.ParquetFile(entry["file"]) as file:
                yield from file.iter_batches(use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise RunError(
                "TT208",
                f"channel {self.channel!r}: {entry['file']} cannot be read: {error}",
                fix="do not touch files of a checkpoint; start anew with another --checkpoint",
            ) from error


class AsSent:
    """Rows as stages send them, with all columns."""

    def of(self, batch: Any) -> Any:
        """The same."""
        return batch


class ChannelOutput(Output):
    """The near end of a channel as files. ``side_outputs``: where late and rejected rows of the segment go."""

    def __init__(self, plan: Plan, channel: FileChannel, side_outputs: SideOutputs) -> None:
        self.plan, self.channel, self.side_outputs = plan, channel, side_outputs
        self.staged = channel.path / "staged"
        self.delivery = Delivery("stage", AsSent(), Parquet(), str(self.staged))

    @property
    def places(self) -> Mapping[str, Path]:
        """Those of late items and rejects."""
        return self.side_outputs.places

    def begin(self, starts: Starts) -> None:
        """Make the directories."""
        self.side_outputs.begin()

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """Send a batch."""
        self.side_outputs.take(messages, batch, frontiers, self.staged)
        manifest = self.channel.manifests / f"{batch:08d}.jsonl"
        if not manifest.exists():
            lines = [markers_of(self.plan, messages, batch)]
            files = [*staged_rows(self.delivery, messages), *rows_file(self.plan, self.delivery, messages)]
            for number, file in enumerate(files):
                to = self.channel.rows / f"{batch:08d}-{number:04d}.parquet"
                move(file, to)
                lines.append({"file": str(to)})
            if len(lines) > 1 or lines[0]["markers"] or lines[0]["complete"]:
                hidden = self.channel.path / f"manifest-{uuid.uuid4().hex}"
                write_lines(hidden, [json.dumps(line) for line in lines])
                os.replace(hidden, manifest)
        self.tidy()

    def visible(self, batch: int) -> str | None:
        """By its manifest."""
        there = (self.channel.manifests / f"{batch:08d}.jsonl").exists()
        return f"channel {self.channel.path.name}" if there else self.side_outputs.visible(batch)

    def tidy(self) -> None:
        """Remove what attempts that failed have left."""
        shutil.rmtree(self.staged, ignore_errors=True)
        for left in self.channel.path.glob("manifest-*"):
            left.unlink()
        self.side_outputs.tidy()


# ---------------------------------------------------------------------------------------------------- far end


class ChannelScan(Task):
    """``mapInArrow`` of a channel: lines in, messages to the key groups out."""

    def __init__(self, plan: Plan, stage: Stage, link: Link, ids: list[int], contents: Contents) -> None:
        self.plan, self.stage, self.link, self.ids, self.contents = plan, stage, link, ids, contents

    @cached_property
    def verifier(self) -> Verifier | None:
        """Made once in each worker."""
        return Verifier.of(self.plan)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return guarded(lambda: self.run(batches))

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All lines of a task."""
        with no_collector():
            yield from sent(self.messages(batches), self.ids)

    def messages(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Message]:
        """What the lines of a task say."""
        assert isinstance(self.link.leaf, FromChannel)
        schema = schema_of_rows(self.link.leaf.layout)
        for batch in batches:
            for line in batch.column(0).to_pylist():
                kernel = ChannelKernel(self.stage, self.link, self.plan.key_groups, self.verifier)
                for found in self.contents.read(json.loads(line)):
                    if isinstance(found, pa.RecordBatch):
                        columns = [c.cast(f.type) for c, f in zip(found.columns, schema, strict=True)]
                        yield from kernel.rows(pa.RecordBatch.from_arrays(columns, schema=schema))
                    else:
                        yield from kernel.markers(found["markers"], found["complete"], read_ranges(found["silence"]))


def received(
    spark: SparkSession, parcel: ShippedPlan, stage: Stage, link: Link, ids: list[int], channel: Channel
) -> DataFrame:
    """The messages of a channel."""
    scan = ChannelScan(parcel.plan, stage, link, ids, channel.contents).packed(parcel)
    return channel.lines(spark, parcel.plan.width).mapInArrow(scan, MESSAGES)
