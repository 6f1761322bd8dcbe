"""A plan over bags, without Spark: what the tasks of ``transform`` do with the micro-batches of a query, in this process."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any
from zlib import crc32

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tests.graphs import Case
from tracetypes.arrangement import Arranged, arrange, arrange_parts, streams_of
from tracetypes.check import Checked
from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.batches import to_bytes
from tracetypes.compiler.connectors.fitted_columns import Conversion
from tracetypes.compiler.connectors.read_columns import Filled, may_lack, places_read
from tracetypes.compiler.connectors.source_rows import fitted_rows, taker
from tracetypes.compiler.plan.plan import Plan, SourceLink, links
from tracetypes.compiler.runtime.bag_frontier import other_sources
from tracetypes.compiler.runtime.bags import BagSource, Sieve, renumbered
from tracetypes.compiler.runtime.messages import Drain, Message, Metrics, Report, SideRows
from tracetypes.compiler.runtime.stage import StageKernel
from tracetypes.compiler.store.output_trace import Answer, Collector
from tracetypes.compiler.wire.messages import decode, encode
from tracetypes.formats import Layout
from tracetypes.interpreter import interpret
from tracetypes.markers import EventTime
from tracetypes.nodes import Source
from tracetypes.parsing import Row
from tracetypes.records import UNIT
from tracetypes.sources import reader
from tracetypes.trace import Element, Trace

Bag = Sequence[Any]


def table_of(layout: Layout, rows: Bag) -> pa.RecordBatch:
    """Rows of a source as the columns of a DataFrame: pairs where there is a key column. What does not fit raises."""
    pairs = [row if layout.keyed else (None, row) for row in rows]
    columns = [array(layout.key, [key for key, _ in pairs])] if layout.keyed else []
    for name, schema in layout.columns[int(layout.keyed) :]:
        columns.append(array(schema, [getattr(value, name) if layout.opened else value for _, value in pairs]))
    return pa.RecordBatch.from_arrays(columns, names=[name for name, _ in layout.columns])


def fits(layout: Layout, row: Any) -> bool:
    """Whether a DataFrame can hold a row."""
    if layout.keyed and isinstance(row[0], bytes):  # which Arrow takes for text
        return False
    try:
        table = table_of(layout, [row])
        to_bytes(table)
    except Exception:
        return False
    return True


@attrs.frozen
class Placed:
    """A row of a source that is ordered by position, with its place in that order."""

    row: Any
    place: int


def bare(row: Any) -> Any:
    """A row without its place."""
    return row.row if isinstance(row, Placed) else row


@attrs.define
class Defined:
    """What the definition says of bags: which rows are late, by source and block; what the sources make of the others; the trace
    at the sink."""

    late: Counter[tuple[str, int]]
    arranged: dict[str, Arranged]
    trace: Trace[Element]


@attrs.define
class PartOfSource:
    """A source, or a part of it: the rows that are not late, and how far it has come."""

    how: EventTime[Any]
    rows: list[Row] = attrs.Factory(list)
    newest: int | None = None
    first: int | None = None
    places: dict[int, int] = attrs.Factory(dict)
    """Of rows that have one, by their ``id``."""

    def take(self, row: Row, closed: int | None, place: int | None = None) -> bool:
        """Take a row, unless it is late. ``closed``: the frontier before its bag."""
        if place is not None:
            self.places[id(row)] = place
        if row.kind == "item":
            self.newest = row.time if self.newest is None else max(self.newest, row.time)
            block = self.how.block(row.time)
            if closed is not None and block <= closed:
                return False
            self.first = block if self.first is None else min(self.first, block)
        self.rows.append(row)
        return True

    def beat(self, end: int) -> None:
        """A heartbeat: the part has come to this marker."""
        self.rows.append(Row("marker", time=end))
        self.newest, self.first = end + self.how.delay, end

    def reached(self) -> int | None:
        """Its last marker; None before the first one."""
        top = None if self.newest is None else self.how.frontier(self.newest)
        return None if top is None or self.first is None or top < self.first else top

    def in_order(self) -> list[Row]:
        """Rejects, then items and heartbeats by time; those that have a place by their block and place."""

        def order(row: Row) -> tuple[int, int]:
            if row.kind == "reject":
                return -(2**62), 0
            place = self.places.get(id(row))
            return (row.time, int(row.kind == "item")) if place is None else (self.how.block(row.time), place)

        return sorted(self.rows, key=order)


def defined(checked: Checked, bags: Mapping[str, Sequence[Bag]], *, drain: bool, parts: int = 0) -> Defined:
    """What the interpreter says of bags: of the rows that are not late. A row is late if earlier bags closed its block: if that
    ends before the smallest frontier of all sources. ``parts``: of each source, if it has any (:func:`part_of`). A part that
    comes later begins where the others have come to."""
    sources: dict[str, dict[int, PartOfSource]] = {source.name: {} for source in checked.graph.sources}
    late: Counter[tuple[str, int]] = Counter()
    closed: int | None = None
    for at in range(max(map(len, bags.values()))):
        for source in checked.graph.sources:
            how, mine = source.markers, sources[source.name]
            assert isinstance(how, EventTime)
            rows = rows_by_part(checked, source, bags[source.name][at] if at < len(bags[source.name]) else (), parts)
            tops = [part.reached() for part in mine.values()]
            reached = [top for top in tops if top is not None]
            for number in sorted(rows.keys() - mine.keys()):
                mine[number] = PartOfSource(how)
                if tops and len(reached) == len(tops):
                    mine[number].beat(min(reached))
            for number, some in rows.items():
                for row, place in some:
                    if not mine[number].take(row, closed, place):
                        late[source.name, how.block(row.time)] += 1
        ends = [part.reached() for mine in sources.values() for part in mine.values()]
        known = [end for end in ends if end is not None]
        if len(known) == len(ends) and all(sources.values()):
            closed = min(known) if closed is None else max(closed, min(known))
    arranged: dict[str, Arranged] = {}
    for source in checked.graph.sources:
        streams = [part.in_order() for _, part in sorted(sources[source.name].items())] or [[]]
        ordered = checked.types[source.id].ordered
        arranged[source.name] = (
            arrange_parts(source, streams, drain=drain, ordered=ordered) if parts else arrange(source, streams[0], drain=drain)
        )
        assert not arranged[source.name].late
    (trace,) = interpret(checked, streams_of(arranged), complete=drain).values()
    return Defined(late, arranged, trace)


def rows_by_part(checked: Checked, source: Source, bag: Bag, parts: int) -> dict[int, list[tuple[Row, int | None]]]:
    """The rows of a bag as the source reads them, with the place of those that have one."""
    read, layout = reader(source).read, checked.layout(source)
    rows: dict[int, list[tuple[Row, int | None]]] = {}
    for row in bag:
        content = read(*(bare(row) if layout.keyed else (UNIT, bare(row))))
        rows.setdefault(part_of(row, parts), []).append((content, row.place if isinstance(row, Placed) else None))
    return rows


@attrs.define
class Bags:
    """Runs a plan, one micro-batch after the other. Partitions, their order and that of messages are random."""

    plan: Plan
    chance: random.Random
    static: bool = False
    shows: bool = False
    states: dict[tuple[int, int], bytes] = attrs.Factory(dict)
    late: Counter[tuple[str, int]] = attrs.Factory(Counter)
    idle: dict[str, int] = attrs.Factory(dict)
    parts: int = 0
    """Parts of each source, if it has any (:func:`part_of`)."""
    now: int = 0
    left_out: int = 0
    """Columns that did not come to a worker, because nothing reads them."""

    def run(self, bags: Mapping[str, Sequence[Bag]]) -> Answer:
        """The answer to all bags."""
        collector = Collector(self.plan)
        for at in range(max(map(len, bags.values()))):
            self.now = at
            for message in self.step({name: some[at] if at < len(some) else () for name, some in bags.items()}):
                if isinstance(message.body, SideRows) and message.body.holds == "late":
                    batch = message.body.batch
                    for block, count in zip(batch.column("block").to_pylist(), batch.column("count").to_pylist(), strict=True):
                        self.late[message.body.source, block] += count
                elif not isinstance(message.body, Metrics):
                    collector.take(message)
        return collector.answer(self.plan.region.stream)

    def step(self, bag: Mapping[str, Bag]) -> list[Message]:
        """The messages that leave the last stage for a micro-batch."""
        sent: dict[int, list[Message]] = {}
        for stage in self.plan.stages:
            arriving: list[Message] = [m for leaf in stage.region.leaves for m in sent.get(getattr(leaf, "stage", -1), ())]
            for link in links(stage.region):
                if isinstance(link, SourceLink):
                    rows = list(bag[link.leaf.source.name])
                    self.chance.shuffle(rows)
                    cuts = sorted(self.chance.randint(0, len(rows)) for _ in range(self.chance.randint(0, 2)))
                    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
                        for part in range(max(self.parts, 1)):
                            mine = [row for row in rows[start:end] if part_of(row, self.parts) == part]
                            arriving += self.read(stage, link, mine, part)
            if not self.static:
                for reading, link in other_sources(self.plan, stage):
                    arriving += self.reports(reading, link, list(bag[link.leaf.source.name]))
            out: list[Message] = []
            for group in range(self.plan.key_groups):
                mine = [self.through_bytes(one) for one in arriving if one.group == group]
                self.chance.shuffle(mine)
                if self.static:
                    mine.append(Message(group, Drain()))
                out += self.closed(stage, group, mine) if mine else []
            sent[stage.number] = out
        return sent[self.plan.stages[-1].number]

    def reports(self, stage: Any, link: SourceLink, rows: list[Any]) -> list[Message]:
        """How far a source has come."""
        sent: list[Message] = []
        for part in range(max(self.parts, 1)):
            mine = [row for row in rows if part_of(row, self.parts) == part]
            sent += self.read(stage, link, mine, part, reports_only=True)
        assert all(isinstance(message.body, Report) for message in sent)
        return sent

    def read(self, stage: Any, link: SourceLink, rows: Bag, part: int, *, reports_only: bool = False) -> list[Message]:
        layout, leaf = link.leaf.layout, link.leaf
        kernel = BagSource(stage, link, self.plan.key_groups)
        kernel.counts, kernel.shows, kernel.reports_only = not self.static, self.shows and not reports_only, reports_only
        take = taker(leaf, reader(leaf.source).read)
        columns = table_of(layout, list(map(bare, rows))).columns
        if not self.shows and (places := places_read(stage, link)) is not None and not reports_only:
            columns = self.pruned(layout, columns, places)
        fitted = fitted_rows(layout, columns, Conversion(None), "a test")
        kernel.now = self.now
        messages = kernel.bag((0, part + 7, 0), take(fitted) if rows else (), part + 7)
        order = [row.place for row in rows if isinstance(row, Placed)]
        return list(renumbered(messages, pa.array(order, pa.int64())) if order else messages)

    def pruned(self, layout: Layout, columns: list[Any], places: tuple[int, ...]) -> list[Any]:
        """Only the columns that are read come, and whether another one lacks a value."""
        self.left_out += len(columns) - len(places)
        came = [columns[at] for at in places]
        if lacking := [pc.is_null(columns[at]) for at in may_lack(layout, places)]:
            came.append(reduce(pc.or_, lacking))
        names = [str(at) for at in range(len(came))]
        return Filled(layout, places).columns(pa.RecordBatch.from_arrays(came, names=names))

    def closed(self, stage: Any, group: int, messages: list[Message]) -> list[Message]:
        kernel, before = StageKernel(self.plan, stage, bags=True), self.states.get((stage.number, group))
        state, memory = (kernel.fresh(), {}) if before is None else loads(before)
        sieve = Sieve(self.plan, stage, self.idle)
        arrived = list(sieve.messages(state, memory, group, messages))
        out = list(kernel.step(state, group, arrived, None if self.static else sieve.frontier.limit(memory)))
        self.states[stage.number, group] = dumps((state, memory))
        return out

    @staticmethod
    def through_bytes(message: Message) -> Message:
        row = encode(message)
        return decode(row.group, row.kind, row.header, row.payload)


def part_of(row: Any, parts: int) -> int:
    """The part of its source that a row belongs to."""
    return crc32(repr(row).encode()) % max(parts, 1)


def cut(rows: Bag, chance: random.Random, most: int = 4) -> list[Bag]:
    """Rows as bags, some of them empty."""
    at = sorted(chance.randint(0, len(rows)) for _ in range(chance.randint(0, most - 1)))
    return [rows[a:b] for a, b in zip([0, *at], [*at, len(rows)], strict=True)]


def is_possible(case: Case, *, placed: bool = False) -> bool:
    """Whether the sources of a case can be DataFrames. ``placed``: with a column of positions."""
    return all(
        isinstance(how := source.markers, EventTime)
        and (placed or source.ordered_by is None or callable(source.ordered_by))
        and how.ahead is None
        and how.per is None
        for source in case.checked.graph.sources
    )
