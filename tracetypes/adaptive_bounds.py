"""Bounds within an interval, which adjust themselves to how often items come and to the load of the machine (Flux, section 3.3).

At each marker each of two factors says *relax*, *restrict* or nothing. Items that come more often than on average relax the
bound, so that an execution has as much to do as possible. Items that come less often restrict it. A loaded machine relaxes it,
one that has little to do restricts it:

=============  ==========  ==========  =======
items \\ load   relax       restrict    nothing
=============  ==========  ==========  =======
relax          relax       nothing     relax
restrict       nothing     restrict    restrict
nothing        relax       restrict    nothing
=============  ==========  ==========  =======

The bound moves by one step of the interval at a marker, and a factor says nothing near its reference. So it does not jitter. How
often items come follows from the trace. The load is looked at and recorded.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, final

import attrs

from tracetypes.bounds import Bound, Decision, Measure, Observation, Sequence, Time, Updates, Value
from tracetypes.errors import UsageError

__all__ = ["Adaptive", "Outcome", "adaptive_bound", "agreed", "interval_problem"]

Outcome: TypeAlias = Literal["relax", "restrict", "nothing"]

BAND: Final = 0.1
"""A rate that differs from the mean by less than this part says nothing."""

BUSY: Final = 0.9
"""The load from which a machine is overloaded; 1 is all of its processors."""

IDLE: Final = 0.5
"""The load up to which it has little to do."""


def agreed(items: Outcome, load: Outcome) -> Outcome:
    """What two factors say together."""
    if items == load or load == "nothing":
        return items
    return load if items == "nothing" else "nothing"


@attrs.frozen
class _Rate:
    """How many items came. ``first``: the first marker; ``total``: items since then; ``recent``: marker and number of items of
    each block of the last frame."""

    first: int | None = None
    total: int = 0
    recent: tuple[tuple[int, int], ...] = ()

    def after(self, marker: int, count: int, frame: int) -> _Rate:
        recent = (*((at, number) for at, number in self.recent if at > marker - frame), (marker, count))
        return _Rate(marker, 0, recent) if self.first is None else _Rate(self.first, self.total + count, recent)

    def outcome(self, marker: int, frame: int) -> Outcome:
        if self.first is None or marker - self.first <= frame:
            return "nothing"
        recent, mean = sum(number for _, number in self.recent) / frame, self.total / (marker - self.first)
        if recent > mean * (1 + BAND):
            return "relax"
        return "restrict" if recent < mean * (1 - BAND) else "nothing"


@final
@attrs.frozen(repr=False)
class Adaptive(Bound):
    """See :func:`tracetypes.gates.adaptive`. ``frame``: microseconds."""

    least: Bound
    most: Bound
    steps: int
    frame: int
    load: bool

    def __repr__(self) -> str:
        return f"adaptive({self.least}, {self.most})"

    def measures(self) -> tuple[Measure, ...]:
        return tuple(dict.fromkeys((Updates(), *self.least.measures(), *self.most.measures())))

    def fresh(self) -> Any:
        return {"level": 0, "updates": 0, "execution": None, "rate": attrs.astuple(_Rate())}

    def decide(self, seen: Observation, state: Any) -> Decision:
        first, total, recent = state["rate"]
        updates = int(seen.measures[Updates()])
        came = updates - (state["updates"] if state["execution"] == seen.execution else 0)
        rate = _Rate(first, total, tuple((at, count) for at, count in recent)).after(seen.marker, came, self.frame)
        outcome = agreed(rate.outcome(seen.marker, self.frame), self.of_load(seen))
        level = state["level"] + {"relax": 1, "restrict": -1, "nothing": 0}[outcome]
        level = min(max(level, 0), self.steps)
        after = {"level": level, "updates": updates, "execution": seen.execution, "rate": attrs.astuple(rate)}
        return Decision(self.at(level).decide(seen, None).reached, after)

    def of_load(self, seen: Observation) -> Outcome:
        """What the machine says."""
        if not self.load:
            return "nothing"
        load = seen.outside("load")
        return "relax" if load >= BUSY else "restrict" if load <= IDLE else "nothing"

    def at(self, level: int) -> Bound:
        """The bound at a level of the interval: 0 is the least."""
        ends = {name: (getattr(self.least, name), getattr(self.most, name)) for name in _numbers(self.least)}
        bound: Any = self.least
        evolved: Bound = attrs.evolve(bound, **{name: _between(*pair, level, self.steps) for name, pair in ends.items()})
        return evolved


def _numbers(bound: Bound) -> tuple[str, ...]:
    """The fields of a bound that an interval has two values of."""
    match bound:
        case Time():
            return ("micros",)
        case Sequence():
            return "count", "percent"
        case Value():
            return "units", "percent"
        case _:
            return ()


def _between(least: Any, most: Any, level: int, steps: int) -> Any:
    if least is None:
        return None
    if isinstance(least, int):
        return least + (most - least) * level // steps
    return least + (most - least) * (level / steps)


def interval_problem(least: object, most: object) -> str | None:
    """Why two bounds are the ends of no interval; None if they are."""
    if not isinstance(least, Time | Sequence | Value) or type(least) is not type(most):
        return f"{least} and {most} are not two bounds of time, sequence or value"
    numbers = _numbers(least)
    for field in attrs.fields(type(least)):
        one, other = getattr(least, field.name), getattr(most, field.name)
        if field.name not in numbers and one != other:
            return f"{least} and {most} differ in {field.name}"
        if field.name in numbers and (one is None) != (other is None):
            return f"{least} and {most} are of different units"
        if field.name in numbers and one is not None and one > other:
            return f"{least} is larger than {most}"
    return None


def adaptive_bound(least: Bound, most: Bound, steps: int, frame: int, *, load: bool) -> Adaptive:
    """The bound between two. Raises :class:`UsageError` ``TT126``."""
    if (problem := interval_problem(least, most)) is not None:
        fix = "give the smaller and the larger of one kind: adaptive(sequence(50), sequence(500))"
        raise UsageError("TT126", problem, fix=fix)
    if type(steps) is not int or steps < 1:
        raise UsageError("TT126", f"steps={steps!r}", fix="give a whole number from 1")
    return Adaptive(least, most, steps, frame, bool(load))
