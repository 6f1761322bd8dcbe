"""How the local backend schedules and orders its work, as a run chooses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

import attrs

from tracetypes.compiler.local.ordered.flow import Scheme
from tracetypes.compiler.local.ordered.heuristics import HEURISTICS, Heuristic

__all__ = ["HEURISTICS_BY_OPTION", "SCHEMES", "LocalOptions", "Processes", "Reorder", "heuristic_of"]

Reorder: TypeAlias = Literal["typed", "serial"]
"""What is put back in order: what the types of the edges demand, or everything, so that the output is that of one thread."""

Processes: TypeAlias = Literal["auto", "never", "always"]
"""Whether operators in Python run in worker processes: if it pays, or not, or in any case. Never with one worker, or without a
GIL."""

HEURISTICS_BY_OPTION: Final[Mapping[str, Callable[..., Heuristic]]] = {
    "ct-inflow": HEURISTICS["CT by inflow"],
    "ct": HEURISTICS["CT"],
    "lp": HEURISTICS["LP"],
    "et": HEURISTICS["ET"],
    "qst": HEURISTICS["QST"],
}
"""Which operator a worker takes next. ``ct`` is the published formula."""


def heuristic_of(option: str) -> Heuristic:
    """A new heuristic: ``lp:8`` is LP with a minimum worklist of 8 units, ``qst:256`` QST with a capacity of 256."""
    name, _, number = option.partition(":")
    make = HEURISTICS_BY_OPTION[name]
    return make(int(number)) if number else make()


SCHEMES: Final[Mapping[str, Scheme]] = {
    "hybrid": Scheme.HYBRID,
    "partitioned": Scheme.PARTITIONED,
    "shared": Scheme.SHARED,
}
"""How a stage keeps what waits for its shards."""

PARTS: Final = 4
"""In serial order a file is cut for so many tasks, whatever the parallelism is."""


@attrs.frozen(kw_only=True)
class LocalOptions:
    """``fuse``: whether a chain of operators is one operator of the runtime. ``least``: rows, or aggregates of them, that a
    stage takes at once at least; at the end of an epoch it takes what is there. ``state_memory``: bytes that states which are
    objects may take in the memory of all processes, where they are many; None for all."""

    reorder: Reorder = "typed"
    heuristic: str = "ct-inflow"
    queue: str = "hybrid"
    processes: Processes = "auto"
    fuse: bool = True
    least: int = 1 << 16
    state_memory: int | None = None

    @property
    def serial(self) -> bool:
        """Whether everything is put back in order."""
        return self.reorder == "serial"

    def tasks(self, width: int) -> int:
        """For how many tasks inputs are cut. In serial order the cut must not depend on the parallelism."""
        return PARTS if self.serial else width
