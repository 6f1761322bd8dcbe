"""Splits of a connector, in the form that Spark asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from tracetypes.compiler.spark.wire import result_of, settle
from tracetypes.connectors import Offset, Splits

__all__ = ["SplitStreamReader"]


class OneSplit(InputPartition):
    """The split of one task."""

    def __init__(self, row: tuple[Any, ...]) -> None:
        self.row = row


class SplitStreamReader(DataSourceStreamReader):
    """Reports splits to Spark, which keeps the offsets."""

    def __init__(self, splits: Splits) -> None:
        self.splits = splits

    def initialOffset(self) -> Offset:
        """The offset at which a new query begins."""
        return result_of(self.splits.begin)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The offset at which the next micro-batch ends."""
        return result_of(lambda: self.splits.end(start))

    def partitions(self, start: Offset, end: Offset) -> list[OneSplit]:
        """A task for each split."""
        return result_of(lambda: [OneSplit(row) for row in self.splits.splits(start, end)])

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """The split itself. A scan reads its rows."""
        if isinstance(partition, OneSplit):
            yield partition.row
        settle()
