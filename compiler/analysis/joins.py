"""What the joins of the standard library that run over columns have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from tracetypes.compiler.analysis.choices import returned
from tracetypes.compiler.analysis.keyed import has_codes
from tracetypes.compiler.analysis.monoids import results
from tracetypes.compiler.analysis.ordered_form import OrderedForm
from tracetypes.compiler.tracing.expr import Pack, Tree
from tracetypes.compiler.tracing.tracer import Untraceable
from tracetypes.records import Integer, OneOf, Optional, Record, Schema
from tracetypes.trace import StreamType

__all__ = ["LONGEST", "JoinForm", "JoinKind", "gives_joined", "optional", "sides_in", "time_in", "value_in"]

LONGEST = 1 << 61
"""The longest tolerance or interval, and the latest time, in microseconds: they are added and subtracted in 64 bits."""


@attrs.frozen(eq=False)
class JoinForm(OrderedForm):
    """A join. ``left`` and ``right``: the records of the two sides. ``times``: of each of the two, the tree (Integer) of its
    time, of ``value``."""

    left: Record
    right: Record
    times: tuple[Tree, Tree]


class JoinKind:
    """What the kind of a join says of its output. ``how``: the kind, as its author gives it."""

    __slots__ = ()
    how: str

    @property
    def alone(self) -> bool:
        """Whether left items are emitted alone."""
        return self.how in ("semi", "anti")

    @property
    def outer(self) -> tuple[bool, bool]:
        """Whether left and right items are emitted that have found no partner."""
        return self.how in ("left", "full", "anti"), self.how in ("right", "full")


def sides_in(takes: StreamType, of_left: object) -> tuple[Record, Record]:
    """The records of the left and the right items, of which the left ones are of the class ``of_left``. Raises
    :class:`Untraceable`."""
    if not has_codes(takes.key):
        raise Untraceable("has keys that hold lists or are of several types")
    members = takes.value.members if isinstance(takes.value, OneOf) else ()
    lefts, rights = ([one for one in members if (one.cls is of_left) is side] for side in (True, False))
    if len(lefts) != 1 or len(rights) != 1:
        raise Untraceable("has items of more than two sides")
    return lefts[0], rights[0]


def value_in(side: Record) -> Schema:
    """The schema of the values of a side."""
    return dict(side.fields)["value"]


def optional(value: Schema) -> Schema:
    """The schema of a value, or None."""
    return value if isinstance(value, Optional) else Optional(value)


def time_in(time: Callable[[Any], int], items: Schema) -> Tree:
    """The tree of the time of items. Raises :class:`Untraceable`."""
    tree = returned(time, items)
    if any(isinstance(result, Pack) or result.kind != Integer() for result in results(tree) if result is not None):
        raise Untraceable("has times that are no whole numbers")
    return tree


def gives_joined(gives: Schema, joined: type[Any], how: str, left: Schema, right: Schema) -> bool:
    """Is that what a join emits, of left and right values? ``joined``: the record of both."""
    if how in ("semi", "anti"):
        return gives == left
    if not isinstance(gives, Record) or gives.cls is not joined:
        return False
    kinds = (optional(left) if how in ("right", "full") else left, optional(right) if how in ("left", "full") else right)
    return [kind for _, kind in gives.fields] == list(kinds)
