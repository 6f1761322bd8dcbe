"""Partitions that are idle."""

from __future__ import annotations

import time
from collections.abc import Mapping

__all__ = ["IdleDetector"]


class IdleDetector:
    """Finds partitions that have sent nothing for some seconds, while others went on after their last record. It uses
    the clock of this machine, and counts from its first look."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.ends: dict[int, int] = {}
        self.since: dict[int, float] = {}
        self.look: dict[int, int] = {}
        """At which look a partition was last found to have grown."""
        self.looks = 0

    def of(self, newest: Mapping[int, int], start: Mapping[int, int]) -> set[int]:
        """The idle partitions. ``newest``: the ends of all. ``start``: what has been read of them."""
        now = time.monotonic()
        self.looks += 1
        for partition, end in newest.items():
            before = self.ends.get(partition)
            if before is None or end != before:
                self.since[partition] = now
            if end > (start[partition] if before is None else before):
                self.look[partition] = self.looks
        self.ends = dict(newest)
        last = max(self.look.values(), default=0)
        return {
            partition
            for partition, since in self.since.items()
            if now - since >= self.patience and self.look.get(partition, 0) < last
        }
