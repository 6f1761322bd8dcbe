"""What Spark's Python workers run of a flow inside a query that is not ours (:mod:`.transform`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tracetypes.canonical import stable_hash
from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.columns.batches import schema_of_rows
from tracetypes.compiler.columns.coded_arrays import without_dictionaries
from tracetypes.compiler.connectors.fitted_columns import Conversion
from tracetypes.compiler.connectors.read_columns import Filled
from tracetypes.compiler.connectors.sink_files import VisibleColumns
from tracetypes.compiler.connectors.source_rows import fitted_rows, taker
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.plan import Plan, SourceLink, Stage
from tracetypes.compiler.runtime.bag_frontier import Memory
from tracetypes.compiler.runtime.bags import BagSource, Sieve, renumbered
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.messages import (
    Difference,
    Drain,
    Message,
    Metrics,
    Rows,
    SideRows,
    StageProgress,
    Verified,
)
from tracetypes.compiler.runtime.side_rows import reasons, texts
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.runtime.stage import StageKernel
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.compiler.spark.scan import larger
from tracetypes.compiler.spark.tasks import KeyedTask, decoded
from tracetypes.compiler.spark.wire import Task, as_rows, iterator_of, no_collector, result_of
from tracetypes.compiler.store.staging import SEND
from tracetypes.compiler.wire.messages import decode
from tracetypes.errors import RunError
from tracetypes.formats import Layout
from tracetypes.nodes import Sink
from tracetypes.records import String
from tracetypes.sources import reader

__all__ = ["OUTCOME", "BagScan", "BagTask", "StraightScan", "Unpacked", "judged", "schema_of_sink"]

OUTCOME: Final = {
    "_outcome": pa.string(),
    "_source": pa.string(),
    "_reason": pa.string(),
    "_row": pa.string(),
    "_block": pa.timestamp("us", "UTC"),
    "_count": pa.int64(),
}
"""Columns behind those of a sink: ``row``, ``late`` or ``reject``; of the last two the source, the reason, the row as text, the
end of the block of late rows, and how many rows they are."""


def judged(messages: Iterator[Any]) -> Iterator[Any]:
    """Messages. A traced operator that differs from its own Python stops the query: it cannot be begun anew with another plan."""
    try:
        yield from messages
    except Difference as one:
        raise RunError(
            "TT240",
            f"{one.name} of {one.arguments} is {one.traced} as columns, and {one.python} in Python",
            fix="let the operator depend on its fields only; otherwise report it, and run the flow with run()",
        ) from None


class BagScan(Task):
    """``mapInArrow`` of a source: columns ``_0``, ``_1``, ... of the layout in, messages to key groups out."""

    def __init__(
        self,
        plan: Plan,
        stage: Stage,
        link: SourceLink,
        ids: Sequence[int],
        *,
        counts: bool,
        shows: bool,
        reports_only: bool = False,
        marks: bool = False,
        places: bool = False,
        filled: Filled | None = None,
    ) -> None:
        """``counts``, ``shows`` and ``reports_only`` as of :class:`BagSource`. ``marks``: behind the columns of the layout is the
        name of the part of each row, and when the micro-batch was planned (microseconds). ``places``: there is the place of each
        row in the order of the source, too. ``filled``: not all columns of the layout come."""
        self.reports_only, self.marks, self.places, self.filled = reports_only, marks, places, filled
        self.plan, self.stage, self.link, self.ids, self.counts, self.shows = plan, stage, link, list(ids), counts, shows
        self.straight = plan.layout if is_straight(plan) else None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return iterator_of(lambda: self.run(batches))

    @cached_property
    def verifier(self) -> Verifier | None:
        """The verifier, made once in each worker. Another reading is compared already, where this one makes reports only."""
        return None if self.reports_only else Verifier.of(self.plan)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One partition."""
        with no_collector():
            yield from as_rows(self.messages(batches), self.ids)

    def messages(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Message]:
        """The messages of a partition."""
        kernel = BagSource(self.stage, self.link, self.plan.key_groups, self.straight, self.verifier)
        kernel.counts, kernel.shows, kernel.reports_only = self.counts, self.shows, self.reports_only
        if not (self.marks or self.places):
            yield from judged(kernel.bag((0, 0, 0), self.rows(batches)))
            return
        for batch in larger(batches):
            if not batch.num_rows:
                continue
            if self.marks:
                kernel.now = batch.column(batch.num_columns - 1)[0].as_py()
            for part, some in _by_part(batch) if self.marks else [(0, batch)]:
                messages = judged(kernel.bag((0, part, 0), self.rows(iter([some])), part))
                yield from renumbered(messages, self.places_of(some)) if self.places else messages

    def places_of(self, batch: pa.RecordBatch) -> Any:
        """The places of rows in the order of the source. Raises :class:`RunError` ``TT203`` if a row has none."""
        places = batch.column("_place")
        if places.null_count:
            raise RunError(
                "TT203",
                f"source {self.link.leaf.source.name!r}: a row of the DataFrame has no position",
                fix="filter such rows, or name another column in position=",
            )
        return places

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[TakenRow | Chunk]:
        """The rows, as columns if possible."""
        leaf = self.link.leaf
        take = taker(leaf, reader(leaf.source).read, self.verifier)
        conversion, where = Conversion(None, leaf.layout.truncated), f"source {leaf.source.name!r}: the DataFrame"
        for batch in larger(batches):
            if batch.num_rows:
                filled = self.filled
                columns = batch.columns[: len(leaf.layout.columns)] if filled is None else filled.columns(batch)
                yield from take(fitted_rows(leaf.layout, columns, conversion, where))


