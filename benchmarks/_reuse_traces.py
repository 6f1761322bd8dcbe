"""The traces of the paper on reuse (section 5.1): in which order flows come and go. Seeds are fixed."""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Final, Literal, NamedTuple

__all__ = ["SEEDS", "TRACES", "Step", "Trace", "trace"]

TRACES: Final = ("sequential", "walk 1", "walk 2")

SEEDS: Final = {"sequential": 1, "walk 1": 11, "walk 2": 14}
"""Of the walks the first two from 11 on that stay among many flows, as the paper's do: 14 or more on average."""


class Step(NamedTuple):
    """What happens at the beginning of a time step."""

    do: Literal["submit", "remove"]
    flow: str


class Trace(NamedTuple):
    """``before``: flows that are there before the first step. ``steps``: the last one removes the last flow."""

    name: str
    before: tuple[str, ...]
    steps: tuple[Step, ...]


def trace(name: str, flows: Collection[str], *, first: int, walk: int = 100) -> Trace:
    """A trace over some flows. ``sequential``: they come in random order, and go in random order. A walk begins with ``first`` of
    them; in each of ``walk`` steps one comes or one goes, with equal probability, and one that is there does not come again; then
    they go. Where none is left to come or to go, the other happens."""
    drawn = random.Random(SEEDS[name])
    away, there = sorted(flows), list[str]()
    steps: list[Step] = []

    def step(do: Literal["submit", "remove"]) -> None:
        source, target = (away, there) if do == "submit" else (there, away)
        flow = source.pop(drawn.randrange(len(source)))
        target.append(flow)
        steps.append(Step(do, flow))

    for _ in range(first if name != "sequential" else len(away)):
        step("submit")
    before: tuple[str, ...] = ()
    if name != "sequential":
        before = tuple(one.flow for one in steps)
        steps.clear()
        for _ in range(walk):
            comes = drawn.random() < 0.5
            step("submit" if away and (comes or not there) else "remove")
    while there:
        step("remove")
    return Trace(name, before, tuple(steps))
