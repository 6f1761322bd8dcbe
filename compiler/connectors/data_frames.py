"""Data frames of the program as inputs: Arrow tables, DataFrames of pandas and Polars, whatever has columns and a length.

A frame can be read as often as need be, so it needs no place in the checkpoint but its digest: a hash of its rows. An offset
``{"frame": "9f..", "row": 17, "rows": 40, "before": 100}`` lies behind the first 17 of its 40 rows; frames that the run has taken
before had 100 rows. A run that goes on with the same rows goes on behind the 17th. Once it has taken all 40 rows, it takes
another frame as new rows. Before that, another frame is refused, because 23 rows would be lost.
"""

from __future__ import annotations

import hashlib
import sys
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tracetypes.compiler.connectors.iterables import fitted_table, zone_of_source
from tracetypes.compiler.connectors.parquet import check_columns
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.connectors import Offset
from tracetypes.errors import RunError, UsageError

__all__ = ["DataFrameInput", "DataFrameSplits", "columns_of_frame"]

MOST: Final = 1 << 22
"""Rows of an epoch: they bound its memory, and what is done again after a crash."""

LARGEST: Final = 1 << 18
"""Rows of a split."""

SMALLEST: Final = 1 << 14
"""Rows below which a split costs more than another worker saves."""

SPLITS: Final = 16
"""How many an epoch has at least, unless they are too small."""

HASHED: Final = 1 << 16
"""Rows that are hashed together."""


class DataFrameInput:
    """The rows of a frame: the columns that a source needs. Raises :class:`UsageError` ``TT402`` for what has no columns, and
    :class:`RunError` ``TT203`` for columns that do not fit."""

    def __init__(self, leaf: FromSource, data: Any) -> None:
        self.leaf, self.name = leaf, leaf.source.name
        self.where = f"the frame of source {self.name!r}"
        table = columns_of_frame(leaf, data, self.where)
        check_columns(leaf.layout, table.schema, lambda _: zone_of_source(leaf), self.where)
        mine = table.select([name for name, _ in leaf.layout.columns if table.column_names.count(name) == 1])
        self.table = mine.cast(pa.schema([field.with_type(without_views(field.type)) for field in mine.schema]))

    @cached_property
    def digest(self) -> str:
        """A hash of the rows as the source reads them. So it does not depend on the type that a column has, which is another one
        in each package and in each of its versions, nor on how Arrow has the rows in pieces."""
        names = [name for name, _ in self.leaf.layout.columns if name in self.table.column_names]
        hashed = hashlib.sha256(f"{self.table.num_rows} {names}".encode())
        every = pa.array(np.arange(min(self.table.num_rows, HASHED)))
        for start in range(0, self.table.num_rows, HASHED):
            rows = fitted_table(self.leaf, self.table.slice(start, HASHED), self.where)
            for at, array in enumerate(rows.columns):
                # a copy has nothing of what lies below a null or beside a slice
                hashed.update(pa.record_batch([array.take(every[: len(array)])], [""]).serialize())
                if (misfits := rows.misfits(at)) is not None:
                    hashed.update(str([(row, misfits.shown(row)) for row in misfits.rows]).encode())
        return hashed.hexdigest()[:32]

    def splits(self) -> DataFrameSplits:
        """The splits of the frame."""
        return DataFrameSplits(self.name, self.digest, self.table.num_rows)


def without_views(kind: Any) -> Any:
    """An Arrow type with offsets instead of views, which few of Arrow's functions take. Polars gives views."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, without_views(kind.value_type), kind.ordered)
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(without_views(part.type)) for part in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(without_views(kind.value_type), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = without_views(kind.value_type)
        return pa.list_(inner) if pa.types.is_list(kind) else pa.large_list(inner)
    return kind


class DataFrameSplits:
    """Splits of a frame. A split is the number of its first row in the run, and the ends of its rows in the frame."""

    def __init__(self, source: str, digest: str, rows: int) -> None:
        self.source, self.digest, self.rows = source, digest, rows

    def begin(self) -> Offset:
        """Before the first row."""
        return {"frame": "", "row": 0, "rows": 0, "before": 0}

    def end(self, since: Offset) -> Offset:
        """The end of the next epoch. Raises :class:`RunError` ``TT218`` if rows of another frame are left."""
        here = self._here(since)
        if here["row"] == self.rows:
            return since
        return {**here, "row": min(self.rows, here["row"] + MOST)}

    def splits(self, since: Offset, until: Offset) -> list[tuple[int, int, int]]:
        """The splits between two offsets. Raises :class:`RunError` ``TT218`` if they are of another frame."""
        if since == until:
            return []
        if until["frame"] != self.digest:
            raise self._another(since if since["frame"] == until["frame"] else {**until, "row": 0})
        start, end = self._here(since)["row"], until["row"]
        size = min(LARGEST, max(SMALLEST, -(-(end - start) // SPLITS)))
        return [(until["before"] + at, at, min(end, at + size)) for at in range(start, end, size)]

    def _here(self, since: Offset) -> Offset:
        """An offset in this frame."""
        if since["frame"] == self.digest:
            return since
        if since["row"] < since["rows"]:
            raise self._another(since)
        return {"frame": self.digest, "row": 0, "rows": self.rows, "before": since["before"] + since["rows"]}

    def _another(self, since: Offset) -> RunError:
        return RunError(
            "TT218",
            f"source {self.source!r}: the run has taken {since['row']:,} of the {since['rows']:,} rows of its frame, and gets "
            "other rows now",
            fix="give it the same rows, or start anew with another --checkpoint and output",
        )


def columns_of_frame(leaf: FromSource, data: Any, where: str) -> Any:
    """A frame as a table. Raises :class:`UsageError` ``TT402``, and :class:`RunError` ``TT203`` if a column is missing."""
    is_pandas = _is_frame(data, "pandas")
    if is_pandas or _is_frame(data, "polars"):
        data = _columns_read(leaf, data, where)
    try:
        if isinstance(data, pa.Table):
            return data
        if is_pandas:
            return pa.Table.from_pandas(data, preserve_index=False)
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data).read_all()
        return pa.Table.from_batches([pa.record_batch(data)])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        kind = type(data)
        why = "; ".join(map(str, error.args))
        raise UsageError(
            "TT402",
            f"the input of source {leaf.source.name!r} is a {kind.__module__.partition('.')[0]}.{kind.__name__}, which has no "
            f"columns of Arrow: {why}",
            fix="give a table or a DataFrame whose columns are the fields of the record, each with values of one type",
        ) from error


def _columns_read(leaf: FromSource, frame: Any, where: str) -> Any:
    """A DataFrame with those columns only that the source reads: others may have what Arrow has not."""
    names, labels = [name for name, _ in leaf.layout.columns], list(frame.columns)
    for level in frame.index.names if _is_frame(frame, "pandas") else ():
        if level in names and level not in labels:
            fix = "give what its reset_index() returns"
            raise UsageError("TT402", f"{where} has {level!r} as its index, which is no column", fix=fix)
    check_columns(leaf.layout, pa.schema([(str(label), pa.null()) for label in labels]), lambda _: None, where)
    return frame[[name for name in names if name in labels]]


def _is_frame(data: Any, package: str) -> bool:
    """Whether it is a DataFrame of a package, which need not be installed."""
    frame = getattr(sys.modules.get(package), "DataFrame", None)
    return frame is not None and isinstance(data, frame)
