"""What the gates of a workflow have saved and what it cost (section 5 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence

from tracetypes.compiler.gates.learned.steps import Example
from tracetypes.compiler.gates.learned.workflow import Wave
from tracetypes.compiler.gates.reports import ShadowReport, behind_first, pearson

__all__ = ["correlation", "report"]


def report(waves: Sequence[Wave], names: Sequence[str], bounds: Sequence[float]) -> list[ShadowReport]:
    """A report for each gated step, against the workflow in which all steps run at each wave."""
    every = (True,) * len(waves)
    return [
        ShadowReport(name, every, every, tuple(one.ran[n] for one in waves), tuple(one.errors[n] for one in waves), bound)
        for n, (name, bound) in enumerate(zip(names, bounds, strict=True))
    ]


def correlation(examples: Sequence[Example], step: int) -> float:
    """Pearson's coefficient of the impacts and errors of a step behind its first execution (figure 7). NaN if one of them never
    changes."""
    later = examples[behind_first([one.labels[step] for one in examples])]
    return pearson([one.impacts[step] for one in later], [one.errors[step] for one in later])
