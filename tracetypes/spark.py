"""Dataflows inside queries of Spark, and DataFrames of Spark as inputs of ``run`` (docs/transform.md). They need the extra
``spark``.

The functions lie in ``compiler/spark``. This module gives them the name by which users import them.
"""

from __future__ import annotations

from .compiler.backend.compilation import extras

with extras():
    from .compiler.spark.ordered_frame import OrderedFrame, ordered
    from .compiler.spark.transform import Transformed, transform

__all__ = ["OrderedFrame", "Transformed", "ordered", "transform"]
