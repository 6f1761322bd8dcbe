"""The kernel at the beginning of a link. It gives each item of a source split its block, finds late items, and sends
items and reports to the key groups. (``connectors`` and ``tracetypes.sources`` turn rows into items before that.)"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, repeat, takewhile
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.columns.arrow import from_array
from tracetypes.compiler.columns.column import Columns, take
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.compiler.columns.evaluation import Emissions
from tracetypes.compiler.columns.runs import array_of_numbers
from tracetypes.compiler.plan.plan import SourceLink, Stage
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.chunks import Chunk, place
from tracetypes.compiler.runtime.chunks import PlacedChunk as PlacedChunk
from tracetypes.compiler.runtime.flows import Flow, KeyedFlow, fit, fit_key, list_items, through, through_one
from tracetypes.compiler.runtime.jumps import Leaps
from tracetypes.compiler.runtime.messages import NOWHERE, Message, Piece, Reached, Report, time_of
from tracetypes.compiler.runtime.partitioner import Partitioner, Straight
from tracetypes.compiler.runtime.progress import later
from tracetypes.compiler.runtime.side_rows import ENOUGH, SideBuffer, other_unit
from tracetypes.compiler.runtime.stateless import ItemPath, Put, columns_in_bulk, trees_of
from tracetypes.compiler.runtime.verification import Verifier, verified
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.formats import Layout
from tracetypes.markers import BEYOND, EventTime
from tracetypes.nodes import RowPosition
from tracetypes.parsing import Row
from tracetypes.records import UNIT
from tracetypes.rejects import Rejected

__all__ = ["FIRST", "SourceKernel", "TakenRow"]

FIRST = -(2**62)
"""A bound for the block of what comes before the first item of a source with event time."""


_FIRST_PIECES: Final = ((0, 0, 0), (1, 0, 0))
"""Pieces at the beginning of a source: listings are numbered from 1, parts from 0."""

ALL = slice(None)


def _objects_of(keys: Columns, values: Columns, rows: slice, /) -> tuple[list[Any], list[Any]]:
    """A part of columns as Python values."""
    at = np.arange(rows.start, rows.stop)
    return values_of(take(keys, at), len(at)), values_of(take(values, at), len(at))


def _passed_over(key: Any, value: Any, end: int, position: int) -> None:
    """A :data:`Put` for items of a source that is read for its late items or rejects."""


@attrs.define
class TakenRow:
    """A row as it came, for the late and reject outputs. ``show()`` returns it as text."""

    row: Row
    show: Callable[[], str]


class SourceKernel:
    """The beginning of a link: rows of one split in, messages to the stage's key groups out.

    If the link reads late items or rejects, each goes out with a lower bound for the block that was open when it came.
    The stage knows what the other splits of the step have closed before, and raises the bound
    (:meth:`Frontier.placing`).
    """

    def __init__(
        self,
        stage: Stage,
        link: SourceLink,
        key_groups: int,
        straight: Layout | None = None,
        verifier: Verifier | None = None,
    ) -> None:
        """``straight``: the layout of the sink, where its rows need not pass the stage (:func:`is_straight`). ``verifier``: the
        worker's."""
        self.leaf, self.link, self.key_groups = link.leaf, link, key_groups
        self.name, self.aloud = link.leaf.source.name, not link.leaf.quiet
        positioned = stage.restores and isinstance(link.leaf.source.ordered_by, RowPosition)
        self.verifier = verifier
        self.seen = None if verifier is None else verifier.along(link.path)
        sums = None if verifier is None else verifier.sums(stage)
        choosing = None if verifier is None else verifier.choosing(stage)
        watch = None if verifier is None else verifier.combining(stage)
        self.partitioner = (
            Partitioner(stage, link.number, key_groups, positioned, sums, choosing, watch)
            if straight is None
            else Straight(stage, straight)
        )
        self.part, self.parts, self.idle = 0, 1, False
        self.path = ItemPath(link.path, self.partitioner.put, verifier)
        output = link.leaf.source.output
        self.gives_items, self.gives_late, self.gives_rejects = output == "items", output == "late", output == "rejects"
        traced = list(takewhile(lambda mapped: not isinstance(mapped.traced, Opaque), link.path))
        self.trees = [(mapped.traced, mapped.stream) for mapped in traced if not isinstance(mapped.traced, Opaque)]
        python = [at for at, mapped in enumerate(link.path) if isinstance(mapped.traced, Opaque)]
        self.opaque = link.path[len(traced) : python[-1] + 1] if python else ()
        self.behind = trees_of(link.path[len(traced) + len(self.opaque) :]) or []
        self.rest = ItemPath(link.path[len(traced) :], self.partitioner.put, verifier)
        self.whole = len(traced) == len(link.path)
        self.late_schema = (link.leaf.items.key, link.leaf.items.value)

    def piece(
        self,
        piece: Piece,
        rows: Iterable[TakenRow | Chunk],
        before: Reached,
        part: int = 0,
        parts: int = 1,
        idle: bool = False,
    ) -> Iterator[Message]:
        """The messages of one split, in its order. ``before``: how far the source had come before the split.
        ``part`` of ``parts``: if the source is the merge of several parts, the one of the split. ``idle``: the split is empty and
        says that its part is idle."""
        how = self.leaf.source.markers
        self.part, self.parts, self.idle = part, parts, idle
        self.open: int | None = None
        if self.verifier is not None:
            self.verifier.start(*piece, part)
        if isinstance(how, EventTime):
            if before is None and piece in _FIRST_PIECES:
                rows = self._first_looked_at(rows)
            yield from self._by_time(how, piece, rows, before)
        else:
            yield from self._in_band(piece, rows)
        yield from verified(self.verifier)

    def _first_looked_at(self, rows: Iterable[TakenRow | Chunk]) -> Iterator[TakenRow | Chunk]:
        """The rows at the beginning of a source. Raises :class:`RunError` ``TT226`` if the times of the first ones have another
        unit."""
        rest = iter(rows)
        first: list[TakenRow] = []
        for one in rest:
            if isinstance(one, Chunk) or BEYOND not in one.row.reason:
                return chain(first, [one], rest)
            first.append(one)
            if len(first) == ENOUGH:
                raise other_unit(self.name, ENOUGH, first[0].show(), first[0].row.reason)
        return iter(first)

    def elapsed(self, time: int) -> Iterator[Message]:
        """The messages of a split that says how far event time has come with the clock."""
        yield from self._to_all(Report(link=self.link.number, piece=NOWHERE, elapsed=time))

    def _by_time(
        self, how: EventTime, piece: Piece, rows: Iterable[TakenRow | Chunk], before: Reached
    ) -> Iterator[Message]:
        earlier = time_of(before)
        newest, first, count, late, rejects = earlier, None, 0, 0, 0
        latest: int | None = None  # of late items
        closed = None if earlier is None else how.frontier(earlier)
        blocks: set[int] = set()
        put, period, delay = self.path.put if self.gives_items else _passed_over, how.period, how.delay
        aside, leaps = SideBuffer(self.name, self.link.number, piece, self.late_schema), Leaps(how, earlier)
        for one in rows:
            if isinstance(one, Chunk):
                leaps.chunk(newest, one)
                placed = place(how, one, newest, later(first, latest))
                if placed.late is not None:
                    late += len(placed.late.rows)
                    latest = later(latest, placed.late.newest)
                    if self.aloud:
                        yield from aside.chunk(one, placed.late)
                    if self.gives_late:
                        sent_on = placed.only(placed.late, period)
                        self.open = int(sent_on.ends[-1])
                        yield from self._chunk(piece, sent_on, count)
                if len(placed.ends):
                    blocks.update(placed.blocks)
                    top = one.newest
                    first = top if first is None else max(first, top)
                    newest, closed = placed.newest, how.frontier(placed.newest)
                    if self.gives_items:
                        yield from self._chunk(piece, placed, count)
                count += len(one)
                continue
            row = one.row
            count += 1
            time = row.time
            if row.kind == "reject":
                rejects += 1
                if self.aloud:
                    aside.add_reject(one.show(), row.reason)
                    if aside.full:
                        yield from aside.messages()
                if self.gives_rejects:
                    rejected = Rejected.of(self.name, one.show(), row.reason)
                    yield from self._open(piece, UNIT, rejected, FIRST if closed is None else closed + period)
                continue
            if row.kind == "marker":  # a heartbeat: like an empty block that ends there
                end = how.heartbeat(time)
                leaps.beat()
                if closed is None or end > closed:
                    blocks.add(end)
                    beat = time + delay
                    newest = beat if newest is None else max(newest, beat)
                    first = beat if first is None else max(first, beat)
                    closed = how.frontier(newest)
                continue
            end = (time // period + 1) * period
            if newest is None or time > newest or leaps.alone:
                leaps.row(newest, time)
            if closed is not None and end <= closed:
                late += 1
                if self.aloud:
                    own = later(first, latest)
                    self._late(aside, row, end, closed, own=own is not None and end <= how.frontier(own))
                    if aside.full:
                        yield from aside.messages()
                latest = later(latest, time)
                if self.gives_late:
                    yield from self._open(piece, row.key, row.value, closed + period)
                continue
            if newest is None or time > newest:
                newest = time
                closed = (time - delay) // period * period
            if first is None or time > first:
                first = time
            blocks.add(end)
            put(row.key, row.value, end, count)
            if count % limits.FLUSH == 0:
                yield from self.partitioner.messages(piece)
        yield from self._collected(piece)
        yield from aside.messages()
        ends = sorted(blocks)
        leaps.end()
        report = Report(
            link=self.link.number,
            piece=piece,
            part=self.part,
            parts=self.parts,
            idle=self.idle,
            rows=count,
            newest=first,
            first=ends[0] if ends else None,
            before=earlier,
            leaps=leaps.leaps,
            unsure=leaps.unsure,
            last=ends[-1] if ends else None,
            open=self.open,
            late=late if self.aloud else 0,
            rejects=rejects if self.aloud else 0,
        )
        yield from self._to_all(report)

    def _open(self, piece: Piece, key: Any, value: Any, end: int) -> Iterator[Message]:
        """A late item or a reject that is sent on. ``end``: of the first block that is open, as far as the piece tells."""
        self.open = end
        self.path.put(key, value, end, 0)
        if len(self.partitioner.batch) >= limits.FLUSH:
            yield from self.partitioner.messages(piece)

    def _collected(self, piece: Piece) -> Iterable[Message]:
        """The messages of items that came one by one."""
        self.path.flush()
        self.rest.flush()
        return self.partitioner.messages(piece) if self.partitioner.batch else ()

    def _chunk(self, piece: Piece, placed: PlacedChunk, count: int) -> Iterator[Message]:
        """Rows as columns: through the traced operators, and from there as objects where one is opaque."""
        yield from self._collected(piece)
        messages: list[Message] = []
        try:
            self._columns(piece, placed, count, messages)
        except Undefined:  # one of the rows must be run in Python: all of them are
            self.partitioner.start()
            self.rest.drop()
            messages = []
            items = self._items(placed.column(("key",)), placed.column(("value",)))
            self._objects(self.path.put, array_of_numbers(placed.ends), (placed.at + (count + 1)).tolist(), *items)
        yield from messages
        yield from self._collected(piece)

    def _columns(self, piece: Piece, placed: PlacedChunk, count: int, messages: list[Message]) -> None:
        positions = placed.at + (count + 1) if self.partitioner.positioned else None
        if not self.trees:
            messages.extend(self._untraced(piece, placed, positions))
            return
        for flow in self._traced(placed):
            ends = placed.ends_of(flow.rows)
            if self.whole:
                messages.extend(self.partitioner.columns(piece, flow, ends, positions))
            else:
                messages.extend(self._opaque(piece, array_of_numbers(ends), partial(_objects_of, flow.key, flow.value)))

    def _traced(self, placed: PlacedChunk) -> list[KeyedFlow]:
        """What comes out of the traced operators, the first of which Spark may have computed already."""
        flow, emitted = Flow(len(placed.ends), None, placed.inputs), placed.chunk.emitted
        (tree, stream), *rest = self.trees
        if emitted is None:
            flows = through_one(tree, stream, flow, self.seen, 0)
        else:
            native = list_items(stream, emitted if placed.kept is None else emitted.filter(placed.kept))
            if self.seen is not None:
                self.seen(0, flow, [Emissions(native.rows, 0, native.key, native.value)])
            flows = [native]
        return [result for one in flows for result in through(rest, one, self.seen, 1)]

    def _untraced(self, piece: Piece, placed: PlacedChunk, positions: Any) -> Iterable[Message]:
        """Items as they come from the source: no traced operator is first."""
        if not self.whole:
            items = placed.column(("key",)), placed.column(("value",))
            return self._opaque(piece, array_of_numbers(placed.ends), partial(self._items, *items))
        (key, value), stream, count = self.late_schema, self.partitioner.stream, len(placed.ends)
        keys = fit_key(stream.key, placed.keys(key))
        if self.partitioner.monoid is None:
            values = fit(stream.value, from_arrow(value, placed.column(("value",))))
            return self.partitioner.columns(piece, KeyedFlow.of(keys, values, count), placed.ends, positions)
        flow = Flow(count, None, placed.inputs)
        return self.partitioner.aggregates(self.partitioner.monoid, piece, flow, keys, placed.ends)

    def _items(self, keys: Any, values: Any, rows: slice = ALL) -> tuple[list[Any], list[Any]]:
        key, value = self.late_schema
        return from_array(key, keys[rows]), from_array(value, values[rows])

    def _opaque(
        self, piece: Piece, ends: Any, items: Callable[[slice], tuple[list[Any], list[Any]]]
    ) -> Iterator[Message]:
        """Items as objects through the operators up to the last opaque one, a slab at a time: in bulk, or else one by one. Those
        behind take columns again."""
        key, value = self.opaque[-1].stream.key, self.opaque[-1].stream.value
        emissions: list[tuple[Any, Any, Any]] = []
        for at in range(0, len(ends), limits.SLAB):
            slab = slice(at, min(at + limits.SLAB, len(ends)))
            keys, values = items(slab)
            slab_ends = ends[slab]
            counted = bool((slab_ends != slab_ends[0]).any())
            emitted = columns_in_bulk(self.opaque, keys, values, counted=counted, watches=self.verifier)
            if emitted is None:
                self._objects(self.rest.put, slab_ends, repeat(0, len(keys)), keys, values)
                continue
            key_array, value_array, origins = emitted
            flow_ends = np.full(len(key_array), slab_ends[0]) if origins is None else slab_ends[origins]
            emissions.append((key_array, value_array, flow_ends))
        if not any(len(some) for _, _, some in emissions):
            return
        columns = zip(*emissions, strict=True)
        key_column, value_column = (from_arrow(schema, pa.concat_arrays(next(columns))) for schema in (key, value))
        ends = np.concatenate(next(columns))
        whole = KeyedFlow.of(key_column, value_column, len(ends))
        first = len(self.trees) + len(self.opaque)
        for flow in through(self.behind, whole, self.seen, first):
            yield from self.partitioner.columns(piece, flow, ends if flow.rows is None else ends[flow.rows], None)

    def _objects(self, put: Put, ends: Any, positions: Iterable[int], keys: list[Any], values: list[Any]) -> None:
        for key, value, end, position in zip(keys, values, ends.tolist(), positions, strict=True):
            put(key, value, end, position)

    def _in_band(self, piece: Piece, rows: Iterable[TakenRow | Chunk]) -> Iterator[Message]:
        markers: list[int] = []
        counts = [0]
        rejects = 0
        put = self.path.put if self.gives_items else _passed_over
        aside = SideBuffer(self.name, self.link.number, piece, self.late_schema)
        for at, one in enumerate(rows):
            assert isinstance(one, TakenRow)
            row = one.row
            if row.kind == "reject":
                if self.aloud:
                    aside.add_reject(one.show(), row.reason)
                    if aside.full:
                        yield from aside.messages()
                if self.gives_rejects:
                    rejects += 1
                    counts[-1] += 1
                    yield from self._open(piece, UNIT, Rejected.of(self.name, one.show(), row.reason), len(markers))
            elif row.kind == "marker":
                markers.append(row.time)
                counts.append(0)
            else:
                counts[-1] += 1
                put(row.key, row.value, len(markers), at)
        self.path.flush()
        yield from self.partitioner.messages(piece)
        yield from aside.messages()
        yield from self._to_all(
            Report(
                link=self.link.number,
                piece=piece,
                rows=sum(counts) - rejects + len(markers),
                markers=tuple(markers),
                counts=tuple(counts),
                part=self.part,
                parts=self.parts,
                idle=self.idle,
            )
        )

    def _to_all(self, report: Report) -> Iterator[Message]:
        for group in range(1 if isinstance(self.partitioner, Straight) else self.key_groups):
            yield Message(group, report)

    def _late(self, aside: SideBuffer, row: Row, end: int, closed: int, *, own: bool) -> None:
        aside.add_late(row.key, row.value, end, closed, own=own)