def _by_part(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows by the part of the source from which they are: a number for each text in the column before the last one."""
    names = batch.column(batch.num_columns - 2)
    for name in pc.unique(names).to_pylist():
        mine = pc.is_null(names) if name is None else pc.equal(names, name)
        number = 0 if name is None else stable_hash(String())(name) % (1 << 62)
        yield number, batch.filter(pc.fill_null(mine, False))


class BagTask(KeyedTask):
    """A stage, one key group and micro-batch per call. ``ends``: the bag is the whole of the input."""

    def __init__(
        self,
        plan: Plan,
        stage: Stage,
        ids: list[int],
        *,
        ends: bool,
        made_by: str = "",
        idle: Mapping[str, int] | None = None,
    ) -> None:
        """``made_by``: a hash of the flow. ``idle`` as of :class:`BagFrontier`."""
        super().__init__(plan, stage, ids, SEND)
        self.ends, self.made_by, self.idle = ends, made_by, idle

    @cached_property
    def kernel(self) -> StageKernel:
        """The kernel, made once in each worker."""
        return StageKernel(self.plan, self.plan.stages[self.number], bags=True)

    @cached_property
    def sieve(self) -> Sieve:
        """Takes out what is late."""
        return Sieve(self.plan, self.plan.stages[self.number], self.idle)

    def step(self, id: int, frames: Iterable[Any], before: bytes | None) -> tuple[bytes, list[Message]]:
        """Run the stage for one key group and micro-batch."""
        return self.taken(id, decoded(self.groups[id], frames), before)

    def taken(self, id: int, messages: list[Message], before: bytes | None) -> tuple[bytes, list[Message]]:
        """The state behind some messages, and what they make."""
        group = self.groups[id]
        with no_collector():
            state, memory = (self.kernel.fresh(), {}) if before is None else self.restored(before)
            try:
                arrived = list(self.sieve.messages(state, memory, group, messages))
                limit = None if self.ends else self.sieve.frontier.limit(memory)
                stepped = self.kernel.step(state, group, arrived, limit)
                out = [one for one in judged(stepped) if not isinstance(one.body, Metrics | Verified | StageProgress)]
                return b"" if self.ends else dumps((self.made_by, state, memory)), out
            except BaseException:
                del self.kernel  # it may hold what the failed step has sent
                raise

    def restored(self, before: bytes) -> tuple[StageState, Memory]:
        """The state of an earlier micro-batch. Raises :class:`RunError` ``TT211`` if another flow has left it."""
        made_by, state, memory = loads(before)
        if made_by != self.made_by:
            raise RunError(
                "TT211",
                f"the checkpoint of this query belongs to another flow: its stage {self.number} has other operators, "
                "parameters, sources, types or key groups",
                fix="start the query with another checkpointLocation, or with the flow and key_groups= that began it",
            )
        return state, memory

    def table(self, key: Any, table: pa.Table) -> pa.Table:
        """A key group of a bounded input: for ``applyInArrow``."""
        return result_of(lambda: self._table(int(key[0].as_py()), table))

    def _table(self, id: int, table: pa.Table) -> pa.Table:
        columns = [table.column(name).to_pylist() for name in ("kind", "header", "payload")]
        messages = [decode(self.groups[id], *row) for row in zip(*columns, strict=True)]
        messages.append(Message(self.groups[id], Drain()))
        _, out = self.taken(id, messages, None)
        batches = list(as_rows(out, self.ids))
        return pa.Table.from_batches(batches) if batches else table.slice(0, 0).select(list(range(table.num_columns)))


class Unpacked(Task):
    """``mapInArrow`` behind the last stage: messages in, rows of the sink and outcomes out. ``target``: their Arrow schema."""

    def __init__(self, layout: Layout, sink: Sink, target: pa.Schema) -> None:
        self.layout, self.sink, self.target = layout, sink, target

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return iterator_of(lambda: self.of(self.decoded(batches)))

    @staticmethod
    def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[Message]:
        """The messages of rows of Spark."""
        for batch in batches:
            for kind, header, payload in zip(*(batch.column(at).to_pylist() for at in (1, 2, 3)), strict=True):
                yield decode(0, kind, header or b"", payload or b"")

    def of(self, messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
        """Rows of the sink and outcomes."""
        visible = VisibleColumns(self.layout, self.sink, unsigned=False)
        for message in messages:
            match message.body:
                case Rows() as rows if rows.batch.num_rows:
                    yield self.row(visible.of(without_dictionaries(rows.batch)))
                case SideRows() as some if some.batch.num_rows:
                    yield self.aside(some)
                case _:
                    pass

    def row(self, shown: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of the sink."""
        count = shown.num_rows
        outcome = [pa.repeat("row", count), *(pa.nulls(count) for _ in range(len(OUTCOME) - 2)), pa.repeat(1, count)]
        return self._batch([*shown.columns, *outcome])

    def aside(self, some: SideRows) -> pa.RecordBatch:
        """Late and rejected rows."""
        batch = some.batch
        count, late = batch.num_rows, some.holds == "late"
        own = [pa.nulls(count) for _ in range(len(self.target) - len(OUTCOME))]
        blocks = batch.column("block").cast(pa.timestamp("us", "UTC")) if late else pa.nulls(count)
        outcome = [
            pa.repeat("late" if late else "reject", count),
            pa.repeat(some.source, count),
            pa.array(reasons(some), pa.string()),
            pa.array(texts(some), pa.string()),
            blocks,
            batch.column("count") if late else pa.repeat(1, count),
        ]
        return self._batch([*own, *outcome])

    def _batch(self, columns: list[Any]) -> pa.RecordBatch:
        pairs = zip(columns, self.target.types, strict=True)
        arrays = [column if column.type == kind else column.cast(kind) for column, kind in pairs]
        return pa.RecordBatch.from_arrays(arrays, schema=self.target)


def schema_of_sink(layout: Layout, sink: Sink) -> pa.Schema:
    """The Arrow schema of the rows of a sink, as Spark gets them."""
    empty = schema_of_rows(layout).empty_table()
    batch = pa.RecordBatch.from_arrays([one.combine_chunks() for one in empty.columns], schema=empty.schema)
    schema: pa.Schema = VisibleColumns(layout, sink, unsigned=False).of(batch).schema
    return schema


class StraightScan(BagScan):
    """A source whose rows need no stage: rows of the sink and outcomes out."""

    def __init__(self, plan: Plan, stage: Stage, link: SourceLink, unpacked: Unpacked, filled: Filled | None) -> None:
        super().__init__(plan, stage, link, [0], counts=False, shows=False, filled=filled)
        self.unpacked = unpacked

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One partition."""
        with no_collector():
            yield from self.unpacked.of(self.messages(batches))


