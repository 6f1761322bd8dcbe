"""What runs inside a worker behind an exchange, without a backend: :class:`StageKernel` runs one key group of a stage for one
step.

A step is whatever the backend delivers at once (a micro-batch): an exchange is a barrier, so when a stage sees the
report of a piece it has all items of that piece. Rows of a step come in any order.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.columns.arrow import Batch, array, decode, from_array
from tracetypes.compiler.columns.column import Columns, from_arrow, inputs_of, values_of
from tracetypes.compiler.columns.ordering import Pairs, Runs, Sorter, codes_of
from tracetypes.compiler.plan.facts import combining, speaks, sums_only
from tracetypes.compiler.plan.plan import FromSource, FromStage, Link, Mapped, Plan, Region, Stage, Step, United, links
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.blocks import BlockBuffer, Folded, Lists, Placed
from tracetypes.compiler.runtime.column_states import Columnar, ColumnState
from tracetypes.compiler.runtime.emitter import Emitter, ToSink, ToStage, joined
from tracetypes.compiler.runtime.frontier import Progress, due, reached
from tracetypes.compiler.runtime.messages import Kind, Message, Piece, Report, RetryEpoch, header, loads
from tracetypes.compiler.runtime.operators import UnorderedState, ordered_runner, sorter_of, unordered_runner
from tracetypes.compiler.runtime.partial_aggregation import Flow, parts_of
from tracetypes.compiler.runtime.source import Collected
from tracetypes.compiler.runtime.stateless import chain, emitted_at_marker, flush
from tracetypes.compiler.runtime.verification import Verifier, verified
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.errors import RunError
from tracetypes.graph import Apply, Merge, Restore, RowPosition, Sort, Source, title
from tracetypes.interpreter import check_jump, first_open, guarded, overlapping
from tracetypes.markers import EventTime, InBand, Marker
from tracetypes.records import UNIT, stable_hash
from tracetypes.rejects import Rejected
from tracetypes.templates import OpKeyedOrdered, OpKeyedUnordered

__all__ = ["OPEN", "StageKernel", "StageState", "keys_held", "rarely_collected", "reason_of"]


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Look for cyclic garbage less often: a block makes many objects that all stay, and none of ours are cycles. By Python's
    own measure each 700 objects are worth a look, a fifth of the time of a large block."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], limits.YOUNG) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


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
        self.verifier = Verifier.of(plan)
        self.first = stage.steps[0] if stage.steps else None
        self.gather = self._gatherer()
        self.ordered_merge = _ordered_merge(stage.region) if len(self.links) > 1 and stage.restores else None
        self.restored = stage.restores
        self.speaks = speaks(stage.region)
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
        for later in self.plan.stages[self.stage.number + 1 :]:
            if not any(isinstance(leaf, FromStage) and leaf.stage == self.stage.number for leaf in later.region.leaves):
                continue
            for link in links(later.region):
                if isinstance(link.leaf, FromStage) and link.leaf.stage == self.stage.number:
                    self.outlet: Emitter = ToStage(self.stage, later, link, self.key_groups, self.verifier)
                    return
        self.outlet = ToSink(self.plan, self.verifier)

    def _columnar(self) -> Columnar | None:
        """How the first operator runs over columns, where it can."""
        step = self.first
        if step is None or isinstance(step.keyed, Opaque) or not sums_only(self.stage) or self.speaks:
            return None
        assert isinstance(step.node, Apply)
        assert isinstance(step.node.op, OpKeyedUnordered)
        if self.verifier is None:
            return Columnar(step.node.op, step.keyed)
        closed = self.verifier.closing(step.node.op, step.keyed)
        return Columnar(step.node.op, step.keyed, self.verifier.sums(self.stage), closed)

    def fresh(self) -> StageState:
        """The state before the first step."""
        return StageState(
            progress=[[Progress()] for _ in self.links], operators=[self._initial(step) for step in self.stage.steps]
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
        if self.verifier is not None:
            self.verifier.start(group, state.closed or 0)
        late: dict[str, int] = {}
        rejects: dict[str, int] = {}
        for message in self._step(state, group, messages):
            if message.kind in (Kind.LATE, Kind.REJECT):
                counts, source = (late if message.kind == Kind.LATE else rejects), message.head["source"]
                counts[source] = counts.get(source, 0) + 1
            yield message
        if group == 0:
            yield self._progress(state, late, rejects)
        yield from verified(self.verifier)

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
            raise RetryEpoch(again)
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
        if len(objects_.states) < limits.MANY or self.columnar.keyed.skips:
            rows_, blocks = 0, set[int]()
            for message in items:
                if message.kind == Kind.AGGREGATES:
                    ends = pa.ipc.open_stream(message.payload).read_next_batch().column("end")
                    rows_ += len(ends)
                    blocks.update(ends.unique().to_pylist())
            if rows_ < limits.MANY * max(len(blocks), 1):
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

    def _block(self, state: StageState, group: int, end: int, present: set[int], outlet: Emitter) -> None:
        marker = Marker(end)
        held = state.held.pop(end, None)
        if self.speaks:
            spoken = Batch([], [], [], None)
            for key, value in emitted_at_marker(self.stage.region, marker, present):
                if self.hash(key) % self.key_groups == group:
                    spoken.keys.append(key)
                    spoken.values.append(value)
                    spoken.ends.append(end)
            if len(spoken):
                late: dict[int, Any] = {} if held is None else {end: held}
                self.gather.hold(late, 0, (0, 0, 0), spoken)
                held = late[end]
        self._run(state, group, self.gather.take(held), end, outlet, start=0)

    def _run(self, state: StageState, group: int, flowing: Any, end: int, outlet: Emitter, *, start: int) -> None:
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

    def _gatherer(self) -> BlockBuffer:
        step = self.first
        if step is None:
            return Lists()
        if isinstance(step.node, Restore):
            return Placed(self.stage)
        op = step.node.op if isinstance(step.node, Apply) else None
        if isinstance(op, OpKeyedUnordered) and sums_only(self.stage):
            return Folded(op, combining(self.stage))
        return Lists()

    def _runner(self, at: int, step: Step) -> Callable[[list[Any], int, Any, Marker], Any]:
        node = step.node
        if isinstance(node, Restore):
            return lambda states, at, flowing, marker: flowing
        if isinstance(node, Sort):
            return sorter_of(node, step)
        op = node.op
        if isinstance(op, OpKeyedOrdered):
            return ordered_runner(op, step)
        assert isinstance(op, OpKeyedUnordered)
        return unordered_runner(op, step, folded=at == 0 and isinstance(self.gather, Folded))


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
    behind = (node for node in reversed(region.nodes) if not isinstance(node, Mapped))
    last = next(behind)
    return last.node if isinstance(last, United) else None
