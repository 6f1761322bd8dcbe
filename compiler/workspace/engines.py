"""The backends of workspaces by their names."""

from __future__ import annotations

from typing import Final

from tracetypes.compiler.backend.backend import Engine
from tracetypes.compiler.backend.compilation import extras
from tracetypes.compiler.local.backend import LocalEngine

__all__ = ["BACKENDS", "engine_named"]

BACKENDS: Final = ("local", "spark")


def engine_named(backend: str) -> Engine:
    """One of :data:`BACKENDS`. Raises an error that says what to install if it is not there."""
    if backend == "local":
        return LocalEngine()
    with extras():
        from tracetypes.compiler.spark.backend import SparkEngine

    return SparkEngine()
