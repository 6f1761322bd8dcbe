"""What runs inside a worker: the two ends of an exchange. Plain Python over lists, no backend imported.

:class:`SourceKernel` turns a piece of a source into messages; :class:`StageKernel` runs one key group of a stage for one
step. A step is whatever the backend delivers at once (a micro-batch): an exchange is a barrier, so when a stage sees the
report of a piece it has all items of that piece. Rows of a step come in any order.
"""

from __future__ import annotations

import datetime as dt
import gc
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise, repeat, takewhile
from operator import attrgetter, itemgetter
from typing import Any, Protocol, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.chunks import Chunk, place, scatter
from tracetypes.compiler.chunks import Placed as PlacedChunk
from tracetypes.compiler.columnar import (
    Flow,
    combine,
    encode_parts,
    fit,
    fit_key,
    listed,
    objects,
    parts_of,
    read_by,
    through,
)
from tracetypes.compiler.columns import (
    END,
    POSITION,
    Batch,
    array,
    decode,
    from_array,
    from_rows,
    pairs_of_rows,
    rows,
    rows_of_columns,
    to_bytes,
)
from tracetypes.compiler.expr import Tree, Undefined
from tracetypes.compiler.messages import Kind, Message, Piece, Report, Reread, dumps, header, loads
from tracetypes.compiler.monoids import Monoid
from tracetypes.compiler.ordering import Pairs, Runs, Sorter, codes_of
from tracetypes.compiler.plan import (
    FromChannel,
    FromSource,
    FromStage,
    Link,
    Mapped,
    Opaque,
    Plan,
    Region,
    Stage,
    Step,
    United,
    links,
)
from tracetypes.compiler.states import Columnar, ColumnState
from tracetypes.compiler.vector import Columns, concat, from_arrow, inputs_of, to_arrow, to_coded_arrow, values_of
from tracetypes.errors import OperatorFailed, RunError
from tracetypes.formats import Kafka, Layout, Row
from tracetypes.graph import Apply, Merge, Restore, RowPosition, Sort, Source, title
from tracetypes.interpreter import (
    check_jump,
    emitted_wrongly,
    failed,
    first_open,
    guarded,
    incomparable,
    overlapping,
    sort_order,
)
from tracetypes.markers import EventTime, InBand, Marker
from tracetypes.records import (
    INT_MAX,
    INT_MIN,
    UNIT,
    Boolean,
    Bytes,
    Date,
    Float,
    Integer,
    ListOf,
    Mismatch,
    OneOf,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    Unit,
    UnitValue,
    always_a_key,
    canonical,
    conformer,
    has_floats,
    key_conformer,
    key_problem,
    stable_hash,
    to_plain,
)
from tracetypes.sources import Rejected
from tracetypes.templates import OpKeyedOrdered, OpKeyedUnordered, OpStateless, overrides
from tracetypes.trace import StreamType

__all__ = ["ChannelKernel", "SourceKernel", "StageKernel", "StageState", "is_straight"]

BATCH = 50_000
"""Items of one message at most."""

FLUSH = 200_000
"""Rows after which what was collected is sent on, so that a large piece does not fill the memory."""

AHEAD = 4_096
"""Items of one hint to an operator (``prefetch``) at most."""

Emit: TypeAlias = Callable[[Any, Any], None]

YOUNG = 50_000
"""Objects after which the garbage collector looks while a stage takes and closes blocks."""


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Look for cyclic garbage less often: a block makes many objects that all stay, and none of ours are cycles. By Python's
    own measure each 700 objects are worth a look, a fifth of the time of a large block."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], YOUNG) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


# ------------------------------------------------------------------------------------------------- emitting


def conforming(op: object, stream: StreamType, then: Emit) -> Emit:
    """An ``emit`` that makes what an operator emits fit its output type, and passes it on."""
    fit_key, fit_value, key_schema = key_conformer(stream.key), conformer(stream.value), stream.key

    def emit(key: Any, value: Any) -> None:
        try:
            fitted_key, fitted = fit_key(key), fit_value(value)
        except Mismatch as error:
            raise emitted_wrongly(op, error, key, value) from None
        if problem := key_problem(key_schema, fitted_key):
            raise emitted_wrongly(op, problem, key, value)
        then(fitted_key, fitted)

    def emit_sound(key: Any, value: Any) -> None:
        try:
            fitted_key, fitted = fit_key(key), fit_value(value)
        except Mismatch as error:
            raise emitted_wrongly(op, error, key, value) from None
        then(fitted_key, fitted)

    return emit_sound if always_a_key(key_schema) else emit


class Placing(Protocol):
    """Who runs a path: block and position of the item that is on its way, and who holds items back."""

    end: int
    position: int
    ahead: list[Ahead]


class Ahead:
    """Holds items back before an operator that wants a hint of them, ``prefetch``. Each keeps its block and position."""

    def __init__(self, op: OpStateless[Any, Any, Any, Any], push: Emit, owner: Placing) -> None:
        self.op, self.then, self.owner = op, push, owner
        self.items: list[tuple[Any, Any, int, int]] = []

    def push(self, key: Any, value: Any) -> None:
        """Take an item."""
        self.items.append((key, value, self.owner.end, self.owner.position))
        if len(self.items) >= AHEAD:
            self.flush()

    def flush(self) -> None:
        """Give the hint, and pass the items on."""
        owner, items = self.owner, self.items
        if not items:
            return
        self.items = []
        pairs = [(key, value) for key, value, _, _ in items]
        guarded(
            self.op,
            "prefetch",
            f"{len(pairs)} items, the first ({pairs[0][0]!r}, {pairs[0][1]!r})",
            self.op.prefetch,
            pairs,
        )
        now = owner.end, owner.position
        for key, value, owner.end, owner.position in items:
            self.then(key, value)
        owner.end, owner.position = now


def flush(ahead: Sequence[Ahead]) -> None:
    """Pass all on that is held back. Of one path the last operator comes first in the list."""
    for one in reversed(ahead):
        one.flush()


def chain(path: Sequence[Mapped], last: Emit, owner: Placing) -> Emit:
    """The stateless operators of a path as one function of an item; what comes out goes to ``last``, but what is held back
    when ``owner`` flushes."""
    for mapped in reversed(path):
        op = mapped.node.op
        last = _stateless(mapped, conforming(op, mapped.stream, last))
        if isinstance(op, OpStateless) and overrides(op, "prefetch"):
            owner.ahead.append(Ahead(op, last, owner))
            last = owner.ahead[-1].push
    return last


def _stateless(mapped: Mapped, emit: Emit) -> Emit:
    op = mapped.node.op
    assert isinstance(op, OpStateless)
    on_item = op.on_item

    def push(key: Any, value: Any) -> None:
        try:
            on_item(key, value, emit)
        except OperatorFailed:
            raise
        except Exception as error:
            raise failed(op, "on_item", f"item ({key!r}, {value!r})", error) from error

    return push


def in_bulk(mapped: Mapped, keys: list[Any], values: list[Any]) -> tuple[list[Any], list[Any], Any] | None:
    """What an operator emits for items, and how many pairs for each of them: without a look at single values, whose types
    are checked by the column afterwards.

    None where something is not as it should be; then the items are taken one by one, which finds out what it is.
    """
    op = mapped.node.op
    assert isinstance(op, OpStateless)
    out_keys: list[Any] = []
    out_values: list[Any] = []
    ends: list[int] = []
    add_key, add_value, add_end, on_item = out_keys.append, out_values.append, ends.append, op.on_item

    def emit(key: Any, value: Any) -> None:
        add_key(key)
        add_value(value)

    try:
        if overrides(op, "prefetch"):
            for at in range(0, len(keys), AHEAD):
                part = slice(at, at + AHEAD)
                op.prefetch(list(zip(keys[part], values[part], strict=True)))
        for key, value in zip(keys, values, strict=True):
            on_item(key, value, emit)
            add_end(len(out_keys))
    except Exception:
        return None
    if not fits(mapped.stream, out_keys, out_values):
        return None
    return out_keys, out_values, np.diff(np.array(ends, np.int64), prepend=0)


def fits(stream: StreamType, keys: list[Any], values: list[Any]) -> bool:
    """Do all items fit a stream as they are? (False where that is not plain.)"""
    plain = not isinstance(stream.key, Optional | ListOf | OneOf) and not has_floats(stream.key)
    return plain and exactly(stream.key, keys) and exactly(stream.value, values)


def in_bulk_through(path: Sequence[Mapped], batch: Batch) -> Batch | None:
    """What comes out of a path for items, by :func:`in_bulk`; None where they have to be taken one by one."""
    keys, values = batch.keys, batch.values
    rows_ = np.arange(len(batch))
    for mapped in path:
        made = in_bulk(mapped, keys, values)
        if made is None:
            return None
        keys, values, counts = made
        rows_ = np.repeat(rows_, counts)
    places = None if batch.positions is None else np.array(batch.positions, np.int64)[rows_].tolist()
    return Batch(keys, values, np.array(batch.ends, np.int64)[rows_].tolist(), places)


_EXACT_TYPES: dict[type[Any], type[Any]] = {
    Float: float,
    String: str,
    Boolean: bool,
    Bytes: bytes,
    UnitValue: Unit,
    Date: dt.date,
}


def exactly(schema: Schema, values: list[Any]) -> bool:
    """Do all values fit the schema as they are, so that nothing has to be converted? (False where that is not plain.)"""
    types = set(map(type, values))
    match schema:
        case Integer():
            return types <= {int} and (not values or (min(values) >= INT_MIN and max(values) <= INT_MAX))
        case Float() | Boolean() | Bytes() | UnitValue() | Date():
            return types <= {_EXACT_TYPES[type(schema)]}
        case Timestamp():
            return types <= {dt.datetime} and all(value.tzinfo is dt.UTC for value in values)
        case String():
            return types <= {str} and _is_text("".join(values))
        case Optional(item):
            return exactly(item, [value for value in values if value is not None])
        case Record(cls, fields):
            return types <= {cls} and all(exactly(inner, list(map(attrgetter(name), values))) for name, inner in fields)
        case _:
            return False


def checked_later(schema: Schema) -> bool:
    """Does it make no difference whether values are looked at when they are emitted or later? So it is where they cannot
    change, and :func:`exactly` can tell of them."""
    match schema:
        case ListOf() | OneOf():
            return False
        case Optional(item):
            return checked_later(item)
        case Record(_, fields):
            return all(checked_later(inner) for _, inner in fields)
        case _:
            return True


