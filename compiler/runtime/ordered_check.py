"""Compares ordered operators over columns with plain Python: some keys of a run take their items again, from the states that they
had before."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import repeat
from typing import Any, Final, final

import numpy as np

from tracetypes.compiler.analysis.ordered_form import OrderedForm
from tracetypes.compiler.columns.column import take
from tracetypes.compiler.columns.conversion import values_of
from tracetypes.compiler.plan.plan import Step
from tracetypes.compiler.runtime.answers import alike, all_alike
from tracetypes.compiler.runtime.closed_blocks import OrderedItems
from tracetypes.compiler.runtime.ordered_base import Enough, Replay, Taken
from tracetypes.compiler.runtime.verification import Verifier
from tracetypes.errors import CodedError
from tracetypes.marker_runs import MarkerRuns
from tracetypes.templates import OpKeyedOrdered

__all__ = ["OrderedCheck"]

MOST: Final = 64
"""Items that a key takes again."""

EMITTED: Final = 64
"""Emissions of these that are compared. A single item may have a thousand million of them."""

APART: Final = 7_919
"""How far apart the items are that are looked at for rows beside each other: they are of several keys."""


@final
class OrderedCheck:
    """Looks at some of the items that an operator takes, and at some keys without items that take markers; the laws are checked
    on these calls, too."""

    def __init__(self, verifier: Verifier, step: Step, ordered: OrderedForm) -> None:
        assert isinstance(step.operator, OpKeyedOrdered)
        self.verifier, self.op, self.ordered = verifier, step.operator, ordered
        self.name, self.watch = verifier.names[id(step.operator)], verifier.keyed(step)

    def __call__(self, items: OrderedItems, markers: MarkerRuns, taken: Taken) -> Callable[[], None] | None:
        """What compares what some keys have done, and raises :class:`Difference`."""
        if self.watch is not None and self.watch.asks:
            return None
        codes: list[int] = []
        if items.count and (rows := self.verifier.pick(f"{self.name} on_item", items.count)) is not None:
            codes += np.unique(items.codes[rows * APART % items.count]).tolist()
        silent = taken.number - items.number
        if silent and (rows := self.verifier.pick(f"{self.name} on_marker", silent)) is not None:
            codes += (items.number + rows).tolist()
        if not codes:
            return None
        with self.verifier.timed():
            before = [(code, taken.state(code)) for code in codes]
        return partial(self._compare, items, markers, taken, before)

    def _compare(self, items: OrderedItems, markers: MarkerRuns, taken: Taken, before: list[tuple[int, Any]]) -> None:
        with self.verifier.timed():
            starts = np.append(items.starts, np.full(taken.number - items.number, items.count))
            for code, old in before:
                self._one(items, markers, taken, code, old, int(starts[code]), int(starts[code + 1]))

    def _one(
        self, items: OrderedItems, markers: MarkerRuns, taken: Taken, code: int, old: Any, start: int, end: int
    ) -> None:
        """Compare one key."""
        whole = end - start <= MOST
        rows = np.arange(start, end if whole else start + MOST)
        values, ends = values_of(take(items.values, rows), len(rows)), items.ends[rows].tolist()
        some = markers if whole else markers.up_to(ends[-1] - 1)
        (key,) = values_of(take(taken.keys, np.array([code])), 1)
        new = taken.state(code)
        op: Any = self.op
        if self.watch is not None:
            op = self.watch.of(len(values)) if values else self.watch.at_marker()
            self.watch.take(repeat(key), values, ends)
        replay, raised, state = Replay(op, self.ordered, some, EMITTED), None, new
        try:
            begins = ends[0] if values and taken.slots[code] < 0 else some[0] if some else 0
            replayed = replay.key(old, key, list(zip(ends, values, strict=True)), begins)
            state = replayed if whole else new
        except Enough:
            whole = False
        except CodedError:
            raise
        except Exception as error:
            raised = f"raised {type(error).__name__}: {error}"
        first, behind = np.searchsorted(taken.emitted.codes, [code, code + 1]).tolist()
        out = np.arange(first, behind if whole else min(behind, first + len(replay.values)))
        emitted = list(zip(taken.emitted.ends[out].tolist(), values_of(take(taken.emitted.values, out), len(out)), strict=True))
        expected = list(zip(replay.ends, replay.values, strict=True))
        if raised is None and alike(self.ordered.shown(new), self.ordered.shown(state)) and all_alike(emitted, expected):
            return
        shown = partial("state {!r}, key {!r}, items {!r}".format, old, key, values)
        method = "on_item" if values else "on_marker"
        after = self.ordered.shown(new)
        self.verifier.compare(self.name, method, (after, emitted), (raised, (self.ordered.shown(state), expected)), shown)

