"""What runs inside a worker behind an exchange, without a backend: one key group of a stage for one epoch.

An epoch is whatever the backend delivers at once (a micro-batch): an exchange is a barrier, so when a stage sees the report of
a piece it has all items of that piece. Messages of an epoch come in any order. The way of the data:

1. :class:`StageKernel` sorts the messages: reports and markers first, then items; late items and rejects pass.
2. :class:`Frontier` takes reports and markers. It knows then which block each item belongs to, and which markers are due.
3. :class:`OpenBlocks` hold the items, and give up the blocks whose markers are due.
4. :class:`Pipeline` takes these blocks through the operators of the stage to its emitter.

What is learned meanwhile lies in an :class:`Epoch`, what stays in a :class:`StageState`.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeAlias, final

from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.columns.ordering import Sorter
from tracetypes.compiler.plan.facts import closing_of, columns_in_order, emits_at_markers, is_straight, joins_of
from tracetypes.compiler.plan.plan import Plan, Stage
from tracetypes.compiler.runtime import limits, side_rows
from tracetypes.compiler.runtime.at_markers import AtMarkers
from tracetypes.compiler.runtime.blocks import Lists, PositionBlock, folded_by
from tracetypes.compiler.runtime.chosen_blocks import ChosenBlocks, WholeBlocks
from tracetypes.compiler.runtime.closing_check import ClosingCheck
from tracetypes.compiler.runtime.column_states import Columnar
from tracetypes.compiler.runtime.emissions import HELD_BACK, Outlet
from tracetypes.compiler.runtime.epoch import Epoch
from tracetypes.compiler.runtime.frontier import Frontier, KeyGroups
from tracetypes.compiler.runtime.join_check import JoinCheck
from tracetypes.compiler.runtime.joined_blocks import JoinByBlocks, JoinedBlocks
from tracetypes.compiler.runtime.messages import (
    NOWHERE,
    Aggregates,
    Drain,
    Items,
    Markers,
    Message,
    Metrics,
    Partials,
    Report,
    SideRows,
    StageProgress,
)
from tracetypes.compiler.runtime.open_blocks import Arrived, FoldedBlocks, ObjectBlocks, OpenBlocks, Owners
from tracetypes.compiler.runtime.open_columns import ColumnBlocks
from tracetypes.compiler.runtime.open_tables import Place, SortedBlocks, TableBlocks
from tracetypes.compiler.runtime.overlapping_blocks import OverlappingBlocks, OverlappingWindows
from tracetypes.compiler.runtime.pipeline import Pipeline
from tracetypes.compiler.runtime.state import StageState, keys_held
from tracetypes.compiler.runtime.verification import Verifier, verified
from tracetypes.nodes import Restore, Sort
from tracetypes.templates import OpKeyedUnordered

__all__ = ["StageKernel", "rarely_collected"]


class _RareCollection:
    """Looks for cyclic garbage less often while it is open: a block makes many objects that all stay, and none of ours are
    cycles. By Python's own measure each 700 objects are worth a look, a fifth of the time of a large block. Any number of threads
    may have it open; the last one restores the measure, which is the process's, and the largest block counts."""

    def __init__(self) -> None:
        self.lock, self.count = threading.RLock(), 0
        self.usual = gc.get_threshold()

    @contextmanager
    def during(self, items: int) -> Iterator[None]:
        """Open for so many items: they, their states and what they emit do not wake it, but many times as many objects do."""
        with self.lock:
            if not self.count:
                self.usual = gc.get_threshold()
            if self.usual[0]:
                young = max(gc.get_threshold()[0], limits.YOUNG, limits.PER_ITEM * items)
                gc.set_threshold(young, *self.usual[1:])
            self.count += 1
        try:
            yield
        finally:
            self._close()

    def _close(self) -> None:
        with self.lock:
            self.count -= 1
            if not self.count:
                gc.set_threshold(*self.usual)


rarely_collected: Final = _RareCollection()


def _rows(arrived: Arrived) -> int:
    return arrived.count if isinstance(arrived, Items) else 0


Opened: TypeAlias = Callable[[StageState, Epoch], OpenBlocks]


