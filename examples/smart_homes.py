"""Data-trace types, section 6, "Smart Homes", Figure 5: predicted power consumption of each type of device (DEBS 2014).

    python -m examples.smart_homes_data DIR --homes 10 --seconds 300
    tracetypes run examples/smart_homes.py:flow --input readings=DIR --output predictions=OUT

JFM, SORT and LI are those of ``examples/home_energy.py``. Here each second's average is told once, when nothing more can come
for it, and a regression tree says how much a type of device will consume within the next ten minutes.
``python -m examples.smart_homes_data --train`` trains the trees on generated history.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from examples.home_energy import (
    KEPT,
    MAX_GAP,
    Average,
    JoinFilterMap,
    LinearInterpolation,
    Load,
    Measurement,
    device_of,
)
from tracetypes import Dataflow, Marker, O, OpKeyedOrdered, Stream, U, Unit, every, sort
from tracetypes.formats import Format
from tracetypes.stdlib import RegressionTree, rekey

PAST, AHEAD = 60, 600
"""Seconds: of consumption that a prediction looks back on, and that it predicts."""

SumsBySecond = dict[int, tuple[float, int]]


@attrs.frozen
class AverageOfSecond(OpKeyedOrdered[str, Load, Average, SumsBySecond]):
    """The average load of each second, once, at the first marker that lies ``MAX_GAP`` behind it.

    A load that comes after marker ``m`` fills gaps of ``MAX_GAP`` seconds at most, so from ``m - MAX_GAP + 1`` on.
    """

    def initial_state(self) -> SumsBySecond:
        return {}

    def on_item(self, state: SumsBySecond, key: str, value: Load, emit: Callable[[Average], None]) -> SumsBySecond:
        total, loads = state.get(value.ts, (0.0, 0))
        state[value.ts] = (total + value.watts, loads + 1)
        return state

    def on_marker(self, state: SumsBySecond, key: str, marker: Marker, emit: Callable[[Average], None]) -> SumsBySecond:
        for ts in sorted(ts for ts in state if ts <= marker.timestamp - MAX_GAP):
            total, loads = state.pop(ts)
            emit(Average(ts, total / loads, loads))
        return state


Features = tuple[float, float, float]
"""Second of the day, watts now, watt-hours of the last minute."""


@attrs.frozen
class Prediction:
    """At a second: average watts, watt-hours of the last minute, predicted watt-hours of the next ten minutes."""

    ts: int
    watts: float
    consumed: float
    predicted: float


Past = tuple[tuple[int, float], ...]
"""Seconds and their watts, the oldest first."""


def remember(past: Past, average: Average) -> Past:
    """The last minute, a second later."""
    return (*(one for one in past if one[0] > average.ts - PAST), (average.ts, average.watts))


def features_of(past: Past) -> Features:
    """The features at the last second of a minute that is not empty."""
    ts, watts = past[-1]
    return float(ts % 86_400), watts, sum(w for _, w in past) / 3_600


@attrs.frozen
class Predict(OpKeyedOrdered[str, Average, Prediction, Past]):
    """A prediction for each second, by the tree of the type of device; power is per plug, as averages are."""

    trees: Mapping[str, RegressionTree]
    may_change = ("trees",)  # the state knows nothing of them: a run goes on with trees that were trained again

    def initial_state(self) -> Past:
        return ()

    def on_item(self, state: Past, key: str, value: Average, emit: Callable[[Prediction], None]) -> Past:
        past = remember(state, value)
        features = features_of(past)
        emit(Prediction(value.ts, value.watts, features[2], self.trees[key].predict(features)))
        return past


def average(readings: Stream[U[Unit, Measurement]], parallelism: int | None = None) -> Stream[O[str, Average]]:
    """The pipeline up to the averages: JFM, SORT, LI, Map, SORT, AVG."""
    loads = readings.through(JoinFilterMap(KEPT), parallelism=parallelism)
    filled = loads.through(sort(by=lambda load: load.ts)).through(LinearInterpolation())
    by_device = filled.through(rekey(lambda plug, _: device_of(plug), to=str))
    return by_device.through(sort(by=lambda load: load.ts)).through(AverageOfSecond())


def source(flow: Dataflow, format: Format | None) -> Stream[U[Unit, Measurement]]:
    """Readings with a marker every ten seconds."""
    markers = every(seconds=10, time=lambda m: m.timestamp)
    return flow.source("readings", U[Unit, Measurement], markers=markers, format=format)


def averages(format: Format | None = None) -> Dataflow:
    """The pipeline without its last step: what trees are trained on."""
    flow = Dataflow("smart-homes-averages")
    flow.sink("averages", average(source(flow, format)))
    return flow


def predictions(trees: Mapping[str, RegressionTree], format: Format | None = None) -> Dataflow:
    """The whole pipeline. ``trees``: one for each type of device in ``KEPT``."""
    flow = Dataflow("smart-homes")
    flow.sink("predictions", average(source(flow, format)).through(Predict(dict(trees))))
    return flow


def read_trees(path: Path) -> dict[str, RegressionTree]:
    """Trees as :func:`write_trees` wrote them."""
    found: dict[str, dict[str, list[Any]]] = json.loads(path.read_text())
    return {
        device: RegressionTree(**{name: tuple(part) for name, part in tree.items()}) for device, tree in found.items()
    }


def write_trees(path: Path, trees: Mapping[str, RegressionTree]) -> None:
    """Write trees as JSON, a line for each type of device."""
    lines = [f"{json.dumps(device)}: {json.dumps(attrs.asdict(tree))}" for device, tree in sorted(trees.items())]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


TREES = Path(__file__).with_name("smart_homes_trees.json")
flow = predictions(read_trees(TREES))
