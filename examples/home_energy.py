"""Data-trace types, section 6, "Smart Homes": the average load of each type of device, second by second (DEBS 2014).

    tracetypes run examples/home_energy.py:flow --backend spark --parallelism 4 --input readings=FILE --output averages=DIR
    python -m examples.home_energy FILE      # writes a seeded FILE of the same schema to try it on

A row is a measurement of a smart plug: timestamp (s), value, property (0: work in kWh, 1: load in W), plug, household, house.
Types of devices are not public: ``device_of`` makes them up from the numbers of a plug.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from operator import attrgetter, truediv
from pathlib import Path
from typing import NamedTuple

from tracetypes import Dataflow, O, Stream, U, Unit, csv, every, sort
from tracetypes.stdlib import both, count, fast_sum, flat_map, interpolate, key_by, max, struct, time_window

DEVICES = ("air conditioner", "fridge", "heater", "lamp", "screen", "washer")
KEPT = frozenset(DEVICES) - {"screen"}
MAX_GAP = 10
"""Seconds: a longer silence is an outage and is not filled in."""


class Measurement(NamedTuple):
    """A row of the file."""

    timestamp: int
    value: float
    property: int
    plug: int
    household: int
    house: int


class Plug(NamedTuple):
    """A plug is unique within its household, a household within its house."""

    house: int
    household: int
    plug: int


class Load(NamedTuple):
    """Watts at a second."""

    ts: int
    watts: float


class Average(NamedTuple):
    """Average watts over so many loads at a second."""

    ts: int
    watts: float
    loads: int


def device_of(plug: Plug) -> str:
    """The type of device behind a plug."""
    return DEVICES[(plug.house * 31 + plug.household * 7 + plug.plug) % len(DEVICES)]


def join_filter_map(_: Unit, row: Measurement) -> Iterator[tuple[Plug, Load]]:
    """Keep the loads of some types of devices, keyed by plug."""
    plug = Plug(row.house, row.household, row.plug)
    if row.property == 1 and device_of(plug) in KEPT:
        yield plug, Load(row.timestamp, row.value)


second: Callable[[Load], int] = attrgetter("ts")
watts: Callable[[Load], float] = attrgetter("watts")


def average(readings: Stream[U[Unit, Measurement]]) -> Stream[O[str, Average]]:
    """JFM, SORT, LI, Map, SORT, AVG. Loads are filled in for every second between two of a plug, so a load that comes behind a
    marker may be ``MAX_GAP - 1`` seconds older; each second is averaged once, when no load can come for it any more."""
    loads = readings.through(flat_map(join_filter_map))
    fill_in = interpolate(time=second, number=watts, make=lambda _, ts, watts: Load(ts, watts), max_gap=MAX_GAP)
    filled = loads.through(sort(by=second)).through(fill_in)
    by_device = filled.through(key_by(lambda plug, _: device_of(plug), to=str)).through(sort(by=second))
    mean = both(fast_sum(watts), count(), truediv, to=float)
    each = struct(Average, ts=max(second, to=int), watts=mean, loads=count())
    return by_device.through(time_window(each, size=1, time=second, grace=MAX_GAP - 1))


flow = Dataflow("home-energy")
readings = flow.source(
    "readings",
    U[Unit, Measurement],
    markers=every(seconds=10, time=lambda m: m.timestamp),
    format=csv(separator=None, columns=["timestamp", "value", "property", "plug", "household", "house"]),
)
flow.sink("averages", average(readings))


def generate(seconds: int = 84, plugs: int = 470, seed: int = 1) -> Iterator[Measurement]:
    """Measurements of the shape of the real ones: a load and a work value about every two seconds and plug, with gaps,
    with several values in one second, and in the order of their timestamps."""
    chance = random.Random(seed)
    level = [chance.choice([0.0, 5.0, 60.0, 400.0, 2000.0]) for _ in range(plugs)]
    for second in range(1377986401, 1377986401 + seconds):
        for n in range(plugs):
            for _ in range(chance.choice([0, 0, 1, 1, 1, 2] if n % 17 else [0, 0, 0, 1])):
                place = (n % 12, n // 12 % 5, n // 60)
                yield Measurement(second, round(level[n] * chance.uniform(0.8, 1.2), 3), 1, *place)
                yield Measurement(second, round(second % 10_000 / 100 + n, 2), 0, *place)


def write(path: Path, seconds: int = 84, plugs: int = 470, seed: int = 1) -> int:
    """Write generated measurements as the flow reads them; how many."""
    rows = list(generate(seconds, plugs, seed))
    path.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    return len(rows)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "readings.txt")
    print(f"{write(target):,} measurements in {target}")
