"""Channels between queries as files: rows in Parquet, and a manifest for each micro-batch of the sender.

::

    CHANNEL/rows/BATCH-NUMBER.parquet      rows as stages send them, with the marker that closes the block of each
    CHANNEL/manifests/BATCH.jsonl          a line for the markers, a line for each file

A manifest appears at once, when all of its files are there, and is never changed: a micro-batch that is done again has the same
rows and markers, so the first manifest stands. The reader takes manifests as Spark's source of files: each once.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tracetypes.compiler.columns import schema_of_rows
from tracetypes.compiler.kernels import ChannelKernel
from tracetypes.compiler.messages import Kind, Message
from tracetypes.compiler.plan import FromChannel, Link, Plan, Stage
from tracetypes.compiler.spark.files import literal
from tracetypes.compiler.spark.outputs import Asides, Frontiers, Output, move, rows_file, staged_rows, writable
from tracetypes.compiler.spark.staging import Delivery
from tracetypes.compiler.spark.wire import MESSAGES, Task, guarded, no_collector, sent
from tracetypes.errors import RunError
from tracetypes.formats import Parquet

__all__ = ["ChannelOutput", "ChannelScan", "received"]


class AsSent:
    """Rows as stages send them, with all columns."""

    def of(self, batch: Any) -> Any:
        """The same."""
        return batch


class ChannelOutput(Output):
    """The near end of a channel. ``asides``: where late and rejected rows of the segment go."""

    def __init__(self, plan: Plan, path: Path, asides: Asides) -> None:
        self.plan, self.path, self.asides = plan, path, asides
        self.rows, self.manifests, self.staged = path / "rows", path / "manifests", path / "staged"
        for directory in (self.rows, self.manifests):
            writable(directory)
        self.delivery = Delivery("stage", AsSent(), Parquet(), str(self.staged))

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """Send a batch."""
        self.asides.take(messages, batch, frontiers, self.staged)
        manifest = self.manifests / f"{batch:08d}.jsonl"
        if not manifest.exists():
            lines = [self._markers(messages, batch)]
            files = [*staged_rows(self.delivery, messages), *rows_file(self.plan, self.delivery, messages)]
            for number, file in enumerate(files):
                to = self.rows / f"{batch:08d}-{number:04d}.parquet"
                move(file, to)
                lines.append({"file": str(to)})
            if len(lines) > 1 or lines[0]["markers"] or lines[0]["complete"]:
                hidden = self.path / f"manifest-{uuid.uuid4().hex}"
                with hidden.open("w") as text:
                    text.writelines(json.dumps(line) + "\n" for line in lines)
                    text.flush()
                    os.fsync(text.fileno())
                os.replace(hidden, manifest)
        self.tidy()

    def _markers(self, messages: Sequence[Message], batch: int) -> dict[str, Any]:
        last = self.plan.stages[-1].number
        heads = [m.head for m in messages if m.kind == Kind.PROGRESS]
        found: dict[str, Any] = {"batch": batch, "markers": [], "complete": False}
        for head in heads:
            if head["stage"] == last:
                found |= {"markers": head["markers"], "complete": head["complete"]}
        return found

    def tidy(self) -> None:
        """Remove what attempts that failed have left."""
        shutil.rmtree(self.staged, ignore_errors=True)
        for left in self.path.glob("manifest-*"):
            left.unlink()
        self.asides.tidy()


class ChannelScan(Task):
    """``mapInArrow`` of a channel: lines of manifests in, messages to the key groups out."""

    def __init__(self, plan: Plan, stage: Stage, link: Link, ids: list[int]) -> None:
        self.stage, self.link, self.key_groups, self.ids = stage, link, plan.key_groups, ids

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
            for text in batch.column(0).to_pylist():
                line = json.loads(text)
                kernel = ChannelKernel(self.stage, self.link, self.key_groups)
                if "file" not in line:
                    yield from kernel.markers(line["markers"], line["complete"])
                    continue
                try:
                    with pq.ParquetFile(line["file"]) as file:
                        for part in file.iter_batches(use_threads=False):
                            columns = [c.cast(f.type) for c, f in zip(part.columns, schema, strict=True)]
                            yield from kernel.rows(pa.RecordBatch.from_arrays(columns, schema=schema))
                except (OSError, pa.ArrowException) as error:
                    raise RunError(
                        "TT208",
                        f"channel {self.link.leaf.name!r}: {line['file']} cannot be read: {error}",
                        fix="do not touch files of a checkpoint; start anew with another --checkpoint",
                    ) from error


def received(spark: SparkSession, plan: Plan, stage: Stage, link: Link, ids: list[int], path: Path) -> DataFrame:
    """The messages of a channel at ``path``."""
    reader = spark.readStream.format("text").option("maxFileAge", "36500d")
    lines = reader.load(literal(str(path / "manifests")))
    if plan.width > 1:  # a manifest is one small file, and names many large ones
        lines = lines.repartition(plan.width)
    return lines.mapInArrow(ChannelScan(plan, stage, link, ids), MESSAGES)
