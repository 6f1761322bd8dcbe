"""A plan over bags, without Spark: what the tasks of ``transform`` do with the micro-batches of a query, in this process."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import attrs
import pyarrow as pa

from tests.graphs import Case
from tracetypes.check import Checked
from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.batches import to_bytes
from tracetypes.compiler.connectors.fitted_columns import Conversion
from tracetypes.compiler.connectors.source_rows import fitted_rows, taker
from tracetypes.compiler.plan.plan import Plan, SourceLink, links
from tracetypes.compiler.runtime.bags import BagSource, Sieve
from tracetypes.compiler.runtime.messages import Drain, Message, Metrics, SideRows
from tracetypes.compiler.runtime.stage import StageKernel
from tracetypes.compiler.store.output_trace import Answer, Collector
from tracetypes.compiler.wire.messages import decode, encode
from tracetypes.formats import Layout
from tracetypes.interpreter import Arranged, arrange, arrange_parts, interpret, streams_of
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


def in_time_order(checked: Checked, bags: Mapping[str, Sequence[Bag]]) -> dict[str, list[Row]]:
    """The rows of the definition: of all bags, one after the other, each by the times of its rows."""
    placed: dict[str, list[Row]] = {}
    for source in checked.graph.sources:
        read, layout = reader(source).read, checked.layout(source)
        placed[source.name] = []
        for bag in bags[source.name]:
            rows = [read(*(row if layout.keyed else (UNIT, row))) for row in bag]
            placed[source.name] += sorted(rows, key=lambda row: row.time if row.kind == "item" else -(2**62))
    return placed


def defined(checked: Checked, bags: Mapping[str, Sequence[Bag]], *, drain: bool) -> tuple[Trace[Element], dict[str, Arranged]]:
    """What the interpreter says of bags."""
    rows = in_time_order(checked, bags)
    arranged = {source.name: arrange(source, rows[source.name], drain=drain) for source in checked.graph.sources}
    (trace,) = interpret(checked, streams_of(arranged), complete=drain).values()
    return trace, arranged


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
            out: list[Message] = []
            for group in range(self.plan.key_groups):
                mine = [self.through_bytes(one) for one in arriving if one.group == group]
                self.chance.shuffle(mine)
                if self.static:
                    mine.append(Message(group, Drain()))
                out += self.closed(stage, group, mine) if mine else []
            sent[stage.number] = out
        return sent[self.plan.stages[-1].number]

    def read(self, stage: Any, link: SourceLink, rows: Bag, part: int) -> list[Message]:
        layout, leaf = link.leaf.layout, link.leaf
        kernel = BagSource(stage, link, self.plan.key_groups)
        kernel.counts, kernel.shows = not self.static, self.shows
        take = taker(leaf, reader(leaf.source).read)
        table = table_of(layout, rows)
        fitted = fitted_rows(layout, table.columns, Conversion(None), "a test")
        kernel.now = self.now
        return list(kernel.bag((0, part + 7, 0), take(fitted) if rows else (), part + 7))

    def closed(self, stage: Any, group: int, messages: list[Message]) -> list[Message]:
        kernel, before = StageKernel(self.plan, stage, bags=True), self.states.get((stage.number, group))
        state, memory = (kernel.fresh(), {}) if before is None else loads(before)
        arrived = list(Sieve(stage, self.idle).messages(state, memory, group, messages))
        out = list(kernel.step(state, group, arrived))
        self.states[stage.number, group] = dumps((state, memory))
        return out

    @staticmethod
    def through_bytes(message: Message) -> Message:
        row = encode(message)
        return decode(row.group, row.kind, row.header, row.payload)


def part_of(row: Any, parts: int) -> int:
    """The part of its source that a row belongs to."""
    return crc32(repr(row).encode()) % max(parts, 1)


def in_parts(checked: Checked, source: Source, bags: Sequence[Bag], parts: int) -> list[list[Row]]:
    """The rows of the definition, of each part. A part that comes later begins with a heartbeat: of the last marker that all
    others have sent by then."""
    how, read, layout = source.markers, reader(source).read, checked.layout(source)
    assert isinstance(how, EventTime)
    made: dict[int, list[Row]] = {}
    newest: dict[int, int] = {}
    first: dict[int, int] = {}
    for bag in bags:
        rows: dict[int, list[Row]] = {}
        for row in bag:
            rows.setdefault(part_of(row, parts), []).append(read(*(row if layout.keyed else (UNIT, row))))
        tops = [how.frontier(newest[part]) if part in newest else None for part in made]
        reached = [top for part, top in zip(made, tops, strict=True) if top is not None and top >= first[part]]
        for part in sorted(rows):
            if part not in made:
                made[part] = []
                if tops and len(reached) == len(tops):
                    beat = min(reached)
                    made[part].append(Row("marker", time=beat))
                    newest[part], first[part] = beat + how.delay, beat
        for part, some in rows.items():
            some.sort(key=lambda row: row.time if row.kind == "item" else -(2**62))
            closed = how.frontier(newest[part]) if part in newest else None
            made[part] += some
            for one in (row for row in some if row.kind == "item"):
                newest[part] = max(newest.get(part, one.time), one.time)
                if closed is None or how.block(one.time) > closed:
                    first[part] = min(first.get(part, how.block(one.time)), how.block(one.time))
    return list(made.values()) or [[]]


def defined_in_parts(
    checked: Checked, bags: Mapping[str, Sequence[Bag]], parts: int
) -> tuple[Trace[Element], dict[str, Arranged]]:
    """What the interpreter says of bags whose sources are in parts, as long as they go on."""
    arranged = {
        source.name: arrange_parts(
            source, in_parts(checked, source, bags[source.name], parts), drain=False, ordered=checked.types[source.id].ordered
        )
        for source in checked.graph.sources
    }
    (trace,) = interpret(checked, streams_of(arranged), complete=False).values()
    return trace, arranged


def cut(rows: Bag, chance: random.Random, most: int = 4) -> list[Bag]:
    """Rows as bags, some of them empty."""
    at = sorted(chance.randint(0, len(rows)) for _ in range(chance.randint(0, most - 1)))
    return [rows[a:b] for a, b in zip([0, *at], [*at, len(rows)], strict=True)]


def is_possible(case: Case) -> bool:
    """Whether the sources of a case can be DataFrames."""
    return all(
        isinstance(how := source.markers, EventTime)
        and (source.ordered_by is None or callable(source.ordered_by))
        and how.ahead is None
        and how.per is None
        for source in case.checked.graph.sources
    )
