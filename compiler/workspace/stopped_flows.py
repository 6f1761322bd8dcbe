"""The flows of a workspace that were stopped, and why.

::

    WORKSPACE/stopped.json     until they are removed or submitted again
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from tracetypes.compiler.store.small_files import read_json, write_json
from tracetypes.compiler.workspace.retention_limits import FIX
from tracetypes.errors import RunError

__all__ = ["StoppedFlows"]


@attrs.define(eq=False)
class StoppedFlows:
    """``outputs``: their addresses, by flow and sink."""

    folder: Path
    outputs: dict[str, dict[str, str]] = attrs.field(init=False)
    _errors: dict[str, dict[str, str]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        content = read_json(self._path) or {"errors": {}, "outputs": {}}
        if "flows" in content:  # an earlier version has texts, and only one reason for which a flow is stopped
            errors = {name: {"code": "TT232", "message": text, "fix": FIX} for name, text in content["flows"].items()}
            content = {"errors": errors, "outputs": {name: {} for name in errors}}
        self._errors, self.outputs = content["errors"], content["outputs"]

    @property
    def _path(self) -> Path:
        return self.folder / "stopped.json"

    def add(self, name: str, outputs: Mapping[str, str], error: RunError) -> None:
        """A flow was stopped."""
        self._errors[name] = {"code": error.code, "message": error.message, "fix": error.fix or ""}
        self.outputs[name] = dict(outputs)
        self._write()

    def error(self, name: str) -> RunError:
        """The error of a flow that was stopped."""
        one = self._errors[name]
        return RunError(one["code"], one["message"], fix=one["fix"])

    def forget(self, name: str) -> dict[str, str]:
        """It is submitted again, or removed. Returns its outputs."""
        outputs = self.outputs.pop(name, None)
        if outputs is None:
            return {}
        del self._errors[name]
        self._write()
        return outputs

    def _write(self) -> None:
        if self.outputs:
            write_json(self._path, {"errors": self._errors, "outputs": self.outputs})
        else:
            self._path.unlink(missing_ok=True)
