"""Keys that would still be answered in longer silence: what stays open where a run ends without it.

Sources with markers in band end where they end, and a run that does not drain (``--no-drain``) leaves open what is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from tracetypes.compiler.plan.plan import FromSource, Plan, Stage
from tracetypes.compiler.runtime.blocks import folded_by
from tracetypes.compiler.runtime.column_states import ColumnState
from tracetypes.compiler.runtime.held_items import HeldItems
from tracetypes.compiler.runtime.operators import UnorderedState
from tracetypes.compiler.runtime.ordered_states import OrderedState
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.store.inspection import Blobs, CheckpointView, StageAbout, states
from tracetypes.compiler.store.key_state import of_key
from tracetypes.errors import TraceTypesError
from tracetypes.markers import EventTime, InBand, Marker
from tracetypes.nodes import title
from tracetypes.silence import blocks_of, linger_of
from tracetypes.templates import OpKeyedOrdered, OpKeyedUnordered, overrides

__all__ = ["ends_in_band", "open_keys"]

MOST: Final = 1_000
"""A key is asked at so many markers at most."""

SECOND: Final = 1_000_000


def ends_in_band(plan: Plan) -> bool:
    """Has a plan a source without silence behind its end?"""
    return any(isinstance(leaf.source.markers, InBand) for leaf in plan.leaves if isinstance(leaf, FromSource))


def open_keys(plan: Plan, blobs: Blobs, view: CheckpointView) -> dict[str, int]:
    """How many keys are open, by operator. Only operators that linger are asked. Raises what the operators raise."""
    periods = [how.period for leaf in plan.sources if isinstance(how := leaf.source.markers, EventTime)]
    counts: dict[str, int] = {}
    for about, stage in zip(view.stages, plan.stages, strict=True):
        if any(linger_of(step.node) for step in stage.steps):
            for operator, count in _of_stage(blobs, view, about, stage, min(periods, default=SECOND)):
                counts[operator] = counts.get(operator, 0) + count
    return counts


def _of_stage(blobs: Blobs, view: CheckpointView, about: StageAbout, stage: Stage, period: int) -> Iterator[tuple[str, int]]:
    for _, _, state in states(blobs, view, about):
        for at, step in enumerate(stage.steps):
            if linger_of(step.node):
                waiting = _keys_of_items(about, stage, state) if at == 0 else set()
                more = _keys_waiting(stage, state, at, period)
                count = len({repr(key) for key in more} | waiting)
                if count:
                    yield f"{title(step.node)} ({step.node.where})", count


def _keys_of_items(about: StageAbout, stage: Stage, state: StageState) -> set[str]:
    """The keys of items in blocks that are open."""
    items = (one for one in of_key(about, 0, state, lambda key: True, stage) if one.end is not None)
    return {repr(one.key) for one in items}


def _keys_waiting(stage: Stage, state: StageState, at: int, period: int) -> Iterable[Any]:
    """The keys for which an operator would emit in longer silence."""
    op, last = stage.steps[at].operator, state.closed or 0
    if not at and stage.pane is not None:
        period, offset = stage.pane
        last = (last - offset) // period * period + offset
    for key, value in _states(stage, state.operators[at]).items():
        with suppress(TraceTypesError):
            if _is_open(op, key, value, last, period):
                yield key


def _states(stage: Stage, state: Any) -> dict[Any, Any]:
    """The states of an operator by key, as objects."""
    match state:
        case ColumnState():
            folded = folded_by(stage)
            return {} if folded is None else state.to_objects(folded.op.combine)[0]
        case OrderedState():
            return state.to_objects()
        case HeldItems():
            op = stage.steps[0].operator
            return state.to_objects(op, stage.takes) if isinstance(op, OpKeyedUnordered) else {}
        case UnorderedState(states=states_):
            return states_
        case dict():
            return state
        case _:
            return {}


def _is_open(op: object, key: Any, state: Any, last: int, period: int) -> bool:
    emitted: list[Any] = []
    match op:
        case OpKeyedOrdered():
            if overrides(op, "next_due") and (due := op.next_due(state, key)) is not None:
                last = max(last, due - period)
            elif overrides(op, "next_due"):
                return False
            for number in range(1, min(blocks_of(op.linger(), period), MOST) + 1):
                state = op.on_marker(state, key, Marker(last + number * period), emitted.append)
                if emitted:
                    return True
        case OpKeyedUnordered():
            for number in range(1, min(blocks_of(op.linger(), period), MOST) + 1):
                state = op.update_state(state, op.identity())
                op.on_marker(state, key, Marker(last + number * period), lambda key, value: emitted.append(value))
                if emitted:
                    return True
        case _:
            pass
    return False
