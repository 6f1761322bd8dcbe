"""A small workflow of the papers' kind, for tests: sensors, areas, hot areas, an index."""

import math
import random
from collections.abc import Iterator, Mapping, Sequence

from tracetypes.compiler.gates.learned.steps import Tolerance, Values
from tracetypes.compiler.gates.learned.workflow import WorkflowStep
from tracetypes.impacts import relative_error, relative_magnitude


def same(value: float) -> float:
    return value


def sensors(waves: int, seed: int, side: int = 6) -> Iterator[Mapping[str, Values]]:
    """Hours of days: each sensor follows the hour and its place, with some noise."""
    generator = random.Random(seed)
    for hour in range(waves):
        level = 50 - 45 * math.cos(2 * math.pi * hour / 24)
        yield {
            "sensors": {
                (x, y): max(0.0, level * (0.6 + 0.4 * math.sin((x + y) / side)) + generator.gauss(0, 2))
                for x in range(side)
                for y in range(side)
            }
        }


def areas(sensors: Values) -> Values:
    members: dict[tuple[int, int], list[float]] = {}
    for (x, y), value in sensors.items():
        members.setdefault((x // 2, y // 2), []).append(value)
    return {area: math.fsum(values) / len(values) for area, values in members.items()}


def hot(areas: Values) -> Values:
    return {area: max(0.0, value - 30.0) for area, value in areas.items()}


def index(hot: Values) -> Values:
    return {"index": 1 + math.fsum(hot.values()) / len(hot) / 7}


def workflow(bound: float, *, accumulates: bool = False) -> Sequence[WorkflowStep]:
    gate = Tolerance(bound, relative_magnitude(same), relative_error(same), accumulates)
    return [
        WorkflowStep("areas", ("sensors",), gate, compute=areas),
        WorkflowStep("hot", ("areas",), compute=hot),
        WorkflowStep("index", ("hot",), gate, compute=index),
    ]
