"""Bounds of gates: when enough has changed for a step to be worth its execution (Flux, section 2).

A gate (:meth:`tracetypes.Stream.gate`, :meth:`tracetypes.Stream.latest`) looks at the **container** of its stream, which has the
latest value of each key, and decides at each marker whether it lets the marker through. What lies behind it runs once for each
marker that is let through: that is an **execution**. A bound says when. The vectors of the paper are functions here:

=====================  =========  ===========================================================================
here                   the paper  reached when
=====================  =========  ===========================================================================
:func:`time`           theta      so much event time has passed since the last execution
:func:`sequence`       sigma      so many items have come since then, or so many percent of the keys were written
:func:`value`          nu         the container is so far from what it was then
:func:`at_least_once`             a predecessor has ever written
:func:`period`                    a multiple of a period of event time was passed: a bound ``& period(...)`` is looked at so often
=====================  =========  ===========================================================================

``a & b`` is reached when both are, ``a | b`` when one is; ``&`` binds more tightly. :func:`all_of`, :func:`at_least_one` and
:func:`majority` take any number. What was counted begins anew at each execution. Every bound is a function of the trace.
"""

from __future__ import annotations

import math
from typing import Literal

from tracetypes.adaptive_bounds import adaptive_bound
from tracetypes.bounds import (
    ALWAYS,
    AtLeastOnce,
    Bound,
    Decision,
    Observation,
    Period,
    Rows,
    Sequence,
    Time,
    Value,
    combined,
)
from tracetypes.calls import need_function
from tracetypes.errors import UsageError
from tracetypes.markers import Span, span_as_micros
from tracetypes.records import show

__all__ = [
    "ALWAYS",
    "Bound",
    "Decision",
    "Observation",
    "adaptive",
    "all_of",
    "at_least_once",
    "at_least_one",
    "majority",
    "period",
    "sequence",
    "time",
    "value",
]


def time(seconds: Span) -> Bound:
    """Reached when ``seconds`` of event time (a number, or a timedelta) have passed since the last execution, and if there was
    none. The paper's theta: no step waits for longer."""
    return Time(span_as_micros("time", seconds, code="TT126"))


def sequence(
    count: int | None = None, *, percent: float | None = None, of: int | None = None, rows: Rows | None = None
) -> Bound:
    """Reached when ``count`` items have come since the last execution, or when ``percent`` of the keys of the container were
    written since then. The paper's sigma.

    ``of``: how many keys are the whole (None: those of the container, which has every key that ever came). ``rows``: a function
    of a key; only the keys for which it is true count.
    """
    _rows(rows)
    if (count is None) == (percent is None):
        raise UsageError("TT126", "sequence takes a count or percent=", fix="write sequence(100) or sequence(percent=20)")
    if count is not None and (type(count) is not int or count < 1):
        raise UsageError("TT126", f"sequence({show(count)})", fix="give a whole number of items from 1")
    if of is not None and (percent is None or type(of) is not int or of < 1):
        raise UsageError("TT126", f"of={show(of)}", fix="give a whole number of keys from 1, and percent= beside it")
    return Sequence(count, None if percent is None else _positive("percent", percent), of, rows)


def value(
    *,
    units: float | None = None,
    percent: float | None = None,
    against: float | None = None,
    columns: str | tuple[str, ...] = (),
    rows: Rows | None = None,
    measure: Literal["mean", "largest"] = "mean",
    per_write: bool = False,
) -> Bound:
    """Reached when the container is so far from what it was at the last execution. The paper's nu.

    ``units``: the mean absolute difference of its numbers, or with ``measure="largest"`` the largest. ``percent``: the sum of
    the absolute differences, in percent of the sum of the absolute numbers then. ``against``: a constant, such as a top
    value; ``percent`` is then of the constant, and the difference is the mean or the largest. The number of a new key was 0.

    ``columns``: the numbers: a column of the values, or a group of them that counts as one container (none: the value itself,
    or all of its columns that are numbers). ``rows``: a function of a key; only the keys for which it is true count.
    ``per_write``: look after each write, not only at the marker: what diverged so far within a block counts even if it came
    back. It needs ``measure="largest"``, because a sum would depend on the order of the writes to different keys.
    """
    _rows(rows)
    if (units is None) == (percent is None):
        raise UsageError("TT126", "value takes units= or percent=", fix="write value(units=0.5) or value(percent=5)")
    if measure not in ("mean", "largest"):
        raise UsageError("TT126", f"measure={show(measure)}", fix='write measure="mean" or measure="largest"')
    if measure == "largest" and percent is not None and against is None:
        raise UsageError(
            "TT126", 'measure="largest" with percent= of what was', fix="give against=, or units=, or leave measure= out"
        )
    if per_write and measure != "largest":
        raise UsageError(
            "TT126",
            "per_write=True with a sum over keys, which depends on the order of the writes to different keys",
            fix='write measure="largest", or leave per_write= out: then the bound is looked at at each marker',
        )
    if against is not None and percent is None:
        raise UsageError("TT126", f"against={show(against)} without percent=", fix="give percent= beside it")
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not all(type(name) is str and name for name in names) or len({*names}) < len(names):
        raise UsageError("TT126", f"columns={show(columns)}", fix='name each column once: columns="ozone", or a tuple of names')
    return Value(
        None if units is None else _positive("units", units),
        None if percent is None else _positive("percent", percent),
        None if against is None else _positive("against", against),
        names,
        rows,
        measure == "largest",
        bool(per_write),
    )


def at_least_once(rows: Rows | None = None) -> Bound:
    """Reached for ever once the container has a key. ``rows``: a function of a key; then one for which it is true. In front of
    a merge of several steps: each of them has been executed at least once."""
    _rows(rows)
    return AtLeastOnce(rows)


def period(seconds: Span) -> Bound:
    """Reached at the first marker, and at the first one behind each multiple of ``seconds`` of event time. ``bound & period(60)``
    is a bound that is looked at once a minute."""
    return Period(span_as_micros("period", seconds, code="TT126"))


def adaptive(least: Bound, most: Bound, *, frame: Span = 3600, steps: int = 10, load: bool = True) -> Bound:
    """A bound between two of one kind that adjusts itself, such as ``adaptive(sequence(50), sequence(500))``. It begins at
    ``least``, and moves at a marker by one of ``steps``: towards ``most`` where more items came in the last ``frame`` seconds of
    event time than on average, or the machine is overloaded; back where fewer came, or the machine has little to do; not at
    all where the two disagree (:mod:`tracetypes.adaptive_bounds`).

    ``load``: look at the load of the machine, too. It is recorded in the checkpoint.
    """
    return adaptive_bound(least, most, steps, span_as_micros("frame", frame, code="TT126"), load=load)


def all_of(*bounds: Bound) -> Bound:
    """Reached when all are. Of no bounds: always."""
    return combined(None, bounds)


def at_least_one(*bounds: Bound) -> Bound:
    """Reached when one is."""
    return combined(1, bounds)


def majority(*bounds: Bound) -> Bound:
    """Reached when more than half are: 2 of 3, 3 of 4."""
    return combined(len(bounds) // 2 + 1, bounds)


def _rows(rows: object) -> None:
    if rows is not None:
        need_function("rows=", rows, "rows=lambda key: key.zone == 3")


def _positive(name: str, number: object) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number) or number <= 0:
        raise UsageError("TT126", f"{name}={show(number)}", fix=f"give {name} as a number above 0")
    return float(number)
