"""``deduplicate`` of the standard library, with its functions as expressions."""

from __future__ import annotations

from typing import Any, Final

import attrs

from tracetypes.compiler.analysis.choices import returned
from tracetypes.compiler.analysis.joins import LONGEST, time_in
from tracetypes.compiler.analysis.keyed import has_codes
from tracetypes.compiler.analysis.monoids import results
from tracetypes.compiler.analysis.ordered_form import OrderedForm, StateKind, kind_of, united
from tracetypes.compiler.tracing.expr import Tree
from tracetypes.compiler.tracing.tracer import Untraceable
from tracetypes.duplicates import Duplicates
from tracetypes.records import Boolean, Bytes, Date, EnumOf, Float, Integer, Optional, Record, String, Timestamp
from tracetypes.templates import OpKeyedOrdered
from tracetypes.trace import StreamType

__all__ = ["TracedDuplicates", "duplicates_in"]

MOST: Final = 1 << 16
"""The largest ``items``: what a key holds is copied to compare it with Python."""

_SCALARS: Final = Boolean | Integer | Float | String | Bytes | Timestamp | Date | EnumOf
"""Kinds of which columns tell whether two values are equal."""


@attrs.frozen(eq=False)
class TracedDuplicates(OrderedForm):
    """``deduplicate``. Trees of ``value``: ``name``, and ``time`` (Integer; None if times do not count). ``names``: the kind of
    names."""

    name: Tree
    names: StateKind
    items: int | None
    horizon: int | None
    time: Tree | None

    @property
    def trees(self) -> tuple[Tree, ...]:
        """All trees."""
        return (self.name,) if self.time is None else (self.name, self.time)


def duplicates_in(
    op: OpKeyedOrdered[Any, Any, Any, Any], its: Duplicates[Any], takes: StreamType, gives: StreamType
) -> TracedDuplicates:
    """``deduplicate`` as expressions. Raises :class:`Untraceable`."""
    if not has_codes(takes.key):
        raise Untraceable("has keys that hold lists or are of several types")
    if gives.value != takes.value:
        raise Untraceable("emits values of another type than those that it takes")
    if its.items is not None and its.items > MOST:
        raise Untraceable(f"looks back over more than {MOST:,} items")
    if its.horizon is not None and its.horizon > LONGEST:
        raise Untraceable("looks back over more than 70,000 years")
    name = returned(its.name, takes.value)
    names: StateKind = None
    for number, result in enumerate(results(name)):
        assert result is not None
        names = united(names, kind_of(result)) if number else kind_of(result)
    _need_names(names)
    return TracedDuplicates(
        state=None,
        initial=op.initial_state(),
        forgets=op.forgets_idle,
        marks=its.time is not None,
        dues=its.time is not None,
        key=takes.key,
        takes=takes.value,
        gives=gives.value,
        name=name,
        names=names,
        items=its.items,
        horizon=its.horizon,
        time=None if its.time is None else time_in(its.time, takes.value),
    )


def _need_names(names: StateKind) -> None:
    """Raises :class:`Untraceable` for names of which columns do not tell whether two are equal as Python has it."""
    bare = names.item if isinstance(names, Optional) else names
    if isinstance(names, Record) and names.cls is tuple and names.fields:
        for _, part in names.fields:
            _need_names(part)
    elif not isinstance(bare, _SCALARS):
        what = "None" if bare is None else bare.cls.__name__ if isinstance(bare, Record) else type(bare).__name__
        raise Untraceable(f"has names that hold a {what}, which columns of names do not")
