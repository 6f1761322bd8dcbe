"""What a reconciler knows of the flows that run: their operators, launches and code, and the segments of their operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tracetypes.compiler.backend.backend import Backend
from tracetypes.compiler.backend.control import Control
from tracetypes.compiler.store.locks import Locks
from tracetypes.compiler.workspace.classes import Class, classified
from tracetypes.compiler.workspace.code_copies import CodeCopies, CodeCopy
from tracetypes.compiler.workspace.database import WorkspaceDatabase
from tracetypes.compiler.workspace.launches import Launch, Launches
from tracetypes.compiler.workspace.operator_segments import (
    Launched,
    name_of,
    silences_of,
)
from tracetypes.compiler.workspace.restarts import Backoff
from tracetypes.compiler.workspace.running import Decision, Instance, Operator, Running
from tracetypes.compiler.workspace.segment_host import SegmentHost
from tracetypes.compiler.workspace.submission import submission
from tracetypes.errors import UsageError
from tracetypes.nodes import Node, Sink, title
from tracetypes.silence import Need

__all__ = ["KnownFlows"]


class KnownFlows:
    """The flows of a workspace. ``fuse``: of the backend."""

    def __init__(
        self,
        backend: Backend,
        folder: Path,
        database: WorkspaceDatabase,
        locks: Locks,
        control: Control,
        *,
        fuse: bool = True,
        backoff: Backoff | None = None,
    ) -> None:
        self.folder, self.database, self.fuse = folder, database, fuse
        self.launches, self.copies = Launches(folder / "launches"), CodeCopies(folder / "code")
        self.host = SegmentHost(backend, folder, locks, control, backoff)
        self.running = Running()
        self.markers: dict[tuple[int, int, int], int] = {}
        self.changes: dict[str, list[str]] = {}
        """What has another version than at the submit of a flow, by its name."""
        self._imported = set[str]()
        """The copies of code from which this process has imported modules."""
        self._launched: dict[int, tuple[Launch, Launched]] = {}
        self._silences: Mapping[Instance, Need] = {}
        """Behind the end of operators, where it is not the one that the flow needs that has started them."""

    def _silences_for(self, name: str) -> dict[Instance, Need]:
        """The silence that a flow needs behind the end of each of its operators."""
        operators = (self.running.operators[one] for one in self.running.flows[name].needs)
        return silences_of({one.instance: (self._node(one), one.inputs) for one in operators})

    def _node(self, operator: Operator) -> Node:
        return self._launched[operator.launch][1].checked.graph.by_id[operator.id]

    def _sinks_of(self, name: str) -> dict[str, str]:
        """The segments that write the outputs of a flow, by sink."""
        operators = [self.running.operators[instance] for _, instance in self.running.flows[name].sinks]
        return {node.name: name_of(one) for one in operators if isinstance(node := self._node(one), Sink)}

    def need(self, name: str) -> None:
        """Raises :class:`UsageError` ``TT402`` if there is no such flow."""
        if name not in self.running.flows:
            there = ", ".join(sorted(self.running.flows)) or "none"
            raise UsageError("TT402", f"there is no flow {name!r}", fix=f"the flows are: {there}")

    def title(self, one: Instance) -> str:
        """An operator for people."""
        return title(self._node(self.running.operators[one]))

    def flows_through(self, root: Instance) -> list[str]:
        """The flows that need an operator."""
        return sorted(flow.name for flow in self.running.flows.values() if root in flow.needs)

    def _of(self, launch: Launch) -> tuple[Launch, Launched]:
        """A launch, and its operators with their classes."""
        flow = submission(launch.flow, launch.checked, launch.identities, start=launch.start, copies=launch.cheap)
        classes: dict[int, Class] = {id: one.cls for one in classified(flow) for id in one.ids}
        launched = Launched(
            checked=launch.checked,
            sinks={one.id: one.name for one in launch.checked.graph.sinks},
            classes=classes,
            cheap=launch.cheap,
            parallelism=launch.parallelism,
            key_groups=launch.key_groups,
            fuse=self.fuse,
        )
        return launch, launched

    def _with(self, decision: Decision) -> dict[Instance, Operator]:
        """All operators that run when a decision is carried out."""
        return {**self.running.operators, **{one.instance: one for one in decision.start}}

    @staticmethod
    def _is_segment(operator: Operator, launched: Launched) -> bool:
        return operator.id not in launched.cheap

    def _in_order(self, operators: Iterable[Operator]) -> Iterator[Operator]:
        """Those that are segments, each behind what it reads."""
        passed: set[Instance] = set()
        for flow in self.running.flows.values():
            for instance in flow.needs:
                operator = self.running.operators[instance]
                if instance not in passed and self._is_segment(operator, self._launched[operator.launch][1]):
                    yield operator
                passed.add(instance)

    def _codes(self, *, all_but: str) -> dict[str, CodeCopy]:
        """The copies of the code of operators that run, each once, by a flow that brought it."""
        flows = {launch.code: launch.flow for launch, _ in self._launched.values() if launch.code}
        return {flow: self.copies.of(code) for code, flow in flows.items() if code != all_but}

    def _forget_codes(self) -> None:
        """Remove the copies of code that nobody runs, but those from which this process has imported modules: a flow that comes
        later may name these."""
        self.copies.forget_others({launch.code for launch, _ in self._launched.values() if launch.code} | self._imported)