def _is_text(value: str) -> bool:
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


class Outbox:
    """Collects items on their way to a stage and makes messages of them, by key group."""

    def __init__(self, stage: Stage, link: int, key_groups: int, positioned: bool) -> None:
        self.stream, self.link, self.key_groups, self.positioned = stage.takes, link, key_groups, positioned
        self.hash = stable_hash(self.stream.key)
        self.group_of: dict[Any, int] = {}
        self.monoid = combining(stage)
        self.folding = Folding(stage) if self.monoid is None and folds(stage) else None
        self.start()

    def start(self) -> None:
        """Begin anew, with nothing collected."""
        self.batch = Batch([], [], [], [] if self.positioned else None)

    def put(self, key: Any, value: Any, end: int, position: int) -> None:
        """Add an item."""
        self.batch.put(key, value, end, position)

    def extend(self, more: Batch) -> None:
        """Add many items."""
        self.batch.extend(more)

    def columns(self, head: bytes, flow: Flow, ends: Any, positions: Any) -> Iterator[Message]:
        """Messages of items that come as columns. Raises :class:`Undefined` before the first one when they have to be
        taken one by one."""
        schema, count = self.stream.key, flow.count
        if self.monoid is not None:
            assert flow.key is not None
            combined = combine(self.monoid, flow, ends, flow.key)
            keys = to_arrow(schema, combined.keys, len(combined))
            columns, kind = encode_parts(self.monoid, combined), Kind.AGGREGATES
        else:
            assert flow.key is not None
            assert flow.value is not None
            keys = to_coded_arrow(schema, flow.key, count)
            columns = {"value": to_arrow(self.stream.value, flow.value, count), "end": pa.array(ends)}
            if self.positioned:
                columns["position"] = pa.array(positions)
            kind = Kind.ITEMS
        yield from self.scattered(kind, head, keys, columns)

    def scattered(self, kind: Kind, head: bytes, keys: Any, columns: dict[str, Any]) -> Iterator[Message]:
        """A message to each key group that has rows."""
        for group, payload in scatter(self.stream.key, keys, columns, self.key_groups):
            yield Message(group, kind, head, payload)

    def messages(self, piece: Piece | None) -> Iterator[Message]:
        """All that was collected, and a fresh start."""
        batch, head = self.batch, header(link=self.link, piece=piece)
        self.start()
        if not len(batch):
            return
        if self.monoid is not None and len(batch) >= MANY:
            try:
                yield from self.combined(head, batch)
                return
            except Undefined:
                pass  # a number that columns cannot hold: the items go as they are
        elif self.folding is not None and self.folding.pays:
            yield from self.folded(head, batch)
            return
        yield from self.items(head, batch)

    def combined(self, head: bytes, batch: Batch) -> Iterator[Message]:
        """The items combined as columns."""
        stream = self.stream
        keys = from_arrow(stream.key, array(stream.key, batch.keys))
        values = from_arrow(stream.value, array(stream.value, batch.values))
        flow = Flow(len(batch), None, inputs_of({"key": keys, "value": values}), keys, values)
        return self.columns(head, flow, np.array(batch.ends, np.int64), None)

    def folded(self, head: bytes, batch: Batch) -> Iterator[Message]:
        """The items combined as objects."""
        assert self.folding is not None
        groups: dict[int, tuple[list[Any], list[Any], list[int]]] = {}
        for end, sums in self.folding.fold(batch).items():
            for key, agg in sums.items():
                keys, aggs, ends = groups.setdefault(self.group(key), ([], [], []))
                keys.append(key)
                aggs.append(agg)
                ends.append(end)
        for group, parts in groups.items():
            yield Message(group, Kind.PARTIALS, head, dumps(parts))

    def group(self, key: Any) -> int:
        """The key group of a key."""
        group = self.group_of.get(key)
        if group is None:
            group = self.group_of[key] = self.hash(key) % self.key_groups
        return group

    def items(self, head: bytes, batch: Batch) -> Iterator[Message]:
        """The items as they are."""
        stream = self.stream
        keys = array(stream.key, batch.keys)
        columns = {"value": array(stream.value, batch.values), "end": pa.array(batch.ends, pa.int64())}
        if batch.positions is not None:
            columns["position"] = pa.array(batch.positions, pa.int64())
        yield from self.scattered(Kind.ITEMS, head, keys, columns)


class Straight(Outbox):
    """Makes rows of the sink of items that need not pass a stage."""

    def __init__(self, stage: Stage, layout: Layout) -> None:
        super().__init__(stage, 0, 1, False)
        self.layout = layout

    def columns(self, head: bytes, flow: Flow, ends: Any, positions: Any) -> Iterator[Message]:
        """Rows of items that come as columns."""
        assert flow.key is not None
        assert flow.value is not None
        keys = to_arrow(self.stream.key, flow.key, flow.count)
        values = to_arrow(self.stream.value, flow.value, flow.count)
        for at in range(0, flow.count, BATCH):
            part = slice(at, at + BATCH)
            table = rows_of_columns(self.layout, keys[part], values[part], ends[part])
            yield Message(0, Kind.ROWS, b"", to_bytes(table))

    def messages(self, piece: Piece | None) -> Iterator[Message]:
        """All that was collected, and a fresh start."""
        batch = self.batch
        self.start()
        for at in range(0, len(batch), BATCH):
            part = slice(at, at + BATCH)
            made = Batch(batch.keys[part], batch.values[part], batch.ends[part], [0] * len(batch.keys[part]))
            yield Message(0, Kind.ROWS, b"", to_bytes(rows(self.layout, made)))


def is_straight(plan: Plan) -> bool:
    """May items go straight to the sink? Where no keyed operator looks at them, no order has to be restored and nothing is
    emitted at markers, a block need not be complete before its items go on: only its markers have to wait."""
    (*_, last) = plan.stages
    alone = len(plan.stages) == 1 and not last.steps and not _speaks(last.region) and not _speaks(plan.region)
    timed = all(
        isinstance(leaf, FromSource) and leaf.gives_items and isinstance(leaf.source.markers, EventTime)
        for leaf in plan.leaves
    )
    told = isinstance(plan.sink.format, Kafka) and plan.sink.format.markers  # then items wait for their markers
    return alone and timed and not told and not links(plan.region)[0].path and not plan.edge.ordered


MANY = 64
"""Items from which combining columns is worth its calls."""


def folds(stage: Stage) -> bool:
    """Is the first operator one that only sums its items up, so that they may be combined on their way?"""
    node = stage.steps[0].node if stage.steps else None
    op = node.op if isinstance(node, Apply) else None
    return isinstance(op, OpKeyedUnordered) and not overrides(op, "on_item")


def combining(stage: Stage) -> Monoid | None:
    """The monoid by which columns of items may be combined on their way to a stage."""
    monoid = stage.steps[0].monoid if folds(stage) else None
    return monoid if isinstance(monoid, Monoid) else None


class Folding:
    """Combines items by the author's own methods, as long as that makes them fewer."""

    def __init__(self, stage: Stage) -> None:
        node = stage.steps[0].node
        assert isinstance(node, Apply)
        assert isinstance(node.op, OpKeyedUnordered)
        self.gather, self.pays = Folded(node.op, None), True

    def fold(self, batch: Batch) -> dict[int, dict[Any, Any]]:
        """Aggregates by block and key."""
        held: dict[int, Any] = {}
        self.gather.hold(held, 0, (0, 0, 0), batch)
        self.pays = 2 * sum(map(len, held.values())) < len(batch)
        return held


# ------------------------------------------------------------------------------------------------- sources


FIRST = -(2**62)
"""A bound for the block of what comes before the first item of a source with event time."""


def passed_over(key: Any, value: Any) -> None:
    """An :data:`Emit` for items of a source that is read for something else."""


class Collected:
    """Pairs that come out of a path."""

    def __init__(self) -> None:
        self.end = self.position = 0
        self.ahead: list[Ahead] = []
        self.pairs: list[tuple[Any, Any]] = []

    def put(self, key: Any, value: Any) -> None:
        """Take a pair."""
        self.pairs.append((key, value))


@attrs.define
class Taken:
    """A row as it came, for the late and reject outputs: ``show()`` gives it as text."""

    row: Row
    show: Callable[[], str]


