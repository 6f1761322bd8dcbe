"""A sort and the interpolation behind it, as expressions: then both run over columns."""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any

import attrs

from tracetypes.compiler.analysis.blame import Opaque, refusal
from tracetypes.compiler.analysis.choices import place_of, returned
from tracetypes.compiler.analysis.monoids import results
from tracetypes.compiler.tracing.expr import Pack, Tree
from tracetypes.compiler.tracing.tracer import Given, Untraceable, trace
from tracetypes.interpolation import Interpolation
from tracetypes.records import Float, Integer, ListOf, OneOf, Schema, contains
from tracetypes.self_description import SelfDescribing
from tracetypes.templates import OpKeyedOrdered
from tracetypes.trace import StreamType

__all__ = ["TracedInterpolation", "interpolation_in"]


@attrs.frozen(eq=False)
class TracedInterpolation:
    """An operator that interpolates, behind a sort. ``order``: the function of the sort. Trees: of ``order`` (a place), ``time``
    (Integer) and ``number`` (Float) of ``value``; of ``make`` of ``reading``, ``time`` and ``number``."""

    op: OpKeyedOrdered[Any, Any, Any, Any]
    its: Interpolation[Any]
    order: Callable[[Any], Any]
    place: Tree
    time: Tree
    number: Tree
    make: Tree

    @property
    def trees(self) -> tuple[Tree, ...]:
        """All trees."""
        return self.place, self.time, self.number, self.make


def interpolation_in(
    order: Callable[[Any], Any], op: SelfDescribing, takes: StreamType, gives: StreamType
) -> TracedInterpolation | Opaque | None:
    """An operator behind a sort by ``order``, with its functions as expressions, or why that cannot be. None if it is no
    interpolation."""
    its = op._interpolates() if isinstance(op, OpKeyedOrdered) else None
    if not isinstance(op, OpKeyedOrdered) or its is None or takes != gives:
        return None
    value = takes.value
    try:
        place = place_of(order, value)
    except Untraceable as why:
        return refusal(op, why, "the function by= of the sort before it")
    try:
        if contains(value, ListOf, OneOf):
            raise Untraceable("has readings that hold lists or are of several types")
        if type(its.step) is not int or its.step < 1 or type(its.max_gap) not in (int, NoneType):
            raise Untraceable("has a step or gap that is no whole number")
        time, number = _scalar(its.time, value, Integer(), "time"), _scalar(its.number, value, Float(), "number")
        arguments = [Given("reading", value), Given("time", Integer()), Given("number", Float())]
        make = trace(its.make, arguments, emits=None)
        if any(result is None for result in results(make)):
            raise Untraceable("has a make= that gives nothing for some readings")
        return TracedInterpolation(op, its, order, place, time, number, make)
    except Untraceable as why:
        return refusal(op, why)


def _scalar(function: Callable[[Any], Any], value: Schema, kind: Schema, name: str) -> Tree:
    tree = returned(function, value)
    if any(isinstance(result, Pack) or result.kind != kind for result in results(tree) if result is not None):
        raise Untraceable(f"has a {name}= that gives no {'int' if isinstance(kind, Integer) else 'float'}")
    return tree
