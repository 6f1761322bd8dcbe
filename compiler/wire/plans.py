"""Plans as bytes, for other processes."""

from __future__ import annotations

from tracetypes.compiler.plan.plan import Plan, Stage, StatelessStep
from tracetypes.nodes import Apply
from tracetypes.redaction import conceal

__all__ = ["conceal_operators"]


def conceal_operators(plan: Plan) -> None:
    """Keep the secrets of a plan's operators out of the messages of this process, which did not make them."""
    for region in (*(stage.region for stage in plan.stages), plan.region):
        for node in region.nodes:
            if isinstance(node, StatelessStep):
                conceal(node.node.op)
    for stage in plan.stages:
        _conceal_steps(stage)


def _conceal_steps(stage: Stage) -> None:
    for step in stage.steps:
        if isinstance(step.node, Apply):
            conceal(step.node.op)
        conceal(step.coarse)
