"""Warnings of a run about its files of CSV: rows that nobody may have written, and columns that are missing."""

from __future__ import annotations

import threading
from collections.abc import Callable

import attrs

from tracetypes.compiler.runtime.messages import TextNotes
from tracetypes.compiler.store.metrics import Batch
from tracetypes.errors import counted

__all__ = ["TextWatch"]


@attrs.define(eq=False)
class TextWatch:
    """Warns once of each optional column that a file lacks and earlier ones had; and of doubtful rows when they come, and at the
    end if there are more."""

    notify: Callable[[str], None]
    _had: dict[str, set[str]] = attrs.field(init=False, factory=dict)
    _warned: set[tuple[str, str]] = attrs.field(init=False, factory=set)
    _doubtful: dict[str, int] = attrs.field(init=False, factory=dict)
    _told: dict[str, int] = attrs.field(init=False, factory=dict)
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    def look(self, batch: Batch) -> None:
        """Take an epoch."""
        with self._lock:
            for notes in batch.notes:
                self._doubtful[notes.source] = self._doubtful.get(notes.source, 0) + notes.doubtful
                self._columns(notes)
            for source, count in self._doubtful.items():
                if count and source not in self._told:
                    self._tell(source, count)

    def end(self) -> None:
        """The run is over."""
        with self._lock:
            for source, count in self._doubtful.items():
                if count != self._told.get(source, 0):
                    self._tell(source, count)

    def _tell(self, source: str, count: int) -> None:
        self._told[source] = count
        verb = "lies" if count == 1 else "lie"
        self.notify(
            f"source {source!r}: {counted(count, 'row')} {verb} within 1 MiB behind the beginning of a line that is no CSV, "
            "and may be part of the cell that was meant; look at the rejected rows"
        )

    def _columns(self, notes: TextNotes) -> None:
        if notes.optional is None:
            return
        has, first = notes.optional
        had = self._had.setdefault(notes.source, set(first))
        for column in sorted(had.difference(has)):
            if (notes.source, column) not in self._warned:
                self._warned.add((notes.source, column))
                where = f"source {notes.source!r}: {notes.file}"
                self.notify(f"{where} has no column {column!r}, which files before it have; it is None there")
        had.update(has)