class SourceKernel:
    """The source end of a link: rows of one piece in, messages to the stage's key groups out.

    Where the link is fed by late items or rejects, each goes out with a lower bound for the block that was open when it came:
    what the other pieces of the step have closed before, the stage will say (:meth:`StageKernel._end_column`).
    """

    def __init__(self, stage: Stage, link: Link, key_groups: int, straight: Layout | None = None) -> None:
        """``straight``: the layout of the sink, where its rows need not pass the stage (:func:`is_straight`)."""
        assert isinstance(link.leaf, FromSource)
        self.leaf, self.link, self.key_groups = link.leaf, link, key_groups
        self.name, self.aloud = link.leaf.source.name, not link.leaf.quiet
        positioned = stage.restores and isinstance(link.leaf.source.ordered_by, RowPosition)
        self.outbox = (
            Outbox(stage, link.number, key_groups, positioned) if straight is None else Straight(stage, straight)
        )
        self.end = self.position = self.part = 0
        self.parts, self.idle = 1, False
        self.ahead: list[Ahead] = []
        self.push = chain(link.path, self._put, self)
        output = link.leaf.source.output
        self.gives_items, self.gives_late, self.gives_rejects = output == "items", output == "late", output == "rejects"
        traced = list(takewhile(lambda mapped: not isinstance(mapped.traced, Opaque), link.path))
        self.trees = [(mapped.traced, mapped.stream) for mapped in traced if not isinstance(mapped.traced, Opaque)]
        self.opaque = link.path[len(traced) :]
        self.rest = chain(self.opaque, self._put, self)
        self.whole = len(traced) == len(link.path)
        self.late_schema = (link.leaf.items.key, link.leaf.items.value)

    def _put(self, key: Any, value: Any) -> None:
        self.outbox.put(key, value, self.end, self.position)

    def piece(
        self,
        piece: Piece,
        taken: Iterable[Taken | Chunk],
        before: int | None,
        part: int = 0,
        parts: int = 1,
        idle: bool = False,
    ) -> Iterator[Message]:
        """One piece in its order. ``before``: the newest event time that came before the piece, None for none. ``part`` of
        ``parts``: where the source is the merge of several, which of them the piece belongs to. ``idle``: the piece is empty,
        and says that nobody waits for its part."""
        how = self.leaf.source.markers
        self.part, self.parts, self.idle = part, parts, idle
        self.open: int | None = None
        if isinstance(how, EventTime):
            yield from self._by_time(how, piece, taken, before)
        else:
            yield from self._in_band(piece, taken)

    def _by_time(
        self, how: EventTime, piece: Piece, taken: Iterable[Taken | Chunk], before: int | None
    ) -> Iterator[Message]:
        newest, seen, count, late, rejects = before, None, 0, 0, 0
        closed = None if before is None else how.frontier(before)
        blocks: set[int] = set()
        push, period, delay = self.push if self.gives_items else passed_over, how.period, how.delay
        for one in taken:
            if isinstance(one, Chunk):
                placed = place(how, one, newest)
                late += len(placed.late)
                for at, end, sent in placed.late if self.aloud else ():
                    yield self._late(piece, one.row(at), end, sent)
                if placed.late and self.gives_late:
                    aside = placed.only_late(period)
                    self.open = int(aside.ends[-1])
                    yield from self._chunk(piece, aside, count)
                if len(placed.ends):
                    changes = np.flatnonzero(placed.ends[1:] != placed.ends[:-1])
                    blocks.update(placed.ends[changes].tolist(), (int(placed.ends[-1]),))
                    top = int(one.times.max())
                    seen = top if seen is None else max(seen, top)
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
                    yield self._aside(Kind.REJECT, row.reason, one.show())
                if self.gives_rejects:
                    rejected = Rejected.of(self.name, one.show(), row.reason)
                    yield from self._open(piece, UNIT, rejected, FIRST if closed is None else closed + period)
                continue
            if row.kind == "marker":  # a heartbeat: like an empty block that ends there
                end = how.heartbeat(time)
                if closed is None or end > closed:
                    blocks.add(end)
                    beat = time + delay
                    newest = beat if newest is None else max(newest, beat)
                    seen = beat if seen is None else max(seen, beat)
                    closed = how.frontier(newest)
                continue
            end = (time // period + 1) * period
            if closed is not None and end <= closed:
                late += 1
                if self.aloud:
                    yield self._late(piece, row, end, closed)
                if self.gives_late:
                    yield from self._open(piece, row.key, row.value, closed + period)
                continue
            if newest is None or time > newest:
                newest = time
                closed = (time - delay) // period * period
            if seen is None or time > seen:
                seen = time
            blocks.add(end)
            self.end, self.position = end, count
            push(row.key, row.value)
            if count % FLUSH == 0:
                yield from self.outbox.messages(piece)
        flush(self.ahead)
        yield from self.outbox.messages(piece)
        ends = sorted(blocks)
        jump = max(pairwise(ends), key=lambda pair: pair[1] - pair[0], default=None)
        report = Report(
            link=self.link.number,
            piece=piece,
            rows=count,
            newest=seen,
            first=ends[0] if ends else None,
            before=before,
            jump=jump,
            last=ends[-1] if ends else None,
            open=self.open,
            late=late if self.aloud else 0,
            rejects=rejects if self.aloud else 0,
        )
        yield from self._to_all(report)

    def _open(self, piece: Piece, key: Any, value: Any, end: int) -> Iterator[Message]:
        """A late item or a reject that is sent on. ``end``: of the first block that is open, as far as the piece tells."""
        self.open = self.end = end
        self.push(key, value)
        if len(self.outbox.batch) >= FLUSH:
            yield from self.outbox.messages(piece)

    def _chunk(self, piece: Piece, placed: PlacedChunk, count: int) -> Iterator[Message]:
        """Rows as columns: through the traced operators, and from there as objects where one is opaque."""
        flush(self.ahead)
        yield from self.outbox.messages(piece)
        messages: list[Message] = []
        try:
            self._columns(piece, placed, count, messages)
        except Undefined:  # one of the rows must be run in Python: all of them are
            self.outbox.start()
            for one in self.ahead:
                one.items = []
            messages = []
            self._objects(self.push, placed.ends, placed.at + (count + 1), *self._items(placed))
        yield from messages
        flush(self.ahead)
        yield from self.outbox.messages(piece)

    def _columns(self, piece: Piece, placed: PlacedChunk, count: int, messages: list[Message]) -> None:
        key, value = self.late_schema
        stream = self.outbox.stream
        head = header(link=self.link.number, piece=piece)
        positions = placed.at + (count + 1) if self.outbox.positioned or not self.whole else None
        flows = [Flow(len(placed.ends), None, read_by(placed.column))]
        trees = self.trees
        if placed.chunk.emitted is not None and trees:
            emitted = placed.chunk.emitted
            flows = [listed(trees[0][1], emitted if placed.kept is None else emitted.filter(placed.kept))]
            trees = trees[1:]
        for flow in [made for one in flows for made in through(trees, one)]:
            ends, places = placed.ends, positions
            if flow.rows is not None:
                ends, places = ends[flow.rows], None if places is None else places[flow.rows]
            if self.trees:
                if not self.whole:
                    assert flow.key is not None
                    assert flow.value is not None
                    keys, values = values_of(flow.key, flow.count), values_of(flow.value, flow.count)
                    self._opaque(head, ends, places, keys, values, messages)
                    continue
            elif not self.whole:
                self._opaque(head, ends, places, *self._items(placed), messages)
                continue
            else:
                needed = self.outbox.monoid is None
                keys_ = fit_key(stream.key, from_arrow(key, placed.column(("key",))))
                values_ = fit(stream.value, from_arrow(value, placed.column(("value",)))) if needed else None
                flow = attrs.evolve(flow, key=keys_, value=values_)
            messages.extend(self.outbox.columns(head, flow, ends, places))

    def _items(self, placed: PlacedChunk) -> tuple[list[Any], list[Any]]:
        key, value = self.late_schema
        return from_array(key, placed.column(("key",))), from_array(value, placed.column(("value",)))

    def _opaque(
        self, head: bytes, ends: Any, places: Any, keys: list[Any], values: list[Any], messages: list[Message]
    ) -> None:
        """Items as objects through the operators that are opaque: in bulk, or else one by one."""
        start, stream, rows_ = (keys, values), self.outbox.stream, np.arange(len(keys))
        for mapped in self.opaque:
            made = in_bulk(mapped, keys, values)
            if made is None:
                self._objects(self.rest, ends, places, *start)
                return
            keys, values, counts = made
            rows_ = np.repeat(rows_, counts)
        if not keys:
            return
        key, value = self.link.path[-1].stream.key, self.link.path[-1].stream.value
        key_, value_ = from_arrow(key, array(key, keys)), from_arrow(value, array(value, values))
        flow = Flow(len(keys), None, inputs_of({"key": key_, "value": value_}), key_, value_)
        assert stream.value == value
        messages.extend(self.outbox.columns(head, flow, ends[rows_], places[rows_]))

    def _objects(self, push: Emit, ends: Any, places: Any, keys: list[Any], values: list[Any]) -> None:
        rows_ = zip(keys, values, ends.tolist(), places.tolist(), strict=True)
        for key, value, self.end, self.position in rows_:
            push(key, value)

    def _in_band(self, piece: Piece, taken: Iterable[Taken | Chunk]) -> Iterator[Message]:
        markers: list[int] = []
        counts = [0]
        rejects = 0
        push = self.push if self.gives_items else passed_over
        for at, one in enumerate(taken):
            assert isinstance(one, Taken)
            row = one.row
            if row.kind == "reject":
                if self.aloud:
                    yield self._aside(Kind.REJECT, row.reason, one.show())
                if self.gives_rejects:
                    rejects += 1
                    counts[-1] += 1
                    yield from self._open(piece, UNIT, Rejected.of(self.name, one.show(), row.reason), len(markers))
            elif row.kind == "marker":
                markers.append(row.time)
                counts.append(0)
            else:
                counts[-1] += 1
                self.end, self.position = len(markers), at
                push(row.key, row.value)
        flush(self.ahead)
        yield from self.outbox.messages(piece)
        yield from self._to_all(
            Report(
                link=self.link.number,
                piece=piece,
                rows=sum(counts) - rejects + len(markers),
                markers=tuple(markers),
                counts=tuple(counts),
            )
        )

    def _to_all(self, report: Report) -> Iterator[Message]:
        head = attrs.evolve(report, part=self.part, parts=self.parts, idle=self.idle).to_header()
        for group in range(1 if isinstance(self.outbox, Straight) else self.key_groups):
            yield Message(group, Kind.REPORT, head)

    def _late(self, piece: Piece, row: Row, end: int, closed: int) -> Message:
        key, value = self.late_schema
        shown = json.dumps({"key": to_plain(key, row.key), "value": to_plain(value, row.value)}, ensure_ascii=False)
        head = header(source=self.name, link=self.link.number, piece=piece, block=end, closed=closed)
        return Message(0, Kind.LATE, head, shown.encode())

    def _aside(self, kind: Kind, reason: str, text: str) -> Message:
        return Message(0, kind, header(source=self.name, reason=reason), text.encode("utf-8", "surrogatepass"))


# ------------------------------------------------------------------------------------------------- channels


class ChannelKernel:
    """The far end of a channel: rows that another query has sent in, messages to the stage's key groups out."""

    def __init__(self, stage: Stage, link: Link, key_groups: int) -> None:
        assert isinstance(link.leaf, FromChannel)
        self.leaf, self.link, self.key_groups = link.leaf, link, key_groups
        self.outbox = Outbox(stage, link.number, key_groups, stage.restores)
        self.end = self.position = 0
        self.ahead: list[Ahead] = []
        self.push = chain(link.path, lambda key, value: self.outbox.put(key, value, self.end, self.position), self)
        self.trees = trees_of(link.path)

    def rows(self, table: Any) -> Iterator[Message]:
        """Items of one file. ``table``: an Arrow record batch of rows, as stages send them."""
        leaf, count = self.leaf, table.num_rows
        if not count:
            return
        ends, positions = table.column(END).to_numpy(), table.column(POSITION).to_numpy()
        if self.trees is not None:
            head, made = header(link=self.link.number, piece=None), list[Message]()
            try:
                keys, values = pairs_of_rows(leaf.layout, table)
                key, value = from_arrow(leaf.stream.key, keys), from_arrow(leaf.stream.value, values)
                whole = Flow(count, None, inputs_of({"key": key, "value": value}), key, value)
                for flow in through(self.trees, whole):
                    at = slice(None) if flow.rows is None else flow.rows
                    made.extend(self.outbox.columns(head, flow, ends[at], positions[at]))
            except Undefined:
                pass  # one of the rows must be run in Python: all of them are
            else:
                yield from made
                return
        batch = from_rows(leaf.layout, table)
        self.outbox.start()
        rows_ = zip(batch.keys, batch.values, ends.tolist(), positions.tolist(), strict=True)
        for key_, value_, self.end, self.position in rows_:
            self.push(key_, value_)
        flush(self.ahead)
        yield from self.outbox.messages(None)

    def markers(self, markers: list[int], complete: bool) -> Iterator[Message]:
        """What was closed with the rows."""
        head = header(link=self.link.number, markers=markers, complete=complete)
        for group in range(self.key_groups):
            yield Message(group, Kind.MARKERS, head)


# ------------------------------------------------------------------------------------------------- progress


@attrs.define
class Progress:
    """How far a link has come, or one part of a source in parts. All times in microseconds.

    ``sent``: the last marker of this link that the stage has closed. ``waiting``: its markers that are known but not
    closed yet (of event-time sources they follow from ``first``, the first block, ``newest`` and ``end``, the last block).
    """

    newest: int | None = None
    first: int | None = None
    end: int | None = None
    sent: int | None = None
    waiting: list[int] = attrs.Factory(list)
    last: int | None = None
    open: bool = False
    complete: bool = False
    aside: int | None = None
    """Where late items or rejects of a source with event time are sent: the last block of any of them."""


def reached(how: object, progress: Progress, drained: bool) -> int | None:
    """The last marker of a link that may be closed as far as this link is concerned; None when it has sent none."""
    if isinstance(how, EventTime):
        if progress.first is None or progress.end is None:
            return None
        if drained:
            return progress.end
        return top if progress.newest is not None and (top := how.frontier(progress.newest)) >= progress.first else None
    return progress.last


def due(how: object, progress: Progress, limit: int | None, drained: bool) -> list[int]:
    """The markers of a link up to ``limit`` (None: no limit) that are not closed yet."""
    if not isinstance(how, EventTime):
        return [m for m in progress.waiting if limit is None or m <= limit]
    top = reached(how, progress, drained)
    if progress.first is None or top is None:
        return []
    top = top if limit is None else min(top, limit // how.period * how.period)
    start = progress.first if progress.sent is None else progress.sent + how.period
    return list(range(start, top + 1, how.period))


# ------------------------------------------------------------------------------------------------- stages


@attrs.define
class StageState:
    """All that a key group of a stage keeps between steps; pickled into the checkpoint."""

    progress: list[list[Progress]]
    """Of each link, and of each part of its source: what the link sends is the merge of them."""
    held: dict[int, Any] = attrs.Factory(dict)
    """What has arrived for blocks that are open, by end of block; see :data:`OPEN`."""
    operators: list[Any] = attrs.Factory(list)
    tables: list[tuple[Any, Any, Any]] = attrs.Factory(list)
    """What a stage holds that does nothing but close blocks, or sorts first: ends, keys and values, as columns."""
    owners: dict[Any, int] = attrs.Factory(dict)
    """For ordered merges: which link, and which part of its source, each key comes from; see :meth:`StageKernel._way`."""
    closed: int | None = None


OPEN = 2**62
"""The end of a block whose marker has not come is ``OPEN`` and a number for link and part (sources with markers in band; late
items and rejects that come before the first marker of their source is known)."""


@attrs.define
class UnorderedState:
    """State of an ``OpKeyedUnordered``: by key, and for keys not seen yet."""

    states: dict[Any, Any]
    start: Any
    plain: bool = False
    """It has held what columns cannot hold, and stays as it is."""


class StageKernel:
    """One stage of a plan; :meth:`step` runs one key group of it."""

    def __init__(self, plan: Plan, stage: Stage) -> None:
        self.plan, self.stage, self.key_groups = plan, stage, plan.key_groups
        self.links = links(stage.region)
        self.hows = [self._how(link) for link in self.links]
        self.aside = [isinstance(link.leaf, FromSource) and not link.leaf.gives_items for link in self.links]
        """Does the link send late items or rejects?"""
        self.quiet = [isinstance(link.leaf, FromSource) and link.leaf.quiet for link in self.links]
        self.hash = stable_hash(stage.takes.key)
        self.first = stage.steps[0] if stage.steps else None
        self.gather = self._gatherer()
        self.ordered_merge = _ordered_merge(stage.region) if len(self.links) > 1 and stage.restores else None
        self.restored = stage.restores
        self.speaks = _speaks(stage.region)
        node = self.first.node if self.first else None
        self.sorter = Sorter(node, stage.takes.value) if isinstance(node, Sort) and not self.speaks else None
        """How items are sorted that the stage holds as they came, as columns."""
        self.columnar = self._columnar()
        self.runs = [self._runner(at, step) for at, step in enumerate(stage.steps)]
        self._connect()
        self.passes = not stage.steps and not self.speaks and self.outlet.trees is not None
        """Nothing is done here but to close blocks, and nothing behind that looks at single items."""

    @staticmethod
    def _how(link: Link) -> object:
        return link.leaf.source.markers if isinstance(link.leaf, FromSource) else None

    def _connect(self) -> None:
        """Find where the output of the stage goes: to a link of a later stage, or to the sink."""
        for later in self.plan.stages:
            for link in links(later.region):
                if isinstance(link.leaf, FromStage) and link.leaf.stage is self.stage:
                    self.outlet: Outlet = ToStage(self.stage, later, link, self.key_groups)
                    return
        self.outlet = ToSink(self.plan)

    def _columnar(self) -> Columnar | None:
        """How the first operator runs over columns, where it can."""
        step = self.first
        if step is None or isinstance(step.keyed, Opaque) or not folds(self.stage) or self.speaks:
            return None
        assert isinstance(step.node, Apply)
        assert isinstance(step.node.op, OpKeyedUnordered)
        return Columnar(step.node.op, step.keyed)

    def fresh(self) -> StageState:
        """The state before the first step."""
        return StageState(
            progress=[[Progress()] for _ in self.links],
            operators=[self._initial(step) for step in self.stage.steps],
        )

    @staticmethod
    def _initial(step: Step) -> Any:
        if isinstance(step.node, Apply):
            if isinstance(step.node.op, OpKeyedUnordered):
                op = step.node.op
                return UnorderedState({}, guarded(op, "initial_state", "the start", op.initial_state))
            return {}
        return None

    # ---------------------------------------------------------------------------------------------- a step

    def step(self, state: StageState, group: int, messages: Iterable[Message]) -> Iterator[Message]:
        """Take the messages of one step, in any order; close the blocks that can be closed; give what comes out."""
        self._adopt(state)
        late: dict[str, int] = {}
        rejects: dict[str, int] = {}
        for message in self._step(state, group, messages):
            if message.kind in (Kind.LATE, Kind.REJECT):
                counts, source = (late if message.kind == Kind.LATE else rejects), message.head["source"]
                counts[source] = counts.get(source, 0) + 1
            yield message
        if group == 0:
            yield self._progress(state, late, rejects)

    def metrics(self, state: StageState, group: int, size: int) -> Message:
        """What the last step took, and what the group holds. ``size``: of the state, in bytes."""
        keys = [keys_held(held) for held in state.operators]
        head = header(
            stage=self.stage.number,
            group=group,
            flowed=self.flowed,
            emitted=self.emitted,
            keys=keys,
            markers=len(self.closed),
            marker=state.closed,
            bytes=size,
        )
        return Message(group, Kind.METRICS, head)

    def _progress(self, state: StageState, late: dict[str, int], rejects: dict[str, int]) -> Message:
        """What a step did. Late and rejected rows are counted where they pass: they are counted by the last stage."""
        pairs = zip(self.links, state.progress, strict=True)
        newest = {
            link.leaf.label: [one.newest for one in parts] for link, parts in pairs if isinstance(link.leaf, FromSource)
        }
        head = header(
            stage=self.stage.number,
            markers=self.closed,
            newest=newest,
            rows=self.rows,
            read=self.read,
            late=late,
            rejects=rejects,
            complete=all(progress.complete for parts in state.progress for progress in parts),
        )
        return Message(0, Kind.PROGRESS, head)

    def _step(self, state: StageState, group: int, messages: Iterable[Message]) -> Iterator[Message]:
        items: list[Message] = []
        self.flowed = [0] * (len(self.stage.steps) + 1)
        self.emitted = 0
        """How many items came to the first step and from there to each next one, and how many left the stage."""
        reports: list[Report] = []
        late: list[Message] = []
        drained = False
        for message in messages:
            match message.kind:
                case Kind.ITEMS | Kind.AGGREGATES | Kind.PARTIALS:
                    items.append(message)
                case Kind.REPORT:
                    reports.append(Report.from_head(message.head))
                case Kind.MARKERS:
                    head = message.head
                    (progress,) = state.progress[head["link"]]
                    progress.waiting = sorted([*progress.waiting, *head["markers"]])  # a channel may send several
                    progress.last = max(progress.waiting, default=progress.last)
                    progress.complete = progress.complete or head["complete"]
                case Kind.DRAIN:
                    drained = True
                case Kind.LATE if "closed" in message.head:
                    late.append(message)
                case _:
                    yield message
        self._advance(state, reports, group)
        yield from self.rejected
        yield from map(self._with_reason, late)
        with rarely_collected():
            if items and self.columnar is not None:
                self._to_columns(state, items)
            for message in items:
                self._take(state, message)
            complete = self._close(state, group, drained)
        yield from self.outlet.messages(group, self.closed, complete)

    def _advance(self, state: StageState, reports: list[Report], group: int) -> None:
        """Take the reports in the order of their pieces. For links in band: the end of each block of each piece."""
        self.starts: dict[tuple[int, Piece], list[int]] = {}
        self.part_of: dict[tuple[int, Piece], int] = {}
        self.frontiers: dict[tuple[int, Piece], int] = {}
        again: dict[str, list[tuple[Piece, int | None]]] = {}
        late = False
        self.rows = sum(report.rows for report in reports if not self.quiet[report.link])
        self.read: dict[str, int] = {}
        self.rejected: list[Message] = []
        for report in sorted(reports, key=lambda r: (r.link, r.piece)):
            parts, how = state.progress[report.link], self.hows[report.link]
            parts.extend(Progress(complete=parts[0].complete) for _ in range(report.parts - len(parts)))
            progress = parts[report.part]
            self.part_of[report.link, report.piece] = report.part
            leaf = self.links[report.link].leaf
            assert isinstance(leaf, FromSource)
            self.read[leaf.source.name] = self.read.get(leaf.source.name, 0) + report.rows
            if progress.complete and report.rows:
                raise RunError(
                    "TT212",
                    f"{title(leaf.source)}: {report.rows:,} rows came after the sources were drained",
                    fix="take them out of the input, or run them with another checkpoint and output",
                )
            if isinstance(how, EventTime):
                if report.jump is not None:
                    check_jump(leaf.source, *report.jump, how.period)
                if report.open is not None:
                    found = [report.open, first_open(how, progress.newest), progress.aside]
                    progress.aside = max(end for end in found if end is not None)
                if progress.newest is not None:
                    self.frontiers[report.link, report.piece] = how.frontier(progress.newest)
                    again.setdefault(leaf.label, []).append((report.piece, progress.newest))
                    if report.first is not None and report.first <= how.frontier(progress.newest):
                        late = True
                    elif report.first is not None:
                        check_jump(leaf.source, how.block(progress.newest), report.first, how.period)
                if report.newest is not None:
                    newest = progress.newest
                    progress.newest = report.newest if newest is None else max(newest, report.newest)
                if report.last is not None:
                    progress.end = report.last if progress.end is None else max(progress.end, report.last)
                if report.first is not None and progress.sent is None:
                    progress.first = min(report.first, report.first if progress.first is None else progress.first)
            else:
                self.starts[report.link, report.piece] = self._mark(report, progress, leaf, group, state)
        if late:
            raise Reread(again)
        for link in sorted({report.link for report in reports if report.idle}):
            self._pass_over(link, state.progress[link], {r.part for r in reports if r.link == link and r.idle})

    def _pass_over(self, link: int, parts: list[Progress], idle: set[int]) -> None:
        """Parts that are idle send a heartbeat as it were: of the last marker that all other parts have reached."""
        how = self.hows[link]
        assert isinstance(how, EventTime)
        others = [reached(how, progress, False) for part, progress in enumerate(parts) if part not in idle]
        known = [marker for marker in others if marker is not None]
        if not known or len(known) < len(others):
            return
        beat = min(known)
        for progress in (parts[part] for part in idle):
            if progress.newest is None or beat > how.frontier(progress.newest):
                progress.newest = max(
                    beat + how.delay, beat + how.delay if progress.newest is None else progress.newest
                )
                progress.end = beat if progress.end is None else max(progress.end, beat)
                if progress.sent is None:
                    progress.first = beat if progress.first is None else min(progress.first, beat)

    def _with_reason(self, message: Message) -> Message:
        """A late item on its way out, with the reason: what earlier pieces of the step closed is known only here."""
        head = message.head
        return message._replace(header=header(source=head["source"], reason=reason_of(head, self.frontiers)))

    def _way(self, link: int, part: int) -> int:
        """A number for a part of the source of a link."""
        return part * len(self.links) + link

    def _mark(self, report: Report, progress: Progress, leaf: FromSource, group: int, state: StageState) -> list[int]:
        """Accept the markers of a piece in band; the end of the block of the items before each, and after the last."""
        pending = OPEN + self._way(report.link, report.part)
        ends: list[int] = []
        for at, marker in enumerate(report.markers):
            progress.open = progress.open or report.counts[at] > 0
            if progress.last is not None and marker <= progress.last:
                reason = f"marker {Marker(marker)} does not lie after {Marker(progress.last)}"
                if leaf.source.output == "rejects":
                    rejected = Rejected.of(leaf.source.name, str(marker), reason)
                    self._made(state, group, report, rejected, pending)
                    progress.open = True
                if group == 0 and not leaf.quiet:
                    head = header(source=leaf.source.name, reason=reason)
                    self.rejected.append(Message(0, Kind.REJECT, head, str(marker).encode()))
                continue
            ends.extend([marker] * (at + 1 - len(ends)))
            self._join(state, pending, marker)
            progress.last, progress.open = marker, False
            progress.waiting.append(marker)
        progress.open = progress.open or report.counts[-1] > 0
        ends.extend([pending] * (len(report.counts) - len(ends)))
        return ends

    def _made(self, state: StageState, group: int, report: Report, rejected: Rejected, end: int) -> None:
        """Send a reject through a link that only the stage knows of. Each key group keeps what has keys of its own."""
        link = self.links[report.link]
        sent = Collected()
        chain(link.path, sent.put, sent)(UNIT, rejected)
        flush(sent.ahead)
        own = [(key, value) for key, value in sent.pairs if self.hash(key) % self.key_groups == group]
        if own:
            keys, values = [key for key, _ in own], [value for _, value in own]
            self._hold(state, report.link, report.piece, Batch(keys, values, [end] * len(own)))

    def _join(self, state: StageState, pending: int, marker: int) -> None:
        """The marker of an open block of a link has come: of a link in band, or the first marker of late items or rejects."""
        for ends in self.starts.values():
            ends[:] = [marker if end == pending else end for end in ends]
        for at_, (ends_, keys, values) in enumerate(state.tables):
            state.tables[at_] = (np.where(ends_ == pending, marker, ends_), keys, values)
        columns = state.operators[0] if state.operators else None
        if isinstance(columns, ColumnState):
            columns.held = [attrs.evolve(c, ends=np.where(c.ends == pending, marker, c.ends)) for c in columns.held]
        waiting = state.held.pop(pending, None)
        if waiting is None:
            return
        if marker in state.held:
            self.gather.unite(state.held[marker], waiting)
        else:
            state.held[marker] = waiting

    def _take(self, state: StageState, message: Message) -> None:
        """Hold what has come for the blocks that are open."""
        head = message.head
        link, piece = head["link"], tuple(head["piece"]) if head["piece"] is not None else (0, 0, 0)
        if message.kind == Kind.ITEMS and (self.passes or self.sorter is not None):
            table = pa.ipc.open_stream(message.payload).read_next_batch()
            ends = self._end_column(state, link, piece, table.column("end").to_numpy())
            state.tables.append((ends, table.column("key"), table.column("value")))
            return
        if message.kind == Kind.ITEMS:
            batch = decode(self.stage.takes, message.payload)
            batch.ends = self._end_column(state, link, piece, np.array(batch.ends, np.int64)).tolist()
            self._hold(state, link, piece, batch)
            return
        assert isinstance(self.gather, Folded)
        columns = state.operators[0]
        if isinstance(columns, ColumnState) and message.kind == Kind.AGGREGATES:
            assert self.columnar is not None
            table = pa.ipc.open_stream(message.payload).read_next_batch()
            parts = parts_of(self.columnar.keyed.monoid, table)
            ends = self._end_column(state, link, piece, table.column("end").to_numpy())
            self.columnar.hold(columns, table.column("key"), ends, parts)
            return
        if message.kind == Kind.PARTIALS:
            keys, aggs, ends = loads(message.payload)
        else:
            keys, aggs, ends = self.gather.decode(self.stage.takes, message.payload)
        ends = self._end_column(state, link, piece, np.array(ends, np.int64)).tolist()
        if isinstance(columns, ColumnState):
            assert self.columnar is not None
            try:
                self.columnar.hold_objects(columns, keys, aggs, ends)
                return
            except Undefined:
                self._to_objects(state)
        self.gather.absorb(state.held, keys, aggs, ends)

    def _hold(self, state: StageState, link: int, piece: Piece, batch: Batch) -> None:
        """Hold items whose blocks are known."""
        takes = self.stage.takes
        if self.passes or self.sorter is not None:
            keys, values = array(takes.key, batch.keys), array(takes.value, batch.values)
            state.tables.append((np.array(batch.ends, np.int64), keys, values))
            return
        if isinstance(state.operators[0] if state.operators else None, ColumnState):
            assert self.columnar is not None
            try:
                self.columnar.hold_items(state.operators[0], takes, batch)
                return
            except Undefined:
                self._to_objects(state)
        merged = self._ordered(state, link)
        if merged is not None:
            way = self._way(link, self.part_of.get((link, piece), 0))
            for key in batch.keys:
                if state.owners.setdefault(key, way) != way:
                    raise overlapping(merged, key)
        self.gather.hold(state.held, link, piece, batch)

    def _ordered(self, state: StageState, link: int) -> Merge | Source | None:
        """What merges ordered streams before the stage, if its keys have to be checked: a merge, or a source in parts."""
        leaf = self.links[link].leaf
        if self.restored and isinstance(leaf, FromSource) and len(state.progress[link]) > 1:
            return leaf.source if isinstance(leaf.source.ordered_by, RowPosition) else self.ordered_merge
        return self.ordered_merge

    def _to_columns(self, state: StageState, items: list[Message]) -> None:
        """Go over to columns, where many keys share a block."""
        objects_ = state.operators[0]
        if not isinstance(objects_, UnorderedState) or objects_.plain:
            return
        assert self.columnar is not None
        if len(objects_.states) < MANY or self.columnar.keyed.skips:
            rows_, blocks = 0, set[int]()
            for message in items:
                if message.kind == Kind.AGGREGATES:
                    ends = pa.ipc.open_stream(message.payload).read_next_batch().column("end")
                    rows_ += len(ends)
                    blocks.update(ends.unique().to_pylist())
            if rows_ < MANY * max(len(blocks), 1):
                return
        try:
            made = self.columnar.from_objects(objects_.states, objects_.start, state.held)
        except Undefined:
            objects_.plain = True
        else:
            state.operators[0] = made
            state.held = {}

    def _to_objects(self, state: StageState) -> None:
        """Go back to objects, for good: something was not to be held in columns."""
        assert self.columnar is not None
        columns = state.operators[0]
        states, state.held = columns.to_objects(self.columnar.op.combine)
        state.operators[0] = UnorderedState(states, columns.start, plain=True)

    def _adopt(self, state: StageState) -> None:
        """Hold what another graph has held as this one does: what of an operator can be said as columns may have changed."""
        columns = state.operators[0] if state.operators else None
        if isinstance(columns, ColumnState) and (self.columnar is None or not self.columnar.fits(columns)):
            assert isinstance(self.gather, Folded)
            states, state.held = columns.to_objects(self.gather.op.combine)
            state.operators[0] = UnorderedState(states, columns.start)
        takes, as_tables = self.stage.takes, self.passes or self.sorter is not None
        if as_tables and state.held:
            held, state.held = state.held, {}
            for end, (keys, values) in held.items():
                ends = np.full(len(keys), end, np.int64)
                state.tables.append((ends, array(takes.key, keys), array(takes.value, values)))
        elif not as_tables and state.tables:
            tables, state.tables = state.tables, []
            for ends, keys_, values_ in tables:
                keys, values = from_array(takes.key, keys_), from_array(takes.value, values_)
                self.gather.hold(state.held, 0, (0, 0, 0), Batch(keys, values, ends.tolist()))

    def _end_column(self, state: StageState, link: int, piece: Piece, ends: Any) -> Any:
        """The marker of each item's block: sources with markers in band number their blocks by piece. Of late items and
        rejects the piece knew a lower bound only: a block that earlier pieces have closed is not open any more, and blocks
        before the first of the source are none. Which that is may not be known yet."""
        self.flowed[0] += len(ends)
        how = self.hows[link]
        if isinstance(how, InBand):
            return np.array(self.starts[link, piece], np.int64)[ends]
        if not self.aside[link]:
            return ends
        assert isinstance(how, EventTime)
        part = self.part_of[link, piece]
        closed, first = self.frontiers.get((link, piece)), state.progress[link][part].first
        if closed is not None:
            ends = np.maximum(ends, closed + how.period)
        pending = OPEN + self._way(link, part)
        return np.full(len(ends), pending) if first is None else np.where(ends < first, pending, ends)

    def _close(self, state: StageState, group: int, drained: bool) -> bool:
        """Close the blocks that can be closed; whether no more will come."""
        ways = [
            (at, part, self.hows[at], progress)
            for at, parts in enumerate(state.progress)
            for part, progress in enumerate(parts)
        ]
        if drained:
            for at, part, how, progress in ways:
                if how is not None:
                    progress.complete = True
                if isinstance(how, InBand) and progress.open:
                    final = 0 if progress.last is None else progress.last + 1
                    self._join(state, OPEN + self._way(at, part), final)
                    progress.waiting.append(final)
                    progress.last, progress.open = final, False
                if progress.aside is not None:  # what is open when the source ends has a marker too
                    progress.first = 0 if progress.first is None else progress.first
                    progress.end = max(progress.first if progress.end is None else progress.end, progress.aside)
        limit: int | None = None
        blocked = False
        for _, _, how, progress in ways:
            if progress.complete:
                continue
            top = reached(how, progress, False)
            if top is None:
                blocked = True
            else:
                limit = top if limit is None else min(limit, top)
        coming: dict[int, set[int]] = {}
        if not blocked:
            for at, part, how, progress in ways:
                ready = due(how, progress, limit, progress.complete)
                for marker in ready:
                    coming.setdefault(marker, set()).add(at)
                if ready and self.aside[at] and progress.sent is None and isinstance(how, EventTime):
                    self._join(state, OPEN + self._way(at, part), ready[0])
                if ready:
                    progress.sent = ready[-1]
                    progress.waiting = [m for m in progress.waiting if m > ready[-1]]
        outlet = self.outlet
        if not (coming and self._close_columns(state, group, sorted(coming))):
            found = self._sorted(state, sorted(coming)) if coming and self.sorter is not None else None
            for end in sorted(coming):
                if found is None:
                    self._block(state, group, end, coming[end], outlet)
                else:
                    blocks, done = found
                    self._run(state, group, blocks.get(end, Runs([], [], [])), end, outlet, start=done)
        state.closed = max(coming, default=state.closed)
        self.closed = sorted(coming)
        return all(progress.complete for _, _, _, progress in ways)

    def _close_columns(self, state: StageState, group: int, ends: list[int]) -> bool:
        """Close blocks as columns; False when they have to be closed as objects."""
        if self.passes:
            return self._close_tables(state, group, ends)
        columns = state.operators[0] if state.operators else None
        if not isinstance(columns, ColumnState):
            return False
        assert self.columnar is not None
        emitted: dict[int, list[Flow]] = {}

        def out(end: int, key: Columns, value: Columns, count: int) -> None:
            emitted.setdefault(end, []).append(Flow(count, None, inputs_of({"key": key, "value": value}), key, value))

        try:
            self.columnar.close(columns, ends, out)
        except Undefined:
            self._to_objects(state)
            return False
        with suppress(Undefined):  # the blocks are closed: what they emitted goes on as objects
            if len(self.runs) == 1 and self.outlet.columns(joined(emitted)):
                count = sum(flow.count for flows in emitted.values() for flow in flows)
                self.flowed[1] += count
                self.emitted += count
                for end in ends:
                    self.outlet.block(Pairs([], []), Marker(end), group)
                return True
        for end in ends:
            flowing = Pairs([], [])
            for flow in emitted.get(end, ()):
                assert flow.key is not None
                assert flow.value is not None
                flowing.keys.extend(values_of(flow.key, flow.count))
                flowing.values.extend(values_of(flow.value, flow.count))
            self._run(state, group, flowing, end, self.outlet, start=1)
        return True

    def _close_tables(self, state: StageState, group: int, ends: list[int]) -> bool:
        """Send on what was held for blocks that end."""
        takes = self.stage.takes
        flows = []
        for column, keys, values in self._ready(state, ends[-1]):
            key, value = from_arrow(takes.key, keys), from_arrow(takes.value, values)
            flow = Flow(len(column), None, inputs_of({"key": key, "value": value}), key, value)
            flows.append((flow, column))
        if self.outlet.columns(flows):
            self.emitted += sum(flow.count for flow, _ in flows)
            for end in ends:
                self.outlet.block(Pairs([], []), Marker(end), group)
            return True
        for flow, column in flows:
            assert flow.key is not None
            assert flow.value is not None
            keys_, values_ = values_of(flow.key, flow.count), values_of(flow.value, flow.count)
            self.gather.hold(state.held, 0, (0, 0, 0), Batch(keys_, values_, column.tolist()))
        return False

    @staticmethod
    def _ready(state: StageState, last: int) -> list[tuple[Any, Any, Any]]:
        """What is held for blocks up to ``last``; it is held no longer."""
        held, state.tables = state.tables, []
        found = []
        for ends, keys, values in held:
            ready = ends <= last
            if not ready.all():
                mask = pa.array(~ready)
                state.tables.append((ends[~ready], keys.filter(mask), values.filter(mask)))
                mask = pa.array(ready)
                ends, keys, values = ends[ready], keys.filter(mask), values.filter(mask)
            if len(ends):
                found.append((ends, keys, values))
        return found

    def _sorted(self, state: StageState, ends: list[int]) -> tuple[dict[int, Runs], int]:
        """What was held for blocks that end, by block and key, and how many steps are done: one where all are sorted at
        once, and none where that is left to the step."""
        assert self.sorter is not None
        takes, found = self.stage.takes, self._ready(state, ends[-1])
        if not found:
            return {}, 1
        blocks = np.concatenate([one[0] for one in found])
        keys, column = pa.concat_arrays([one[1] for one in found]), pa.concat_arrays([one[2] for one in found])
        codes, values = codes_of(takes.key, keys), from_array(takes.value, column)
        try:
            rows_, done = self.sorter.rows([blocks, codes], values, lambda: column), 1
        except Undefined:
            rows_, done = np.lexsort((codes, blocks)), 0
        blocks, codes = blocks[rows_], codes[rows_]
        starts = np.flatnonzero((blocks[1:] != blocks[:-1]) | (codes[1:] != codes[:-1])) + 1
        starts = np.concatenate([[0], starts])
        counts = np.diff(starts, append=len(rows_)).tolist()
        keys_ = from_array(takes.key, keys.take(pa.array(rows_[starts])))
        values = list(map(values.__getitem__, rows_.tolist()))
        made = {}
        run_of = [*(np.flatnonzero(np.diff(blocks[starts])) + 1).tolist(), len(starts)]
        first = 0
        for last in run_of:
            at, to = int(starts[first]), int(starts[last]) if last < len(starts) else len(rows_)
            made[int(blocks[at])] = Runs(keys_[first:last], counts[first:last], values[at:to])
            first = last
        return made, done

    def _block(self, state: StageState, group: int, end: int, present: set[int], outlet: Outlet) -> None:
        marker = Marker(end)
        held = state.held.pop(end, None)
        if self.speaks:
            spoken = Batch([], [], [], None)
            for key, value in _spoken(self.stage.region, marker, present, [0])[1]:
                if self.hash(key) % self.key_groups == group:
                    spoken.keys.append(key)
                    spoken.values.append(value)
                    spoken.ends.append(end)
            if len(spoken):
                late: dict[int, Any] = {} if held is None else {end: held}
                self.gather.hold(late, 0, (0, 0, 0), spoken)
                held = late[end]
        self._run(state, group, self.gather.take(held), end, outlet, start=0)

    def _run(self, state: StageState, group: int, flowing: Any, end: int, outlet: Outlet, *, start: int) -> None:
        """A block through the steps from ``start``, and out."""
        marker = Marker(end)
        if start:
            self.flowed[start] += len(flowing.values)
        for at, run in enumerate(self.runs[start:], start):
            flowing = run(state.operators, at, flowing, marker)
            self.flowed[at + 1] += len(flowing.values)
        self.emitted += len(flowing.values)
        outlet.block(flowing, marker, group)

    # ---------------------------------------------------------------------------------------- operators

    def _gatherer(self) -> Gatherer:
        step = self.first
        if step is None:
            return Lists()
        if isinstance(step.node, Restore):
            return Placed(self)
        op = step.node.op if isinstance(step.node, Apply) else None
        if isinstance(op, OpKeyedUnordered) and folds(self.stage):
            return Folded(op, combining(self.stage))
        return Lists()

    def _runner(self, at: int, step: Step) -> Callable[[list[Any], int, Any, Marker], Any]:
        node = step.node
        if isinstance(node, Restore):
            return lambda states, at, flowing, marker: flowing
        if isinstance(node, Sort):
            return _sorter(node, step)
        op = node.op
        if isinstance(op, OpKeyedOrdered):
            return _ordered_runner(op, step)
        assert isinstance(op, OpKeyedUnordered)
        return _unordered_runner(op, step, folded=at == 0 and isinstance(self.gather, Folded))


def keys_held(held: Any) -> int:
    """Of how many keys an operator has a state; a sort has none."""
    match held:
        case ColumnState(count=count):
            return count
        case UnorderedState(states=states):
            return len(states)
        case dict():
            return len(held)
        case _:
            return 0


def reason_of(head: dict[str, Any], frontiers: Mapping[tuple[int, Piece], int]) -> str:
    """Why a row is aside, from its header; ``frontiers``: the last marker before each piece of a link."""
    if "closed" not in head:
        return str(head["reason"])
    closed = max(head["closed"], frontiers.get((head["link"], tuple(head["piece"])), head["closed"]))
    return f"its block ended at {Marker(head['block'])}, and {Marker(closed)} was already sent"


def _ordered_merge(region: Region) -> Merge | None:
    while isinstance(region, Mapped):
        region = region.upstream
    return region.node if isinstance(region, United) else None


def _speaks(region: Region) -> bool:
    match region:
        case FromSource() | FromStage() | FromChannel():
            return False
        case Mapped():
            return overrides(region.node.op, "on_marker") or _speaks(region.upstream)
        case United():
            return any(map(_speaks, region.upstreams))


def _spoken(region: Region, marker: Marker, present: set[int], leaf: list[int]) -> tuple[bool, list[tuple[Any, Any]]]:
    """What the stateless operators of a region emit at a marker that the leaves ``present`` have sent."""
    match region:
        case FromSource() | FromStage() | FromChannel():
            leaf[0] += 1
            return leaf[0] - 1 in present, []
        case United():
            parts = [_spoken(one, marker, present, leaf) for one in region.upstreams]
            return any(has for has, _ in parts), [pair for _, pairs in parts for pair in pairs]
        case Mapped():
            has, pairs = _spoken(region.upstream, marker, present, leaf)
            out: list[tuple[Any, Any]] = []
            op = region.node.op
            assert isinstance(op, OpStateless)
            emit = conforming(op, region.stream, lambda key, value: out.append((key, value)))
            push = _stateless(region, emit)
            for key, value in pairs:
                push(key, value)
            if has:
                try:
                    op.on_marker(marker, emit)
                except OperatorFailed:
                    raise
                except Exception as error:
                    raise failed(op, "on_marker", f"marker {marker}", error) from error
            return has, out


# ------------------------------------------------------------------------------------- what a block holds


class Lists:
    """Holds a block as it comes: keys and values."""

    def hold(self, held: dict[int, Any], link: int, piece: Piece, batch: Batch) -> None:
        """Add items to their blocks."""
        last, pair = None, None
        for key, value, end in zip(batch.keys, batch.values, batch.ends, strict=True):
            if end != last or pair is None:
                last, pair = end, held.setdefault(end, ([], []))
            pair[0].append(key)
            pair[1].append(value)

    def unite(self, one: Any, other: Any) -> None:
        """Add the items of another block to one."""
        one[0].extend(other[0])
        one[1].extend(other[1])

    def take(self, block: Any) -> Any:
        """The block for the first step: pairs."""
        return Pairs([], []) if block is None else Pairs(*block)


MISSING = object()
"""Stands for an aggregate that is not there; None may be one."""


def runs_of(ends: list[int]) -> list[tuple[int, int]]:
    """Start and end of each run of equal numbers."""
    if not ends:
        return []
    array = np.array(ends, np.int64)
    starts = [0, *(np.nonzero(array[1:] != array[:-1])[0] + 1).tolist()]
    return list(zip(starts, [*starts[1:], len(ends)], strict=True))


class Folded:
    """Holds a block as its aggregates by key: for an ``OpKeyedUnordered`` that emits nothing for single items."""

    def __init__(self, op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any], monoid: Monoid | None) -> None:
        self.op, self.monoid = op, monoid

    def decode(self, stream: StreamType, payload: bytes) -> tuple[list[Any], list[Any], list[int]]:
        """Keys, aggregates and ends of a message of aggregates."""
        assert self.monoid is not None
        table = pa.ipc.open_stream(payload).read_next_batch()
        aggs = objects(self.monoid, parts_of(self.monoid, table), table.num_rows)
        return from_array(stream.key, table.column("key")), aggs, table.column("end").to_numpy().tolist()

    def absorb(self, held: dict[int, Any], keys: list[Any], aggs: list[Any], ends: list[int]) -> None:
        """Add aggregates to their blocks."""
        combine_ = self.op.combine
        key: Any = None
        try:
            last, sums = None, {}
            for key, agg, end in zip(keys, aggs, ends, strict=True):
                if end != last:
                    last, sums = end, held.setdefault(end, {})
                other = sums.get(key, MISSING)
                sums[key] = agg if other is MISSING else combine_(other, agg)
        except Exception as error:
            raise failed(self.op, "combine", f"key {key!r}, two parts of a block", error) from error

    def hold(self, held: dict[int, Any], link: int, piece: Piece, batch: Batch) -> None:
        """Add items to their blocks."""
        op = self.op
        lift, combine, identity = op.lift, op.combine, op.identity
        count = 0
        try:
            for start, end in runs_of(batch.ends):
                keys, values = batch.keys[start:end], batch.values[start:end]
                sums = held.setdefault(batch.ends[start], {})
                count, get = start, sums.get
                for key, lifted in zip(keys, map(lift, keys, values), strict=True):
                    agg = get(key, MISSING)
                    sums[key] = combine(identity() if agg is MISSING else agg, lifted)
                    count += 1
        except Exception as error:
            key, value = batch.keys[count], batch.values[count]
            raise failed(op, self._raising(key, value), f"item ({key!r}, {value!r})", error) from error

    def _raising(self, key: Any, value: Any) -> str:
        """Which method raised for an item. They are pure: they may be asked again."""
        for method, call in (("identity", self.op.identity), ("lift", lambda: self.op.lift(key, value))):
            try:
                call()
            except Exception:
                return method
        return "combine"

    def unite(self, one: Any, other: Any) -> None:
        """Add the aggregates of another block to one."""
        for key, agg in other.items():
            at = f"key {key!r}, two parts of a block"
            one[key] = guarded(self.op, "combine", at, self.op.combine, one[key], agg) if key in one else agg

    def take(self, block: Any) -> Any:
        """The block for the first step: aggregates by key."""
        return {} if block is None else block


class Placed:
    """Holds a block with the place of each item, for a stage that must restore the order of an O edge."""

    def __init__(self, kernel: StageKernel) -> None:
        value = kernel.stage.takes.value
        whole = canonical(value)
        self.by: list[Callable[[Any], Any] | None] = []
        for link in kernel.links:
            by = link.leaf.source.ordered_by if isinstance(link.leaf, FromSource) else None
            if by is None or isinstance(by, RowPosition):
                self.by.append(None)
            else:
                self.by.append(lambda v, by=by: (by(v), whole(v)))  # type: ignore[misc]

    def hold(self, held: dict[int, Any], link: int, piece: Piece, batch: Batch) -> None:
        """Add items to their blocks."""
        by = self.by[link]
        places: Iterable[Any] = batch.positions or [0] * len(batch)
        for key, value, end, position in zip(batch.keys, batch.values, batch.ends, places, strict=True):
            order = (link, by(value)) if by is not None else (link, piece, position)
            held.setdefault(end, []).append((order, key, value))

    def unite(self, one: Any, other: Any) -> None:
        """Add the items of another block to one."""
        one.extend(other)

    def take(self, block: Any) -> Any:
        """The block for the first step: lists of values by key, in order."""
        placed = sorted(block or (), key=itemgetter(0))
        return Runs.of([key for _, key, _ in placed], [value for _, _, value in placed])


Gatherer: TypeAlias = Lists | Folded | Placed


# ------------------------------------------------------------------------------------------------- steps

Flowing: TypeAlias = Pairs | Runs
"""A block between two steps. (A step that only sums up may take aggregates by key instead.)"""

Runner: TypeAlias = Callable[[list[Any], int, Any, Marker], Flowing]


def _sorter(node: Sort, step: Step) -> Runner:
    order, sorter, schema = sort_order(node, step.takes.value), Sorter(node, step.takes.value), step.takes.value

    def run(states: list[Any], at: int, flowing: Flowing, marker: Marker) -> Runs:
        runs = flowing.by_key()
        if len(runs.values) >= MANY:
            codes = np.repeat(np.arange(len(runs.keys)), runs.counts)
            with suppress(Undefined):
                rows_ = sorter.rows([codes], runs.values, lambda: array(schema, runs.values))
                return Runs(runs.keys, runs.counts, list(map(runs.values.__getitem__, rows_.tolist())))
        made: list[Any] = []
        for _, values in runs.runs():
            try:
                values.sort(key=order)
            except TypeError as error:
                raise incomparable(node, error) from error
            made.extend(values)
        return Runs(runs.keys, runs.counts, made)

    return run


class Emissions:
    """Collects what an operator emits for one key after another, made to fit the type of its output.

    Where nothing but an error shows when it is done, that is done for all of them at once.
    """

    def __init__(self, op: object, schema: Schema) -> None:
        self.op, self.schema, self.fit = op, schema, conformer(schema)
        self.later = checked_later(schema)

    def start(self) -> Callable[[Any], None]:
        """Begin anew: the ``emit`` for what follows."""
        self.keys: list[Any] = []
        self.counts: list[int] = []
        self.values: list[Any] = []
        self.key: Any = None
        self.done = 0
        return self.values.append if self.later else self._emit

    def _emit(self, value: Any) -> None:
        try:
            self.values.append(self.fit(value))
        except Mismatch as error:
            raise emitted_wrongly(self.op, error, self.key, value) from None

    def next(self, key: Any) -> None:
        """What was emitted since the last call was of ``key``."""
        count = len(self.values) - self.done
        if count:
            self.keys.append(key)
            self.counts.append(count)
            self.done = len(self.values)

    def end(self) -> Runs:
        """All that was emitted."""
        made = Runs(self.keys, self.counts, self.values)
        if self.later and not exactly(self.schema, self.values):
            fitted: list[Any] = []
            for key, value in zip(made.key_of_each(), self.values, strict=True):
                try:
                    fitted.append(self.fit(value))
                except Mismatch as error:
                    raise emitted_wrongly(self.op, error, key, value) from None
            made.values = fitted
        return made


def _ordered_runner(op: OpKeyedOrdered[Any, Any, Any, Any], step: Step) -> Runner:
    marks, emissions = overrides(op, "on_marker"), Emissions(op, step.gives.value)

    def run(states: list[Any], at: int, flowing: Flowing, marker: Marker) -> Runs:
        kept: dict[Any, Any] = states[at]
        key: Any = None
        method, shown = "on_item", ""
        value: Any = None
        emit, on_item, following = emissions.start(), op.on_item, emissions.next
        try:
            for key, values in flowing.by_key().runs():
                emissions.key = key
                if key in kept:
                    state = kept[key]
                else:
                    method, value = "initial_state", values[0]
                    state = op.initial_state()
                    method = "on_item"
                for value in values:
                    state = on_item(state, key, value, emit)
                kept[key] = state
                following(key)
            out = emissions.end()
            if not marks:
                return out
            method, shown = "on_marker", f"marker {marker}"
            emit, on_marker = emissions.start(), op.on_marker
            for key in kept:
                emissions.key = key
                kept[key] = on_marker(kept[key], key, marker, emit)
                following(key)
            return out.followed_by(emissions.end())
        except OperatorFailed:
            raise
        except Exception as error:
            following(key)
            emissions.end()  # what was emitted before may be the first error
            what = f"key {key!r}, {shown}" if shown else f"item ({key!r}, {value!r})"
            raise failed(op, method, what, error) from error

    return run


def _unordered_runner(op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any], step: Step, *, folded: bool) -> Runner:
    emits_items, skips = overrides(op, "on_item"), op.skips_untouched
    fold = Folded(op, None)

    def run(states: list[Any], at: int, flowing: Any, marker: Marker) -> Pairs:
        kept: UnorderedState = states[at]
        out = Pairs([], [])
        add_key, add_value = out.keys.append, out.values.append

        def add(key: Any, value: Any) -> None:
            add_key(key)
            add_value(value)

        emit = conforming(op, step.gives, add)
        key: Any = None
        value: Any = None
        method, where = "on_item", "item ({key!r}, {value!r})"
        try:
            if folded:
                sums = flowing
            else:
                keys, values = flowing.key_of_each(), flowing.values
                if emits_items:
                    for key, value in zip(keys, values, strict=True):
                        op.on_item(kept.states.get(key, kept.start), key, value, emit)
                held: dict[int, Any] = {}
                fold.hold(held, 0, (0, 0, 0), Batch(keys, values, [0] * len(keys)))
                sums = held.get(0, {})
            start, current = kept.start, kept.states
            if skips:
                touched: Iterable[Any] = sums
            else:
                for key in sums:
                    if key not in current:
                        current[key] = start
                touched = current
            where = "key {key!r}, marker {marker}"
            identity, update_state, on_marker = op.identity, op.update_state, op.on_marker
            for key in touched:
                method = "update_state"
                agg = sums[key] if key in sums else identity()
                state = current[key] = update_state(current.get(key, start), agg)
                method = "on_marker"
                on_marker(state, key, marker, emit)
            if not skips:
                method, where = "update_state", "marker {marker}"
                kept.start = op.update_state(start, op.identity())
        except OperatorFailed:
            raise
        except Exception as error:
            raise failed(op, method, where.format(key=key, value=value, marker=marker), error) from error
        return out

    return run


