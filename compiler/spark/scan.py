"""How workers read sources: rows of text that Spark has read, columns that Spark has read, or Parquet files themselves.

The workers read Parquet on local disks with Arrow, each column when it is needed; Spark only says which files there
are. That takes less than half of the processor time of Spark's scan and saves the copy of its rows to Python. A row
that turns out to be late can still be shown whole, although the query reads two of its columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain as chained
from itertools import groupby, pairwise
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from tracetypes.compiler.connectors.avro_file_rows import AvroFileReader
from tracetypes.compiler.connectors.file_splits import Reading, Split, taken_splits
from tracetypes.compiler.connectors.file_system import FileState
from tracetypes.compiler.connectors.fitted_columns import Conversion
from tracetypes.compiler.connectors.parquet_row_groups import Table, tables
from tracetypes.compiler.connectors.source_rows import fitted_rows, taker
from tracetypes.compiler.connectors.text_reader import SplitNotes, TextReader
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.plan import FromSource, Plan, SourceLink, Stage
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.clocked_source import source_kernel
from tracetypes.compiler.runtime.messages import Message, Piece, Reached, Report
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.compiler.spark.wire import BEFORE, Task, as_rows, iterator_of, no_collector
from tracetypes.compiler.store.staging import Delivery, deliver
from tracetypes.formats import Csv, JsonLines, TextLines
from tracetypes.parsing import Row
from tracetypes.sources import reader

__all__ = ["AvroScan", "ColumnScan", "End", "LinesScan", "ParquetScan", "Scan", "TextScan", "larger", "runs"]

@attrs.frozen
class End:
    """The beginning of a link, at its source. ``ids``: Spark's number for each key group. ``delivery``: of rows that go
    straight to the sink."""

    plan: Plan
    stage: Stage
    link: SourceLink
    ids: list[int]
    delivery: Delivery


class Scan(Task):
    """``mapInArrow`` of a source: Spark's rows in, messages out."""

    def __init__(self, end: End) -> None:
        self.plan, self.stage, self.link, self.ids = end.plan, end.stage, end.link, end.ids
        self.leaf = end.link.leaf
        self.straight = end.plan.layout if is_straight(end.plan) else None
        self.delivery, self.width = end.delivery, end.plan.width

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return iterator_of(lambda: self.run(batches))

    @cached_property
    def verifier(self) -> Verifier | None:
        """The verifier, made once in each worker."""
        return Verifier.of(self.plan)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All splits of a task."""
        with no_collector():
            yield from as_rows(deliver(self.delivery, self.messages(batches), self.width), self.ids)

    def messages(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Message]:
        """The messages of the splits of a task."""
        read = reader(self.leaf.source).read
        before, follows = _Before(self.leaf), self.leaf.has_clock
        for piece, rows in self.pieces(self.in_order(list(batches)) if follows else batches, read):
            kernel = source_kernel(self.stage, self.link, self.plan.key_groups, self.straight, self.verifier)
            part, parts, idle = self.part_of(piece)
            for message in kernel.piece(piece, rows, before.of(piece, part), part, parts, idle):
                if follows and isinstance(message.body, Report):
                    before.follow(message.body)
                yield message
            yield from self.noted()

    def in_order(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What Spark brings for a source with a clock, all of it in one task, in the order of the source."""
        table = pa.Table.from_batches(batches)
        names = table.column_names[-3:]
        order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
        yield from table.take(order).combine_chunks().to_batches()

    def noted(self) -> Iterator[Message]:
        """The report of the split that was read last."""
        yield from ()

    def part_of(self, piece: Piece) -> tuple[int, int, bool]:
        """The part of the source to which a split belongs, the number of parts, and whether it is idle. All files are
        one part."""
        return 0, 1, False

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[TakenRow | Chunk]]]:
        """The splits with their rows. Each must be read to its end before the next one."""
        raise NotImplementedError


