"""Which kernel runs an ordered operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tracetypes.compiler.analysis.consecutive_windows import TracedConsecutive
from tracetypes.compiler.analysis.duplicates import TracedDuplicates
from tracetypes.compiler.analysis.last_items import TracedLastItems
from tracetypes.compiler.analysis.latest import TracedLatest
from tracetypes.compiler.analysis.near import TracedNear
from tracetypes.compiler.analysis.ordered import Ordered
from tracetypes.compiler.analysis.ordered_form import OrderedForm
from tracetypes.compiler.analysis.own_windows import TracedHeldWindows, TracedWindows
from tracetypes.compiler.analysis.sliding import TracedSliding
from tracetypes.compiler.runtime.consecutive_windows import ConsecutiveKernel
from tracetypes.compiler.runtime.duplicates import DuplicatesKernel
from tracetypes.compiler.runtime.held_windows import HeldWindows
from tracetypes.compiler.runtime.interval_join import IntervalJoin
from tracetypes.compiler.runtime.last_items_join import LastItemsKernel
from tracetypes.compiler.runtime.latest_join import LatestJoin
from tracetypes.compiler.runtime.ordered_base import OrderedKernel, SeenKeys
from tracetypes.compiler.runtime.ordered_kernel import OrderedColumns
from tracetypes.compiler.runtime.own_windows import WindowsOfItems
from tracetypes.compiler.runtime.sliding_windows import SlidingWindows
from tracetypes.templates import OpKeyedOrdered

__all__ = ["kernel_of"]

KERNELS: Final[dict[type[OrderedForm], Callable[..., OrderedKernel]]] = {
    Ordered: OrderedColumns,
    TracedConsecutive: ConsecutiveKernel,
    TracedDuplicates: DuplicatesKernel,
    TracedLastItems: LastItemsKernel,
    TracedLatest: LatestJoin,
    TracedNear: IntervalJoin,
    TracedWindows: WindowsOfItems,
    TracedHeldWindows: HeldWindows,
    TracedSliding: SlidingWindows,
}
"""By what is known of an operator."""


def kernel_of(op: OpKeyedOrdered[Any, Any, Any, Any], form: OrderedForm, seen: SeenKeys | None) -> OrderedKernel:
    """The kernel of an operator."""
    return KERNELS[type(form)](op, form, seen)
