"""What each flow costs, and what it saves: the processor seconds of its operators. What flows share is divided among them."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tracetypes.compiler.backend.backend import Running
from tracetypes.compiler.workspace.reconciler import Reconciler
from tracetypes.compiler.workspace.running import Flow, Instance

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
    _known: dict[str, Flow] = attrs.field(init=False, factory=dict)
    """The flows at the last look."""
    _readers: dict[Instance, dict[str, None]] = attrs.field(init=False, factory=dict)
    """The names of the flows that need each operator."""
    _used: dict[str, float] = attrs.field(init=False, factory=dict)
    total: float = attrs.field(init=False, default=0.0)
    """Processor seconds of all operators."""
    left: float = attrs.field(init=False, default=0.0)
    """The part of them that no flow has: of flows that have left, and of operators that end."""

    def look(self) -> None:
        """Divide what was used since the last look."""
        running = self.reconciler.running
        self._note(running.flows)
        hosted = {name: one for name, one in list(self.reconciler.host.segments.items()) if one.running is not None}
        for name, one in hosted.items():
            assert one.running is not None
            now = one.running.processor_seconds
            last, before = self._segments.get(name, (one.running, 0.0))
            self._segments[name] = one.running, now
            used = now - before if last is one.running else now
            self.total += used
            self._used[name] = self._used.get(name, 0.0) + used
            names = self._readers.get(one.segment.root, {}) if used else {}
            self.left += 0.0 if names else used
            for flow_name in names:
                cost = self._flows.get(flow_name, Cost())
                self._flows[flow_name] = Cost(cost.share + used / len(names), cost.alone + used)
        for gone in self._segments.keys() - hosted.keys():
            del self._segments[gone], self._used[gone]
        for gone in self._flows.keys() - running.flows.keys():
            self.left += self._flows.pop(gone).share

    def _note(self, flows: Mapping[str, Flow]) -> None:
        """Flows have come and gone. Each is looked at once, so a look takes no longer if many flows run."""
        for name, before in [(name, one) for name, one in self._known.items() if flows.get(name) is not one]:
            for instance in before.needs:
                self._readers[instance].pop(name)
                if not self._readers[instance]:
                    del self._readers[instance]
            del self._known[name]
        for name, flow in flows.items():
            if name not in self._known:
                self._known[name] = flow
                for instance in flow.needs:
                    self._readers.setdefault(instance, {})[name] = None

    def of(self, name: str) -> Cost:
        """Of a flow, up to the last look."""
        return self._flows.get(name, Cost())

    def of_operator(self, name: str) -> float:
        """The processor seconds of an operator, by the name of its segment."""
        return self._used.get(name, 0.0)
