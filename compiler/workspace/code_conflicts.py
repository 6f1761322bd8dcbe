"""One process has one module of a name. So flows of a workspace whose code has the same names must have the same code.

A flow runs the copy of its code that was made at its submit, also in another process. Where this process has other code under
such a name, either the flow that runs or the one that is submitted would run what it was not submitted with. That is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tracetypes.compiler.workspace.code_copies import CodeCopy
from tracetypes.errors import UsageError

__all__ = ["refuse_imported", "refuse_other_code"]


def refuse_imported(flow: str, copy: CodeCopy) -> None:
    """Raises :class:`UsageError` ``TT402`` if this process has imported a module of a copy from elsewhere, with other content."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        base = name.replace(".", "/")
        ours = next((one for one in (copy.root / f"{base}.py", copy.root / base / "__init__.py") if one.is_file()), None)
        if ours is None or not isinstance(file, str) or Path(file).resolve() == ours.resolve():
            continue
        if _content(Path(file)) != ours.read_bytes():
            raise UsageError(
                "TT402",
                f"flow {flow!r} runs the module {name!r} that it was submitted with, and this process has imported {file}",
                fix=f"open the workspace before {name!r} is imported; submit changed code under another module name",
            )


def refuse_other_code(files: Mapping[str, Path], copies: Mapping[str, CodeCopy]) -> None:
    """Raises :class:`UsageError` ``TT402`` if files of a flow that is submitted are other code than those of a flow that runs.
    ``files``: by their place below the folder that they are imported from; ``copies``: by flow."""
    roots = {str(one.root) for one in copies.values()}
    for flow, copy in copies.items():
        for place, path in files.items():
            ours = copy.root / place
            if not ours.is_file() or not place.endswith(".py"):
                continue
            elsewhere = [Path(one or ".", place) for one in sys.path if one not in roots and Path(one or ".", place).is_file()]
            other = next((one for one in (path, *elsewhere[:1]) if _content(one) != ours.read_bytes()), None)
            if other is not None:
                raise UsageError(
                    "TT402",
                    f"{other} is other code than that of flow {flow!r}, which runs, and one process has one module of a name",
                    fix="give the module another name, or remove that flow first and open the workspace again",
                )


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
