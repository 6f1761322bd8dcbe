"""Limits of what channels keep for a reader that fails or is slow, and the flows that were stopped for that.

::

    WORKSPACE/stopped.json     the flows that were stopped, and why, until they are removed or submitted again

The sender is never stopped: others read from it, and its own source goes on. What is given up is the attachment of the reader. So
the flow cannot go on where it was: it is submitted again, with a backfill if it shall answer what it has missed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from tracetypes.compiler.store.channel import Kept
from tracetypes.compiler.store.small_files import read_json, write_json
from tracetypes.errors import RunError

__all__ = ["RetentionLimits", "StoppedFlows"]


@attrs.frozen
class RetentionLimits:
    """``size``: bytes that a channel keeps for one reader at most; ``age``: seconds that it keeps an entry for."""

    size: int
    age: float

    def exceeded(self, kept: Mapping[str, Kept], now: float | None = None) -> Iterator[tuple[str, str]]:
        """The readers for which too much is kept, each with what is too much. ``now``: seconds since 1970."""
        moment = time.time() if now is None else now
        for reader, one in kept.items():
            if one.size > self.size:
                yield reader, f"{one.size:,} bytes, and at most {self.size:,} are kept"
            elif one.since is not None and moment - one.since > self.age:
                yield reader, f"what came {moment - one.since:,.0f} seconds ago, and it is kept for {self.age:,.0f} at most"


@attrs.define(eq=False)
class StoppedFlows:
    """The flows of a workspace that were stopped. ``reasons``: by name; ``outputs``: their addresses by name and sink."""

    folder: Path
    reasons: dict[str, str] = attrs.field(init=False)
    outputs: dict[str, dict[str, str]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        content = read_json(self._path) or {"reasons": {}, "outputs": {}}
        self.reasons, self.outputs = content["reasons"], content["outputs"]

    @property
    def _path(self) -> Path:
        return self.folder / "stopped.json"

    def add(self, name: str, outputs: Mapping[str, str], operator: str, why: str, last: BaseException | None) -> None:
        """A flow was stopped. ``operator``: the one that did not read on; ``last``: what it failed of."""
        cause = "" if last is None else f". It failed of: {str(last).splitlines()[0]}"
        self.reasons[name] = f"flow {name!r} was stopped: {operator} has not read {why}{cause}"
        self.outputs[name] = dict(outputs)
        self._write()

    def error(self, name: str) -> RunError:
        """The error of a flow that was stopped."""
        fix = "mend what it fails of, and submit it again; with backfill=True it answers what it has missed"
        return RunError("TT232", self.reasons[name], fix=fix)

    def forget(self, name: str) -> dict[str, str]:
        """It is submitted again, or removed. Returns its outputs."""
        if self.reasons.pop(name, None) is None:
            return {}
        outputs = self.outputs.pop(name)
        self._write()
        return outputs

    def _write(self) -> None:
        if self.reasons:
            write_json(self._path, {"reasons": self.reasons, "outputs": self.outputs})
        else:
            self._path.unlink(missing_ok=True)
