"""Drift: how far the impacts of now are from those that a model was trained with."""

from __future__ import annotations

from collections.abc import Sequence

from tracetypes.compiler.gates.learned.steps import Example

__all__ = ["distances"]


def distances(recent: Sequence[Sequence[float]], examples: Sequence[Example]) -> tuple[float, ...]:
    """Of each step the distance between the distributions of recent impacts, by wave, and of those of the examples, from 0 to 1:
    that of Kolmogorov and Smirnov. Empty without any of them."""
    if not recent or not examples:
        return ()
    steps = range(len(examples[0].impacts))
    return tuple(_distance([one[n] for one in recent], [one.impacts[n] for one in examples]) for n in steps)


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    """The largest difference between two empirical distribution functions."""
    places = sorted({*one, *other})
    return max(abs(sum(x <= at for x in one) / len(one) - sum(x <= at for x in other) / len(other)) for at in places)
