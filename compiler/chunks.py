"""Rows of a source as columns, all the way to the exchange: no Python object a row where no operator asks for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.compiler.columnar import groups_of
from tracetypes.compiler.columns import from_array, to_bytes
from tracetypes.compiler.vector import Undefined, from_arrow
from tracetypes.formats import Row
from tracetypes.markers import EventTime
from tracetypes.records import Integer, Schema, String, stable_hash

__all__ = ["Chunk", "Placed", "hashes", "place", "scatter"]

NEVER = -(2**62)


class Chunk:
    """Adjacent rows of a piece, none of them a reject. ``times``: int64 microseconds. Columns are read when they are asked
    for: ``load(path)`` gives the Arrow array of ``("key", ...)`` or ``("value", field, ...)``; ``row(n)`` gives one of the rows
    as the row path would have it."""

    def __init__(self, times: Any, load: Callable[[Path], Any], row: Callable[[int], Row]) -> None:
        self.times, self.load, self.row = times, load, row
        self.loaded: dict[Path, Any] = {}

    @classmethod
    def of(cls, times: Any, keys: Any, values: Any, row: Callable[[int], Row]) -> Chunk:
        """From whole columns of keys and values."""
        return cls(times, lambda path: inside(keys if path[0] == "key" else values, path[1:]), row)

    def __len__(self) -> int:
        return len(self.times)

    def column(self, path: Path) -> Any:
        """The column of a path, read once."""
        if path not in self.loaded:
            self.loaded[path] = self.load(path)
        return self.loaded[path]


Path: TypeAlias = tuple[str | int, ...]


def inside(column: Any, path: Path) -> Any:
    """What lies inside a column of structs, its nulls included."""
    for name in path:
        column = pc.struct_field(column, [str(name)]) if column.null_count else column.field(str(name))
    return column


@attrs.frozen
class Placed:
    """A chunk with the end of each row's block, its late rows taken out. ``kept``: which rows are left, None for all;
    ``late``: row, end, and marker sent before."""

    chunk: Chunk
    kept: Any
    ends: Any
    at: Any
    late: tuple[tuple[int, int, int], ...]
    newest: int

    def column(self, path: Path) -> Any:
        """The column of a path, without the late rows."""
        whole = self.chunk.column(path)
        return whole if self.kept is None else whole.filter(self.kept)


def place(how: EventTime, chunk: Chunk, newest: int | None) -> Placed:
    """Blocks and late rows of a chunk, exactly as row by row. ``newest``: the newest time before the chunk."""
    times = chunk.times
    ends = (times // how.period + 1) * how.period
    running = np.maximum.accumulate(np.concatenate(([NEVER if newest is None else newest], times)))
    before = running[:-1]
    closed = np.where(before == NEVER, NEVER, (before - how.delay) // how.period * how.period)
    is_late = ends <= closed
    at = np.arange(len(times))
    if not is_late.any():
        return Placed(chunk, None, ends, at, (), int(running[-1]))
    late = tuple((int(n), int(ends[n]), int(closed[n])) for n in np.nonzero(is_late)[0])
    kept = ~is_late
    return Placed(chunk, pa.array(kept), ends[kept], at[kept], late, int(running[-1]))


def hashes(schema: Schema, keys: Any) -> Any:
    """:func:`tracetypes.records.stable_hash` of every key of an Arrow array, as uint64."""
    if isinstance(schema, Integer):
        x = keys.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
    each = stable_hash(schema)
    if isinstance(schema, String):
        encoded = keys.dictionary_encode()
        known = np.array([each(key) for key in encoded.dictionary.to_pylist()], np.uint64)
        return known[encoded.indices.to_numpy(zero_copy_only=False)]
    try:
        groups = groups_of(from_arrow(schema, keys), len(keys))
    except Undefined:
        return np.array([each(key) for key in from_array(schema, keys)], np.uint64)
    some = from_array(schema, keys.take(pa.array(groups.first)))
    return np.array([each(key) for key in some], np.uint64)[groups.of_row]


def scatter(key: Schema, keys: Any, columns: Mapping[str, Any], key_groups: int) -> Iterator[tuple[int, bytes]]:
    """Rows by key group, each group as an encoded batch: ``key``, then the other columns."""
    groups = (hashes(key, keys) % np.uint64(key_groups)).astype(np.uint16)
    order = pa.array(np.argsort(groups, kind="stable"))
    batch = pa.RecordBatch.from_arrays([keys, *columns.values()], names=["key", *columns]).take(order)
    starts = np.concatenate(([0], np.cumsum(np.bincount(groups, minlength=key_groups))))
    for group in range(key_groups):
        start, end = int(starts[group]), int(starts[group + 1])
        if end > start:
            yield group, to_bytes(batch.slice(start, end - start))
