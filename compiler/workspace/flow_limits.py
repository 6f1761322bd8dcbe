"""Stops flows that exceed a limit: of late and rejected rows, and of what channels keep for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from tracetypes.compiler.store.channel import Kept
from tracetypes.compiler.workspace.reconciler import Reconciler
from tracetypes.compiler.workspace.retention_limits import RetentionLimits, does_not_read_on
from tracetypes.compiler.workspace.source_rows import SourceRows
from tracetypes.compiler.workspace.stopped_flows import StoppedFlows
from tracetypes.errors import RunError

__all__ = ["FlowLimits"]


@attrs.define(eq=False)
class FlowLimits:
    """Of the flows of a workspace. ``folder``: of the workspace; ``rows``: of their sources."""

    reconciler: Reconciler
    folder: Path
    rows: SourceRows
    retention: RetentionLimits
    stopped: StoppedFlows = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.stopped = StoppedFlows(self.folder)

    def restore(self) -> None:
        """A kill may have come before a flow that was to stop had left."""
        for name in self.stopped.outputs.keys() & self.reconciler.running.flows.keys():
            self.reconciler.remove(name)

    def look(self, kept: Mapping[str, Mapping[str, Kept]]) -> None:
        """Look at all flows and channels. ``kept``: what channels keep, by segment and reader."""
        for name in list(self.reconciler.running.flows):
            self.look_at_rows(name)
        host = self.reconciler.host
        for by_reader in kept.values():
            for reader, why in list(self.retention.exceeded(by_reader)):
                if (hosted := host.segments.get(reader)) is not None:
                    root, error = hosted.segment.root, host.error(reader)
                    for name in self.reconciler.flows_through(root):
                        self._stop(name, does_not_read_on(name, self.reconciler.title(root), why, error))

    def look_at_rows(self, name: str) -> None:
        """Look at the late and rejected rows of a flow. First they come to its outputs."""
        self.rows.deliver(name)
        if (error := self.rows.exceeded(name)) is not None:
            self._stop(name, error)

    def _stop(self, name: str, error: RunError) -> None:
        """Stop a flow for good. It is shown with its error until it is removed or submitted again."""
        outputs = self.reconciler.database.submission(name).plain["outputs"]
        self.stopped.add(name, outputs, error)
        self.reconciler.remove(name)
