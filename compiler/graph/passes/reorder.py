"""MRG and HASH change places, so that items go straight to where their key lives (section 4, reordering table).

Equation::

    MRG >> HASH(k)  =  (HASH(k) || ... || HASH(k)) >> (MRG || ... || MRG)

Before:  ``b || b -> MRG -> HASH(k) -> g``
After:   ``b || b -> HASH(k) || HASH(k) -> MRG, one for each of the k channels -> g``

Why it holds: HASH looks at one item at a time and MRG unites blocks, so each of the ``k`` channels gets the same items and
the same markers either way. It holds for MRG of the channels of one edge and of several streams alike. Where streams of
several key types are merged, the moved HASH looks at keys as the merged stream has them, so that equal keys stay together.
"""

from __future__ import annotations

import attrs

from tracetypes.check import Checked
from tracetypes.compiler.graph.rewrite import Rewrite, hashing
from tracetypes.graph import Gather, Merge, Node, Split

EQUATION = "MRG >> HASH = (HASH || ... || HASH) >> (MRG || ... || MRG)   (section 4, reordering table)"


def reorder(checked: Checked) -> Checked:
    """Move every HASH in front of the MRG that feeds it."""
    to = Rewrite(checked)
    by_id, consumers = checked.graph.by_id, checked.graph.consumers

    def waits(node: Node) -> bool:
        readers = consumers[node.id]
        if not isinstance(node, Gather | Merge) or len(readers) != 1:
            return False
        reader = readers[0]
        return (isinstance(reader, Split) and reader.how == "HASH") or (isinstance(reader, Merge) and waits(reader))

    def hashed(id: int, split: Split) -> int:
        node = by_id[id]
        if waits(node):
            if isinstance(node, Merge):
                return to.place(node, tuple(hashed(i, split) for i in node.inputs))
            return to.place(node, (split_before(to.input_of(node.inputs[0]), split),))
        return split_before(to.input_of(id), split)

    def split_before(upstream: int, split: Split) -> int:
        below = to.add(hashing(split.ways), (upstream,), split)
        to.types[below] = attrs.evolve(to.types[below], key=checked.types[split.id].key)
        return below

    for node in checked.graph.nodes:
        if waits(node):
            continue
        if isinstance(node, Split) and node.how == "HASH" and waits(by_id[node.inputs[0]]):
            to.moved[node.id] = hashed(node.inputs[0], node)
        else:
            to.place(node)
    return to.done()
