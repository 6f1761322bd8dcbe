"""Items as record batches: in transit between stages, and as the rows of a sink."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.columns.arrow import array, arrow_type, from_array
from tracetypes.formats import Layout
from tracetypes.record_copies import builder
from tracetypes.records import RESERVED, UNIT, Record
from tracetypes.trace import StreamType

__all__ = [
    "END",
    "POSITION",
    "Batch",
    "decode",
    "encode",
    "from_rows",
    "pairs_of_rows",
    "rows",
    "rows_of_columns",
    "schema_of_rows",
]


@attrs.define
class Batch:
    """Items in transit: four columns of equal length. ``ends``: the marker of each item's block (microseconds), or for
    sources with markers in band the number of markers before it in its split. ``positions``: if the order matters."""

    keys: list[Any]
    values: list[Any]
    ends: list[int]
    positions: list[int] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def put(self, key: Any, value: Any, end: int, position: int) -> None:
        """Add an item."""
        self.keys.append(key)
        self.values.append(value)
        self.ends.append(end)
        if self.positions is not None:
            self.positions.append(position)

    def extend(self, more: Batch) -> None:
        """Add the items of another batch, with their positions if this one has positions."""
        self.keys.extend(more.keys)
        self.values.extend(more.values)
        self.ends.extend(more.ends)
        if self.positions is not None:
            assert more.positions is not None
            self.positions.extend(more.positions)


def encode(stream: StreamType, batch: Batch) -> Any:
    """A batch as a record batch."""
    arrays = [array(stream.key, batch.keys), array(stream.value, batch.values), pa.array(batch.ends, pa.int64())]
    names = ["key", "value", "end"]
    if batch.positions is not None:
        arrays.append(pa.array(batch.positions, pa.int64()))
        names.append("position")
    return pa.RecordBatch.from_arrays(arrays, names=names)


def decode(stream: StreamType, table: Any) -> Batch:
    """The inverse of :func:`encode`."""
    columns = [from_array(stream.key, table.column(0)), from_array(stream.value, table.column(1))]
    ends = table.column(2).to_numpy(zero_copy_only=False).tolist()
    positions = table.column(3).to_numpy(zero_copy_only=False).tolist() if table.num_columns > 3 else None
    return Batch(columns[0], columns[1], ends, positions)


def to_bytes(batch: Any) -> bytes:
    """A record batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


# ----------------------------------------------------------------------------------------------- at sinks

END, POSITION = f"{RESERVED}end", f"{RESERVED}position"
"""Columns behind those of a layout while rows are on their way to a sink: end of the block (microseconds), and the place of
an item among those of its key and block (0 where the stream is not ordered)."""


def schema_of_rows(layout: Layout) -> Any:
    """The ``pyarrow.Schema`` of the rows of a sink: the layout's columns, then ``END`` and ``POSITION``."""
    fields = [pa.field(name, arrow_type(schema)) for name, schema in layout.columns]
    return pa.schema([*fields, pa.field(END, pa.int64()), pa.field(POSITION, pa.int64())])


def rows(layout: Layout, batch: Batch) -> Any:
    """The ``pyarrow.RecordBatch`` of a sink's rows."""
    arrays = [array(layout.key, batch.keys)] if layout.keyed else []
    if layout.opened and isinstance(layout.value, Record):
        arrays += [array(inner, [getattr(v, name) for v in batch.values]) for name, inner in layout.value.fields]
    else:
        arrays.append(array(layout.value, batch.values))
    arrays += [pa.array(batch.ends, pa.int64()), pa.array(batch.positions, pa.int64())]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of_rows(layout))


def rows_of_columns(layout: Layout, keys: Any, values: Any, ends: Any, positions: Any = None) -> Any:
    """The rows of a sink for items in columns. ``keys`` and ``values``: Arrow arrays, in which text may be dictionary-encoded.
    ``ends`` and ``positions``: int64, None if the items have no order."""
    arrays = [keys] if layout.keyed else []
    arrays += values.flatten() if layout.opened and isinstance(layout.value, Record) else [values]
    arrays += [pa.array(ends, pa.int64()), pa.array(np.zeros(len(ends), np.int64) if positions is None else positions)]
    fields = [field.with_type(one.type) for field, one in zip(schema_of_rows(layout), arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def pairs_of_rows(layout: Layout, table: Any) -> tuple[Any, Any]:
    """Keys and values of a sink's rows as Arrow arrays. ``table``: a record batch."""
    keys = table.column(0) if layout.keyed else pa.nulls(table.num_rows)
    columns = [table.column(at) for at in range(int(layout.keyed), len(layout.columns))]
    if layout.opened and isinstance(layout.value, Record):
        return keys, pa.StructArray.from_arrays(columns, fields=list(arrow_type(layout.value)))
    return keys, columns[0]


def from_rows(layout: Layout, table: Any) -> Batch:
    """The inverse of :func:`rows`, from a record batch or table."""
    columns = [column.combine_chunks() if hasattr(column, "combine_chunks") else column for column in table.columns]
    count = table.num_rows
    keys = from_array(layout.key, columns.pop(0)) if layout.keyed else [UNIT] * count
    ends, positions = columns[-2].to_pylist(), columns[-1].to_pylist()
    if layout.opened and isinstance(layout.value, Record):
        fields = layout.value.fields
        parts = [from_array(inner, column) for (_, inner), column in zip(fields, columns, strict=False)]
        values = builder(layout.value.cls, tuple(name for name, _ in fields))(parts)
    else:
        values = from_array(layout.value, columns[0])
    return Batch(keys, values, ends, positions)
