"""Operators as expressions, or the reason why they are opaque."""

from __future__ import annotations

from typing import Any

from tracetypes.compiler.analysis.blame import Opaque, refusal
from tracetypes.compiler.analysis.keyed import Keyed, keyed_of
from tracetypes.compiler.analysis.monoids import Monoid, monoid_of
from tracetypes.compiler.tracing.expr import Tree
from tracetypes.compiler.tracing.tracer import Untraceable, trace_on_item
from tracetypes.templates import Operator, OpKeyedUnordered, OpStateless
from tracetypes.trace import StreamType

__all__ = ["Opaque", "keyed_in", "monoid_in", "traced"]


def traced(op: OpStateless[Any, Any, Any, Any], takes: StreamType) -> Tree | Opaque:
    """What a stateless operator does with an item, as expressions if possible."""
    try:
        return trace_on_item(op, takes.key, takes.value)
    except Untraceable as why:
        return refusal(op, why)


def monoid_in(op: Operator, takes: StreamType) -> Monoid | Opaque:
    """The monoid of a keyed unordered operator, if columns can combine its aggregates."""
    if not isinstance(op, OpKeyedUnordered):
        return Opaque("its items are ordered")
    try:
        return monoid_of(op, takes.key, takes.value)
    except Untraceable as why:
        return refusal(op, why)


def keyed_in(op: Operator, monoid: Monoid | Opaque, takes: StreamType, gives: StreamType) -> Keyed | Opaque:
    """The methods of a keyed unordered operator for its aggregates, if its states can be columns."""
    if isinstance(monoid, Opaque):
        return monoid
    if not isinstance(op, OpKeyedUnordered):
        return Opaque("its items are ordered")
    try:
        return keyed_of(op, monoid, takes.key, gives)
    except Untraceable as why:
        return refusal(op, why)
