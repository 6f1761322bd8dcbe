"""A summary of the state of each stage of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import nsmallest
from typing import Any

import attrs

from tracetypes.compiler.columns.conversion import values_of
from tracetypes.compiler.runtime.column_states import ColumnState
from tracetypes.compiler.runtime.held_items import HeldItems
from tracetypes.compiler.runtime.operators import UnorderedState
from tracetypes.compiler.runtime.ordered_states import OrderedState
from tracetypes.compiler.runtime.state import StageState, items_waiting
from tracetypes.compiler.store.inspection import Blobs, CheckpointView, StageAbout, states
from tracetypes.compiler.store.state_values import iso, plain, when
from tracetypes.errors import counted
from tracetypes.records import show

__all__ = ["StageSummary", "keys_of", "summaries"]


@attrs.frozen
class StageSummary:
    """The state of a stage. ``operators``: each with its number of keys, and whether it has them as columns in some key
    group. ``sizes``: bytes by key group. ``open``: ends of the open blocks that hold something. ``waiting``: items that wait in
    them. ``closed``: the last closed marker. ``keys``: some of the ``distinct`` keys."""

    stage: StageAbout
    operators: tuple[tuple[str, int, bool], ...]
    sizes: Mapping[int, int]
    open: tuple[int, ...]
    waiting: int
    closed: int | None
    distinct: int
    keys: tuple[Any, ...]

    @property
    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "stage": self.stage.number,
            "operators": [{"operator": name, "keys": keys, "columns": col} for name, keys, col in self.operators],
            "bytes": sum(self.sizes.values()),
            "groups": [{"group": group, "bytes": size} for group, size in self.sizes.items()],
            "closed": None if self.closed is None else iso(self.closed),
            "open": [iso(end) for end in self.open],
            "waiting": self.waiting,
            "keys": [plain(key) for key in self.keys],
        }

    def lines(self, limit: int) -> Iterator[str]:
        """The summary as text. ``limit``: the largest number of blocks and key groups to show."""
        size, groups = sum(self.sizes.values()), len(self.sizes)
        closed = "no block closed yet" if self.closed is None else f"closed up to {when(self.closed)}"
        yield f"stage {self.stage.number}: {size:,} bytes in {counted(groups, 'key group')}, {closed}"
        for name, keys, columns in self.operators:
            kept = "keeps nothing between blocks" if name in ("sort", "SORT") else counted(keys, "key")
            yield f"    {name}: {kept}{', as columns' if columns else ''}"
        if not self.operators:
            yield "    no operators: it closes blocks"
        if self.keys:
            yield f"    keys: {_listed([show(key) for key in self.keys], self.distinct)}"
        if self.open:
            waiting = f"; {counted(self.waiting, 'item')} wait in them" if self.waiting else ""
            yield f"    open blocks, by their end: {_listed([when(end) for end in self.open[:limit]], len(self.open))}{waiting}"
        lines = [f"{group}: {size:,}" for group, size in self.sizes.items()]
        yield f"    bytes by key group: {_listed(lines[:limit], len(lines))}"


def _listed(texts: list[str], total: int) -> str:
    return ", ".join(texts) + (f", and {total - len(texts):,} more" if len(texts) < total else "")


def summaries(blobs: Blobs, view: CheckpointView, number: int | None = None, *, keys: int = 10) -> Iterator[StageSummary]:
    """The summary of each stage, or of one. ``keys``: how many keys are named."""
    for stage in view.only(number):
        sizes: dict[int, int] = {}
        counts = [0] * len(stage.operators)
        columns = [False] * len(stage.operators)
        ends: set[int] = set()
        distinct, waiting, some = 0, 0, list[Any]()
        closed: list[int] = []
        for group, size, state in states(blobs, view, stage):
            sizes[group] = size
            ends |= _open(state)
            waiting += items_waiting(state)
            closed += [] if state.closed is None else [state.closed]
            of_group: dict[Any, None] = {}
            for at, content in enumerate(state.operators):
                of_operator = keys_of(content)
                counts[at] += len(of_operator)
                columns[at] = columns[at] or isinstance(content, ColumnState | OrderedState | HeldItems)
                of_group.update(dict.fromkeys(of_operator))
            distinct += len(of_group)
            some = nsmallest(keys, [*some, *of_group], key=repr)
        yield StageSummary(
            stage=stage,
            operators=tuple(zip(stage.operators, counts, columns, strict=True)),
            sizes=dict(sorted(sizes.items())),
            open=tuple(sorted(ends)),
            waiting=waiting,
            closed=max(closed, default=None),
            distinct=distinct,
            keys=tuple(some),
        )


def keys_of(state: Any) -> list[Any]:
    """The keys of which an operator has a state."""
    match state:
        case ColumnState() | OrderedState() | HeldItems():
            return values_of(state.keys, state.count)
        case UnorderedState(states=states):
            return list(states)
        case dict():
            return list(state)
        case _:  # a sort
            return []


def _open(state: StageState) -> set[int]:
    """The ends of the blocks for which something is held."""
    ends = set(state.open_blocks)
    for column, _, _ in state.tables:
        ends.update(column.tolist())
    for content in state.operators:
        if isinstance(content, ColumnState):
            ends.update(end for one in content.open_aggregates for end in one.ends.tolist())
    return ends
