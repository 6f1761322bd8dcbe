"""The tasks of RIoTBench as typed operators, and 21 dataflows of them.

    python -m examples.riotbench_sources DIR --source CITY
    >>> tracetypes.run(flow("stats", "SYS"), {"messages": "DIR"}, {"mqtt": "OUT"})

The tasks are those of github.com/dream-lab/riot-bench at c86414f, with its parameters (``examples/riotbench_sources.py``). What
each does is what its Java code does, but for this:

* A task keeps its state by sensor. There one that is not told which field to use takes a random number; here each task uses the
  fields that the parameters name.
* What is out of range, or from an unknown sensor, is None; there it is the text "null".
* Trees and weights are parameters. There they come as Java objects in messages of MQTT.
* ``MQTTPublish`` is the sink. Its address says where it writes: ``mqtt://BROKER/TOPIC``, a topic of Kafka, or a directory.

``flow(shape, source)`` is one of the dataflows of ``riotbench_flows.json``, seven shapes for each of three sources. They are
constructed: the paper on reuse does not publish its 21. A task is one operator of the dataflow. Beside tasks there are sorts
before those that need an order, merges before those that read several others, and what gives :class:`DistinctApproxCount` all
sensors under one key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from examples.riotbench_messages import (
    Annotate,
    Bloom,
    BloomFilterCheck,
    CsvToSenML,
    Interpolation,
    Join,
    Observation,
    RangeFilter,
    SenMLParse,
    Statistic,
)
from examples.riotbench_sources import DOMAINS, Domain, Field, Message
from examples.riotbench_statistics import (
    BlockWindowAverage,
    DecisionTreeClassify,
    DistinctApproxCount,
    ErrorEstimation,
    KalmanFilter,
    MultiLinePlot,
    MultiVarLinearRegression,
    Sighting,
    SlidingLinearRegression,
)
from tracetypes import UNIT, Dataflow, U, Unit, every, json_lines, merge, sort
from tracetypes.stdlib import filter, map

FLOWS: Mapping[str, Any] = json.loads(Path(__file__).with_name("riotbench_flows.json").read_text())
"""The shapes and sources."""

TASKS: tuple[type[Any], ...] = (
    SenMLParse,
    RangeFilter,
    BloomFilterCheck,
    Interpolation,
    Join,
    Annotate,
    CsvToSenML,
    BlockWindowAverage,
    KalmanFilter,
    SlidingLinearRegression,
    DistinctApproxCount,
    MultiLinePlot,
    DecisionTreeClassify,
    MultiVarLinearRegression,
    ErrorEstimation,
)
"""With the three sources and ``MQTTPublish`` these are 19 types."""


def place(one: Observation) -> tuple[int, int]:
    """The order of observations."""
    return one.id, one.place


def turn(one: Statistic) -> tuple[int, str, str]:
    """The order of statistics: averages come before the predictions of the same message."""
    return one.id, one.task, one.about

def is_first(sensor: str, one: Observation) -> bool:
    """Whether an observation is the first of its message."""
    return one.place == 0


def sighting(sensor: str, one: Observation) -> tuple[str, Sighting]:
    """That a sensor has sent a message, under one key for all sensors."""
    return "*", Sighting(one.id, one.at, sensor)


@cache
def tasks_of(domain: Domain) -> dict[str, Any]:
    """The tasks of a source, with its parameters."""
    behind = (Field(domain.sensor, "string"), *domain.fields, *domain.annotations)
    about = domain.kinds[domain.target]
    known = {one: ",".join(f"{field.name}{at % 3}" for field in domain.annotations) for at, one in enumerate(domain.sensors)}
    return {
        "SenMLParse": SenMLParse(domain.sensor, domain.kinds),
        "RangeFilter": RangeFilter(domain.ranges),
        "BloomFilterCheck": BloomFilterCheck(Bloom.of(domain.sensors, domain.false_positives)),
        "Interpolation": Interpolation(domain.interpolated, domain.interpolation_window),
        "Join": Join(domain.kinds),
        "Annotate": Annotate(known),
        "CsvToSenML": CsvToSenML(behind),
        "BlockWindowAverage": BlockWindowAverage(domain.averaged, domain.average_window),
        "KalmanFilter": KalmanFilter(domain.estimated, domain.process_noise, domain.sensor_noise, domain.estimated_error),
        "SlidingLinearRegression": SlidingLinearRegression(domain.regression_window, domain.horizon),
        "DistinctApproxCount": DistinctApproxCount(domain.buckets),
        "MultiLinePlot": MultiLinePlot(domain.plotted),
        "DecisionTreeClassify": DecisionTreeClassify(domain.tree, domain.target),
        "MultiVarLinearRegression": MultiVarLinearRegression(domain.weights, domain.intercept, domain.target, about),
        "ErrorEstimation": ErrorEstimation(about),
    }


ORDERS: Mapping[str, Any] = {
    "Interpolation": place,
    "BlockWindowAverage": place,
    "KalmanFilter": place,
    "MultiLinePlot": turn,
    "ErrorEstimation": turn,
}
"""The order in which a task reads, where what it reads has none."""


def _time(message: Message) -> int:
    return message.at


def flow(shape: str, source: str) -> Dataflow:
    """A dataflow of ``riotbench_flows.json``: ``flow("stats", "GRID")``."""
    domain = DOMAINS[source]
    tasks = tasks_of(domain)
    pairs = dict.fromkeys(pair for path in FLOWS["shapes"][shape] for pair in pairwise(path))
    graph = Dataflow(f"{shape}-{source}".lower())
    markers = every(seconds=1, time=_time)
    streams: dict[str, Any] = {
        "Source": graph.source("messages", U[Unit, Message], key=lambda message: UNIT, markers=markers, format=json_lines())
    }

    def stream(name: str) -> Any:
        if name in streams:
            return streams[name]
        above = [stream(up) for up, down in pairs if down == name]
        read = above[0] if len(above) == 1 else merge(*above)
        if name == "MQTTPublish":
            return graph.sink("mqtt", read, marker="until")
        if name == "DistinctApproxCount":
            read = read.through(filter(is_first)).through(map(sighting))
        if name in ORDERS:
            read = read.through(sort(by=ORDERS[name]))
        streams[name] = read.through(tasks[name])
        return streams[name]

    stream("MQTTPublish")
    return graph