# ------------------------------------------------------------------------------------------------- outlets


class Passing:
    """The output of a stage on its way out: through the stateless operators of a path, as many items at once as can be."""

    def __init__(self, stage: Stage, path: Sequence[Mapped]) -> None:
        self.gives, self.path = stage.gives, path
        self.end = self.position = 0
        self.ahead: list[Ahead] = []
        self.push = chain(path, self.put, self)
        self.trees = trees_of(path)
        """None where items have to come as objects."""
        self.ready: list[Message] = []
        self.pending = Batch([], [], [], [])
        """Items before the path."""

    def put(self, key: Any, value: Any) -> None:
        """Take an item that comes out of the path; its block and position are the owner's."""
        raise NotImplementedError

    def extend(self, batch: Batch) -> None:
        """Take items that come out of the path."""
        raise NotImplementedError

    def columns(self, flows: list[tuple[Flow, Any]], positions: Any = None) -> bool:
        """Take items before the path as columns, each with the end of its block, and of the only flow with its position
        (None: 0); False when they have to come as objects."""
        if self.trees is None:
            return False
        made: list[Message] = []
        try:
            for whole, ends in flows:
                for flow in through(self.trees, whole):
                    some = slice(None) if flow.rows is None else flow.rows
                    made.extend(self._messages(flow, ends[some], None if positions is None else positions[some]))
        except Undefined:
            return False
        self.ready.extend(made)
        return True

    def _messages(self, flow: Flow, ends: Any, positions: Any) -> Iterable[Message]:
        """Messages of items that come out of the path as columns."""
        raise NotImplementedError

    def _pend(self, flowing: Flowing, end: int, positions: Iterable[int]) -> None:
        """Add the items of a block."""
        pending = self.pending
        pending.keys.extend(flowing.key_of_each())
        pending.values.extend(flowing.values)
        pending.ends.extend(repeat(end, len(flowing.values)))
        pending.positions.extend(positions)  # type: ignore[union-attr]

    def _flush(self) -> None:
        """Pass on what was added."""
        batch, self.pending = self.pending, Batch([], [], [], [])
        if not len(batch):
            return
        if not self.path:
            self.extend(batch)
        elif not self._through_columns(batch):
            made = in_bulk_through(self.path, batch)
            if made is not None:
                self.extend(made)
                return
            assert batch.positions is not None
            rows_ = zip(batch.keys, batch.values, batch.ends, batch.positions, strict=True)
            for key, value, self.end, self.position in rows_:
                self.push(key, value)
            flush(self.ahead)

    def _through_columns(self, batch: Batch) -> bool:
        if self.trees is None or len(batch) < MANY:
            return False
        key, value = self.gives.key, self.gives.value
        keys, values = from_arrow(key, array(key, batch.keys)), from_arrow(value, array(value, batch.values))
        flow = Flow(len(batch), None, inputs_of({"key": keys, "value": values}), keys, values)
        return self.columns([(flow, np.array(batch.ends, np.int64))], np.array(batch.positions, np.int64))