def _opened(stage: Stage, groups: KeyGroups, verifier: Verifier | None, *, as_columns: bool) -> Opened:
    """How a stage holds open blocks. ``as_columns``: what leaves the first operator may leave the stage as columns."""
    takes, marked = stage.takes, emits_at_markers(stage.region)
    watch = None if verifier is None else verifier.combining(stage)
    first, folded = (stage.steps[0] if stage.steps else None), folded_by(stage, watch)
    if first is None and as_columns and not marked:
        return partial(TableBlocks, takes)
    if first is not None and isinstance(first.node, Sort) and not marked:
        sorter, place = Sorter(first.node, takes.value), _place(stage, verifier)
        return partial(SortedBlocks, takes, sorter=sorter, place=place, as_columns=columns_in_order(stage) > 0)
    at_markers = AtMarkers.of(stage.region, groups, verifier)
    if first is None or folded is None:
        buffer = PositionBlock(stage) if first is not None and isinstance(first.node, Restore) else Lists()
        owners = Owners(stage) if stage.restores else None
        return partial(ObjectBlocks, takes, buffer=buffer, at_markers=at_markers, owners=owners)
    if (closes := closing_of(stage)) is not None:
        seen = None if verifier is None else ClosingCheck(verifier, first)
        blocks = WholeBlocks(closes, first.gives, seen)
        if closes.reach and stage.tumbles is None:
            return partial(OverlappingBlocks, takes, folded=folded, windows=OverlappingWindows(blocks, takes, stage.pane))
        return partial(ChosenBlocks, takes, folded=folded, blocks=blocks)
    if (join := _join_of(stage, verifier)) is not None:
        return partial(JoinedBlocks, takes, folded=folded, join=join)
    if isinstance(first.keyed, Opaque) or marked:
        return partial(FoldedBlocks, takes, folded=folded, at_markers=at_markers)
    sums = closing = None
    if verifier is not None:
        sums, closing = verifier.sums(stage), verifier.closing(folded.op, first.keyed)
    columnar = Columnar(folded.op, first.keyed, sums, closing, tumbles=stage.tumbles is not None, pane=stage.pane)
    return partial(ColumnBlocks, takes, folded=folded, columnar=columnar, as_columns=as_columns)


def _join_of(stage: Stage, verifier: Verifier | None) -> JoinByBlocks | None:
    """The join by key and block that runs over columns."""
    traced, op, whole = joins_of(stage), stage.steps[0].operator, stage.tumbles is not None
    its = op._joins() if isinstance(op, OpKeyedUnordered) else None
    if traced is None or its is None:
        return None
    seen = None if verifier is None else JoinCheck(verifier, stage.steps[0], its, traced, whole=whole)
    return JoinByBlocks(traced, its, whole, stage.pane, seen)


def _place(stage: Stage, verifier: Verifier | None) -> Place | None:
    """What sorts the items of a stage as columns."""
    sort = stage.steps[0]
    if isinstance(sort.place, Opaque) or not isinstance(sort.node, Sort):
        return None
    node = sort.node
    seen = [] if verifier is None else [verifier.sorting(node, tree, schema) for schema, tree in sort.place]
    return Place(sort.place, seen)


