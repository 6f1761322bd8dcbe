"""States of key groups as states of another number of key groups: each key goes to the group of its hash.

What a stage knows of its links is the same in every group; the rest of a state lies by key.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.canonical import stable_hash
from tracetypes.compiler.columns.column import Columns, take, take_column
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.conversion import to_arrow
from tracetypes.compiler.plan.plan import Stage
from tracetypes.compiler.runtime.blocks import folded_by
from tracetypes.compiler.runtime.chunks import hashes
from tracetypes.compiler.runtime.column_states import ColumnState
from tracetypes.compiler.runtime.held_items import HeldItems
from tracetypes.compiler.runtime.operators import UnorderedState
from tracetypes.compiler.runtime.ordered_states import OrderedState
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.records import Schema
from tracetypes.templates import OpKeyedUnordered

__all__ = ["divided", "joined", "regrouped"]

Combine: TypeAlias = Callable[[Any, Any], Any]
"""Two aggregates of a key as one."""


def regrouped(stage: Stage, states: Sequence[StageState], count: int) -> list[StageState]:
    """The states of a stage, all its key groups, as states of ``count`` key groups. ``states`` may change."""
    if len(states) == count or not states:
        return list(states)
    folded, states = folded_by(stage), _held_alike(stage, states)
    return divided(stage.takes.key, joined(states, None if folded is None else folded.op.combine), count)


# -------------------------------------------------------------------------------------------------------- to one


def joined(states: Sequence[StageState], combine: Combine | None) -> StageState:
    """One state from those of all key groups. ``combine``: of the first operator, if it combines items as they come."""
    first = states[0]
    if len(states) == 1:
        return first
    columns = _joined_columns([one.operators[0] for one in states]) if first.operators else None
    if columns is None:
        states = [_as_objects(one, combine) for one in states]
    operators = [_joined_operator([one.operators[at] for one in states]) for at in range(len(first.operators))]
    blocks: dict[int, Any] = {}
    for one in states:
        for end, block in one.open_blocks.items():
            blocks[end] = _joined_block(blocks[end], block) if end in blocks else block
    return StageState(
        progress=first.progress,
        open_blocks=blocks,
        operators=operators if columns is None else [columns, *operators[1:]],
        tables=[table for one in states for table in one.tables],
        owners={key: owner for one in states for key, owner in one.owners.items()},
        closed=first.closed,
    )


def _joined_columns(some: Sequence[Any]) -> ColumnState | None:
    """The states of an operator as columns, if all of them are columns of one shape."""
    if not all(isinstance(one, ColumnState) and one.shape[0] == some[0].shape[0] for one in some):
        return None
    full = [one for one in some if one.count] or some[:1]
    try:
        keys = concat([(one.keys, one.count) for one in full])
        parts = [concat([(one.parts[at], one.count) for one in full]) for at in range(len(full[0].parts))]
    except Undefined:
        return None
    count = sum(one.count for one in full)
    aggregates = [aggregates for one in some for aggregates in one.open_aggregates]
    return ColumnState(keys, count, parts, some[0].start, aggregates, some[0].shape)  # type: ignore[arg-type]


def _held_alike(stage: Stage, states: Sequence[StageState]) -> Sequence[StageState]:
    """States in which the first operator holds items in one way."""
    held = [one.operators[0] for one in states if one.operators and isinstance(one.operators[0], HeldItems)]
    if not held or len(held) == len(states):
        return states
    op, alike = stage.steps[0].operator, list[StageState]()
    assert isinstance(op, OpKeyedUnordered)
    few = not any(one.operators[0].states for one in states if isinstance(one.operators[0], UnorderedState))
    for one in states:
        first = one.operators[0]
        if few and isinstance(first, UnorderedState):
            first = held[0].of_keys(np.zeros(0, np.int64))
        elif isinstance(first, HeldItems) and not few:
            first = UnorderedState(first.to_objects(op, stage.takes), first.start)
        alike.append(attrs.evolve(one, operators=[first, *one.operators[1:]]))
    return alike


def _as_objects(state: StageState, combine: Combine | None) -> StageState:
    """A state without columns."""
    if not state.operators or not isinstance(columns := state.operators[0], ColumnState) or combine is None:
        return state
    states, blocks = columns.to_objects(combine)
    operators = [UnorderedState(states, columns.start), *state.operators[1:]]
    return attrs.evolve(state, operators=operators, open_blocks=blocks | state.open_blocks)


def _joined_operator(some: Sequence[Any]) -> Any:
    match some[0]:
        case UnorderedState(start=start):
            states = {key: value for one in some for key, value in one.states.items()}
            return UnorderedState(states, start, plain=any(one.plain for one in some))
        case dict() | OrderedState():
            return _joined_in_order(some)
        case HeldItems() as held:
            return held.followed_by(some[1:])
        case other:  # columns, which are joined already, or a sort
            return other


def _joined_in_order(some: Sequence[Any]) -> Any:
    """The states of an ordered operator: as columns, if all that hold something are columns of one shape."""
    some = [one for one in some if not isinstance(one, dict) or one] or some[:1]
    if all(isinstance(one, OrderedState) and one.shape[0] == some[0].shape[0] for one in some):
        with suppress(Undefined):
            return some[0].followed_by(some[1:])
    return {key: value for one in some for key, value in (one if isinstance(one, dict) else one.to_objects()).items()}


def _joined_block(one: Any, other: Any) -> Any:
    """What two key groups hold of one open block: aggregates by key, items, or items with their places."""
    match one:
        case dict():
            return one | other
        case tuple():
            return tuple([*mine, *more] for mine, more in zip(one, other, strict=True))
        case _:
            return [*one, *other]


# -------------------------------------------------------------------------------------------------------- to many


def divided(key: Schema, state: StageState, count: int) -> list[StageState]:
    """The states of ``count`` key groups from one. ``key``: the schema of the keys."""
    if count == 1:
        return [state]
    hash_ = stable_hash(key)
    places: dict[Any, int] = {}

    def group_of(one: Any) -> int:
        if one not in places:
            places[one] = hash_(one) % count
        return places[one]

    operators = [_divided_operator(key, one, group_of, count) for one in state.operators]
    blocks: list[dict[int, Any]] = [{} for _ in range(count)]
    for end, block in state.open_blocks.items():
        for group, part in enumerate(_divided_block(block, group_of, count)):
            if part is not None:
                blocks[group][end] = part
    tables = _divided_tables(key, state.tables, count)
    owners = _by_group(state.owners, group_of, count)
    return [
        StageState(
            progress=copy.deepcopy(state.progress),
            open_blocks=blocks[group],
            operators=[parts[group] for parts in operators],
            tables=tables[group],
            owners=owners[group],
            closed=state.closed,
        )
        for group in range(count)
    ]


def _divided_operator(key: Schema, content: Any, group_of: Callable[[Any], int], count: int) -> list[Any]:
    match content:
        case ColumnState():
            return _divided_columns(key, content, count)
        case OrderedState() | HeldItems():
            return [content.of_keys(rows) for rows in _rows_by_group(key, content.keys, content.count, count)]
        case UnorderedState(states, start, plain):
            return [UnorderedState(some, start, plain=plain) for some in _by_group(states, group_of, count)]
        case dict():
            return _by_group(content, group_of, count)
        case _:
            return [content] * count


def _divided_columns(key: Schema, state: ColumnState, count: int) -> list[ColumnState]:
    places = _rows_by_group(key, state.keys, state.count, count)
    aggregates = [
        [one.rows(rows) for rows in _rows_by_group(key, one.keys, len(one), count)] for one in state.open_aggregates
    ]
    return [
        attrs.evolve(
            state,
            keys=take(state.keys, rows),
            count=len(rows),
            parts=[take_column(part, rows) for part in state.parts],
            open_aggregates=[parts[group] for parts in aggregates if len(parts[group])],
        )
        for group, rows in enumerate(places)
    ]


def _rows_by_group(key: Schema, keys: Columns, rows: int, count: int) -> list[Any]:
    """The numbers of the rows of each key group."""
    groups = hashes(key, to_arrow(key, keys, rows)) % np.uint64(count)
    return [np.flatnonzero(groups == group) for group in range(count)]


def _divided_tables(key: Schema, tables: Sequence[tuple[Any, Any, Any]], count: int) -> list[list[tuple[Any, Any, Any]]]:
    of_group: list[list[tuple[Any, Any, Any]]] = [[] for _ in range(count)]
    for ends, keys, values in tables:
        groups = hashes(key, keys) % np.uint64(count)
        for group in range(count):
            rows = np.flatnonzero(groups == group)
            if len(rows):
                at = pa.array(rows)
                of_group[group].append((ends[rows], keys.take(at), values.take(at)))
    return of_group


def _divided_block(block: Any, group_of: Callable[[Any], int], count: int) -> list[Any]:
    """An open block by key group, None where it has nothing of a group."""
    parts: list[Any] = [None] * count
    match block:
        case dict():
            parts = [some or None for some in _by_group(block, group_of, count)]
        case tuple():
            for key, value in zip(*block, strict=True):
                group = group_of(key)
                if parts[group] is None:
                    parts[group] = ([], [])
                parts[group][0].append(key)
                parts[group][1].append(value)
        case _:
            for one in block:
                group = group_of(one[1])
                if parts[group] is None:
                    parts[group] = []
                parts[group].append(one)
    return parts


def _by_group(content: dict[Any, Any], group_of: Callable[[Any], int], count: int) -> list[dict[Any, Any]]:
    groups: list[dict[Any, Any]] = [{} for _ in range(count)]
    for key, value in content.items():
        groups[group_of(key)][key] = value
    return groups
