"""Fire risk of a forest, the scenario of SmartFlux (there figure 2), with gates in front of the steps that tolerate error.

    python -m examples.forest_fire_data DIR --side 30
    tracetypes run examples/forest_fire.py:ungated --input readings=DIR --output thermal=OUT/thermal --output forest=OUT/forest \\
        --output orders=OUT/orders

* 1: what sensors read in a wave, as means of each sensor. It is executed at each wave.
* 2a: the weather of an area of ``SIDE * SIDE`` sensors: the means of all.
* 2b: a thermal map, as a picture.
* 3: the fire risk of an area, from 0 to 100, and whether it is so hot that it may be on fire.
* 4a: the risk of the forest, the mean of all areas, and groups of areas side by side whose risk is at least ``HIGH``.
* 4b: a satellite image of each area that may be on fire.
* 5: an order to the fire department, if the image confirms the fire.

Steps 4b and 5 tolerate no error, so there is no gate in front of them: they follow each execution of step 3. The image is made
up: ``burning`` says which areas burn, and from which wave on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import fsum
from typing import TypeVar

import attrs

from examples.air_quality import Cell, Level, chart
from examples.forest_fire_data import PERIOD
from tracetypes import UNIT, Dataflow, EmitValue, O, OpKeyedOrdered, Stream, U, Unit, every, sort
from tracetypes.gates import Bound
from tracetypes.stdlib import aggregate, collect, enrich, filter, map, map_values, mean, struct

SIDE, HOT, HIGH = 5, 40.0, 40.0
"""Sensors on a side of an area; degrees at which it may be on fire; a high risk."""


@attrs.frozen
class Reading:
    """What a sensor reads: seconds, degrees Celsius, mm an hour, km an hour."""

    x: int
    y: int
    second: int
    temperature: float
    precipitation: float
    wind: float


@attrs.frozen
class Weather:
    """Means."""

    temperature: float
    precipitation: float
    wind: float


@attrs.frozen
class Sensor:
    """A sensor with its weather."""

    x: int
    y: int
    weather: Weather


@attrs.frozen
class Risk:
    """Of an area: the risk, and its temperature."""

    level: float
    temperature: float


@attrs.frozen
class Forest:
    """The mean risk, how many groups of areas have a high risk, and how many areas the largest one has."""

    risk: float
    groups: int
    largest: int


@attrs.frozen
class Bounds:
    """When each step is worth its execution. None: at each wave."""

    areas: Bound | None = None
    thermal: Bound | None = None
    risks: Bound | None = None
    forest: Bound | None = None


def zero(_: object) -> int:
    """No order: a step has at most one value of a cell in a block."""
    return 0


def temperature(reading: Reading) -> float:
    """Degrees Celsius."""
    return reading.temperature


WEATHER = struct(
    Weather, temperature=mean(temperature), precipitation=mean(lambda one: one.precipitation), wind=mean(lambda one: one.wind)
)
"""Step 1."""

V = TypeVar("V")


def in_front(step: str, stream: Stream[U[Cell, V]], bound: Bound | None) -> Stream[O[Cell, V]]:
    """The gate of a step: the latest value of each cell that has changed."""
    return stream.through(sort(by=zero)) if bound is None else stream.latest(bound, latest_by=zero, name=step)


def to_area(cell: Cell, weather: Weather) -> tuple[Cell, Sensor]:
    """A sensor by its area."""
    return Cell(cell.x // SIDE, cell.y // SIDE), Sensor(cell.x, cell.y, weather)


@attrs.frozen
class Area(OpKeyedOrdered[Cell, list[Sensor], Weather, dict[tuple[int, int], Weather]]):
    """Step 2a: the last weather of each sensor, and the means of all."""

    def initial_state(self) -> dict[tuple[int, int], Weather]:
        return {}

    def on_item(
        self, state: dict[tuple[int, int], Weather], key: Cell, value: list[Sensor], emit: EmitValue[Weather]
    ) -> dict[tuple[int, int], Weather]:
        latest = {**state, **{(sensor.x, sensor.y): sensor.weather for sensor in value}}
        sums = (fsum(getattr(one, name) for one in latest.values()) for name in ("temperature", "precipitation", "wind"))
        emit(Weather(*(one / len(latest) for one in sums)))
        return latest


def warmth(weather: Weather) -> Level:
    """From 0 to 100, for the colours of the map."""
    return Level(min(2 * weather.temperature, 100.0))


def risk(weather: Weather) -> Risk:
    """Step 3: warm, dry and windy is dangerous; each millimetre of rain takes away 10."""
    level = 2 * (weather.temperature - 15) + weather.wind - 10 * weather.precipitation
    return Risk(min(max(level, 0.0), 100.0), weather.temperature)


def groups(cells: Iterable[tuple[int, int]]) -> list[int]:
    """The sizes of groups of cells that lie side by side."""
    left, sizes = set(cells), []
    while left:
        pending, size = [left.pop()], 0
        while pending:
            (x, y), size = pending.pop(), size + 1
            beside = left & {(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)}
            left -= beside
            pending += beside
        sizes.append(size)
    return sizes


@attrs.frozen
class Place:
    """An area with its risk."""

    x: int
    y: int
    level: float


def to_forest(cell: Cell, one: Risk) -> tuple[Unit, Place]:
    """An area beside the others."""
    return UNIT, Place(cell.x, cell.y, one.level)


@attrs.frozen
class Overview(OpKeyedOrdered[Unit, list[Place], Forest, dict[tuple[int, int], float]]):
    """Step 4a: the last risk of each area."""

    def initial_state(self) -> dict[tuple[int, int], float]:
        return {}

    def on_item(
        self, state: dict[tuple[int, int], float], key: Unit, value: list[Place], emit: EmitValue[Forest]
    ) -> dict[tuple[int, int], float]:
        risks = {**state, **{(area.x, area.y): area.level for area in value}}
        sizes = groups(place for place, level in risks.items() if level >= HIGH)
        emit(Forest(fsum(risks.values()) / len(risks), len(sizes), max(sizes, default=0)))
        return risks


@attrs.frozen
class Image:
    """What a satellite sees of an area. ``fire``: the first wave of its fire, None if it sees none."""

    temperature: float
    fire: int | None


def image(one: Risk, fire: int | None) -> Image:
    """Step 4b."""
    return Image(one.temperature, fire)


def flow(bounds: Bounds = Bounds(), side: int = 30, burning: Mapping[Cell, int] | None = None) -> Dataflow:
    """The dataflow for a forest of ``side * side`` sensors. ``burning``: the areas that burn, with the first wave."""
    graph = Dataflow("forest-fire")
    readings = graph.source(
        "readings", U[Cell, Reading], key=lambda reading: Cell(reading.x, reading.y),
        markers=every(seconds=PERIOD, time=lambda reading: reading.second),
    )
    weather = readings.through(aggregate(WEATHER))
    by_area = in_front("2a", weather, bounds.areas).through(map(to_area)).through(aggregate(collect())).through(sort(by=len))
    warm = in_front("2b", weather, bounds.thermal).through(map_values(warmth))
    risks = in_front("3", by_area.through(Area()), bounds.risks).through(map_values(risk))
    places = in_front("4a", risks, bounds.forest).through(map(to_forest)).through(aggregate(collect())).through(sort(by=len))
    hot = risks.through(filter(lambda _, one: one.temperature >= HOT))
    images = hot.through(enrich(burning or {}, by=lambda cell, _: cell, combine=image, how="left"))
    graph.sink("thermal", chart(warm, side), marker="at")
    graph.sink("forest", places.through(Overview()), marker="at")
    graph.sink("orders", images.through(filter(lambda _, image: image.fire is not None)), marker="at")
    return graph


ungated = flow()
