"""Splitters that change nothing are dropped (section 4, "reordering MRG and HASH", bottom right; and Theorem 4.3).

Equations::

    MRG >> HASH(k) = id                    on channels that HASH(k) made, when the keys were kept since
    MRG >> RR(n) >> (b || ... || b)  =  (b || ... || b)         on channels that are there already

Before:  ``HASH(k) -> sort -> MRG -> HASH(k) -> g -> MRG -> RR(n) -> b -> MRG``
After:   ``HASH(k) -> sort -> g -> b -> MRG``

Why it holds: HASH sends all of a channel whose keys hash to ``i`` to channel ``i``; SORT and ``OpKeyedOrdered`` keep keys.
For a stateless operator any splitter will do, so also the one that made the present channels: what moves least wins.
"""

from __future__ import annotations

from tracetypes.check import Checked
from tracetypes.compiler.graph.rewrite import Rewrite
from tracetypes.nodes import Apply, Gather, Node, Sort, Split
from tracetypes.templates import OpKeyedOrdered

EQUATION = "MRG >> HASH = id where keys were kept;  MRG >> RR >> b = b   (section 4, reordering table; Theorem 4.3)"


def drop_splitters(checked: Checked) -> Checked:
    """Remove every pair of a Gather and a Split that is the identity, or whose splitter may be any other one."""
    to = Rewrite(checked)
    by_id, consumers = checked.graph.by_id, checked.graph.consumers
    dropped: set[int] = set()
    for node in checked.graph.nodes:
        if isinstance(node, Split):
            before = by_id[node.inputs[0]]
            alone = isinstance(before, Gather) and len(consumers[before.id]) == 1
            if alone and (node.how == "RR" or _hashed_alike(by_id[before.inputs[0]], node, by_id)):
                dropped |= {node.id, before.id}
    for node in checked.graph.nodes:
        if node.id in dropped:
            to.moved[node.id] = to.input_of(node.inputs[0])
        else:
            to.place(node)
    return to.done()


def _hashed_alike(node: Node, split: Split, by_id: dict[int, Node]) -> bool:
    """Are the channels that leave a node those of a HASH in as many ways, with the keys kept since?"""
    while isinstance(node, Sort) or (isinstance(node, Apply) and isinstance(node.op, OpKeyedOrdered)):
        node = by_id[node.inputs[0]]
    return isinstance(node, Split) and node.how == "HASH" and node.ways == split.ways
