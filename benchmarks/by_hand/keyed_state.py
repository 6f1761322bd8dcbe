"""Running count and mean per key, as people write it by hand: one call of Python for each key and micro-batch.

Two ways, both as their documentation shows them: ``applyInPandasWithState`` with a pandas frame for each key, and
``transformWithState`` with rows for each key. Both emit the key's count and mean after each micro-batch that touched it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

OUTPUT = "key long, count long, mean double"


def by_pandas(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """For ``applyInPandasWithState``."""
    count, total = state.get if state.exists else (0, 0)
    for frame in frames:
        count += len(frame)
        total += int(frame["value"].sum())
    state.update((count, total))
    yield pd.DataFrame({"key": [key[0]], "count": [count], "mean": [total / count]})


class ByRows(StatefulProcessor):
    """For ``transformWithState``."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.totals = handle.getValueState("totals", "count long, total long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        found = self.totals.get()
        count, total = found if found is not None else (0, 0)
        for row in rows:
            count += 1
            total += row["value"]
        self.totals.update((count, total))
        yield Row(key=key[0], count=count, mean=total / count)

    def close(self) -> None:
        pass


def apply_in_pandas_with_state(events: DataFrame) -> DataFrame:
    """The query with ``applyInPandasWithState``."""
    grouped = events.groupBy("key")
    return grouped.applyInPandasWithState(by_pandas, OUTPUT, "count long, total long", "update", "NoTimeout")


def transform_with_state(events: DataFrame) -> DataFrame:
    """The query with ``transformWithState``."""
    return events.groupBy("key").transformWithState(ByRows(), OUTPUT, "update", "None")
