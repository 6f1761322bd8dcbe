"""The interface of an output, and the parts that all outputs of files share."""

from __future__ import annotations

import io
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, cast

import pyarrow as pa

from tracetypes.compiler.columns.batches import from_rows, schema_of_rows
from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.file_system import BLOCK
from tracetypes.compiler.connectors.files import open_file
from tracetypes.compiler.connectors.partitioned_files import files_in
from tracetypes.compiler.connectors.sink_files import VisibleColumns
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import File, Message, Rows, SideRows
from tracetypes.compiler.runtime.side_rows import Frontiers, Lateness, lines, placed
from tracetypes.compiler.store.places import Place, place_of, scratch, take
from tracetypes.compiler.store.small_files import writable
from tracetypes.compiler.store.staging import Delivery, Staging
from tracetypes.compiler.wire.messages import from_frames
from tracetypes.errors import RunError, UsageError
from tracetypes.fencing import Starts
from tracetypes.results import GateReport

__all__ = [
    "HIDDEN",
    "Attempts",
    "Frontiers",
    "Output",
    "SideOutputs",
    "items_of",
    "latest",
    "move",
    "newest_in",
    "placed_rows",
    "refuse_folders",
    "refuse_nested",
    "remove_shown",
    "rows_file",
    "rows_of",
    "rows_sent",
    "shown_in",
    "side_outputs_of",
    "side_rows",
    "staged_rows",
    "with_folders",
]


HIDDEN = "_tracetypes"


class Output(ABC):
    """Takes the messages of one micro-batch after the other."""

    delivery: Delivery
    side_outputs: SideOutputs | None = None
    """The outputs of late and rejected rows, if it has some."""
    notes_each = False
    """Whether it has something of each micro-batch, also of one without rows."""

    @property
    def places(self) -> Mapping[str, Place]:
        """Directories that belong to one run at a time, by their purpose. The constructor of an output writes nothing
        into them."""
        return {} if self.side_outputs is None else self.side_outputs.places

    @property
    def written(self) -> Mapping[str, Place]:
        """All directories that it writes, which no source may read."""
        return self.places

    @property
    def identity(self) -> EndpointIdentity | None:
        """The identity of its topic or table, or of files; None if it does not matter. Called after the run has begun."""
        return None

    def begin(self, starts: Starts) -> None:
        """Prepare the places for this run, and shut out other drivers. Raises :class:`RunError` ``TT209``."""
        if self.side_outputs is not None:
            self.side_outputs.begin()

    @abstractmethod
    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """Write a micro-batch. Idempotent in ``batch``."""

    @property
    def lateness(self) -> Mapping[str, Lateness]:
        """What is known so far of late rows, by source."""
        return {} if self.side_outputs is None else self.side_outputs.lateness

    @property
    def gate(self) -> GateReport | None:
        """What the gate in front of it did so far, if there is one."""
        return None

    def visible(self, batch: int) -> str | None:
        """Where rows of a micro-batch may be visible already; None if none is."""
        return None if self.side_outputs is None else self.side_outputs.visible(batch)

    @property
    def newest(self) -> int | None:
        """The newest micro-batch of the run of which it has anything; None if there is none. Called when the run has begun."""
        return None if self.side_outputs is None else self.side_outputs.newest

    def sends(self, batch: int) -> bool:
        """Whether it has put something into a channel that readers must find there."""
        return False

    def blocks(self, batch: int) -> tuple[int, int] | None:
        """The ends of the first and of the last block of which rows of a micro-batch, which it has taken, are in a channel; None
        if there are no rows, or if all of their blocks are closed."""
        return None

    def tidy(self) -> None:
        """Remove the files of failed attempts. Called when no micro-batch is under way."""
        if self.side_outputs is not None:
            self.side_outputs.tidy()


class Attempts:
    """Which micro-batches may have left files: the first one that this process writes, and one that it writes again. To
    look for files each time would cost more with each file of the output."""

    def __init__(self) -> None:
        self.last: int | None = None

    def may_have_left(self, batch: int) -> bool:
        """Whether a failed attempt may have left files of this micro-batch."""
        before, self.last = self.last, batch
        return before is None or batch <= before


