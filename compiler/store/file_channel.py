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

import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from tracetypes.compiler.columns.batches import END
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import File, Message
from tracetypes.compiler.store.channel import Channel, Contents, Entry, Kept, markers_of
from tracetypes.compiler.store.output_interface import (
    Frontiers,
    Output,
    SideOutputs,
    latest,
    rows_file,
)
from tracetypes.compiler.store.places import Place, opened, remove_folder, scratch, sizes, take
from tracetypes.compiler.store.small_files import damaged, writable
from tracetypes.compiler.store.staging import Staging
from tracetypes.compiler.wire.seals import checksum_of_stream, seal, unseal
from tracetypes.errors import RunError
from tracetypes.formats import Parquet

__all__ = ["ChannelOutput", "FileChannel", "entries_of", "manifest_lines", "manifest_number", "row_entry"]


HOLDS: Final = "rows and markers of a channel"


class FileChannel(Channel):
    """A directory."""

    def __init__(self, name: str, path: Place) -> None:
        self.directory = path.name
        self.path, self.rows, self.manifests = path, path / "rows", path / "manifests"
        for directory in (self.rows, self.manifests):
            writable(directory)
        self.contents: RowFiles = RowFiles(name, self.rows, "")
        self.removed = 0

    def output(self, plan: Plan, run: str, side_outputs: SideOutputs) -> Output:
        """The output that appends to the channel."""
        self.contents = attrs.evolve(self.contents, run=run)
        return ChannelOutput(plan, self, side_outputs)

    def check(self, sent: Sequence[int], since: int) -> None:
        """See that the manifests that are not read are there, and whole."""
        there = {manifest_number(one.name) for one in self.manifests.iterdir()}
        for number in sorted(one for one in {*there, *sent} if one >= since):
            entries_of(self.manifests / f"{number:08d}.jsonl", self.contents.run)

    def remove(self, before: int) -> None:
        """Remove files."""
        if before <= self.removed:
            return
        for directory in (self.manifests, self.rows):
            for one in directory.iterdir():
                if manifest_number(one.name) < before:
                    remove(one)
        self.removed = before

    @property
    def first(self) -> int | None:
        """The number of the first manifest."""
        return min((manifest_number(one.name) for one in self.manifests.iterdir()), default=None)

    def kept(self, since: int) -> Kept:
        """The sizes of the files, and the time of the first manifest. Files of an epoch that is being sent count. A channel
        that is removed meanwhile keeps nothing."""
        size, oldest = 0, list[float]()
        for directory in (self.manifests, self.rows):
            for name, bytes_, time in sizes(directory):
                if manifest_number(name) >= since:
                    size += bytes_
                    if directory is self.manifests:
                        oldest.append(time)
        return Kept(size, min(oldest, default=None))


def manifest_number(name: str) -> int:
    """The epoch of a manifest, or of a file of rows, from its name."""
    return int(re.split(r"\D", name, maxsplit=1)[0])


def manifest_lines(entries: Sequence[Entry], run: str) -> list[str]:
    """The lines of a manifest of a run, each with its checksum, its number, and how many there are."""
    return [seal({"lines": len(entries), "line": at, **one}, _name(run)) for at, one in enumerate(entries)]


def _name(run: str) -> str:
    return f"manifest of {run}"


def entries_of(manifest: Place, run: str) -> list[str]:
    """The lines of a manifest. ``run``: the one that sends. Raises :class:`RunError` ``TT225``."""
    try:
        lines = manifest.read_bytes().splitlines()
        entries = [unseal(line, _name(run)) for line in lines]
        if not entries or [(one["lines"], one["line"]) for one in entries] != [(len(lines), at) for at in range(len(lines))]:
            raise ValueError("some of its lines are gone")
    except (OSError, ValueError) as error:
        raise damaged(manifest, error, HOLDS) from error
    return [line.decode() for line in lines]


def row_entry(file: Place, sum_: int) -> Entry:
    """The entry of a file of rows. ``sum_``: its checksum."""
    return {"file": file.name, "sum": sum_}


def checksum_at(file: Place) -> int:
    """A checksum of the bytes of a file of rows."""
    with opened(file) as bytes_:
        return checksum_of_stream(bytes_)


def ends_in(file: Place) -> tuple[int, int]:
    """The ends of the first and of the last block in a file of rows. Parquet keeps them beside the rows."""
    with opened(file) as bytes_, pq.ParquetFile(bytes_) as rows:
        about, least, most = rows.metadata, list[int](), list[int]()
        at = rows.schema_arrow.get_field_index(END)
        for group in range(about.num_row_groups):
            statistics = about.row_group(group).column(at).statistics
            least.append(int(statistics.min_raw))
            most.append(int(statistics.max_raw))
        return min(least), max(most)