class ToStage(Passing):
    """The output of a stage on its way to a later one, by key group."""

    def __init__(self, stage: Stage, later: Stage, link: Link, key_groups: int) -> None:
        self.link, self.key_groups = link.number, key_groups
        self.outbox = Outbox(later, link.number, key_groups, later.restores)
        super().__init__(stage, link.path)
        if later.restores:
            self.trees = None

    def put(self, key: Any, value: Any) -> None:
        """Take an item that comes out of the path."""
        self.outbox.put(key, value, self.end, self.position)

    def extend(self, batch: Batch) -> None:
        """Take items that come out of the path."""
        self.outbox.extend(batch)

    def block(self, flowing: Flowing, marker: Marker, group: int) -> None:
        """Take the output of a block."""
        self._pend(flowing, marker.micros, range(len(flowing.values)))

    def _messages(self, flow: Flow, ends: Any, positions: Any) -> Iterable[Message]:
        return self.outbox.columns(header(link=self.link, piece=None), flow, ends, positions)

    def messages(self, group: int, markers: list[int], complete: bool) -> Iterator[Message]:
        """All that a step sends."""
        self._flush()
        yield from self.ready
        self.ready = []
        yield from self.outbox.messages(None)
        if group == 0 and (markers or complete):
            head = header(link=self.link, markers=markers, complete=complete)
            for to in range(self.key_groups):
                yield Message(to, Kind.MARKERS, head)


