"""What each flow costs, and what it saves: the processor seconds of its operators. What flows share is divided among them."""

from __future__ import annotations

import attrs

from tracetypes.compiler.backend.backend import Running
from tracetypes.compiler.workspace.reconciler import Reconciler

__all__ = ["Cost", "FlowCosts"]


@attrs.frozen
class Cost:
    """Processor seconds. ``share``: of a flow in what runs for it; ``alone``: all of that, as if nothing were shared."""

    share: float = 0.0
    alone: float = 0.0

    @property
    def saved(self) -> float:
        """What the flow would cost more alone."""
        return self.alone - self.share


@attrs.define(eq=False)
class FlowCosts:
    """Of the flows of a workspace, since the process has started. What a segment uses between two looks is divided among the
    flows that need it at the second one."""

    reconciler: Reconciler
    _flows: dict[str, Cost] = attrs.field(init=False, factory=dict)
    _segments: dict[str, tuple[Running, float]] = attrs.field(init=False, factory=dict)
    """The last start of each segment, and what it had used at the last look."""

    def look(self) -> None:
        """Divide what was used since the last look."""
        running = self.reconciler.running
        readers: dict[object, list[str]] = {}
        for flow in running.flows.values():
            for instance in flow.needs:
                readers.setdefault(instance, []).append(flow.name)
        hosted = {name: one for name, one in list(self.reconciler.host.segments.items()) if one.running is not None}
        for name, one in hosted.items():
            assert one.running is not None
            now = one.running.processor_seconds
            last, before = self._segments.get(name, (one.running, 0.0))
            self._segments[name] = one.running, now
            used = now - before if last is one.running else now
            names = readers.get(one.segment.root, [])
            for flow_name in names:
                cost = self._flows.get(flow_name, Cost())
                self._flows[flow_name] = Cost(cost.share + used / len(names), cost.alone + used)
        for gone in self._segments.keys() - hosted.keys():
            del self._segments[gone]
        for gone in self._flows.keys() - running.flows.keys():
            del self._flows[gone]

    def of(self, name: str) -> Cost:
        """Of a flow, up to the last look."""
        return self._flows.get(name, Cost())
