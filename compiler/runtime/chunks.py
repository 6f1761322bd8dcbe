"""Rows of a source as columns, all the way to the exchange. No row becomes a Python object unless an operator needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, cast

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.canonical import stable_hash
from tracetypes.compiler.columns.arrow import from_array
from tracetypes.compiler.columns.column import Columns
from tracetypes.compiler.columns.conversion import from_arrow
from tracetypes.compiler.columns.groups import groups_of
from tracetypes.compiler.columns.runs import NumberRuns, Numbers
from tracetypes.compiler.columns.text_sums import text_sums
from tracetypes.compiler.runtime.flows import Inputs, read_by
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.markers import EventTime
from tracetypes.records import Integer, Schema, String

__all__ = ["Chunk", "LateRows", "PlacedChunk", "hashes", "in_order", "place", "placed_in_bag", "scatter"]

NEVER = -(2**62)

LONG = 1 << 10
"""Rows of a block on average from which on blocks are looked for, and not computed for each row."""


def in_order(times: Any) -> bool:
    """Whether no number is smaller than the one before."""
    return not np.count_nonzero(times[1:] < times[:-1])


class Arrays:
    """Arrow arrays by path, each read once."""

    def __init__(self, load: Callable[[Path], Any]) -> None:
        self.load = load
        self.read: dict[Path, Any] = {}

    def column(self, path: Path) -> Any:
        """The array of a path."""
        if (array := self.read.get(path)) is None:
            array = self.read[path] = self.load(path)
        return array


class Chunk:
    """Adjacent rows of a split, none of them a reject. ``stamps``: int64, their times in units of ``unit`` microseconds;
    ``ordered``: whether they are in order. Columns are read on demand: ``load(path)`` returns the Arrow array of ``("key", ...)``
    or ``("value", field, ...)``."""

    def __init__(self, stamps: Any, load: Callable[[Path], Any], ordered: bool | None = None, unit: int = 1) -> None:
        self.stamps, self.unit = stamps, unit
        self.ordered = in_order(stamps) if ordered is None else ordered
        arrays = Arrays(load)
        self.column = arrays.column
        """The Arrow array of a path."""
        self.inputs = read_by(arrays.column)
        """Columns by path. Neither refers to the chunk: it is large, and must not wait for a look for cycles."""
        self.keys: Columns | None = None
        """The keys, if they are columns already."""
        self.emitted: Any = None
        """What Spark has computed already: for each row the list of pairs that the first operator emits."""

    @classmethod
    def of(cls, times: Any, keys: Any, values: Any) -> Chunk:
        """From whole columns of keys and values."""
        return cls(times, lambda path: inside(keys if path[0] == "key" else values, path[1:]))

    @property
    def times(self) -> Any:
        """int64: the times in microseconds, computed at each call. Rows in order need only ``stamps``."""
        return self.stamps if self.unit == 1 else self.stamps * self.unit

    @property
    def newest(self) -> int:
        """The newest of the times, in microseconds. There are rows."""
        return int(self.stamps[-1] if self.ordered else self.stamps.max()) * self.unit

    def __len__(self) -> int:
        return len(self.stamps)


Path: TypeAlias = tuple[str | int, ...]


def inside(column: Any, path: Path) -> Any:
    """A field of a column of structs, with the nulls of both."""
    for name in path:
        column = pc.struct_field(column, [str(name)]) if column.null_count else column.field(str(name))
    return column


@attrs.frozen(eq=False)
class LateRows:
    """Late rows of a chunk, as columns: their numbers in it, the ends of their blocks, the markers that were sent
    before, and whether they are late by the earlier rows of their own split alone. ``newest``: of their times."""

    rows: Any
    ends: Any
    sent: Any
    own: Any
    newest: int


@attrs.frozen
class PlacedChunk:
    """A chunk without its late rows. ``kept``: the rows that are left, None for all. ``ends``: the end of each row's block;
    :class:`NumberRuns` if all rows are in order and the blocks are long."""

    chunk: Chunk
    kept: Any
    ends: Numbers
    late: LateRows | None
    newest: int

    @property
    def blocks(self) -> list[int]:
        """The end of each block, perhaps several times."""
        if isinstance(self.ends, NumberRuns):
            return cast(list[int], self.ends.present.tolist())
        changes = np.flatnonzero(self.ends[1:] != self.ends[:-1])
        return [*self.ends[changes].tolist(), int(self.ends[-1])]

    def ends_of(self, rows: Any) -> Numbers:
        """The ends of the blocks of these rows (int64, ascending; None for all)."""
        if rows is None:
            return self.ends
        return self.ends.of_rows(rows) if isinstance(self.ends, NumberRuns) else self.ends.take(rows)

    @property
    def at(self) -> Any:
        """int64: the number of each row within the chunk."""
        return np.arange(len(self.chunk)) if self.kept is None else np.flatnonzero(self.kept)

    @property
    def inputs(self) -> Inputs:
        """Columns by path, without the late rows."""
        return self.chunk.inputs if self.kept is None else read_by(self.column)

    def keys(self, schema: Schema) -> Columns:
        """The keys, without those of late rows."""
        if self.kept is None and self.chunk.keys is not None:
            return self.chunk.keys
        return from_arrow(schema, self.column(("key",)))

    def column(self, path: Path) -> Any:
        """The column of a path, without the late rows."""
        whole = self.chunk.column(path)
        return whole if self.kept is None else whole.filter(pa.array(self.kept))

    def only(self, late: LateRows, period: int) -> PlacedChunk:
        """The late rows alone, each with the end of the first block that was open when it came."""
        kept = np.zeros(len(self.chunk), np.bool_)
        kept[late.rows] = True
        return PlacedChunk(self.chunk, kept, late.sent + period, None, self.newest)


def place(how: EventTime, chunk: Chunk, newest: int | None, own: int | None = None) -> PlacedChunk:
    """Blocks and late rows of a chunk, exactly as row by row. ``newest``: the newest time before the chunk. ``own``:
    the newest in its split."""
    start = NEVER if newest is None else newest
    if chunk.ordered and len(chunk) and (first := int(chunk.stamps[0]) * chunk.unit) >= start:
        return PlacedChunk(chunk, None, _ends(how, chunk, first, chunk.newest), None, chunk.newest)
    times = chunk.times
    ends = times // how.period
    ends += 1
    ends *= how.period
    if not len(times):
        return PlacedChunk(chunk, None, ends, None, start)
    before = np.maximum.accumulate(np.concatenate(([start], times)))
    # The block of a row is closed when the frontier is past its end: rounding it down to a marker changes nothing.
    is_late = ends <= before[:-1] - how.delay
    if not is_late.any():
        return PlacedChunk(chunk, None, ends, None, int(before[-1]))
    rows = np.flatnonzero(is_late)
    within = np.maximum.accumulate(np.concatenate(([NEVER if own is None else own], times)))[:-1]
    closed = (before[rows] - how.delay) // how.period * how.period
    late = LateRows(rows, ends[rows], closed, (ends <= within - how.delay)[rows], int(times[rows].max()))
    on_time = ~is_late
    return PlacedChunk(chunk, on_time, ends[on_time], late, int(before[-1]))


def placed_in_bag(how: EventTime, chunk: Chunk) -> PlacedChunk:
    """Blocks of the rows of a chunk of a bag, which has no order: none is late by another. There are rows."""
    newest = chunk.newest
    if chunk.ordered:
        return PlacedChunk(chunk, None, _ends(how, chunk, int(chunk.stamps[0]) * chunk.unit, newest), None, newest)
    ends = chunk.times // how.period
    ends += 1
    ends *= how.period
    return PlacedChunk(chunk, None, ends, None, newest)


def _ends(how: EventTime, chunk: Chunk, first: int, last: int) -> Numbers:
    """The ends of the blocks of a chunk in order; ``first`` and ``last`` are its times."""
    blocks, count = range(first // how.period, last // how.period + 1), len(chunk)
    if len(blocks) == 1:
        return NumberRuns.of_one(blocks.stop * how.period, count)
    if len(blocks) * LONG <= count:
        bounds = (np.arange(len(blocks), dtype=np.int64) + (blocks.start + 1)) * how.period
        return NumberRuns.starting_at(chunk.stamps.searchsorted(-(-bounds[:-1] // chunk.unit)), bounds, count)
    ends = chunk.times // how.period
    ends += 1
    ends *= how.period
    return ends


def hashes(schema: Schema, keys: Any) -> Any:
    """:func:`tracetypes.canonical.stable_hash` of every key of an Arrow array, as uint64."""
    if isinstance(schema, Integer):
        return mixed(keys.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64))
    if isinstance(schema, String):
        if pa.types.is_dictionary(keys.type) and (keys.dictionary.null_count or len(keys.dictionary) > len(keys)):
            keys = keys.dictionary_decode()
        if pa.types.is_dictionary(keys.type):
            return mixed(text_sums(keys.dictionary))[keys.indices.to_numpy(zero_copy_only=False)]
        return mixed(text_sums(keys))
    each = stable_hash(schema)
    try:
        groups = groups_of(from_arrow(schema, keys), len(keys))
    except Undefined:
        return np.array([each(key) for key in from_array(schema, keys)], np.uint64)
    some = from_array(schema, keys.take(pa.array(groups.first)))
    return np.array([each(key) for key in some], np.uint64)[groups.of_row]


def mixed(x: Any) -> Any:
    """:func:`tracetypes.canonical.mix` of many numbers, as uint64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def scatter(key: Schema, keys: Any, columns: Mapping[str, Any], key_groups: int) -> Iterator[tuple[int, Any]]:
    """Rows by key group, each group as a record batch: ``key``, then the other columns. Text may be dictionary-encoded, and stays
    so."""
    if key_groups == 1:
        if len(keys):
            yield 0, pa.RecordBatch.from_arrays([keys, *columns.values()], names=["key", *columns])
        return
    groups = (hashes(key, keys) % np.uint64(key_groups)).astype(np.uint16)
    order = pa.array(np.argsort(groups, kind="stable"))
    placed = [column.take(order) for column in (keys, *columns.values())]
    batch = pa.RecordBatch.from_arrays(placed, names=["key", *columns])
    starts = np.concatenate(([0], np.cumsum(np.bincount(groups, minlength=key_groups))))
    for group in range(key_groups):
        start, end = int(starts[group]), int(starts[group + 1])
        if end > start:
            yield group, batch.slice(start, end - start)
