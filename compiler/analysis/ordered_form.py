"""What is known of an ordered operator that runs over columns, whatever kernel does it."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import attrs

from tracetypes.compiler.tracing.expr import Exact, Kind, Pack, Value
from tracetypes.compiler.tracing.kinds import PASSED_ON, Empty, Level, MapOf, Queue
from tracetypes.compiler.tracing.tracer import Untraceable
from tracetypes.records import Boolean, Bytes, Date, Float, Integer, ListOf, Optional, Record, Schema, String, Timestamp

__all__ = ["OrderedForm", "StateKind", "kind_of", "need_held", "united"]

StateKind = Kind | Empty | Level | MapOf | Queue | None
"""The kind of a state, or of a part of one; None for what is always None."""

_HELD: Final = Boolean | Integer | Float | String | Bytes | Timestamp | Date | Exact | PASSED_ON | ListOf
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

    def shown(self, state: Any) -> Any:
        """A state as it is compared with that of plain Python, which may hold the same in another way."""
        return state


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


def united(one: StateKind, other: StateKind) -> StateKind:
    """The kind of what is of one or the other. Raises :class:`Untraceable` if there is none."""
    if one == other or other is None:
        return one if one is None or one == other or isinstance(one, Optional) else Optional(one)  # type: ignore[arg-type]
    if one is None:
        return other if isinstance(other, Optional) else Optional(other)  # type: ignore[arg-type]
    if isinstance(one, Optional) or isinstance(other, Optional):
        bare = [kind.item if isinstance(kind, Optional) else kind for kind in (one, other)]
        return Optional(united(*bare))  # type: ignore[arg-type]
    if isinstance(one, Record) and isinstance(other, Record) and one.cls is other.cls and one.names == other.names:
        pairs = zip(one.fields, other.fields, strict=True)
        fields: Any = tuple((name, united(first, second)) for (name, first), (_, second) in pairs)
        return Record(one.cls, fields)
    if {type(one), type(other)} == {Integer, Float}:
        hint = "an int here and a float there: write 0.0 where 0 stands for a float"
        raise Untraceable(f"returns {hint}", kind=hint)
    raise Untraceable("returns states of different structure")
