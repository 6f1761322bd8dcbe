"""The backends by name, and which one runs if nobody says."""

from __future__ import annotations

import importlib.util
import json
import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tracetypes.calls import like
from tracetypes.compiler.backend.run_request import extras
from tracetypes.errors import UsageError

if TYPE_CHECKING:
    from tracetypes.compiler.backend.backend import Engine
    from tracetypes.compiler.plan.explain import Wording

__all__ = ["BACKENDS", "default_backend", "engine_of", "engine_of_checkpoint", "wording_of"]

BACKENDS: Final = ("spark", "local")

VARIABLE: Final = "TRACETYPES_BACKEND"


def engine_of(backend: str | None, master: str | None = None) -> Engine:
    """The engine of a backend; None: of the default. Raises :class:`UsageError` ``TT402`` for an unknown name, and ``TT401`` if
    a package is missing."""
    backend = default_backend() if backend is None else _known(backend)
    with extras():
        if backend == "spark":
            from tracetypes.compiler.spark.backend import SparkEngine

            return SparkEngine(master)
        from tracetypes.compiler.local.backend import LocalEngine

        if master is not None:
            fix = "leave --master out, or give --backend spark"
            raise UsageError("TT402", "--master is of Spark, and this run is local", fix=fix)
        return LocalEngine()


def engine_of_checkpoint(path: str) -> Engine:
    """The engine of the backend that made a checkpoint; that of Spark if the directory is no checkpoint."""
    with extras():
        from tracetypes.compiler.store.compatibility import backend_of, queries_of

    root = Path(path)
    for directory in (queries_of(root) or {"": "."}).values():
        with suppress(OSError, ValueError):
            graph = json.loads((root / directory / "graph.json").read_text(encoding="utf-8"))
            if isinstance(graph, dict):
                return engine_of(backend_of(graph))
    return engine_of("spark")


def wording_of(backend: str | None, inputs: Mapping[str, object]) -> Wording:
    """How a backend says what it does, for ``explain``. ``inputs``: of sources by name, as far as they are known."""
    with extras():
        if (default_backend() if backend is None else _known(backend)) == "spark":
            from tracetypes.compiler.spark.wording import SparkWording

            return SparkWording(inputs)
        from tracetypes.compiler.local.wording import LocalWording

        return LocalWording(inputs)


def default_backend() -> str:
    """What ``TRACETYPES_BACKEND`` names, else ``backend`` in ``[tool.tracetypes]`` of ``pyproject.toml`` here; else Spark, or
    local if pyspark is not installed."""
    if named := os.environ.get(VARIABLE):
        return _known(named, f", which {VARIABLE} names")
    try:
        tools = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8")).get("tool", {})
    except (OSError, ValueError):
        tools = {}
    if named := tools.get("tracetypes", {}).get("backend"):
        return _known(named, ", which pyproject.toml names")
    return "spark" if importlib.util.find_spec("pyspark") is not None else "local"


def _known(name: object, where: str = "") -> str:
    if not isinstance(name, str) or name not in BACKENDS:
        fix = (isinstance(name, str) and like(name, BACKENDS)) or f"the backends are {', '.join(BACKENDS)}"
        raise UsageError("TT402", f"there is no backend {name!r}{where}", fix=fix)
    return name
