"""Tasks of RIoTBench that compute statistics, draw them and predict: see ``examples/riotbench.py``."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import TypeAlias

import attrs

from examples.riotbench_messages import Line, Observation, Recent, Statistic
from examples.riotbench_sources import Split
from tracetypes import Emit, EmitValue, Marker, OpKeyedOrdered, OpKeyedUnordered, OpStateless

__all__ = [
    "BlockWindowAverage",
    "DecisionTreeClassify",
    "DistinctApproxCount",
    "ErrorEstimation",
    "KalmanFilter",
    "MultiLinePlot",
    "MultiVarLinearRegression",
    "Sighting",
    "SlidingLinearRegression",
    "svg",
]


@attrs.frozen
class BlockWindowAverage(OpKeyedOrdered[str, Observation, Statistic, Recent]):
    """The average of each ``window`` numbers of a kind."""

    kinds: tuple[str, ...]
    window: int

    def initial_state(self) -> Recent:
        return {}

    def on_item(self, state: Recent, key: str, value: Observation, emit: EmitValue[Statistic]) -> Recent:
        if value.kind not in self.kinds or value.value is None:
            return state
        numbers = (*state.get(value.kind, ()), value.value)
        if len(numbers) == self.window:
            average = math.fsum(numbers) / self.window
            emit(Statistic(value.id, value.at, "AVG", value.kind, average, value.value))
            numbers = ()
        state[value.kind] = numbers
        return state


@attrs.frozen
class KalmanFilter(OpKeyedOrdered[str, Observation, Observation, Recent]):
    """The number that a filter of one dimension estimates. Its first estimate is 0."""

    kinds: tuple[str, ...]
    process_noise: float
    sensor_noise: float
    estimated_error: float

    def initial_state(self) -> Recent:
        return {}

    def on_item(self, state: Recent, key: str, value: Observation, emit: EmitValue[Observation]) -> Recent:
        if value.kind not in self.kinds or value.value is None:
            return state
        estimate, error = state.get(value.kind, (0.0, self.estimated_error))
        error += self.process_noise
        gain = error / (error + self.sensor_noise)
        estimate += gain * (value.value - estimate)
        state[value.kind] = (estimate, (1 - gain) * error)
        emit(attrs.evolve(value, value=estimate))
        return state


@attrs.frozen
class SlidingLinearRegression(OpKeyedOrdered[str, Observation, Statistic, Recent]):
    """A line through the last ``window`` numbers of a kind: the mean of what it predicts for the next ``horizon`` of them. The
    first ``window`` numbers give nothing."""

    window: int
    horizon: int

    def initial_state(self) -> Recent:
        return {}

    def on_item(self, state: Recent, key: str, value: Observation, emit: EmitValue[Statistic]) -> Recent:
        if value.value is None:
            return state
        numbers = (*state.get(value.kind, ()), value.value)
        if len(numbers) > self.window:
            numbers = numbers[1:]
            middle, level = (self.window - 1) / 2, math.fsum(numbers) / self.window
            rise = math.fsum((at - middle) * one for at, one in enumerate(numbers))
            slope = rise / math.fsum((at - middle) ** 2 for at in range(self.window))
            ahead = self.window - 1 + (1 + self.horizon) / 2 - middle
            emit(Statistic(value.id, value.at, "SLR", value.kind, level + slope * ahead, value.value))
        state[value.kind] = numbers
        return state


@attrs.frozen
class Sighting:
    """A message of a sensor."""

    id: int
    at: int
    sensor: str


NEVER = -(1 << 63)
"""Before all messages."""

Most: TypeAlias = tuple[int, int, dict[int, int]]
"""The last message and its second, and the most zeros in each bucket."""


@attrs.frozen
class DistinctApproxCount(OpKeyedUnordered[str, Sighting, str, Statistic, tuple[int, int, bytes], Most]):
    """About how many sensors have sent a message so far, at the end of each block with messages: LogLog of Durand and Flajolet,
    with 2 to the power of ``buckets`` buckets. (There after each message.)"""

    buckets: int
    skips_untouched = True

    def lift(self, key: str, value: Sighting) -> Most:
        hash_ = int.from_bytes(hashlib.sha1(value.sensor.encode()).digest()[:4], "little")
        rest = hash_ >> self.buckets
        zeros = (rest & -rest).bit_length() - 1 if rest else 31
        return value.id, value.at, {hash_ & (1 << self.buckets) - 1: zeros}

    def identity(self) -> Most:
        return NEVER, NEVER, {}

    def combine(self, a: Most, b: Most) -> Most:
        most = {bucket: max(a[2].get(bucket, 0), b[2].get(bucket, 0)) for bucket in a[2].keys() | b[2].keys()}
        return max(a[0], b[0]), max(a[1], b[1]), most

    def initial_state(self) -> tuple[int, int, bytes]:
        return NEVER, NEVER, bytes(1 << self.buckets)

    def update_state(self, state: tuple[int, int, bytes], agg: Most) -> tuple[int, int, bytes]:
        most = bytearray(state[2])
        for bucket, zeros in agg[2].items():
            most[bucket] = max(most[bucket], zeros)
        return agg[0], agg[1], bytes(most)

    def on_marker(self, new_state: tuple[int, int, bytes], key: str, marker: Marker, emit: Emit[str, Statistic]) -> None:
        id, at, most = new_state
        if id > NEVER:
            count = float(int(0.79402 * len(most) * 2 ** (sum(most) / len(most))))
            emit(key, Statistic(id, at, "DA", "sensors", count, count))


@attrs.frozen
class MultiLinePlot(OpKeyedOrdered[str, Statistic, Line, dict[str, tuple[tuple[int, float], ...]]]):
    """A picture (SVG) of each ``window`` statistics of a sensor, with a line for each task and kind."""

    window: int

    def initial_state(self) -> dict[str, tuple[tuple[int, float], ...]]:
        return {}

    def on_item(
        self, state: dict[str, tuple[tuple[int, float], ...]], key: str, value: Statistic, emit: EmitValue[Line]
    ) -> dict[str, tuple[tuple[int, float], ...]]:
        name = f"{value.task} {value.about}"
        state[name] = (*state.get(name, ()), (value.id, value.value))
        if sum(len(points) for points in state.values()) < self.window:
            return state
        emit(Line(value.id, value.at, svg(state)))
        return {}


def svg(lines: Mapping[str, tuple[tuple[int, float], ...]]) -> str:
    """Lines in a box of 300 to 100, each with its name."""
    points = [point for line in lines.values() for point in line]
    left, bottom = min(x for x, _ in points), min(y for _, y in points)
    width = max(x for x, _ in points) - left or 1
    height = max(y for _, y in points) - bottom or 1.0
    shapes = []
    for name, line in sorted(lines.items()):
        where = " ".join(f"{300 * (x - left) / width:.1f},{100 - 100 * (y - bottom) / height:.1f}" for x, y in line)
        shapes.append(f'<polyline fill="none" stroke="black" points="{where}"><title>{name}</title></polyline>')
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 300 100">{"".join(shapes)}</svg>'


@attrs.frozen
class DecisionTreeClassify(OpStateless[str, Observation, str, Statistic]):
    """The number of the class of each message."""

    tree: Split
    target: int

    def on_item(self, key: str, value: Observation, emit: Emit[str, Statistic]) -> None:
        if value.place:
            return
        node: Split | int = self.tree
        while isinstance(node, Split):
            node = node.below if value.message[node.field] < node.at else node.above
        emit(key, Statistic(value.id, value.at, "DTC", "class", float(node), value.message[self.target]))


@attrs.frozen
class MultiVarLinearRegression(OpStateless[str, Observation, str, Statistic]):
    """The number of kind ``about`` that the first numbers of a message let expect, without its fraction."""

    weights: tuple[float, ...]
    intercept: float
    target: int
    about: str

    def on_item(self, key: str, value: Observation, emit: Emit[str, Statistic]) -> None:
        if value.place:
            return
        sum_ = math.fsum(weight * one for weight, one in zip(self.weights, value.message, strict=False))
        expected = float(int(self.intercept + sum_))
        emit(key, Statistic(value.id, value.at, "MLR", self.about, expected, value.message[self.target]))


@attrs.frozen
class ErrorEstimation(OpKeyedOrdered[str, Statistic, Statistic, float]):
    """By how much a prediction is wrong, in parts of the last average. (There the first average is 0.)"""

    about: str

    def initial_state(self) -> float:
        return 0.0

    def on_item(self, state: float, key: str, value: Statistic, emit: EmitValue[Statistic]) -> float:
        if value.about != self.about:
            return state
        if value.task == "AVG":
            return value.value
        if state:
            emit(attrs.evolve(value, task="ERROR", value=(value.actual - value.value) / state))
        return state
