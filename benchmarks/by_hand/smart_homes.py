"""The smart-homes pipeline as an expert would write it in PySpark: two stateful operators by hand.

``transformWithStateInPandas`` by plug (order, interpolation), then ``applyInPandasWithState`` by type of device (averages, the
last minute, prediction): Spark takes the latter once in a query, as the last; sorting a stream and filling gaps cannot be said
natively. Inside of a call all is vectorised by pandas and NumPy.

It relies on what it is given: micro-batches that come in the order of time. A load for an earlier second than a micro-batch's
would be taken for a gap.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from examples.home_energy import DEVICES, KEPT, MAX_GAP
from examples.smart_homes import PAST

PLUG = ["house", "household", "plug"]
LOADS = "device string, ts long, watts double"
PREDICTIONS = "key string, ts long, watts double, consumed double, predicted double"


class Interpolate(StatefulProcessor):
    """By plug: its loads in the order of time, gaps filled in. State: the last load."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.last = handle.getValueState("last", "ts long, watts double")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        frame = pd.concat(list(rows)).sort_values(["timestamp", "value"], kind="stable")
        at, watts = frame["timestamp"].to_numpy(), frame["value"].to_numpy()
        device = frame["device"].iloc[0]
        before = self.last.get()
        if before is not None:
            at, watts = np.concatenate([[before[0]], at]), np.concatenate([[before[1]], watts])
        self.last.update((int(at[-1]), float(watts[-1])))
        gaps = np.diff(at)
        outage = gaps > MAX_GAP
        steps = np.where(outage, 1, gaps)
        start = np.repeat(np.arange(len(gaps)), steps)
        step = np.arange(len(start)) - np.repeat(np.cumsum(steps) - steps, steps) + 1
        filled_at, filled = at[:-1][start] + step, watts[:-1][start]
        filled = filled + step * (watts[1:][start] - watts[:-1][start]) / np.maximum(gaps[start], 1)
        new = outage[start]
        filled_at, filled = np.where(new, at[1:][start], filled_at), np.where(new, watts[1:][start], filled)
        if before is None:
            filled_at, filled = np.concatenate([at[:1], filled_at]), np.concatenate([watts[:1], filled])
        yield pd.DataFrame({"device": device, "ts": filled_at, "watts": filled})

    def close(self) -> None:
        pass


class Predict:
    """By type of device. State: sums of seconds that may still get loads, and the averages of the last minute."""

    def __init__(self, models: Mapping[str, Any]) -> None:
        self.models = models

    def __call__(
        self, key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        open_, minute = pickle.loads(state.get[0]) if state.exists else (None, None)
        loads = pd.concat(list(frames)).sort_values(["ts", "watts"])
        sums = loads.groupby("ts")["watts"].agg(["sum", "count"])
        if open_ is not None:
            sums = sums.add(open_, fill_value=0)
        final = sums.index <= sums.index.max() - MAX_GAP
        averages = (sums["sum"] / sums["count"])[final]
        known = averages if minute is None else pd.concat([minute, averages])
        minute = known[known.index > known.index.max() - PAST + 1] if len(known) else known
        state.update((pickle.dumps((sums[~final], minute), protocol=5),))
        if not len(averages):
            return
        by_second = known.reindex(range(known.index.min(), known.index.max() + 1), fill_value=0.0)
        consumed = by_second.rolling(PAST, min_periods=1).sum()[averages.index] / 3_600
        features = np.column_stack([averages.index % 86_400, averages, consumed])
        predicted = self.models[key[0]].predict(features)
        yield pd.DataFrame(
            {
                "key": key[0],
                "ts": averages.index,
                "watts": averages.to_numpy(),
                "consumed": consumed.to_numpy(),
                "predicted": predicted,
            }
        )


def kept(readings: DataFrame) -> DataFrame:
    """The loads of some types of devices: scan and filter, the floor."""
    names = F.array(*map(F.lit, DEVICES))
    number = (F.col("house") * 31 + F.col("household") * 7 + F.col("plug")) % len(DEVICES)
    chosen = readings.where("property = 1").withColumn("device", names[number.cast("int")])
    return chosen.where(F.col("device").isin(sorted(KEPT)))


def smart_homes(readings: DataFrame, models: Mapping[str, Any]) -> DataFrame:
    """``models``: trained by scikit-learn, for each type of device. Output mode append."""
    filled = kept(readings).groupBy(*PLUG).transformWithStateInPandas(Interpolate(), LOADS, "append", "None")
    grouped = filled.groupBy("device")
    return grouped.applyInPandasWithState(Predict(models), PREDICTIONS, "held binary", "append", "NoTimeout")
