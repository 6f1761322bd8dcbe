"""What runs where, what runs as Python and why, and what would make it faster: the first lines of ``explain``.

Operators have the names that the author wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import attrs

from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.operator_runs import Runs, Wording, combining_run, keyed_runs, stateless_runs
from tracetypes.compiler.plan.plan import FromChannel, FromSource, FromStage, Leaf, Plan, links
from tracetypes.compiler.plan.program import Program
from tracetypes.errors import counted
from tracetypes.nodes import Gather, Merge, Node, Restore, Sort, title
from tracetypes.redaction import redact

__all__ = ["overview"]

MOST: Final = 10
"""Operators of one kind that are named, and reasons."""


@attrs.frozen
class _Part:
    """Operators that run in one place. ``where``: the place, in words."""

    where: str
    runs: tuple[Runs, ...]


def overview(compiled: Program, wording: Wording) -> Iterator[str]:
    """The lines of the overview."""
    several = len(compiled.plans) > 1
    python: dict[int, Runs] = {}
    machine: dict[str, None] = {}
    yield "what runs where"
    for name, plan in compiled.named:
        parts = list(_parts(plan))
        if several:
            yield f"    query {name}{'' if parts else ': no operator, it hands rows on'}"
        for part in parts:
            yield from (f"{'    ' if several else ''}{line}" for line in _shown(part))
            python |= {run.node.id: run for run in part.runs if not run.native and run.where is not None}
        for stage in plan.stages:
            for step, run in zip(stage.steps, keyed_runs(stage), strict=True):
                if run.native and wording.faster(step) is not None:
                    machine[_name(step.node)] = None
    yield ""
    yield "what runs as Python, item by item, and why"
    yield from _python(list(python.values()))
    yield ""
    yield "what would make it faster"
    if machine:
        yield f"    pip install 'tracetypes[fast]': machine code for {', '.join(machine)}"
    if python:
        yield "    the lines above, written so that columns can hold what they do (docs/columns.md)"
    if narrow := all(plan.parallelism == 1 for plan in compiled.plans):
        yield "    --parallelism N: N tasks at once, now 1, with the same answer"
    if not (machine or python or narrow):
        yield "    nothing that is known here"


def _parts(plan: Plan) -> Iterator[_Part]:
    by_key = "in one task: nothing moves" if is_straight(plan) else f"by key, in {plan.key_groups} key groups"
    for stage in plan.stages:
        for link in links(stage.region):
            runs = tuple(stateless_runs(link))
            if runs:
                yield _Part(f"behind {_leaf(link.leaf)}", runs)
        keyed = tuple(keyed_runs(stage))
        combining = "" if combining_run(stage) is None else ", of items that are combined before they move"
        if keyed:
            yield _Part(f"{by_key}{combining}", keyed)
    (tail,) = links(plan.region)
    if runs := tuple(stateless_runs(tail)):
        yield _Part(f"before the {title(plan.sink)}", runs)


def _leaf(leaf: Leaf) -> str:
    match leaf:
        case FromSource(source=source):
            return f"the {title(source)}"
        case FromChannel(name=name):
            return f"the channel {name!r}"
        case FromStage():
            return "the operators before"


def _shown(part: _Part) -> Iterator[str]:
    for native, runs in groupby(part.runs, key=lambda run: run.native):
        names = [_name(run.node) for run in runs]
        more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
        how = "over columns" if native else "as Python"
        yield f"    {', '.join(names[:MOST])}{more}: {how}, {part.where}"


def _python(runs: Sequence[Runs]) -> Iterator[str]:
    for run in runs[:MOST]:
        yield f"    {_name(run.node)}: {redact(run.reason or 'it cannot be expressed')}"
        if run.where is not None:
            text = redact(run.where.text)
            yield f"        at {run.where}{f': {text}' if text else ''}"
    if len(runs) > MOST:
        yield f"    and {counted(len(runs) - MOST, 'operator')} more, see below"
    if not runs:
        yield "    nothing"


def _name(node: Node) -> str:
    """What the author wrote."""
    match node:
        case Sort():
            return "sort"
        case Merge() | Gather():
            return "merge"
        case Restore():
            return "order of the source"
        case _:
            return title(node)
