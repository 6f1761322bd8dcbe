"""Chains that run without moving data become one node each (section 4, proof of Corollary 4.4; section 5).

Equations::

    b >> HASH = (b; HASH)        MRG >> g = (MRG; g)        f >> g = (f; g)  on one channel

Before: ``source -> b -> HASH(k) -> MRG -> sort -> g -> MRG -> sink`` After: ``[source ; b ; HASH(k)] -> [MRG ; sort ; g
; MRG ; sink]``

Why it holds: composition is associative. A chain ends where data must move (after a HASH), where a stream has several
consumers, and before a MRG of several streams.
"""

from __future__ import annotations

from tracetypes.check import Checked
from tracetypes.nodes import Fused, Graph, Node, Split, steps_of

EQUATION = "b >> HASH = (b; HASH);  MRG >> g = (MRG; g)   (Corollary 4.4)"


def fuse(checked: Checked) -> Checked:
    """Join every maximal chain."""
    consumers = checked.graph.consumers
    chains: dict[int, list[Node]] = {}
    order: list[list[Node]] = []
    for node in checked.graph.nodes:
        chain = chains.get(node.inputs[0]) if len(node.inputs) == 1 else None
        if chain is not None and len(consumers[chain[-1].id]) == 1 and not _moves(chain[-1]):
            chain.append(node)
        else:
            chain = [node]
            order.append(chain)
        chains[node.id] = chain
    places = {node.id: at for at, node in enumerate(checked.graph.nodes)}
    fused = tuple(
        chain[0]
        if len(chain) == 1
        else Fused(
            id=chain[-1].id,
            where=chain[0].where,
            inputs=chain[0].inputs,
            steps=tuple(step for node in chain for step in steps_of(node)),
        )
        for chain in sorted(order, key=lambda chain: places[chain[-1].id])
    )
    return Checked(Graph(checked.graph.name, fused), checked.types)


def _moves(node: Node) -> bool:
    last = steps_of(node)[-1]
    return isinstance(last, Split) and last.how == "HASH"
