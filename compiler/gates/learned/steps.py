"""Gated steps, and the virtual executions that turn waves of a training run into examples.

In a training run each step runs at each wave, so no error ever arises. It is simulated: a *virtual execution* of a step is a
wave at which the application would run it. Between two of them the step's output would be that of the last one. So, at each
wave, for the steps in topological order:

1. What the step would see of a gated predecessor is that one's output at its own last virtual execution; of any other, the
   output of this wave.
2. The impact is the change of what it sees since its own last virtual execution. If it *accumulates*, it is the sum of the
   changes from wave to wave; else changes may cancel each other.
3. The error is the difference between its output of this wave, which is the correct one, and that of its last virtual
   execution; or the sum of these from wave to wave.
4. A step is *needed* if its error is above its bound, or if a step that reads it, directly or through others, is needed: an
   output is not corrected by what does not come. The label says whether the step has to run: it is needed, and a predecessor
   ran virtually at this wave. Behind a closed gate there is nothing new to compute with, and the application would not ask. A
   virtual execution resets impact and error.

One thing differs from the application: the output of a virtual execution was computed from fresh inputs, the application's
from what the step would see. A bound holds for the step's own staleness, and errors of predecessors come on top, as in the
paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from tracetypes.errors import UsageError
from tracetypes.impacts import Variation, combined, variation

__all__ = [
    "Change",
    "Example",
    "Feature",
    "Looks",
    "Step",
    "Tolerance",
    "Values",
    "VirtualExecutions",
    "gates_before",
    "needed_steps",
]

Values: TypeAlias = Mapping[Any, Any]
"""The latest values of a container, by key."""


Feature: TypeAlias = tuple[str, Variation[Any, Any]]


@attrs.frozen
class Tolerance:
    """An error that a step tolerates. ``bound``: the largest one, above 0. ``accumulates``: impact and error are sums from wave
    to wave. ``features``: what else the gate looks at: the name of a step, which reads what the gated one reads, and how much its
    container has changed."""

    bound: float
    impact: Variation[Any, Any]
    error: Variation[Any, Any]
    accumulates: bool = False
    features: tuple[Feature, ...] = ()

    def __attrs_post_init__(self) -> None:
        if not self.bound > 0:
            fix = "give a bound above 0, or leave the gate out: a step that tolerates no error runs at each wave"
            raise UsageError("TT121", f"the error bound is {self.bound!r}", fix=fix)


@attrs.frozen
class Step:
    """A step of a workflow. ``reads``: the steps or sources whose containers it reads, by name. ``gate``: None if it tolerates no
    error; it runs whenever one that it reads has run."""

    name: str
    reads: tuple[str, ...]
    gate: Tolerance | None = None


@attrs.frozen
class Example:
    """A wave of training: of each gated step the ``features``, the impact first, the error, whether the application would ask,
    and whether it has to run."""

    wave: int
    features: tuple[tuple[float, ...], ...]
    errors: tuple[float, ...]
    asked: tuple[bool, ...]
    labels: tuple[bool, ...]

    @property
    def impacts(self) -> tuple[float, ...]:
        """Of each gated step."""
        return tuple(one[0] for one in self.features)


class Change:
    """How much a container has changed since it was last reset, by one function."""

    def __init__(self, function: Variation[Any, Any], *, accumulates: bool) -> None:
        self.function, self.accumulates = function, accumulates
        self.then: Values = {}
        self.before: Values = {}
        self.sum = 0.0

    def see(self, now: Values) -> float:
        """The change up to this wave's state of the container."""
        if not self.accumulates:
            self.before = now
            return variation(self.function, now, self.then)
        self.sum += variation(self.function, now, self.before)
        self.before = now
        return self.sum

    def reset(self) -> None:
        """The step has run."""
        self.then, self.sum = self.before, 0.0


class Looks:
    """What the gates of a workflow see of the containers that their steps read. ``steps``: in topological order."""

    def __init__(self, steps: Sequence[Step]) -> None:
        gated = [(step, step.gate) for step in steps if step.gate is not None]
        self.impacts = {
            step.name: {name: Change(gate.impact, accumulates=gate.accumulates) for name in step.reads} for step, gate in gated
        }
        self.features = {
            step.name: [(name, Change(function, accumulates=False)) for name, function in gate.features] for step, gate in gated
        }

    def see(self, step: str, containers: Mapping[str, Values]) -> tuple[float, ...]:
        """The features of a step, its impact first. ``containers``: as its gate sees them, by name."""
        impact = combined({name: one.see(containers[name]) for name, one in self.impacts[step].items()})
        return (impact, *(one.see(containers[name]) for name, one in self.features[step]))

    def reset(self, step: str) -> None:
        """A step has run."""
        for change in (*self.impacts[step].values(), *(one for _, one in self.features[step])):
            change.reset()


class VirtualExecutions:
    """Turns waves into examples. ``steps``: in topological order. A container must not change behind our back: each wave brings
    mappings of its own."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps, self.wave = tuple(steps), 0
        self.seen: dict[str, Values] = {step.name: {} for step in steps}
        self.looks = Looks(steps)
        self.errors = {
            step.name: Change(step.gate.error, accumulates=step.gate.accumulates) for step in steps if step.gate is not None
        }

    def take(self, containers: Mapping[str, Values]) -> Example:
        """The example of the next wave. ``containers``: what each step and source holds after it, by name."""
        ran: dict[str, bool] = {}
        features, asked, labels = [], [], []
        errors = {name: change.see(containers[name]) for name, change in self.errors.items()}
        needed = needed_steps(self.steps, errors)
        for step in self.steps:
            runs = any(ran.get(name, True) for name in step.reads)
            if step.gate is not None:
                features.append(self.looks.see(step.name, {**containers, **self.seen}))
                asked.append(runs)
                runs = runs and step.name in needed
                labels.append(runs)
                if runs:
                    self.errors[step.name].reset()
                    self.looks.reset(step.name)
            if runs:
                self.seen[step.name] = containers[step.name]
            ran[step.name] = runs
        self.wave += 1
        return Example(self.wave - 1, tuple(features), tuple(errors.values()), tuple(asked), tuple(labels))


def needed_steps(steps: Sequence[Step], errors: Mapping[str, float]) -> set[str]:
    """The steps whose error is above the bound, and those that these read, directly or through others. ``steps``: in topological
    order. ``errors``: of the gated ones, by name."""
    needed: set[str] = set()
    for step in reversed(steps):
        if (step.gate is not None and errors[step.name] > step.gate.bound) or step.name in needed:
            needed |= {step.name, *step.reads}
    return needed


def gates_before(steps: Sequence[Step]) -> list[frozenset[int]]:
    """Of each gated step the numbers of the gated steps on the way to it, and its own: whose impacts are there when it is asked.
    ``steps``: in topological order."""
    before: dict[str, frozenset[int]] = {}
    gates: list[frozenset[int]] = []
    for step in steps:
        numbers = frozenset[int]().union(*(before.get(name, frozenset()) for name in step.reads))
        if step.gate is not None:
            numbers |= {len(gates)}
            gates.append(numbers)
        before[step.name] = numbers
    return gates