class SideOutputs:
    """The outputs of late and rejected rows: a directory for each kind, and in it one for each source."""

    def __init__(self, late: Place, rejects: Place, run: str) -> None:
        self.late, self.rejects, self.run, self.attempts = late, rejects, run, Attempts()
        self.lateness: dict[str, Lateness] = {}

    @property
    def places(self) -> dict[str, Place]:
        """As for :class:`Output`."""
        return {"the directory of late items": self.late, "the directory of rejects": self.rejects}

    def begin(self) -> None:
        """As for :class:`Output`."""
        for directory in (self.late, self.rejects):
            writable(directory)

    def visible(self, batch: int) -> str | None:
        """As for :class:`Output`."""
        return shown_in([*_below(self.late), *_below(self.rejects)], self.run, batch)

    @property
    def newest(self) -> int | None:
        """As for :class:`Output`."""
        return newest_in([*_below(self.late), *_below(self.rejects)], self.run)

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers, staged: Place | str) -> None:
        """Write those of a micro-batch. ``staged``: the directory into which workers have put files, or its address."""
        if self.attempts.may_have_left(batch):
            remove_shown([*_below(self.late), *_below(self.rejects)], self.run, batch)
        places = {"late": self.late, "rejects": self.rejects}
        parts: dict[tuple[Place, str], list[SideRows | File]] = {}
        for message in messages:
            match message.body:
                case SideRows(holds, source) | File(holds, source) as about if holds in places:
                    parts.setdefault((places[holds], source), []).append(about)
                case _:
                    pass
        for (directory, source), some in sorted(parts.items()):
            aside = scratch(directory) / HIDDEN / self.run / f"aside-{uuid.uuid4().hex}"
            aside.parent.mkdir(parents=True, exist_ok=True)
            with aside.open("w", encoding="utf-8") as file:
                for one in side_rows(some, staged):
                    rows = placed(one, frontiers)
                    file.writelines(lines(rows))
                    if rows.holds == "late":
                        self.lateness.setdefault(source, Lateness()).add(rows)
            move(aside, directory / source / f"part-{self.run}-{batch:08d}-0000.jsonl")

    def tidy(self) -> None:
        """Remove the files of failed attempts."""
        for directory in (self.late, self.rejects):
            shutil.rmtree(scratch(directory) / HIDDEN / self.run, ignore_errors=True)


def with_folders(directory: Path) -> list[Path]:
    """A directory, and the folders ``NAME=VALUE`` in it at any depth: all that may have files of a micro-batch."""
    places = [directory]
    for place in places:
        if place.is_dir():
            places += (one for one in place.iterdir() if "=" in one.name and one.is_dir())
    return places


def shown_in(directories: Iterable[Place], run: str, batch: int) -> str | None:
    """The first of some directories that has files of a micro-batch."""
    return next((str(one) for one in directories if any(one.glob(f"part-{run}-{batch:08d}-*"))), None)


def newest_in(directories: Iterable[Place], run: str) -> int | None:
    """The newest micro-batch of a run that has files in some directories."""
    start = f"part-{run}-"
    names = (file.name for one in directories for file in one.iterdir() if file.name.startswith(start))
    return max((int(number) for name in names if (number := name.removeprefix(start)[:8]).isdecimal()), default=None)


def latest(*numbers: int | None) -> int | None:
    """The largest number that is there."""
    return max((one for one in numbers if one is not None), default=None)


def remove_shown(directories: Sequence[Place], run: str, batch: int) -> None:
    """Remove the files of a micro-batch from some directories, and folders that are empty then."""
    for directory in directories:
        for left in directory.glob(f"part-{run}-{batch:08d}-*"):
            left.unlink()
    for directory in reversed(directories):
        if "=" in directory.name:
            with suppress(OSError):
                directory.rmdir()  # the folder of nothing else


def side_rows(about: Sequence[SideRows | File], staged: Place | str) -> Iterator[SideRows]:
    """Rows aside, those in files too."""
    for one in about:
        match one:
            case File(name=name):
                with io.BufferedReader(cast(io.RawIOBase, open_file(f"{staged}/{name}")), BLOCK) as file:
                    for message in from_frames(file):
                        assert isinstance(message.body, SideRows)
                        yield message.body
            case SideRows():
                yield one


