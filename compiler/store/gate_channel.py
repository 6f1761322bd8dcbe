"""A channel behind a gate: what the gate holds lies beside it, on disk.

::

    CHANNEL/held/BATCH-NUMBER.parquet      rows of blocks whose marker was not let through yet, as stages send them
    CHANNEL/held/BATCH-mLEVEL.parquet      many of these files in one
    CHANNEL/gate/BATCH.json                what the gate decided in an epoch: its record
    CHANNEL/gate/BATCH.outside             what the machine was asked for in an epoch, and what it said; it stays
    CHANNEL/gate/BATCH.then                the numbers of the container at the last execution, where the bound needs them

An epoch in which no marker is let through has a record, but no manifest. So readers of the channel have nothing to do, and what
is held takes no memory: it is read again when it goes on. A record appears at once and never changes. An epoch that runs again
finds its record and does not decide again, whatever the machine would say now. Behind the record the manifest appears, with the
lines that the record has.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.columns.batches import END, schema_of_rows
from tracetypes.compiler.gates.kernel import GateKernel, GateLeft, GateState, Passed
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.store.channel import Entry, markers_of, runs_in
from tracetypes.compiler.store.file_channel import ChannelOutput, FileChannel, row_entry
from tracetypes.compiler.store.output_interface import (
    Frontiers,
    Output,
    SideOutputs,
    latest,
    move,
)
from tracetypes.compiler.store.places import Place, on_disk
from tracetypes.compiler.store.small_files import damaged, read_json, read_own, writable, write_json
from tracetypes.compiler.wire.seals import checksum_of_file, seal_bytes, unseal_bytes
from tracetypes.errors import RunError
from tracetypes.results import GateReport
from tracetypes.silence import shown_ranges

__all__ = ["GateChannel", "GateOutput", "last_record", "of_machine", "outside_of"]


MERGED = 32
"""So many files of one level become one of the next."""

TABLE = 1 << 16
"""Rows of a table that is read at once from what is held."""

FILE = 1 << 20
"""Rows from which on what goes on is written into another file. A file is read at once by whoever reads the channel."""


class GateChannel(FileChannel):
    """The directory of a channel behind a gate."""

    def __init__(self, name: str, path: Place) -> None:
        super().__init__(name, path)
        self.disk = on_disk(path)
        self.held, self.gate = self.disk / "held", self.disk / "gate"
        for directory in (self.held, self.gate):
            writable(directory)

    def output(self, plan: Plan, run: str, side_outputs: SideOutputs) -> Output:
        """The output that goes through the gate."""
        self.contents = attrs.evolve(self.contents, run=run)
        return GateOutput(plan, self, side_outputs)


def records(gate: Path) -> list[int]:
    """The epochs whose records lie in a directory, in order."""
    return sorted(int(file.stem) for file in gate.glob("*.json"))


def outside_of(gate: Path) -> dict[tuple[int, str], float]:
    """What a gate was told of the machine, by marker and name. With this a run can be repeated: it decides as it did."""
    files = [(read_json(file) or {"looked": []})["looked"] for file in sorted(gate.glob("*.outside"))]
    return {(marker, name): value for looked in files for marker, name, value in looked}


def of_machine(marker: int, name: str) -> float:
    """The load of this machine: processes that run or wait in the last minute, for each processor."""
    if name != "load":
        raise LookupError(f"nothing is known of the {name!r} of the machine")
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def last_record(gate: Path) -> dict[str, Any] | None:
    """The last record in a directory."""
    numbers = records(gate) if gate.is_dir() else []
    return read_json(gate / f"{numbers[-1]:08d}.json") if numbers else None


@attrs.define(eq=False)
class FilePiece:
    """Rows in a file. ``sum``: its checksum. ``is_new``: whether this process has written it; otherwise the checksum is compared
    before the first row is read."""

    path: Path
    schema: pa.Schema
    first: int
    last: int
    sum: int = attrs.field(default=attrs.Factory(lambda self: checksum_of_file(self.path), takes_self=True))
    is_new: bool = True

    @property
    def level(self) -> int:
        """How often its rows were merged with others."""
        _, _, level = self.path.stem.partition("-m")
        return int(level or 0)

    @classmethod
    def of(cls, path: Path, schema: pa.Schema) -> FilePiece | None:
        """Of a file; None if it has no rows."""
        with pq.ParquetFile(path) as file:
            if not file.metadata.num_rows:
                return None
            parts = _statistics(file.metadata)
            ranges = [one for one in parts if one is not None]
            if len(ranges) == len(parts):
                return cls(path, schema, min(one.min for one in ranges), max(one.max for one in ranges))
            ends = file.read([END]).column(0).to_numpy()
            return cls(path, schema, int(ends.min()), int(ends.max()))

    def ends(self) -> list[int]:
        """The ends of its blocks, each once, in order."""
        ends = {end for table in self._read([END], self.first, self.last) for end in table.column(0).unique().to_pylist()}
        return sorted(ends)

    def tables(self, first: int, last: int) -> Iterator[pa.Table]:
        """The rows, in tables of limited size. Parts of the file without an end from ``first`` to ``last`` are not read."""
        for table in self._read(None, first, last):
            yield table.cast(self.schema)

    def _read(self, columns: list[str] | None, first: int, last: int) -> Iterator[pa.Table]:
        try:
            if not self.is_new and checksum_of_file(self.path) != self.sum:
                raise damaged(self.path, "its checksum differs", "rows that a gate holds")
            self.is_new = True
            with pq.ParquetFile(self.path) as file:
                groups = [
                    at
                    for at, one in enumerate(_statistics(file.metadata))
                    if one is None or (one.min <= last and one.max >= first)
                ]
                for batch in file.iter_batches(TABLE, row_groups=groups, columns=columns, use_threads=False):
                    yield pa.Table.from_batches([batch])
        except (OSError, pa.ArrowException) as error:
            raise RunError(
                "TT208",
                f"what a gate holds cannot be read: {self.path}: {error}",
                fix="do not touch files of a checkpoint; start anew with another --checkpoint",
            ) from error


def _statistics(about: Any) -> list[Any]:
    """The least and the greatest end, by row group; None where the file does not say."""
    parts = [about.row_group(number).column(about.num_columns - 2).statistics for number in range(about.num_row_groups)]
    return [one if one is not None and one.has_min_max else None for one in parts]


@attrs.define(eq=False)
class _Files:
    """Writes rows into files of limited size. ``place``: of the file with a number; ``temporary``: of one
    that is not whole yet."""

    schema: pa.Schema
    place: Callable[[int], Path]
    temporary: Callable[[], Path]
    paths: list[Path]

    def write(self, tables: Iterable[pa.Table]) -> None:
        """Write tables as they come."""
        tables = iter(tables)
        for table in tables:
            temporary, rows = self.temporary(), table.num_rows
            with pq.ParquetWriter(temporary, self.schema) as writer:
                writer.write_table(table)
                while rows < FILE and (more := next(tables, None)) is not None:
                    writer.write_table(more)
                    rows += more.num_rows
            self.paths.append(self.place(len(self.paths)))
            move(temporary, self.paths[-1])


class GateOutput(ChannelOutput):
    """The output that appends to a channel what a gate lets through."""

    channel: GateChannel

    def __init__(self, plan: Plan, channel: GateChannel, side_outputs: SideOutputs) -> None:
        super().__init__(plan, channel, side_outputs)
        self.schema = schema_of_rows(plan.layout)
        self.kernel: GateKernel | None = None
        self.held: list[FilePiece] = []
        self.then: str | None = None

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """Decide about the markers of an epoch, and send what goes on."""
        self.side_outputs.take(messages, batch, frontiers, self.staged)
        record = self._record(batch)
        if record is None:
            try:
                record = self._decide(messages, batch)
            except BaseException:
                self.kernel = None
                raise
        manifest = self.channel.manifests / f"{batch:08d}.jsonl"
        if record["lines"] and not manifest.exists():
            self.send(manifest, record["lines"])
        self._forget(batch, record)
        self.tidy()

    notes_each = True

    @property
    def newest(self) -> int | None:
        """By the names of records."""
        return latest(*records(self.channel.gate), super().newest)

    @property
    def gate(self) -> GateReport | None:
        """What the gate did so far."""
        if self.kernel is None:
            return None
        state = self.kernel.state
        return GateReport(
            bound=str(self.kernel.gate.bound), markers=state.markers, executions=state.executions, held=state.held
        )

    def visible(self, batch: int) -> str | None:
        """The gate, if it has decided about the epoch."""
        return super().visible(batch) if self._record(batch) is None else f"gate {self.channel.path.name}"

    def tidy(self) -> None:
        """Remove the files of failed attempts."""
        if self.kernel is None:
            record = last_record(self.channel.gate)
            held = _names(record) if record is not None else set()
            for file in self.channel.held.iterdir():
                if file.name not in held:
                    file.unlink()
        super().tidy()

    # ---------------------------------------------------------------------------------------------------- epochs

    def _record(self, batch: int) -> dict[str, Any] | None:
        return read_own(self.channel.gate / f"{batch:08d}.json", self.side_outputs.run)

    def _decide(self, messages: Sequence[Message], batch: int) -> dict[str, Any]:
        """Decide, and write the record."""
        kernel = self.kernel = self.kernel or self._resume(batch)
        entry, executed = markers_of(self.plan, messages, batch), kernel.state.execution
        passed = kernel.step(self.held, self._pieces(messages, batch), runs_in(entry), complete=entry["complete"])
        lines: list[dict[str, Any]] = []
        if passed.markers or entry["complete"]:
            shown = shown_ranges(passed.markers.ranges)
            lines = [entry | {"markers": shown}, *self._files_of(passed, batch)]
        if kernel.state.execution != executed and kernel.container.remembers:
            self.then = f"{batch:08d}.then"
            then = bytes(dumps(kernel.container.at_execution()))
            _write(self.channel.gate / self.then, seal_bytes(then, f"{self.then} of {self.side_outputs.run}"))
        self.held = self._merge(passed.rest, batch)
        held = [[one.path.name, one.first, one.last, one.sum] for one in self.held]
        if kernel.looked:
            looked = [[marker, name, value] for (marker, name), value in kernel.looked.items()]
            write_json(self.channel.gate / f"{batch:08d}.outside", {"looked": looked})
        state, run = attrs.asdict(kernel.state), self.side_outputs.run
        record = {"run": run, "state": state, "then": self.then, "held": held, "lines": lines}
        write_json(self.channel.gate / f"{batch:08d}.json", record)
        return record

    def _resume(self, batch: int) -> GateKernel:
        """A kernel that goes on where the last epoch ended."""
        gate = self.plan.gate
        assert gate is not None
        kernel = GateKernel(gate, self.plan.layout, ordered=self.plan.edge.ordered, outside=of_machine)
        self.held, self.then = [], None
        record = next((self._record(number) for number in reversed(records(self.channel.gate)) if number < batch), None)
        if record is not None:
            self.held = [
                FilePiece(self.channel.held / name, self.schema, first, last, sum_, is_new=False)
                for name, first, last, sum_ in record["held"]
            ]
            self.then = record["then"]
            then = None if self.then is None else self._at_execution(self.then)
            kernel.go_on(GateLeft(GateState(**record["state"]), then), self.held)
        return kernel

    def _at_execution(self, name: str) -> Any:
        """What a container kept of the last execution. Raises :class:`RunError` ``TT225``."""
        path = self.channel.gate / name
        try:
            return loads(unseal_bytes(path.read_bytes(), f"{name} of {self.side_outputs.run}"))
        except (OSError, ValueError) as error:
            raise damaged(path, error, "what a gate knows of its last execution") from error

    def _pieces(self, messages: Sequence[Message], batch: int) -> list[FilePiece]:
        """The rows of an epoch."""
        pieces: list[FilePiece] = []
        for number, file in enumerate(map(on_disk, self.rows_of(messages))):
            to = self.channel.held / f"{batch:08d}-{number:04d}.parquet"
            move(file, to)
            piece = FilePiece.of(to, self.schema)
            if piece is not None:
                pieces.append(piece)
        return pieces

    def _files_of(self, passed: Passed[FilePiece], batch: int) -> list[Entry]:
        """The entries of files of what goes on, in the place of rows of the channel."""
        files: list[Path] = []
        for one in passed.whole:
            files.append(self._place(batch, len(files)))
            move(one.path, files[-1])
        _Files(self.schema, partial(self._place, batch), partial(self._temporary, "passed"), files).write(passed.rows)
        sums = [*(one.sum for one in passed.whole), *map(checksum_of_file, files[len(passed.whole) :])]
        return [row_entry(file, sum_) for file, sum_ in zip(files, sums, strict=True)]

    def _temporary(self, what: str) -> Path:
        """A place for a file that is not whole yet."""
        staged = self.channel.disk / "staged"
        staged.mkdir(parents=True, exist_ok=True)
        return staged / f"{what}-{uuid.uuid4().hex}"

    def _merge(self, pieces: Sequence[FilePiece], batch: int) -> list[FilePiece]:
        """What is held, in few files: so many of one level become one of the next. So a row is written a few times at most,
        however long the gate is closed."""
        pieces, level = list(pieces), 0
        while len(some := [one for one in pieces if one.level == level]) >= MERGED:
            level += 1
            temporary, to = self._temporary("held"), self.channel.held / f"{batch:08d}-m{level}.parquet"
            with pq.ParquetWriter(temporary, self.schema) as writer:
                for one in some:
                    for table in one.tables(one.first, one.last):
                        writer.write_table(table)
            move(temporary, to)
            whole = FilePiece(to, self.schema, min(one.first for one in some), max(one.last for one in some))
            pieces = [*(one for one in pieces if one not in some), whole]
        return pieces

    def _place(self, batch: int, number: int) -> Path:
        return on_disk(self.channel.rows) / f"{batch:08d}-{number:04d}.parquet"

    def _forget(self, batch: int, record: dict[str, Any]) -> None:
        """Remove what no epoch needs any more."""
        for number in records(self.channel.gate):
            if number < batch:
                (self.channel.gate / f"{number:08d}.json").unlink()
        for file in self.channel.gate.glob("*.then"):
            if file.name != record["then"]:
                file.unlink()
        held = _names(record)
        for file in self.channel.held.iterdir():
            if file.name not in held:
                file.unlink()


def _names(record: Mapping[str, Any]) -> set[str]:
    """The files that a record holds."""
    return {name for name, *_ in record["held"]}


def _write(path: Path, content: bytes) -> None:
    """Write a file so that it exists whole or not at all."""
    temporary = path.with_name(f".{path.name}")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
