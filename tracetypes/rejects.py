"""Late rows and rejected rows."""

from __future__ import annotations

import attrs

__all__ = ["Rejected", "SideOutputRow"]


@attrs.frozen
class Rejected:
    """A rejected row, in the stream of rejects of its source. ``source``: the name. ``row``: the text that the reject
    output shows: the line of a text, the columns as JSON, or the time in microseconds of a marker that comes too
    late. ``reason``: why."""

    source: str
    row: str
    reason: str

    @classmethod
    def of(cls, source: str, row: str, reason: str) -> Rejected:
        """With texts that can be written: a lone surrogate becomes its escape."""
        return cls(source, *(text.encode("utf-8", "backslashreplace").decode() for text in (row, reason)))


@attrs.frozen
class SideOutputRow:
    """A late or rejected row, as a run with lists as outputs returns it: its source, the reason, and its text."""

    source: str
    reason: str
    row: str
