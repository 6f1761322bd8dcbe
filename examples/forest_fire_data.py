"""Seeded weather of a forest with fires: sensors on a grid, as in figures 2 and 3 of SmartFlux.

    python -m examples.forest_fire_data DIR --side 30 --waves 192 --fires 3 --files N --seed S

Writes ``DIR/part-NNNNN.parquet``. A sensor stands in each cell of a forest of ``side * side`` cells. Every ``PERIOD`` seconds
is a wave, in which each sensor reads temperature (degrees Celsius), precipitation (mm an hour) and wind (km an hour)
``READS`` times. All follow the hours of a day in the rain forest: it is hottest at two o'clock, it rains in the late
afternoon, and the wind blows by day. A fire begins at some wave in some cell and heats it, and less its neighbours, for
``BURNS`` waves.

All these numbers were chosen before any gate ran on the data.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import attrs

PERIOD, READS, BURNS = 900, 2, 24
"""Seconds of a wave; readings of a sensor in a wave; waves of a fire."""

HEAT = 80.0
"""Degrees by which a fire heats its cell; a cell ``d`` cells away is heated by ``HEAT / (1 + d * d)``."""

DAY = 86_400 // PERIOD
"""Waves of a day."""


@attrs.frozen
class Fire:
    """A cell that burns from a wave on."""

    x: int
    y: int
    wave: int


def fires_of(*, side: int = 30, waves: int = 2 * DAY, fires: int = 3, seed: int = 1) -> list[Fire]:
    """Where it burns, and when it began."""
    import numpy as np

    chance = np.random.default_rng([seed, 0])
    return [Fire(*(int(one) for one in chance.integers(0, (side, side, max(waves - 4, 1))))) for _ in range(fires)]


def table(*, side: int = 30, waves: int = 2 * DAY, fires: int = 3, seed: int = 1) -> Any:
    """A table of Arrow: ``x`` and ``y`` of the sensor, the second, and three numbers, in the order of time."""
    import numpy as np
    import pyarrow as pa

    chance = np.random.default_rng([seed, 1])
    burning = fires_of(side=side, waves=waves, fires=fires, seed=seed)
    x, y = (axis.ravel() for axis in np.meshgrid(np.arange(side), np.arange(side)))
    slope = 3 * np.sin(x / side * np.pi) - 2 * y / side  # the forest is not everywhere as warm
    columns: dict[str, list[Any]] = {name: [] for name in ("x", "y", "second", "temperature", "precipitation", "wind")}
    for wave in range(waves):
        hour = wave % DAY / DAY * 24
        now = [one for one in burning if one.wave <= wave < one.wave + BURNS]
        heat = sum((HEAT / (1 + (x - one.x) ** 2 + (y - one.y) ** 2) for one in now), np.zeros(side**2))
        rain = 6 * np.exp(-((hour - 17) ** 2) / 3)
        for read in range(READS):
            noise = chance.normal(0, 1, (3, side**2))
            columns["x"].append(x)
            columns["y"].append(y)
            columns["second"].append(np.full(side**2, wave * PERIOD + read * PERIOD // READS))
            warm = 27 + 5 * np.cos((hour - 14) / 24 * 2 * np.pi) - rain / 3
            columns["temperature"].append((warm + slope + heat + 0.3 * noise[0]).round(2))
            columns["precipitation"].append(np.maximum(rain + 0.2 * noise[1] - 0.2, 0).round(2))
            columns["wind"].append(np.maximum(8 + 6 * np.sin((hour - 8) / 24 * 2 * np.pi) + noise[2], 0).round(2))
    return pa.table({name: np.concatenate(parts) for name, parts in columns.items()})


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
    parser.add_argument("--side", type=int, default=30, help="sensors on a side of the forest")
    parser.add_argument("--waves", type=int, default=2 * DAY)
    parser.add_argument("--fires", type=int, default=3)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = vars(parser.parse_args())
    write(options.pop("directory"), **options)


if __name__ == "__main__":
    main()
