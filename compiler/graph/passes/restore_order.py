"""A SORT by position wherever moving data would lose the order of an O edge (section 4, SORT; design, corner 9).

Equation::

    id  =  SORT(position)           on O[K, V], where position is the place an item had when it was sent

Before:  ``source O -> HASH(k) -> g``  or  ``MRG of ordered streams -> g``
After:   ``source O -> HASH(k) -> SORT(position) -> g``

Why it holds: a trace of type O is ordered per key already, so sorting it by its own order changes nothing. It is needed
because no backend delivers in order: a source is read in pieces by several workers, and an exchange interleaves its
senders. Positions are numbered by the sender; an edge whose consumer does not look at the order gets no such SORT.
"""

from __future__ import annotations

from tracetypes.check import Checked
from tracetypes.compiler.graph.rewrite import Rewrite, restore
from tracetypes.nodes import Apply, Gather, Merge, Node, Receive, Sink, Source, Split
from tracetypes.templates import OpKeyedOrdered

EQUATION = "id = SORT(position) on O   (section 4, SORT)"


def restore_order(checked: Checked) -> Checked:
    """Put a SORT by position before every consumer that needs the order of an edge which is about to be cut."""
    to = Rewrite(checked)
    by_id = checked.graph.by_id
    for node in checked.graph.nodes:
        needs = isinstance(node, Sink) or (isinstance(node, Apply) and isinstance(node.op, OpKeyedOrdered))
        if needs and checked.types[node.inputs[0]].ordered and _is_cut(by_id[node.inputs[0]], by_id):
            to.place(node, (to.add(restore, (to.input_of(node.inputs[0]),), node),))
        else:
            to.place(node)
    return to.done()


def _is_cut(node: Node, by_id: dict[int, Node]) -> bool:
    """Does the edge that leaves a node come from a source, an exchange or another stream, not from a keyed operator?"""
    if isinstance(node, Gather):
        return isinstance(by_id[node.inputs[0]], Split | Merge)
    return isinstance(node, Source | Receive | Split | Merge)
