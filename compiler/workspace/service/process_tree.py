"""The processor seconds of this process and of all below it, as Linux counts them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import attrs

__all__ = ["ProcessorSeconds", "TreeSeconds", "tree_seconds"]


@attrs.frozen
class TreeSeconds:
    """``own``: of one process; ``below``: of all that it has started, and of those that they have, also if they are over."""

    own: float
    below: float


@attrs.frozen(kw_only=True)
class ProcessorSeconds:
    """Of all processes of a service. ``flows``: of operators, for the flows that are there; ``left``: of other operators;
    ``workers`` and ``http``: of no operator, in the processes that run them and in the one that speaks HTTP."""

    flows: float
    left: float
    workers: float
    http: float

    @property
    def total(self) -> float:
        """Of the process tree."""
        return self.flows + self.left + self.workers + self.http


def tree_seconds(pid: int | None = None) -> TreeSeconds | None:
    """Of a process, this one unless given. None where the system does not tell."""
    root, ticks = os.getpid() if pid is None else pid, os.sysconf("SC_CLK_TCK")
    processes: dict[int, tuple[int, float, float]] = {}
    """For each its parent, its seconds, and those of its children that are over."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            fields = path.read_text().rpartition(")")[2].split()
            user, system, of_children, system_of_children = (int(one) / ticks for one in fields[11:15])
            processes[int(path.parent.name)] = int(fields[1]), user + system, of_children + system_of_children
    if root not in processes:
        return None
    children: dict[int, list[int]] = {}
    for one, (parent, _, _) in processes.items():
        children.setdefault(parent, []).append(one)
    _, own, below = processes[root]
    found = list(children.get(root, ()))
    for one in found:
        below += sum(processes[one][1:])
        found += children.get(one, ())
    return TreeSeconds(own, below)
