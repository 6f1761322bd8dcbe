"""A checked dataflow as what a workspace gets: its operators with their identities."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tracetypes.check import Checked
from tracetypes.compiler.workspace.classes import SubmittedFlow, SubmittedOperator
from tracetypes.nodes import Apply, Gate, Merge, Node, Sink
from tracetypes.templates import OpStateless

__all__ = ["submission"]


def submission(
    name: str,
    checked: Checked,
    identities: Mapping[int, str | None],
    *,
    start: int | None = None,
    copies: Collection[int] = (),
) -> SubmittedFlow:
    """A dataflow under the name that it has in a workspace. ``identities``: of each node, None for one that cannot be
    identified. ``start``: the marker (microseconds) at which its states begin exactly, None if it takes those that run.
    ``copies``: the nodes whose streams cost less to compute again than to send through a channel."""
    return SubmittedFlow(
        name=name,
        start=start,
        operators=tuple(
            SubmittedOperator(
                id=node.id,
                identity=identities[node.id],
                inputs=node.inputs,
                in_places=not isinstance(node, Merge),
                keeps_state=_keeps_state(node),
                is_sink=isinstance(node, Sink),
                copy_is_cheaper=node.id in copies,
            )
            for node in checked.graph.nodes
        ),
    )


def _keeps_state(node: Node) -> bool:
    """Whether what a node emits in a block may depend on earlier blocks. SORT looks at one block, so it keeps none."""
    return isinstance(node, Gate) or (isinstance(node, Apply) and not isinstance(node.op, OpStateless))
