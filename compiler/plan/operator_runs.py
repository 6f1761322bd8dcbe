"""How each operator of a plan runs: over columns, or in Python for a reason."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator
from typing import Protocol

import attrs

from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.plan.facts import (
    closes_whole_blocks,
    closing_of,
    columns_in_order,
    joins_of,
    sorts_columns,
    sums_only,
)
from tracetypes.compiler.plan.plan import FromSource, Link, Plan, Stage, Step
from tracetypes.errors import Location
from tracetypes.nodes import Apply, Node, Restore, RowPosition, Sink, Sort, Source, title
from tracetypes.templates import OpKeyedOrdered, OpKeyedUnordered, overrides

__all__ = ["NoBackend", "Runs", "Wording", "combining_run", "keyed_runs", "stateless_runs", "step_name"]


class Wording(Protocol):
    """How a backend runs a plan: pairs of who does something, and what."""

    def source(self, source: Source) -> Iterable[tuple[str, str]]:
        """Who finds and reads the rows of a source."""

    def channel(self) -> Iterable[tuple[str, str]]:
        """Who finds and reads the rows of a channel."""

    def exchange(self) -> str:
        """How messages reach their key groups."""

    def sink(self, sink: Sink) -> Iterable[tuple[str, str]]:
        """Who writes the rows of a sink."""

    def faster(self, step: Step) -> str | None:
        """What would have an operator run in machine code that runs over columns now; None for nothing."""

    def python(self, plan: Plan) -> str | None:
        """Where the parts of a plan run that call Python for their items, if that is worth a line."""


@attrs.frozen
class Runs:
    """An operator of a plan and how it runs: over columns (``native``), or in Python for the ``reason``. ``where``: the author's
    line to which the reason points."""

    node: Node
    name: str
    native: bool
    reason: str | None = None
    where: Location | None = None


class NoBackend:
    """The words where no backend is installed: nothing is said of who reads and writes."""

    def source(self, source: Source) -> Iterable[tuple[str, str]]:
        """Nobody is known."""
        return ()

    def channel(self) -> Iterable[tuple[str, str]]:
        """Nobody is known."""
        return ()

    def exchange(self) -> str:
        """What moves."""
        return "items and markers in Arrow batches"

    def sink(self, sink: Sink) -> Iterable[tuple[str, str]]:
        """Nobody is known."""
        return ()

    def faster(self, step: Step) -> str | None:
        """Nothing is known."""
        return None

    def python(self, plan: Plan) -> str | None:
        """Nothing is known."""
        return None


def stateless_runs(link: Link) -> Iterator[Runs]:
    """The stateless operators between a source or stage and the next stage. After a source, those before the first
    operator in Python and those after the last one take columns. Between stages either all take columns or none."""
    python = [at for at, mapped in enumerate(link.path) if isinstance(mapped.traced, Opaque)]
    for at, mapped in enumerate(link.path):
        if isinstance(mapped.traced, Opaque):
            yield _opaque(mapped.node, title(mapped.node), mapped.traced)
            continue
        reason: str | None = None
        if python and not (isinstance(link.leaf, FromSource) and not python[0] < at < python[-1]):
            behind = bisect(python, at)
            near = min(python[max(behind - 1, 0) : behind + 1], key=lambda one: abs(one - at))
            reason = f"{title(link.path[near].node)} beside it runs in Python"
        yield Runs(mapped.node, title(mapped.node), reason is None, reason)


def combining_run(stage: Stage) -> Runs | None:
    """The operator whose items are combined before the exchange, if there is one."""
    if not sums_only(stage):
        return None
    step = stage.steps[0]
    if isinstance(step.monoid, Opaque):
        return _opaque(step.node, title(step.node), _opaque_aggregate(stage, step.monoid))
    return Runs(step.node, title(step.node), True)


def keyed_runs(stage: Stage) -> Iterator[Runs]:
    """The sorts and keyed operators of a stage."""
    for at, step in enumerate(stage.steps):
        native = at == 0 and ((not isinstance(step.keyed, Opaque) and sums_only(stage)) or closing_of(stage) is not None)
        native = native or (at == 0 and joins_of(stage) is not None)
        native = native or (at <= columns_in_order(stage) if at else sorts_columns(stage))
        why = None if native else _why(stage, at)
        name = step_name(stage, at)
        yield _opaque(step.node, name, why) if isinstance(why, Opaque) else Runs(step.node, name, native, why)


def _opaque(node: Node, name: str, why: Opaque) -> Runs:
    """An operator that could not be expressed, with the line that is to blame, or else its own."""
    return Runs(node, name, False, why.reason, why.where or node.where)


def _why(stage: Stage, at: int) -> str | Opaque:
    step = stage.steps[at]
    match step.operator:
        case Sort():
            return "the function by= is called per item; numbers, times and text that it returns are sorted as columns"
        case Restore():
            return "each item is kept with its place in the source"
        case OpKeyedOrdered() if isinstance(step.ordered, Opaque):
            return step.ordered
        case OpKeyedOrdered() if at and isinstance(stage.steps[at - 1].operator, OpKeyedOrdered | OpKeyedUnordered):
            return "its items come from the operator before it"
        case OpKeyedOrdered() if (
            at and isinstance(stage.steps[at - 1].node, Sort) and isinstance(why := stage.steps[at - 1].place, Opaque)
        ):
            return why
        case OpKeyedOrdered():
            return "the items before it are not sorted as columns"
        case OpKeyedUnordered() as op if overrides(op, "on_item"):
            return "it emits for single items"
        case OpKeyedUnordered():
            if at == 0 and isinstance(step.keyed, Opaque):
                return _opaque_aggregate(stage, step.keyed)
            return "its items come from the operator before it"


def _opaque_aggregate(stage: Stage, why: Opaque) -> Opaque:
    """Why the first operator sums up its items in Python."""
    closing, joins, op = stage.steps[0].closing, stage.steps[0].joins, stage.steps[0].operator
    if isinstance(joins, Opaque) and isinstance(op, OpKeyedUnordered) and op._joins() is not None:
        return joins
    return closing if isinstance(closing, Opaque) and closes_whole_blocks(stage) else why


def step_name(stage: Stage, at: int) -> str:
    step = stage.steps[at]
    match step.node:
        case Sort():
            return "sort (fused)"
        case Restore():
            by = [leaf.source.ordered_by for leaf in stage.region.leaves if isinstance(leaf, FromSource)]
            own = [b for b in by if b is not None and not isinstance(b, RowPosition)]
            return "SORT by the source's own order (fused)" if own else "SORT by position (fused)"
        case Apply(op=op):
            name = title(step.node)
            if isinstance(op, OpKeyedUnordered):
                sums_only = (
                    "items folded as they come"
                    if not overrides(op, "on_item") and at == 0 and joins_of(stage) is None
                    else "items kept to the marker"
                )
                skips = ", untouched keys skipped" if op.skips_untouched else ", every key visited at every marker"
                if op.forgets_idle and not op.skips_untouched:
                    skips += ", idle keys forgotten"
                return f"{name} ({sums_only}{skips})"
            return f"{name} (idle keys forgotten)" if isinstance(op, OpKeyedOrdered) and op.forgets_idle else name
    raise AssertionError
