"""Rows of the program that are taken as they come: iterables without a length, and Arrow data."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import pyarrow as pa

from tracetypes.compiler.columns.arrow import arrow_type, in_one_piece
from tracetypes.compiler.connectors.arrivals import Arrivals, Part
from tracetypes.compiler.connectors.fitted_columns import Conversion
from tracetypes.compiler.connectors.line_streams import Lines
from tracetypes.compiler.connectors.parquet import check_columns
from tracetypes.compiler.connectors.program_rows import LazyRows, is_arrow, line_of
from tracetypes.compiler.connectors.source_rows import fitted_rows, taker
from tracetypes.compiler.connectors.text import ParsedRows
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.errors import RunError
from tracetypes.formats import Parquet
from tracetypes.records import Schema, UnitValue
from tracetypes.sources import reader

__all__ = ["Columns", "columns_reader", "fitted_table", "iterable_rows", "zone_of_source"]

TOGETHER = 10_000
"""Rows of an iterable that are one part at most."""

AT_ONCE = 1 << 18
"""Rows of Arrow data that are one part at most."""


@attrs.frozen(eq=False)
class Columns:
    """Rows as Arrow columns, by name."""

    table: Any


class _Rows:
    """Rows that were taken, and are no part yet."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.lock = threading.Lock()

    def add(self, line: bytes) -> int:
        """Add a row. Returns how many there are."""
        with self.lock:
            self.lines.append(line)
            return len(self.lines)

    def part(self) -> Part | None:
        """All of them; None if there are none."""
        with self.lock:
            lines, self.lines = self.lines, []
        text = b"".join(lines)
        return Part(Lines(None, text), len(lines), len(text)) if lines else None


def iterable_rows(leaf: FromSource, iterable: LazyRows, readings: int) -> Arrivals:
    """The rows of an iterable, taken in a thread of its own. Its elements are rows, or Arrow data."""

    def unreadable(error: BaseException) -> RunError:
        return RunError(
            "TT208",
            f"source {leaf.source.name!r}: its rows cannot be taken: {type(error).__name__}: {error}",
            fix="see the cause; run again to go on",
        )

    arrivals, rows = Arrivals(readings, unreadable=unreadable), _Rows()
    arrivals.more = rows.part

    def flush() -> bool:
        part = rows.part()
        return arrivals.put(part) if part is not None else not arrivals.closed

    def take() -> None:
        for one in [iterable.rows] if is_arrow(iterable.rows) else iterable.rows:
            if is_arrow(one):
                if not flush():
                    return
                for table in _tables(one):
                    if not arrivals.put(Part(Columns(table), table.num_rows, table.nbytes)):
                        return
                continue
            count = rows.add(line_of(leaf, one).encode())
            if count == 1:
                arrivals.ring()
            if (count >= TOGETHER and not flush()) or arrivals.closed:
                return

    def body() -> None:
        try:
            take()
        finally:
            flush()

    arrivals.start(f"tracetypes rows of {leaf.source.name}", body)
    return arrivals


def _tables(data: Any) -> Iterator[Any]:
    """Arrow data in parts, as tables."""
    if hasattr(data, "__arrow_c_array__"):
        data = pa.Table.from_batches([pa.record_batch(data)])
    source = pa.RecordBatchReader.from_stream(data)
    for batch in source:
        for at in range(0, batch.num_rows, AT_ONCE):
            yield pa.Table.from_batches([batch.slice(at, AT_ONCE)])


def _together(tables: Sequence[Any]) -> Iterator[Any]:
    """Tables that follow each other and have the same columns as one, up to a number of rows: a small one costs as much as a
    large one."""
    start = rows = 0
    for at, table in enumerate(tables):
        if rows and (rows + table.num_rows > AT_ONCE or not table.schema.equals(tables[start].schema)):
            yield pa.concat_tables(tables[start:at])
            start, rows = at, 0
        rows += table.num_rows
    if start < len(tables):
        yield pa.concat_tables(tables[start:])


def columns_reader(leaf: FromSource, verifier: Verifier | None) -> Callable[[Sequence[Part]], Iterator[TakenRow | Chunk]]:
    """Reads parts that are :class:`Columns`."""
    take = taker(leaf, reader(leaf.source).read, verifier)
    where = f"source {leaf.source.name!r}: a table of it"

    def rows(parts: Sequence[Part]) -> Iterator[TakenRow | Chunk]:
        for table in _together([part.body.table for part in parts]):
            check_columns(leaf.layout, table.schema, lambda _: zone_of_source(leaf), where)
            yield from take(fitted_table(leaf, table, where))

    return rows


def zone_of_source(leaf: FromSource) -> str | None:
    """The zone that a source declares for times without one."""
    return leaf.source.format.zone if isinstance(leaf.source.format, Parquet) else None


def fitted_table(leaf: FromSource, table: Any, where: str) -> ParsedRows:
    """A table as columns of the layout of a source, which :func:`check_columns` has accepted."""

    def column(name: str, schema: Schema) -> Any:
        if isinstance(schema, UnitValue) or name not in table.column_names:
            return pa.nulls(table.num_rows, arrow_type(schema))
        return in_one_piece(table.column(name))

    columns = [column(name, schema) for name, schema in leaf.layout.columns]
    return fitted_rows(leaf.layout, columns, Conversion(zone_of_source(leaf), leaf.layout.truncated), where)