class ToSink(Passing):
    """The output of the last stage on its way to the sink, as rows."""

    def __init__(self, plan: Plan) -> None:
        self.region, self.layout = plan.region, plan.layout
        self.batch = Batch([], [], [], [])
        (link,) = links(plan.region)
        super().__init__(plan.stages[-1], link.path)
        self.stream = plan.region.stream
        self.speaks = _speaks(plan.region)

    def put(self, key: Any, value: Any) -> None:
        """Take an item that comes out of the path."""
        self.batch.put(key, value, self.end, self.position)

    def extend(self, batch: Batch) -> None:
        """Take items that come out of the path."""
        self.batch.extend(batch)

    def block(self, flowing: Flowing, marker: Marker, group: int) -> None:
        """Take the output of a block."""
        positions = flowing.places().tolist() if isinstance(flowing, Runs) else repeat(0, len(flowing.values))
        self._pend(flowing, marker.micros, positions)
        if self.speaks and group == 0:
            self.end, self.position = marker.micros, 0
            for key, value in _spoken(self.region, marker, {0}, [0])[1]:
                self.put(key, value)

    def _messages(self, flow: Flow, ends: Any, positions: Any) -> Iterable[Message]:
        assert flow.key is not None
        assert flow.value is not None
        keys = to_arrow(self.stream.key, flow.key, flow.count)
        values = to_arrow(self.stream.value, flow.value, flow.count)
        yield Message(0, Kind.ROWS, b"", to_bytes(rows_of_columns(self.layout, keys, values, ends, positions)))

    def messages(self, group: int, markers: list[int], complete: bool) -> Iterator[Message]:
        """All that a step sends."""
        self._flush()
        yield from self.ready
        self.ready = []
        batch, self.batch = self.batch, Batch([], [], [], [])
        for at in range(0, len(batch), BATCH):
            to = at + BATCH
            places = (batch.positions or [])[at:to]
            part = Batch(batch.keys[at:to], batch.values[at:to], batch.ends[at:to], places)
            yield Message(0, Kind.ROWS, b"", to_bytes(rows(self.layout, part)))


def trees_of(path: Sequence[Mapped]) -> list[tuple[Tree, StreamType]] | None:
    """The traced operators of a path, each with the stream that it gives; None when one of them is opaque."""
    found = [(mapped.traced, mapped.stream) for mapped in path if not isinstance(mapped.traced, Opaque)]
    return found if len(found) == len(path) else None


def joined(emitted: dict[int, list[Flow]]) -> list[tuple[Flow, Any]]:
    """The output of several blocks as one. Raises :class:`Undefined` when it has no structure in common."""
    flows = [(end, flow) for end, found in emitted.items() for flow in found]
    if not flows:
        return []
    keys = concat([(flow.key, flow.count) for _, flow in flows if flow.key is not None])
    values = concat([(flow.value, flow.count) for _, flow in flows if flow.value is not None])
    ends = np.repeat([end for end, _ in flows], [flow.count for _, flow in flows])
    return [(Flow(len(ends), None, inputs_of({"key": keys, "value": values}), keys, values), ends)]


Outlet: TypeAlias = ToStage | ToSink