def move(file: Path, to: Place) -> None:
    """Move a whole file to its place, where it becomes visible."""
    take(file, to)


def items_of(plan: Plan, messages: Sequence[Message]) -> Iterator[tuple[int, int, Any, Any]]:
    """End of block, position, key and value of each row that came to the driver."""
    for message in messages:
        if isinstance(message.body, Rows):
            rows = from_rows(plan.layout, message.body.batch)
            places = rows.positions or [0] * len(rows)
            yield from zip(rows.ends, places, rows.keys, rows.values, strict=True)


def rows_of(plan: Plan, messages: Sequence[Message]) -> list[pa.RecordBatch]:
    """The rows that came to the driver, in as few record batches as possible."""
    batches = [message.body.batch for message in messages if isinstance(message.body, Rows)]
    tables: list[pa.RecordBatch] = (
        pa.Table.from_batches(batches, schema_of_rows(plan.layout)).combine_chunks().to_batches()
    )
    return tables


def rows_file(plan: Plan, delivery: Staging, messages: Sequence[Message]) -> list[Path]:
    """A staged file of the rows that came to the driver, if any."""
    whole = rows_of(plan, messages)
    if not whole:
        return []
    path = Path(delivery.directory, f"rows-{uuid.uuid4().hex}")
    path.parent.mkdir(parents=True, exist_ok=True)
    file = delivery.open(str(path))
    for batch in whole:
        file.write(delivery.shown.of(batch))
    file.close()
    return [path]


def staged_rows(delivery: Staging, messages: Sequence[Message]) -> list[Path]:
    """The files of rows that workers have staged."""
    files = [message.body for message in messages if isinstance(message.body, File)]
    return [Path(delivery.directory, file.name) for file in files if file.holds == "rows"]


def refuse_folders(plan: Plan, address: str) -> None:
    """Refuse a sink in folders where there are none. Raises :class:`UsageError` ``TT402``."""
    if plan.sink.partition_by:
        raise UsageError(
            "TT402",
            f"sink {plan.sink.name!r} has partition_by={list(plan.sink.partition_by)!r}, and {address} has no folders",
            fix="give a directory or a Delta table, or leave partition_by out",
        )


def refuse_nested(plan: Plan) -> None:
    """Refuse nested columns in CSV."""
    empty = pa.RecordBatch.from_pylist([], schema_of_rows(plan.layout))
    for field in VisibleColumns(plan.layout, plan.sink).of(empty).schema:
        if pa.types.is_nested(field.type):
            raise RunError(
                "TT207",
                f"sink {plan.sink.name!r}: CSV cannot hold the nested column {field.name!r}",
                fix="write JSON lines or Parquet: declare format=json_lines() at the sink, or name the output *.parquet",
            )


def side_outputs_of(address: str, run: str, late: str | None, rejects: str | None) -> SideOutputs:
    """Of an output that takes rows of the sink only."""
    if late is None or rejects is None:
        raise UsageError(
            "TT402",
            f"{address} takes no late items and no rejects",
            fix="give directories with --late and --rejects",
        )
    return SideOutputs(place_of(late).absolute(), place_of(rejects).absolute(), run)


def placed_rows(plan: Plan, delivery: Staging, messages: Sequence[Message]) -> list[tuple[Path, PurePath]]:
    """The staged files of all rows of a micro-batch, with the folder of each below the output."""
    staged = (*staged_rows(delivery, messages), *rows_file(plan, delivery, messages))
    return [one for path in staged for one in files_in(path)]


def rows_sent(messages: Iterable[Message]) -> int:
    """The number of rows of the sink in the messages of a micro-batch, and in the files that they name."""
    count = 0
    for message in messages:
        match message.body:
            case Rows() as rows:
                count += rows.count
            case File("rows", count=more):
                count += more
            case _:
                pass
    return count


def _below(directory: Place) -> list[Place]:
    return [p for p in directory.iterdir() if p.is_dir()] if directory.is_dir() else []
