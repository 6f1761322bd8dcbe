"""Facts about a plan that several layers ask for."""

from __future__ import annotations

from tracetypes.compiler.analysis.block_joins import TracedBlockJoin
from tracetypes.compiler.analysis.choices import TracedChoice
from tracetypes.compiler.analysis.monoids import Monoid
from tracetypes.compiler.analysis.summaries import Closing, ClosingPart
from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.plan.plan import FromSource, Plan, Region, Stage, StatelessStep, links
from tracetypes.formats import Kafka
from tracetypes.markers import EventTime
from tracetypes.nodes import Apply, title
from tracetypes.templates import OpKeyedOrdered, OpKeyedUnordered, OpStateless, overrides

__all__ = [
    "choices_of",
    "closes_whole_blocks",
    "closing_of",
    "column_monoid",
    "columns_in_order",
    "emits_at_markers",
    "is_on_grid",
    "is_straight",
    "joins_of",
    "needs_of",
    "runs_at_each_marker",
    "sorts_columns",
    "sums_only",
]


def sums_only(stage: Stage) -> bool:
    """Whether the first operator only sums its items, so that they may be combined before the exchange."""
    node = stage.steps[0].node if stage.steps else None
    op = node.op if isinstance(node, Apply) else None
    return isinstance(op, OpKeyedUnordered) and not overrides(op, "on_item")


def column_monoid(stage: Stage) -> Monoid | None:
    """The monoid by which columns of items may be combined before the exchange to a stage."""
    monoid = stage.steps[0].monoid if sums_only(stage) else None
    return monoid if isinstance(monoid, Monoid) else None


def choices_of(stage: Stage) -> tuple[TracedChoice, ...]:
    """Which items the first operator needs of those that are not combined before the exchange; empty where it needs all, or
    columns cannot tell."""
    choices = stage.steps[0].choices if sums_only(stage) and column_monoid(stage) is None else ()
    return () if isinstance(choices, Opaque) else choices


def closing_of(stage: Stage) -> Closing | None:
    """What the first operator emits of a block, or of a window that overlaps others, if that follows from its items alone, and
    columns can tell."""
    if not sums_only(stage) or column_monoid(stage) is not None or emits_at_markers(stage.region):
        return None
    closing = stage.steps[0].closing
    if isinstance(closing, Opaque):
        return None
    return closing if closing.always or closing.reach or stage.tumbles is not None else None


def closes_whole_blocks(stage: Stage) -> bool:
    """Whether the first operator could answer each block from its items alone, were its functions columns."""
    op = stage.steps[0].operator
    whole = op._whole_block() if isinstance(op, OpKeyedUnordered) else None
    if whole is None or whole.summary is None or emits_at_markers(stage.region):
        return False
    return whole.always or whole.reach > 0 or stage.tumbles is not None


def joins_of(stage: Stage) -> TracedBlockJoin | None:
    """The join by key and block that is the first operator, if it runs over columns."""
    joins = stage.steps[0].joins if sums_only(stage) and not emits_at_markers(stage.region) else None
    return joins if isinstance(joins, TracedBlockJoin) else None


def needs_of(stage: Stage) -> tuple[ClosingPart, ...]:
    """What the first operator needs of items, where these are sent on as they are; empty where it combines them."""
    closing = closing_of(stage)
    return choices_of(stage) or (() if closing is None else closing.parts)


def sorts_columns(stage: Stage) -> bool:
    """Whether a stage begins with a sort that orders items as columns."""
    return bool(stage.steps) and not isinstance(stage.steps[0].place, Opaque) and not emits_at_markers(stage.region)


def columns_in_order(stage: Stage) -> int:
    """How many operators behind the sort of a stage run over columns, one behind the other."""
    if not sorts_columns(stage):
        return 0
    opaque = [isinstance(step.ordered, Opaque) for step in stage.steps[1:]]
    return opaque.index(True) if True in opaque else len(opaque)


def emits_at_markers(region: Region) -> bool:
    """Does a stateless operator of a region emit something at markers?"""
    return any(isinstance(node, StatelessStep) and overrides(node.node.op, "on_marker") for node in region.nodes)


def runs_at_each_marker(stage: Stage) -> list[str]:
    """The operators that run at each marker of a pause, by title: they say nothing that lets one be left out."""
    nodes = [node.node for node in stage.region.nodes if isinstance(node, StatelessStep)] + [step.node for step in stage.steps]
    found = []
    for node in nodes:
        match node.op if isinstance(node, Apply) else None:
            case OpStateless() as op if overrides(op, "on_marker"):
                found.append(title(node))
            case OpKeyedOrdered() as op if overrides(op, "on_marker") and not overrides(op, "next_due"):
                found.append(title(node))
            case OpKeyedUnordered() as op if not (op.skips_untouched or op.forgets_idle or op.tumbles()):
                found.append(title(node))
            case _:
                pass
    return found


def is_on_grid(marker: int, grid: tuple[int, int]) -> bool:
    """Does a marker lie on a grid, given by its size and offset in microseconds?"""
    size, offset = grid
    return not (marker - offset) % size


def is_straight(plan: Plan) -> bool:
    """Whether items may go straight to the sink. If no keyed operator reads them, no order must be restored and nothing
    is emitted at markers, a block need not be complete before its items go on: only its markers have to wait."""
    (*_, last) = plan.stages
    alone = len(plan.stages) == 1 and not last.steps and not emits_at_markers(last.region) and not emits_at_markers(plan.region)
    timed = all(
        isinstance(leaf, FromSource)
        and leaf.gives_items
        and isinstance(leaf.source.markers, EventTime)
        for leaf in plan.leaves
    )
    in_band = isinstance(plan.sink.format, Kafka) and plan.sink.format.markers  # then items wait for their markers
    return alone and timed and not in_band and not links(plan.region)[0].path and not plan.edge.ordered
