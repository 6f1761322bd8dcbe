"""The as-of and the table join of the standard library, with their functions as expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from tracetypes.compiler.analysis.choices import returned
from tracetypes.compiler.analysis.keyed import has_codes
from tracetypes.compiler.analysis.monoids import constant, results
from tracetypes.compiler.analysis.ordered_form import OrderedForm, need_held
from tracetypes.compiler.tracing.expr import Pack, Tree
from tracetypes.compiler.tracing.tracer import Untraceable
from tracetypes.latest import Latest
from tracetypes.records import Boolean, Integer, OneOf, Optional, Record, Schema
from tracetypes.templates import OpKeyedOrdered, overrides
from tracetypes.trace import StreamType

__all__ = ["TracedLatest", "latest_in"]

WIDEST = 1 << 61
"""The longest tolerance, in microseconds: times and it are added in 64 bits."""


@attrs.frozen(eq=False)
class TracedLatest(OrderedForm):
    """An as-of or a table join. ``left`` and ``right``: the records of the two sides. ``times``: of each of the
    two, the tree (Integer) of its time, of ``value``; ``deleted``: the tree (Boolean) of the parameter of that name."""

    left: Record
    right: Record
    times: tuple[Tree, Tree]
    deleted: Tree | None
    tolerance: int | None
    how: str

    @property
    def trees(self) -> tuple[Tree, ...]:
        """All trees."""
        return self.times if self.deleted is None else (*self.times, self.deleted)


def latest_in(
    op: OpKeyedOrdered[Any, Any, Any, Any], its: Latest[Any], takes: StreamType, gives: StreamType
) -> TracedLatest:
    """An as-of or a table join as expressions. Raises :class:`Untraceable`."""
    if not has_codes(takes.key):
        raise Untraceable("has keys that hold lists or are of several types")
    members = takes.value.members if isinstance(takes.value, OneOf) else ()
    lefts, rights = ([one for one in members if (one.cls is its.left) is side] for side in (True, False))
    if len(lefts) != 1 or len(rights) != 1:
        raise Untraceable("has items of more than two sides")
    (left,), (right,) = lefts, rights
    if its.tolerance is not None and its.tolerance > WIDEST:
        raise Untraceable("has a tolerance of more than 70,000 years")
    value = dict(right.fields)["value"]
    if not _gives(gives.value, its, dict(left.fields)["value"], value):
        raise Untraceable("emits values of another type than those that it takes")
    places: Any = ((0, Integer()), (1, value))
    state = Optional(Record(tuple, places))
    need_held(state)
    return TracedLatest(
        state=state,
        initial=constant(op, "initial_state"),
        forgets=op.forgets_idle,
        marks=overrides(op, "on_marker"),
        dues=overrides(op, "next_due"),
        key=takes.key,
        takes=takes.value,
        gives=gives.value,
        left=left,
        right=right,
        times=(_time(its, left), _time(its, right)),
        deleted=None if its.deleted is None else _whether(its.deleted, right),
        tolerance=its.tolerance,
        how=its.how,
    )


def _gives(gives: Schema, its: Latest[Any], left: Schema, right: Schema) -> bool:
    """Is that what a join emits, of these values?"""
    if its.how in ("semi", "anti"):
        return gives == left
    if not isinstance(gives, Record) or gives.cls is not its.gives:
        return False
    return [kind for _, kind in gives.fields] == [left, right if its.how == "inner" else _optional(right)]


def _optional(value: Schema) -> Schema:
    return value if isinstance(value, Optional) else Optional(value)


def _time(its: Latest[Any], side: Record) -> Tree:
    tree = returned(its.time, side)
    if any(isinstance(result, Pack) or result.kind != Integer() for result in results(tree) if result is not None):
        raise Untraceable("has times that are no whole numbers")
    return tree


def _whether(deleted: Callable[[Any], bool], side: Record) -> Tree:
    tree = returned(deleted, side)
    if any(isinstance(result, Pack) or result.kind != Boolean() for result in results(tree) if result is not None):
        raise Untraceable("has a deleted= that gives no bool")
    return tree
