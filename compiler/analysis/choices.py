"""The items that an operator needs, as expressions: which of a block are sent on can be told by columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from tracetypes.choices import Choice
from tracetypes.compiler.analysis.blame import Opaque, refusal
from tracetypes.compiler.analysis.monoids import results, united
from tracetypes.compiler.tracing.expr import Pack, Tree, Value
from tracetypes.compiler.tracing.tracer import Untraceable, trace_function
from tracetypes.records import Boolean, Bytes, Date, Float, Integer, OneOf, Schema, String, Timestamp
from tracetypes.sort_keys import Desc
from tracetypes.templates import Operator, OpKeyedUnordered
from tracetypes.trace import StreamType

__all__ = ["Places", "TracedChoice", "choice_in", "choices_in", "place_of", "places_of", "returned", "where_of"]


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
        return tuple([choice_in(choice, takes.value) for choice in choices])
    except Untraceable as why:
        return refusal(op, why)


def choice_in(choice: Choice[Any], value: Schema) -> TracedChoice:
    """A choice as expressions. Raises :class:`Untraceable`."""
    return TracedChoice(choice, place_of(choice.by, value), where_of(choice.where, value))


def where_of(where: Callable[[Any], bool] | None, value: Schema) -> Tree | None:
    """The tree of a function that says of values whether they count. Raises :class:`Untraceable`."""
    tree = None if where is None else returned(where, value)
    if tree is not None and any(isinstance(result, Pack) or result.kind != Boolean() for result in results(tree) if result):
        raise Untraceable("has a where= that gives no bool")
    return tree


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
