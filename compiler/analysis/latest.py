"""The as-of and the table join of the standard library, with their functions as expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from tracetypes.compiler.analysis.choices import returned
from tracetypes.compiler.analysis.joins import LONGEST, JoinForm, optional, sides_in, time_in, value_in
from tracetypes.compiler.analysis.monoids import results
from tracetypes.compiler.analysis.ordered_form import need_held
from tracetypes.compiler.tracing.expr import Pack, Tree
from tracetypes.compiler.tracing.tracer import Untraceable
from tracetypes.latest import Latest
from tracetypes.records import Boolean, Integer, Optional, Record, Schema
from tracetypes.templates import OpKeyedOrdered, overrides
from tracetypes.trace import StreamType

__all__ = ["TracedLatest", "latest_in"]


@attrs.frozen(eq=False)
class TracedLatest(JoinForm):
    """An as-of or a table join. ``deleted``: the tree (Boolean) of the parameter of that name."""

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
    left, right = sides_in(takes, its.left)
    if its.tolerance is not None and its.tolerance > LONGEST:
        raise Untraceable("has a tolerance of more than 70,000 years")
    value = value_in(right)
    if not _gives(gives.value, its, value_in(left), value):
        raise Untraceable("emits values of another type than those that it takes")
    places: Any = ((0, Integer()), (1, value))
    state = Optional(Record(tuple, places))
    need_held(state)
    return TracedLatest(
        state=state,
        initial=op.initial_state(),
        forgets=op.forgets_idle,
        marks=overrides(op, "on_marker"),
        dues=overrides(op, "next_due"),
        key=takes.key,
        takes=takes.value,
        gives=gives.value,
        left=left,
        right=right,
        times=(time_in(its.time, left), time_in(its.time, right)),
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
    return [kind for _, kind in gives.fields] == [left, right if its.how == "inner" else optional(right)]


def _whether(deleted: Callable[[Any], bool], side: Record) -> Tree:
    tree = returned(deleted, side)
    if any(isinstance(result, Pack) or result.kind != Boolean() for result in results(tree) if result is not None):
        raise Untraceable("has a deleted= that gives no bool")
    return tree
