"""The clocks by which the sources of a segment close their last blocks (:mod:`tracetypes.compiler.connectors.closing`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, final

from tracetypes.compiler.connectors.closing import ClosingClock
from tracetypes.compiler.plan.plan import FromSource, Plan
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.markers import EventTime

__all__ = ["ClosingClocks", "closes_by_clock"]


def closes_by_clock(leaf: FromSource) -> bool:
    """Whether the last blocks of a source close by the clock."""
    how = leaf.source.markers
    return isinstance(how, EventTime) and how.closes_after is not None


@final
class ClosingClocks:
    """One clock for each source, whose readings share it: a row is late for each of them or for none. ``elapsed``: the times to
    which sources have come with the clock in an earlier process."""

    def __init__(self, plan: Plan, store: RunStore, elapsed: Mapping[str, int]) -> None:
        self.store = store
        self.labels: dict[str, list[str]] = {}
        self.clocks: dict[str, ClosingClock] = {}
        for leaf in plan.sources:
            name, how = leaf.source.name, leaf.source.markers
            if isinstance(how, EventTime) and how.closes_after is not None:
                self.labels.setdefault(name, []).append(leaf.label)
                self.clocks.setdefault(name, ClosingClock(how))
        for name, clock in self.clocks.items():
            seen = self._seen(name)
            if name in elapsed and seen is not None:
                clock.resume(elapsed[name] - seen)

    def came(self, record: Mapping[str, Any]) -> None:
        """An epoch is over. ``record``: its commit record."""
        for name, clock in self.clocks.items():
            if record["read"].get(name):
                clock.came()

    def look(self, new: Collection[str]) -> dict[str, int]:
        """The time to which each source has come with the clock, of those that had a row and have been without one for long
        enough. ``new``: readings with something new, whose sources are left out."""
        elapsed: dict[str, int] = {}
        for name, clock in self.clocks.items():
            seen = self._seen(name)
            if seen is None or any(label in new for label in self.labels[name]):
                continue
            if (split := clock.look(seen)) is not None:
                elapsed[name] = split.time
        return elapsed

    def _seen(self, name: str) -> int | None:
        """The newest time of a row of a source."""
        number = self.store.log.ended + 1
        seen = self.store.before(number).get("seen", {})
        return max((time for label in self.labels[name] if (time := seen.get(label)) is not None), default=None)
