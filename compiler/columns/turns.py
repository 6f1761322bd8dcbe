"""Loops over columns: the rows once for each turn, and what the turns emit, in the order of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias, final

import attrs
import numpy as np

from tracetypes.compiler.columns.column import INTEGER, Column, Columns, full_values
from tracetypes.compiler.columns.concatenation import merged_columns
from tracetypes.compiler.columns.expressions import Rows
from tracetypes.compiler.tracing.expr import Input, Leaf
from tracetypes.records import Integer

__all__ = ["MOST", "Reached", "Turns", "in_order", "turns_of"]

MOST: Final = 1 << 22
"""Turns of a loop at once, of all rows together. Beyond that a row has no value, and Python takes the rows one by one."""


@final
@attrs.frozen(eq=False)
class Turns:
    """A loop in a leaf. ``rows``: those of the leaf once for each turn, ascending; ``reached``: the leaves of its body."""

    rows: Rows
    reached: list[Reached] = attrs.Factory(list)


Reached: TypeAlias = tuple[Leaf, Rows, "Sequence[tuple[Columns, Columns] | Turns]", "Columns | None"]
"""A leaf with the rows that came to it, keys and values of its emissions or the turns of its loops, and its result."""


def turns_of(rows: Rows, turn: Input, start: Column, stop: Column, step: Column) -> Turns:
    """The turns of a loop for each of some rows. Rows whose bounds have no value are noted, and have no turn."""
    count = rows.count
    defined = np.ones(count, np.bool_)
    for bound in (start, stop, step):
        if not isinstance(bound.kind, Integer):
            defined[:] = False
            break
        if bound.undefined is not None:
            defined &= ~bound.undefined
    if not defined.any():
        if count:
            rows.are_undefined()
        return Turns(rows.part(np.zeros(0, np.int64)))
    first, last, by = (full_values(bound, count) for bound in (start, stop, step))
    defined &= by != 0
    counts = np.minimum(_counts(first, last, by), MOST + 1).astype(np.int64)
    counts[~defined] = 0
    total = np.cumsum(counts)
    if total[-1] > MOST:
        beyond = int(np.argmax(total > MOST))
        defined[beyond] = False
        counts[beyond:] = 0
    if not defined.all():
        rows.are_undefined(~defined)
    of = np.repeat(np.arange(count), counts)
    number = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    inside = rows.part(of)
    inside.inputs[turn.path] = Column(INTEGER, first[of] + number * by[of])
    return Turns(inside)


def _counts(start: Any, stop: Any, step: Any) -> Any:
    """The length of each range, as uint64: it may have more than 63 bits."""
    up = step > 0
    low, high = np.where(up, start, stop), np.where(up, stop, start)
    span = high.astype(np.uint64) - low.astype(np.uint64)
    size = np.where(up, step, -step).astype(np.uint64)
    return np.where(high > low, (span - np.uint64(1)) // np.maximum(size, np.uint64(1)) + np.uint64(1), np.uint64(0))


def in_order(turns: Turns) -> tuple[Any, Columns, Columns] | None:
    """What the turns of a loop emit: the row of the leaf of each (int64, ascending), keys and values; None for nothing."""
    parts: list[tuple[Any, int, Columns, Columns]] = []
    for _, rows, emissions, _ in turns.reached:
        within = _within(rows, turns.rows)
        for number, one in enumerate(emissions):
            inner = in_order(one) if isinstance(one, Turns) else (None, *one)
            if inner is not None:
                at, key, value = inner
                parts.append((within if at is None else within[at], number, key, value))
    parts = [part for part in parts if len(part[0])]
    if not parts:
        return None
    of = turns.rows.within
    if len(parts) == 1:
        ((at, _, key, value),) = parts
        return of[at], key, value
    at = np.concatenate([at for at, *_ in parts])
    numbers = np.concatenate([np.full(len(at), number) for at, number, *_ in parts])
    order = np.lexsort((numbers, at))
    places = np.empty(len(at), np.int64)
    places[order] = np.arange(len(at))
    those: list[Any] = np.split(places, np.cumsum([len(at) for at, *_ in parts])[:-1])
    keys = merged_columns([(key, some) for (_, _, key, _), some in zip(parts, those, strict=True)], len(at))
    values = merged_columns([(value, some) for (*_, value), some in zip(parts, those, strict=True)], len(at))
    return of[at[order]], keys, values


def _within(rows: Rows, above: Rows) -> Any:
    """The places (int64) of some rows among those that they are a part of."""
    within = np.arange(rows.count)
    at: Rows | None = rows
    while at is not None and at is not above:
        within, at = at.within[within], at.parent
    return within
