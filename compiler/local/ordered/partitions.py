"""From keys to partitions: by hash, or by range (section 4). For flows that are built by hand.

The local backend does not use this. There ``runtime.partitioner`` hashes keys to key groups, and the partitions of an operator
are the shards of a stage (``local.shards``).
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

__all__ = ["by_hash", "by_range"]


def by_hash(partitions: int) -> Callable[[bytes], int]:
    """The partition of a key in its canonical bytes. The same in every process, unlike ``hash``."""
    return lambda key: zlib.crc32(key) % partitions


def by_range(bounds: Sequence[Any]) -> Callable[[Any], int]:
    """The partition of a key, among ``len(bounds) + 1``. ``bounds``: sorted; partition *i* ends before ``bounds[i]``."""
    fixed = tuple(bounds)
    if any(later <= earlier for earlier, later in pairwise(fixed)):
        raise ValueError(f"the bounds of ranges must increase, and are {fixed}")
    return lambda key: bisect_right(fixed, key)
