"""Workspaces: the dataflows of many users, run as the fewest operators (docs/workspace.md). It needs the extra ``local``.

The class lies in ``compiler/workspace/workspace``. This module gives it the name by which users import it.
"""

from __future__ import annotations

from .compiler.backend.compilation import extras

with extras():
    from .compiler.workspace.workspace import FlowView, Workspace, WorkspaceView

__all__ = ["FlowView", "Workspace", "WorkspaceView"]
