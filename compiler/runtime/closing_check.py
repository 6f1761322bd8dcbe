"""Compares what operators emit of one item of a block with plain Python: some keys take all items of their blocks again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final, final

import numpy as np

from tracetypes.compiler.columns.column import take
from tracetypes.compiler.columns.conversion import values_of
from tracetypes.compiler.columns.evaluation import Emissions
from tracetypes.compiler.columns.groups import Groups
from tracetypes.compiler.plan.plan import Step
from tracetypes.compiler.runtime.answers import PythonEmissions, emissions_by_row
from tracetypes.compiler.runtime.flows import KeyedFlow
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.markers import Marker
from tracetypes.templates import OpKeyedUnordered

__all__ = ["ClosingCheck"]

MOST: Final = 64
"""Items of a block that a key takes again. A block with more is not looked at."""


@final
class ClosingCheck:
    """Looks at some of the blocks of keys; the laws are checked on these calls, too."""

    def __init__(self, verifier: Verifier, step: Step) -> None:
        assert isinstance(step.operator, OpKeyedUnordered)
        self.verifier, self.op = verifier, step.operator
        self.name, self.watch = verifier.names[id(step.operator)], verifier.keyed(step)
        self.emitted = PythonEmissions(step.operator, step.gives)

    def __call__(self, flow: KeyedFlow, ends: Any, groups: Groups, emissions: Sequence[Emissions]) -> None:
        """Compare what some keys have emitted at the end of a block. Raises :class:`Difference`."""
        if self.watch is not None and self.watch.asks:
            return
        sample = self.verifier.pick(f"{self.name} block", groups.number)
        if sample is None:
            return
        with self.verifier.timed():
            sample = sample[groups.sizes[sample] <= MOST]
            for group, traced in zip(sample.tolist(), emissions_by_row(emissions, sample), strict=True):
                rows = np.flatnonzero(groups.of_row == group)
                values, (key,) = values_of(take(flow.value, rows), len(rows)), values_of(take(flow.key, rows[:1]), 1)
                self._one(key, values, int(ends[rows[0]]), traced)

    def _one(self, key: Any, values: list[Any], end: int, traced: list[Any]) -> None:
        """Compare one key in one block."""
        op: Any = self.op
        if self.watch is not None:
            op = self.watch.of(len(values))
            self.watch.take(repeat(key), values, repeat(end))

        def close(marker: Marker, emit: Any) -> None:
            agg = op.identity()
            for value in values:
                agg = op.combine(agg, op.lift(key, value))
            op.on_marker(op.update_state(op.initial_state(), agg), key, marker, emit)

        shown = partial("key {!r}, items {!r}".format, key, values)
        self.verifier.compare(self.name, "on_marker", traced, self.emitted.of(close, Marker(end)), shown)
