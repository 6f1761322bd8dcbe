"""What is known of an ordered operator that runs over columns, whatever kernel does it."""

from __future__ import annotations

from typing import Any, Final

import attrs

from tracetypes.compiler.tracing.expr import Exact, Kind
from tracetypes.compiler.tracing.tracer import Untraceable
from tracetypes.records import Boolean, Bytes, Date, Float, Integer, Optional, Record, Schema, String, Timestamp

__all__ = ["OrderedForm", "StateKind", "need_held"]

StateKind = Kind | None
"""The kind of a state, or of a part of one; None for what is always None."""

_HELD: Final = Boolean | Integer | Float | String | Bytes | Timestamp | Date | Exact
"""Kinds of scalars that states as columns hold."""


@attrs.frozen(eq=False)
class OrderedForm:
    """What all kernels of ordered operators need. ``state``: the kind of its states, which begin with ``initial``. ``forgets``:
    may keys with that state be removed? ``marks``: does a marker do something; ``dues``: does the operator say when?"""

    state: StateKind
    initial: Any
    forgets: bool
    marks: bool
    dues: bool
    key: Schema
    takes: Schema
    gives: Schema


def need_held(state: StateKind) -> None:
    """Raises :class:`Untraceable` for states that columns do not hold."""
    if isinstance(state, Record):
        for _, inner in state.fields:
            need_held(inner)
    elif isinstance(state, Optional):
        need_held(state.item)
    elif state is not None and not isinstance(state, _HELD):
        raise Untraceable(f"has a state that holds a {type(state).__name__}, which columns of states do not")
