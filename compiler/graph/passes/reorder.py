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
from tracetypes.nodes import Gather, Merge, Split

EQUATION = "MRG >> HASH = (HASH || ... || HASH) >> (MRG || ... || MRG)   (section 4, reordering table)"


def reorder(checked: Checked) -> Checked:
    """Move every HASH in front of the MRG that feeds it."""
    to = Rewrite(checked)
    by_id, consumers = checked.graph.by_id, checked.graph.consumers

    waits: set[int] = set()
    """The merges that a HASH moves in front of."""
    for node in reversed(checked.graph.nodes):
        readers = consumers[node.id]
        if isinstance(node, Gather | Merge) and len(readers) == 1:
            (reader,) = readers
            if (isinstance(reader, Split) and reader.how == "HASH") or (
                isinstance(reader, Merge) and reader.id in waits
            ):
                waits.add(node.id)

    def move(split: Split) -> int:
        """Put copies of a HASH in front of all the merges before it: what gives its output now."""
        pending, order = [split.inputs[0]], list[int]()
        while pending:
            id = pending.pop()
            order.append(id)
            if id in waits and isinstance(by_id[id], Merge):
                pending.extend(by_id[id].inputs)
        moved: list[int] = []
        """What gives the output of the nodes that no merge has taken yet."""
        for id in reversed(order):
            node = by_id[id]
            if id not in waits:
                moved.append(split_before(to.input_of(id), split))
            elif isinstance(node, Merge):
                first = len(moved) - len(node.inputs)
                moved[first:] = [to.place(node, tuple(moved[first:]))]
            else:
                moved.append(to.place(node, (split_before(to.input_of(node.inputs[0]), split),)))
                to.types[node.id] = to.types[to.nodes[-1].inputs[0]]
        return moved[0]

    def split_before(upstream: int, split: Split) -> int:
        below = to.add(hashing(split.ways), (upstream,), split)
        to.types[below] = attrs.evolve(to.types[below], key=checked.types[split.id].key)
        return below

    for node in checked.graph.nodes:
        if node.id in waits:
            continue
        if isinstance(node, Split) and node.how == "HASH" and node.inputs[0] in waits:
            to.moved[node.id] = move(node)
        else:
            to.place(node)
    return to.done()
