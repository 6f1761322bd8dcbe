"""Rows of a source as columns, all the way to the exchange: no Python object a row where no operator asks for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.compiler.columns import from_array, to_bytes
from tracetypes.formats import Row
from tracetypes.markers import EventTime
from tracetypes.records import Integer, Schema, String, stable_hash
from tracetypes.trace import StreamType

__all__ = ["Chunk", "Placed", "hashes", "place", "scatter"]

NEVER = -(2**62)


@attrs.frozen
class Chunk:
    """Adjacent rows of a piece, none of them a reject. ``times``: int64 microseconds; ``keys`` and ``values``: Arrow
    arrays of the source's schemas; ``row(n)``: one of them as the row path would have it."""

    times: Any
    keys: Any
    values: Any
    row: Callable[[int], Row]

    def __len__(self) -> int:
        return len(self.times)


@attrs.frozen
class Placed:
    """A chunk with the end of each row's block, its late rows taken out. ``late``: row, end, and marker sent before."""

    keys: Any
    values: Any
    ends: Any
    at: Any
    late: tuple[tuple[int, int, int], ...]
    newest: int


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
        return Placed(chunk.keys, chunk.values, ends, at, (), int(running[-1]))
    late = tuple((int(n), int(ends[n]), int(closed[n])) for n in np.nonzero(is_late)[0])
    kept = ~is_late
    mask = pa.array(kept)
    return Placed(chunk.keys.filter(mask), chunk.values.filter(mask), ends[kept], at[kept], late, int(running[-1]))


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
    return np.array([each(key) for key in from_array(schema, keys)], np.uint64)


def scatter(stream: StreamType, placed: Placed, key_groups: int, positions: Any) -> Iterator[tuple[int, bytes]]:
    """The rows of a placed chunk by key group, each as an encoded batch."""
    groups = (hashes(stream.key, placed.keys) % np.uint64(key_groups)).astype(np.int64)
    order = np.argsort(groups, kind="stable")
    arrays = [placed.keys, placed.values, pa.array(placed.ends, pa.int64())]
    names = ["key", "value", "end"]
    if positions is not None:
        arrays.append(pa.array(positions, pa.int64()))
        names.append("position")
    sorted_ = [pc.take(array, pa.array(order)) for array in arrays]
    batch = pa.RecordBatch.from_arrays(sorted_, names=names)
    starts = np.concatenate(([0], np.cumsum(np.bincount(groups, minlength=key_groups))))
    for group in range(key_groups):
        start, end = int(starts[group]), int(starts[group + 1])
        if end > start:
            yield group, to_bytes(batch.slice(start, end - start))
