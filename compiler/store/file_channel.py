"""Channels as files.

::

    CHANNEL/rows/BATCH-NUMBER.parquet      rows as stages send them, with the marker that closes the block of each
    CHANNEL/manifests/BATCH.jsonl          a line for the markers, a line for each file

A manifest appears at once, after all of its files, and never changes: an epoch that runs again has the same rows and
markers, so the first manifest stays. A reader takes each manifest once.

Entries that all readers have committed are removed. If the sender runs such an epoch again (because it died before its
commit), the manifest appears once more, but no reader takes it: the readers' logs have its name.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.store.channel import Channel, Contents, Entry, markers_of
from tracetypes.compiler.store.output_interface import Frontiers, Output, SideOutputs, move, rows_file, staged_rows
from tracetypes.compiler.store.small_files import writable, write_synced
from tracetypes.compiler.store.staging import Staging
from tracetypes.errors import RunError
from tracetypes.formats import Parquet

__all__ = ["ChannelOutput", "FileChannel", "manifest_number"]


class FileChannel(Channel):
    """A directory."""

    def __init__(self, name: str, path: Path) -> None:
        self.directory = path.name
        self.path, self.rows, self.manifests = path, path / "rows", path / "manifests"
        for directory in (self.rows, self.manifests):
            writable(directory)
        self.contents = RowFiles(name)
        self.removed = 0

    def output(self, plan: Plan, run: str, side_outputs: SideOutputs) -> Output:
        """The output that appends to the channel."""
        return ChannelOutput(plan, self, side_outputs)

    def remove(self, before: int) -> None:
        """Remove files."""
        if before <= self.removed:
            return
        for directory in (self.manifests, self.rows):
            for name in os.listdir(directory):
                if manifest_number(Path(name)) < before:
                    remove(directory / name)
        self.removed = before


def manifest_number(file: Path) -> int:
    """The epoch of a manifest, or of a file of rows."""
    return int(re.split(r"\D", file.name, maxsplit=1)[0])


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
    """The output that appends to a channel of files. ``side_outputs``: the outputs of the segment's late and rejected
    rows."""

    side_outputs: SideOutputs

    def __init__(self, plan: Plan, channel: FileChannel, side_outputs: SideOutputs) -> None:
        self.plan, self.channel, self.side_outputs = plan, channel, side_outputs
        self.staged = channel.path / "staged"
        self.delivery: Staging = Staging(AsSent(), Parquet(), str(self.staged))

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
                write_synced(hidden, [json.dumps(line) for line in lines])
                os.replace(hidden, manifest)
        self.tidy()

    def visible(self, batch: int) -> str | None:
        """The channel, if it has the manifest of the epoch."""
        there = (self.channel.manifests / f"{batch:08d}.jsonl").exists()
        return f"channel {self.channel.path.name}" if there else super().visible(batch)

    def tidy(self) -> None:
        """Remove the files of failed attempts."""
        shutil.rmtree(self.staged, ignore_errors=True)
        for left in self.channel.path.glob("manifest-*"):
            left.unlink()
        super().tidy()
