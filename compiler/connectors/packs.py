"""Neighbouring splits of small files, which are read together.

A pack is a split to whoever places rows in blocks: its rows are those of its splits, one after the other in the order of the
source. So what a split costs by itself is paid once for many files: the work of a kernel, messages, a report, a turn of a worker.
Each file keeps its own check, hash and record. A file that is large is a pack of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from tracetypes.compiler.connectors.file_splits import Split

__all__ = ["Pack", "packs"]

Pack: TypeAlias = tuple[Split, ...]

OPEN: Final = 16 << 10
"""How many bytes of text take as long as a file by itself, about."""

LARGEST: Final = 4 << 20
"""Bytes of a pack at most, unless one split has more; a file by itself counts, too."""

TURNS: Final = 4
"""How many packs each task gets at least, if there are as many files: so tasks end at about the same time."""


def packs(splits: Sequence[Split], tasks: int) -> Iterator[Pack]:
    """The splits of a listing, in the order of the source, as packs. ``tasks``: how many read at once. The same splits give the
    same packs."""
    total = sum(OPEN + split.weight for split in splits)
    most = min(LARGEST, total // (TURNS * tasks))
    some: list[Split] = []
    size = 0
    for split in splits:
        more = OPEN + split.weight
        if some and size + more > most:
            yield tuple(some)
            some, size = [], 0
        some.append(split)
        size += more
    if some:
        yield tuple(some)
