"""Parallelisation: every operator is copied, its input split, its output merged (Theorem 4.3).

Equations, for ``b`` stateless, ``g`` keyed and ordered, ``d`` keyed and unordered, RR and HASH splitters::

    b = RR(n)   >> (b || ... || b) >> MRG
    g = HASH(k) >> (g || ... || g) >> MRG        d, SORT: likewise

Before:  ``source -> b -> sort -> g -> sink``
After:   ``source -> RR(n) -> b -> MRG -> HASH(k) -> sort -> MRG -> HASH(k) -> g -> MRG -> sink``

Why it holds: a splitter followed by MRG is the identity, and each template commutes with MRG; the paper proves it for
``b``. Its proof leaves ``on_marker`` of ``b`` aside: every copy sees every marker, so of ``n`` naive copies each would
emit. Here one copy speaks at markers (design, corner 1). ``n`` is the run's parallelism, ``k`` the number of key groups.
Unlike the other passes this one is not idempotent: it would split the channels again that it made.
"""

from __future__ import annotations

from tracetypes.check import Checked
from tracetypes.compiler.graph.rewrite import Rewrite, gather, hashing, round_robin
from tracetypes.nodes import Apply, Sort
from tracetypes.templates import OpStateless

EQUATION = "b = RR >> (b || ... || b) >> MRG;  g = HASH >> (g || ... || g) >> MRG   (Theorem 4.3)"


def parallelize(checked: Checked, *, parallelism: int, key_groups: int) -> Checked:
    """Apply Theorem 4.3 to every operator and sort."""
    to = Rewrite(checked)
    for node in checked.graph.nodes:
        if not isinstance(node, Apply | Sort):
            to.place(node)
            continue
        stateless = isinstance(node, Apply) and isinstance(node.op, OpStateless)
        split = round_robin(parallelism) if stateless else hashing(key_groups)
        upstream = to.add(split, (to.input_of(node.inputs[0]),), node)
        to.moved[node.id] = to.add(gather, (to.place(node, (upstream,)),), node)
    return to.done()
