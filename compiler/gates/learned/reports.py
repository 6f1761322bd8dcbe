"""What gates have saved and what it cost: executions, errors, violations, confidence (section 5 of the paper)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from tracetypes.compiler.gates.learned.steps import Example
from tracetypes.compiler.gates.learned.workflow import Wave

__all__ = ["Report", "confidences", "correlation", "report"]


@attrs.frozen
class Report:
    """Of one gated step over some waves. ``saved``: the share of waves at which it did not run. ``violations``: by how much the
    error exceeded the bound, at the waves where it did. ``confidence``: the share of waves at which it did not. ``largest`` and
    ``mean``: of the errors."""

    step: str
    waves: int
    executions: int
    bound: float
    violations: tuple[float, ...]
    largest: float
    mean: float

    @property
    def saved(self) -> float:
        """Between 0 and 1."""
        return 1 - self.executions / self.waves

    @property
    def confidence(self) -> float:
        """Between 0 and 1."""
        return 1 - len(self.violations) / self.waves


def report(waves: Sequence[Wave], names: Sequence[str], bounds: Sequence[float]) -> list[Report]:
    """A report for each gated step. ``waves``: at least one."""
    return [
        Report(
            name,
            len(waves),
            sum(one.ran[n] for one in waves),
            bound,
            tuple(one.errors[n] - bound for one in waves if one.errors[n] > bound),
            max(one.errors[n] for one in waves),
            math.fsum(one.errors[n] for one in waves) / len(waves),
        )
        for n, (name, bound) in enumerate(zip(names, bounds, strict=True))
    ]


def confidences(waves: Sequence[Wave], step: int, bound: float) -> list[float]:
    """After each wave the share of waves so far at which the error was within the bound (figure 10)."""
    right, shares = 0, []
    for number, wave in enumerate(waves, 1):
        right += wave.errors[step] <= bound
        shares.append(right / number)
    return shares


def correlation(examples: Sequence[Example], step: int) -> float:
    """Pearson's coefficient of the impacts and errors of a step (figure 7). NaN if one of them never changes."""
    pairs = [(one.impacts[step], one.errors[step]) for one in examples]
    x, y = (math.fsum(pair[n] for pair in pairs) / len(pairs) for n in (0, 1))
    both, one, other = (
        math.fsum(term) for term in zip(*(((a - x) * (b - y), (a - x) ** 2, (b - y) ** 2) for a, b in pairs), strict=True)
    )
    return both / math.sqrt(one * other) if one > 0 and other > 0 else math.nan
