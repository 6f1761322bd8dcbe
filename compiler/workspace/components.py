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

SPARE = 1000
"""How many labels nobody may have, beside as many as there are nodes."""


class Components(Generic[N]):
    """The components of a graph that grows by nodes that read nodes, and shrinks by nodes that nobody reads."""

    def __init__(self) -> None:
        self._number: dict[N, int] = {}
        """Of each node: a walk looks up many numbers, and they are faster than nodes."""
        self._next = 0
        self._neighbours: dict[int, set[int]] = {}
        self._label: dict[int, int] = {}
        """Of each node, by its number."""
        self._parent: list[int] = []
        """Of each label, a label of the same component; its own for one that stands for all of them."""
        self._stale: set[int] = set()
        """The labels whose nodes may not be connected any more."""

    def add(self, node: N, inputs: tuple[N, ...]) -> None:
        """A node comes. Its inputs are there."""
        number = self._number[node] = self._next
        self._next += 1
        above = self._neighbours[number] = {self._number[one] for one in inputs}
        label: int | None = None
        for one in above:
            self._neighbours[one].add(number)
            other = self._root(self._label[one])
            if label is None:
                label = other
            elif other != label:
                self._parent[other] = label
                if other in self._stale:
                    self._stale.add(label)
        self._label[number] = self._fresh() if label is None else label

    def remove(self, node: N) -> None:
        """A node goes. Nobody reads it."""
        number = self._number.pop(node)
        label = self._root(self._label.pop(number))
        above = self._neighbours.pop(number)
        for one in above:
            self._neighbours[one].remove(number)
        if len(above) > 1:
            self._stale.add(label)
        if len(self._parent) > 2 * len(self._label) + SPARE:
            self._forget()

    def of(self, node: N) -> int:
        """The number of the component of a node, valid until the graph changes."""
        return self._of(self._number[node])

    def _of(self, number: int) -> int:
        label = self._root(self._label[number])
        if label not in self._stale:
            return label
        fresh = self._fresh()
        for one in self._walk(number):
            self._label[one] = fresh
        return fresh

    def size(self, node: N) -> int:
        """How many nodes are connected with this one, itself among them. This walks all of them."""
        return len(self._walk(self._number[node]))

    def _walk(self, number: int) -> set[int]:
        seen, pending = {number}, [number]
        while pending:
            fresh = self._neighbours[pending.pop()] - seen
            seen |= fresh
            pending += fresh
        return seen

    def all(self) -> list[set[N]]:
        """All components."""
        found: dict[int, set[N]] = {}
        for node, number in self._number.items():
            found.setdefault(self._of(number), set()).add(node)
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
