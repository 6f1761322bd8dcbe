"""Rows that went aside: late, or rejected."""

from __future__ import annotations

import attrs

__all__ = ["Rejected", "SideOutputRow"]


@attrs.frozen
class Rejected:
    """A row that a source rejected, in its stream of rejects. ``source``: its name; ``row``: as the reject output shows it, the
    line of a text or the columns as JSON (of a marker that comes too late: its time in microseconds); ``reason``: why."""

    source: str
    row: str
    reason: str

    @classmethod
    def of(cls, source: str, row: str, reason: str) -> Rejected:
        """With texts that can be written: a lone surrogate becomes its escape."""
        return cls(source, *(text.encode("utf-8", "backslashreplace").decode() for text in (row, reason)))


@attrs.frozen
class SideOutputRow:
    """A row that went aside, as a run with lists as outputs returns it: its source, why, and its text."""

    source: str
    reason: str
    row: str