@final
class StageKernel:
    """One stage of a plan; :meth:`step` runs one key group of it."""

    def __init__(self, plan: Plan, stage: Stage, verifier: Verifier | None = None, *, bags: bool = False) -> None:
        """``verifier``: one that other kernels have, too; None for one of its own. ``bags`` as of :class:`Frontier`."""
        self.stage = stage
        self.verifier = Verifier.of(plan) if verifier is None else verifier
        groups = KeyGroups(stage.takes.key, 1 if is_straight(plan) else plan.key_groups)
        self.frontier = Frontier(stage, groups, bags=bags)
        self.pipeline = Pipeline(plan, stage, self.verifier)
        self.opened = _opened(stage, groups, self.verifier, as_columns=self.pipeline.as_columns)

    def fresh(self) -> StageState:
        """The state before the first epoch."""
        return StageState(progress=self.frontier.fresh(), operators=self.pipeline.fresh())

    def step(
        self,
        state: StageState,
        group: int,
        messages: Iterable[Message],
        limit: int | None = None,
        outlet: Outlet = HELD_BACK,
    ) -> Iterator[Message]:
        """Take the messages of one epoch, in any order; close the blocks that can be closed; give what comes out. ``limit``: no
        marker behind it closes a block. ``outlet``: takes rows before the epoch ends."""
        self.epoch = Epoch(group, [0] * (len(self.stage.steps) + 1), outlet, limit=limit)
        if self.verifier is not None:
            self.verifier.start(group, state.closed or 0)
        late: dict[str, int] = {}
        rejects: dict[str, int] = {}
        for message in self._run(state, self.epoch, messages):
            match message.body:
                case SideRows(holds, source) as some:
                    counts = late if holds == "late" else rejects
                    counts[source] = counts.get(source, 0) + some.batch.num_rows
                case _:
                    pass
            yield message
        if group == 0:
            yield self._progress(state, self.epoch, late, rejects)
        yield from verified(self.verifier)

    def _run(self, state: StageState, epoch: Epoch, messages: Iterable[Message]) -> Iterator[Message]:
        blocks = self.opened(state, epoch)
        items: list[Arrived] = []
        reports: list[Report] = []
        aside: list[SideRows] = []
        drained = False
        for message in messages:
            match message.body:
                case Items() | Aggregates() | Partials() as some:
                    items.append(some)
                case Report() as report:
                    reports.append(report)
                case Markers() as markers:
                    self.frontier.markers(state.progress[markers.link], markers)
                case Drain():
                    drained = True
                case SideRows() as rows:
                    aside.append(rows)
                case _:
                    yield message
        self.frontier.advance(state.progress, epoch, reports, blocks)
        for rows in aside:  # what earlier pieces of the epoch closed is known only here
            yield Message(0, side_rows.placed(rows, epoch.frontiers))
        with rarely_collected.during(sum(map(_rows, items))):
            self._hold(state, epoch, blocks, items)
            complete = self._close(state, epoch, blocks, drained=drained)
        yield from epoch.aside
        yield from self.pipeline.messages(epoch, complete=complete)

    def _hold(self, state: StageState, epoch: Epoch, blocks: OpenBlocks, items: Sequence[Arrived]) -> None:
        """Hold what has come for the blocks that are open."""
        if items:
            blocks.expect(items)
        for one in items:
            placing = self.frontier.placing(state.progress, epoch, one.link, one.piece or NOWHERE)
            epoch.flowed[0] += blocks.take(one, placing)

    def _close(self, state: StageState, epoch: Epoch, blocks: OpenBlocks, *, drained: bool) -> bool:
        """Close the blocks that can be closed; whether no more will come."""
        if drained:
            self.frontier.drain(state.progress, epoch, blocks)
        coming = self.frontier.due(state.progress, epoch, blocks)
        ends = epoch.closed = coming.markers
        complete = all(part.complete for parts in state.progress for part in parts)
        busy = ends.up_to(blocks.last()) if complete else ends
        if busy:
            self.pipeline.close(state.operators, blocks, coming.only(busy), epoch)
        if complete:
            last = ends[-1] if ends else state.closed
            if last is not None:
                idle = ends.after(busy[-1]) if busy else ends
                self.pipeline.end(state.operators, blocks, idle, last, epoch)
        state.closed = epoch.closed[-1] if epoch.closed else state.closed
        return complete

    # ------------------------------------------------------------------------------------ what is told of it

    def metrics(self, state: StageState, group: int, size: int) -> Message:
        """What the last epoch took, and what the group holds. ``size``: of the state, in bytes."""
        body = Metrics(
            stage=self.stage.number,
            group=group,
            flowed=self.epoch.flowed,
            emitted=self.epoch.emitted,
            keys=[keys_held(operator) for operator in state.operators],
            markers=len(self.epoch.closed),
            marker=state.closed,
            bytes=size,
        )
        return Message(group, body)

    def _progress(self, state: StageState, epoch: Epoch, late: dict[str, int], rejects: dict[str, int]) -> Message:
        """What an epoch did. Late and rejected rows are counted where they pass: they are counted by the last stage."""
        body = StageProgress(
            stage=self.stage.number,
            markers=epoch.closed,
            newest=self.frontier.newest(state.progress),
            seen=self.frontier.seen(state.progress),
            rows=epoch.rows,
            read=epoch.read,
            late=late,
            rejects=rejects,
            complete=all(progress.complete for parts in state.progress for progress in parts),
            silence=epoch.silence,
            jumps=tuple(epoch.jumps),
        )
        return Message(0, body)
