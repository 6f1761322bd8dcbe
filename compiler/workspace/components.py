"""Which running operators are connected: the running dataflows of the paper. Decisions do not need them, ``show`` does.

To walk a component of 100,000 operators takes tens of milliseconds, so that a decision must not. Each operator has a label.
Labels of operators that become connected are united, in a few steps. An operator with several inputs that goes may leave a
component in parts: its label is marked, and the operators with this label are walked when somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Components"]

N = TypeVar("N", bound=Hashable)


class Components(Generic[N]):
    """The components of a graph that grows by nodes that read nodes, and shrinks by nodes that nobody reads."""

    def __init__(self) -> None:
        self._inputs: dict[N, tuple[N, ...]] = {}
        self._readers: dict[N, dict[N, None]] = {}
        self._label: dict[N, int] = {}
        self._parent: list[int] = []
        """Of each label, a label of the same component; its own for one that stands for all of them."""
        self._stale: set[int] = set()
        """The labels whose operators may not be connected any more."""

    def add(self, node: N, inputs: tuple[N, ...]) -> None:
        """A node comes. Its inputs are there."""
        self._inputs[node] = inputs
        self._readers[node] = {}
        label = self._root(self._label[inputs[0]]) if inputs else self._fresh()
        for one in inputs:
            self._readers[one][node] = None
            other = self._root(self._label[one])
            if other != label:
                self._parent[other] = label
                if other in self._stale:
                    self._stale.add(label)
        self._label[node] = label

    def remove(self, node: N, inputs: tuple[N, ...]) -> None:
        """A node goes. Nobody reads it."""
        del self._inputs[node], self._readers[node]
        label = self._root(self._label.pop(node))
        for one in inputs:
            self._readers[one].pop(node, None)
        if len(set(inputs)) > 1:
            self._stale.add(label)
        if len(self._parent) > 2 * len(self._label) + 1000:
            self._forget()

    def of(self, node: N) -> int:
        """The number of the component of a node, valid until the graph changes."""
        label = self._root(self._label[node])
        if label not in self._stale:
            return label
        fresh = self._fresh()
        for one in self.walk(node):
            self._label[one] = fresh
        return fresh

    def walk(self, node: N) -> set[N]:
        """All nodes that are connected with this one."""
        seen, pending = {node}, [node]
        while pending:
            one = pending.pop()
            for other in (*self._inputs[one], *self._readers[one]):
                if other not in seen:
                    seen.add(other)
                    pending.append(other)
        return seen

    def all(self) -> list[set[N]]:
        """All components."""
        found: dict[int, set[N]] = {}
        for node in self._label:
            found.setdefault(self.of(node), set()).add(node)
        return list(found.values())

    def _root(self, label: int) -> int:
        while (above := self._parent[label]) != label:
            self._parent[label] = label = self._parent[above]
        return label

    def _fresh(self) -> int:
        self._parent.append(len(self._parent))
        return len(self._parent) - 1

    def _forget(self) -> None:
        """Labels of nodes that are gone take memory: begin anew, with one label that says nothing."""
        self._parent, self._stale = [0], {0}
        self._label = dict.fromkeys(self._label, 0)
