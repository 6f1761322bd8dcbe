"""The items that an operator needs, as expressions: which of a block are sent on can be told by columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from tracetypes.choices import Choice
from tracetypes.compiler.analysis.blame import Opaque, refusal
from tracetypes.compiler.analysis.monoids import results, united
from tracetypes.compiler.tracing.expr import Pack, Tree, Value
from tracetypes.compiler.tracing.tracer import Given, Untraceable, trace, trace_function
from tracetypes.markers import Marker
from tracetypes.records import Boolean, Bytes, Date, Float, Integer, OneOf, Schema, String, Timestamp
from tracetypes.schemas import schema_of
from tracetypes.sort_keys import Desc
from tracetypes.templates import Operator, OpKeyedUnordered
from tracetypes.trace import StreamType

__all__ = ["Places", "TracedChoice", "choices_in", "closing_in", "place_of", "places_of", "returned"]


@attrs.frozen(eq=False)
class TracedChoice:
    """A :class:`Choice` with its functions as expressions of ``value``."""

    choice: Choice[Any]
    by: Tree
    where: Tree | None


def choices_in(op: Operator, takes: StreamType) -> tuple[TracedChoice, ...] | Opaque:
    """Which items of a block an operator needs, if columns can tell."""
    choices = op.chooses() if isinstance(op, OpKeyedUnordered) else ()
    if not choices:
        return Opaque("it needs all of its items")
    try:
        return tuple([_traced(choice, takes.value) for choice in choices])
    except Untraceable as why:
        return refusal(op, why)


def closing_in(
    op: Operator, choices: tuple[TracedChoice, ...] | Opaque, takes: StreamType, gives: StreamType
) -> Tree | Opaque:
    """What an operator without a state emits of a block of which it needs one item: inputs ``key``, ``value`` and ``marker``."""
    if not isinstance(op, OpKeyedUnordered) or isinstance(choices, Opaque):
        return Opaque("it needs all of its items")
    if [one.choice.count for one in choices] != [1] or choices[0].choice.ties == "all":
        return Opaque("it needs several items")

    def close(key: Any, value: Any, marker: Marker, emit: Any) -> None:
        op.on_marker(op.update_state(op.initial_state(), op.lift(key, value)), key, marker, emit)

    inputs = Given("key", takes.key), Given("value", takes.value), Given("marker", schema_of(Marker))
    try:
        return trace(close, inputs, emits="pairs")
    except Untraceable as why:
        return refusal(op, why)


def _traced(choice: Choice[Any], value: Schema) -> TracedChoice:
    by = place_of(choice.by, value)
    where = None if choice.where is None else returned(choice.where, value)
    if where is not None and any(isinstance(result, Pack) or result.kind != Boolean() for result in results(where) if result):
        raise Untraceable("has a where= that gives no bool")
    return TracedChoice(choice, by, where)


def place_of(by: Callable[[Any], Any], value: Schema) -> Tree:
    """The tree of a function by which values are sorted. Raises :class:`Untraceable`."""
    tree = returned(by, value)
    if not _has_place(united([result for result in results(tree) if result is not None], "place")):
        raise Untraceable("gives something else than numbers, times, texts, and tuples and desc() of these")
    return tree


Places: TypeAlias = tuple[tuple[Schema, Tree], ...]
"""The function of a sort: a tree for values of each schema, one for each member of a union."""


def places_of(by: Callable[[Any], Any], value: Schema) -> Places:
    """:func:`place_of` for values that may be of several types. Raises :class:`Untraceable`."""
    if not isinstance(value, OneOf):
        return ((value, place_of(by, value)),)
    places = tuple([(member, place_of(by, member)) for member in value.members])
    united([result for _, tree in places for result in results(tree) if result is not None], "place")
    return places


def returned(function: Callable[[Any], Any], value: Schema) -> Tree:
    """The tree of a function of ``value`` that always returns something. Raises :class:`Untraceable`."""
    tree = trace_function(function, value)
    if any(result is None for result in results(tree)):
        raise Untraceable("gives nothing for some values")
    return tree


def _has_place(value: Value) -> bool:
    """Whether values of a structure have a place in an order that columns can tell."""
    if isinstance(value, Pack):
        return value.cls in (tuple, Desc) and all(map(_has_place, value.parts))
    return isinstance(value.kind, Boolean | Integer | Float | String | Bytes | Timestamp | Date)
