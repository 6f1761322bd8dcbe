"""The methods of an ordered operator as expressions, and the structure of its states. They make it possible to run it over
columns, and to keep its states as columns.

The structure of a state follows from what the methods return: it begins with that of ``initial_state`` and grows until
``on_item`` and ``on_marker``, traced with it, return nothing else. A tuple is a :class:`Record` of the class ``tuple``, whose
fields are its places. A part that is always None has no kind.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import attrs

from tracetypes.blame import called
from tracetypes.compiler.analysis.blame import Opaque, method_to_blame, refusal
from tracetypes.compiler.analysis.choices import Places, places_of
from tracetypes.compiler.analysis.consecutive_windows import consecutive_in
from tracetypes.compiler.analysis.duplicates import duplicates_in
from tracetypes.compiler.analysis.keyed import has_codes
from tracetypes.compiler.analysis.last_items import last_items_in
from tracetypes.compiler.analysis.latest import latest_in
from tracetypes.compiler.analysis.monoids import constant, need_type, results
from tracetypes.compiler.analysis.near import near_in
from tracetypes.compiler.analysis.ordered_form import OrderedForm, StateKind, kind_of, need_held, united
from tracetypes.compiler.analysis.own_windows import windows_in
from tracetypes.compiler.analysis.sliding import sliding_in
from tracetypes.compiler.tracing.expr import Input, Leaf, Pack, Tree, Value, arguments_of, is_same
from tracetypes.compiler.tracing.tracer import Fixed, Given, Shape, Untraceable, trace_method
from tracetypes.consecutive_windows import ConsecutiveWindows
from tracetypes.duplicates import Duplicates
from tracetypes.last_items import LastItems
from tracetypes.latest import Latest
from tracetypes.markers import Marker
from tracetypes.near import Near
from tracetypes.nodes import Sort
from tracetypes.own_windows import OwnWindows
from tracetypes.records import Integer, Optional, Record, Schema
from tracetypes.schemas import schema_of
from tracetypes.self_description import SelfDescribing
from tracetypes.sliding import Sliding
from tracetypes.state_check import states_of
from tracetypes.templates import OpKeyedOrdered, overrides
from tracetypes.trace import StreamType

__all__ = ["LastItem", "Ordered", "ordered_in", "place_in"]

GROWTH: Final = 8
"""How often a structure may grow."""

SAID: Final[dict[type[Any], Callable[..., OrderedForm]]] = {
    ConsecutiveWindows: lambda op, its, takes, gives: _traced_or_held(op, its, takes, gives),
    Duplicates: duplicates_in,
    LastItems: last_items_in,
    Latest: latest_in,
    Near: near_in,
    OwnWindows: windows_in,
    Sliding: sliding_in,
}
"""By what an operator of the library says of itself: what makes expressions of it. Raises :class:`Untraceable`."""


@attrs.frozen(eq=False)
class LastItem:
    """An operator whose state after an item does not depend on the one before; no marker changes it. ``state``: of ``key`` and
    ``value``. ``emits``: ``on_item`` without results."""

    state: Value
    emits: Tree


@attrs.frozen(eq=False)
class Ordered(OrderedForm):
    """A traced ordered operator. Trees: ``on_item`` of ``state``, ``key`` and ``value``; ``on_marker`` of ``state``, ``key`` and
    ``marker``, None where it does nothing; ``due`` (``next_due``) of ``state`` and ``key``, None where the operator does not say
    it. ``last``: ``on_item`` in two parts, where states say nothing but what the last item was."""

    on_item: Tree
    on_marker: Tree | None
    due: Tree | None
    last: LastItem | None

    @property
    def trees(self) -> tuple[Tree, ...]:
        """All trees."""
        return tuple(tree for tree in (self.on_item, self.on_marker, self.due) if tree is not None)


def ordered_in(op: Any, takes: StreamType, gives: StreamType) -> OrderedForm | Opaque:
    """An ordered operator as expressions, or why that cannot be."""
    if not isinstance(op, OpKeyedOrdered):
        return Opaque("its items have no order")
    try:
        its = op._says()
        return _ordered(op, takes, gives) if its is None else SAID[type(its)](op, its, takes, gives)
    except Untraceable as why:
        return refusal(op, why)


def _traced_or_held(
    op: OpKeyedOrdered[Any, Any, Any, Any], its: ConsecutiveWindows[Any], takes: StreamType, gives: StreamType
) -> OrderedForm:
    """Windows that follow one another: the methods of the operator as they are, if the aggregate is numbers; otherwise such as
    hold their items. Raises :class:`Untraceable`."""
    with suppress(Untraceable):
        return _ordered(op, takes, gives)
    return consecutive_in(op, its, takes, gives)


def place_in(node: Sort, value: Schema) -> Places | Opaque:
    """The function of a sort as expressions of ``value``, or why that cannot be, for the operator behind it."""
    try:
        return places_of(node.by, value)
    except Untraceable as why:
        return refusal(SelfDescribing(), why, "the function by= of the sort before it")


def _ordered(op: OpKeyedOrdered[Any, Any, Any, Any], takes: StreamType, gives: StreamType) -> Ordered:
    if not has_codes(takes.key):
        raise Untraceable("has keys that hold lists or are of several types")
    with method_to_blame(op, "initial_state", takes.value):
        initial = constant(op, "initial_state")
    marks = overrides(op, "on_marker")
    key, value, marker = Given("key", takes.key), Given("value", takes.value), Given("marker", schema_of(Marker))
    state = kind_of(initial)
    for _ in range(GROWTH):
        shape = _argument(state)
        before, on_marker = state, None
        with method_to_blame(op, "on_item", takes.value):
            on_item = trace_method(op, "on_item", [shape, key, value], emits="values", fields=True)
            state = _grown(state, on_item)
        if marks:
            with method_to_blame(op, "on_marker", takes.value):
                on_marker = trace_method(op, "on_marker", [shape, key, marker], emits="values", fields=True)
                state = _grown(state, on_marker)
        if state == before:
            break
    else:
        raise Untraceable("has states whose structure goes on growing", (called(type(op).on_item, owner=op),))
    with method_to_blame(op, "on_item", takes.value):
        need_held(state)
        need_type(_example(state), states_of(op))
    due = trace_method(op, "next_due", [_argument(state), key], emits=None) if overrides(op, "next_due") else None
    if due is not None and any(not _is_time(result) for result in results(due)):
        raise Untraceable("has a next_due that gives something else than a number or None")
    return Ordered(
        state=state,
        initial=op.initial_state(),
        forgets=op.forgets_idle,
        marks=marks,
        dues=due is not None,
        key=takes.key,
        takes=takes.value,
        gives=gives.value,
        on_item=on_item,
        on_marker=on_marker,
        due=due,
        last=None if marks else _last_item(on_item),
    )


def _grown(state: StateKind, tree: Tree) -> StateKind:
    """The kind of a state that a method may return, too. Raises :class:`Untraceable`."""
    for result in results(tree):
        state = united(state, None if result is None else kind_of(result))
    return state


def _last_item(on_item: Tree) -> LastItem | None:
    first, *others = results(on_item)
    if first is None or any(other is None or not is_same(first, other) for other in others):
        return None
    return None if "state" in arguments_of(first) else LastItem(first, _without_results(on_item))


def _without_results(tree: Tree) -> Tree:
    if isinstance(tree, Leaf):
        return attrs.evolve(tree, result=None)
    then = _without_results(tree.then)
    return attrs.evolve(
        tree, then=then, otherwise=then if tree.otherwise is tree.then else _without_results(tree.otherwise)
    )


def _is_time(result: Value | None) -> bool:
    if result is None or isinstance(result, Pack):
        return False
    bare = result.kind.item if isinstance(result.kind, Optional) else result.kind
    return bare is None or isinstance(bare, Integer)


def _argument(state: StateKind) -> Shape:
    return Fixed(None) if state is None else Given("state", state)  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------- structures


def _example(state: StateKind) -> Value:
    """A state of this kind as far as :func:`need_type` looks at it."""
    bare: Any = state.item if isinstance(state, Optional) else state
    if isinstance(bare, Record) and not isinstance(state, Optional):
        return Pack(bare.cls, (), ())
    return Input(("state",), state)  # type: ignore[arg-type]
