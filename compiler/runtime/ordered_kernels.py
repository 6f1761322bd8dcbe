"""Which kernel runs an ordered operator."""

from __future__ import annotations

from typing import Any

from tracetypes.compiler.analysis.latest import TracedLatest
from tracetypes.compiler.analysis.ordered import Ordered
from tracetypes.compiler.analysis.ordered_form import OrderedForm
from tracetypes.compiler.runtime.latest_join import LatestJoin
from tracetypes.compiler.runtime.ordered_base import OrderedKernel, SeenKeys
from tracetypes.compiler.runtime.ordered_kernel import OrderedColumns
from tracetypes.templates import OpKeyedOrdered

__all__ = ["kernel_of"]


def kernel_of(op: OpKeyedOrdered[Any, Any, Any, Any], form: OrderedForm, seen: SeenKeys | None) -> OrderedKernel:
    """The kernel of an operator."""
    match form:
        case Ordered():
            return OrderedColumns(op, form, seen)
        case TracedLatest():
            return LatestJoin(op, form, seen)
        case _:
            raise TypeError(f"no kernel takes {type(form).__name__}")
