"""Which operators of a dataflow cost less than a channel, so that each of their readers computes them again."""

from __future__ import annotations

from tracetypes.check import Checked
from tracetypes.compiler.analysis.traced import Opaque, traced
from tracetypes.compiler.tracing.cache_keys import AnalysisCache
from tracetypes.nodes import Apply, Merge, Node, Sort
from tracetypes.templates import OpStateless, overrides

__all__ = ["cheap_operators"]


def cheap_operators(checked: Checked, once: AnalysisCache) -> frozenset[int]:
    """The numbers of stateless operators that run over columns, of merges and of sorts. They keep nothing from one block to the
    next."""
    return frozenset(node.id for node in checked.graph.nodes if _is_cheap(node, checked, once))


def _is_cheap(node: Node, checked: Checked, once: AnalysisCache) -> bool:
    match node:
        case Merge() | Sort():
            return True
        case Apply(op=OpStateless()) if not overrides(node.op, "on_marker"):
            return not isinstance(once(traced, node.op, checked.streams[node.inputs[0]]), Opaque)
        case _:
            return False
