"""A static DataFrame of Spark as an input of ``run``: its rows in the order of a column."""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

from pyspark.sql import DataFrame
from pyspark.sql.types import MapType, VariantType

from tracetypes.compiler.spark.frame_inputs import column_of
from tracetypes.errors import RunError, UsageError
from tracetypes.records import show

__all__ = ["OrderedFrame", "ordered"]


class OrderedFrame:
    """The rows of a DataFrame, which come to the driver in order."""

    def __init__(self, frame: DataFrame, by: str) -> None:
        self.frame, self.by = frame, by

    @cached_property
    def table(self) -> Any:
        """The rows as an Arrow table. Rows that are equal in the column are in the order of the others, so that each run has the
        same order."""
        others = [
            column_of(field.name)
            for field in self.frame.schema
            if field.name != self.by and not isinstance(field.dataType, MapType | VariantType)
        ]
        return self.frame.orderBy(column_of(self.by), *others).toArrow()

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<DataFrame ordered by {self.by}>"


def ordered(frame: DataFrame, *, by: str) -> OrderedFrame:
    """A static DataFrame as an input of ``run`` or ``start``, on any backend. Its rows come to the driver in the order of a
    column; the other columns decide between equal values. Raises :class:`UsageError` ``TT402`` for anything but a static
    DataFrame, and :class:`RunError` ``TT203`` if there is no such column."""
    if not isinstance(cast(object, frame), DataFrame):
        fix = "give run() the frame itself"
        raise UsageError("TT402", f"ordered takes a DataFrame of PySpark, and got {show(frame)}", fix=fix)
    if frame.isStreaming:
        raise UsageError(
            "TT402",
            "a streaming DataFrame has no order, and is no input of run()",
            fix="use tracetypes.spark.transform(flow, inputs), whose result is part of your own query",
        )
    if by not in frame.columns:
        has = ", ".join(map(repr, frame.columns))
        raise RunError("TT203", f"the DataFrame has no column {show(by)}; it has {has}", fix="name one of them")
    return OrderedFrame(frame, by)
