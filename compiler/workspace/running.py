"""What runs in a workspace, as data: operators, the flows that need them, and the decisions that change both.

A decision is a value. It says what to start, reuse, attach, stop and close, and changes nothing by itself: ``apply`` changes the
state, ``undo`` takes that back. Whoever carries a decision out stores it first. Nothing here starts anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter
from typing import NamedTuple

import attrs

from tracetypes.compiler.workspace.classes import Class
from tracetypes.compiler.workspace.components import Components

__all__ = ["Attachment", "Decision", "Flow", "Instance", "Operator", "Running", "ancestors"]


class Instance(NamedTuple):
    """A running operator of a class. ``copy``: 0 for the one that flows share; otherwise the number of the launch that computes
    the stream again because that costs less than reading it from a channel."""

    cls: Class
    copy: int = 0


@attrs.frozen(kw_only=True)
class Operator:
    """A running operator. ``inputs``: in their places, or sorted by class where the order does not matter. ``launch``: the
    number of the decision that started it. ``flow`` and ``id``: where its code is found. The flow may be gone.
    ``state_upstream``: whether it or anything upstream keeps a state."""

    instance: Instance
    inputs: tuple[Instance, ...]
    launch: int
    flow: str
    id: int
    state_upstream: bool


@attrs.frozen(kw_only=True)
class Flow:
    """A submitted flow that runs. ``sinks``: the number of each sink in the flow, and the operator that writes its output.
    ``needs``: the operators in the ancestor graphs of its sinks, each behind its inputs."""

    name: str
    start: int | None
    sinks: tuple[tuple[int, Instance], ...]
    needs: tuple[Instance, ...]


class Attachment(NamedTuple):
    """A reader that reads an operator of an earlier launch: through the channel of a tap, not within its own segment.
    ``place``: which input of the reader it is."""

    reader: Instance
    place: int
    tap: Instance


@attrs.frozen(eq=False, kw_only=True)
class Decision:
    """What changes when a flow comes or goes.

    ``base``: the version of the state that it was made for. ``joins`` and ``leaves``: flows. ``start``: operators, each behind
    its inputs. ``reuse``: operators that run already and that the flow needs. ``attach``: which started operators read which
    running ones, and ``open``: the taps that nobody read before. ``stop``: operators, each before its inputs. ``detach``: which
    of them read operators that remain, and ``close``: the taps that nobody reads any more. ``brings``: reused operators whose
    state the flow takes as it is, where it reads them or where they write its output.
    """

    base: int
    joins: tuple[Flow, ...] = ()
    leaves: tuple[Flow, ...] = ()
    start: tuple[Operator, ...] = ()
    reuse: tuple[Instance, ...] = ()
    attach: tuple[Attachment, ...] = ()
    open: tuple[Instance, ...] = ()
    stop: tuple[Operator, ...] = ()
    detach: tuple[Attachment, ...] = ()
    close: tuple[Instance, ...] = ()
    brings: tuple[Instance, ...] = ()

    @property
    def copies(self) -> tuple[Instance, ...]:
        """The started operators that compute a stream again, although another operator has it."""
        return tuple(one.instance for one in self.start if one.instance.copy)


class Running:
    """The state of a workspace. Only ``apply`` and ``undo`` change it."""

    def __init__(self) -> None:
        self.version = 0
        """How many decisions have been applied."""
        self.operators: dict[Instance, Operator] = {}
        self.flows: dict[str, Flow] = {}
        """The submitted flows by name."""
        self.counts: dict[Instance, int] = {}
        """How many flows need an operator."""
        self.taps: dict[Instance, int] = {}
        """How many attachments an operator has, of those that have any."""
        self.components: Components[Instance] = Components()

    @classmethod
    def of(cls, version: int, operators: Iterable[Operator], flows: Iterable[Flow]) -> Running:
        """The state with these operators and flows, such as a store has them. All else is counted."""
        running = cls()
        running.version = version
        all_of_them = {one.instance: one for one in operators}
        for instance in TopologicalSorter({one.instance: one.inputs for one in all_of_them.values()}).static_order():
            running._start(all_of_them[instance])
        for flow in flows:
            running._join(flow)
        return running

    @property
    def classes(self) -> set[Class]:
        """What is computed."""
        return {one.cls for one in self.operators}

    @property
    def copies(self) -> int:
        """How many operators do what another one does: each costs less than a channel."""
        return len(self.operators) - len(self.classes)

    def apply(self, decision: Decision) -> None:
        """Change the state. Raises ``ValueError`` if the decision was made for another version."""
        if decision.base != self.version:
            raise ValueError(f"the decision was made for version {decision.base}, this is {self.version}")
        self._change(decision.start, decision.leaves, decision.joins, decision.stop)
        self.version += 1

    def undo(self, decision: Decision) -> None:
        """Take back the last decision that was applied."""
        if decision.base + 1 != self.version:
            raise ValueError(f"the last decision made version {self.version}, not {decision.base + 1}")
        self._change(decision.stop[::-1], decision.joins, decision.leaves, decision.start[::-1])
        self.version -= 1

    def _change(
        self, start: Iterable[Operator], leaves: Iterable[Flow], joins: Iterable[Flow], stop: Iterable[Operator]
    ) -> None:
        for one in start:
            self._start(one)
        for flow in leaves:
            del self.flows[flow.name]
            for instance in flow.needs:
                self.counts[instance] -= 1
        for flow in joins:  # maybe under the name of one that leaves
            self._join(flow)
        for one in stop:
            self._stop(one)

    def _join(self, flow: Flow) -> None:
        self.flows[flow.name] = flow
        for instance in flow.needs:
            self.counts[instance] += 1

    def _start(self, one: Operator) -> None:
        self.operators[one.instance] = one
        self.counts[one.instance] = 0
        for attachment in self.attachments(one):
            self.taps[attachment.tap] = self.taps.get(attachment.tap, 0) + 1
        self.components.add(one.instance, one.inputs)

    def _stop(self, one: Operator) -> None:
        for attachment in self.attachments(one):
            self.taps[attachment.tap] -= 1
            if not self.taps[attachment.tap]:
                del self.taps[attachment.tap]
        del self.operators[one.instance], self.counts[one.instance]
        self.components.remove(one.instance)

    def attachments(self, one: Operator) -> tuple[Attachment, ...]:
        """Where an operator reads operators of earlier launches. All of them run."""
        return tuple(
            Attachment(one.instance, place, tap)
            for place, tap in enumerate(one.inputs)
            if self.operators[tap].launch != one.launch
        )


def ancestors(
    operators: Mapping[Instance, Operator], sinks: Iterable[Instance], started: Mapping[Instance, Operator] | None = None
) -> tuple[Instance, ...]:
    """The operators in the ancestor graphs of sinks, each behind its inputs. ``started``: those that do not run yet."""
    started = started or {}
    found: dict[Instance, None] = {}
    pending: list[tuple[Instance, Operator | None]] = [(sink, None) for sink in sinks]
    while pending:
        one, operator = pending.pop()
        if operator is not None:  # all that it reads has been found
            found[one] = None
        elif one not in found:
            operator = started.get(one) or operators[one]
            pending.append((one, operator))
            for above in operator.inputs:
                if above not in found:
                    pending.append((above, None))
    return tuple(found)
