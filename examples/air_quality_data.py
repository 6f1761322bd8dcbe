"""Seeded readings of detectors of air quality on a grid: the workload of Flux and of SmartFlux.

    python -m examples.air_quality_data DIR --side 50 --waves 168 --tendency rising --files N --seed S

Writes ``DIR/part-NNNNN.parquet``. ``side * side`` detectors stand on a square of 100 x 100 units, each with a sensor for
ozone, one for dust (PM2.5) and one for nitrogen dioxide. A reading is a number from 0 to 100 of a function that is smooth in
space and time: a level, a swing of a day, and ``PLUMES`` clouds that drift over the square. There are three tendencies: the
level rises, falls, or is the same all the time. Each hour is a wave: a random part of the detectors, drawn evenly from nobody
to all, sees a change and reports; in the first wave all do. (The papers do not say how many report. This is what fits their
figure 9: if a step waits for reports of 25 or 80 % of the detectors, it runs in 78 and 45 % of the waves; published are 80
and 48 %.)

All these numbers were chosen before any gate ran on the data.
"""

from __future__ import annotations

import argparse
import os
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

Tendency = Literal["rising", "falling", "uniform"]
TENDENCIES: tuple[Tendency, ...] = ("rising", "falling", "uniform")

WAVES = 168
"""Hours of a week."""

AREA = 100.0
"""Units of a side of the square."""

LEVELS = {"rising": (5.0, 45.0), "falling": (45.0, 5.0), "uniform": (20.0, 20.0)}
"""The level of all sensors at the beginning and at the end."""

SWING, NOISE, PLUMES = 6.0, 1.5, 5
"""Of a day, up and down; of a sensor, the standard deviation; clouds of each pollutant."""


def table(*, side: int = 50, waves: int = WAVES, tendency: Tendency = "uniform", seed: int = 1) -> Any:
    """A table of Arrow: ``x`` and ``y`` of the detector, the hour, and three numbers. In the order of the hours."""
    import numpy as np
    import pyarrow as pa

    chance = np.random.default_rng([seed, TENDENCIES.index(tendency)])
    grid = (np.arange(side) + 0.5) * AREA / side
    x, y = (axis.ravel() for axis in np.meshgrid(grid, grid))
    shape = 3, PLUMES
    at, drift = chance.random((2, *shape)) * AREA, chance.normal(0, 0.5, (2, *shape))
    size, strength = chance.uniform(8, 25, shape), chance.uniform(20, 60, shape)
    begin, end = LEVELS[tendency]
    parts: list[dict[str, Any]] = []
    for wave in range(waves):
        share = 1.0 if wave == 0 else chance.random()
        reports = np.flatnonzero(chance.random(side * side) < share)
        level = begin + (end - begin) * wave / WAVES + SWING * np.sin(2 * np.pi * wave / 24)
        readings = []
        for sensor in range(3):
            clouds = np.zeros(len(reports))
            for cloud in range(PLUMES):
                cx, cy = (at[:, sensor, cloud] + drift[:, sensor, cloud] * wave) % AREA
                away = (x[reports] - cx) ** 2 + (y[reports] - cy) ** 2
                clouds += strength[sensor, cloud] * np.exp(-away / (2 * size[sensor, cloud] ** 2))
            readings.append(np.clip(level + clouds + chance.normal(0, NOISE, len(reports)), 0, 100).round(2))
        place = {"x": reports % side, "y": reports // side, "hour": np.full(len(reports), wave)}
        parts.append(place | dict(zip(("ozone", "dust", "dioxide"), readings, strict=True)))
    return pa.table({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


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


COLOURS = ((0, 104, 55), (166, 217, 106), (255, 255, 191), (253, 174, 97), (215, 48, 39), (128, 0, 38))
"""From clean to dirty."""


def png(rows: Iterable[Sequence[float]]) -> bytes:
    """A picture of numbers from 0 to 100, a pixel each, green to red."""
    colours = [COLOURS[min(int(number * len(COLOURS) / 100), len(COLOURS) - 1)] for number in range(101)]
    lines = [bytes(part for number in row for part in colours[int(number)]) for row in rows]

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", len(lines[0]) // 3, len(lines), 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + line for line in lines))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--side", type=int, default=50, help="detectors on a side of the square")
    parser.add_argument("--waves", type=int, default=WAVES, help="hours")
    parser.add_argument("--tendency", choices=TENDENCIES, default="uniform")
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = vars(parser.parse_args())
    write(options.pop("directory"), **options)


if __name__ == "__main__":
    main()
