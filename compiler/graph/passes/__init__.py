"""The passes, in the order in which they run, each from a checked graph to an equivalent one.

Parallelisation comes first because it writes the splitters that the others move and remove; dropping comes before
reordering, which would hide pairs that are the identity; order is restored once it is known where data moves; fusion is
last because no other pass looks into a chain.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs

from tracetypes.check import Checked
from tracetypes.compiler.graph.passes import drop_splitters as _drop
from tracetypes.compiler.graph.passes import fuse as _fuse
from tracetypes.compiler.graph.passes import parallelize as _parallelize
from tracetypes.compiler.graph.passes import reorder as _reorder
from tracetypes.compiler.graph.passes import restore_order as _restore
from tracetypes.compiler.graph.specification import GRAPH, require

__all__ = ["Pass", "compile_graph", "passes"]


@attrs.frozen
class Pass:
    """A pass by name, with the equation that justifies it."""

    name: str
    equation: str
    run: Callable[[Checked], Checked]


def passes(*, parallelism: int, key_groups: int) -> tuple[Pass, ...]:
    """All passes in order."""
    parallel = partial(_parallelize.parallelize, parallelism=parallelism, key_groups=key_groups)
    steps = (
        Pass("parallelize", _parallelize.EQUATION, parallel),
        Pass("drop splitters", _drop.EQUATION, _drop.drop_splitters),
        Pass("reorder", _reorder.EQUATION, _reorder.reorder),
        Pass("restore order", _restore.EQUATION, _restore.restore_order),
        Pass("fuse", _fuse.EQUATION, _fuse.fuse),
    )
    return tuple(attrs.evolve(one, run=partial(_specified, one)) for one in steps)


def _specified(one: Pass, checked: Checked) -> Checked:
    return require(GRAPH, one.run(checked), one.name)


def compile_graph(checked: Checked, *, parallelism: int, key_groups: int) -> Checked:
    """The graph after all passes."""
    for one in passes(parallelism=parallelism, key_groups=key_groups):
        checked = one.run(checked)
    return checked
