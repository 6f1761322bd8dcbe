"""What is known of an ordered operator that runs over columns, whatever kernel does it."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import attrs

from tracetypes.compiler.tracing.expr import Exact, Kind, Pack, Value
from tracetypes.compiler.tracing.kinds import Empty, Level, MapOf
from tracetypes.compiler.tracing.tracer import Untraceable
from tracetypes.records import Boolean, Bytes, Date, Float, Integer, Optional, Record, Schema, String, Timestamp

__all__ = ["OrderedForm", "StateKind", "kind_of", "need_held"]

StateKind = Kind | Empty | Level | MapOf | None
"""The kind of a state, or of a part of one; None for what is always None."""

_HELD: Final = Boolean | Integer | Float | String | Bytes | Timestamp | Date | Exact
"""Kinds of scalars that states as columns hold."""


@attrs.frozen(eq=False)
class OrderedForm:
    """What all kernels of ordered operators need. ``state``: the kind of its states, which begin with ``initial``. ``forgets``:
    may keys with that state be removed? ``marks``: does a marker do something; ``dues``: does the operator say when?"""

    puts_off: ClassVar[bool] = False
    """Does the last of several markers do what all of them would, where the operator says that it emits nothing?"""


    state: StateKind
    initial: Any
    forgets: bool
    marks: bool
    dues: bool
    key: Schema
    takes: Schema
    gives: Schema


def kind_of(value: Value) -> StateKind:
    """The kind of what a method returns."""
    if isinstance(value, Pack):
        steps: Any = value.names or range(len(value.parts))
        fields: Any = tuple(zip(steps, map(kind_of, value.parts), strict=True))
        return Record(value.cls, fields)
    return value.kind


def need_held(state: StateKind) -> None:
    """Raises :class:`Untraceable` for states that columns do not hold."""
    if isinstance(state, Record):
        for _, inner in state.fields:
            need_held(inner)
    elif isinstance(state, Optional):
        need_held(state.item)
    elif state is not None and not isinstance(state, _HELD):
        raise Untraceable(f"has a state that holds a {type(state).__name__}, which columns of states do not")
