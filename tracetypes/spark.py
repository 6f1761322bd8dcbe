"""Dataflows inside queries of Spark (docs/transform.md). It needs the extra ``spark``.

The function lies in ``compiler/spark/transform``. This module gives it the name by which users import it.
"""

from __future__ import annotations

from .compiler.backend.compilation import extras

with extras():
    from .compiler.spark.transform import Transformed, transform

__all__ = ["Transformed", "transform"]
