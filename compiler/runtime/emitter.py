"""Where the output of a stage goes: to a later stage, or to the sink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, TypeAlias, final

import numpy as np
import pyarrow as pa

from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.batches import Batch, rows, rows_of_columns
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.conversion import from_arrow, to_arrow
from tracetypes.compiler.columns.ordering import Runs, array_of_runs
from tracetypes.compiler.plan.facts import emits_at_markers
from tracetypes.compiler.plan.plan import Link, Plan, Stage, StatelessStep, links
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.at_markers import emitted_at_marker
from tracetypes.compiler.runtime.flows import KeyedFlow, through
from tracetypes.compiler.runtime.messages import Markers, Message, Rows
from tracetypes.compiler.runtime.operators import Flowing
from tracetypes.compiler.runtime.partitioner import Partitioner
from tracetypes.compiler.runtime.stateless import ItemPath, batch_in_bulk, trees_of
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.marker_runs import MarkerRuns
from tracetypes.markers import Marker
from tracetypes.silence import NO_SILENCE, Silence

__all__ = ["Emitted", "Emitter", "PathOutput", "ToSink", "ToStage", "joined"]


NOTHING: Final[Mapping[Any, int]] = {}


@final
class Emitted:
    """What blocks have emitted, as objects: by key, as it came. ``by_key``: the position of an item is its place among those of
    its key and block; otherwise among those of its block."""

    def __init__(self, *, by_key: bool) -> None:
        self.by_key = by_key
        self.keys: list[Any] = []
        self.counts: list[int] = []
        self.ends: list[int] = []
        self.origins: list[int] = []
        self.values: list[Any] = []
        self.before: list[tuple[int, int]] = []
        """Runs of which some rows have left before, and how many."""

    def __len__(self) -> int:
        return len(self.values)

    def add(self, flowing: Flowing, end: int, before: Mapping[Any, int] = NOTHING) -> None:
        """Add the items of a block. ``before``: how many items of a key have left before."""
        keys = flowing.keys
        if before:
            self.before += [(at, before[key]) for at, key in enumerate(keys, len(self.keys)) if key in before]
        self.origins.extend(repeat(len(self.values), len(keys)))
        self.keys.extend(keys)
        self.counts.extend(flowing.counts if isinstance(flowing, Runs) else repeat(1, len(keys)))
        self.ends.extend(repeat(end, len(keys)))
        self.values.extend(flowing.values)

    def columns(self) -> tuple[Any, Any, Any]:
        """Of each item the number of its key in ``keys``, the end of its block and its position (all int64)."""
        counts = np.array(self.counts, np.int64)
        origins = np.cumsum(counts) - counts if self.by_key else np.array(self.origins, np.int64)
        for run, count in self.before:
            origins[run] -= count
        numbers = np.repeat(np.arange(len(counts)), counts)
        positions = np.arange(len(numbers)) - origins[numbers]
        return numbers, np.array(self.ends, np.int64)[numbers], positions

    def batch(self) -> Batch:
        """The items one by one."""
        _, ends, positions = self.columns()
        keys = Runs(self.keys, self.counts, self.values).key_of_each()
        return Batch(keys, self.values, ends.tolist(), positions.tolist())


class PathOutput:
    """The output of a stage on its way out: through the stateless operators of a path, as many items at once as can be."""

    by_key = False
    """Whether the position of an item is its place among those of its key."""

    goes_in_pieces = False
    """Whether items of a block may leave before the others: by key they need no places in the block."""

    def __init__(self, stage: Stage, path: Sequence[StatelessStep], verifier: Verifier | None) -> None:
        self.gives, self.path = stage.gives, path
        self.seen = None if verifier is None else verifier.along(path)
        self.verifier = verifier
        self.one_by_one = ItemPath(path, self.put, verifier)
        self.trees = trees_of(path)
        """None where items have to come as objects."""
        self.ready: list[Message] = []
        self.pending = Emitted(by_key=self.by_key)
        """Items before the path."""

    def put(self, key: Any, value: Any, end: int, position: int) -> None:
        """Take an item that comes out of the path."""
        raise NotImplementedError

    def extend(self, batch: Batch) -> None:
        """Take items that come out of the path."""
        raise NotImplementedError

    def take(self, emitted: Emitted) -> None:
        """Take items where there is no path."""
        self.extend(emitted.batch())

    def columns(self, flows: list[tuple[KeyedFlow, Any]], positions: Any = None) -> bool:
        """Take items before the path as columns, each with the end of its block, and of the only flow with its position
        (None: 0); False when they have to come as objects."""
        if self.trees is None:
            return False
        messages: list[Message] = []
        try:
            for whole, ends in flows:
                for flow in through(self.trees, whole, self.seen):
                    some = slice(None) if flow.rows is None else flow.rows
                    messages.extend(self._messages(flow, ends[some], None if positions is None else positions[some]))
        except Undefined:
            return False
        self.ready.extend(messages)
        return True

    def _messages(self, flow: KeyedFlow, ends: Any, positions: Any) -> Iterable[Message]:
        """Messages of items that come out of the path as columns."""
        raise NotImplementedError

    def _flush(self) -> None:
        """Pass on what was added."""
        emitted, self.pending = self.pending, Emitted(by_key=self.by_key)
        if not len(emitted):
            return
        if not self.path:
            self.take(emitted)
        elif not self._through_columns(emitted):
            batch = emitted.batch()
            results = batch_in_bulk(self.path, batch, self.verifier)
            if results is not None:
                self.extend(results)
                return
            assert batch.positions is not None
            put = self.one_by_one.put
            for key, value, end, position in zip(batch.keys, batch.values, batch.ends, batch.positions, strict=True):
                put(key, value, end, position)
            self.one_by_one.flush()

    def _through_columns(self, emitted: Emitted) -> bool:
        if self.trees is None or len(emitted) < limits.MANY:
            return False
        key, value = self.gives.key, self.gives.value
        numbers, ends, positions = emitted.columns()
        keys = from_arrow(key, array_of_runs(key, emitted.keys).take(pa.array(numbers)))
        flow = KeyedFlow.of(keys, from_arrow(value, array(value, emitted.values)), len(emitted))
        return self.columns([(flow, ends)], positions)


class ToStage(PathOutput):
    """The output of a stage on its way to a later one, by key group."""

    emits_at_markers = False
    """The stateless operators behind the stage emit at markers where the later one closes its blocks."""

    def __init__(
        self, stage: Stage, later: Stage, link: Link, key_groups: int, verifier: Verifier | None = None
    ) -> None:
        self.link, self.key_groups = link.number, key_groups
        sums = None if verifier is None else verifier.sums(later)
        choosing = None if verifier is None else verifier.choosing(later)
        watch = None if verifier is None else verifier.combining(later)
        self.partitioner = Partitioner(later, link.number, key_groups, later.restores, sums, choosing, watch)
        super().__init__(stage, link.path, verifier)

    def put(self, key: Any, value: Any, end: int, position: int) -> None:
        """Take an item that comes out of the path."""
        self.partitioner.put(key, value, end, position)

    def extend(self, batch: Batch) -> None:
        """Take items that come out of the path."""
        self.partitioner.extend(batch)

    def block(self, flowing: Flowing, marker: Marker, group: int, before: Mapping[Any, int] = NOTHING) -> None:
        """Take the output of a block. ``before``: how many items of a key have left before."""
        self.pending.add(flowing, marker.micros, before)

    def positions(self, ends: Any, places: Any) -> Any:
        """Of items by block: their places in their blocks (int64)."""
        return np.arange(len(ends)) - np.searchsorted(ends, ends)

    def _messages(self, flow: KeyedFlow, ends: Any, positions: Any) -> Iterable[Message]:
        return self.partitioner.columns(None, flow, ends, positions)

    def messages(
        self, group: int, markers: MarkerRuns, complete: bool, silence: Silence = NO_SILENCE, frontier: int | None = None
    ) -> Iterator[Message]:
        """All that a step sends."""
        self._flush()
        yield from self.ready
        self.ready = []
        yield from self.partitioner.messages(None)
        if group == 0 and (markers or complete or frontier is not None):
            message = Markers(self.link, markers, complete, silence, frontier)
            for to in range(self.key_groups):
                yield Message(to, message)


class ToSink(PathOutput):
    """The output of the last stage on its way to the sink, as rows."""

    by_key = goes_in_pieces = True

    def __init__(self, plan: Plan, verifier: Verifier | None = None) -> None:
        self.region, self.layout = plan.region, plan.layout
        self.batch = Batch([], [], [], [])
        (link,) = links(plan.region)
        super().__init__(plan.stages[-1], link.path, verifier)
        self.stream = plan.region.stream
        self.emits_at_markers = emits_at_markers(plan.region)

    def put(self, key: Any, value: Any, end: int, position: int) -> None:
        """Take an item that comes out of the path."""
        self.batch.put(key, value, end, position)

    def extend(self, batch: Batch) -> None:
        """Take items that come out of the path."""
        self.batch.extend(batch)

    def take(self, emitted: Emitted) -> None:
        """Take items where there is no path: each key of a block becomes a value of Arrow once."""
        numbers, ends, positions = emitted.columns()
        keys = array_of_runs(self.layout.key, emitted.keys) if self.layout.keyed else pa.nulls(len(emitted.keys))
        for at in range(0, len(emitted), limits.BATCH):
            part = slice(at, at + limits.BATCH)
            values = array(self.layout.value, emitted.values[part])
            some = rows_of_columns(self.layout, keys.take(pa.array(numbers[part])), values, ends[part], positions[part])
            self.ready.append(Message(0, Rows(some)))

    def block(self, flowing: Flowing, marker: Marker, group: int, before: Mapping[Any, int] = NOTHING) -> None:
        """Take the output of a block. ``before``: how many items of a key have left before."""
        self.pending.add(flowing, marker.micros, before)
        if self.emits_at_markers and group == 0:
            for key, value in emitted_at_marker(self.region, marker, {0}, watches=self.verifier):
                self.put(key, value, marker.micros, 0)

    def positions(self, ends: Any, places: Any) -> Any:
        """Of items by block and key: ``places``, their places among those of their key."""
        return places

    def _messages(self, flow: KeyedFlow, ends: Any, positions: Any) -> Iterable[Message]:
        keys = to_arrow(self.stream.key, flow.key, flow.count, keep_codes=True)
        values = to_arrow(self.stream.value, flow.value, flow.count, keep_codes=True)
        yield Message(0, Rows(rows_of_columns(self.layout, keys, values, ends, positions)))

    def piece(self, flowing: Flowing, marker: Marker, before: Mapping[Any, int]) -> Iterator[Message]:
        """Messages of items of a block that leave before the others, and of all that came before them."""
        self.pending.add(flowing, marker.micros, before)
        yield from self._all()

    def messages(
        self, group: int, markers: MarkerRuns, complete: bool, silence: Silence = NO_SILENCE, frontier: int | None = None
    ) -> Iterator[Message]:
        """All that a step sends."""
        yield from self._all()

    def _all(self) -> Iterator[Message]:
        self._flush()
        yield from self.ready
        self.ready = []
        batch, self.batch = self.batch, Batch([], [], [], [])
        for at in range(0, len(batch), limits.BATCH):
            to = at + limits.BATCH
            places = (batch.positions or [])[at:to]
            part = Batch(batch.keys[at:to], batch.values[at:to], batch.ends[at:to], places)
            yield Message(0, Rows(rows(self.layout, part)))


def joined(emitted: dict[int, list[KeyedFlow]]) -> list[tuple[KeyedFlow, Any]]:
    """The output of several blocks as one. Raises :class:`Undefined` when it has no structure in common."""
    flows = [(end, flow) for end, some in emitted.items() for flow in some]
    if not flows:
        return []
    keys = concat([(flow.key, flow.count) for _, flow in flows])
    values = concat([(flow.value, flow.count) for _, flow in flows])
    ends = np.repeat([end for end, _ in flows], [flow.count for _, flow in flows])
    return [(KeyedFlow.of(keys, values, len(ends)), ends)]


Emitter: TypeAlias = ToStage | ToSink
