"""Seeded traffic of Linear Road: cars on expressways that report their position every 30 seconds, with a daily pattern.

    python -m examples.linear_road_data DIR --waves 1440 --segments 10 --cars 1800 --files N --seed S

Writes ``DIR/part-NNNNN.parquet`` with the 15 columns of the benchmark. A wave is a minute. ``cars`` enter in an average half
hour, in either direction, more in the rush hours of the morning and the evening. They leave some miles later. The more cars
are in a segment, the slower they go. Now and then two cars stop in one place for some minutes, and those behind them go
slowly. One report in ``ASKS`` is also a query for the time and cost of a journey (type 4). Left out: queries for balances
(types 2 and 3), which need a history.

All these numbers were chosen before any gate ran on the data.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

COLUMNS = (
    *("type", "time", "vid", "speed", "xway", "lane", "direction", "segment", "position"),
    *("qid", "origin", "destination", "weekday", "minute", "day"),
)
"""The fields of a report in their published order, under names that say what they are."""

MILE = 5_280
"""Feet of a segment."""

TICK, STOPS, ASKS = 30, 16, 100
"""Seconds between two reports of a car; ticks for which an accident lasts; a report in so many asks."""

BEGIN = 6
"""The hour at which the first wave begins."""

CRASHES = 0.004
"""The chance of an accident in a tick and direction."""


def table(
    *,
    waves: int = 1_440,
    segments: int = 10,
    cars: int = 1_800,
    begin: float = BEGIN,
    crashes: float = CRASHES,
    seed: int = 1,
) -> Any:
    """A table of Arrow, in the order of time. ``segments``: miles of the expressway. ``begin``: the hour of the first wave.
    ``crashes``: the chance of an accident in a tick and direction."""
    import numpy as np
    import pyarrow as pa

    chance = np.random.default_rng(seed)
    length = segments * MILE
    parts: list[Any] = []
    # A row for each car: number, direction, feet from its beginning, where it leaves, second of the tick, lane, ticks to stand.
    fleet = np.empty((0, 7), np.int64)
    number = 0
    for tick in range(2 * waves):
        hour = (begin + tick * TICK / 3_600) % 24
        rush = 0.4 + 1.2 * np.exp(-((hour - 8) ** 2) / 2) + 1.2 * np.exp(-((hour - 18) ** 2) / 3)
        new = int(chance.poisson(cars * TICK / 1_800 * rush))
        enters = chance.integers(0, length * 3 // 4, new)
        entering = [
            number + 1 + np.arange(new),
            chance.integers(0, 2, new),
            enters,
            enters + chance.integers(MILE, length, new),
            chance.integers(0, TICK, new),
            chance.integers(1, 4, new),
            np.zeros(new, np.int64),
        ]
        number += new
        fleet = np.concatenate([fleet, np.stack(entering, axis=1)])
        fleet = fleet[fleet[:, 2] < np.minimum(fleet[:, 3], length)]
        place = fleet[:, 1] * segments + fleet[:, 2] // MILE
        crowd = np.bincount(place, minlength=2 * segments)
        speed = 70 * (1 - crowd[place] / 110) + chance.normal(0, 4, len(fleet))
        for direction in range(2):
            moving = np.flatnonzero((fleet[:, 1] == direction) & (fleet[:, 6] == 0))
            if len(moving) > 1 and chance.random() < crashes:
                first = chance.choice(moving)
                second = moving[np.argsort(np.abs(fleet[moving, 2] - fleet[first, 2]), kind="stable")[1]]
                fleet[second, [2, 3, 5]] = fleet[first, [2, 3, 5]]
                fleet[[first, second], 6] = STOPS
        still = fleet[:, 6] > 0
        for direction, feet in {(int(one[1]), int(one[2])) for one in fleet[still]}:
            behind = (fleet[:, 1] == direction) & (fleet[:, 2] <= feet) & (fleet[:, 2] > feet - 2 * MILE)
            speed[behind] = np.minimum(speed[behind], 15)
        speed = np.where(still, 0, np.clip(speed, 18, 100)).astype(np.int64)
        position = np.where(fleet[:, 1] == 0, fleet[:, 2], length - 1 - fleet[:, 2])
        asks = chance.integers(0, ASKS, len(fleet)) == 0
        journey = np.sort(chance.integers(0, segments, (2, len(fleet))), axis=0)
        none = np.full(len(fleet), -1)
        columns = [
            *(np.zeros(len(fleet), np.int64), tick * TICK + fleet[:, 4], fleet[:, 0], speed, np.zeros(len(fleet), np.int64)),
            *(fleet[:, 5], fleet[:, 1], position // MILE, position, none, none, none, none, none, none),
        ]
        reports = np.stack(columns, axis=1)
        queries = reports[asks].copy()
        queries[:, 0] = 4
        queries[:, 9] = tick * 1_000_000 + np.arange(len(queries))
        queries[:, 10:12] = journey.T[asks]
        both = np.concatenate([reports, queries])
        parts.append(both[np.argsort(both[:, 1], kind="stable")])
        fleet[:, 2] += speed * 44  # feet in 30 s at one mile an hour
        fleet[:, 6] = np.maximum(fleet[:, 6] - 1, 0)
    whole = np.concatenate(parts)
    return pa.table({name: pa.array(whole[:, n]) for n, name in enumerate(COLUMNS)})


def write(directory: Path, *, files: int = 4, **options: Any) -> None:
    """Write a table. ``options``: those of :func:`table`."""
    import pyarrow.parquet as pq

    whole = table(**options)
    directory.mkdir(parents=True, exist_ok=True)
    for n in range(files):
        begin, end = whole.num_rows * n // files, whole.num_rows * (n + 1) // files
        path = directory / f"part-{n:05d}.parquet"
        pq.write_table(whole.slice(begin, end - begin), path)
        os.utime(path, (n + 1, n + 1))  # files are taken in the order of these times


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--waves", type=int, default=1_440, help="minutes")
    parser.add_argument("--segments", type=int, default=10, help="miles of the expressway")
    parser.add_argument("--cars", type=int, default=1_800, help="cars that enter in an average half hour")
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = vars(parser.parse_args())
    write(options.pop("directory"), **options)


if __name__ == "__main__":
    main()
