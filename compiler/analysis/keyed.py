"""The methods of a keyed unordered operator for its aggregates, as expressions. They make it possible to keep its
states as columns."""

from __future__ import annotations

from typing import Any

import attrs

from tracetypes.blame import called
from tracetypes.compiler.analysis.monoids import Monoid, constant, leaves, need_type, results, united
from tracetypes.compiler.tracing.expr import PASSED_ON, Pack, Tree, Value
from tracetypes.compiler.tracing.tracer import Given, Nested, Untraceable, trace_method
from tracetypes.conformance import name_of
from tracetypes.markers import Marker
from tracetypes.records import ListOf, OneOf, Optional, Record, Schema, UnitValue
from tracetypes.schemas import schema_of
from tracetypes.state_check import states_of
from tracetypes.templates import OpKeyedUnordered
from tracetypes.trace import StreamType

__all__ = ["Keyed", "has_codes", "keyed_of"]


@attrs.frozen(eq=False)
class Keyed:
    """A traced keyed operator. ``state``: the structure of its state, with its scalars as inputs named ``state``.
    ``identity`` and ``initial``: as expressions."""

    monoid: Monoid
    state: Value
    initial: Value
    identity: Value
    update: Tree
    on_marker: Tree
    skips: bool
    forgets: bool
    key: Schema
    gives: StreamType


def keyed_of(
    op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any], monoid: Monoid, key: Schema, gives: StreamType
) -> Keyed:
    """Trace the methods of an operator for its aggregates. Raises :class:`Untraceable` with the reason."""
    if not has_codes(key):
        raise Untraceable("has keys that hold lists or are of several types")
    initial, identity = constant(op, "initial_state"), constant(op, "identity")
    try:
        state, update = _state_of(op, monoid, initial)
    except Untraceable as why:
        raise why if why.calls else Untraceable(why.what, (called(type(op).update_state, owner=op),)) from None
    need_type(state, states_of(op))
    if any(isinstance(at.kind, UnitValue) for _, at in leaves(state)):
        raise Untraceable("has a state that holds a Unit, which takes no column")
    for _, at in leaves(state):
        bare = at.kind.item if isinstance(at.kind, Optional) else at.kind
        if isinstance(bare, PASSED_ON):
            raise Untraceable(f"has a state that holds {name_of(bare)}, with which columns compute nothing")
    new, marker = Nested("new_state", state), Given("marker", schema_of(Marker))
    on_marker = trace_method(op, "on_marker", [new, Given("key", key), marker], emits="pairs")
    skips = op.skips_untouched
    forgets = op.forgets_idle and not skips
    return Keyed(monoid, state, initial, identity, update, on_marker, skips, forgets, key, gives)


def _state_of(op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any], monoid: Monoid, initial: Value) -> tuple[Value, Tree]:
    """The structure of all states that come of the first, and ``update_state`` of them. Raises :class:`Untraceable`."""
    agg, template = Nested("agg", monoid.shape), initial
    while True:
        # All that a scalar can do is to begin to be optional; those of a queue do so one after the other.
        update = trace_method(op, "update_state", [Nested("state", template), agg], emits=None)
        values = [template, *[result for result in results(update) if result is not None]]
        before, template = template, _template(values)
        if _kinds(template) == _kinds(before):
            return united(values, "state"), update


def has_codes(schema: Schema) -> bool:
    """Can equal keys of the schema be told by their columns?"""
    match schema:
        case ListOf() | OneOf():
            return False
        case Optional(item):
            return not isinstance(item, Record) and has_codes(item)
        case Record(_, fields):
            return all(has_codes(inner) for _, inner in fields)
        case _:
            return True


def _template(values: list[Value]) -> Value:
    """One structure for the values found so far; a scalar that was always None is None."""
    packs = [value for value in values if isinstance(value, Pack)]
    if packs and len(packs) == len(values) and len({len(p.parts) for p in packs}) == 1:
        parts = tuple(_template([p.parts[at] for p in packs]) for at in range(len(packs[0].parts)))
        return Pack(packs[0].cls, packs[0].names, parts)
    if all(not isinstance(value, Pack) and value.kind is None for value in values):
        return values[0]
    return united(values, "state")


def _kinds(value: Value) -> list[Any]:
    return [(path, at.kind) for path, at in leaves(value)]
