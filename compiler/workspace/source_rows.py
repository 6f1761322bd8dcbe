"""The rows of the sources of each flow: how many were read, late and rejected, and where those that were not taken lie.

A source that flows share is read once, so its segment counts for all of them. The count of a flow begins at its submit, and anew
when the process starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

import attrs

from tracetypes.compiler.backend.summary import Limits, Summary
from tracetypes.compiler.connectors.registry import connector_of
from tracetypes.compiler.workspace.reconciler import Reconciler
from tracetypes.compiler.workspace.side_rows import deliver_side_rows
from tracetypes.errors import RunError

__all__ = ["RowCounts", "SourceRows"]


@attrs.frozen
class RowCounts:
    """Rows by source."""

    read: Counter[str] = attrs.Factory(Counter)
    late: Counter[str] = attrs.Factory(Counter)
    rejects: Counter[str] = attrs.Factory(Counter)

    @classmethod
    def of(cls, summary: Summary) -> Self:
        """What a segment has counted so far, as it is now."""
        return cls(Counter(summary.read), Counter(summary.late), Counter(summary.rejects))

    @classmethod
    def total(cls, parts: Iterable[Self]) -> Self:
        """Of several segments."""
        total = cls()
        for one in parts:
            total.read.update(one.read)
            total.late.update(one.late)
            total.rejects.update(one.rejects)
        return total

    def since(self, before: Self) -> Self:
        """What has come since an earlier count."""
        return type(self)(self.read - before.read, self.late - before.late, self.rejects - before.rejects)


@attrs.define(eq=False)
class SourceRows:
    """Of the flows of a workspace. ``folder``: of the workspace."""

    reconciler: Reconciler
    folder: Path
    _delivered: dict[str, RowCounts] = attrs.field(init=False, factory=dict)
    """What each flow had when late and rejected rows were put into its outputs last."""
    _before: dict[str, Mapping[str, RowCounts]] = attrs.field(init=False, factory=dict)
    """What its sources had counted before the submit of each flow."""

    def by_source(self) -> dict[str, RowCounts]:
        """What the segment of each source has counted so far."""
        segments = list(self.reconciler.host.segments.items())
        return {name: RowCounts.of(one.summary) for name, one in segments if not one.segment.readings}

    def submitted(self, name: str, before: Mapping[str, RowCounts]) -> None:
        """A flow was submitted. ``before``: what sources had counted before that."""
        sources = self.reconciler.database.submission(name).plain["aside"]
        self._before[name] = {one: before[one] for one in sources if one in before}
        self._delivered.pop(name, None)

    def of(self, name: str) -> RowCounts:
        """What a flow has got."""
        sources = self.reconciler.database.submission(name).plain["aside"]
        segments, before = self.reconciler.host.segments, self._before.get(name, {})
        now = {one: RowCounts.of(hosted.summary) for one in sources if (hosted := segments.get(one)) is not None}
        return RowCounts.total(count.since(before.get(one, RowCounts())) for one, count in now.items())

    def deliver(self, name: str) -> None:
        """Put the late and rejected rows of the sources of a flow into its outputs."""
        submitted, rows = self.reconciler.database.submission(name).plain, self.of(name)
        if self._delivered.get(name) == rows:
            return
        epochs = {
            one: range(first, self.reconciler.host.ended(one) + 1)
            for one, first in submitted["aside"].items()
            if one in self.reconciler.host.segments
        }
        outputs = [Path(one) for one in submitted["outputs"].values() if connector_of(one).is_directory]
        deliver_side_rows(self.folder / "aside", epochs, outputs)
        self._delivered[name] = rows

    def exceeded(self, name: str) -> RunError | None:
        """The error of a flow of which more rows are late or rejected than it allows (``TT217``)."""
        plain, rows = self.reconciler.database.submission(name).plain, self.of(name)
        limits = Limits(plain.get("max_late"), plain.get("max_rejects"))
        try:
            limits.check(Summary(read=dict(rows.read), late=dict(rows.late), rejects=dict(rows.rejects)))
        except RunError as error:
            fix = "look at them in its outputs, and submit it again; with backfill=True it answers what it has missed"
            return RunError(error.code, f"flow {name!r} was stopped: {error.message}", fix=fix)
        return None
