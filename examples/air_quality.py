"""Air quality of a city: the application of Flux (there figure 6) and of SmartFlux, with gates in front of its steps.

    python -m examples.air_quality_data DIR --side 50 --tendency rising
    tracetypes run examples/air_quality.py:ungated --input readings=DIR --output chart=OUT/chart --output index=OUT/index

``flow(Bounds(c=sequence(percent=20)), side=50)`` puts a gate in front of step C; a step without a bound is executed at each wave.
``flow(learned_bounds(0.1))`` puts learned gates in front of C, E and F.

* A: readings of detectors that see a change, each hour.
* B: the concentration of a detector, from 0 to 100: the geometric mean of its three sensors, a multiplicative model.
* C: the concentration of a zone: the geometric mean of the detectors at most 2 away from its centre. A zone is as its detector.
* D: the map: points between four detectors have their average. A picture for each execution.
* E: hot spots, the zones with a concentration of at least ``REFERENCE``. What is written is the concentration, 0 of a zone that
  is no hot spot any more. With ``value(percent=20, columns="hot")`` step F waits until as many zones have become or ceased to be
  hot spots as are 20 % of the hot spots at its last execution.
* F: the index, from 1 to 11: 1, and 5 for the share of hot spots, and 5 for their average concentration, each in proportion.

In front of a step the gate hands the latest value of each changed key on. Steps work on what has changed, so a detector that has
not reported costs nothing; in logarithms the geometric mean of a zone changes by a sum. That is rounded in another order than a
mean of all, so answers equal a recount to about 12 digits.
"""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import TypeAlias

import attrs

from examples.air_quality_data import png
from tracetypes import UNIT, Dataflow, EmitValue, O, OpKeyedOrdered, Stream, U, Unit, every, sort
from tracetypes.algebra import ExactSum
from tracetypes.gates import Bound
from tracetypes.impacts import Variation, net_change, relative_error
from tracetypes.learned_gates import Model, feature, learned
from tracetypes.stdlib import aggregate, collect, filter, flat_map, map, map_values, running, struct, sum

HOUR, REACH, REFERENCE = 3_600, 2, 50.0
"""Seconds; detectors from the centre of a zone; the concentration of a hot spot."""


@attrs.frozen
class Cell:
    """A detector, and the zone around it."""

    x: int
    y: int


@attrs.frozen
class Reading:
    """What a detector measures in an hour, each from 0 to 100."""

    x: int
    y: int
    hour: int
    ozone: float
    dust: float
    dioxide: float


@attrs.frozen
class Bounds:
    """When each step is worth its execution. None: at each wave."""

    c: Bound | None = None
    d: Bound | None = None
    e: Bound | None = None
    f: Bound | None = None


@attrs.frozen
class Level:
    """A concentration. ``hot``: 1 of a hot spot."""

    level: float
    hot: int = 0


@attrs.frozen
class Change:
    """What a number was, 0 at first, and is."""

    before: float
    now: float


@attrs.frozen
class Changes(OpKeyedOrdered[Cell, Level, Change, float]):
    """The changes of a level."""

    def initial_state(self) -> float:
        return 0.0

    def on_item(self, state: float, key: Cell, value: Level, emit: EmitValue[Change]) -> float:
        if value.level != state:
            emit(Change(state, value.level))
        return value.level


def in_front(step: str, stream: Stream[U[Cell, Level]], bound: Bound | None) -> Stream[O[Cell, Level]]:
    """The gate of a step: the latest levels. A step has at most one level of a cell in a block, so any order is theirs."""
    return stream.through(sort(by=zero)) if bound is None else stream.latest(bound, latest_by=zero, name=step)


def zero(_: Level) -> int:
    """No order."""
    return 0


def combined(reading: Reading) -> Level:
    """Step B. A sensor that reads nothing counts as 0.01, the least that it can tell."""
    return Level((max(reading.ozone, 0.01) * max(reading.dust, 0.01) * max(reading.dioxide, 0.01)) ** (1 / 3))


def zones(levels: Stream[O[Cell, Level]], side: int) -> Stream[U[Cell, Level]]:
    """Step C."""
    steps = range(-REACH, REACH + 1)

    def around(cell: Cell, change: Change) -> list[tuple[Cell, float]]:
        by = math.log(change.now) - (math.log(change.before) if change.before > 0 else 0.0)
        return [(Cell(cell.x + dx, cell.y + dy), by) for dx, dy in product(steps, steps)]

    def mean(cell: Cell, total: float) -> tuple[Cell, Level]:
        width = min(cell.x + REACH, side - 1) - max(cell.x - REACH, 0) + 1
        height = min(cell.y + REACH, side - 1) - max(cell.y - REACH, 0) + 1
        return cell, Level(math.exp(total / (width * height)))

    changes = levels.through(Changes()).through(flat_map(around))
    inside = changes.through(filter(lambda cell, _: 0 <= cell.x < side and 0 <= cell.y < side))
    return inside.through(running(sum(to=float))).through(map(mean))


@attrs.frozen
class Spot:
    """A detector with its concentration."""

    x: int
    y: int
    level: float


@attrs.frozen
class Chart:
    """The map: a picture in PNG, a pixel for each point, and the average of all points."""

    png: bytes
    average: float


