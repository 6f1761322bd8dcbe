"""The largest bounds that keep the output within a significance factor (Flux, section 3.3 and figure 4).

The owner says how much the output of the last step may vary between two executions: the significance factor. The bound of the
last step is found first. How much its input varies between two executions with this bound is the factor of the step before it. So
the search goes backwards along the flow. At each step the bound is doubled until the output varies too much. Then the search
halves the interval between what is allowed and what is not, up to where the variation equals the factor, within a small epsilon,
or nothing lies between.

The paper searches while the flow runs, a trial a wave. Here each trial is a run over the same recorded waves, so that trials
compare the bounds and not the waves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs

from tracetypes.errors import UsageError

__all__ = ["Found", "Trial", "Varied", "search_bounds"]


@attrs.frozen
class Varied:
    """How much the input and the output of a step vary between two of its executions."""

    input: float
    output: float


Trial: TypeAlias = Callable[[Sequence[float]], Sequence[Varied]]
"""Runs the flow with a bound for each step, from the first to the last. Returns how much each varies."""


@attrs.frozen
class Found:
    """What a search has found. ``bounds``: of each step; ``variations``: of each step with these bounds; ``trials``: how often
    the flow ran."""

    bounds: tuple[float, ...]
    variations: tuple[Varied, ...]
    trials: int


def search_bounds(
    trial: Trial, steps: int, factor: float, *, most: float, epsilon: float = 0.01, whole: bool = True
) -> Found:
    """The largest bounds of ``steps`` steps, up to ``most`` each, with which the output of the last varies by ``factor`` at most.

    Bounds are numbers such as those of ``sequence(n)``; with ``whole=False`` such as those of ``value(percent=p)``. All begin at
    1. The first step of a flow that reads the input has no gate, and is none of the steps. ``epsilon``: a variation so near the
    factor is equal to it. Raises :class:`UsageError` ``TT126``.
    """
    for name, number in (("steps", steps), ("factor", factor), ("most", most)):
        if number <= 0:
            raise UsageError("TT126", f"{name}={number!r}", fix=f"give {name} as a number above 0")
    search = _Search(trial, [1.0] * steps, most, epsilon, whole)
    target = factor
    for step in reversed(range(steps)):
        target = search.step(step, target).input
        if target <= 0:
            break  # no change at its input is allowed: the steps before it stay as strict as they are
    return Found(tuple(search.bounds), tuple(search.run()), search.trials)


@attrs.define
class _Search:
    trial: Trial
    bounds: list[float]
    most: float
    epsilon: float
    whole: bool
    trials: int = 0

    def run(self) -> Sequence[Varied]:
        self.trials += 1
        return self.trial(tuple(self.bounds))

    def step(self, step: int, target: float) -> Varied:
        """Find the bound of a step; how much the step varies with it."""
        good, varied = self.bounds[step], self.run()[step]
        bad: float | None = None
        while bad is None and good < self.most:
            tried = self.at(step, min(2 * good, self.most))
            if tried.output > target + self.epsilon:
                bad = self.bounds[step]
            else:
                good, varied = self.bounds[step], tried
        while bad is not None and self.between(good, bad):
            middle = (good + bad) // 2 if self.whole else (good + bad) / 2
            tried = self.at(step, middle)
            if tried.output > target + self.epsilon:
                bad = middle
                continue
            good, varied = middle, tried
            if abs(tried.output - target) <= self.epsilon:
                break
        self.bounds[step] = good
        return varied

    def at(self, step: int, bound: float) -> Varied:
        self.bounds[step] = bound
        return self.run()[step]

    def between(self, good: float, bad: float) -> bool:
        return bad - good > 1 if self.whole else bad - good > 0.01 * good
