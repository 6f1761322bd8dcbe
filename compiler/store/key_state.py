"""What a checkpoint has of one key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from tracetypes.compiler.columns.arrow import from_array
from tracetypes.compiler.columns.column import Column
from tracetypes.compiler.columns.conversion import values_of
from tracetypes.compiler.plan.plan import Plan, Stage
from tracetypes.compiler.runtime.blocks import folded_by
from tracetypes.compiler.runtime.column_states import ColumnState
from tracetypes.compiler.runtime.held_items import HeldItems
from tracetypes.compiler.runtime.operators import UnorderedState
from tracetypes.compiler.runtime.ordered_states import OrderedState
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.store.inspection import Blobs, CheckpointView, StageAbout, states
from tracetypes.compiler.store.state_summary import keys_of
from tracetypes.compiler.store.state_values import iso, plain, when
from tracetypes.errors import UsageError, counted
from tracetypes.records import show
from tracetypes.templates import OpKeyedUnordered

__all__ = ["KeyState", "find_key", "of_key"]

SHOWN: Final = 120
"""Characters of a value."""


@attrs.frozen
class KeyState:
    """The state of an operator for a key, or (``end``) what an open block holds of it."""

    stage: int
    group: int
    key: Any
    value: Any
    operator: str | None = None
    end: int | None = None

    @property
    def plain(self) -> dict[str, Any]:
        """For JSON."""
        where = {"operator": self.operator} if self.end is None else {"open": iso(self.end)}
        what = "state" if self.end is None else "held"
        return {"stage": self.stage, "group": self.group, "key": plain(self.key), **where, what: plain(self.value)}

    @property
    def line(self) -> str:
        """For people."""
        what = self.operator if self.end is None else f"held for the block that ends at {when(self.end or 0)}"
        return f"stage {self.stage}, key group {self.group}, {what}: {_short(self.value)}"


def _short(value: Any) -> str:
    """A value on two lines of a screen at most. A long list begins with its length."""
    text = show(value, SHOWN)
    return f"{counted(len(value), 'value')}, {text}" if isinstance(value, list) and text.endswith("...") else text


def find_key(
    blobs: Blobs, queries: Mapping[str, CheckpointView], text: str, number: int | None, plans: Mapping[str, Plan]
) -> Iterator[tuple[str, KeyState]]:
    """What the queries of a run keep of a key, each with the query's name. The key is its text, the form that Python
    shows, or JSON. Raises :class:`UsageError` ``TT408``.

    ``plans``: with a plan, states in columns are shown as the author's objects, otherwise as their scalars.
    """
    matches = _matching(text)
    present, others = False, dict[Any, None]()
    stages = [(name, view, stage) for name, view in queries.items() for stage in view.only(number)]
    for name, view, stage in stages:
        plan = plans.get(name)
        planned = plan.stages[stage.number] if plan is not None else None
        for group, _, state in states(blobs, view, stage):
            for one in of_key(stage, group, state, matches, planned):
                present = True
                yield name, one
            others.update(dict.fromkeys(key for content in state.operators for key in keys_of(content)[:3]))
    if not present:
        some = ", ".join(sorted(show(key) for key in others)[:5])
        raise UsageError(
            "TT408",
            f"nothing is kept of key {text}",
            fix=f"there are {some}, ...; give one as Python shows it, or as JSON" if some else "no key has a state",
        )


def _matching(text: str) -> Callable[[Any], bool]:
    try:
        expected = json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        expected = None

    def matches(key: Any) -> bool:
        return text in (str(key), repr(key), plain(key)) or (
            expected is not None and expected == json.dumps(plain(key), sort_keys=True)
        )

    return matches


def of_key(
    stage: StageAbout, group: int, state: StageState, matches: Callable[[Any], bool], planned: Stage | None
) -> Iterator[KeyState]:
    blocks = dict(state.open_blocks)
    for name, content in zip(stage.operators, state.operators, strict=True):
        states = content
        if isinstance(content, ColumnState):
            folded = None if planned is None else folded_by(planned)
            states, more = _scalars(content) if folded is None else content.to_objects(folded.op.combine)
            blocks.update(more)
        elif isinstance(content, OrderedState):
            states = content.to_objects()
        elif isinstance(content, HeldItems):
            states = _held(content, planned)
        elif isinstance(content, UnorderedState):
            states = content.states
        for key, value in (states or {}).items():
            if matches(key):
                yield KeyState(stage.number, group, key, value, operator=name)
    for ends, key_column, value_column in state.tables:
        keys, values = key_column.to_pylist(), value_column.to_pylist()
        if planned is not None:
            takes = planned.takes
            keys, values = from_array(takes.key, key_column), from_array(takes.value, value_column)
        for end, key, value in zip(ends.tolist(), keys, values, strict=True):
            blocks.setdefault(end, ([], []))
            blocks[end][0].append(key)
            blocks[end][1].append(value)
    for end, block in sorted(blocks.items()):
        pairs = [(key, value) for key, value in _pairs(block) if matches(key)]
        if pairs:
            values = [value for _, value in pairs]
            value = values[0] if isinstance(block, dict) else values
            yield KeyState(stage.number, group, pairs[0][0], value, end=end)


def _held(held: HeldItems, planned: Stage | None) -> dict[Any, Any]:
    """The states of an operator that holds items; without a plan the items of each key, with the number of blocks since each
    came."""
    op = None if planned is None else planned.steps[0].operator
    if planned is not None and isinstance(op, OpKeyedUnordered):
        return held.to_objects(op, planned.takes)
    keys, states = values_of(held.keys, held.count), dict[Any, list[Any]]()
    for side in held.sides:
        for code, age, value in zip(side.codes.tolist(), side.ages.tolist(), side.values.to_pylist(), strict=True):
            states.setdefault(keys[code], []).append((age, value))
    return states


def _pairs(block: Any) -> Iterator[tuple[Any, Any]]:
    """Keys with what is held of them: aggregates, items, or items with their place."""
    match block:
        case dict():
            yield from block.items()
        case tuple():
            yield from zip(*block, strict=True)
        case _:
            yield from ((key, value) for _, key, value in block)


def _scalars(state: ColumnState) -> tuple[dict[Any, Any], dict[int, Any]]:
    """States and aggregates of columns as the tuples of their scalars; several aggregates of a key and block as they are."""
    states = dict(zip(values_of(state.keys, state.count), _tuples(state.parts, state.count), strict=True))
    blocks: dict[int, Any] = {}
    for one in state.open_aggregates:
        keys, aggs = values_of(one.keys, len(one)), _tuples(one.parts, len(one))
        for end, key, agg in zip(one.ends.tolist(), keys, aggs, strict=True):
            block = blocks.setdefault(end, ([], []))
            block[0].append(key)
            block[1].append(agg)
    return states, blocks


def _tuples(columns: Sequence[Column], count: int) -> list[tuple[Any, ...]]:
    return list(zip(*(values_of(one, count) for one in columns), strict=True)) if columns else [()] * count
