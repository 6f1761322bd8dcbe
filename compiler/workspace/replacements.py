"""Flows that take the place of others: how long that waits, and for what."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import attrs

from tracetypes.compiler.store.sent_blocks import BEGINNING
from tracetypes.compiler.workspace.arguments import time_of
from tracetypes.compiler.workspace.reconciler import Reconciler
from tracetypes.compiler.workspace.running import Decision
from tracetypes.compiler.workspace.views import FlowView, time_text

__all__ = ["Replacements"]

PAUSE: Final = 0.25
"""Seconds between two looks at what the flows have answered, if nothing is heard of them."""


@attrs.frozen(eq=False)
class Replacements:
    """The flows of a workspace that are being replaced. ``lock``: of the workspace."""

    reconciler: Reconciler
    lock: threading.RLock
    successors: dict[str, str] = attrs.field(init=False, factory=dict)

    @contextmanager
    def begun(self, name: str, successor: str) -> Iterator[None]:
        """While a flow runs that is to take the place of another one."""
        self.successors[name] = successor
        try:
            yield
        finally:
            if self.successors.get(name) == successor:
                del self.successors[name]

    def take_over(self, name: str, successor: str, until: float | None) -> Decision:
        """Wait until a flow can take the place of another one, and let it. ``until``: a time of the monotonic clock. Raises
        :class:`TimeoutError`, and what the other one fails of."""
        host = self.reconciler.host
        while True:
            with self.lock:
                if (decision := self.reconciler.take_over(name, successor)) is not None:
                    return decision
                waits = self._waits_for(name, successor)
            for segment in self.reconciler.segments_of(name):
                host.raise_failure(segment)
            if until is not None and time.monotonic() > until:
                raise TimeoutError(
                    f"flow {name!r} {waits}, and they have not come in time; it runs on, and its successor is removed. "
                    f"With backfill=True the successor needs no such rows"
                )
            host.look(PAUSE)

    def noted(self, view: FlowView) -> FlowView:
        """With a note on the flow that is to take its place, if there is one."""
        successor = self.successors.get(view.name)
        if successor is None or successor not in self.reconciler.running.flows:
            return view
        note = f"{successor} is to take its place; this flow {self._waits_for(view.name, successor)}"
        return attrs.evolve(view, notes=(*view.notes, note))

    def _waits_for(self, name: str, successor: str) -> str:
        """The end of a sentence about a flow that is being replaced."""
        begins = self.reconciler.database.submissions()[successor].plain["behind"]
        answered = self.reconciler.answered(name)
        if begins is None or answered >= begins:
            return "has answered all that its successor does not answer"
        upto = "no block yet" if answered == BEGINNING else f"the blocks up to {time_text(time_of(answered))}"
        return f"has answered {upto}, and waits for rows that close those up to {time_text(time_of(begins))}"
