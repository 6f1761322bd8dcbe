"""Gates that learn for Linear Road: in front of steps 3a, 3b, 4 and 5a.

``flow(learned_bounds(0.1))`` is the dataflow to train, ``flow(learned_bounds(0.1, model))`` the one that saves executions.
"""

from __future__ import annotations

from math import exp, fsum
from typing import Any

from examples.linear_road import AREA, Area, Bounds, Fact, Segment, congestion
from tracetypes.bounds import Group, Impact, Rows
from tracetypes.impacts import Variation, magnitude, relative_error, relative_magnitude, root_mean_square
from tracetypes.learned_gates import Model, feature, learned


def crowd(cars: float) -> float:
    """The toll of so many cars, if they are slow."""
    return 2 * max(cars - 50, 0.0) ** 2


def slowness(speed: float) -> float:
    """The congestion of a speed, but gradual where it changes."""
    return fsum(1 / (1 + exp(min((speed - limit) / 2, 500.0))) for limit in (40, 55))


def in_area(at: Segment) -> Area:
    """The area of a segment."""
    return Area(at.xway, at.direction, at.number // AREA)


def fact_area(fact: Fact) -> Area:
    """The area of the segment of a fact."""
    return in_area(fact.at)


def is_speed(fact: Fact) -> bool:
    """Is it a speed?"""
    return fact.kind == "speed"


def is_count(fact: Fact) -> bool:
    """Is it a number of cars?"""
    return fact.kind == "cars"


def is_accident(fact: Fact) -> bool:
    """Is it an accident?"""
    return fact.kind == "accident"


MANY: Variation[float, Any] = root_mean_square(scale=50.0)
"""Numbers of cars differ, in units of the number at which tolls begin (equation 4)."""


def speed_features(column: str, rows: Rows | None, by: Group) -> list[Impact]:
    """What changes of speeds mean for segments and their areas."""
    congested: Variation[float, Any] = relative_error(congestion)
    return [
        feature(relative_error(), column, rows=rows),
        feature(congested, column, rows=rows),
        feature(relative_magnitude(), column, rows=rows, by=by),
        feature(congested, column, rows=rows, by=by),
        feature(magnitude(slowness), column, rows=rows, by=by),
    ]


def car_features(column: str, rows: Rows | None) -> list[Impact]:
    """What changes of numbers of cars mean for tolls."""
    return [feature(one, column, rows=rows) for one in (MANY, magnitude(crowd), relative_error(crowd))]


def learned_bounds(error: float, model: Model | None = None, *, before: float | None = None) -> Bounds:
    """Gates that learn. ``before``: the error of the steps before the last one, if it is another.

    The error of 3b is measured by equation 4. By equation 3 a fourth car on an empty mile would be as much as 25 more in a queue
    of 100, and the number of cars differs by more than a tenth from minute to minute whatever the step does.
    """
    inner = error if before is None else before
    cars, speeds = car_features("cars", None), speed_features("speed", None, in_area)
    minutes = [*cars, *speeds, feature(relative_error(), ("speed", "cars"))]
    facts = [
        *car_features("level", is_count),
        *speed_features("level", is_speed, fact_area),
        feature(relative_error(), "level"),
        feature(magnitude(), "level", rows=is_accident),
    ]
    return Bounds(
        speeds=learned("speeds", error=inner, columns="speed", features=minutes, model=model),
        cars=learned("cars", error=inner, columns="cars", variation=MANY, features=minutes, model=model),
        tolls=learned("tolls", error=inner, columns="level", features=facts, model=model),
        areas=learned("areas", error=error, columns="speed", features=speeds, model=model),
    )