class SplitScan(Scan):
    """Local files, which the workers read themselves. Input: lines of listings, one source split each."""

    now: Reading | None = None
    """What is being read."""

    def messages(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Message]:
        """The messages of the splits of a task, and after each the report of what was read. If a split fails because
        its file has changed, that is the error."""
        try:
            yield from super().messages(batches)
        except Exception:
            if self.now is not None:
                self.now.check()
            raise
        finally:
            self.now = None

    def noted(self) -> Iterator[Message]:
        """The report of the last split."""
        if self.now is not None:
            yield taken_splits(self.leaf.label, [self.now])
        self.now = None

    def in_order(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Lines of listings, by their splits."""
        lines = [line for batch in batches for line in batch.column(0).to_pylist() if line]
        yield pa.record_batch({"value": sorted(lines, key=lambda line: Split.of(line).piece)})

    def readings(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Reading]:
        """The splits of a task."""
        for batch in batches:
            for reading in Reading.of_splits([Split.of(line) for line in batch.column(0).to_pylist() if line]):
                self.now = reading
                yield reading


class TextScan(Scan):
    """Lines. Input columns: ``raw`` (bytes of a line), then ``_time``, ``_file``, ``_start``: the split of the row.
    Rows of a split are adjacent and in order."""

    def __init__(self, end: End, format: Csv | JsonLines | TextLines, header: Sequence[str] | None) -> None:
        super().__init__(end)
        self.format, self.header = format, header

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[TakenRow | Chunk]]]:
        """The splits, from the lines as they come."""
        rows = self.rows(read)

        def lines(parts: Iterator[tuple[Piece, pa.RecordBatch]]) -> Iterator[list[bytes]]:
            return (batch.column(0).to_pylist() for _, batch in parts)

        for piece, parts in groupby(runs(batches), key=lambda run: run[0]):
            yield piece, rows.of_cut_lines(lines(parts), begins=piece[2] == 0)

    def rows(self, read: Callable[[Any, Any], Row]) -> TextReader:
        """What takes lines."""
        return TextReader(self.leaf, self.format, self.header, read, self.verifier)


class LinesScan(SplitScan, TextScan):
    """Text of local files."""

    noticed = SplitNotes()
    """In what is being read."""

    def noted(self) -> Iterator[Message]:
        """The reports of the last split."""
        if self.now is not None:
            split = self.now.split
            yield from self.noticed.messages(self.leaf, split.piece, split.path, self.header)
        yield from super().noted()

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[TakenRow | Chunk]]]:
        """Reads the files."""
        rows = self.rows(read)
        for reading in self.readings(batches):
            self.noticed = SplitNotes()
            yield reading.split.piece, rows.of_splits([(reading, self.noticed)])


class ColumnScan(Scan):
    """Columns that Spark has read. Input columns: those of the layout; with ``native`` the pairs that the first
    operator emits and whether a row must run in Python; then ``_time``, ``_file``, ``_start`` as for text."""

    def __init__(self, end: End, native: bool) -> None:
        super().__init__(end)
        self.native = native

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[TakenRow | Chunk]]]:
        """The splits, from the batches as they come."""
        take, layout = taker(self.leaf, read, self.verifier), self.leaf.layout
        conversion, where = Conversion(None, layout.truncated), f"source {self.leaf.source.name!r}: a file"

        def taken(batch: pa.RecordBatch) -> Iterator[TakenRow | Chunk]:
            columns = [batch.column(at) for at in range(len(layout.columns))]
            for one in take(fitted_rows(layout, columns, conversion, where)):
                if self.native and isinstance(one, Chunk):
                    emitted, undefined = batch.column("_emitted"), batch.column("_undefined")
                    if not pc.any(undefined).as_py():
                        one.emitted = emitted
                yield one

        for piece, parts in groupby(runs(batches), key=lambda run: run[0]):
            yield piece, chained.from_iterable(taken(batch) for _, batch in parts)


class ParquetScan(SplitScan):
    """Parquet files on local disks."""

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[TakenRow | Chunk]]]:
        """Reads the files."""
        take = taker(self.leaf, read, self.verifier)

        def rows(reading: Reading) -> Iterator[TakenRow | Chunk]:
            split = reading.split
            with reading.sampled():
                for table in self.tables(split.path, split.start, split.parts, state=split.state):
                    yield from take(table)

        for reading in self.readings(batches):
            yield reading.split.piece, rows(reading)

    def tables(
        self,
        path: str,
        part: int,
        parts: int,
        constants: Mapping[str, str | None] | None = None,
        state: FileState | None = None,
    ) -> Iterator[Table]:
        """The row groups of a part of a file, with small ones joined. ``constants``: columns that the file lacks and
        their one value, as text. ``state``: as the file must be."""
        return tables(self.leaf, path, part, parts, constants, state)


class AvroScan(SplitScan):
    """Files of Avro on local disks."""

    def pieces(
        self, batches: Iterator[pa.RecordBatch], read: Callable[[Any, Any], Row]
    ) -> Iterator[tuple[Piece, Iterator[TakenRow | Chunk]]]:
        """Reads the files."""
        avro = AvroFileReader(self.leaf, read, self.verifier)

        def rows(reading: Reading) -> Iterator[TakenRow | Chunk]:
            split = reading.split
            with reading.sampled():
                yield from avro.rows(split.path, split.start, split.parts, split.state)

        for reading in self.readings(batches):
            yield reading.split.piece, rows(reading)


def runs(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Piece, pa.RecordBatch]]:
    """Batches, cut where the split changes."""
    for batch in larger(batches):
        count = batch.num_rows
        if count == 0:
            continue
        places = [batch.column(batch.num_columns - 3 + at).to_numpy(zero_copy_only=False) for at in range(3)]
        changes = np.zeros(count, bool)
        for place in places:
            changes[1:] |= place[1:] != place[:-1]
        starts = [0, *np.nonzero(changes)[0].tolist(), count]
        for start, end in pairwise(starts):
            piece = (int(places[0][start]), int(places[1][start]), int(places[2][start]))
            yield piece, batch.slice(start, end - start)


def larger(batches: Iterator[pa.RecordBatch], rows: int = 100_000) -> Iterator[pa.RecordBatch]:
    """Batches joined to about ``rows`` rows: what is done once a batch is done less often."""
    small: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        small.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield from pa.Table.from_batches(small).combine_chunks().to_batches()
            small, count = [], 0
    if small:
        yield from pa.Table.from_batches(small).combine_chunks().to_batches()


class _Before:
    """What the driver knows of a reading of a source before this micro-batch."""

    def __init__(self, leaf: FromSource) -> None:
        reading = leaf.label
        context = TaskContext.get()
        text = context.getLocalProperty(BEFORE) if context is not None else None
        content = json.loads(text) if text else {}
        batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
        current = str(content.get("batch")) == str(batch)
        self.newest: list[Reached] = content.get("newest", {}).get(reading, []) if current else []
        pieces = () if leaf.has_clock else content.get("pieces", {}).get(reading, ())
        self.pieces = {tuple(piece): newest for piece, newest in pieces}
        self.clocks: dict[int, Reached] = {}

    def of(self, piece: Piece, part: int) -> Reached:
        """How far the part of a split had come before it, as far as it is known."""
        if part in self.clocks:
            return self.clocks[part]
        return self.pieces.get(piece, self.newest[part] if part < len(self.newest) else None)

    def follow(self, report: Report) -> None:
        """The next split of a source with a clock begins where this one ended."""
        self.clocks[report.part] = report.reached