def remove(file: Place) -> None:
    """Remove a file that may be gone."""
    file.unlink(missing_ok=True)


@attrs.frozen(eq=False)
class RowFiles(Contents):
    """Files of rows of a channel in a directory. ``run``: the one that sends them."""

    channel: str
    directory: Place
    run: str

    def entry(self, line: str) -> Entry:
        """A line of a manifest."""
        try:
            return unseal(line.encode(), _name(self.run))
        except ValueError as error:
            raise damaged(f"a manifest of channel {self.channel!r}", error, HOLDS) from error

    def read(self, entry: Entry) -> Iterator[Entry | pa.RecordBatch]:
        """The rows of a file, whose checksum is compared."""
        if "file" not in entry:
            yield entry
            return
        path = self.directory / entry["file"]
        try:
            if checksum_at(path) != entry["sum"]:
                raise damaged(path, "its checksum differs", HOLDS)
            with opened(path) as bytes_, pq.ParquetFile(bytes_) as file:
                yield from file.iter_batches(use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise RunError(
                "TT208",
                f"channel {self.channel!r}: {path} cannot be read: {error}",
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
        self.scratch = scratch(channel.path)
        self._last: tuple[int, tuple[int, int] | None] | None = None
        """The last micro-batch that was sent here, and its blocks."""
        self.delivery: Staging = Staging(AsSent(), Parquet(), str(self.staged))

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """Send a batch."""
        self.side_outputs.take(messages, batch, frontiers, self.staged)
        manifest = self.channel.manifests / f"{batch:08d}.jsonl"
        if not manifest.exists():
            lines: list[Entry] = [markers_of(self.plan, messages, batch)]
            ends = list[int]()
            for number, file in enumerate(self.rows_of(messages)):
                to = self.channel.rows / f"{batch:08d}-{number:04d}.parquet"
                take(file, to)
                lines.append(row_entry(to, checksum_at(to)))
                ends += ends_in(to)
            self._last = batch, (min(ends), max(ends)) if ends else None
            if ends:
                lines[0]["blocks"] = [min(ends), max(ends)]
            if len(lines) > 1 or lines[0]["markers"] or lines[0]["complete"]:
                self.send(manifest, lines)
        self.tidy()

    def rows_of(self, messages: Sequence[Message]) -> list[Place]:
        """The files of rows of a micro-batch: those that workers have staged, and one of rows that came to the driver."""
        staged = [message.body for message in messages if isinstance(message.body, File)]
        here = rows_file(self.plan, self.delivery.at(str(self.scratch / "staged")), messages)
        return [*(self.staged / file.name for file in staged if file.holds == "rows"), *here]

    def send(self, manifest: Place, lines: Sequence[Entry]) -> None:
        """Let a manifest appear. No reader sees a hidden file in its directory, so it is written beside that."""
        hidden = self.scratch / f"manifest-{uuid.uuid4().hex}"
        hidden.write_text("".join(f"{line}\n" for line in manifest_lines(lines, self.side_outputs.run)), encoding="utf-8")
        take(hidden, manifest)

    def blocks(self, batch: int) -> tuple[int, int] | None:
        """As the manifest says."""
        if self._last is not None and self._last[0] == batch:
            return self._last[1]
        manifest = self.channel.manifests / f"{batch:08d}.jsonl"
        if not manifest.exists():
            return None
        least, most = self.channel.contents.entry(entries_of(manifest, self.side_outputs.run)[0]).get("blocks", (None, None))
        return None if least is None else (least, most)

    def visible(self, batch: int) -> str | None:
        """The channel, if it has the manifest of the epoch."""
        there = (self.channel.manifests / f"{batch:08d}.jsonl").exists()
        return f"channel {self.channel.path.name}" if there else super().visible(batch)

    def sends(self, batch: int) -> bool:
        """Whether there is a manifest."""
        return (self.channel.manifests / f"{batch:08d}.jsonl").exists()

    @property
    def newest(self) -> int | None:
        """By the names of manifests."""
        return latest(*(manifest_number(one.name) for one in self.channel.manifests.iterdir()), super().newest)

    def tidy(self) -> None:
        """Remove the files of failed attempts."""
        remove_folder(self.staged)
        shutil.rmtree(self.scratch / "staged", ignore_errors=True)
        for left in self.scratch.glob("manifest-*"):
            left.unlink()
        super().tidy()