@attrs.frozen
class Map(OpKeyedOrdered[Unit, list[Spot], Chart, dict[tuple[int, int], float]]):
    """The last concentration of each detector, and the points between them."""

    side: int

    def initial_state(self) -> dict[tuple[int, int], float]:
        return {}

    def on_item(
        self, state: dict[tuple[int, int], float], key: Unit, value: list[Spot], emit: EmitValue[Chart]
    ) -> dict[tuple[int, int], float]:
        levels = {**state, **{(spot.x, spot.y): spot.level for spot in value}}
        grid = [[levels.get((x, y), 0.0) for x in range(self.side)] for y in range(self.side)]
        points = [
            [(a + b + c + d) / 4 for a, b, c, d in zip(upper, upper[1:], lower, lower[1:], strict=False)]
            for upper, lower in pairwise(grid)
        ]
        emit(Chart(png(points), math.fsum(one for row in points for one in row) / (self.side - 1) ** 2))
        return levels


def chart(levels: Stream[U[Cell, Level]], side: int) -> Stream[O[Unit, Chart]]:
    """Step D."""
    spots = levels.through(map(lambda cell, one: (UNIT, Spot(cell.x, cell.y, one.level)), to=tuple[Unit, Spot]))
    return spots.through(aggregate(collect())).through(sort(by=len)).through(Map(side))


@attrs.frozen
class HotSpots(OpKeyedOrdered[Cell, Level, Level, float]):
    """Step E."""

    def initial_state(self) -> float:
        return 0.0

    def on_item(self, state: float, key: Cell, value: Level, emit: EmitValue[Level]) -> float:
        level = value.level if value.level >= REFERENCE else 0.0
        if level != state:
            emit(Level(level, int(level > 0)))
        return level


@attrs.frozen
class Hot:
    """How many hot spots there are, and the sum of their concentrations."""

    zones: int
    levels: float


def more_zones(change: Change) -> int:
    """1 of a new hot spot, -1 of one that is none any more."""
    return (1 if change.now > 0 else 0) - (1 if change.before > 0 else 0)


HOT = struct(Hot, zones=sum(more_zones), levels=sum(lambda change: change.now - change.before, to=float))


def index(levels: Stream[O[Cell, Level]], side: int) -> Stream[U[Unit, float]]:
    """Step F."""

    def rated(hot: Hot) -> float:
        average = hot.levels / hot.zones if hot.zones > 0 else 0.0
        return 1 + 5 * hot.zones / side**2 + 5 * average / 100

    together = levels.through(Changes()).through(map(lambda _, change: (UNIT, change), to=tuple[Unit, Change]))
    return together.through(running(HOT)).through(map_values(rated))


def hot(level: float) -> float:
    """The level of a hot spot, 0 of any other zone."""
    return level if level >= REFERENCE else 0.0


def is_hot(level: float) -> float:
    """1 of a hot spot."""
    return float(level >= REFERENCE)


Spots: TypeAlias = tuple[int, ExactSum, int, ExactSum]
"""How many hot spots there are and the sum of their levels, now and before."""


@attrs.frozen
class Rating(Variation[float, Spots]):
    """How much the index would change, relatively, if the elements were zones, and those that did not change were not hot."""

    def process_element(self, current: float, previous: float | None) -> Spots:
        before = previous or 0.0
        return int(is_hot(current)), ExactSum.of(hot(current)), int(is_hot(before)), ExactSum.of(hot(before))

    def identity(self) -> Spots:
        return 0, ExactSum(), 0, ExactSum()

    def aggregate(self, a: Spots, b: Spots) -> Spots:
        return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]

    def compute(self, agg: Spots, modified: int, total: int) -> float:
        now, before = (
            1 + 5 * zones / total + 5 * (levels.value() / zones if zones else 0.0) / 100 for zones, levels in (agg[:2], agg[2:])
        )
        return abs(now - before) / now


def district(cell: Cell) -> tuple[int, int]:
    """Sixteen detectors beside each other: the noise of one counts little in their mean."""
    return cell.x // 4, cell.y // 4


def learned_bounds(error: float, model: Model | None = None) -> Bounds:
    """Gates that learn: which detectors and zones are hot, how many, and what that does to the index."""
    spots = [
        feature(relative_error(hot), "level"),
        feature(net_change(is_hot), "level"),
        feature(net_change(hot), "level"),
        feature(Rating(), "level"),
    ]
    districts = [feature(relative_error(hot), "level", by=district), feature(Rating(), "level", by=district)]
    return Bounds(
        c=learned("zones", error=error, columns="level", features=[*spots, *districts], model=model),
        e=learned("hot spots", error=error, columns="level", features=spots, model=model),
        f=learned("index", error=error, columns="level", features=spots, model=model),
    )


def flow(bounds: Bounds = Bounds(), side: int = 50) -> Dataflow:
    """The dataflow for a grid of ``side * side`` detectors."""
    graph = Dataflow("air-quality")
    readings = graph.source(
        "readings", U[Cell, Reading], key=lambda reading: Cell(reading.x, reading.y),
        markers=every(seconds=HOUR, time=lambda reading: reading.hour * HOUR),
    )
    levels = readings.through(map_values(combined))
    spots = in_front("E", zones(in_front("C", levels, bounds.c), side), bounds.e).through(HotSpots())
    graph.sink("chart", chart(in_front("D", levels, bounds.d), side), marker="at")
    graph.sink("hot_spots", spots, marker="at")
    graph.sink("index", index(in_front("F", spots, bounds.f), side), marker="at")
    return graph


ungated = flow()
