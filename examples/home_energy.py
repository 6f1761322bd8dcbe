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
from pathlib import Path

import attrs

from tracetypes import Dataflow, Marker, OpKeyedOrdered, OpStateless, U, Unit, csv, every, sort

DEVICES = ("air conditioner", "fridge", "heater", "lamp", "screen", "washer")
KEPT = frozenset(DEVICES) - {"screen"}
MAX_GAP = 10
"""Seconds: a longer silence is an outage and is not filled in."""


@attrs.frozen
class Measurement:
    """A row of the file."""

    timestamp: int
    value: float
    property: int
    plug: int
    household: int
    house: int


@attrs.frozen
class Plug:
    """A plug is unique within its household, a household within its house."""

    house: int
    household: int
    plug: int


@attrs.frozen
class Load:
    """Watts at a second."""

    ts: int
    watts: float


@attrs.frozen
class Average:
    """Average watts over so many loads at a second; a later one for the same second replaces it."""

    ts: int
    watts: float
    loads: int


def device_of(plug: Plug) -> str:
    """The type of device behind a plug."""
    return DEVICES[(plug.house * 31 + plug.household * 7 + plug.plug) % len(DEVICES)]


@attrs.frozen
class JoinFilterMap(OpStateless[Unit, Measurement, Plug, Load]):
    """Keep the loads of some types of devices, keyed by plug."""

    devices: frozenset[str]

    def on_item(self, key: Unit, value: Measurement, emit: Callable[[Plug, Load], None]) -> None:
        plug = Plug(value.house, value.household, value.plug)
        if value.property == 1 and device_of(plug) in self.devices:
            emit(plug, Load(value.timestamp, value.value))


@attrs.frozen
class LinearInterpolation(OpKeyedOrdered[Plug, Load, Load, Load | None]):
    """A load for every second between two loads of a plug."""

    def initial_state(self) -> Load | None:
        return None

    def on_item(self, state: Load | None, key: Plug, value: Load, emit: Callable[[Load], None]) -> Load:
        gap = 0 if state is None else value.ts - state.ts
        if state is None or gap > MAX_GAP:
            emit(value)
            return value
        for i in range(1, gap + 1):
            emit(Load(state.ts + i, state.watts + i * (value.watts - state.watts) / gap))
        return value


@attrs.frozen
class DeviceType(OpStateless[Plug, Load, str, Load]):
    """From plugs to types of devices."""

    def on_item(self, key: Plug, value: Load, emit: Callable[[str, Load], None]) -> None:
        emit(device_of(key), value)


Sums = tuple[dict[int, tuple[float, int]], set[int]]
"""Sum and number of the loads of each second, and the seconds that got loads since the last marker."""


@attrs.frozen
class AveragePerSecond(OpKeyedOrdered[str, Load, Average, Sums]):
    """At each marker the average of every second that got loads since the last one.

    A plug's loads for the last seconds before a marker may come after it (the gap is filled in only when the next load
    is there), so sums are kept for a minute. The order of the stream makes the float sums the same at any parallelism.
    """

    def initial_state(self) -> Sums:
        return {}, set()

    def on_item(self, state: Sums, key: str, value: Load, emit: Callable[[Average], None]) -> Sums:
        sums, touched = state
        total, loads = sums.get(value.ts, (0.0, 0))
        sums[value.ts] = (total + value.watts, loads + 1)
        touched.add(value.ts)
        return state

    def on_marker(self, state: Sums, key: str, marker: Marker, emit: Callable[[Average], None]) -> Sums:
        sums, touched = state
        for ts in sorted(touched):
            total, loads = sums[ts]
            emit(Average(ts, total / loads, loads))
        return {ts: one for ts, one in sums.items() if ts >= marker.timestamp - 60}, set()


flow = Dataflow("home-energy")
readings = flow.source(
    "readings",
    U[Unit, Measurement],
    markers=every(seconds=10, time=lambda m: m.timestamp),
    format=csv(separator=None, columns=["timestamp", "value", "property", "plug", "household", "house"]),
)
loads = readings.through(JoinFilterMap(KEPT), parallelism=2)
filled = loads.through(sort(by=lambda v: v.ts)).through(LinearInterpolation())
by_device = filled.through(DeviceType()).through(sort(by=lambda v: v.ts))
flow.sink("averages", by_device.through(AveragePerSecond()))


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
    rows = [attrs.astuple(m) for m in generate(seconds, plugs, seed)]
    path.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    return len(rows)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "readings.txt")
    print(f"{write(target):,} measurements in {target}")
