"""Data-trace types, section 6, "Smart Homes", Figure 5: predicted power consumption of each type of device (DEBS 2014).

    python -m examples.smart_homes_data DIR --homes 10 --seconds 300
    tracetypes run examples/smart_homes.py:flow --input readings=DIR --output predictions=OUT

The averages are those of ``examples/home_energy.py``; from them a regression tree says how much a type of device will consume
within the next ten minutes. ``python -m examples.smart_homes_data --train`` trains the trees on generated history.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import attrs

from examples.home_energy import Average, Measurement, average
from tracetypes import Dataflow, EmitValue, O, OpKeyedOrdered, Stream, U, Unit, every
from tracetypes.formats import Format
from tracetypes.markers import EventTime
from tracetypes.stdlib import RegressionTree

PAST, AHEAD = 60, 600
"""Seconds: of consumption that a prediction looks back on, and that it predicts."""


class Prediction(NamedTuple):
    """At a second: average watts, watt-hours of the last minute, predicted watt-hours of the next ten minutes."""

    ts: int
    watts: float
    consumed: float
    predicted: float


Past = tuple[Average, ...]
"""The averages of the last minute, the oldest first."""


def remember(past: Past, average: Average) -> Past:
    """The last minute, a second later."""
    return (*(one for one in past if one.ts > average.ts - PAST), average)


def features_of(past: Past) -> tuple[float, float, float]:
    """Second of the day, watts now, watt-hours of the last minute, which is not empty."""
    return float(past[-1].ts % 86_400), past[-1].watts, sum(one.watts for one in past) / 3_600


@attrs.frozen
class Predict(OpKeyedOrdered[str, Average, Prediction, Past]):
    """A prediction for each second, by the tree of the type of device; power is per plug, as averages are."""

    trees: Mapping[str, RegressionTree]
    may_change = ("trees",)  # the state knows nothing of them: a run goes on with trees that were trained again

    def initial_state(self) -> Past:
        return ()

    def on_item(self, state: Past, key: str, value: Average, emit: EmitValue[Prediction]) -> Past:
        past = remember(state, value)
        features = features_of(past)
        emit(Prediction(value.ts, value.watts, features[2], self.trees[key].predict(features)))
        return past


def averages_of(flow: Dataflow, format: Format | None) -> Stream[O[str, Average]]:
    """The pipeline without its last step, over readings with a marker every ten seconds."""
    markers: EventTime[Measurement] = every(seconds=10, time=lambda m: m.timestamp)
    readings = flow.source("readings", U[Unit, Measurement], markers=markers, format=format)
    return average(readings)


def averages(format: Format | None = None) -> Dataflow:
    """The pipeline without its last step: what trees are trained on."""
    flow = Dataflow("smart-homes-averages")
    flow.sink("averages", averages_of(flow, format))
    return flow


def predictions(trees: Mapping[str, RegressionTree], format: Format | None = None) -> Dataflow:
    """The whole pipeline. ``trees``: one for each type of device in ``KEPT``."""
    flow = Dataflow("smart-homes")
    flow.sink("predictions", averages_of(flow, format).through(Predict(dict(trees))))
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
